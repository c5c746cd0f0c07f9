//! CPU time of `whered enrich` for a line of each log format, next to that of a combined line.
//!
//! Not for lookups: they cost the same in every format, and `--no-lookup` leaves them out. Lines
//! of all formats have about the length of a combined line, by the length of a user agent, a path
//! or a message. Formats run in turn; the least time of all rounds counts. The number of records
//! that the program reports is checked.
//!
//! ```text
//! log_formats WHERED DATABASE [ROUNDS [FORMAT ...]]
//! format, bytes a line, ns a line (NDJSON), ratio to combined
//! ```
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what this program is for"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::{fs, io};

use whered_random::Random;

/// How many lines a log has.
const LINES: usize = 1_000_000;
/// The length of a line that all formats have, about.
const LINE_BYTES: usize = 190;
/// The kernel counts CPU time in these.
const TICKS_A_SECOND: f64 = 100.0;

/// A format's name, its header, and a line by an address, numbers and a filler text.
struct LogFormat {
    name: &'static str,
    header: &'static str,
    line: fn(&str, u32, &str) -> String,
}

const FORMATS: [LogFormat; 18] = [
    LogFormat {
        name: "combined",
        header: "",
        line: |ip, n, fill| {
            format!(
                r#"{ip} - - [20/Nov/2026:12:00:00 +0000] "GET /a/{n} HTTP/1.1" 200 {n} "https://a.example/" "{fill}""#
            )
        },
    },
    LogFormat {
        name: "combined behind syslog",
        header: "",
        line: |ip, n, fill| {
            format!(
                r#"Nov 20 12:00:00 web nginx: {ip} - - [20/Nov/2026:12:00:00 +0000] "GET /a/{n} HTTP/1.1" 200 {n} "-" "{fill}""#
            )
        },
    },
    LogFormat {
        name: "alb",
        header: "",
        line: |ip, n, fill| {
            let ip = bracketed(ip);
            format!(
                r#"https 2026-11-20T12:00:00.1Z app/lb {ip}:80 10.0.0.1:80 0.086 0.048 0.037 200 200 0 {n} "GET https://a/ HTTP/1.1" "{fill}" ECDHE TLSv1.2 arn "Root=1" "a" "arn" 1 2026-11-20T12:00:00.0Z "forward" "-" "-" "-" "-" "-" "-" TID"#
            )
        },
    },
    LogFormat {
        name: "elb",
        header: "",
        line: |ip, n, fill| {
            let ip = bracketed(ip);
            format!(
                r#"2026-11-20T12:00:00.9Z lb {ip}:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 {n} "GET http://a:80/ HTTP/1.1" "{fill}" - -"#
            )
        },
    },
    LogFormat {
        name: "s3",
        header: "",
        line: |ip, n, fill| {
            format!(
                r#"79a5 b [06/Feb/2026:00:00:38 +0000] {ip} 79a5 3E57 REST.GET.OBJECT k "GET /b/k HTTP/1.1" 200 - {n} - 7 - "-" "{fill}" - s9lz SigV4 ECDHE AuthHeader b.s3 TLSV1.2 - -"#
            )
        },
    },
    LogFormat {
        name: "vpc",
        header: "",
        line: |ip, n, fill| {
            let fill = fill.replace(' ', "-");
            format!(
                "2 123456789010 eni-{fill} {ip} 10.0.0.1 20641 22 6 20 {n} 1418530010 1418530070 ACCEPT OK"
            )
        },
    },
    LogFormat {
        name: "haproxy",
        header: "",
        line: |ip, n, fill| {
            let ip = bracketed(ip);
            format!(
                r#"Feb  6 12:14:14 lb haproxy[14389]: {ip}:33317 [06/Feb/2026:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 {n} - - ---- 1/1/1/1/0 0/0 {{a.example}} {{}} "GET /{fill} HTTP/1.1""#
            )
        },
    },
    LogFormat {
        name: "squid",
        header: "",
        line: |ip, n, fill| {
            let fill = fill.replace(' ', "-");
            format!(
                "1066036250.603    310 {ip} TCP_MISS/304 {n} GET http://a/{fill} - DIRECT/198.51.100.1 text/html"
            )
        },
    },
    LogFormat {
        name: "envoy",
        header: "",
        line: |ip, n, fill| {
            format!(
                r#"[2026-04-15T20:17:00.310Z] "POST /api HTTP/2" 204 - 154 0 {n} 100 "{ip}" "{fill}" "cc21" "locations" "tcp://10.0.2.1:80""#
            )
        },
    },
    LogFormat {
        name: "istio",
        header: "",
        line: |ip, n, fill| {
            let ip = bracketed(ip);
            format!(
                r#"[2026-11-25T21:26:18.4Z] "GET /a HTTP/1.1" 418 - via_upstream - "-" 0 135 {n} 4 "-" "{fill}" "84" "h:80" "10.44.1.27:80" out 10.44.1.23:37652 10.0.45.184:8000 {ip}:46520 - default"#
            )
        },
    },
    LogFormat {
        name: "nginx-error",
        header: "",
        line: |ip, n, fill| {
            format!(
                r#"2026/11/20 12:00:00 [error] 7#8: *{n} open() "/{fill}" failed (2: No such file), client: {ip}, server: a, request: "GET / HTTP/1.1""#
            )
        },
    },
    LogFormat {
        name: "iptables",
        header: "",
        line: |ip, n, fill| {
            let rest = match ip.contains(':') {
                true => "LEN=60 TC=0 HOPLIMIT=64 FLOWLBL=0",
                false => "LEN=60 TOS=0x00 PREC=0x00 TTL=64 ID=7 DF",
            };
            let to = if ip.contains(':') { "2001:db8::1" } else { "10.0.0.9" };
            let prefix = fill.get(..20).unwrap_or(fill);
            format!(
                "Nov 20 12:00:00 gate kernel: [12.5] [{prefix}] IN=eth0 OUT= MAC=52:54:00:12:34:56:52:54:00:65:43:21:08:00 SRC={ip} DST={to} {rest} PROTO=TCP SPT={} DPT=22 WINDOW=64240 RES=0x00 SYN URGP=0",
                n & 0xffff
            )
        },
    },
    LogFormat {
        name: "sshd",
        header: "",
        line: |ip, n, fill| {
            format!(
                "Nov 20 12:00:00 host sshd[24200]: Failed password for invalid user {fill} from {ip} port {} ssh2",
                n & 0xffff
            )
        },
    },
    LogFormat {
        name: "w3c",
        header: "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) sc-status sc-substatus sc-win32-status time-taken\n",
        line: |ip, n, fill| {
            let fill = fill.replace(' ', "+");
            format!("2026-11-20 12:00:00 10.0.0.9 GET /a x=1 443 - {ip} {fill} 200 0 0 {n}")
        },
    },
    LogFormat {
        name: "cloudfront",
        header: "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie)\n",
        line: |ip, n, fill| {
            format!(
                "2026-11-20\t12:00:00\tFRA2\t{n}\t{ip}\tGET\td1.cloudfront.net\t/a\t200\t-\t{fill}\t-\t-"
            )
        },
    },
    LogFormat {
        name: "zeek",
        header: "#separator \\x09\n#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\ttags\tnote\n",
        line: |ip, n, fill| {
            format!("{n}.5\tCHhAvVGS1DHFjwGM9\t{ip}\t5\t10.0.0.1\t443\ttcp\t(empty)\t{fill}")
        },
    },
    LogFormat {
        name: "csv",
        header: "time,ip,n,agent,status\n",
        line: |ip, n, fill| format!(r#"2026-11-20T12:00:00,{ip},{n},"{fill}",200"#),
    },
    LogFormat {
        name: "ndjson",
        header: "",
        line: |ip, n, fill| {
            format!(
                r#"{{"time":"2026-11-20T12:00:00Z","httpRequest":{{"remoteIp":"{ip}","status":200}},"n":{n},"agent":"{fill}"}}"#
            )
        },
    },
];

fn bracketed(ip: &str) -> String {
    if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() }
}

