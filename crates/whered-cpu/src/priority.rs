//! How much of a processor a thread takes from others.
//!
//! For: work that nobody waits for beside work that somebody does. Not for: which work that is.

use std::io;

/// For whom a thread makes way. Linux keeps a nice value for each thread; it says nothing about
/// processors that nobody else wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// For threads that somebody waits for. Nice 10: a tenth of a processor that another thread wants
    /// all of.
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
/// std::thread::spawn(|| whered_cpu::lower_priority(whered_cpu::Priority::Lowest))
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
}
