//! Zeek's logs, tables and lines: every column, every mistake with its line and column.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use whered_capture::{
    Capture, CaptureError, ConnectionState, ErrorKind, Format, PacketRecord, Skip,
};

fn read(text: &str) -> Result<Vec<PacketRecord>, CaptureError> {
    Capture::new(text.as_bytes())?.collect()
}

fn error(text: &str) -> CaptureError {
    read(text).unwrap_err()
}

/// Line, column, what was found.
fn place(text: &str) -> (u64, usize, String) {
    let error = error(text);
    assert!(!error.allowed().is_empty() && !error.to_string().contains('\n'));
    (error.line().unwrap(), error.column().unwrap(), error.found().to_owned())
}

fn key(record: &PacketRecord) -> String {
    format!(
        "{} {} {} {:?} {:?} {:?} {:?}",
        record.source,
        record.destination,
        record.protocol,
        record.source_port,
        record.destination_port,
        record.icmp_type,
        record.icmp_code
    )
}

const FIELDS: &str = "ts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tservice\t\
    orig_bytes\tresp_bytes\tconn_state\torig_pkts\torig_ip_bytes\tresp_pkts\tresp_ip_bytes";

fn zeek(rows: &[&str]) -> String {
    let rows: Vec<String> = rows.iter().map(|row| row.replace(' ', "\t")).collect();
    format!(
        "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n\
         #open\t2009-11-18-16-44-31\n#fields\t{FIELDS}\n#types\ttime\tstring\n{}\n#close\tx\n",
        rows.join("\n")
    )
}

#[test]
fn zeek_flows_in_both_forms() {
    let text = zeek(&[
        "1258531221.486539 Ca 192.168.1.102 68 192.168.1.1 67 udp dhcp 163 301 SF 1 191 1 329",
        "1258531680.237254 Cb fe80::1 135 ff02::1 136 icmp - 10 - OTH 1 70 0 0",
        "1258531681.5 Cc 10.0.0.1 3 10.0.0.2 1 icmp - - - OTH 2 - 3 -",
        "1258531682 Cd 10.0.0.1 1 10.0.0.2 2 unknown_transport - - - OTH - - - -",
        "1258531683 Ce 10.0.0.1 40000 10.0.0.2 22 tcp ssh - 7 S0 - - - -",
        "1258531684 Cf 10.0.0.1 40000 10.0.0.2 22 tcp - - - SHR - - - -",
    ]);
    let mut capture = Capture::new(text.as_bytes()).unwrap();
    assert_eq!(capture.format(), Format::ZeekTsv);
    let found: Vec<PacketRecord> = capture.by_ref().map(Result::unwrap).collect();
    assert_eq!(capture.totals().skipped(Skip::UnknownProtocol), 1);
    let keys: Vec<String> = found.iter().map(key).collect();
    let expected = [
        "192.168.1.102 192.168.1.1 17 Some(68) Some(67) None None",
        "fe80::1 ff02::1 58 None None Some(135) Some(0)",
        "10.0.0.1 10.0.0.2 1 None None Some(3) Some(1)",
        "10.0.0.1 10.0.0.2 6 Some(40000) Some(22) None None",
        "10.0.0.1 10.0.0.2 6 Some(40000) Some(22) None None",
    ];
    assert_eq!(keys, expected);
    let states: Vec<_> = found.iter().map(|record| record.state.unwrap().name()).collect();
    assert_eq!(states, ["established", "new", "established", "new", "invalid"]);
    let bytes: Vec<_> = found.iter().map(|record| record.bytes).collect();
    assert_eq!(bytes, [Some(520), Some(70), None, Some(7), None]);
    assert_eq!(found[0].time_nanoseconds, Some(1_258_531_221_486_539_000));
    assert_eq!(found[4].number, 6);

    let json = r#"{"ts":1258531221.486539,"uid":"Ca","id.orig_h":"192.168.1.102","id.orig_p":68,"id.resp_h":"192.168.1.1","id.resp_p":67,"proto":"udp","conn_state":"SF","orig_ip_bytes":191,"resp_ip_bytes":329,"tags":["a",{"b":1}]}
{"ts":"2009-11-18T08:08:00.237254Z","id.orig_h":"fe80::1","id.orig_p":135,"id.resp_h":"ff02::1","id.resp_p":136,"proto":"icmp","conn_state":"OTH","orig_pkts":1,"orig_ip_bytes":70}

{"id.orig_h":"10.0.0.1","id.orig_p":3,"id.resp_h":"10.0.0.2","id.resp_p":1,"proto":"icmp","conn_state":"OTH","orig_pkts":2,"resp_pkts":3}
{"id.orig_h":"10.0.0.1","id.resp_h":"10.0.0.2","proto":"unknown_transport"}
"#;
    let mut capture = Capture::new(json.as_bytes()).unwrap();
    assert_eq!(capture.format(), Format::ZeekJson);
    let other: Vec<PacketRecord> = capture.by_ref().map(Result::unwrap).collect();
    assert_eq!(capture.totals().skipped(Skip::UnknownProtocol), 1);
    assert_eq!(other[..2], found[..2]);
    assert_eq!(other[2], PacketRecord { time_nanoseconds: None, ..found[2] });
}

