//! Scheduling priorities of threads, and what a process may write: system calls.
//!
//! For: background work next to work that a client waits for; looking before writing. Not for:
//! which work is which.
//!
//! ```text
//!                          share of a processor     when it wakes up while another thread runs
//! lower_priority           less                     waits for the end of that thread's time slice
//! use_short_time_slices    as before                goes first, if it used no more than its share
//! ```

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How far a thread yields to others. Linux keeps a nice value for each thread; it has no effect
/// while another processor is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Yields to threads that a client waits for. Nice 10: a tenth of a busy processor.
    Behind,
    /// Yields to every thread. Nice 19: a seventieth. `SCHED_IDLE` would leave a three-hundredth.
    Lowest,
}

/// Lowers the calling thread's priority, for good: raising it takes privileges. Threads that it
/// starts afterwards have the same. Systems without a priority for threads leave it as it is.
///
/// # Errors
/// Whatever the system reports.
///
/// ```
/// std::thread::spawn(|| whered_store::lower_priority(whered_store::Priority::Lowest))
///     .join()
///     .expect("it does not panic")?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[allow(unsafe_code, reason = "setpriority is a system call")]
pub fn lower_priority(priority: Priority) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let nice: libc::c_int = match priority {
            Priority::Behind => 10,
            Priority::Lowest => 19,
        };
        // SAFETY: the call takes numbers only; to Linux, process 0 is the calling thread.
        if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let _ = priority;
    Ok(())
}

/// Whether this process may write what is at a path; files can be made in a folder. A look, no
/// promise: permissions may change.
///
/// # Errors
/// The system's, as the writing would meet it.
#[allow(unsafe_code, reason = "faccessat is a system call")]
pub fn check_access(path: &Path, is_folder: bool) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    let mode = libc::W_OK | if is_folder { libc::X_OK } else { libc::R_OK };
    // SAFETY: the name ends with a zero byte and lives across the call.
    match unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), mode, libc::AT_EACCESS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The shortest time slice that Linux accepts. Default slices last about 3 ms.
#[cfg(target_os = "linux")]
const SHORT_SLICE_NANOSECONDS: u64 = 100_000;

/// The argument of `sched_setattr(2)`, as Linux 3.14 defines it.
#[cfg(target_os = "linux")]
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// The length of a time slice, for a thread of the default policy.
    runtime_nanoseconds: u64,
    deadline: u64,
    period: u64,
}

/// Gives the calling thread short time slices, so that it runs as soon as it wakes up and does not
/// wait for the end of another thread's slice. It is for threads that do a little work often while
/// a client waits. The thread's share of the processor does not change, and threads that it starts
/// later inherit the setting. Nothing changes before Linux 6.12, under another scheduling policy,
/// and on other systems.
///
/// # Errors
/// Whatever the system reports.
///
/// ```
/// std::thread::spawn(whered_store::use_short_time_slices).join().expect("it does not panic")?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[allow(unsafe_code, reason = "system calls")]
pub fn use_short_time_slices() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: the calls take numbers only; to Linux, process 0 is the calling thread.
        let (policy, nice) =
            unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) };
        if policy != libc::SCHED_OTHER {
            return Ok(());
        }
        let attributes = Attributes {
            size: size_of::<Attributes>() as u32,
            nice,
            runtime_nanoseconds: SHORT_SLICE_NANOSECONDS,
            ..Attributes::default()
        };
        // SAFETY: the attributes are what the call takes, and as long as they say; it writes
        // nothing.
        if unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The nice value of the calling thread.
    fn nice() -> i64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux has it");
        // The name in brackets may hold spaces; nice is the 17th word behind it.
        let words = stat.rsplit(") ").next().expect("the rest of the line");
        words.split(' ').nth(16).and_then(|word| word.parse().ok()).expect("a nice value")
    }

    #[test]
    fn only_the_calling_thread_is_nice() {
        let before = nice();
        for (priority, expected) in [(Priority::Behind, 10), (Priority::Lowest, 19)] {
            let after = std::thread::spawn(move || {
                lower_priority(priority).expect("anybody may be nicer");
                nice()
            });
            assert_eq!(after.join().expect("it ends"), expected);
        }
        assert_eq!(nice(), before);
    }

    #[test]
    fn short_time_slices_leave_the_nice_value_as_it_was() {
        let nices = std::thread::spawn(|| {
            use_short_time_slices().expect("anybody may");
            let usual = nice();
            lower_priority(Priority::Behind).expect("anybody may be nicer");
            use_short_time_slices().expect("anybody may");
            (usual, nice())
        });
        assert_eq!(nices.join().expect("it ends"), (nice(), 10));
    }
}
