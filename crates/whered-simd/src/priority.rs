//! How much of a processor a thread takes from others, and how soon it gets one.
//!
//! For: work that nobody waits for beside work that somebody does. Not for: which work that is.
//!
//! ```text
//!                     share of a processor     when it is woken beside a thread that runs
//! lower_priority      less                     waits for that one's turn to end
//! take_short_turns    as before                goes first, if it had no more than its share
//! ```

use std::io;

/// For whom a thread makes way. Linux keeps a nice value for each thread; it says nothing about
/// processors that nobody else wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// For threads that somebody waits for. Nice 10: a tenth of a processor that another thread
    /// wants all of.
    Behind,
    /// For everybody. Nice 19: a seventieth. `SCHED_IDLE` would leave a three-hundredth.
    Lowest,
}

/// Lowers the calling thread's priority, for good: raising it takes privileges. Threads that it
/// starts afterwards have the same. Systems without a priority for threads leave it as it is.
///
/// # Errors
/// Whatever the system reports.
///
/// ```
/// std::thread::spawn(|| whered_simd::lower_priority(whered_simd::Priority::Lowest))
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

/// A turn of this length, the shortest that Linux knows, goes before all others of a usual length
/// (about 3 ms).
#[cfg(target_os = "linux")]
const SHORT_TURN_NANOSECONDS: u64 = 100_000;

/// What `sched_setattr(2)` takes, as Linux 3.14 has it.
#[cfg(target_os = "linux")]
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// For a usual thread how long its turns are.
    runtime_nanoseconds: u64,
    deadline: u64,
    period: u64,
}

/// Makes the calling thread's turns short, so that it gets a processor as soon as it is woken and
/// need not wait for the end of another thread's turn: for threads that do a little again and
/// again, and that somebody waits for each time. Its share stays what it was. Threads that it
/// starts afterwards have the same. Before Linux 6.12, under another policy than the usual one, and
/// on other systems nothing changes.
///
/// # Errors
/// Whatever the system reports.
///
/// ```
/// std::thread::spawn(whered_simd::take_short_turns).join().expect("it does not panic")?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[allow(unsafe_code, reason = "system calls")]
pub fn take_short_turns() -> io::Result<()> {
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
            runtime_nanoseconds: SHORT_TURN_NANOSECONDS,
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
    fn short_turns_leave_a_thread_as_nice_as_it_was() {
        let nices = std::thread::spawn(|| {
            take_short_turns().expect("anybody may");
            let usual = nice();
            lower_priority(Priority::Behind).expect("anybody may be nicer");
            take_short_turns().expect("anybody may");
            (usual, nice())
        });
        assert_eq!(nices.join().expect("it ends"), (nice(), 10));
    }
}
