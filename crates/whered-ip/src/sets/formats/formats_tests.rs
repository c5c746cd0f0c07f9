//! One table of texts against entries, one of mistakes against messages, and bytes cut and changed.

use super::*;

/// Each entry as `block value seconds`.
fn entries(format: SetFormat, text: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let each = |entry: SetEntry<'_>| {
        let value = entry.value.map(|value| format!(" {}", String::from_utf8_lossy(&value)));
        let seconds = entry.ttl_seconds.map(|seconds| format!(" {seconds}s"));
        let (value, seconds) = (value.unwrap_or_default(), seconds.unwrap_or_default());
        found.push(format!("{}{value}{seconds}", entry.block));
    };
    match read_set(format, text.as_bytes(), each) {
        Ok(()) => Ok(found),
        Err(error) => Err(error.to_string()),
    }
}

const TEXTS: &[(SetFormat, &str, &[&str])] = &[
    (
        SetFormat::Plain,
        "# list\r\n\n 192.0.2.1 # why\r\n192.0.2.0/24;x\n192.0.2.5 - 192.0.2.9\n2001:db8::/32\n::1-::9",
        &["192.0.2.1/32", "192.0.2.0/24", "192.0.2.5-192.0.2.9", "2001:db8::/32", "::1-::9"],
    ),
    (SetFormat::Plain, "", &[]),
    (
        SetFormat::Ipset,
        "create s hash:net family inet hashsize 1024 maxelem 65536 timeout 0\n\
         add s 192.0.2.0/24 timeout 60 comment \"bad hosts\"\nadd s 192.0.2.1 packets 1 bytes 2\n\
         add s 192.0.2.7 timeout 0\nadd s 192.0.2.5-192.0.2.9\n",
        &["192.0.2.0/24 bad hosts 60s", "192.0.2.1/32", "192.0.2.7/32", "192.0.2.5-192.0.2.9"],
    ),
    (
        SetFormat::Nft,
        "table ip t {\n\tset s {\n\t\ttype ipv4_addr\n\t\tflags interval,timeout # all\n\
         \t\telements = { 192.0.2.0/24, 192.0.2.5-192.0.2.9 timeout 1h expires 59m1s500ms,\n\
         \t\t\t 192.0.2.77 counter packets 3 bytes 4 comment \"a, b\", ::1 timeout 10ms }\n\t}\n}\n\
         add element ip t s { 10.0.0.1 }",
        &[
            "192.0.2.0/24",
            "192.0.2.5-192.0.2.9 3541s",
            "192.0.2.77/32 a, b",
            "::1/128 1s",
            "10.0.0.1/32",
        ],
    ),
    (
        SetFormat::NftJson,
        r#"{"nftables": [{"metainfo": {"version": "1.0.6", "x": [1, -2.5e3, null]}},
            {"set": {"name": "s", "flags": ["interval"], "elem": ["192.0.2.1",
              {"prefix": {"addr": "192.0.2.0", "len": 24}}, {"range": ["192.0.2.5", "192.0.2.9"]},
              {"elem": {"val": {"prefix": {"addr": "::", "len": 8}}, "timeout": 60, "expires": 5,
                        "comment": "x\u0041\"y"}}]}},
            {"add": {"element": {"elem": ["10.0.0.1"]}}}]}"#,
        &["192.0.2.1/32", "192.0.2.0/24", "192.0.2.5-192.0.2.9", "::/8 xA\"y 5s", "10.0.0.1/32"],
    ),
    (
        SetFormat::Csv,
        "network,geoname_id,is_anycast\r\n192.0.2.0/24,77,0\r\n\"2001:db8::/32\",\"a, b\",\r\n::/8,,\n",
        &["192.0.2.0/24 77", "2001:db8::/32 a, b", "::/8"],
    ),
    (
        SetFormat::Json,
        r#" ["192.0.2.1", {"prefix": "192.0.2.0/24", "value": "x", "seconds": 60},
             {"value": {"a": 1}, "prefix": "192.0.2.5-192.0.2.9"}] "#,
        &["192.0.2.1/32", "192.0.2.0/24 x 60s", "192.0.2.5-192.0.2.9 {\"a\": 1}"],
    ),
    (SetFormat::Json, "[]", &[]),
];

