//! Any bytes as a log of any named format, or by any format string: parts lie inside of their line,
//! never a panic.
//!
//! Not for logs that are right; the tests have those.
//!
//! ```text
//! input: | format | length of a format string | format string | lines ... |
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;
use whered_capture::logs::{ABSENT, Columns, LogFormat, Pattern, Scratch, detect};

const FORMATS: [LogFormat; 13] = [
    LogFormat::Access,
    LogFormat::Alb,
    LogFormat::Elb,
    LogFormat::S3,
    LogFormat::Vpc,
    LogFormat::Haproxy,
    LogFormat::Squid,
    LogFormat::Envoy,
    LogFormat::Istio,
    LogFormat::NginxError,
    LogFormat::Netfilter,
    LogFormat::Sshd,
    LogFormat::Anywhere,
];

fuzz_target!(|input: &[u8]| {
    let [format, size, rest @ ..] = input else { return };
    let (string, bytes) = rest.split_at(usize::from(*size).min(rest.len()));
    let lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    let pattern = std::str::from_utf8(string).ok().and_then(|string| Pattern::new(string).ok());
    let named = FORMATS.get(usize::from(format & 15)).copied();
    let named = named.map(|named| Columns::named(named, format & 16 != 0));
    let all = [named, pattern.map(Columns::of_pattern), detect(&lines)];
    let mut scratch = Scratch::default();
    for columns in all.iter().flatten() {
        let mut start = 0;
        for line in &lines {
            let content = start..start + line.len();
            let mut parts = Vec::new();
            let found = columns.split(bytes, content.clone(), &mut parts, &mut scratch);
            for part in parts.iter().chain(found.as_ref().ok()).filter(|part| **part != ABSENT) {
                assert!(content.start <= part.start && part.start <= part.end, "{part:?}");
                assert!(part.end <= content.end, "{part:?}");
            }
            let _ = columns.passed(line);
            start = content.end + 1;
        }
    }
});
