//! One line of each format, read as its own documentation says, and any bytes at all.

use super::*;

/// A format, a line of it, its address, and some of its columns.
type Sample = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);
const LINES: [Sample; 17] = [
    (
        "alb",
        r#"https 2026-11-20T12:00:00.186641Z app/lb/50dc 192.0.2.7:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://a:443/ HTTP/1.1" "curl/7 "x"" ECDHE TLSv1.2 arn:aws "Root=1-5" "a" "arn" 1 2026-11-20T12:00:00.0Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-" TID_1"#,
        "192.0.2.7:2817",
        &[("request", "GET https://a:443/ HTTP/1.1"), ("conn_trace_id", "TID_1")],
    ),
    (
        "elb",
        r#"2026-11-20T12:00:00.945958Z lb 192.0.2.7:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://a:80/ HTTP/1.1" "curl/7" - -"#,
        "192.0.2.7:2817",
        &[("backend", "10.0.0.1:80"), ("ssl_protocol", "-")],
    ),
    (
        "s3",
        r#"79a5 bucket [06/Feb/2026:00:00:38 +0000] 192.0.2.7 79a5 3E57 REST.GET.VERSIONING - "GET /b?versioning HTTP/1.1" 200 - 113 - 7 - "-" "S3Console/0.4" - s9lz SigV4 ECDHE AuthHeader b.s3 TLSV1.2 - -"#,
        "192.0.2.7",
        &[("operation", "REST.GET.VERSIONING"), ("acl_required", "-")],
    ),
    (
        "s3 with quotes that nobody escaped",
        r#"79a5 bucket [06/Feb/2026:00:00:38 +0000] 192.0.2.7 79a5 3E57 REST.GET.OBJECT k "GET /b/k HTTP/1.1" 200 - 113 - 7 - "https://a/"b"" "x "y" "z" w" - s9lz SigV4 ECDHE AuthHeader b.s3 TLSV1.2 - -"#,
        "192.0.2.7",
        &[
            ("referer", r#"https://a/"b""#),
            ("user_agent", r#"x "y" "z" w"#),
            ("version_id", "-"),
            ("host_id", "s9lz"),
            ("acl_required", "-"),
        ],
    ),
    (
        "iptables",
        "Feb  6 12:12:56 gate kernel: [ 12.5] [UFW BLOCK] IN=eth0 OUT= MAC=aa SRC=192.0.2.7 DST=10.0.0.1 LEN=40 TOS=0x00 PREC=0x00 TTL=64 ID=1 PROTO=TCP SPT=1 DPT=22 WINDOW=1 RES=0x00 SYN URGP=0",
        "192.0.2.7",
        &[("syslog_host", "gate"), ("DPT", "22"), ("flags", "SYN")],
    ),
    (
        "vpc",
        "2 123456789010 eni-1235 192.0.2.7 10.0.0.1 20641 22 6 20 4249 1418530010 1418530070 ACCEPT OK",
        "192.0.2.7",
        &[("action", "ACCEPT")],
    ),
    (
        "haproxy",
        r#"Feb  6 12:14:14 localhost haproxy[14389]: 192.0.2.7:33317 [06/Feb/2026:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu a} {} "GET /index.html HTTP/1.1""#,
        "192.0.2.7:33317",
        &[
            ("syslog_host", "localhost"),
            ("request", "GET /index.html HTTP/1.1"),
            ("captured_request_headers", "1wt.eu a"),
        ],
    ),
    (
        "haproxy tcp",
        "Feb  6 12:12:56 localhost haproxy[14387]: 192.0.2.7:33313 [06/Feb/2026:12:12:51.443] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0",
        "192.0.2.7:33313",
        &[("bytes_read", "212"), ("queues", "0/0")],
    ),
    (
        "haproxy",
        "Feb  6 12:12:56 localhost haproxy[14387]: 2001:db8::1:8000 [06/Feb/2026:12:12:51.443] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0",
        "2001:db8::1",
        &[("bytes_read", "212")],
    ),
    (
        "haproxy of a dual listener",
        "Feb  6 12:12:56 localhost haproxy[14387]: ::ffff:192.0.2.7:44310 [06/Feb/2026:12:12:51.443] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0",
        "::ffff:192.0.2.7",
        &[("bytes_read", "212")],
    ),
    (
        "squid",
        "1066036250.603    310 192.0.2.7 TCP_MISS/304 150 GET http://a/ - DIRECT/198.51.100.1 text/html",
        "192.0.2.7",
        &[("elapsed", "310"), ("type", "text/html")],
    ),
    (
        "envoy",
        r#"[2026-04-15T20:17:00.310Z] "POST /api HTTP/2" 204 - 154 0 226 100 "192.0.2.7,10.0.0.1" "nsq2http" "cc21" "locations" "tcp://10.0.2.1:80""#,
        "192.0.2.7,10.0.0.1",
        &[("upstream_host", "tcp://10.0.2.1:80")],
    ),
    (
        "istio",
        r#"[2026-11-25T21:26:18.409Z] "GET /status/418 HTTP/1.1" 418 - via_upstream - "-" 0 135 4 4 "-" "curl/7" "84" "httpbin:8000" "10.44.1.27:80" out 10.44.1.23:37652 10.0.45.184:8000 192.0.2.7:46520 - default"#,
        "192.0.2.7:46520",
        &[("route_name", "default")],
    ),
    (
        "nginx error",
        r#"2026/11/20 12:00:00 [error] 7#8: *5 open() "/a, client: 9.9.9.9" failed (2: No such file), client: 192.0.2.7, server: a, request: "GET / HTTP/1.1""#,
        "192.0.2.7",
        &[("level", "error"), ("process", "7#8")],
    ),
    (
        "sshd",
        "Dec 10 06:55:46 LabSZ sshd[24200]: Failed password for invalid user 9.9.9.9 from 192.0.2.7 port 22 ssh2",
        "192.0.2.7",
        &[("syslog_program", "sshd"), ("syslog_host", "LabSZ")],
    ),
    (
        "access behind RFC 5424",
        r#"<134>1 2026-11-20T12:00:00Z web nginx 77 - [a b="]"] 192.0.2.7 - ann b [20/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 17"#,
        "192.0.2.7",
        &[("syslog_program", "nginx"), ("remote_user", "ann b"), ("status", "200")],
    ),
    (
        "a program that is not known",
        "Dec 10 06:55:46 LabSZ dovecot: imap-login: Login: user=<a>, rip=192.0.2.7, lip=10.0.0.1",
        "192.0.2.7",
        &[("syslog_program", "dovecot")],
    ),
];

fn parts<'a>(
    columns: &Columns,
    line: &'a str,
) -> Result<(Vec<Option<&'a str>>, &'a str), LogFault> {
    let (mut parts, mut scratch) = (Vec::new(), Scratch::default());
    let address = columns.split(line.as_bytes(), 0..line.len(), &mut parts, &mut scratch)?;
    let texts = parts.into_iter().map(|part| line.get(part)).collect();
    Ok((texts, &line[address]))
}

#[test]
fn every_format_is_found_and_its_columns_and_address_are_right() {
    for (name, line, address, some) in LINES {
        let columns = detect(&[line.as_bytes()]).unwrap_or_else(|| panic!("{name} is not found"));
        let (texts, found) =
            parts(&columns, line).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        assert!(found == address || found.starts_with(address), "{name}: {found}");
        for (column, text) in some {
            let at = columns.names().iter().position(|known| known == column);
            let at = at.unwrap_or_else(|| panic!("{name} has no {column}: {:?}", columns.names()));
            assert_eq!(texts[at], Some(*text), "{name}: {column}");
        }
    }
}

#[test]
fn a_header_names_the_columns_of_its_format() {
    let of = |lines: &[&str]| {
        let bytes: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        detect(&bytes)
    };
    let iis = of(&[
        "#Software: IIS",
        "#Fields: date time s-ip c-ip cs(User-Agent)",
        "2026-11-20 12:00:00 10.0.0.1 192.0.2.7 curl",
    ]);
    let iis = iis.expect("a header");
    assert_eq!(parts(&iis, "2026-11-20 12:00:00 10.0.0.1 192.0.2.7 curl").unwrap().1, "192.0.2.7");
    assert_eq!(parts(&iis, "2026-11-20 12:00:00"), Err(LogFault::WrongColumnCount));
    let cloudfront =
        of(&["#Version: 1.0", "#Fields: date c-ip cs(Cookie)", "2026-11-20\t192.0.2.7\ta b"])
            .unwrap();
    assert_eq!(parts(&cloudfront, "2026-11-20\t192.0.2.7\ta b").unwrap().0[2], Some("a b"));
    let zeek =
        of(&["#separator \\x09", "#fields\tts\tid.orig_h\tnote", "1.0\t192.0.2.7\tx"]).unwrap();
    assert_eq!(parts(&zeek, "1.0\t192.0.2.7\tx").unwrap().1, "192.0.2.7");
    let flow = of(&["version srcaddr dstaddr vpc-id", "5 192.0.2.7 10.0.0.1 vpc-1"]).unwrap();
    assert_eq!(parts(&flow, "5 192.0.2.7 10.0.0.1 vpc-1").unwrap().1, "192.0.2.7");
    assert_eq!(flow.passed(b"version srcaddr dstaddr vpc-id"), Some(SkippedLine::Comment));
    assert_eq!(iis.passed(b"#Date: x"), Some(SkippedLine::Comment));
    assert_eq!(iis.passed(b"#Fields: other"), Some(SkippedLine::OtherHeader));
    assert_eq!(iis.passed(b""), Some(SkippedLine::Empty));
    assert_eq!(of(&["ip,name", "192.0.2.7,a"]), None);
    assert_eq!(of(&["hello world", "192.0.2.7 a"]), None);
}

#[test]
fn a_line_of_another_form_behind_other_bytes_has_no_parts_in_them() {
    let columns = Columns::named(LogFormat::Access, false);
    let (mut parts, mut scratch) = (Vec::new(), Scratch::default());
    let text = b"1.1.1.1 - -\nfour words are here";
    assert!(columns.split(text, 12..text.len(), &mut parts, &mut scratch).is_err());
    assert!(parts.iter().all(|part| 12 <= part.start), "{parts:?}");
}

#[test]
fn lines_with_and_without_a_prefix_or_a_virtual_host_are_read_by_the_line() {
    let columns = Columns::named(LogFormat::Access, true);
    let line = r#"192.0.2.7 - - [20/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 17"#;
    for (before, host) in
        [("", None), ("a.example:80 ", Some("a.example:80")), ("Nov  1 10:00:00 web nginx: ", None)]
    {
        let line = format!("{before}{line}");
        let (texts, address) = parts(&columns, &line).expect("a line");
        assert_eq!((address, texts[3]), ("192.0.2.7", host));
    }
}

#[test]
fn lines_cut_at_any_byte_or_of_any_bytes_have_their_parts_inside() {
    let check = |columns: &Columns, line: &[u8]| {
        let (mut parts, mut scratch) = (Vec::new(), Scratch::default());
        let found = columns.split(line, 0..line.len(), &mut parts, &mut scratch);
        for part in parts.iter().chain(found.as_ref().ok()).filter(|part| **part != ABSENT) {
            assert!(part.start <= part.end && part.end <= line.len(), "{part:?} of {line:?}");
        }
    };
    let formats: Vec<Columns> =
        LINES.iter().filter_map(|(_, line, ..)| detect(&[line.as_bytes()])).collect();
    for (_, line, ..) in LINES {
        for size in 0..=line.len() {
            let cut = &line.as_bytes()[..size];
            formats.iter().for_each(|columns| check(columns, cut));
            let _ = detect(&[cut]);
            let mut changed = line.as_bytes().to_vec();
            if let Some(byte) = changed.get_mut(size) {
                *byte = b'"';
            }
            formats.iter().for_each(|columns| check(columns, &changed));
        }
    }
}
