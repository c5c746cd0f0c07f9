//! File descriptors: enough of them for every connection that the listeners may take, or fewer
//! connections.
//!
//! For: a journal that can always be extended. A connection is a descriptor, and so is a segment
//! of the journal: clients that use up all descriptors would make everybody's writes fail.
//! Not for: who gets a connection (the listeners count those themselves).
//!
//! ```text
//! 0                                                            the process's limit
//! ├ own files and sockets ┼ max_clients ┼ max_connections ┼ max_tcp_connections ┤
//! ```
//!
//! The soft limit is raised up to the hard one as needed. When that is not enough, the three
//! numbers of connections shrink in proportion, and the log says so.

use std::io;

use super::ListenOptions;

/// Journal segments, files that a reload reads, standard streams, and a margin.
const OWN: u64 = 64;
/// Sockets and polls of one thread at one address.
const OWN_PER_THREAD: u64 = 4;

/// The most connections of each listener at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    pub(crate) resp: usize,
    pub(crate) http: usize,
    pub(crate) dns: usize,
}

/// As many of these connections as the process has descriptors for.
pub(crate) fn fit_connections(
    options: &ListenOptions,
    limits: ConnectionLimits,
) -> ConnectionLimits {
    let wanted = [limits.resp, limits.http, limits.dns];
    let own = own_count(options);
    let needed = wanted.iter().fold(own, |sum, count| sum.saturating_add(*count as u64));
    let limit = match raise_limit(needed) {
        Ok(limit) => limit,
        Err(error) => {
            tracing::warn!("the limit of file descriptors is unknown: {error}");
            return limits;
        }
    };
    let fitting = fit(wanted, limit.saturating_sub(own));
    let [resp, http, dns] = fitting;
    if fitting != wanted {
        tracing::warn!(
            "the limit of {limit} file descriptors allows max_clients {resp}, max_connections \
             {http}, max_tcp_connections {dns}; for all that is configured {needed} are needed"
        );
    }
    ConnectionLimits { resp, http, dns }
}

fn own_count(options: &ListenOptions) -> u64 {
    let unix = usize::from(options.resp_unix.is_some());
    let listeners = (options.resp.len() + options.resp_tls.len() + unix) as u64;
    let resp = options.resp_threads as u64 * (listeners + 1);
    // Each socket twice (the metrics ask it too), and what the thread waits with.
    let dns = options.dns_threads as u64 * (options.dns.len() as u64 * 2 + 3);
    OWN + OWN_PER_THREAD * (resp + dns) + (options.http.len() + options.http_tls.len()) as u64
}

/// Shrinks the numbers in proportion so that their sum fits; none becomes zero.
fn fit(wanted: [usize; 3], available: u64) -> [usize; 3] {
    let sum: u128 = wanted.iter().map(|count| *count as u128).sum();
    if sum <= u128::from(available) {
        return wanted;
    }
    let share = |count: usize| (count as u128 * u128::from(available) / sum).max(1) as usize;
    wanted.map(share)
}

/// Raises the soft limit towards `needed`, as far as the hard limit allows. Gives what it is now.
#[allow(unsafe_code, reason = "getrlimit and setrlimit are system calls")]
fn raise_limit(needed: u64) -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes one rlimit, and `limit` is one that lives across it.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur < needed.min(limit.rlim_max) {
        let raised = libc::rlimit { rlim_cur: needed.min(limit.rlim_max), ..limit };
        // SAFETY: the call reads one rlimit, and `raised` is one that lives across it.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            limit = raised;
        }
    }
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays_and_what_does_not_shrinks_in_proportion_but_never_to_nothing() {
        assert_eq!(fit([10_000, 1024, 1024], 12_048), [10_000, 1024, 1024]);
        let fitting = fit([10_000, 1024, 1024], 6_000);
        assert!(fitting.iter().sum::<usize>() <= 6_000);
        assert!(fitting[0] > 4_900 && fitting[1] > 500 && fitting[2] > 500, "{fitting:?}");
        assert_eq!(fit([10_000, 1024, 1024], 0), [1, 1, 1]);
        assert_eq!(fit([usize::MAX; 3], 3_000), [1_000; 3]);
    }

    #[test]
    fn the_soft_limit_never_falls() {
        let before = raise_limit(0).unwrap();
        assert!(raise_limit(before.saturating_add(1)).unwrap() >= before);
        assert!(raise_limit(0).unwrap() >= before);
    }
}
