//! The log formats that have a name: their columns, and how a line is split into them.
//!
//! Not for finding out which one a log is. Names of columns are those of the format's own
//! documentation; parts that are the same as in nginx's combined format have nginx's names.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::{Finder, FinderRev};

use super::tokens::{self, Token};
use super::{ABSENT, LogFault, access, anywhere, netfilter};

// Making a finder costs as much as its search in a line.
static CLIENT: LazyLock<FinderRev<'static>> = LazyLock::new(|| FinderRev::new(b", client: "));
static BETWEEN_QUOTES: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\" \""));

/// A log format that is known by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// Common and combined logs of nginx and Apache, behind syslog's prefix.
    Access,
    /// Application Load Balancer of AWS.
    Alb,
    /// Classic Load Balancer of AWS.
    Elb,
    /// Server access logs of Amazon S3.
    S3,
    /// VPC flow logs of AWS in their default format.
    Vpc,
    /// HAProxy's HTTP and TCP logs.
    Haproxy,
    /// Squid's native access log.
    Squid,
    /// Envoy's default access log.
    Envoy,
    /// Istio's default access log.
    Istio,
    /// The error log of nginx.
    NginxError,
    /// Packets that the kernel's packet filter logs.
    Netfilter,
    /// sshd's messages in a system log.
    Sshd,
    /// Any text: the address is the first public one in a line.
    Anywhere,
}

impl LogFormat {
    /// Those that detection tries, the surest first.
    pub(super) const DETECTED: [LogFormat; 12] = [
        LogFormat::Netfilter,
        LogFormat::Alb,
        LogFormat::Elb,
        LogFormat::S3,
        LogFormat::Vpc,
        LogFormat::NginxError,
        LogFormat::Envoy,
        LogFormat::Istio,
        LogFormat::Haproxy,
        LogFormat::Squid,
        LogFormat::Access,
        LogFormat::Sshd,
    ];

