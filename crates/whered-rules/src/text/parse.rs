//! Reads the own format: statements, chains, rules and their actions.
//!
//! For: turning tokens into a ruleset, and every mistake into a problem with its place.
//! Not for: conditions, which `tests_of_rule` beside this file reads.
//!
//! Invariants: a function that returns `Err(Skip)` has noted the problem; the caller goes on with
//! the next line.
//! Concurrency: pure. Cost: linear.

use std::sync::Arc;

use super::lex::{Kind, Token, split};
use crate::error::{Problems, RulesError};
use crate::model::{
    Action, AddressItem, ChainId, Changes, Counters, Hook, Rule, Ruleset, RulesetBuilder, Verdict,
};
use crate::names::parse_number;
use crate::packet::Family;

/// A problem was noted; the rest of the line is to be skipped.
pub(super) struct Skip;

/// The result of a reading step.
pub(super) type Step<T> = Result<T, Skip>;

/// Reads a ruleset in the own format; `file` is the name that problems and rules carry.
///
/// # Errors
///
/// All problems of the text (up to a hundred), each with line and column.
pub fn read(file: &str, text: &str) -> Result<Ruleset, RulesError> {
    let name: Arc<str> = file.into();
    let mut problems = Problems::new(&name);
    let tokens = split(text.strip_prefix('\u{feff}').unwrap_or(text), &mut problems);
    let mut parser = Parser { tokens, at: 0, problems, builder: RulesetBuilder::new(file) };
    parser.file();
    if parser.problems.is_empty() {
        return parser.builder.build();
    }
    // What the whole shows (unknown chains, circles) is of use only beside what the lines show if
    // no line was lost; a lost line may have been the missing chain.
    parser.problems.finish()?;
    parser.builder.build()
}

/// Reads one rule by itself, for a ruleset whose chains it may call; `file` is the name that
/// problems carry. Chain and origin are for the caller to set.
///
/// # Errors
///
/// The problems of the text, with line and column.
pub fn read_rule(file: &str, text: &str, of: &Ruleset) -> Result<Rule, RulesError> {
    let mut problems = Problems::new(&file.into());
    let tokens = split(text, &mut problems);
    let builder = RulesetBuilder::with_chains_of(file, of);
    let mut parser = Parser { tokens, at: 0, problems, builder };
    // A rule that was noted as wrong is told below.
    if parser.rule(of.entry()).is_ok() && parser.peek().kind != Kind::FileEnd {
        let _noted: Step<()> = parser.refuse("one rule");
    }
    parser.problems.finish()?;
    parser.builder.into_rule()
}

pub(super) struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
    pub(super) problems: Problems,
    builder: RulesetBuilder,
}

impl<'t> Parser<'t> {
    /// The next token; the end of the file is never passed.
    pub(super) fn peek(&self) -> &Token<'t> {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    pub(super) fn next(&mut self) -> Token<'t> {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    /// Takes the next token if it is this word, mark or operator.
    pub(super) fn takes(&mut self, text: &str) -> bool {
        let taken = self.peek().is(text);
        self.at += usize::from(taken);
        taken
    }

    /// Notes that the next token is none of what is allowed.
    pub(super) fn refuse<T>(&mut self, allowed: &str) -> Step<T> {
        let token = self.peek().clone();
        self.refuse_token(&token, allowed)
    }

    pub(super) fn refuse_token<T>(&mut self, token: &Token<'_>, allowed: &str) -> Step<T> {
        self.problems.found(token.line, token.column, token.shown(), allowed);
        Err(Skip)
    }

    pub(super) fn demand(&mut self, text: &str) -> Step<()> {
        if self.takes(text) { Ok(()) } else { self.refuse(text) }
    }

    /// A word or a quoted text.
    pub(super) fn name(&mut self, allowed: &str) -> Step<Token<'t>> {
        match self.peek().kind {
            Kind::Word => Ok(self.next()),
            Kind::Quoted if !self.peek().text.is_empty() => Ok(self.next()),
            _ => self.refuse(allowed),
        }
    }

