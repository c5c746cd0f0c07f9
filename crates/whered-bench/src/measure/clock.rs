//! The processor time of the calling thread, and holding it to one core.
//!
//! Not for wall time (`std::time::Instant`). The thread's own clock does not count what other
//! programs do meanwhile; what they do to the caches it cannot hide. A reading costs a system call
//! of some 0.3 microseconds, so that a round should have many thousand operations.

use std::io;

/// The nanoseconds that the calling thread has run so far.
///
/// # Errors
///
/// The system has no such clock.
#[allow(unsafe_code, reason = "the standard library does not have this clock")]
pub fn thread_cpu_nanoseconds() -> io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for a `timespec` for the whole call.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Holds the calling thread, and the threads that it starts later, to one core.
///
/// # Errors
///
/// There is no such core, or the thread may not use it.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library cannot pin threads")]
pub fn pin_to_core(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        let what = format!("core {core}; allowed: below {}", libc::CPU_SETSIZE);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    // SAFETY: all zero bytes are the empty set of cores.
    let mut cores: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `core` is below CPU_SETSIZE, the number of bits in the set, as checked above.
    unsafe { libc::CPU_SET(core, &mut cores) };
    // SAFETY: the pointer and the size are those of one set of cores.
    let code = unsafe { libc::sched_setaffinity(0, size_of_val(&cores), &raw const cores) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Holds the calling thread to one core, where the system can.
///
/// # Errors
///
/// Always: this system cannot.
#[cfg(not(target_os = "linux"))]
pub fn pin_to_core(_core: usize) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_forward_while_the_thread_works() {
        let before = thread_cpu_nanoseconds().unwrap();
        let mut sum = 0_u64;
        while thread_cpu_nanoseconds().unwrap() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(thread_cpu_nanoseconds().unwrap() > before);
    }

    #[test]
    fn a_core_that_cannot_be_is_refused() {
        assert!(pin_to_core(1 << 20).is_err());
    }
}
