//! Runs one example's script and collects what it prints.
//!
//! ```text
//! scratch/block-0/    the script's fresh working folder: the repository's folders as links
//! scratch/block-0.out what it printed, both streams in their order
//! ```
//!
//! The output goes to a file and not to a pipe, so that a program left in the background cannot
//! keep the harness waiting. A script is the leader of its own process group, which is killed
//! whole when the time is over or when the script has ended.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::extract::ShownFile;
use crate::failure::ChoreError;
use crate::scratch::Scratch;

const TIME_LIMIT: Duration = Duration::from_secs(120);

/// What a script did.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Why it counts as failed.
    pub(crate) fault: Option<String>,
    /// What it printed on both streams.
    pub(crate) output: String,
}

/// Where and with what scripts run.
#[derive(Debug)]
pub(crate) struct Shell<'a> {
    scratch: &'a Scratch,
    binaries: &'a Path,
    folders: &'a [PathBuf],
    time_limit: Duration,
    block_count: usize,
}

impl<'a> Shell<'a> {
    /// Scripts work below `scratch` and find `whered` in `binaries`; each of the repository's
    /// `folders` is linked into the working folder, so that `crates/...` is what it is in a clone.
    pub(crate) fn new(
        scratch: &'a Scratch,
        binaries: &'a Path,
        folders: &'a [PathBuf],
    ) -> Shell<'a> {
        Shell { scratch, binaries, folders, time_limit: TIME_LIMIT, block_count: 0 }
    }

    /// Where `whered` lies.
    pub(crate) fn binaries(&self) -> &'a Path {
        self.binaries
    }

    /// Fills a folder as the examples' folders are: the repository's folders, and these files.
    pub(crate) fn fill(&self, folder: &Path, files: &[ShownFile]) -> Result<(), ChoreError> {
        for linked in self.folders {
            let link = folder.join(linked.file_name().unwrap_or_default());
            symlink(linked, &link).map_err(|error| ChoreError::on_file(&link, &error))?;
        }
        for file in files {
            let path = folder.join(&file.name);
            std::fs::write(&path, &file.text)
                .map_err(|error| ChoreError::on_file(&path, &error))?;
        }
        Ok(())
    }

    /// Runs one script to its end, in a fresh folder with these files.
    pub(crate) fn run(&mut self, script: &str, files: &[ShownFile]) -> Result<Outcome, ChoreError> {
        let folder = self.scratch.folder(&format!("block-{}", self.block_count))?;
        self.fill(&folder, files)?;
        let output_path = folder.with_extension("out");
        self.block_count += 1;
        let on_output = |error| ChoreError::on_file(&output_path, &error);
        let output = File::create(&output_path).map_err(on_output)?;
        let mut child = Command::new("bash")
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(&folder)
            .env("PATH", path_with(self.binaries)?)
            .stdin(Stdio::null())
            .stderr(output.try_clone().map_err(on_output)?)
            .stdout(output)
            .process_group(0)
            .spawn()
            .map_err(|error| ChoreError::on_program("bash", &error))?;
        let group = child.id();
        let (sender, receiver) = mpsc::channel();
        // The thread ends with the process: at the latest after the kill below.
        let waiter = std::thread::spawn(move || sender.send(child.wait()));
        let ended = receiver.recv_timeout(self.time_limit);
        kill_group(group);
        let fault = match ended {
            Ok(Ok(status)) if status.success() => None,
            Ok(Ok(status)) => Some(describe(status)),
            Ok(Err(error)) => Some(format!("could not be waited for: {error}")),
            Err(_) => Some(format!("took longer than {} s", self.time_limit.as_secs())),
        };
        drop(waiter.join());
        let bytes = std::fs::read(&output_path).map_err(on_output)?;
        Ok(Outcome { fault, output: String::from_utf8_lossy(&bytes).into_owned() })
    }
}

fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with exit code {code}"),
        None => format!("was ended: {status}"),
    }
}

/// Kills what a script has left behind; that there is nothing left is no error.
fn kill_group(group: u32) {
    let _ = Command::new("kill")
        .args(["-KILL", "--", &format!("-{group}")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

fn path_with(binaries: &Path) -> Result<OsString, ChoreError> {
    let known = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(PathBuf::from(binaries)).chain(std::env::split_paths(&known));
    std::env::join_paths(folders)
        .map_err(|error| ChoreError::new(format!("PATH cannot be extended: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_all(scripts: &[&str], time_limit: Duration) -> Vec<Outcome> {
        let scratch = Scratch::new("shell-test").unwrap();
        let folders = [PathBuf::from("/repository/crates")];
        let mut shell = Shell::new(&scratch, Path::new("/binaries"), &folders);
        shell.time_limit = time_limit;
        scripts.iter().map(|script| shell.run(script, &[]).unwrap()).collect()
    }

    #[test]
    fn scripts_see_a_fresh_folder_the_repository_and_the_binaries() {
        let scripts = ["touch here; ls", "ls; readlink crates; echo \"${PATH%%:*}\""];
        let outcomes = run_all(&scripts, TIME_LIMIT);
        assert_eq!(outcomes[0].output, "crates\nhere\n");
        assert_eq!(outcomes[1].output, "crates\n/repository/crates\n/binaries\n");
    }

    #[test]
    fn both_streams_are_kept_in_their_order() {
        let outcomes = run_all(&["echo a; echo b >&2; echo c"], TIME_LIMIT);
        assert_eq!(outcomes[0].output, "a\nb\nc\n");
    }

    #[test]
    fn the_first_failing_command_ends_the_script() {
        let outcomes = run_all(&["false | true; echo no", "echo \"$unset\""], TIME_LIMIT);
        assert_eq!(outcomes[0].fault.as_deref(), Some("ended with exit code 1"));
        assert_eq!(outcomes[0].output, "");
        assert!(outcomes[1].fault.is_some());
    }

    #[test]
    fn a_script_that_does_not_end_is_killed_with_its_children() {
        let outcomes = run_all(&["tail -f /dev/null | cat"], Duration::from_millis(50));
        assert!(outcomes[0].fault.as_ref().unwrap().starts_with("took longer"));
    }

    #[test]
    fn a_child_in_the_background_does_not_keep_the_harness_waiting() {
        let outcomes = run_all(&["tail -f /dev/null & echo done"], TIME_LIMIT);
        assert_eq!(outcomes[0].output, "done\n");
        assert!(outcomes[0].fault.is_none());
    }
}