    /// The names of the columns.
    #[must_use]
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            LogFormat::Access => ACCESS,
            LogFormat::Alb => ALB,
            LogFormat::Elb => ELB,
            LogFormat::S3 => S3,
            LogFormat::Vpc => VPC,
            LogFormat::Haproxy => HAPROXY,
            LogFormat::Squid => SQUID,
            LogFormat::Envoy => ENVOY,
            LogFormat::Istio => ISTIO,
            LogFormat::NginxError => NGINX_ERROR,
            LogFormat::Netfilter => netfilter::COLUMNS,
            LogFormat::Sshd => SSHD,
            LogFormat::Anywhere => ANYWHERE,
        }
    }

    /// The column of the address, and the one that has it where that says `-`.
    pub(super) fn address_columns(self) -> (&'static str, &'static str) {
        match self {
            LogFormat::Access => ("remote_addr", ""),
            LogFormat::Alb | LogFormat::Elb | LogFormat::Haproxy | LogFormat::Squid => {
                ("client", "")
            }
            LogFormat::S3 => ("remote_ip", ""),
            LogFormat::Vpc => ("srcaddr", ""),
            LogFormat::Envoy => ("x_forwarded_for", ""),
            LogFormat::Istio => ("x_forwarded_for", "downstream_remote_address"),
            LogFormat::NginxError => ("client", ""),
            LogFormat::Netfilter => ("SRC", ""),
            LogFormat::Sshd | LogFormat::Anywhere => ("", ""),
        }
    }

    /// Appends the places of a line's columns and of what stands behind them, `start` added; gives
    /// the place of the address where it is no column.
    pub(super) fn split(
        self,
        line: &[u8],
        start: usize,
        parts: &mut Vec<Range<usize>>,
        tokens: &mut Vec<Token>,
    ) -> Result<Option<Range<usize>>, LogFault> {
        let moved = |place: Range<usize>| start + place.start..start + place.end;
        match self {
            LogFormat::Access => {
                let first = parts.len();
                if access::split(line, 0..line.len(), false, parts).is_ok() {
                    parts.insert(first, ABSENT);
                } else {
                    parts.truncate(first);
                    if let Err(fault) = access::split(line, 0..line.len(), true, parts) {
                        parts.truncate(first);
                        return Err(fault);
                    }
                }
                for part in parts.iter_mut().skip(first).filter(|part| **part != ABSENT) {
                    *part = moved(part.clone());
                }
                Ok(None)
            }
            LogFormat::NginxError => nginx_error(line, start, parts).map(|()| None),
            LogFormat::Netfilter => netfilter::split(line, start, parts).map(|()| None),
            LogFormat::Sshd | LogFormat::Anywhere => {
                parts.push(start..start + line.len());
                let is_sshd = self == LogFormat::Sshd;
                let found = if is_sshd { anywhere::of_sshd(line) } else { anywhere::find(line) };
                found.map(|found| Some(moved(found))).ok_or(LogFault::NoAddress)
            }
            _ => {
                match self {
                    LogFormat::S3 => s3_tokens(line, tokens)?,
                    _ => tokens::all(line, 0, tokens).ok_or(LogFault::UnendedQuote)?,
                }
                let columns = self.columns();
                let is_right = self.is_line(line, tokens);
                if !is_right {
                    return Err(LogFault::NotALogLine);
                }
                if self == LogFormat::Haproxy {
                    haproxy(line, tokens, start, parts);
                    return Ok(None);
                }
                let named = tokens.iter().take(columns.len());
                parts.extend(named.map(|token| moved(token.text.clone())));
                if let (Some(first), Some(last)) = (tokens.get(columns.len()), tokens.last()) {
                    parts.push(moved(first.text.start..last.text.end));
                }
                Ok(None)
            }
        }
    }

    /// Whether the parts of a line are those of the format.
    fn is_line(self, line: &[u8], tokens: &[Token]) -> bool {
        let text = |at: usize| {
            tokens.get(at).and_then(|token| line.get(token.text.clone())).unwrap_or_default()
        };
        let opening = |at: usize| tokens.get(at).map_or(0, |token| token.opening);
        let is_number = |at: usize| {
            let text = text(at);
            text == b"-"
                || (!text.is_empty()
                    && text.iter().all(|b| b.is_ascii_digit() || b".-".contains(b)))
        };
        let is_time = |at: usize| super::prefix::is_iso_time(text(at));
        match self {
            LogFormat::Alb => is_time(1) && opening(12) == b'"' && is_number(8) && opening(0) == 0,
            LogFormat::Elb => opening(0) == 0 && is_time(0) && opening(11) == b'"' && is_number(7),
            LogFormat::S3 => {
                let has_request = opening(8) == b'"' || text(8) == b"-";
                opening(2) == b'[' && has_request && text(6).contains(&b'.') && is_number(9)
            }
            LogFormat::Vpc => {
                let action = [b"ACCEPT".as_slice(), b"REJECT", b"-"].contains(&text(12));
                let status = [b"OK".as_slice(), b"NODATA", b"SKIPDATA"].contains(&text(13));
                tokens.len() >= 14 && is_number(0) && action && status
            }
            LogFormat::Haproxy => {
                let is_address = text(0).contains(&b':') || text(0) == b"unix";
                opening(1) == b'[' && is_address && tokens.len() >= 9 && text(4).contains(&b'/')
            }
            LogFormat::Squid => {
                let is_time = text(0).len() >= 12 && text(0).contains(&b'.') && is_number(0);
                is_time
                    && is_number(1)
                    && text(3).contains(&b'/')
                    && text(8).contains(&b'/')
                    && tokens.len() >= 9
            }
            LogFormat::Envoy => {
                opening(0) == b'['
                    && is_time(0)
                    && opening(1) == b'"'
                    && is_number(4)
                    && is_number(6)
                    && opening(8) == b'"'
            }
            LogFormat::Istio => {
                opening(0) == b'['
                    && is_time(0)
                    && opening(1) == b'"'
                    && opening(6) == b'"'
                    && is_number(7)
                    && opening(11) == b'"'
            }
            _ => true,
        }
    }

    /// Whether a line certainly is of this format, for detection.
    pub(super) fn knows(self, line: &[u8], program: &[u8]) -> bool {
        let (mut parts, mut tokens) = (Vec::new(), Vec::new());
        match self {
            LogFormat::Sshd => program.starts_with(b"sshd"),
            LogFormat::Anywhere => false,
            _ => self.split(line, 0, &mut parts, &mut tokens).is_ok(),
        }
    }
}

