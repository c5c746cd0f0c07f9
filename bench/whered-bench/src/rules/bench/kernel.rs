//! The kernel's own rules and sets on the ruleset of 2007: what a packet costs as N grows.
//!
//! For: iptables (legacy), nft, ipset and nft's sets, in a network namespace of this thread's own.
//! Not for: anything but Linux with root; elsewhere the reason is told and the measurement is left
//! out.
//!
//! ```text
//! thread ── unshare ──► own namespace: lo up ──► rules loaded ──► sends counted by processor time
//! ```
//!
//! Packets are UDP to 127.0.0.1 port 80, and the last rule drops them in OUTPUT instead of
//! accepting, so that a packet's way ends there: what is measured is one `sendto` that the rules
//! refuse, and every one must be refused. The row `last rule only` has the first and the last part
//! with nothing between.

use super::Options;
use super::rounds::{Row, Table};
use super::seed;
use crate::measure::thread_cpu_nanoseconds;
use crate::sets::Prefix4;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Command, Stdio};

/// The sizes that are measured.
pub(super) const SIZES: [usize; 6] = [16, 64, 256, 1024, 4096, 16_384];

/// Ways to state the N addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    None,
    Iptables,
    Nft,
    Ipset,
    NftSet,
}

impl Way {
    const ALL: [Way; 5] = [Way::None, Way::Iptables, Way::Nft, Way::Ipset, Way::NftSet];

    fn name(self) -> &'static str {
        match self {
            Way::None => "last rule only",
            Way::Iptables => "iptables rules",
            Way::Nft => "nft rules",
            Way::Ipset => "iptables and ipset",
            Way::NftSet => "nft set",
        }
    }
}

/// Measures one size, or says why not.
pub(super) fn measure(options: &Options, count: usize) -> Result<Table, String> {
    let prefixes = seed::addresses(count, options.seed);
    let rows =
        in_own_namespace(|sender| in_namespace(&sender.socket, &prefixes, options.rounds.min(5)))?;
    let note = "One refused `sendto` over all parts of the ruleset, nanoseconds of processor time.";
    Ok(Table { note: note.to_owned(), entries: count, rows, ..Table::default() })
}

/// Where packets are sent.
pub(super) struct Sender {
    pub(super) socket: UdpSocket,
}

/// Does something in a network namespace of its own.
pub(super) fn in_own_namespace<T: Send>(
    work: impl FnOnce(&Sender) -> Result<T, String> + Send,
) -> Result<T, String> {
    // A thread of its own: the namespace goes with it.
    let work = || {
        enter_namespace()?;
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        work(&Sender { socket })
    };
    let done = std::thread::scope(|scope| scope.spawn(work).join());
    done.map_err(|_| "the measuring thread failed".to_owned())?
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library has no namespaces")]
fn enter_namespace() -> Result<(), String> {
    // SAFETY: no arguments but a constant; only this thread changes.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(format!("no network namespace: {error}"));
    }
    command("ip", &["link", "set", "lo", "up"], "")
}

#[cfg(not(target_os = "linux"))]
fn enter_namespace() -> Result<(), String> {
    Err("no network namespaces on this system".to_owned())
}

fn in_namespace(
    socket: &UdpSocket,
    prefixes: &[Prefix4],
    rounds: usize,
) -> Result<Vec<Row>, String> {
    let row = |way: Way| Row { name: way.name().to_owned(), bytes: 0, nanoseconds: Vec::new() };
    let mut rows = Way::ALL.map(row);
    // A linear walk of 16,384 rules takes some 40 microseconds a packet.
    let sends = (30_000_000 / (prefixes.len() * 4 + 4000)).max(500);
    for round in 0..rounds {
        for turn in 0..Way::ALL.len() {
            let place = (turn + round) % Way::ALL.len();
            load(Way::ALL[place], prefixes)?;
            send(socket, sends / 2)?;
            let before = now()?;
            send(socket, sends)?;
            rows[place].nanoseconds.push((now()? - before) as f64 / sends as f64);
            unload(Way::ALL[place])?;
        }
    }
    Ok(rows.to_vec())
}

