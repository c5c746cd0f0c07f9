//! Reads targets: verdicts, chains, and what is done to a packet besides.
//!
//! For: everything behind `-j` and `-g`. Not for: where it is written again (`write`).
//!
//! A target that neither decides nor changes what rules look at is kept as it was written. One that
//! decides by what it finds becomes several [`Step`]s: SYNPROXY takes SYN and ACK packets, TPROXY
//! lets a packet pass if a socket listens, and drops it if not.
//! Concurrency: pure. Cost: linear.

use std::sync::Arc;

use super::rule::{RuleReader, Word, Wrong, joined, unsupported, wrong};
use crate::model::{Action, Changes, Condition, RulesetBuilder, Test, Uncertain};

/// Targets that let the packet go on.
pub(super) const PASSING: &[&str] = &[
    "ACCOUNT",
    "AUDIT",
    "CHECKSUM",
    "CLASSIFY",
    "CONNMARK",
    "CONNSECMARK",
    "CT",
    "DHCPMAC",
    "DSCP",
    "ECN",
    "FLOWOFFLOAD",
    "HL",
    "HMARK",
    "IDLETIMER",
    "IMQ",
    "IPMARK",
    "IPV4OPTSSTRIP",
    "LED",
    "LOGMARK",
    "NFLOG",
    "NOTRACK",
    "PROTO",
    "RATEEST",
    "SECMARK",
    "SET",
    "TCPMSS",
    "TCPOPTSTRIP",
    "TEE",
    "TOS",
    "TRACE",
    "TTL",
    "ULOG",
];

/// Targets that drop every packet, whatever they answer its sender.
const DROPPING: &[&str] = &["CHAOS", "DELUDE", "ECHO", "MIRROR", "STEAL", "TARPIT"];

/// One thing that a rule does, for packets that meet further conditions.
pub(crate) type Step = (Vec<Condition>, Action);

/// The steps of a target that ends the way of packets by what it finds; `None` for another target.
///
/// The text is the target as it was written.
pub(crate) fn deciding(target: &str, text: &str) -> Option<Vec<Step>> {
    let flags = |compare| vec![Condition::is(Test::TcpFlags { mask: 0x17, compare })];
    let uncertain = |kind: &str, text: &str| {
        let test = Uncertain { kind: Arc::from(kind), text: Arc::from(text) };
        vec![Condition::is(Test::Uncertain(test))]
    };
    let decides = match target {
        // The kernel answers a SYN itself. An ACK opens the connection or is thrown away.
        "SYNPROXY" => vec![(flags(0x02), Action::Drop), (flags(0x10), Action::Drop)],
        "TPROXY" => {
            let listens = uncertain("TPROXY", "a socket takes the packet");
            vec![(listens, Action::Accept), (Vec::new(), Action::Drop)]
        }
        "RTPENGINE" => vec![(uncertain("RTPENGINE", "a call takes the packet"), Action::Drop)],
        "CLUSTERIP" => {
            vec![(uncertain("CLUSTERIP", "another node answers the sender"), Action::Drop)]
        }
        name if DROPPING.contains(&name) => vec![(Vec::new(), Action::Drop)],
        _ => return None,
    };
    let itself = Action::Other { target: Arc::from(text), changes: Changes::Nothing };
    Some([(Vec::new(), itself)].into_iter().chain(decides).collect())
}

fn is_deciding(target: &str) -> bool {
    DROPPING.contains(&target) || ["SYNPROXY", "TPROXY", "CLUSTERIP", "RTPENGINE"].contains(&target)
}

/// Whether a target lets the packet go on.
pub(crate) fn passes(target: &str) -> bool {
    PASSING.contains(&target)
}