/// The parts of an S3 line. Amazon escapes no quotes in the referer and the user agent, which
/// clients send. So the parts before them are read from the left, and those behind them, which have
/// no quotes, from the last quote. A referer with blanks may end at several places and is refused.
fn s3_tokens(line: &[u8], all: &mut Vec<Token>) -> Result<(), LogFault> {
    all.clear();
    let mut at = 0;
    while all.len() < S3_REFERER
        && let Some(token) = tokens::next(line, &mut at)
    {
        all.push(token);
    }
    let rest = line.get(at..).unwrap_or_default();
    let referer = at + rest.iter().take_while(|byte| **byte == b' ').count();
    let last = memchr::memrchr(b'"', rest).map(|last| at + last);
    let (Some(last), Some(b'"')) = (last.filter(|last| *last > referer), line.get(referer)) else {
        // Both are `-`, or the line ends before them.
        while let Some(token) = tokens::next(line, &mut at) {
            all.push(token);
        }
        return line
            .get(at..)
            .filter(|rest| !rest.is_empty())
            .map_or(Ok(()), |_| Err(LogFault::UnendedQuote));
    };
    let quoted = line.get(referer..=last).unwrap_or_default();
    let mut ends = BETWEEN_QUOTES.find_iter(quoted);
    let Some(end) = ends.next() else { return Err(LogFault::NotALogLine) };
    let is_plain = quoted.get(..end).is_some_and(|referer| !referer.contains(&b' '));
    if !is_plain && ends.next().is_some() {
        return Err(LogFault::NotALogLine);
    }
    let agent = referer + end + BETWEEN_QUOTES.needle().len();
    if last < agent || line.get(last + 1).is_some_and(|next| *next != b' ') {
        return Err(LogFault::NotALogLine);
    }
    all.push(Token { text: referer + 1..referer + end, opening: b'"' });
    all.push(Token { text: agent..last, opening: b'"' });
    at = last + 1;
    while let Some(token) = tokens::next(line, &mut at) {
        all.push(token);
    }
    Ok(())
}

/// ```text
/// 2026/11/20 12:00:00 [error] 7#7: *5 open() failed, client: 192.0.2.1, server: a, request: "..."
/// ```
fn nginx_error(line: &[u8], start: usize, parts: &mut Vec<Range<usize>>) -> Result<(), LogFault> {
    let form = b"0000/00/00 00:00:00 [";
    let head = line.get(..form.len()).ok_or(LogFault::NotALogLine)?;
    let is_time = head.iter().zip(form).all(|(byte, form)| match form {
        b'0' => byte.is_ascii_digit(),
        other => byte == other,
    });
    let level = form.len();
    let find = |from: usize, pair: [u8; 2]| {
        let found = line.get(from..)?.windows(2).position(|here| here == pair)?;
        Some(from + found)
    };
    let level_end = find(level, *b"] ").filter(|_| is_time).ok_or(LogFault::NotALogLine)?;
    let process_end = find(level_end, *b": ").ok_or(LogFault::NotALogLine)?;
    let message = process_end + 2;
    // The message may quote what a client has sent: the last mark is that of nginx.
    let client = line.get(message..).and_then(|rest| CLIENT.rfind(rest));
    let message_end = client.map_or(line.len(), |at| message + at);
    let moved = |place: Range<usize>| start + place.start..start + place.end;
    parts.extend(
        [0..form.len() - 2, level..level_end, level_end + 2..process_end, message..message_end]
            .map(moved),
    );
    match client {
        None => parts.push(ABSENT),
        Some(_) => {
            let client = message_end + b", client: ".len();
            let end = find(client, *b", ").unwrap_or(line.len());
            parts.push(moved(client..end));
            if end + 2 < line.len() {
                parts.push(moved(end + 2..line.len()));
            }
        }
    }
    Ok(())
}

/// The columns of an HTTP line, or of a TCP line, which has no status, cookies and request. Headers
/// that were captured stand in braces, of requests before those of answers.
fn haproxy(line: &[u8], tokens: &[Token], start: usize, parts: &mut Vec<Range<usize>>) {
    let moved = |token: &Token| start + token.text.start..start + token.text.end;
    let place = |at: usize| tokens.get(at).map_or(ABSENT, moved);
    let last = tokens.len().saturating_sub(1);
    let is_http = tokens.last().is_some_and(|token| token.opening == b'"');
    let client = parts.len();
    parts.extend((0..5).map(place));
    if let (Some(token), Some(part)) = (tokens.first(), parts.get_mut(client)) {
        let text = line.get(token.text.clone()).unwrap_or_default();
        part.end -= text.len() - without_port(text).len();
    }
    if !is_http {
        parts.extend([ABSENT, place(5), ABSENT, ABSENT, place(6), place(7), place(8)]);
        parts.extend([ABSENT, ABSENT, ABSENT]);
        return;
    }
    parts.extend((5..12).map(place));
    let mut headers = tokens.iter().filter(|token| token.opening == b'{').map(moved);
    parts.extend([headers.next().unwrap_or(ABSENT), headers.next().unwrap_or(ABSENT), place(last)]);
}