    pub(super) fn word(&mut self, allowed: &str) -> Step<Token<'t>> {
        if self.peek().kind == Kind::Word { Ok(self.next()) } else { self.refuse(allowed) }
    }

    fn skip_line(&mut self) {
        while !matches!(self.peek().kind, Kind::LineEnd | Kind::FileEnd) {
            self.at += 1;
        }
    }

    fn line_end(&mut self) -> Step<()> {
        match self.peek().kind {
            Kind::FileEnd => Ok(()),
            Kind::LineEnd => {
                self.at += 1;
                Ok(())
            }
            _ => self.refuse("end of line"),
        }
    }

    fn skip_line_ends(&mut self) {
        while self.peek().kind == Kind::LineEnd {
            self.at += 1;
        }
    }

    fn file(&mut self) {
        loop {
            self.skip_line_ends();
            if self.peek().kind == Kind::FileEnd {
                return;
            }
            if self.statement().is_err() {
                self.skip_line();
            }
        }
    }

    fn statement(&mut self) -> Step<()> {
        const ALLOWED: &str = "ruleset, family, entry, set or chain";
        let token = self.word(ALLOWED)?;
        match &*token.text {
            "ruleset" => {
                let name = self.name("a name")?;
                self.builder.set_name(&name.text);
                self.line_end()
            }
            "family" => {
                let family = self.family()?;
                self.builder.set_family(Some(family));
                self.line_end()
            }
            "entry" => {
                let name = self.name("a chain's name")?;
                self.builder.set_entry(&name.text);
                self.line_end()
            }
            "set" => self.set(token.line),
            "chain" => self.chain(token.line),
            _ => self.refuse_token(&token, ALLOWED),
        }
    }

    pub(super) fn family(&mut self) -> Step<Family> {
        let token = self.word("ipv4 or ipv6")?;
        match &*token.text {
            "ipv4" => Ok(Family::Ipv4),
            "ipv6" => Ok(Family::Ipv6),
            _ => self.refuse_token(&token, "ipv4 or ipv6"),
        }
    }

    fn set(&mut self, line: u32) -> Step<()> {
        let name = self.name("a set's name")?;
        let elements = if self.takes("live") { None } else { Some(self.set_elements()?) };
        if let Err(error) = self.builder.declare_set(&name.text, elements, line) {
            self.problems.extend(error);
        }
        self.line_end()
    }

    /// `{ ... }` over any number of lines; a wrong element does not hide the next one.
    fn set_elements(&mut self) -> Step<Vec<AddressItem>> {
        let open = self.peek().clone();
        if !self.takes("{") {
            return self.refuse("live or { addresses }");
        }
        let mut elements = Vec::new();
        loop {
            self.skip_line_ends();
            if self.takes("}") {
                return Ok(elements);
            }
            if self.takes(",") {
                continue;
            }
            match self.peek().kind {
                Kind::Word => {
                    if let Ok(element) = self.address() {
                        elements.push(element);
                    }
                }
                Kind::FileEnd => {
                    return self.refuse_token(&open, "a closing } before the end of the file");
                }
                _ => {
                    let _noted: Step<()> = self.refuse("an address, a prefix, a range or }");
                    self.at += 1;
                }
            }
        }
    }

    fn chain(&mut self, line: u32) -> Step<()> {
        let name = self.name("a chain's name")?;
        let header = self.chain_header();
        let (policy, counters, hook) = match header {
            Ok(parts) => parts,
            Err(Skip) => {
                // The rules are still worth reading, for their own mistakes.
                self.skip_line();
                (None, None, None)
            }
        };
        let chain = match self.builder.declare_chain(&name.text, policy, counters, line) {
            Ok(chain) => chain,
            Err(error) => {
                self.problems.extend(error);
                self.builder.chain_id(&name.text, line)
            }
        };
        if let Some(hook) = hook {
            self.builder.set_hook(chain, hook);
        }
        self.rules(chain, &name)
    }

    /// `[ policy verdict ] [ hook name ] [ counters ] {` and the end of the line.
    fn chain_header(&mut self) -> Step<(Option<Verdict>, Option<Counters>, Option<Hook>)> {
        let mut policy = None;
        if self.takes("policy") {
            const ALLOWED: &str = "accept, drop, reject or continue";
            let token = self.word(ALLOWED)?;
            policy = Some(match &*token.text {
                "accept" => Verdict::Accept,
                "drop" => Verdict::Drop,
                "reject" => Verdict::Reject { with: self.reject_with()? },
                "continue" => Verdict::Continue,
                _ => return self.refuse_token(&token, ALLOWED),
            });
        }
        let mut hook = None;
        if self.takes("hook") {
            const ALLOWED: &str =
                "ingress, prerouting, input, forward, output, postrouting or egress";
            let token = self.word(ALLOWED)?;
            hook = Hook::named(&token.text);
            if hook.is_none() {
                return self.refuse_token(&token, ALLOWED);
            }
        }
        let counters = self.counters()?;
        if !self.takes("{") {
            return self.refuse("policy or {");
        }
        self.line_end()?;
        Ok((policy, counters, hook))
    }

    fn rules(&mut self, chain: ChainId, name: &Token<'_>) -> Step<()> {
        loop {
            self.skip_line_ends();
            if self.takes("}") {
                return self.line_end();
            }
            let next = self.peek();
            // Nobody writes a chain within a chain: the brace before it is missing.
            if next.kind == Kind::FileEnd || next.is("chain") {
                let next = next.clone();
                self.problems.found(
                    next.line,
                    next.column,
                    next.shown(),
                    &format!("a rule, or the }} that closes chain {:?}", &*name.text),
                );
                return Ok(());
            }
            if self.rule(chain).is_err() {
                self.skip_line();
            }
        }
    }

    /// `[12:3400]`, if it is next.
    fn counters(&mut self) -> Step<Option<Counters>> {
        let token = self.peek().clone();
        if token.kind != Kind::Word || !token.text.starts_with('[') {
            return Ok(None);
        }
        self.at += 1;
        match read_counters(&token.text) {
            Some(counters) => Ok(Some(counters)),
            None => self.refuse_token(&token, "counters as [packets:bytes]"),
        }
    }

    fn rule(&mut self, chain: ChainId) -> Step<()> {
        let line = self.peek().line;
        let counters = self.counters()?;
        let mut conditions = Vec::new();
        let action = loop {
            if let Some(action) = self.action()? {
                break action;
            }
            let condition = self.condition()?;
            conditions.push(condition);
        };
        let mut comment = None;
        if self.takes("comment") {
            if self.peek().kind != Kind::Quoted {
                return self.refuse("a comment in double quotes");
            }
            comment = Some(self.next().text.into_owned());
        }
        self.line_end()?;
        self.builder.add_rule(chain, line, conditions, action, counters, comment);
        Ok(())
    }

    /// An action, if one is next.
    fn action(&mut self) -> Step<Option<Action>> {
        let token = self.peek().clone();
        if token.kind != Kind::Word {
            return Ok(None);
        }
        self.at += 1;
        let action = match &*token.text {
            "accept" => Action::Accept,
            "drop" => Action::Drop,
            "return" => Action::Return,
            "continue" => Action::Continue,
            "queue" => Action::Queue,
            "also" => {
                let mut changes = Changes::Nothing;
                if self.takes("changes") {
                    self.demand("mark")?;
                    changes = Changes::Mark;
                }
                if self.peek().kind != Kind::Quoted {
                    return self.refuse("a target in double quotes");
                }
                Action::Other { target: Arc::from(&*self.next().text), changes }
            }
            "reject" => Action::Reject { with: self.reject_with()? },
            "site" => Action::Site(self.shared_name("a site's name")?),
            "log" => self.log()?,
            "set-mark" => {
                let (value, mask) = self.mark("a mark, as 1, 0x10 or 0x10/0xff")?;
                Action::SetMark { value, mask }
            }
            "jump" | "goto" => {
                let name = self.name("a chain's name")?;
                let target = self.builder.chain_id(&name.text, name.line);
                if token.text == "jump" { Action::Jump(target) } else { Action::Goto(target) }
            }
            _ => {
                self.at -= 1;
                return Ok(None);
            }
        };
        Ok(Some(action))
    }

    fn shared_name(&mut self, allowed: &str) -> Step<Arc<str>> {
        Ok(Arc::from(&*self.name(allowed)?.text))
    }

    fn reject_with(&mut self) -> Step<Option<Arc<str>>> {
        if !self.takes("with") {
            return Ok(None);
        }
        self.shared_name("how to tell the sender, as icmp-port-unreachable").map(Some)
    }

    fn log(&mut self) -> Step<Action> {
        let mut prefix = None;
        let mut level = None;
        if self.peek().kind == Kind::Quoted {
            prefix = Some(Arc::from(&*self.next().text));
        }
        if self.takes("level") {
            level = Some(self.shared_name("a level, as warning")?);
        }
        Ok(Action::Log { prefix, level })
    }

    /// `value` or `value/mask`; without a mask all bits count.
    pub(super) fn mark(&mut self, allowed: &str) -> Step<(u32, u32)> {
        let token = self.word(allowed)?;
        let (value, mask) = match token.text.split_once('/') {
            Some((value, mask)) => (parse_number(value), parse_number(mask)),
            None => (parse_number(&token.text), Some(u32::MAX)),
        };
        match (value, mask) {
            (Some(value), Some(mask)) => Ok((value, mask)),
            _ => self.refuse_token(&token, allowed),
        }
    }
}

/// `[packets:bytes]`.
pub(crate) fn read_counters(text: &str) -> Option<Counters> {
    let (packets, bytes) = text.strip_prefix('[')?.strip_suffix(']')?.split_once(':')?;
    let number = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if plain { text.parse::<u64>().ok() } else { None }
    };
    Some(Counters { packets: number(packets)?, bytes: number(bytes)? })
}
