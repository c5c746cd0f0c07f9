//! Servers from Debian's packages: folders, ports and sockets of their own, ended by their process.
//!
//! Not for what is asked of them.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use whered_bench::measure::process_cpu_nanoseconds;

/// How long a server may take to begin or to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server; it ends with its value.
pub(crate) struct Server {
    pub(crate) name: String,
    child: Child,
}

impl Server {
    /// Starts it with its words in a log file.
    pub(crate) fn start(name: &str, command: &mut Command, log: &Path) -> Result<Server, String> {
        let fault = |error: std::io::Error| format!("{name}: {error}");
        let file = fs::File::create(log).map_err(fault)?;
        command.stdin(Stdio::null()).stdout(file.try_clone().map_err(fault)?).stderr(file);
        let child = command.spawn().map_err(fault)?;
        Ok(Server { name: name.to_owned(), child })
    }

    /// Looks every 20 ms until it answers.
    pub(crate) fn wait_for<T>(
        &mut self,
        mut look: impl FnMut() -> Result<T, String>,
    ) -> Result<T, String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let fault = match look() {
                Ok(found) => return Ok(found),
                Err(fault) => fault,
            };
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("{}: ended at once, {status}", self.name));
            }
            if Instant::now() > until {
                return Err(format!("{}: {fault}", self.name));
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// The processor time of all of its threads, and of its children, so far.
    pub(crate) fn cpu_nanoseconds(&self) -> Result<u64, String> {
        let of = |pid: u32| {
            process_cpu_nanoseconds(pid).map_err(|error| format!("{}: {error}", self.name))
        };
        let pid = self.child.id();
        let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let list = list.unwrap_or_default();
        let children = list.split_whitespace().filter_map(|word| word.parse::<u32>().ok());
        // A child that has just ended is missed; the connections of a run stay over the run.
        children.map(|child| of(child).unwrap_or(0)).try_fold(of(pid)?, |sum, more| Ok(sum + more))
    }

    /// Ends it as its own tools would, so that its files are whole and closed.
    pub(crate) fn shut_down(mut self) -> Result<(), String> {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        if !sent.is_ok_and(|status| status.success()) {
            return Err(format!("{}: does not take a signal", self.name));
        }
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().map_err(|error| error.to_string())?.is_none() {
            if Instant::now() > until {
                return Err(format!("{}: does not end", self.name));
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing of a benchmark's server is to be kept; one that was shut down has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program, wherever Debian puts it.
pub(crate) fn program(name: &str) -> Result<PathBuf, String> {
    let mut folders: Vec<PathBuf> =
        ["/usr/bin", "/usr/sbin", "/usr/local/bin"].iter().map(PathBuf::from).collect();
    // Versions of PostgreSQL lie side by side.
    for version in fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        folders.push(version.path().join("bin"));
    }
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.exists());
    found.ok_or_else(|| format!("{name} is not installed"))
}

/// User and group that a server runs as when this is root, who may not run some of them.
pub(crate) fn user(name: &str) -> Option<(u32, u32)> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0);
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2).map(str::parse);
    let (uid, gid) = (fields.next()?.ok()?, fields.next()?.ok()?);
    is_root.then_some((uid, gid))
}

/// An empty folder that belongs to that user.
pub(crate) fn folder(path: &Path, user: Option<(u32, u32)>) -> Result<(), String> {
    let fault = |error: std::io::Error| format!("{}: {error}", path.display());
    // What an earlier run left is ours.
    let _ = fs::remove_dir_all(path);
    fs::create_dir_all(path).map_err(fault)?;
    match user {
        Some((uid, gid)) => chown(path, Some(uid), Some(gid)).map_err(fault),
        None => Ok(()),
    }
}

/// A command of a program as that user.
pub(crate) fn as_user(program: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command.current_dir("/");
    command
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