/// The lines of a format, each about [`LINE_BYTES`] long.
fn lines(format: &LogFormat) -> String {
    let mut random = Random::new(46);
    let mut text = format.header.to_owned();
    let agent =
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0 "
            .repeat(4);
    let shortest = (format.line)("192.0.2.100", 100_000, "").len();
    let fill_bytes = LINE_BYTES.saturating_sub(shortest).clamp(8, agent.len());
    for _ in 0..LINES {
        let bits = random.next_u64();
        let ip = match bits % 20 {
            0 => std::net::Ipv6Addr::from_bits(u128::from(bits) << 64 | 0x2001 << 112).to_string(),
            _ => std::net::Ipv4Addr::from_bits((bits >> 32) as u32).to_string(),
        };
        let fill = agent.get(..fill_bytes).unwrap_or_default().trim_end();
        // Writing into a string never fails.
        let _ = writeln!(text, "{}", (format.line)(&ip, (bits >> 8) as u32 % 1_000_000, fill));
    }
    text
}

/// The CPU time of all ended children in ticks.
fn children_ticks() -> io::Result<u64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<u64> =
        behind_name.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    // Times of children are fields 16 and 17; the third field is the first behind the name.
    Ok(fields.iter().skip(13).take(2).sum())
}

/// Runs the program over a log; gives the nanoseconds of CPU time a line.
fn run(program: &Path, database: &Path, log: &Path) -> Result<f64, String> {
    let fail = |error: io::Error| format!("{}: {error}", program.display());
    let before = children_ticks().map_err(fail)?;
    let mut command = Command::new(program);
    command.args(["enrich", "--no-lookup", "--format", "ndjson", "--threads", "1"]);
    command.arg("--db").arg(database).arg(log).stdin(Stdio::null()).stdout(Stdio::null());
    let done = command.stderr(Stdio::piped()).output().map_err(fail)?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    if !said.contains(&format!("{LINES} records: 0 found, {LINES} not found, 0 bad")) {
        return Err(format!("{}: {said}", log.display()));
    }
    let ticks = children_ticks().map_err(fail)? - before;
    Ok(ticks as f64 / TICKS_A_SECOND * 1e9 / LINES as f64)
}

