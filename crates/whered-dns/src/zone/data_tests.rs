//! Every type in every form, against the wire forms that dnspython and BIND read
//! (`tests/data/record_types.py` makes the table), and wrong texts.

use super::super::forms::form_of;
use super::super::lexer::Lexer;
use super::*;
use crate::name::Name;

const TABLE: &str = include_str!("../../tests/data/record_types.txt");

fn data(kind: &str, text: &str) -> Result<Vec<u8>, DataError> {
    let record_type = RecordType::from_text(kind).expect(kind);
    let origin: Name = "example.com".parse().expect("a name");
    let line = format!("x {text}");
    let mut tokens = Vec::new();
    Lexer::new(line.as_bytes()).next_entry(&mut tokens).expect(text);
    let mut wire = Vec::new();
    read(record_type, &tokens[1..], origin.as_wire(), &mut wire)?;
    Ok(wire)
}

fn rows() -> impl Iterator<Item = [&'static str; 3]> {
    TABLE.lines().map(|line| {
        let mut cells = line.split('\t');
        [(); 3].map(|()| cells.next().expect("type, text and wire form"))
    })
}

#[test]
fn each_type_in_each_form_reads_as_bind_and_dnspython_read_it() {
    let mut wrong = Vec::new();
    let mut tested = std::collections::HashSet::new();
    for [kind, text, wire] in rows() {
        let found = match data(kind, text) {
            Ok(found) => found.iter().map(|byte| format!("{byte:02X}")).collect(),
            Err(error) => error.message,
        };
        if found != wire {
            wrong.push(format!("{kind}\t{text}\t{found}, not {wire}"));
        }
        tested.extend(RecordType::from_text(kind));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for number in 0..=u16::MAX {
        let record_type = RecordType(number);
        assert!(
            form_of(record_type).is_none() || tested.contains(&record_type),
            "{record_type} is not in the table"
        );
    }
}

#[test]
fn a_text_that_is_cut_or_goes_on_is_an_error_or_other_data_but_no_panic() {
    for [kind, text, wire] in rows() {
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            let line = format!("x {}", &text[..end]);
            let mut tokens = Vec::new();
            if Lexer::new(line.as_bytes()).next_entry(&mut tokens).is_err() {
                continue;
            }
            let record_type = RecordType::from_text(kind).expect(kind);
            let mut data = Vec::new();
            let _ = read(record_type, &tokens[1..], &[0], &mut data);
        }
        let longer = data(kind, &format!("{text} \"x y\""));
        assert!(
            longer.is_err() || longer.is_ok_and(|data| data.len() > wire.len() / 2),
            "{kind} {text}"
        );
    }
}

