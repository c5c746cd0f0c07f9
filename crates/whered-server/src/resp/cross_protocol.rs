//! HTTP sent to the RESP port: recognised, logged, and the connection closed.
//!
//! For: web pages and confused proxies. A page may send a POST to any port of this machine, and
//! lines of its body read as inline commands. As in Redis (since 3.2.7) the request line `POST` and
//! the header line `Host:` end the connection; nothing behind them runs.
//! Not for: finding lines (`protocol`), who may connect (`users`).
//!
//! ```text
//! POST / HTTP/1.1        closes, as PUT, HEAD, OPTIONS ... do
//! PROPFIND / HTTP/1.1    closes: an unknown command that ends in a version of HTTP
//! GET / HTTP/1.1         is the command GET with too many arguments, as in Redis
//! Host: 127.0.0.1:6380   closes, whatever line was the first one
//! ```
//!
//! Cost: nothing for multibulk requests of known commands; a few comparisons for an inline request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The methods of HTTP that are no commands of Redis.
const METHODS: [&[u8]; 9] =
    [b"post", b"put", b"delete", b"head", b"options", b"patch", b"connect", b"trace", b"pri"];

/// Warnings within one minute; connections closed beyond them are counted only.
const WARNINGS_PER_MINUTE: u64 = 60;

/// Whether an inline request is a line of HTTP that no request may follow.
pub(crate) fn is_http_line(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let word = &line[..end];
    let is_host = word.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"host:"));
    is_host || METHODS.iter().any(|method| word.eq_ignore_ascii_case(method))
}

/// Whether the name of a command, in a request of any form, is one that Redis takes for HTTP.
pub(crate) fn is_http_name(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// Whether the last word of a request is what ends a request line of HTTP, whatever its method.
pub(crate) fn is_http_version(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"http/1.0") || word.eq_ignore_ascii_case(b"http/1.1")
}

/// Limits the warnings of all connections together.
#[derive(Debug)]
pub(crate) struct Warnings {
    started: Instant,
    /// The minute since the start, times 2^32, and the warnings in it.
    minute_and_count: AtomicU64,
}

impl Default for Warnings {
    fn default() -> Warnings {
        Warnings { started: Instant::now(), minute_and_count: AtomicU64::new(0) }
    }
}

impl Warnings {
    /// Logs that a peer sent HTTP and is disconnected.
    pub(crate) fn warn(&self, peer: &str) {
        let minute = self.started.elapsed().as_secs() / 60;
        if self.may_warn(minute) {
            tracing::warn!(
                "a RESP client has sent HTTP (a line 'POST', 'Host:' or alike), which may be a web page's \
                 attack; its connection is closed; peer: {peer}"
            );
        }
    }

    fn may_warn(&self, minute: u64) -> bool {
        let next = |state: u64| match state >> 32 == minute {
            true => state + 1,
            false => (minute << 32) + 1,
        };
        let order = Ordering::Relaxed;
        // The closure always gives a value, so both arms hold the state before.
        let (Ok(before) | Err(before)) =
            self.minute_and_count.fetch_update(order, order, |state| Some(next(state)));
        before >> 32 != minute || before & u64::from(u32::MAX) < WARNINGS_PER_MINUTE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_http_are_told_from_commands() {
        for line in [
            &b"POST / HTTP/1.1"[..],
            b"post /",
            b"POST",
            b"  POST /",
            b"Host: 127.0.0.1:6380",
            b"HOST:localhost",
            b"\thost: x",
            b"PUT / HTTP/1.1",
            b"OPTIONS * HTTP/1.1",
            b"PRI * HTTP/2.0",
        ] {
            assert!(is_http_line(line), "{}", line.escape_ascii());
        }
        for line in [
            &b"GET / HTTP/1.1"[..],
            b"GET key",
            b"SET host: HTTP/1.1",
            b"POSTS",
            b"host",
            b"HostX: y",
            b"PING",
            b"",
            b"ECHO POST",
        ] {
            assert!(!is_http_line(line), "{}", line.escape_ascii());
        }
    }

    #[test]
    fn warnings_are_limited_within_a_minute() {
        let warnings = Warnings::default();
        let given = |minute| (0..200).filter(|_| warnings.may_warn(minute)).count();
        assert_eq!((given(0), given(0), given(1), given(7)), (60, 0, 60, 60));
    }
}
