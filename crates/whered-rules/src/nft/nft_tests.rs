//! Reading what nft printed, writing, and nft as a judge.

use super::*;
use crate::model::{Ruleset, Verdict};
use crate::naive;
use crate::random::{self, Random, Shape, World};
use crate::text;

/// Cut from what `nft -j list ruleset` of version 1.0.6 prints.
const LISTED: &str = r#"{"nftables":[{"metainfo":{"version":"1.0.6"}},
{"table":{"family":"inet","name":"t","handle":1}},
{"set":{"family":"inet","name":"s4","table":"t","type":"ipv4_addr","flags":["interval"],"elem":[{"prefix":{"addr":"10.0.0.0","len":8}},{"range":["192.0.2.1","192.0.2.9"]}]}},
{"set":{"family":"inet","name":"p","table":"t","type":"inet_service","elem":[22,80]}},
{"map":{"family":"inet","name":"m","table":"t","type":"inet_service","map":"verdict","elem":[[1,{"accept":null}],[2,{"jump":{"target":"c"}}]]}},
{"chain":{"family":"inet","table":"t","name":"c","handle":1}},
{"chain":{"family":"inet","table":"t","name":"input","type":"filter","hook":"input","prio":0,"policy":"drop"}},
{"rule":{"family":"inet","table":"t","chain":"c","expr":[{"return":null}]}},
{"rule":{"family":"inet","table":"t","chain":"input","comment":"hi","expr":[{"match":{"op":"in","left":{"ct":{"key":"state"}},"right":["established","related"]}},{"counter":{"packets":5,"bytes":6}},{"accept":null}]}},
{"rule":{"family":"inet","table":"t","chain":"input","expr":[{"vmap":{"key":{"ct":{"key":"state"}},"data":{"set":[["invalid",{"drop":null}],["new",{"jump":{"target":"c"}}]]}}}]}},
{"rule":{"family":"inet","table":"t","chain":"input","expr":[{"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":"@s4"}},{"match":{"op":"==","left":{"payload":{"protocol":"tcp","field":"dport"}},"right":{"set":[22,{"range":[80,89]}]}}},{"log":{"prefix":"x: ","level":"info"}},{"accept":null}]}},
{"rule":{"family":"inet","table":"t","chain":"input","expr":[{"match":{"op":"!=","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":{"set":["10.0.0.1",{"prefix":{"addr":"10.1.0.0","len":16}}]}}},{"match":{"op":"!=","left":{"payload":{"protocol":"udp","field":"dport"}},"right":53}},{"accept":null}]}},
{"rule":{"family":"inet","table":"t","chain":"input","expr":[{"match":{"op":"==","left":{"&":[{"payload":{"protocol":"tcp","field":"flags"}},["fin","syn","rst","ack"]]},"right":"syn"}},{"accept":null}]}},
{"rule":{"family":"inet","table":"t","chain":"input","expr":[{"match":{"op":"==","left":{"payload":{"protocol":"tcp","field":"flags"}},"right":{"set":[{"|":["fin","ack"]},"syn"]}}},{"accept":null}]}},
{"rule":{"family":"inet","table":"t","chain":"input","expr":[{"match":{"op":"in","left":{"payload":{"protocol":"tcp","field":"flags"}},"right":["syn","ack"]}},{"match":{"op":"!","left":{"payload":{"protocol":"tcp","field":"flags"}},"right":"fin"}},{"accept":null}]}},
{"rule":{"family":"inet","table":"t","chain":"input","expr":[{"vmap":{"key":{"payload":{"protocol":"tcp","field":"dport"}},"data":"@m"}}]}},
{"rule":{"family":"inet","table":"t","chain":"input","expr":[{"match":{"op":"==","left":{"payload":{"protocol":"tcp","field":"dport"}},"right":"@p"}},{"mangle":{"key":{"meta":{"key":"mark"}},"value":{"|":[{"&":[{"meta":{"key":"mark"}},4294967058]},18]}}}]}},
{"rule":{"family":"inet","table":"t","chain":"input","expr":[{"match":{"op":"==","left":{"payload":{"protocol":"icmp","field":"type"}},"right":"echo-request"}},{"match":{"op":"==","left":{"payload":{"protocol":"icmp","field":"code"}},"right":"net-unreachable"}},{"reject":{"type":"icmpx","expr":"admin-prohibited"}}]}},
{"rule":{"family":"inet","table":"t","chain":"c","handle":9,"expr":[{"match":{"op":">=","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":"10.0.0.5"}},{"match":{"op":"==","left":{"meta":{"key":"mark"}},"right":{"range":[1,5]}}},{"synproxy":{"mss":1460}},{"vmap":{"key":{"payload":{"protocol":"tcp","field":"dport"}},"data":{"set":[[22,{"drop":null}],["*",{"return":null}]]}}}]}},
{"rule":{"family":"inet","table":"t","chain":"input","expr":[{"match":{"op":"<","left":{"payload":{"protocol":"th","field":"dport"}},"right":1024}},{"match":{"op":"==","left":{"meta":{"key":"iifname"}},"right":"eth*"}},{"match":{"op":"==","left":{"&":[{"meta":{"key":"mark"}},65280]},"right":256}},{"goto":{"target":"c"}}]}}
]}"#;

