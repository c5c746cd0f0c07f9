//! One `whered serve` on free ports, with the demonstration or with a document's configuration, for
//! the examples that talk to a server.
//!
//! A thread reads the server's standard output to its end: first for the announced addresses,
//! later so that the server never blocks on a full pipe. Its standard error goes to a file that
//! is shown when something is wrong. Dropping the value stops the server, also after a failure.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::extract::ShownFile;
use super::ports::{Announcement, Ports};
use super::shell::Shell;
use crate::failure::ChoreError;
use crate::scratch::Scratch;

const START_LIMIT: Duration = Duration::from_secs(120);
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// A running demo server.
#[derive(Debug)]
pub(crate) struct DemoServer {
    child: Child,
    /// Lines of standard output; closed when the server has ended.
    lines: Receiver<String>,
    errors_path: PathBuf,
    ports: Ports,
    is_stopped: bool,
}

impl DemoServer {
    /// Starts the demonstration and waits until it says that it is ready.
    pub(crate) fn start(shell: &Shell<'_>, scratch: &Scratch) -> Result<DemoServer, ChoreError> {
        let data = scratch.folder("data")?;
        let mut command = serve_on_free_ports(shell.binaries());
        command.arg("--demo").arg("--data-dir").arg(data);
        DemoServer::start_command(command, &scratch.path().join("server.err"))
    }

    /// Starts a server with one of the files as its configuration, beside which the others lie.
    pub(crate) fn start_with(
        configuration: &str,
        files: &[ShownFile],
        shell: &Shell<'_>,
        scratch: &Scratch,
    ) -> Result<DemoServer, ChoreError> {
        let folder = scratch.folder(&format!("server-{configuration}"))?;
        shell.fill(&folder, files)?;
        build_demo_database(shell.binaries(), &folder)?;
        let mut command = serve_on_free_ports(shell.binaries());
        command.arg("--config").arg(configuration).current_dir(&folder);
        DemoServer::start_command(command, &folder.with_extension("err"))
    }

    fn start_command(mut command: Command, errors_path: &Path) -> Result<DemoServer, ChoreError> {
        let errors_path = errors_path.to_path_buf();
        let errors = std::fs::File::create(&errors_path)
            .map_err(|error| ChoreError::on_file(&errors_path, &error))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|error| {
            ChoreError::new(format!("cannot start {program}: {error} (make build builds it)"))
        })?;
        let output = child.stdout.take().expect("standard output was asked for as a pipe");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Nobody listens after the start; the reading itself must go on.
                let _ = sender.send(line);
            }
        });
        let ports = Ports { resp: 0, http: 0, dns: 0 };
        let mut server = DemoServer { child, lines, errors_path, ports, is_stopped: false };
        server.ports = server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&self) -> Result<Ports, ChoreError> {
        let deadline = Instant::now() + START_LIMIT;
        let mut announcement = Announcement::default();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if announcement.read_line(&line) => break,
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.complaint("ended before it was ready"));
                }
                Err(RecvTimeoutError::Timeout) => return Err(self.complaint("never got ready")),
            }
        }
        announcement
            .ports()
            .map_err(|door| self.complaint(&format!("said ready without an address of {door}")))
    }

    /// Where it listens.
    pub(crate) fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Asks it to end by SIGTERM and checks that it ends well.
    pub(crate) fn stop(mut self) -> Result<(), ChoreError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ChoreError> {
        self.is_stopped = true;
        let _ = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .stderr(Stdio::null())
            .status();
        let deadline = Instant::now() + STOP_LIMIT;
        // The end of its output is the end of the server: no polling needed.
        let has_ended = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break true,
                Err(RecvTimeoutError::Timeout) => break false,
            }
        };
        if !has_ended {
            let _ = self.child.kill();
        }
        let status = self.child.wait();
        match status {
            Ok(status) if has_ended && status.success() => Ok(()),
            Ok(status) if has_ended => Err(self.complaint(&format!("ended with {status}"))),
            Ok(_) => Err(self.complaint("did not end on SIGTERM")),
            Err(error) => Err(self.complaint(&format!("cannot be waited for: {error}"))),
        }
    }

    fn complaint(&self, what: &str) -> ChoreError {
        let errors = std::fs::read_to_string(&self.errors_path).unwrap_or_default();
        ChoreError::new(format!("the demo server {what}\n{}", errors.trim_end()))
    }
}

fn serve_on_free_ports(binaries: &Path) -> Command {
    let any_port = "127.0.0.1:0";
    let mut command = Command::new(binaries.join("whered"));
    command.args(["serve", "--resp", any_port, "--http", any_port, "--dns", any_port]);
    command
}

/// Makes `city.mmdb` in a folder that has the repository's folders.
fn build_demo_database(binaries: &Path, folder: &Path) -> Result<(), ChoreError> {
    let program = binaries.join("whered");
    let output = Command::new(&program)
        .args(["db", "build", "crates/whered/demo/addresses.csv", "-o", "city.mmdb"])
        .current_dir(folder)
        .output()
        .map_err(|error| ChoreError::on_file(&program, &error))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(ChoreError::new(format!("cannot make city.mmdb: {errors}")));
    }
    Ok(())
}

impl Drop for DemoServer {
    fn drop(&mut self) {
        if !self.is_stopped {
            // Something else has failed already and is being reported.
            let _ = self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stand-in that announces itself and then waits for its signal.
    fn start(script: &str) -> Result<DemoServer, ChoreError> {
        let scratch = Scratch::new("server-test").unwrap();
        let mut command = Command::new("bash");
        command.args(["-c", script]);
        DemoServer::start_command(command, &scratch.path().join("server.err"))
    }

    const ANNOUNCE: &str = "echo resp 127.0.0.1:1; echo http 127.0.0.1:2; echo dns 127.0.0.1:3; ";
    /// A signal that arrives within bash's own `read` or `wait` may be lost; beside a child in the
    /// foreground it is kept until the child ends.
    const WAIT: &str = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05 >/dev/null; done";

    #[test]
    fn a_server_is_started_asked_for_its_ports_and_stopped() {
        let server = start(&format!("{ANNOUNCE}{WAIT}")).unwrap();
        assert_eq!(server.ports(), &Ports { resp: 1, http: 2, dns: 3 });
        server.stop().unwrap();
    }

    #[test]
    fn a_server_that_ends_badly_is_told() {
        let server = start(&format!("{ANNOUNCE}{}", WAIT.replace("exit 0", "exit 3"))).unwrap();
        assert!(server.stop().unwrap_err().to_string().contains("exit status: 3"));
    }

    #[test]
    fn a_server_that_does_not_come_up_is_told() {
        let error = start("exit 1").unwrap_err().to_string();
        assert!(error.contains("ended before it was ready"), "{error}");
        let error = start("echo ready").unwrap_err().to_string();
        assert!(error.contains("without an address of resp"), "{error}");
    }
}