#[test]
fn wrong_data_are_refused_with_the_token_and_what_is_expected() {
    let cases = [
        ("LOC", "91 N 4 E 0", 0, "from 0 to 90"),
        ("LOC", "90 0 0.001 N 4 E 0", 3, "at most 90 degrees"),
        ("LOC", "52 60 N 4 E 0", 1, "below 60"),
        ("LOC", "52 1 1.0001 N 4 E 0", 2, "below 60"),
        ("LOC", "52 N 4 E 42849672.96m", 4, "metres"),
        ("LOC", "52 N 4 E -100000.01m", 4, "metres"),
        ("LOC", "52 N 4 E 0 90000000.01", 5, "metres"),
        ("APL", "1:192.0.2.0/33", 0, "1:IPv4"),
        ("APL", "3:192.0.2.0/24", 0, "1:IPv4"),
        ("EUI48", "00-00-5e-00-53", 0, "6 pairs"),
        ("EUI48", "00-00-5e-00-53-2", 0, "6 pairs"),
        ("EUI64", "0000-5e-ef-10-00-00-2a", 0, "8 pairs"),
        ("NID", "10 14:4fff:ff20", 1, "four groups"),
        ("L64", "10 2001::1", 1, "four groups"),
        ("NSAP", "4700", 0, "0x"),
        ("NSAP", "0x470", 0, "even number"),
        ("WKS", "192.0.2.1 6 nosuchservice", 2, "a service"),
        ("IPSECKEY", "10 1 2 2001:db8::1 AAAA", 3, "IPv4"),
        ("IPSECKEY", "10 4 2 . AAAA", 3, "kinds 0 to 3"),
        ("AMTRELAY", "10 2 1 203.0.113.15", 1, "from 0 to 1"),
        ("HIP", "2 20010010 ! x", 2, "base 64"),
        ("CERT", "PKXI 1 8 AAAA", 0, "certificate"),
        ("DNSKEY", "257 3 RSASHA3 AAAA", 2, "algorithm"),
        ("DNSKEY", "257 3 256 AAAA", 2, "algorithm"),
        ("RRSIG", "A 8 3 1 20300231000000 0 1 @ AAAA", 4, "YYYYMMDD"),
        ("RRSIG", "A 8 3 1 20300101240000 0 1 @ AAAA", 4, "YYYYMMDD"),
        ("NSEC", "b A NOTYPE", 2, "record type"),
        ("NSEC3", "1 0 0 xyz 2t7b4g4vsa5smi47k61mv5bv1a22bojr", 3, "hexadecimal"),
        ("NSEC3", "1 0 0 - 2t7b4g4vsa5smi47k61mv5bv1a22bojz", 4, "base 32"),
        ("CAA", "0 a-b x", 1, "letters and digits"),
        ("HINFO", "\"\" \"\" x", 2, "trailing"),
        ("SVCB", "1 . key65535=x", 2, "a parameter"),
        ("SVCB", "1 . key01=x", 2, "a parameter"),
        ("SVCB", "1 . alpn=h2 alpn=h3", 3, "second time"),
        ("SVCB", "1 . no-default-alpn", 2, "without alpn"),
        ("SVCB", "1 . alpn", 2, "has a value"),
        ("SVCB", "1 . alpn=a,,b", 2, "1 to 255"),
        ("SVCB", "1 . port=65536", 2, "0 to 65535"),
        ("SVCB", "1 . mandatory=port", 2, "which is not there"),
        ("SVCB", "1 . mandatory=mandatory", 2, "other parameters"),
        ("SVCB", "1 . mandatory=key5,ech ech=AAAA", 2, "once"),
        ("SVCB", "1 . ipv4hint=::1", 2, "IPv4"),
        ("SVCB", "1 . alpn=h2 no-default-alpn=x", 3, "no value"),
        ("SVCB", "1 . key3=x", 2, "port's form"),
        ("SVCB", "1 . key1=\\003h2", 2, "alpn's form"),
        ("TYPE65280", "\\# 3 0102", 2, "2 bytes, where 3"),
        ("TYPE65280", "\\# 3 01020", 2, "even number"),
        ("TYPE65280", "0102", 0, "no text form"),
        ("UID", "1", 0, "no text form"),
        ("MX", "10 grüß", 1, "printable ASCII"),
        ("X25", &"1".repeat(256), 0, "256 bytes"),
    ];
    for (kind, text, token, message) in cases {
        let error = data(kind, text).expect_err(text);
        assert_eq!(error.token, Some(token), "{kind} {text}: {}", error.message);
        assert!(error.message.contains(message), "{kind} {text}: {}", error.message);
    }
}

#[test]
fn a_long_string_is_cut_with_a_remark_wherever_several_are_allowed() {
    for length in [255, 256, 510, 511, 1000] {
        let line = format!("x {}", "a".repeat(length));
        let mut tokens = Vec::new();
        Lexer::new(line.as_bytes()).next_entry(&mut tokens).expect("a line");
        let mut wire = Vec::new();
        let remark = read(RecordType::TXT, &tokens[1..], &[0], &mut wire).expect("a text");
        assert_eq!(wire.len(), length + length.div_ceil(255));
        assert_eq!(remark.is_some(), length > 255);
        assert_eq!(crate::record::text_data(&"a".repeat(length)), Some(wire));
    }
}
