//! Network namespaces for tests on the live kernel.
//!
//! Not for: what is tested. Without root or the programs a test is skipped and says so, unless
//! `WHERED_REQUIRE` names `kernel` (or `root`).

use std::io::Write;
use std::process::{Command, Stdio};

/// Whether there can be namespaces and these programs are there.
#[allow(clippy::print_stdout, reason = "a skipped test says so")]
pub(crate) fn is_possible(programs: &[&str]) -> bool {
    let wanted: Vec<String> = programs.iter().map(|it| format!("command -v {it}")).collect();
    match run("unshare", &["-n", "sh", "-c", &wanted.join(" && ")], "") {
        Ok(_) => true,
        Err(error) => {
            let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
            let is_required = required.split(',').any(|item| item == "kernel" || item == "root");
            assert!(!is_required, "kernel required: {error}");
            println!("skipped: no private namespace with {programs:?} here ({error})");
            false
        }
    }
}

/// Runs a program to its end; its output, or what it complained about.
pub(crate) fn run(program: &str, arguments: &[&str], input: &str) -> Result<String, String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?;
    if let Some(mut pipe) = child.stdin.take() {
        // A program that does not read its input closes it.
        let _closed = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!("{program} {arguments:?}: {}{}", text(&output.stderr), text(&output.stdout)))
}