#[test]
fn every_format_gives_its_entries_in_order() {
    for (format, text, expected) in TEXTS {
        assert_eq!(entries(*format, text).unwrap(), *expected, "{format:?}");
    }
}

#[test]
fn mistakes_say_where_what_and_what_is_allowed() {
    let cases = [
        (SetFormat::Plain, "10.0.0.1\n  10.0.0.300\n", "line 2, column 3: found \"10.0.0.300\""),
        (
            SetFormat::Plain,
            "::/129",
            "line 1, column 4: found \"129\": allowed is a length of 0 to 128",
        ),
        (
            SetFormat::Plain,
            "10.0.0.0/08",
            "column 10: found \"08\": allowed is a length of 0 to 32 bits",
        ),
        (
            SetFormat::Plain,
            "10.0.0.9-10.0.0.1",
            "allowed is a range that goes upwards in one family",
        ),
        (
            SetFormat::Ipset,
            "create s\nflush s",
            "line 2, column 1: found \"flush\": allowed is create",
        ),
        (SetFormat::Ipset, "add s 10.0.0.1,tcp:80", "column 7: found \"10.0.0.1,tcp:80\""),
        (SetFormat::Ipset, "add s 10.0.0.1 nomatch", "found \"nomatch\": allowed is timeout"),
        (
            SetFormat::Ipset,
            "add s 10.0.0.1 timeout x",
            "found \"x\": allowed is a number of seconds",
        ),
        (SetFormat::Ipset, "add s", "column 6: the text ends: allowed is add NAME ENTRY"),
        (SetFormat::Nft, "elements = { 10.0.0.1 : accept }", "found \":\": allowed is timeout"),
        (
            SetFormat::Nft,
            "elements = { 10.0.0.1 timeout 5x }",
            "found \"5x\": allowed is a duration",
        ),
        (SetFormat::Nft, "elements = { 10.0.0.1", "column 22: the text ends"),
        (
            SetFormat::NftJson,
            r#"{"nftables": [{"set": {"elem": [{"prefix": {"addr": "::", "len": 129}}]}}]}"#,
            "allowed is addr, and len of 0 to 32",
        ),
        (SetFormat::Csv, "a,b\n", "line 1, column 1: found \"a,b\": allowed is a header"),
        (SetFormat::Csv, "network\n10.0.0.0/40\n", "line 2, column 10: found \"40\""),
        (SetFormat::Json, r#"["10.0.0.1" "10.0.0.2"]"#, "column 13: found"),
        (
            SetFormat::Json,
            r#"[{"net": "10.0.0.1"}]"#,
            "column 4: found \"net\": allowed is prefix, value",
        ),
        (SetFormat::Json, r#"["10.0.0.1"] x"#, "found \"x\": allowed is nothing after"),
    ];
    for (format, text, expected) in cases {
        let error = entries(format, text).unwrap_err();
        assert!(error.contains(expected), "{format:?} {text}: {error}");
    }
    let deep = "[".repeat(100_000);
    assert!(
        entries(SetFormat::NftJson, &format!("{{\"x\": {deep}"))
            .unwrap_err()
            .contains("32 brackets")
    );
    assert!("xml".parse::<SetFormat>().unwrap_err().contains("plain, ipset, nft"));
    assert_eq!("nft-json".parse(), Ok(SetFormat::NftJson));
}

#[test]
fn options_of_a_set_that_change_what_an_entry_means_are_honoured() {
    let cases = [
        ("create s hash:ip family inet netmask 24\nadd s 1.2.3.0", "1.2.3.0/24"),
        ("create s hash:ip family inet netmask 24\nadd s 1.2.3.4-1.2.5.6", "1.2.3.0-1.2.5.255"),
        ("create s bitmap:ip range 10.0.0.0/24 netmask 28\nadd s 10.0.0.16", "10.0.0.16/28"),
        ("create s hash:ip bitmask 255.255.0.0\nadd s 1.2.0.0", "1.2.0.0/16"),
        ("create s hash:ip family inet6 netmask 64\nadd s 2001:db8::1", "2001:db8::/64"),
        ("create s hash:ip family inet6 bitmask ffff::\nadd s 2001::", "2001::/16"),
        ("create s hash:net timeout 300\nadd s 10.0.0.0/8", "10.0.0.0/8 300s"),
        ("create s hash:net timeout 300\nadd s 10.0.0.0/8 timeout 0", "10.0.0.0/8"),
    ];
    for (text, expected) in cases {
        assert_eq!(entries(SetFormat::Ipset, text).unwrap(), [expected], "{text}");
    }
    let text = "table ip t { set s { type ipv4_addr; flags timeout; timeout 1h; \
                elements = { 10.0.0.1, 10.0.0.2 expires 5s } } }";
    assert_eq!(entries(SetFormat::Nft, text).unwrap(), ["10.0.0.1/32 3600s", "10.0.0.2/32 5s"]);
    let text = r#"{"nftables": [{"set": {"elem": ["10.0.0.1"], "name": "s", "timeout": 60}}]}"#;
    assert_eq!(entries(SetFormat::NftJson, text).unwrap(), ["10.0.0.1/32 60s"]);
}

#[test]
fn sets_whose_entries_are_no_blocks_are_refused_where_that_is_said() {
    let cases = [
        (
            SetFormat::Ipset,
            "create s hash:net,port\n",
            "found \"hash:net,port\": allowed is hash:net",
        ),
        (SetFormat::Ipset, "create s list:set size 8\n", "found \"list:set\""),
        (SetFormat::Ipset, "create s hash:ip bitmask 255.0.255.0\n", "found \"255.0.255.0\""),
        (SetFormat::Ipset, "create s hash:ip netmask 33\n", "found \"33\""),
        (SetFormat::Ipset, "create s hash:ip wings 2\n", "found \"wings\": allowed is family"),
        (SetFormat::Ipset, "create s hash:ip\nadd s ::1", "found \"::1\": allowed is IPv4"),
        (SetFormat::Ipset, "create s hash:ip family inet6\nadd s 1.1.1.1", "allowed is IPv6"),
        (SetFormat::Nft, "table ip t { set s { type ipv4_addr . inet_service; } }", "found \".\""),
        (SetFormat::Nft, "table ip t { map m { type ipv4_addr : verdict; } }", "found \":\""),
        (SetFormat::Nft, "set s { type inet_service; }", "found \"inet_service\""),
        (SetFormat::Nft, "delete element ip t s { 10.0.0.1 }", "found \"element\": allowed is add"),
        (
            SetFormat::NftJson,
            r#"{"nftables": [{"set": {"name": "s", "type": "inet_service", "elem": []}}]}"#,
            "allowed is \"ipv4_addr\"",
        ),
        (
            SetFormat::NftJson,
            r#"{"nftables": [{"delete": {"element": {"name": "s", "elem": ["10.0.0.1"]}}}]}"#,
            "found \"element\": allowed is add",
        ),
    ];
    for (format, text, expected) in cases {
        let error = entries(format, text).unwrap_err();
        assert!(error.contains(expected), "{format:?} {text}: {error}");
    }
}

fn named(format: SetFormat, set: &str) -> SetReading {
    SetReading { set: Some(set.to_owned()), ..SetReading::of(format) }
}

#[test]
fn a_dump_of_several_sets_is_refused_with_their_names_unless_one_is_named() {
    let dumps = [
        (
            SetFormat::Ipset,
            "create good hash:net\ncreate bad hash:net\ncreate odd hash:net,port\n\
             add good 10.0.0.0/8\nadd bad 192.0.2.0/24\nadd odd 10.0.0.1,tcp:80\n",
            ["good, bad, odd", "good", "bad"],
        ),
        (
            SetFormat::Nft,
            "flush ruleset\ntable inet f {\n set good { type ipv4_addr\n flags interval\n\
             elements = { 10.0.0.0/8 } }\n map odd { type ipv4_addr : verdict; elements = { \
             1.1.1.1 : drop } }\n chain input { type filter hook input priority 0; ip saddr { \
             9.9.9.9, 8.8.8.8 } drop; ct mark set 1 }\n}\n\
             table f { set bad { type ipv4_addr; } }\nadd element f bad { 192.0.2.0/24 }\n",
            ["inet/f/good, inet/f/odd, ip/f/bad", "good", "ip/f/bad"],
        ),
        (
            SetFormat::NftJson,
            r#"{"nftables": [
                {"set": {"family": "ip", "name": "good", "table": "f", "elem": [
                    {"prefix": {"addr": "10.0.0.0", "len": 8}}]}},
                {"map": {"family": "ip", "name": "odd", "table": "f", "map": "verdict",
                    "elem": [["1.1.1.1", {"drop": null}]]}},
                {"set": {"elem": [{"prefix": {"addr": "192.0.2.0", "len": 24}}],
                    "table": "f", "family": "ip", "name": "bad"}}]}"#,
            ["ip/f/good, ip/f/odd, ip/f/bad", "f/good", "bad"],
        ),
    ];
    for (format, text, [names, good, bad]) in dumps {
        let error = entries(format, text).unwrap_err();
        assert!(error.ends_with(&format!("one of several: {names}")), "{format:?}: {error}");
        for (name, expected) in [(good, "10.0.0.0/8"), (bad, "192.0.2.0/24")] {
            let mut found = Vec::new();
            let each = |entry: SetEntry<'_>| found.push(entry.block.to_string());
            named(format, name).read(text.as_bytes(), each).unwrap();
            assert_eq!(found, [expected], "{format:?} {name}");
        }
        let error = named(format, "none").read(text.as_bytes(), drop).unwrap_err();
        assert!(error.to_string().contains("the text has "), "{error}");
        assert!(error.to_string().contains(names), "{error}");
    }
    // One set as it is exported: its two families.
    let both = "create s hash:net family inet\ncreate s-6 hash:net family inet6\nadd s 10.0.0.0/8\n\
                add s-6 2001:db8::/32\n";
    assert_eq!(entries(SetFormat::Ipset, both).unwrap(), ["10.0.0.0/8", "2001:db8::/32"]);
    let error = named(SetFormat::Plain, "s").read(b"10.0.0.1", drop).unwrap_err();
    assert!(error.to_string().ends_with("a set called s; the text names none"), "{error}");
}