#[test]
fn every_state_of_zeek_is_known() {
    use ConnectionState::{Established, Invalid, New};
    for (name, state) in [
        ("S0", New),
        ("SH", New),
        ("REJ", New),
        ("RSTOS0", New),
        ("S1", Established),
        ("SF", Established),
        ("S2", Established),
        ("S3", Established),
        ("RSTO", Established),
        ("RSTR", Established),
        ("RSTRH", Invalid),
        ("SHR", Invalid),
        ("OTH", New),
    ] {
        let row = format!("1 C 10.0.0.1 1 10.0.0.2 2 tcp - - - {name} - - - -");
        assert_eq!(read(&zeek(&[&row])).unwrap()[0].state, Some(state), "{name}");
    }
}

#[test]
fn mistakes_in_zeek_logs_have_their_place() {
    let row = "1 C 10.0.0.1 70000 10.0.0.2 2 tcp - - - SF - - - -";
    assert_eq!(place(&zeek(&[row])), (9, 14, "\"70000\" in sport".to_owned()));
    let row = "1 C 10.0.0.1 7 10.0.0.2 2 tcp - - - XX - - - -";
    assert_eq!(place(&zeek(&[row])), (9, 37, "\"XX\"".to_owned()));
    assert_eq!(place(&zeek(&["1 C 10.0.0.1"])), (9, 13, "12 values too few".to_owned()));
    let row = "1 C - 7 10.0.0.2 2 tcp - - - SF - - - -";
    assert_eq!(place(&zeek(&[row])), (9, 1, "no src".to_owned()));
    let row = "1 C 10.0.0.1 7 10.0.0.2 2 tcp - x - SF - - - -";
    assert_eq!(place(&zeek(&[row])), (9, 33, "\"x\"".to_owned()));
    assert_eq!(place("#separator \\x09\n1\t2\n"), (2, 1, "a flow before #fields".to_owned()));
    assert_eq!(place("#separator \\x9\n"), (1, 12, "\"\\x9\"".to_owned()));
    assert_eq!(place("#fields\tts\tuid\n"), (1, 1, "no field for src".to_owned()));

    let json = |line: &str| place(&format!("{line}\n"));
    assert_eq!(json("{"), (1, 1, "EOF while parsing an object".to_owned()));
    assert_eq!(json("{}"), (1, 2, "missing field `id.orig_h`".to_owned()));
    let line = r#"{"id.orig_h":"10.0.0.1","id.resp_h":"::1","proto":"tcp"}"#;
    assert_eq!(json(line), (1, 1, "addresses of two families".to_owned()));
    let line = r#"{"id.orig_h":"10.0.0.1","id.resp_h":"10.0.0.2","proto":"what"}"#;
    assert_eq!(json(line), (1, 1, "\"what\" in proto".to_owned()));
    let line = r#"{"ts":[1],"id.orig_h":"10.0.0.1","id.resp_h":"10.0.0.2","proto":"tcp"}"#;
    assert_eq!(json(line), (1, 1, "\"[1]\" in ts".to_owned()));
    let line = r#"{"id.orig_h":"10.0.0.1","id.orig_p":65536,"id.resp_h":"10.0.0.2","proto":"tcp"}"#;
    assert_eq!(json(line).0, 1);
}

