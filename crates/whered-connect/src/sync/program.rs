//! A program of the system that reads commands from its input.
//!
//! Not for: what is said to it.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// Where such programs lie when the path of a user does not have them.
const FOLDERS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Runs a program to its end; its output, or what it complained about in one line.
pub(super) fn run(name: &str, arguments: &[&str], input: &[u8]) -> Result<String, String> {
    let start = |program: &Path| {
        Command::new(program)
            .args(arguments)
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    };
    let paths = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
    let mut started = start(Path::new(name));
    for path in paths {
        match &started {
            Err(error) if error.kind() == io::ErrorKind::NotFound => started = start(&path),
            _ => break,
        }
    }
    let mut child = started.map_err(|error| format!("the program '{name}': {error}"))?;
    let pipe = child.stdin.take();
    // It complains as it reads, in few words; its output is short too.
    if let Some(mut pipe) = pipe {
        // A program that fails closes its input; what it says then is what counts.
        let _closed = pipe.write_all(input);
    }
    let output = child.wait_with_output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let line: String = words.split_whitespace().collect::<Vec<_>>().join(" ");
    Err(line.chars().take(300).collect())
}