/// An IPv6 address without the port that stands behind it, where no brackets tell them apart; any
/// other text as it is.
fn without_port(text: &[u8]) -> &[u8] {
    let colons = text.iter().filter(|byte| **byte == b':').count();
    match text.iter().rposition(|byte| *byte == b':') {
        Some(last) if colons > 1 && text.first() != Some(&b'[') => text.get(..last).unwrap_or(text),
        _ => text,
    }
}

/// The columns of [`LogFormat::Access`].
const ACCESS: &[&str] = &[
    "vhost",
    "remote_addr",
    "ident",
    "remote_user",
    "time_local",
    "request",
    "status",
    "body_bytes_sent",
    "http_referer",
    "http_user_agent",
];

/// The columns of [`LogFormat::Alb`].
const ALB: &[&str] = &[
    "type",
    "time",
    "elb",
    "client",
    "target",
    "request_processing_time",
    "target_processing_time",
    "response_processing_time",
    "elb_status_code",
    "target_status_code",
    "received_bytes",
    "sent_bytes",
    "request",
    "user_agent",
    "ssl_cipher",
    "ssl_protocol",
    "target_group_arn",
    "trace_id",
    "domain_name",
    "chosen_cert_arn",
    "matched_rule_priority",
    "request_creation_time",
    "actions_executed",
    "redirect_url",
    "error_reason",
    "target_port_list",
    "target_status_code_list",
    "classification",
    "classification_reason",
    "conn_trace_id",
];

/// The columns of [`LogFormat::Elb`].
const ELB: &[&str] = &[
    "timestamp",
    "elb",
    "client",
    "backend",
    "request_processing_time",
    "backend_processing_time",
    "response_processing_time",
    "elb_status_code",
    "backend_status_code",
    "received_bytes",
    "sent_bytes",
    "request",
    "user_agent",
    "ssl_cipher",
    "ssl_protocol",
];

/// Which column of S3 is the referer, which the user agent follows.
const S3_REFERER: usize = 15;

/// The columns of [`LogFormat::S3`].
const S3: &[&str] = &[
    "bucket_owner",
    "bucket",
    "time",
    "remote_ip",
    "requester",
    "request_id",
    "operation",
    "key",
    "request_uri",
    "http_status",
    "error_code",
    "bytes_sent",
    "object_size",
    "total_time",
    "turn_around_time",
    "referer",
    "user_agent",
    "version_id",
    "host_id",
    "signature_version",
    "cipher_suite",
    "authentication_type",
    "host_header",
    "tls_version",
    "access_point_arn",
    "acl_required",
];

/// The columns of [`LogFormat::Vpc`].
const VPC: &[&str] = &[
    "version",
    "account-id",
    "interface-id",
    "srcaddr",
    "dstaddr",
    "srcport",
    "dstport",
    "protocol",
    "packets",
    "bytes",
    "start",
    "end",
    "action",
    "log-status",
];

/// The columns of [`LogFormat::Haproxy`].
const HAPROXY: &[&str] = &[
    "client",
    "accept_date",
    "frontend",
    "server",
    "timers",
    "status",
    "bytes_read",
    "captured_request_cookie",
    "captured_response_cookie",
    "termination_state",
    "connections",
    "queues",
    "captured_request_headers",
    "captured_response_headers",
    "request",
];

/// The columns of [`LogFormat::Squid`].
const SQUID: &[&str] =
    &["time", "elapsed", "client", "result", "bytes", "method", "url", "user", "hierarchy", "type"];

/// The columns of [`LogFormat::Envoy`].
const ENVOY: &[&str] = &[
    "start_time",
    "request",
    "response_code",
    "response_flags",
    "bytes_received",
    "bytes_sent",
    "duration",
    "upstream_service_time",
    "x_forwarded_for",
    "user_agent",
    "request_id",
    "authority",
    "upstream_host",
];

/// The columns of [`LogFormat::Istio`].
const ISTIO: &[&str] = &[
    "start_time",
    "request",
    "response_code",
    "response_flags",
    "response_code_details",
    "connection_termination_details",
    "upstream_transport_failure_reason",
    "bytes_received",
    "bytes_sent",
    "duration",
    "upstream_service_time",
    "x_forwarded_for",
    "user_agent",
    "request_id",
    "authority",
    "upstream_host",
    "upstream_cluster",
    "upstream_local_address",
    "downstream_local_address",
    "downstream_remote_address",
    "requested_server_name",
    "route_name",
];

/// The columns of [`LogFormat::NginxError`].
const NGINX_ERROR: &[&str] = &["time", "level", "process", "message", "client"];

/// The columns of [`LogFormat::Sshd`].
const SSHD: &[&str] = &["message"];

/// The columns of [`LogFormat::Anywhere`].
const ANYWHERE: &[&str] = &["message"];
