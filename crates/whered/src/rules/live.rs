//! The rules that this host has loaded, as its own programs list them.
//!
//! Not for: what the listings mean (`whered-rules`).

use std::io;
use std::process::{Command, Stdio};

use whered_rules::Format;

use crate::outcome::Failure;

/// Where such programs are when the path of a user does not have them.
const FOLDERS: [&str; 4] = ["", "/usr/sbin/", "/sbin/", "/usr/local/sbin/"];

/// The listing of a format, and the command that printed it.
pub(super) fn listing(format: Format) -> Result<(&'static str, String), Failure> {
    let words = match format {
        Format::Nft => "nft -j list ruleset",
        Format::Iptables => "iptables-save -c",
        other => {
            let found = other.name();
            return Err(Failure::Message(format!(
                "found --live with --input-format {found}: allowed is nft or iptables"
            )));
        }
    };
    run(words, "").map(|listed| (words, listed))
}

/// Runs a command of the system; its output, or what it complained about in one line.
pub(super) fn run(words: &str, input: &str) -> Result<String, Failure> {
    let mut parts = words.split(' ');
    let program = parts.next().unwrap_or_default();
    let arguments: Vec<&str> = parts.collect();
    let start = |folder: &&str| {
        Command::new(format!("{folder}{program}"))
            .args(&arguments)
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    };
    let missing = |started: &io::Result<_>| matches!(started, Err(error) if error.kind() == io::ErrorKind::NotFound);
    let mut tries = FOLDERS.iter().map(start);
    let started = tries.find(|started| !missing(started)).unwrap_or_else(|| {
        Err(io::Error::new(io::ErrorKind::NotFound, "the program is not installed"))
    });
    let fail = |error: io::Error| Failure::Message(format!("{program}: {error}"));
    let mut child = started.map_err(fail)?;
    let pipe = child.stdin.take();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(mut pipe) = pipe {
                // A program that fails closes its input; what it says then is what counts.
                let _closed = io::Write::write_all(&mut pipe, input.as_bytes());
            }
        });
        child.wait_with_output()
    });
    let output = output.map_err(fail)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let line: String = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().take(300).collect();
    Err(Failure::Message(format!("{program}: {line}")))
}