#[test]
fn formats_are_guessed_by_the_first_words_behind_comments() {
    for (text, format) in [
        ("# a list\n10.0.0.1", SetFormat::Plain),
        ("# Generated by ipset\ncreate s hash:net", SetFormat::Ipset),
        ("add s 10.0.0.1", SetFormat::Ipset),
        ("#!/usr/sbin/nft -f\n\nflush ruleset\n", SetFormat::Nft),
        ("table inet t {", SetFormat::Nft),
        ("add element inet t s { 10.0.0.1 }", SetFormat::Nft),
        ("elements={ 10.0.0.1 }", SetFormat::Nft),
        ("{\"nftables\": []}", SetFormat::NftJson),
        ("{ \n \"nftables\": []}", SetFormat::NftJson),
        ("[\"10.0.0.1\"]", SetFormat::Json),
        ("network,geoname_id\n", SetFormat::Csv),
        ("\"id\",\"network\"\r\n", SetFormat::Csv),
        ("", SetFormat::Plain),
    ] {
        let found = SetReading::default().format_of(text.as_bytes());
        assert_eq!(found, Ok(format), "{text}");
    }
}

#[test]
fn a_hosts_list_with_tabs_alone_is_told_from_a_table() {
    let format = |text: &str| SetReading::default().format_of(text.as_bytes());
    for text in [
        "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n",
        "# blocked\n0.0.0.0\tads.example\n0.0.0.0\ttracker.example\tt.example\n",
        "::\tads.example\n192.0.2.1\tgate.example gate\n",
    ] {
        assert_eq!(format(text), Ok(SetFormat::Hosts), "{text}");
        let mut values = Vec::new();
        read_set(SetFormat::Hosts, text.as_bytes(), |entry| values.push(entry.value.is_some()))
            .unwrap();
        assert!(values.len() > 1 && values.iter().all(|has| *has), "{text}");
    }
    // What a table reads otherwise is refused as before, or is a table.
    assert_eq!(format("0.0.0.0\tThis network\tx\n10.0.0.1\tPrivate use\ty\n").ok(), None);
    assert_eq!(format("127.0.0.1,localhost\n192.0.2.1,gate.example\n"), Ok(SetFormat::Csv));
}

#[test]
fn texts_that_are_cut_or_changed_anywhere_never_panic() {
    for (format, text, _) in TEXTS {
        for end in 0..text.len() {
            let _ = read_set(*format, &text.as_bytes()[..end], drop);
            for byte in [0, b'"', b'\\', b'{', b'}', b',', b'/', b'-', 0xff] {
                let mut changed = text.as_bytes().to_vec();
                changed[end] = byte;
                let _ = read_set(*format, &changed, drop);
            }
        }
    }
}