impl RuleReader<'_> {
    pub(super) fn target(
        &mut self,
        name: &Word,
        goto: bool,
        builder: &mut RulesetBuilder,
        number: u32,
    ) -> Result<Vec<Step>, Wrong> {
        let is_chain = (self.context.is_chain)(&name.text);
        if is_chain || goto || !is_deciding(&name.text) {
            return Ok(vec![(Vec::new(), self.action(name, goto, builder, number)?)]);
        }
        let options = self.options();
        let words = [name.text.as_str()].into_iter().chain(options.iter().map(String::as_str));
        Ok(deciding(&name.text, &joined(words)).unwrap_or_default())
    }

    fn action(
        &mut self,
        name: &Word,
        goto: bool,
        builder: &mut RulesetBuilder,
        number: u32,
    ) -> Result<Action, Wrong> {
        if (self.context.is_chain)(&name.text) {
            let chain = builder.chain_id(&name.text, number);
            return Ok(if goto { Action::Goto(chain) } else { Action::Jump(chain) });
        }
        if goto {
            return Err(wrong(name, "a chain of this table"));
        }
        match name.text.as_str() {
            "ACCEPT" => Ok(Action::Accept),
            "DROP" => Ok(Action::Drop),
            "RETURN" => Ok(Action::Return),
            "REJECT" => {
                let with = self.text_option("--reject-with")?;
                Ok(Action::Reject { with })
            }
            "QUEUE" | "NFQUEUE" => {
                self.options();
                Ok(Action::Queue)
            }
            "LOG" => self.log(),
            "MARK" => self.mark_target(),
            known if PASSING.contains(&known) => {
                let options = self.options();
                let restores = known == "CONNMARK" && options.iter().any(|o| o == "--restore-mark");
                // IPMARK and HMARK compute marks of addresses.
                let marks = restores || ["IPMARK", "HMARK"].contains(&known);
                let changes = if marks { Changes::Mark } else { Changes::Nothing };
                let words = [known].into_iter().chain(options.iter().map(String::as_str));
                Ok(Action::Other { target: Arc::from(joined(words)), changes })
            }
            _ => Err(unsupported(
                name,
                "-j",
                "ACCEPT, DROP, REJECT, RETURN, LOG, MARK, another target that can be expressed \
                 (docs/guide/rules.md) or a chain of this table",
            )),
        }
    }

    fn log(&mut self) -> Result<Action, Wrong> {
        let (mut prefix, mut level) = (None, None);
        loop {
            if let Some(text) = self.text_option("--log-prefix")? {
                prefix = Some(text);
            } else if let Some(text) = self.text_option("--log-level")? {
                level = Some(text);
            } else if self.peek().is_some_and(|word| word.text.starts_with("--log-")) {
                // What else is written down of the packet.
                self.at += 1;
            } else {
                return Ok(Action::Log { prefix, level });
            }
        }
    }

    /// The value of an option, if that is next.
    fn text_option(&mut self, option: &str) -> Result<Option<Arc<str>>, Wrong> {
        if self.peek().is_none_or(|word| word.text != option) {
            return Ok(None);
        }
        self.at += 1;
        let value = self.next("a value")?;
        if value.text.is_empty() && option != "--log-prefix" {
            return Err(wrong(&value, "a value that is not empty"));
        }
        Ok(Some(Arc::from(value.text)))
    }

    fn mark_target(&mut self) -> Result<Action, Wrong> {
        let option = self.next("--set-xmark and a mark")?;
        let (value, mask) = match option.text.as_str() {
            "--set-xmark" => self.value_and_mask()?,
            // Sets the bits of the value and clears the other masked ones.
            "--set-mark" => {
                let (value, mask) = self.value_and_mask()?;
                (value, mask | value)
            }
            "--and-mark" => (0, !self.value_and_mask()?.0),
            "--or-mark" => {
                let bits = self.value_and_mask()?.0;
                (bits, bits)
            }
            "--xor-mark" => (self.value_and_mask()?.0, 0),
            _ => {
                return Err(wrong(
                    &option,
                    "--set-mark, --set-xmark, --and-mark, --or-mark or --xor-mark",
                ));
            }
        };
        Ok(Action::SetMark { value, mask })
    }
}