#[test]
fn tables_have_columns_of_many_names() {
    let text = "\u{feff}# made by hand\n\nTimestamp;Src_IP;dst-addr;Proto;SPort;Dst.Port;State;\
        In;Out Interface;Bytes;TCP_Flags;DSCP;note\r\n\
        1.5;10.0.0.1;10.0.0.2;tcp;1;2;NEW;eth0;\"wan \"\"1\"\"\";99;SYN|ACK;af11;\"a;b\"\r\n\
        ;\"2001:db8::1\";2001:db8::2;17;;-;;;;;;;\n\
        2;10.0.0.1;10.0.0.2;gre;0;0;related;lo;eth0;0;0x10;0;";
    let mut capture = Capture::new(text.as_bytes()).unwrap();
    assert_eq!(capture.format(), Format::Csv);
    let found: Vec<PacketRecord> = capture.by_ref().map(Result::unwrap).collect();
    let keys: Vec<String> = found.iter().map(key).collect();
    let expected = [
        "10.0.0.1 10.0.0.2 6 Some(1) Some(2) None None",
        "2001:db8::1 2001:db8::2 17 None None None None",
        "10.0.0.1 10.0.0.2 47 None None None None",
    ];
    assert_eq!(keys, expected);
    let name = |interface: Option<_>| interface.and_then(|it| capture.interface_name(it));
    let first = &found[0];
    assert_eq!((name(first.input), name(first.output)), (Some("eth0"), Some("wan \"1\"")));
    assert_eq!((first.time_nanoseconds, first.bytes), (Some(1_500_000_000), Some(99)));
    assert_eq!((first.tcp_flags, first.dscp), (Some(0x12), Some(10)));
    assert_eq!(first.state, Some(ConnectionState::New));
    assert_eq!((found[1].input, found[1].state), (None, None));
    assert_eq!(found[2].output, first.input);
}

#[test]
fn mistakes_in_tables_have_their_place() {
    let row = |row: &str| place(&format!("src,dst,proto,sport,state\n{row}\n"));
    assert_eq!(row("10.0.0.1,10.0.0.2,tcp,x,new"), (2, 23, "\"x\" in sport".to_owned()));
    assert_eq!(row("10.0.0.1,10.0.0.2,tcp,1,old"), (2, 25, "\"old\" in state".to_owned()));
    assert_eq!(row("10.0.0.1,10.0.0,tcp,1,new"), (2, 10, "\"10.0.0\" in dst".to_owned()));
    assert_eq!(row("10.0.0.1,10.0.0.2,tcp,1"), (2, 24, "1 values too few".to_owned()));
    assert_eq!(row("10.0.0.1,10.0.0.2,6,1,,9"), (2, 24, "one more value".to_owned()));
    assert_eq!(row("10.0.0.1,10.0.0.2,,1,"), (2, 1, "no proto".to_owned()));
    assert_eq!(row("10.0.0.1,::1,6,1,"), (2, 1, "addresses of two families".to_owned()));
    assert_eq!(row("10.0.0.1,\"10.0.0.2,6,1,"), (2, 10, "a broken quote".to_owned()));
    assert_eq!(row("10.0.0.1,\"10.0.0.2\"x,6,1,"), (2, 20, "a broken quote".to_owned()));
    assert_eq!(
        row("10.0.0.1,10.0.0.2,icmp,300,"),
        (2, 1, "an ICMP type or code above 255".to_owned())
    );

    assert_eq!(place("src,dst\n"), (1, 1, "no column proto in src,dst".to_owned()));
    assert_eq!(place("src,dst,Source,proto\n"), (1, 9, "a second column \"Source\"".to_owned()));
    let text = error("src,dst,proto\n1.2.3.4,1.2.3.5,q\n").to_string();
    assert!(text.starts_with("line 2, column 17: found \"q\" in proto, allowed: "), "{text}");
}