fn measure(arguments: &[String]) -> Result<(), String> {
    let [program, database, rest @ ..] = arguments else {
        return Err("allowed: WHERED DATABASE [ROUNDS [FORMAT ...]]".to_owned());
    };
    let rounds: usize =
        rest.first().map_or(Ok(3), |rounds| rounds.parse()).map_err(|_| "ROUNDS")?;
    let names = rest.get(1..).unwrap_or_default();
    let folder = std::env::temp_dir().join(format!("whered-log-formats-{}", std::process::id()));
    let fail = |error: io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(fail)?;
    let is_asked = |format: &&LogFormat| {
        format.name == "combined"
            || names.is_empty()
            || names.iter().any(|name| name == format.name)
    };
    let formats: Vec<&LogFormat> = FORMATS.iter().filter(is_asked).collect();
    let mut logs: Vec<(PathBuf, usize, f64)> = Vec::new();
    for (number, format) in formats.iter().enumerate() {
        let (path, text) = (folder.join(format!("{number}.log")), lines(format));
        fs::write(&path, &text).map_err(fail)?;
        logs.push((path, (text.len() - format.header.len()) / LINES, f64::INFINITY));
    }
    let mut failed = Ok(());
    for _ in 0..rounds {
        for (path, _, least) in &mut logs {
            match run(Path::new(program), Path::new(database), path) {
                Ok(time) => *least = least.min(time),
                Err(what) => failed = Err(what),
            }
        }
    }
    fs::remove_dir_all(&folder).map_err(fail)?;
    failed?;
    let combined = logs.first().map_or(0.0, |(_, _, time)| *time);
    for (format, (_, bytes, time)) in formats.iter().zip(&logs) {
        println!("{:<24} {bytes:>4} bytes {time:>6.0} ns  {:.2}", format.name, combined / time);
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match measure(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("log_formats: {what}");
            ExitCode::from(2)
        }
    }
}
