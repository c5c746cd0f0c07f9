//! The network namespace: a link, a set, and rules that ask it.
//!
//! Not for: a namespace that somebody else uses; [`prepare`] takes over whatever it runs in.

use std::fs;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

/// Our own address there.
pub(super) const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Packets to this port must never pass.
pub(super) const PROBED_PORT: u16 = 9;
/// Packets to this port are questions.
pub(super) const ASKED_PORT: u16 = 10;

/// A link whose other end nobody uses.
const LINK: &str = "\
ip link add probe type veth peer name other
ip address add 198.18.0.1/24 dev probe
ip link set probe up
ip link set other up
ip neighbour add 198.18.0.2 lladdr 02:00:00:00:00:02 dev probe
ip route add default via 198.18.0.2
";

const NFT_RULES: &str = "\
add table inet probe
add set inet probe listed { type ipv4_addr; flags interval, timeout; }
add chain inet probe out { type filter hook output priority 0; policy accept; }
add rule inet probe out udp dport 9 ip daddr @listed counter drop
add rule inet probe out udp dport 9 counter accept
add rule inet probe out udp dport 10 ip daddr @listed drop
";

const IPSET_RULES: &str = "\
*filter
-A OUTPUT -p udp --dport 9 -m set --match-set listed dst -j DROP
-A OUTPUT -p udp --dport 9 -j ACCEPT
-A OUTPUT -p udp --dport 10 -m set --match-set listed dst -j DROP
COMMIT
";

/// Which kind of set is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A set of nf_tables.
    Nft,
    /// An ipset, asked by iptables.
    Ipset,
}

impl Kind {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Nft => "nft",
            Kind::Ipset => "ipset",
        }
    }

    /// How the program under test is told.
    pub(super) fn target(self) -> &'static str {
        match self {
            Kind::Nft => "nft:inet/probe/listed",
            Kind::Ipset => "ipset:listed",
        }
    }
}

/// Whether this process has another network namespace than the one that started it, as after
/// `unshare -n`.
///
/// # Errors
///
/// If the system does not tell.
pub fn is_private() -> Result<bool, String> {
    let namespace = |process: &str| {
        let path = format!("/proc/{process}/ns/net");
        fs::read_link(&path).map_err(|error| format!("{path}: {error}"))
    };
    let parent = std::os::unix::process::parent_id().to_string();
    Ok(namespace("self")? != namespace(&parent)?)
}

/// Makes link, set and rules.
pub(super) fn prepare(kind: Kind) -> Result<(), String> {
    run("sh", &["-e"], LINK)?;
    match kind {
        Kind::Nft => run("nft", &["-f", "-"], NFT_RULES).map(drop),
        Kind::Ipset => {
            run("ipset", &["create", "listed", "hash:net", "timeout", "0"], "")?;
            run("iptables-restore", &[], IPSET_RULES).map(drop)
        }
    }
}

/// How many probes the rule has let through that stands behind the set's.
pub(super) fn slipped(kind: Kind) -> Result<u64, String> {
    let (text, behind) = match kind {
        Kind::Nft => {
            let rules = run("nft", &["list", "chain", "inet", "probe", "out"], "")?;
            (rules, "accept")
        }
        Kind::Ipset => (run("iptables-save", &["-c"], "")?, "-j ACCEPT"),
    };
    let line = text.lines().find(|line| line.contains("dport 9") && line.contains(behind));
    let line = line.ok_or("the probes' rule is gone")?;
    // nft: counter packets N bytes M; iptables: [N:M] at the beginning.
    let words = line.split(|letter: char| !letter.is_ascii_alphanumeric());
    let mut words = words
        .filter(|word| !word.is_empty())
        .skip_while(|word| kind == Kind::Nft && *word != "packets");
    let count = if kind == Kind::Nft { words.nth(1) } else { words.next() };
    let count = count.and_then(|count| count.parse().ok());
    count.ok_or_else(|| format!("no counter in '{}'", line.trim()))
}

fn run(program: &str, arguments: &[&str], input: &str) -> Result<String, String> {
    let fail = |error: std::io::Error| format!("the program '{program}': {error}");
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(fail)?;
    if let Some(mut pipe) = child.stdin.take() {
        // A program that does not read its input closes it.
        let _closed = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(fail)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("{program}: {}", words.split_whitespace().collect::<Vec<_>>().join(" ")))
}