#[test]
fn lines_of_packets() {
    let text = "# from a pipe\n\n192.0.2.1 198.51.100.7 tcp 40000 443\r\n\
        2001:db8::1\t2001:db8::2  ICMP 128 0\n\
        192.0.2.1 198.51.100.7 50\n\
        192.0.2.1 198.51.100.7 udp - 53 state=established in=eth0 time=1.5\n\
        192.0.2.1 198.51.100.7 icmp icmp_type=3 icmp_code=4";
    let mut capture = Capture::new(text.as_bytes()).unwrap();
    assert_eq!(capture.format(), Format::Lines);
    let found: Vec<PacketRecord> = capture.by_ref().map(Result::unwrap).collect();
    let keys: Vec<String> = found.iter().map(key).collect();
    let expected = [
        "192.0.2.1 198.51.100.7 6 Some(40000) Some(443) None None",
        "2001:db8::1 2001:db8::2 58 None None Some(128) Some(0)",
        "192.0.2.1 198.51.100.7 50 None None None None",
        "192.0.2.1 198.51.100.7 17 None Some(53) None None",
        "192.0.2.1 198.51.100.7 1 None None Some(3) Some(4)",
    ];
    assert_eq!(keys, expected);
    assert_eq!(found[3].state, Some(ConnectionState::Established));
    assert_eq!(capture.interface_name(found[3].input.unwrap()), Some("eth0"));

    assert_eq!(place("1.2.3.4 1.2.3.5 tcp 1 2 3\n"), (1, 25, "\"3\"".to_owned()));
    assert_eq!(place("1.2.3.4 1.2.3.5 tcp  q\n"), (1, 22, "\"q\" in sport".to_owned()));
    assert_eq!(place("1.2.3.4 1.2.3.5\n"), (1, 16, "no proto".to_owned()));
    assert_eq!(place("1.2.3.4 1.2.3.5 6 a=b\n"), (1, 19, "\"a=b\"".to_owned()));
    assert_eq!(place("1.2.3.4 1.2.3.5 6 in=a 7\n"), (1, 24, "\"7\"".to_owned()));
    assert_eq!(place("1.2.3.4 1.2.3.5 6\n\u{1}\n"), (2, 1, "\"\\u{1}\" in src".to_owned()));
}

#[test]
fn formats_are_told_by_their_first_bytes() {
    let format = |bytes: &[u8]| Capture::new(bytes).map(|capture| capture.format());
    assert_eq!(format(b"").unwrap(), Format::Lines);
    assert_eq!(format(b"#a comment\n\n").unwrap(), Format::Lines);
    assert_eq!(format(b"::1").unwrap(), Format::Lines);
    assert_eq!(format(b"# x\nsrc\tdst\tproto\n").unwrap(), Format::Csv);
    assert_eq!(format(b"\xef\xbb\xbf#fields\tid.orig_h").unwrap(), Format::ZeekTsv);
    for (bytes, found) in [
        (&b"\x1f\x8b\x08\0"[..], "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"BZh9", "bzip2"),
        (b"\xfd7zXZ", "xz"),
        (b"hello\n", "\"hello\""),
        (b"\x7fELF\0\0\0\0", "\"\\u{7f}ELF"),
    ] {
        let error = format(bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownFormat);
        assert!(error.found().contains(found), "{error}");
    }
    for format in Format::ALL {
        assert_eq!(Format::from_name(format.name()), Some(format));
    }
}

#[test]
fn lines_and_names_are_limited() {
    let long = format!("1.2.3.4 1.2.3.5 tcp\n{}", "x".repeat(2 << 20));
    let mut capture = Capture::new(long.as_bytes()).unwrap();
    assert!(capture.next().unwrap().is_ok());
    let error = capture.next().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.line()), (ErrorKind::Limit, Some(2)));

    let name = format!("1.2.3.4 1.2.3.5 tcp in={}\n", "n".repeat(256));
    assert_eq!(error_allowed(&name), "an interface name of at most 255 bytes");
    let names = (0..65_537).map(|index| format!("::1 ::2 6 in=eth{index}\n"));
    let names: String = names.collect();
    assert_eq!(error_allowed(&names), "at most 65,536 interface names");
}

fn error_allowed(text: &str) -> String {
    error(text).allowed().to_owned()
}

#[test]
fn texts_that_are_cut_or_flipped_never_panic() {
    let samples = [
        zeek(&["1.5 Ca 10.0.0.1 68 10.0.0.2 67 udp dhcp 163 301 SF 1 191 1 329"; 2]),
        "src,dst,proto,in\n\"10.0.0.1\",10.0.0.2,tcp,\"e\"\"0\"\n::1,::2,58,\n".to_owned(),
        r#"{"ts":1.5,"id.orig_h":"::1","id.orig_p":68,"id.resp_h":"::2","proto":"udp"}"#.to_owned(),
        "10.0.0.1 10.0.0.2 tcp 1 2 in=a\n# x\n::1 ::2 icmp 1 2\n".to_owned(),
    ];
    for sample in samples {
        assert!(read(&sample).is_ok(), "{sample}");
        let bytes = sample.as_bytes();
        for at in 0..bytes.len() {
            let all = |bytes: &[u8]| Capture::new(bytes).map(Iterator::count);
            let _ = all(&bytes[..at]);
            for mask in [0x01, 0x02, 0x10, 0x20, 0x80, 0xff] {
                let mut damaged = bytes.to_vec();
                damaged[at] ^= mask;
                let _ = all(&damaged);
            }
        }
    }
}
