//! Master files: what is read, and where each kind of mistake is told.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod harness;

use harness::{ask, lines, name, query, zone};
use whered_dns::{Dnssec, Rcode, RecordType, Transport, Zone, ZoneError, Zones};

const HEAD: &str = "$TTL 60\n@ IN SOA ns hm 1 2 3 4 5\n@ IN NS ns\n";

fn read(text: &str, files: &[(&str, &str)]) -> Result<Zone, ZoneError> {
    let mut include = |path: &str| {
        let file = files.iter().find(|(name, _)| *name == path);
        file.map(|(_, text)| text.as_bytes().to_vec()).ok_or_else(|| "not found".to_owned())
    };
    Zone::from_master_file(&name("example.com"), text.as_bytes(), &mut include)
}

/// Reads `HEAD` and `rest`; the error's line counts from the first line of `rest`.
fn place(rest: &str) -> (usize, usize, String) {
    let error = read(&format!("{HEAD}{rest}"), &[]).expect_err(rest);
    (error.line() - 3, error.column(), error.to_string())
}

#[test]
fn each_kind_of_mistake_gives_line_and_column() {
    let cases = [
        ("a A 192.0.2.1\nb A 192.0.2.300\n", 2, 5, "192.0.2.300"),
        ("b 60 IN A 192.0.2.1 192.0.2.2", 1, 21, "trailing"),
        ("b 60 IN A", 1, 9, "too early"),
        ("b MX mail 10", 1, 6, "decimal"),
        ("b MX 10", 1, 6, "too early"),
        ("b AAAA 1.2.3.4", 1, 8, "1.2.3.4"),
        ("b MX 10 a..b", 1, 9, "a..b"),
        ("b SRV 1 2\n", 1, 9, "too early"),
        ("b NOTYPE x", 1, 3, "NOTYPE"),
        ("b 60 IN 30 A 192.0.2.1", 1, 9, "30"),
        ("b 60", 1, 3, "before its type"),
        ("b 3h5x A 192.0.2.1", 1, 3, "3h5x"),
        ("b CH A 192.0.2.1", 1, 3, "class CH"),
        ("b OPT x", 1, 3, "OPT"),
        ("a..b A 192.0.2.1", 1, 1, "empty label"),
        ("b TXT \"open\nc A 192.0.2.1", 1, 7, "quotation"),
        ("b A ( 192.0.2.1\n\n", 1, 5, "never closed"),
        ("b A 192.0.2.1 )", 1, 15, ") without ("),
        ("b TXT a\\25", 1, 8, "escape"),
        ("b TXT a\\256", 1, 8, "escape"),
        ("\u{e4} TXT x", 1, 1, "printable ASCII in names"),
        ("b MX 10 \u{e4}", 1, 9, "printable ASCII in names"),
        ("b 4294967296 A 192.0.2.1", 1, 3, "2147483647"),
        ("b.example.org. A 192.0.2.300", 1, 18, "192.0.2.300"),
        ("@ 61 SOA ns hm 1 2 3 4 5", 1, 1, "second SOA"),
        ("@ SOA ns hm 2 2 3 4 5", 1, 1, "second SOA"),
        ("@ SOA ns hm 1 2 3 4 5\na A 192.0.2.1", 1, 1, "second SOA"),
        ("$TTL", 1, 1, "$TTL seconds"),
        ("$TTL x", 1, 6, "seconds"),
        ("$ORIGIN a..b", 1, 9, "empty label"),
        ("$GENERATE 1-2 a A", 1, 1, "$GENERATE"),
        ("$GENERATE 2-1 a$ A 192.0.2.$", 1, 11, "range"),
        ("$GENERATE 1-9999999 a$ A 192.0.2.1", 1, 11, "too many"),
        ("$GENERATE 1-2 a${0,x} A 192.0.2.1", 1, 15, "a${0,x}"),
        ("$GENERATE 255-256 a$ A 192.0.2.$", 1, 24, "192.0.2.256"),
        ("$INCLUDE missing", 1, 10, "not found"),
        ("b CNAME a\nb A 192.0.2.1", 2, 1, "CNAME and A"),
        ("b A 192.0.2.1\nb CNAME a", 2, 1, "CNAME and A"),
        ("b CNAME a\nb CNAME c", 2, 1, "CNAME and CNAME"),
        ("@ CNAME a", 1, 1, "CNAME and"),
        ("b SOA ns hm 1 2 3 4 5", 1, 1, "below the apex"),
        ("b DNAME a\nb DNAME c", 2, 1, "second DNAME"),
        ("b DNAME a\nb NS c", 1, 1, "DNAME and NS"),
        ("b DNAME a\nb CNAME c", 2, 1, "CNAME and DNAME"),
        ("b A \\# 3 010203", 1, 5, "form"),
        ("b NS \\# 3 010203", 1, 6, "form"),
        ("@ 60 SOA ns hm 1 2 3 4 x", 1, 24, "\"x\""),
    ];
    let mut wrong = Vec::new();
    for (text, line, column, found) in cases {
        let (found_line, found_column, message) = place(text);
        if (found_line, found_column) != (line, column) || !message.contains(found) {
            wrong.push(format!("{text:?} at {line}:{column}: {message}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_missing_is_told() {
    let error = |text: &str| read(text, &[]).unwrap_err();
    let no_soa = error("$TTL 60\n@ NS a\n");
    assert_eq!((no_soa.line(), no_soa.found()), (3, "no SOA"));
    let no_ns = error("\n@ 60 SOA ns hm 1 2 3 4 5\nns NS ns\n");
    assert_eq!((no_ns.line(), no_ns.column(), no_ns.found()), (2, 1, "a zone without NS"));
    assert!(error("@ NS a\n").to_string().contains("without a TTL"));
    assert_eq!(error("").line(), 1);
}

/// The places and texts of remarks; lines count from the first line of `rest`.
fn remarks(rest: &str) -> (Zone, Vec<(usize, usize, String)>) {
    let zone = read(&format!("{HEAD}{rest}"), &[]).expect(rest);
    let place = |one: &ZoneError| (one.line() - 3, one.column(), one.to_string());
    let remarks = zone.warnings().iter().map(place).collect();
    (zone, remarks)
}

#[test]
fn what_other_servers_read_is_read_with_a_remark() {
    let long = "x".repeat(300);
    let cases = [
        ("b 2147483648 A 192.0.2.1", 1, 3, "counts as 0", 4),
        ("$TTL 4294967295\nb A 192.0.2.1", 1, 6, "counts as 0", 4),
        ("b.example.org. A 192.0.2.1\n TXT x\nc A 192.0.2.1", 1, 1, "outside of the zone", 4),
        ("*.b NS a", 1, 1, "NS at a wildcard", 4),
        ("*.b DNAME a", 1, 1, "DNAME at a wildcard", 4),
        ("b DNAME a\nx.y.b A 192.0.2.1\nz.b TXT x", 2, 1, "x.y.b.example.com. below a DNAME", 4),
        (&format!("b TXT a {long}"), 1, 9, "a string of 300 bytes", 4),
        ("b A 192.0.2.1\nb A 192.0.2.1", 2, 1, "a second time", 4),
    ];
    // The last number: how many records are served, of which the head has two.
    for (text, line, column, found, count) in cases {
        let (zone, remarks) = remarks(text);
        let first = remarks.first().expect(text);
        assert_eq!((first.0, first.1), (line, column), "{text}: {}", first.2);
        assert!(first.2.contains(found), "{text}: {}", first.2);
        assert_eq!(zone.record_count() + 1, count, "{text}");
    }
}

#[test]
fn what_is_common_in_files_of_other_servers_is_read_without_a_remark() {
    // A transfer ends with the SOA that it begins with.
    let (zone, none) = remarks("b A 192.0.2.1\n@ 60 IN SOA ns hm 1 2 3 4 5");
    assert_eq!((zone.record_count(), none), (3, Vec::new()));
    let (zone, none) = remarks("b TXT \"gr\u{fc}\u{df}\"\nc TYPE65535 \\# 0\nc APL\n");
    assert_eq!((zone.record_count(), none), (5, Vec::new()));
    // The first record may leave out its owner, which then is the origin.
    let text = "$TTL 60\n IN SOA ns hm 1 2 3 4 5\n NS ns\n";
    assert_eq!(read(text, &[]).unwrap().record_count(), 2);
}

#[test]
fn a_wildcard_ns_delegates_nothing_and_what_a_dname_hides_is_not_there() {
    let text = format!(
        "{HEAD}*.w NS ns.example.net.\n*.w A 192.0.2.1\nd DNAME example.net.\nx.d A 192.0.2.1\n"
    );
    let zones = Zones::builder().add_zone(read(&text, &[]).unwrap()).build().unwrap();
    let of = |owner: &str, record_type| {
        ask(&zones, &query(owner, record_type).build(), Transport::Udp).message
    };
    let found = of("x.w.example.com", RecordType::A);
    assert_eq!(lines(&found.answers), ["x.w.example.com. 60 A 192.0.2.1"]);
    assert_eq!(of("x.w.example.com", RecordType::NS).answers.len(), 1);
    let hidden = of("x.d.example.com", RecordType::A);
    let types: Vec<u16> = hidden.answers.iter().map(|one| one.record_type.0).collect();
    assert_eq!(types, [39, 5]);
}

#[test]
fn a_mistake_in_an_included_file_names_the_file() {
    let error = read("$INCLUDE hosts\n", &[("hosts", "\n\nb 60 A x\n")]).unwrap_err();
    assert_eq!((error.file(), error.line(), error.column()), (Some("hosts"), 3, 8));
    assert!(error.to_string().starts_with("hosts:3:8: found "), "{error}");
}

#[test]
fn an_included_file_has_its_own_origin_and_owner() {
    let files = [("hosts", "a A 192.0.2.1\n$ORIGIN deep.example.com.\nb A 192.0.2.2\n")];
    let text = format!("{HEAD}x TXT x\n$INCLUDE hosts sub\n TXT y\nc A 192.0.2.3\n");
    let zones = Zones::builder().add_zone(read(&text, &files).unwrap()).build().unwrap();
    let owners = ["a.sub.example.com", "b.deep.example.com", "c.example.com"];
    for owner in owners {
        let message = ask(&zones, &query(owner, RecordType::A).build(), Transport::Udp).message;
        assert_eq!(message.answers.len(), 1, "{owner}");
    }
    let x = ask(&zones, &query("x.example.com", RecordType::TXT).build(), Transport::Udp).message;
    assert_eq!(x.answers.len(), 2);
}

#[test]
fn a_file_that_includes_itself_ends_in_an_error() {
    let files = [("self", "$INCLUDE self\n$INCLUDE self\n")];
    let error = read("$INCLUDE self\n", &files).unwrap_err();
    assert_eq!(error.found(), "too many included files");
}

#[test]
fn ttls_come_from_the_record_the_directive_the_last_one_and_the_soa() {
    let text = "@ SOA ns hm 1 2 3 4 7\n@ NS ns\na A 192.0.2.1\nb 1h30m A 192.0.2.1\n\
                c A 192.0.2.1\n$TTL 1d\nd A 192.0.2.1\n";
    let zones = Zones::builder().add_zone(zone("example.com", text)).build().unwrap();
    for (host, ttl) in [("a", 7), ("b", 5400), ("c", 5400), ("d", 86400)] {
        let query = query(&format!("{host}.example.com"), RecordType::A).build();
        let message = ask(&zones, &query, Transport::Udp).message;
        assert_eq!(message.answers[0].ttl_seconds, ttl, "{host}");
    }
}

#[test]
fn duplicates_are_dropped_and_one_ttl_is_served_and_both_are_told() {
    let text = format!("{HEAD}b 9 A 192.0.2.1\nB 9 A 192.0.2.1\nb 8 A 192.0.2.2\n@ NS NS\n");
    let zone = read(&text, &[]).unwrap();
    assert_eq!(zone.record_count(), 4);
    let places: Vec<_> = zone.warnings().iter().map(ZoneError::line).collect();
    assert_eq!(places, [7, 5, 4]);
    let zones = Zones::builder().add_zone(zone).build().unwrap();
    let message = ask(&zones, &query("b.example.com", RecordType::A).build(), Transport::Udp);
    assert_eq!(
        lines(&message.message.answers),
        ["b.example.com. 8 A 192.0.2.1", "b.example.com. 8 A 192.0.2.2"]
    );
}

/// A zone as `dnssec-signzone` writes it: RRSIGs have the TTLs of what they sign, NSEC3 has names
/// of its own.
const SIGNED: &str = "@ DNSKEY 257 3 13 AAAA\n@ CDS 1 13 2 0a0b\n@ CDNSKEY 257 3 13 AAAA\n\
    @ NSEC3PARAM 1 0 0 -\n@ ZONEMD 1 1 1 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n\
    @ RRSIG SOA 13 2 60 20300101000000 20200101000000 1 @ AAAA\n\
    @ 3600 RRSIG NS 13 2 3600 20300101000000 20200101000000 1 @ AAAA\n\
    @ 5 RRSIG DNSKEY 13 2 5 20300101000000 20200101000000 1 @ AAAA\n\
    www A 192.0.2.1\nwww RRSIG A 13 3 60 20300101000000 20200101000000 1 @ AAAA\n\
    alias CNAME www\nalias NSEC www CNAME RRSIG NSEC\n\
    sub NS ns.example.net.\nsub DS 1 13 2 0a0b\n\
    0p9mhaveqvm6t7vbl5lop2u3t2rp3tom NSEC3 1 0 0 - 2t7b4g4vsa5smi47k61mv5bv1a22bojr A RRSIG\n\
    deep.2t7b4g4vsa5smi47k61mv5bv1a22bojr RRSIG NSEC3 13 3 60 20300101000000 20200101000000 1 @ AAAA\n";

#[test]
fn a_signed_zone_is_refused_where_that_is_asked_for_with_its_line_and_the_way_out() {
    let cases = [
        ("a A 192.0.2.1\n@ DNSKEY 257 3 13 AAAA\n", 2, 3, "DNSKEY"),
        ("@ RRSIG SOA 13 2 60 20300101000000 20200101000000 1 @ AAAA\n", 1, 3, "RRSIG"),
        (
            "a A 192.0.2.1\n 60 IN RRSIG A 13 3 60 20300101000000 20200101000000 1 @ AAAA\n",
            2,
            8,
            "RRSIG",
        ),
        ("@ TYPE46 \\# 2 0001\n", 1, 3, "RRSIG"),
        ("a NSEC b A\n", 1, 3, "NSEC"),
        ("a NSEC3 1 0 0 - 2t7b4g4vsa5smi47k61mv5bv1a22bojr A\n", 1, 3, "NSEC3"),
        ("@ NSEC3PARAM 1 0 0 -\n", 1, 3, "NSEC3PARAM"),
        ("@ CDS 1 13 2 0a0b\n", 1, 3, "CDS"),
        ("@ CDNSKEY 257 3 13 AAAA\n", 1, 3, "CDNSKEY"),
        ("$GENERATE 1-2 a$ RRSIG A\n", 1, 18, "RRSIG"),
    ];
    let refused = |text: &str, files: &[(&str, &str)]| {
        let mut include = |path: &str| {
            let file = files.iter().find(|(name, _)| *name == path);
            file.map(|(_, text)| text.as_bytes().to_vec()).ok_or_else(|| "not found".to_owned())
        };
        let text = format!("{HEAD}{text}");
        let origin = name("example.com");
        Zone::from_any_master_file(&origin, text.as_bytes(), Dnssec::Refuse, &mut include)
    };
    for (text, line, column, found) in cases {
        let error = refused(text, &[]).expect_err(text);
        let (found_line, found_column, message) =
            (error.line() - 3, error.column(), error.to_string());
        assert_eq!((found_line, found_column), (line, column), "{text}: {message}");
        let begun = format!("found {found} in a zone that is to be unsigned");
        assert!(message.contains(&begun), "{message}");
        assert!(message.contains("unsigned = \"serve\""), "{message}");
        assert!(message.contains("\"strip\""), "{message}");
    }
    let keys = [("keys", "@ 60 DNSKEY 257 3 13 AAAA\n")];
    let error = refused("$INCLUDE keys\n", &keys).unwrap_err();
    assert_eq!((error.file(), error.line()), (Some("keys"), 1));
    // What is in unsigned zones, too.
    let text = "sub NS ns.example.net.\nsub DS 1 13 2 0a0b\nk TYPE25 \\# 4 01000301\n";
    assert_eq!(refused(text, &[]).unwrap().left_out_count(), 0);
}

#[test]
fn a_signed_zone_that_is_stripped_is_the_zone_before_it_was_signed() {
    let text = format!("{HEAD}{SIGNED}");
    let strip = |text: &str| {
        let none = &mut |_: &str| Err("none".to_owned());
        Zone::from_any_master_file(&name("example.com"), text.as_bytes(), Dnssec::Strip, none)
    };
    let stripped = strip(&text).unwrap();
    let plain = "www A 192.0.2.1\nalias CNAME www\nsub NS ns.example.net.\n";
    let unsigned = read(&format!("{HEAD}{plain}"), &[]).unwrap();
    assert_eq!(stripped.left_out_count(), 13);
    assert_eq!(stripped.warnings(), [], "RRSIGs are no rrset with one TTL");
    assert_eq!(stripped.record_count(), unsigned.record_count());
    assert_eq!(stripped.name_count(), unsigned.name_count());
    let [stripped, unsigned] =
        [stripped, unsigned].map(|zone| Zones::builder().add_zone(zone).build().unwrap());
    let owners = [
        "example.com",
        "www.example.com",
        "alias.example.com",
        "sub.example.com",
        "x.sub.example.com",
        "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom.example.com",
        "2t7b4g4vsa5smi47k61mv5bv1a22bojr.example.com",
        "deep.2t7b4g4vsa5smi47k61mv5bv1a22bojr.example.com",
    ];
    for owner in owners {
        for number in (1..=63).chain([255]) {
            let query = query(owner, RecordType(number)).dnssec_ok().build();
            let [one, other] =
                [&stripped, &unsigned].map(|zones| ask(zones, &query, Transport::Udp).bytes);
            assert_eq!(one, other, "{owner} TYPE{number}");
        }
    }
    let gone = query("0p9mhaveqvm6t7vbl5lop2u3t2rp3tom.example.com", RecordType::NSEC3).build();
    assert_eq!(ask(&stripped, &gone, Transport::Udp).message.rcode(), Rcode::NXDOMAIN);
    // Mistakes in what is left out are mistakes still.
    assert_eq!(strip(&format!("{HEAD}@ DNSKEY 257 x\n")).unwrap_err().line(), 4);
}

#[test]
fn at_is_the_origin_where_a_name_stands_and_text_elsewhere() {
    let text = format!("{HEAD}m MX 5 @\nt TXT @\ns SRV 1 2 3 @\n");
    let zones = Zones::builder().add_zone(read(&text, &[]).unwrap()).build().unwrap();
    let data = |host: &str, record_type| {
        let query = query(&format!("{host}.example.com"), record_type).build();
        let message = ask(&zones, &query, Transport::Udp).message;
        message.answers[0].data.escape_ascii().to_string()
    };
    assert!(data("m", RecordType::MX).ends_with("\\x07example\\x03com\\x00"));
    assert_eq!(data("t", RecordType::TXT), "\\x01@");
    assert!(data("s", RecordType::SRV).ends_with("\\x07example\\x03com\\x00"));
}

#[test]
fn a_zone_at_the_root_is_served_with_glue() {
    let text = "$TTL 60\n. SOA a. b. 1 2 3 4 5\n. NS a.\na. A 192.0.2.1\ncom. NS ns.com.\n\
                ns.com. A 192.0.2.2\n";
    let zones = Zones::builder().add_zone(zone(".", text)).build().unwrap();
    let message = ask(&zones, &query("www.com", RecordType::A).build(), Transport::Udp).message;
    assert_eq!(lines(&message.additionals), ["ns.com. 60 A 192.0.2.2"]);
    let message = ask(&zones, &query("x.org", RecordType::A).build(), Transport::Udp).message;
    assert_eq!(lines(&message.authorities), [". 5 SOA ..."]);
}

#[test]
fn one_origin_cannot_be_served_twice() {
    let zones =
        Zones::builder().add_zone(zone("a.example", HEAD)).add_zone(zone("A.Example", HEAD));
    assert!(zones.build().unwrap_err().to_string().contains("A.Example."));
}

proptest::proptest! {
    #[test]
    fn random_text_never_panics(text in "[ -~\n\t]{0,60}", lines in proptest::collection::vec(
        "(@|a|\\*|\"b\"|  )? ?(A|MX|TXT|SOA|CAA|SRV|HTTPS|NAPTR|DS|RRSIG|NSEC|NSEC3|TLSA|SSHFP|LOC|TYPE9|HINFO|NSEC3PARAM|ZONEMD|OPENPGPKEY|CDS|DNSKEY|IPSECKEY) [ -~]{0,40}\n", 0..3)) {
        let _ = read(&text, &[]);
        let _ = read(&format!("{HEAD}{}", lines.concat()), &[]);
        for line in &lines {
            let _ = read(&format!("{HEAD}{line}"), &[]);
        }
    }

    #[test]
    fn random_tokens_of_any_type_never_panic(number in 0_u16..300, tokens in proptest::collection::vec(
        "\"[a-z\\\\.#= ]{0,4}\"|[0-9]{1,6}|[a-z]{1,3}=|[0-9A-F]{2,8}|[a-zA-Z0-9+/=.\\\\:#-]{1,8}|\\\\#|@|\\.", 0..8), glue in "[ ]{0,1}") {
        let line = format!("b TYPE{number} {}\n", tokens.join(if glue.is_empty() { "" } else { " " }));
        let _ = read(&format!("{HEAD}{line}"), &[]);
    }

    #[test]
    fn random_bytes_never_panic(text in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let _ = Zone::from_master_file(&name("a"), &text, &mut |_| Err(String::new()));
    }
}