#[test]
fn a_listed_table_is_read() {
    let ruleset = read("nft", LISTED, Options::default()).expect("a good listing");
    let shown: Vec<String> =
        text::write(&ruleset).lines().map(|line| line.trim().to_owned()).collect();
    let expected = [
        "ruleset t",
        "set s4 {",
        "10.0.0.0/8",
        "192.0.2.1-192.0.2.9",
        "}",
        "chain c {",
        "return",
        "family ipv4 src 10.0.0.5-255.255.255.255 mark 0x1/0xffffffff also \"{\\\"synproxy\\\":{\\\"mss\\\":1460}}\"",
        "family ipv4 src 10.0.0.5-255.255.255.255 mark 0x2/0xfffffffe also \"{\\\"synproxy\\\":{\\\"mss\\\":1460}}\"",
        "family ipv4 src 10.0.0.5-255.255.255.255 mark 0x4/0xfffffffe also \"{\\\"synproxy\\\":{\\\"mss\\\":1460}}\"",
        "family ipv4 src 10.0.0.5-255.255.255.255 mark 0x1/0xffffffff flags syn of syn drop",
        "family ipv4 src 10.0.0.5-255.255.255.255 mark 0x2/0xfffffffe flags syn of syn drop",
        "family ipv4 src 10.0.0.5-255.255.255.255 mark 0x4/0xfffffffe flags syn of syn drop",
        "family ipv4 src 10.0.0.5-255.255.255.255 mark 0x1/0xffffffff flags ack of {syn ack} drop",
        "family ipv4 src 10.0.0.5-255.255.255.255 mark 0x2/0xfffffffe flags ack of {syn ack} drop",
        "family ipv4 src 10.0.0.5-255.255.255.255 mark 0x4/0xfffffffe flags ack of {syn ack} drop",
        "family ipv4 src 10.0.0.5-255.255.255.255 mark 0x1/0xffffffff proto tcp dport 22 drop",
        "family ipv4 src 10.0.0.5-255.255.255.255 mark 0x2/0xfffffffe proto tcp dport 22 drop",
        "family ipv4 src 10.0.0.5-255.255.255.255 mark 0x4/0xfffffffe proto tcp dport 22 drop",
        "family ipv4 src 10.0.0.5-255.255.255.255 mark 0x1/0xffffffff proto tcp not dport 22 return",
        "family ipv4 src 10.0.0.5-255.255.255.255 mark 0x2/0xfffffffe proto tcp not dport 22 return",
        "family ipv4 src 10.0.0.5-255.255.255.255 mark 0x4/0xfffffffe proto tcp not dport 22 return",
        "}",
        "chain input policy drop {",
        "[5:6] state {established related} accept comment \"hi\"",
        "state invalid drop",
        "state new jump c",
        "family ipv4 src @s4 proto tcp dport {22 80-89} log \"x: \" level info",
        "family ipv4 src @s4 proto tcp dport {22 80-89} accept",
        "family ipv4 not src {10.0.0.1 10.1.0.0/16} proto udp not dport 53 accept",
        "flags syn of {fin syn rst ack} accept",
        "flags {fin ack} of all accept",
        "flags syn of all accept",
        "not flags none of {syn ack} flags none of fin accept",
        "proto tcp dport 1 accept",
        "proto tcp dport 2 jump c",
        "proto tcp dport {22 80} set-mark 0x12/0xff",
        "icmp 8 icmp 0-255/0 reject with icmpx-admin-prohibited",
        "dport 0-1023 in eth+ mark 0x100/0xff00 goto c",
        "}",
    ];
    assert_eq!(shown, expected);
    assert_eq!(ruleset.rules()[1].origin.line, 9);
}

