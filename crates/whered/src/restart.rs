//! Starting the process that takes this one's place (SIGUSR2).
//!
//! Not for: what the two say to each other (`whered-server`).
//!
//! The successor is the program at the path that this one was started from, which may be a newer
//! one by now, with the same arguments and `--take-over`. It is a child of this process until that
//! ends.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;

const FLAG: &str = "--take-over";

/// How this process was started.
pub(crate) struct Restart {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Restart {
    /// Notes it: later the path may lead to another file.
    ///
    /// # Errors
    /// The system does not tell where the program lies.
    pub(crate) fn note() -> io::Result<Restart> {
        let mut arguments: Vec<_> = env::args_os().skip(1).collect();
        if !arguments.iter().any(|argument| argument == FLAG) {
            arguments.push(FLAG.into());
        }
        Ok(Restart { program: env::current_exe()?, arguments })
    }

    /// Starts the successor. A thread waits for its end, which it only sees when that has failed.
    pub(crate) fn start(&self) {
        let started = Command::new(&self.program).args(&self.arguments).spawn();
        let waiting = started.and_then(|mut child| {
            tracing::info!("started process {} to take over", child.id());
            let wait = move || match child.wait() {
                Ok(status) => tracing::error!("the process that was to take over: {status}"),
                Err(error) => tracing::error!("the process that was to take over: {error}"),
            };
            std::thread::Builder::new().name("whered-successor".to_owned()).spawn(wait)
        });
        if let Err(error) = waiting {
            let program = self.program.display();
            tracing::error!("{program} cannot be started to take over: {error}");
        }
    }
}
