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

/// Holds the calling thread, and the threads and programs that it starts later, to one core.
///
/// # Errors
///
/// There is no such core, or the thread may not use it.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    pin_to_cores(&[core])
}

/// Holds the calling thread, and the threads and programs that it starts later, to some cores.
///
/// # Errors
///
/// There is no such core, or the thread may not use any of them.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library cannot pin threads")]
pub fn pin_to_cores(wanted: &[usize]) -> io::Result<()> {
    // SAFETY: all zero bytes are the empty set of cores.
    let mut cores: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &core in wanted {
        if core >= libc::CPU_SETSIZE as usize {
            let what = format!("core {core}; allowed: below {}", libc::CPU_SETSIZE);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        // SAFETY: `core` is below CPU_SETSIZE, the number of bits in the set, as checked above.
        unsafe { libc::CPU_SET(core, &mut cores) };
    }
    // SAFETY: the pointer and the size are those of one set of cores.
    let code = unsafe { libc::sched_setaffinity(0, size_of_val(&cores), &raw const cores) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Holds the calling thread to some cores, where the system can.
///
/// # Errors
///
/// Always: this system cannot.
#[cfg(not(target_os = "linux"))]
pub fn pin_to_cores(_wanted: &[usize]) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// The cores that the calling thread may use.
///
/// # Errors
///
/// The system does not tell.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library tells their number only")]
pub fn cores() -> io::Result<Vec<usize>> {
    // SAFETY: all zero bytes are the empty set of cores.
    let mut cores: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer and the size are those of one set of cores.
    let code = unsafe { libc::sched_getaffinity(0, size_of_val(&cores), &raw mut cores) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all numbers asked for are below CPU_SETSIZE, the number of bits in the set.
    let has = |core: &usize| unsafe { libc::CPU_ISSET(*core, &cores) };
    Ok((0..libc::CPU_SETSIZE as usize).filter(has).collect())
}

/// The cores that the calling thread may use, where the system tells.
///
/// # Errors
///
/// Always: this system does not.
#[cfg(not(target_os = "linux"))]
pub fn cores() -> io::Result<Vec<usize>> {
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

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_stays_on_the_core_it_is_held_to() {
        std::thread::spawn(|| {
            let core = *cores().unwrap().last().unwrap();
            pin_to_core(core).unwrap();
            assert_eq!(cores().unwrap(), [core]);
        })
        .join()
        .unwrap();
    }
}