/// A listing of one chain and one rule.
fn rule(expr: &str) -> String {
    {
        format!(
            "{{\"nftables\":[{{\"chain\":{{\"family\":\"inet\",\"table\":\"t\",\"name\":\"c\",\"type\":\"filter\",\"hook\":\"input\",\"prio\":0}}}},\n{{\"rule\":{{\"family\":\"inet\",\"table\":\"t\",\"chain\":\"c\",\"expr\":[{expr}]}}}}]}}"
        )
    }
}

#[test]
fn what_cannot_be_expressed_is_named() {
    let cases = [
        (rule(r#"{"sinproxy":{"mss":1460}}"#), "2:*: found \"sinproxy\": allowed is match"),
        (
            rule(r#"{"xt":{"type":"target","name":"TARBALL"}}"#),
            "2:*: found \"xt TARBALL\": allowed is match",
        ),
        (
            rule(r#"{"match":{"op":"==","left":{"mata":{"key":"skuid"}},"right":0}}"#),
            "2:*: found \"mata skuid\": allowed",
        ),
        (
            rule(
                r#"{"match":{"op":"==","left":{"paylood":{"protocol":"ip","field":"ttl"}},"right":0}}"#,
            ),
            "2:*: found \"paylood ip ttl\"",
        ),
        (
            rule(
                r#"{"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":"@no"}}"#,
            ),
            "2:*: found \"@no\": allowed is a set",
        ),
        (
            rule(
                r#"{"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":"::1"}}"#,
            ),
            "2:*: found \"::1\": allowed is an address",
        ),
        (
            rule(
                r#"{"match":{"op":"==","left":{"payload":{"protocol":"tcp","field":"dport"}},"right":65536}}"#,
            ),
            "2:*: found \"65536\": allowed is numbers",
        ),
        (
            rule(r#"{"match":{"op":"~","left":{"meta":{"key":"mark"}},"right":0}}"#),
            "2:*: found \"~\": allowed is the operators",
        ),
        (
            rule(r#"{"match":{"op":"==","left":{"ct":{"key":"state"}},"right":"dnat"}}"#),
            "2:*: found \"dnat\": allowed is invalid",
        ),
        (rule(r#"{"jump":{"target":"nowhere"}}"#), "2: found \"nowhere\": allowed is a chain"),
        (rule(r#"{"accept":null},{"drop":null}"#), "2:*: found \"drop\": allowed is nothing after"),
        ("{\"nftables\":[]}".to_owned(), "1:1: found \"no table\": allowed is one table"),
        ("[1, 2".to_owned(), "1:6: found \"end of file\": allowed is , or ]"),
        ("{\"a\" 1}".to_owned(), "1:6: found \"1\": allowed is :"),
        ("nft".to_owned(), "1:1: found \"n\": allowed is a value in JSON"),
        ("[".repeat(100), "1:66: found \"[\": allowed is values nested"),
        ("{\"x\": \"a\\q\"}".to_owned(), "1:9: found \"\\\\\": allowed is an escape"),
    ];
    for (text, expected) in cases {
        let error = read("f", &text, Options::default()).expect_err(&text).to_string();
        // In the made-up rule the column is that of the wrong part, which the message repeats.
        let column = error.split(':').nth(2).unwrap_or_default();
        let expected = expected.replace('*', column);
        assert!(error.starts_with(&format!("f:{expected}")), "{text}\n{error}");
        if let (Ok(column), Some(line)) = (column.parse::<usize>(), text.lines().nth(1)) {
            let found = error.split('"').nth(1).unwrap_or_default();
            let last_word = found.split(' ').next_back().unwrap_or_default();
            let rest = line.get(column - 1..).unwrap_or_default();
            assert!(rest.contains(last_word) || line.contains(last_word), "{text}\n{error}");
        }
    }
}

/// A listing of base chains, each as family, table, hook and whether it has a rule.
fn chains(chains: &[(&str, &str, &str, bool)]) -> String {
    let mut objects = Vec::new();
    for (family, table, hook, has_rule) in chains {
        let at = format!(r#""family":"{family}","table":"{table}""#);
        objects.push(format!(
            r#"{{"chain":{{{at},"name":"{hook}","type":"filter","hook":"{hook}","prio":0,"policy":"accept"}}}}"#
        ));
        if *has_rule {
            objects
                .push(format!(r#"{{"rule":{{{at},"chain":"{hook}","expr":[{{"drop":null}}]}}}}"#));
        }
    }
    format!("{{\"nftables\":[{}]}}", objects.join(",\n"))
}

#[test]
fn other_base_chains_that_packets_of_the_entry_meet_are_refused_until_one_is_chosen() {
    let with = |chain, table| Options { table, chain };
    let earlier = chains(&[("inet", "t", "prerouting", true), ("inet", "t", "input", true)]);
    let error = read("f", &earlier, with(None, None)).expect_err("two chains decide").to_string();
    let expected = "f:1: found chain \"prerouting\" of hook prerouting, which packets of \"input\"";
    assert!(error.starts_with(expected), "{error}");
    read("f", &earlier, with(Some("input"), None)).expect("one is chosen");
    let usual = [("inet", "t", "input", true), ("inet", "t", "forward", true)];
    read("f", &chains(&usual), with(None, None)).expect("a packet meets one of them");
    let idle = chains(&[("inet", "t", "prerouting", false), ("inet", "t", "input", true)]);
    read("f", &idle, with(None, None)).expect("the other one lets all pass");
    let dropping = idle.replacen("accept", "drop", 1);
    read("f", &dropping, with(None, None)).expect_err("the other one drops all");
    let second = chains(&usual).replace("\"hook\":\"forward\"", "\"hook\":\"input\"");
    let error = read("f", &second, with(None, None)).expect_err("two of one hook").to_string();
    assert!(error.starts_with("f:3: found chain \"forward\" of hook input"), "{error}");
}

#[test]
fn one_of_several_tables_is_chosen_by_its_name_or_family_and_name() {
    let two = chains(&[("ip", "filter", "input", true), ("ip6", "filter", "input", true)]);
    let with = |table| Options { table, chain: None };
    let error = read("f", &two, with(None)).expect_err("two tables").to_string();
    assert!(error.contains("several tables: ip filter, ip6 filter"), "{error}");
    read("f", &two, with(Some("filter"))).expect_err("both are called so");
    let six = read("f", &two, with(Some("ip6 filter"))).expect("one of them");
    assert_eq!(six.family(), Some(crate::Family::Ipv6));
}

#[test]
fn icmp_of_the_other_family_is_refused() {
    let icmp = |protocol: &str| {
        format!(
            r#"{{"match":{{"op":"==","left":{{"payload":{{"protocol":"{protocol}","field":"type"}}}},"right":"echo-request"}}}}"#
        )
    };
    let read = |text: &str| read("f", text, Options::default());
    let of_family = |family: &str, protocol: &str| {
        rule(&format!("{},{{\"drop\":null}}", icmp(protocol))).replace("inet", family)
    };
    for (family, protocol) in [("ip", "icmpv6"), ("ip6", "icmp")] {
        let error = read(&of_family(family, protocol)).expect_err(family).to_string();
        assert!(error.contains(&format!("found \"{protocol}\": allowed is icmp where")), "{error}");
    }
    for (family, protocol) in
        [("ip", "icmp"), ("ip6", "icmpv6"), ("inet", "icmp"), ("inet", "icmpv6")]
    {
        read(&of_family(family, protocol)).expect("its own");
    }
    let source = r#"{"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":"10.0.0.1"}}"#;
    let both = rule(&format!("{source},{},{{\"drop\":null}}", icmp("icmpv6")));
    assert!(read(&both).expect_err("of IPv4 packets").to_string().contains("found \"icmpv6\""));
}

#[test]
fn damaged_listings_are_errors_or_other_rulesets() {
    for at in 0..LISTED.len() {
        let _cut = read("f", &LISTED[..at], Options::default()).is_err();
        for byte in [b'"', b'{', b']', b'0', b','] {
            let mut changed = LISTED.as_bytes().to_vec();
            changed[at] = byte;
            let _other = read("f", &String::from_utf8_lossy(&changed), Options::default()).is_ok();
        }
    }
}

#[test]
fn comparisons_sets_of_families_and_next_headers_are_what_the_kernel_compares() {
    let field = |protocol: &str, field: &str| {
        format!(r#"{{"payload":{{"protocol":"{protocol}","field":"{field}"}}}}"#)
    };
    let shown = |left: &str, operator: &str, right: &str| {
        rules_of(&rule(&format!(
            r#"{{"match":{{"op":"{operator}","left":{left},"right":{right}}}}},{{"drop":null}}"#
        )))
    };
    let mark = r#"{"meta":{"key":"mark"}}"#;
    assert_eq!(shown(mark, "<", "3"), ["mark 0x0/0xfffffffe drop", "mark 0x2/0xffffffff drop"]);
    assert_eq!(shown(mark, ">", "4294967294"), ["mark 0xffffffff/0xffffffff drop"]);
    assert_eq!(
        shown(mark, "!=", r#"{"range":[2,5]}"#),
        ["not mark 0x2/0xfffffffe not mark 0x4/0xfffffffe drop"]
    );
    let source = field("ip6", "saddr");
    assert_eq!(shown(&source, "<", r#""::2""#), ["family ipv6 src ::-::1 drop"]);
    let protocol = r#"{"meta":{"key":"protocol"}}"#;
    assert_eq!(shown(protocol, "==", r#"{"set":["ip","ip6"]}"#), ["drop"]);
    assert_eq!(shown(protocol, "==", r#"{"set":["arp","ip6"]}"#), ["family ipv6 drop"]);
    assert_eq!(shown(protocol, "!=", r#"{"set":["ip"]}"#), ["not family ipv4 drop"]);
    // A next header is known to be another one, where the protocol is.
    let next = shown(&field("ip6", "nexthdr"), "==", r#""ipv6-icmp""#);
    assert!(next[0].starts_with("family ipv6 proto ipv6-icmp maybe \"ip6 nexthdr\""), "{next:?}");
    let hop_by_hop = shown(&field("ip6", "nexthdr"), "==", "0");
    assert_eq!(hop_by_hop, ["family ipv6 with ip6-nexthdr 0 drop"]);
    let offset = format!(r#"{{"&":[{},8191]}}"#, field("ip", "frag-off"));
    assert_eq!(shown(&offset, "!=", "0"), ["family ipv4 not with fragment 0 drop"]);
    assert_eq!(
        rules_of(&rule(r#"{"tproxy":{"port":1}},{"accept":null}"#))[1],
        "proto {tcp udp} maybe tproxy \"{\\\"tproxy\\\":{\\\"port\\\":1}}\" accept"
    );
}

#[test]
fn findings_name_table_chain_and_handle() {
    let listing = r#"{"nftables":[{"chain":{"family":"inet","table":"t","name":"c","type":"filter","hook":"input","prio":0}},{"rule":{"family":"inet","table":"t","chain":"c","handle":4,"expr":[{"drop":null}]}},{"rule":{"family":"inet","table":"t","chain":"c","handle":7,"expr":[{"drop":null}]}}]}"#;
    let ruleset = read("f", listing, Options::default()).expect("a good listing");
    let report = crate::check::check(&ruleset, &crate::normal::NoPlaces, Default::default());
    let findings: Vec<String> =
        report.expect("it is flat").findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        findings,
        [
            "f:1: changes nothing: without it handle 7 does the same (table inet t, chain c, handle 4)",
            "f:1: changes nothing: handle 4 decides first, and the same (table inet t, chain c, handle 7)",
        ]
    );
}

/// Quotes in log prefixes are the one thing in the random rulesets that nft cannot take.
fn plain(ruleset: &Ruleset) -> Ruleset {
    let text = text::write(ruleset).replace("log \"a \\\"b\\\\ \"", "log \"a b \"");
    let text = text.replace("chain input", "chain forward");
    text::read("plain.rules", &text).expect("what we write is good")
}

#[test]
fn nft_takes_what_is_written_and_lists_the_same_rules() {
    let Some(namespace) = crate::kernel::Namespace::open(&["nft"]) else { return };
    let (mut written, mut compared) = (0, 0);
    for seed in 0..120 {
        let mut random = Random::new(seed);
        let family =
            [None, Some(crate::Family::Ipv4), Some(crate::Family::Ipv6)][seed as usize % 3];
        let shape = Shape { places: false, sites: false, sets: false, family, ..Shape::FULL };
        let ruleset = plain(&random::ruleset(&mut random, shape));
        let text =
            write(&ruleset).unwrap_or_else(|e| panic!("{seed}: {e}\n{}", text::write(&ruleset)));
        let listed = namespace
            .run("nft -f - && nft -j list ruleset", &text)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        written += 1;
        let again =
            read("listed", &listed, Options { chain: Some("forward"), ..Options::default() })
                .unwrap_or_else(|e| panic!("{seed}: {e}\n{text}"));
        let world = World::new(&mut random);
        for _ in 0..60 {
            let packet = random::packet(&mut random, shape);
            let first = naive::evaluate(&ruleset, &packet, &world);
            let second = naive::evaluate(&again, &packet, &world);
            let kind = |verdict: &Verdict| match verdict {
                // nft fills in how, where nothing was said.
                Verdict::Reject { .. } => Verdict::Reject { with: None },
                other => other.clone(),
            };
            assert_eq!(
                (kind(&first.verdict), first.matched.len(), first.passed.len()),
                (kind(&second.verdict), second.matched.len(), second.passed.len()),
                "seed {seed} {packet:?}\n{}\n{text}\n{}",
                text::write(&ruleset),
                text::write(&again)
            );
            compared += 1;
        }
    }
    assert!(written > 100 && compared > 5000, "{written} {compared}");
}

#[test]
fn icmpv6_is_written_where_rules_are_about_both_families() {
    let rules = "chain a policy accept {\n icmp 8 drop\n icmpv6 1 drop\n}\n";
    let text = write(&text::read("f", rules).expect("a good file")).expect("nft can say that");
    for line in [
        "meta l4proto { 1 } icmp type { 8 } drop",
        "meta nfproto ipv6 meta l4proto { 58 } icmpv6 type { 1 } drop",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn sets_are_written_for_each_family() {
    let rules = "set s { 10.0.0.0/8 2001:db8::/32 }\nchain a policy drop {\n not src @s accept\n dst @t drop\n}\n";
    let ruleset = text::read("f", rules).expect("a good file");
    let text = write(&ruleset).expect("nft can say that");
    for part in [
        "set s_v4 {",
        "elements = { 10.0.0.0-10.255.255.255 }",
        "set t_v6 {",
        "meta nfproto ipv4 ip saddr != @s_v4 accept",
        "meta nfproto ipv6 ip6 daddr @t_v6 drop",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    if let Some(namespace) = crate::kernel::Namespace::open(&["nft"]) {
        namespace.run("nft -c -f -", &text).expect("nft takes it");
    }
    let unknown = "chain a policy drop {\n src.country = DE accept\n site x\n}\n";
    let ruleset = text::read("f", unknown).expect("a good file");
    assert_eq!(write(&ruleset).expect_err("no places").problems().len(), 2);
}

/// What one rule becomes in the own format.
fn rules_of(listing: &str) -> Vec<String> {
    let ruleset =
        read("f", listing, Options::default()).unwrap_or_else(|e| panic!("{e}\n{listing}"));
    ruleset.rules().iter().map(|rule| text::rule_text(&ruleset, rule)).collect()
}

#[test]
fn other_fields_are_details_and_what_no_packet_tells_is_maybe() {
    let is = |left: &str, right: &str| {
        format!(r#"{{"match":{{"op":"==","left":{left},"right":{right}}}}},{{"drop":null}}"#)
    };
    let payload = |protocol: &str, field: &str| {
        format!(r#"{{"payload":{{"protocol":"{protocol}","field":"{field}"}}}}"#)
    };
    let key = |kind: &str, key: &str| format!(r#"{{"{kind}":{{"key":"{key}"}}}}"#);
    let cases = [
        (is(&payload("ip", "ttl"), "1"), "family ipv4 with ttl 1 drop"),
        (is(&payload("ip6", "hoplimit"), "255"), "family ipv6 with ttl 255 drop"),
        (
            is(&payload("ether", "saddr"), r#""00:16:3e:00:00:01""#),
            "with source-mac 00:16:3e:00:00:01 drop",
        ),
        (is(&key("meta", "skuid"), r#"{"set":[0,{"range":[10,20]}]}"#), "with user {0 10-20} drop"),
        (is(&key("meta", "skuid"), r#""nobody""#), "maybe \"meta skuid\" \"{\\\"meta\\\":"),
        (is(&key("meta", "pkttype"), r#""broadcast""#), "with packet-type broadcast drop"),
        (is(&key("meta", "cpu"), "3"), "with meta-cpu 3 drop"),
        (is(r#"{"&":[{"ct":{"key":"mark"}},255]}"#, "1"), "with connection-mark 1/0xff drop"),
        (
            is(r#"{"fib":{"result":"type","flags":["daddr"]}}"#, r#""local""#),
            "with destination-type local drop",
        ),
        (
            is(r#"{"fib":{"result":"oif","flags":["saddr","iif"]}}"#, "false"),
            "with fib-oif-saddr-iif 0 drop",
        ),
        (
            is(r#"{"tcp option":{"name":"maxseg","field":"size"}}"#, "500"),
            "proto tcp with tcp-option-maxseg-size 500 drop",
        ),
        (
            is(
                r#"{"&":[{"payload":{"protocol":"ip","field":"saddr"}},"255.0.0.255"]}"#,
                r#""10.0.0.7""#,
            ),
            "family ipv4 masked src 10.0.0.7 255.0.0.255 drop",
        ),
        (r#"{"limit":{"rate":3,"per":"minute"}},{"accept":null}"#.to_owned(), "maybe limit"),
        (r#"{"ct count":{"val":3}},{"accept":null}"#.to_owned(), "maybe \"ct count\""),
        (r#"{"notrack":null}"#.to_owned(), "also"),
        (
            r#"{"mangle":{"key":{"meta":{"key":"mark"}},"value":{"ct":{"key":"mark"}}}}"#
                .to_owned(),
            "also changes mark",
        ),
        (
            r#"{"xt":{"type":"match","name":"conntrack"}},{"accept":null}"#.to_owned(),
            "maybe conntrack",
        ),
        (r#"{"xt":{"type":"target","name":"LOG"}}"#.to_owned(), "log"),
        (r#"{"queue":{"num":1}}"#.to_owned(), "queue"),
    ];
    for (statements, expected) in cases {
        let listing = rule(&statements);
        let [shown] = rules_of(&listing).try_into().expect("one rule");
        assert!(shown.starts_with(expected), "{statements}\n{shown}");
        let ruleset = read("f", &listing, Options::default()).expect("it was read before");
        let again = text::read("again", &text::write(&ruleset)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(again.rules()[0].conditions, ruleset.rules()[0].conditions, "{statements}");
    }
}

#[test]
fn fields_side_by_side_are_a_way_for_each_element() {
    let fields = r#"{"concat":[{"payload":{"protocol":"ip","field":"saddr"}},{"payload":{"protocol":"tcp","field":"dport"}}]}"#;
    let elements = r#"{"set":[{"concat":["10.0.0.1",22]},{"concat":[{"prefix":{"addr":"10.1.0.0","len":16}},{"range":[80,89]}]}]}"#;
    let matches = |op: &str| {
        rule(&format!(
            r#"{{"match":{{"op":"{op}","left":{fields},"right":{elements}}}}},{{"accept":null}}"#
        ))
    };
    assert_eq!(
        rules_of(&matches("==")),
        [
            "family ipv4 src 10.0.0.1 proto tcp dport 22 accept",
            "family ipv4 src 10.1.0.0/16 proto tcp dport 80-89 accept",
        ]
    );
    let other = rules_of(&matches("!="));
    assert!(other[0].starts_with("family ipv4 proto tcp not maybe concatenation"), "{other:?}");
    let map = format!(
        r#"{{"vmap":{{"key":{fields},"data":{{"set":[[{{"concat":["10.0.0.1",22]}},{{"drop":null}}]]}}}}}}"#
    );
    assert_eq!(rules_of(&rule(&map)), ["family ipv4 src 10.0.0.1 proto tcp dport 22 drop"]);
}

#[test]
fn sets_that_rules_fill_are_not_known() {
    let listing = rule(
        r#"{"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":"@s"}},{"set":{"op":"add","elem":{"payload":{"protocol":"ip","field":"saddr"}},"set":"@s"}},{"drop":null}"#,
    );
    let set = r#"{"nftables":[{"set":{"family":"inet","table":"t","name":"s","type":"ipv4_addr","elem":["10.0.0.1"]}},"#;
    let shown = rules_of(&listing.replacen("{\"nftables\":[", set, 1));
    assert!(shown[0].starts_with("family ipv4 maybe set \"\\\"@s\\\"\" maybe set"), "{shown:?}");
}

#[test]
fn chains_of_nat_and_other_tables_are_passed_over_and_said_so() {
    let chain = |table: &str, name: &str, kind: &str, hook: &str| {
        format!(
            r#"{{"chain":{{"family":"inet","table":"{table}","name":"{name}","type":"{kind}","hook":"{hook}","prio":0,"policy":"accept"}}}}"#
        )
    };
    let rule = |table: &str, chain: &str, statement: &str| {
        format!(
            r#"{{"rule":{{"family":"inet","table":"{table}","chain":"{chain}","handle":7,"expr":[{statement}]}}}}"#
        )
    };
    let listing = |parts: &[String]| format!("{{\"nftables\":[{}]}}", parts.join(",\n"));
    let parts = [
        chain("fw", "input", "filter", "input"),
        chain("fw", "pre", "nat", "prerouting"),
        r#"{"chain":{"family":"inet","table":"fw","name":"ports"}}"#.to_owned(),
        rule("fw", "input", r#"{"drop":null}"#),
        rule("fw", "pre", r#"{"jump":{"target":"ports"}}"#),
        rule("fw", "ports", r#"{"dnat":{"addr":"10.0.0.1"}}"#),
    ];
    let ruleset = read("f", &listing(&parts), Options::default()).expect("nat is passed over");
    assert_eq!(ruleset.chains().len(), 1);
    let [remark] = ruleset.remarks() else { panic!("{:?}", ruleset.remarks()) };
    assert!(
        remark.contains("chain \"pre\"") && remark.contains("changes destinations"),
        "{remark}"
    );
    // The only table that filters is the one that is meant.
    let nat =
        [chain("nat", "pre", "nat", "prerouting"), rule("nat", "pre", r#"{"masquerade":null}"#)];
    let both = [&parts[..1], &parts[3..4], &nat[..]].concat();
    let ruleset = read("f", &listing(&both), Options::default()).expect("one table filters");
    assert_eq!((ruleset.name(), ruleset.remarks().len()), ("fw", 0));
    // One that may drop the same packets is said.
    let raw = [chain("raw", "pre", "filter", "prerouting"), rule("raw", "pre", r#"{"drop":null}"#)];
    let both = [&parts[..1], &parts[3..4], &raw[..]].concat();
    let options = Options { table: Some("fw"), chain: None };
    let ruleset = read("f", &listing(&both), options).expect("a table is chosen");
    assert!(ruleset.remarks()[0].contains("may drop"), "{:?}", ruleset.remarks());
}

#[test]
fn only_what_the_asked_chain_reaches_is_read_and_errors_name_table_chain_and_handle() {
    let listing = rule(r#"{"drop":null}"#).replace(
        "{\"nftables\":[",
        "{\"nftables\":[{\"chain\":{\"family\":\"inet\",\"table\":\"t\",\"name\":\"f\",\"type\":\"filter\",\
         \"hook\":\"forward\",\"prio\":0}},{\"rule\":{\"family\":\"inet\",\"table\":\"t\",\"chain\":\"f\",\
         \"handle\":12,\"expr\":[{\"sinproxy\":null}]}},",
    );
    read("f", &listing, Options { chain: Some("c"), table: None }).expect("f is not read");
    let error = read("f", &listing, Options::default()).expect_err("f is read").to_string();
    assert!(error.ends_with("(table inet t, chain f, handle 12)"), "{error}");
}