/// Sends `count` packets, all of which the rules must refuse.
pub(super) fn send(socket: &UdpSocket, count: usize) -> Result<(), String> {
    for _ in 0..count {
        match socket.send_to(b"x", "127.0.0.1:80") {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
            Err(error) => return Err(format!("a packet fails otherwise: {error}")),
            Ok(_) => return Err("the rules let a packet through".to_owned()),
        }
    }
    Ok(())
}

pub(super) fn now() -> Result<u64, String> {
    thread_cpu_nanoseconds().map_err(|error| error.to_string())
}

fn load(way: Way, prefixes: &[Prefix4]) -> Result<(), String> {
    match way {
        Way::Nft | Way::NftSet => command("nft", &["-f", "-"], &nft(way, prefixes)),
        Way::None | Way::Iptables | Way::Ipset => {
            if way == Way::Ipset {
                let mut text = "create none hash:net family inet maxelem 1000000\n".to_owned();
                for (address, length) in prefixes {
                    let _ = writeln!(text, "add none {}/{length}", Ipv4Addr::from_bits(*address));
                }
                command("ipset", &["restore", "-exist"], &text)?;
            }
            command("iptables-legacy-restore", &[], &iptables(way, prefixes))
        }
    }
}

fn unload(way: Way) -> Result<(), String> {
    match way {
        Way::Nft | Way::NftSet => command("nft", &["flush", "ruleset"], ""),
        Way::None | Way::Iptables => command("iptables-legacy-restore", &[], "*filter\nCOMMIT\n"),
        Way::Ipset => {
            command("iptables-legacy-restore", &[], "*filter\nCOMMIT\n")?;
            command("ipset", &["destroy", "none"], "")
        }
    }
}

fn iptables(way: Way, prefixes: &[Prefix4]) -> String {
    let mut text = "*filter\n:OUTPUT ACCEPT [0:0]\n\
                    -A OUTPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT\n"
        .to_owned();
    if way == Way::Iptables {
        for (address, length) in prefixes {
            let _ =
                writeln!(text, "-A OUTPUT -s {}/{length} -j ACCEPT", Ipv4Addr::from_bits(*address));
        }
    }
    if way == Way::Ipset {
        text.push_str("-A OUTPUT -m set --match-set none src -j ACCEPT\n");
    }
    text.push_str("-A OUTPUT -p udp --dport 80 -m conntrack --ctstate NEW -j DROP\nCOMMIT\n");
    text
}

fn nft(way: Way, prefixes: &[Prefix4]) -> String {
    let prefix =
        |(address, length): &Prefix4| format!("{}/{length}", Ipv4Addr::from_bits(*address));
    let list: Vec<String> = prefixes.iter().map(prefix).collect();
    let mut text = String::from("table ip seed {\n");
    if way == Way::NftSet {
        let _ = writeln!(
            text,
            "set none {{ type ipv4_addr; flags interval; auto-merge; elements = {{ {} }} }}",
            list.join(", ")
        );
    }
    text.push_str("chain output { type filter hook output priority 0; policy accept;\n");
    text.push_str("ct state established,related accept\n");
    if way == Way::Nft {
        for prefix in &list {
            let _ = writeln!(text, "ip saddr {prefix} accept");
        }
    } else {
        text.push_str("ip saddr @none accept\n");
    }
    text.push_str("udp dport 80 ct state new drop\n}\n}\n");
    text
}

/// Runs a program with a text on its standard input.
pub(super) fn command(program: &str, arguments: &[&str], input: &str) -> Result<(), String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{program}: {error}");
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| wrong(&error))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).map_err(|error| wrong(&error))?;
    }
    let output = child.wait_with_output().map_err(|error| wrong(&error))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(wrong(&text.lines().next().unwrap_or("it failed")))
}
