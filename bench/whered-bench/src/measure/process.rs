//! What another process has used so far: processor time of all of its threads, and memory.
//!
//! Not for what the kernel does on nobody's account. On Linux; elsewhere there is an error. A
//! reading of the time costs a system call and has the kernel's own resolution, where
//! `/proc/PID/stat` has ticks of ten milliseconds.

use std::fs;
use std::io;

/// No Linux has greater process numbers.
#[cfg(target_os = "linux")]
const PROCESS_NUMBERS_END: u32 = 1 << 22;

/// The nanoseconds that all threads of a process have run so far, those that ended included.
///
/// # Errors
///
/// There is no such process.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library does not have other processes' clocks")]
pub fn process_cpu_nanoseconds(pid: u32) -> io::Result<u64> {
    // The number becomes part of the clock's name, where a greater one would be cut.
    if pid == 0 || pid > PROCESS_NUMBERS_END {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is a valid place for a clock's name for the whole call.
    let code = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &raw mut clock) };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for a `timespec` for the whole call.
    let code = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The nanoseconds that all threads of a process have run so far.
///
/// # Errors
///
/// Always: this system does not tell.
#[cfg(not(target_os = "linux"))]
pub fn process_cpu_nanoseconds(_pid: u32) -> io::Result<u64> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// The bytes of memory that a process has now, as `VmRSS` states them.
///
/// # Errors
///
/// There is no such process, or the system does not tell.
pub fn resident_bytes(pid: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_something() {
        let own = std::process::id();
        let before = process_cpu_nanoseconds(own).unwrap();
        let mut sum = 0_u64;
        while process_cpu_nanoseconds(own).unwrap() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(resident_bytes(own).unwrap() > 100_000);
    }

    #[test]
    fn a_process_that_cannot_be_is_an_error() {
        // Process numbers end at 2^22.
        assert!(process_cpu_nanoseconds(1 << 30).is_err());
        assert!(resident_bytes(1 << 30).is_err());
    }
}
