//! The system's own tools in a private network namespace, for tests only.
//!
//! For: iptables and nft as judges of what we write. Without root or the tools a test is skipped
//! and says so, unless `WHERED_REQUIRE` contains `root`.
//!
//! Invariants: each run has a namespace of its own, which ends with it.
//! Concurrency: any number of runs at once.

use std::io::Write;
use std::process::{Command, Stdio};

/// Runs commands in new network namespaces.
pub(crate) struct Namespace(());

impl Namespace {
    /// Whether that is possible here and the tools are there.
    pub(crate) fn open(tools: &[&str]) -> Option<Namespace> {
        let namespace = Namespace(());
        let wanted: Vec<String> = tools.iter().map(|tool| format!("command -v {tool}")).collect();
        match namespace.run(&wanted.join(" && "), "") {
            Ok(_) => Some(namespace),
            Err(error) => {
                let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
                assert!(!required.split(',').any(|item| item == "root"), "root required: {error}");
                println!("skipped: no private namespace with {tools:?} here ({error})");
                None
            }
        }
    }

    /// Runs a shell command with this input; its output, or what it complained about.
    pub(crate) fn run(&self, command: &str, input: &str) -> Result<String, String> {
        let mut child = Command::new("unshare")
            .args(["-n", "sh", "-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        if let Some(mut pipe) = child.stdin.take() {
            // A command that does not read its input closes it.
            let _closed = pipe.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
