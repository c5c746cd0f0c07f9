//! One run of an external command: its exit code says whether a site is up.
//!
//! No shell, no input, no output, an environment of three variables. A caller that stops waiting
//! for the command, since its time is over or the server stops, kills it with its process group.
//! Cost: one descriptor while it runs, which tells when it has ended.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use tokio::io::unix::AsyncFd;

/// Where the command's own commands are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs the command for `pool` and `site`, and gives what is wrong.
pub(super) async fn run(
    program: &Path,
    arguments: &[String],
    (pool, site): (&str, &str),
) -> Result<(), String> {
    let child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs([("PATH", PATH), ("WHERED_POOL", pool), ("WHERED_SITE", site)])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    let child = child.map_err(|error| format!("it cannot be started: {error}"))?;
    let status = ChildGuard(Some(child)).ended().await.map_err(|error| error.to_string())?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(format!("exit code {code}")),
        (None, signal) => Err(format!("ended by signal {}", signal.unwrap_or_default())),
    }
}

/// A command that is killed when nobody waits for it any more. `None`: it has ended.
struct ChildGuard(Option<Child>);

impl ChildGuard {
    async fn ended(&mut self) -> io::Result<ExitStatus> {
        let Some(child) = &mut self.0 else {
            return Err(io::Error::other("it has ended before"));
        };
        let descriptor = watch(descriptor_of(child)?)?;
        loop {
            let mut ready = descriptor.readable().await?;
            if let Some(status) = child.try_wait()? {
                self.0 = None;
                return Ok(status);
            }
            ready.clear_ready();
        }
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else { return };
        kill_group(&child);
        // What was killed goes at once, unless a disk keeps it: then another thread waits.
        if !matches!(child.try_wait(), Ok(Some(_)))
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn_blocking(move || child.wait());
        }
    }
}

#[allow(unsafe_code, reason = "the caller answers for the descriptor, which is a plain one")]
fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` gives the same descriptor whenever it is asked, keeps it open until it
    // is dropped, and the watch owns it: nobody else can close it.
    unsafe { AsyncFd::register(descriptor) }.map_err(|error| error.into_parts().1)
}

/// A descriptor that can be read when the child has ended.
#[allow(unsafe_code, reason = "pidfd_open is a system call")]
fn descriptor_of(child: &Child) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two numbers. The child was not waited for yet, so that its number
    // belongs to nobody else.
    let found = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    if found < 0 {
        return Err(io::Error::last_os_error());
    }
    let raw = RawFd::try_from(found).map_err(io::Error::other)?;
    // SAFETY: the call has just made this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

#[allow(unsafe_code, reason = "the standard library kills single processes only")]
fn kill_group(child: &Child) {
    if let Ok(group) = libc::pid_t::try_from(child.id()) {
        // SAFETY: the call takes two numbers. The child leads the group of this number, and was
        // not waited for yet, so that the number belongs to nobody else.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}
