//! The own format read, written and damaged.

use super::*;
use crate::model::*;
use crate::naive::{NoSets, evaluate};
use crate::packet::{Packet, State};
use crate::random::{self, Random, Shape};

/// The same ruleset with all places forgotten, so that two can be compared.
fn without_lines(mut ruleset: Ruleset) -> Ruleset {
    for rule in &mut ruleset.rules {
        rule.origin.line = 0;
    }
    for chain in &mut ruleset.chains {
        chain.origin.line = 0;
    }
    for set in &mut ruleset.sets {
        set.origin.line = 0;
    }
    ruleset
}

#[test]
fn what_is_written_reads_back_the_same() {
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let ruleset = random::ruleset(&mut random, Shape::FULL);
        let text = write(&ruleset);
        let again = read("random.rules", &text).unwrap_or_else(|e| panic!("{seed}: {e}\n{text}"));
        assert!(without_lines(again) == without_lines(ruleset), "seed {seed}\n{text}");
    }
}

const EVERYTHING: &str = r#"
ruleset "edge one"
family ipv4                      # of one family
entry input
set office { 10.1.0.0/16, 10.2.0.0/16
             192.0.2.1-192.0.2.9 }   # over two lines
set "odd name" live
chain input policy drop [7:700] {
    [12:3400] state {established, related} accept comment "old \"friends\""
    not src {10.0.0.0/8 192.168.0.0/16} dst @office proto {tcp udp} dport {22 80-89} accept
    src @"odd name" log "set: " level warning
    sport 1-1023 port {53 123} in eth+ out not_a_keyword reject with icmp-host-prohibited
    icmp {echo-request 3/4 9-10/0-2} icmpv6 135 flags syn of {syn ack rst fin} return
    flags none of all mark 0x10/0xf0 dscp {ef 8-10} set-mark 1/0xff
    src.country in {DE "New Zealand"} dst.asn != "6\"4" src.city.confidence >= 50 site fra
    distance(src, 8.68 50.11) < 500 km  not distance(dst, fra) >= 2 mi distance(dst, "8 \"x\"") > 1 m jump office
    continue
    goto office
}
chain input2 policy continue {
}
chain office {
    drop
}
"#;

#[test]
fn everything_that_can_be_said_is_read_and_written() {
    let ruleset = read("edge.rules", EVERYTHING).expect("a good file");
    assert_eq!(ruleset.name(), "edge one");
    assert_eq!(ruleset.chains()[0].counters, Some(Counters { packets: 7, bytes: 700 }));
    let first = &ruleset.rules()[0];
    assert_eq!((first.origin.line, first.comment.as_deref()), (9, Some("old \"friends\"")));
    assert_eq!(first.counters, Some(Counters { packets: 12, bytes: 3400 }));
    let place = &ruleset.rules()[6];
    assert_eq!(place.conditions.len(), 3);
    assert!(place.conditions[1].negated, "!= is a negated =");
    let far = &ruleset.rules()[7].conditions[0];
    assert_eq!(condition_text(far), "distance(src, 8.68 50.11) < 500000 m");
    let again = read("edge.rules", &write(&ruleset)).expect("what we write is good");
    assert_eq!(without_lines(again), without_lines(ruleset));
}

#[test]
fn the_example_decides_as_it_reads() {
    let ruleset = read("edge.rules", EVERYTHING).expect("a good file");
    let packet = |source: &str, destination: &str| Packet {
        source: source.parse().expect("an address"),
        destination: destination.parse().expect("an address"),
        protocol: 6,
        destination_port: 85,
        ..Packet::default()
    };
    let decide = |packet: &Packet<'_>| {
        let outcome = evaluate(&ruleset, packet, &NoSets);
        let line = outcome.rule.map(|id| ruleset.rule(id).origin.line);
        (outcome.verdict, line, outcome.matched.len(), outcome.passed.len())
    };
    let known = Packet { state: State::Related, ..packet("10.0.0.1", "10.1.0.1") };
    assert_eq!(decide(&known), (Verdict::Accept, Some(9), 0, 0));
    assert_eq!(decide(&packet("8.8.8.8", "192.0.2.9")), (Verdict::Accept, Some(10), 0, 0));
    // Not to the office: is counted, and the chain at the end drops it.
    assert_eq!(decide(&packet("8.8.8.8", "192.0.2.10")), (Verdict::Drop, Some(23), 1, 1));
    let six = packet("2001:db8::1", "2001:db8::2");
    assert_eq!(decide(&six), (Verdict::Continue, None, 0, 0), "the ruleset is about IPv4");
}

/// Every mistake: its text, and the message with line and column.
#[test]
fn mistakes_are_named_with_their_place() {
    let cases = [
        ("chian a {\n}\n", "1:1: found \"chian\": allowed is ruleset, family, entry, set or chain"),
        ("family ipv5\n", "1:8: found \"ipv5\": allowed is ipv4 or ipv6"),
        ("ruleset a b\n", "1:11: found \"b\": allowed is end of line"),
        ("set s 10.0.0.0/8\n", "1:7: found \"10.0.0.0/8\": allowed is live or { addresses }"),
        ("set s {\n 10.0.0.0/33 }\n", "2:2: found \"/33\": allowed is a length from 0 to 32"),
        ("set s {\n 10.0.0.0/8\n", "1:7: found \"{\": allowed is a closing } before the end"),
        ("chain a policy drop\n}\n", "1:20: found \"end of line\": allowed is policy or {"),
        ("chain a policy drop {\n accept\n", "2:1: found \"end of file\": allowed is a rule, or"),
        ("chain a policy drop {\n accept drop\n}\n", "2:9: found \"drop\": allowed is end of line"),
        ("chain a policy drop {\n src 10.0.0.0/8\n}\n", "2:16: found \"end of line\": allowed is"),
        ("chain a policy drop {\n src 10.0.0 drop\n}\n", "2:6: found \"10.0.0\": allowed is an"),
        ("chain a policy drop {\n src 10.9.0.0-10.0.0.0 drop\n}\n", "2:6: found \"10.9.0.0-10"),
        ("chain a policy drop {\n src {} drop\n}\n", "2:7: found \"}\": allowed is an address"),
        ("chain a policy drop {\n src @ drop\n}\n", "2:6: found \"@\": allowed is a set's name"),
        (
            "chain a policy drop {\n dport 65536 drop\n}\n",
            "2:8: found \"65536\": allowed is a port",
        ),
        ("chain a policy drop {\n dport 9-8 drop\n}\n", "2:8: found \"9-8\": allowed is a port"),
        (
            "chain a policy drop {\n proto tpc drop\n}\n",
            "2:8: found \"tpc\": allowed is a protocol",
        ),
        ("chain a policy drop {\n icmp 256 drop\n}\n", "2:7: found \"256\": allowed is an ICMP"),
        ("chain a policy drop {\n flags syn drop\n}\n", "2:12: found \"drop\": allowed is of"),
        ("chain a policy drop {\n flags syn of ack drop\n}\n", "2:8: found flags before"),
        (
            "chain a policy drop {\n state fresh drop\n}\n",
            "2:8: found \"fresh\": allowed is invalid",
        ),
        ("chain a policy drop {\n dscp 64 drop\n}\n", "2:7: found \"64\": allowed is a DSCP"),
        ("chain a policy drop {\n mark -1 drop\n}\n", "2:7: found \"-1\": allowed is a mark"),
        ("chain a policy drop {\n src.country drop\n}\n", "2:14: found \"drop\": allowed is =, !="),
        ("chain a policy drop {\n distance(src, 200 10) < 1 km drop\n}\n", "2:16: found \"200\""),
        ("chain a policy drop {\n distance(src, 20 10) < 1 ly drop\n}\n", "2:27: found \"ly\""),
        ("chain a policy drop {\n ! src 10.0.0.0/8 drop\n}\n", "2:2: found \"!\": allowed is !="),
        ("chain a policy drop {\n log \"abc\n}\n", "2:6: found \"an open quote\""),
        ("chain a policy drop {\n log \"a\\n\" \n}\n", "2:8: found \"\\\\n\": allowed is"),
        ("chain a policy drop {\n [1:2 accept\n}\n", "2:2: found \"[1:2\": allowed is counters"),
        ("chain a policy drop {\n jump b\n}\n", "2: found \"b\": allowed is a chain, and none"),
        ("chain a policy drop {\n jump a\n}\n", "2: found a jump to \"a\", which has a policy"),
        ("chain a {\n}\n", "1: there is no chain with a policy"),
        ("", "1: there is no chain with a policy"),
        ("entry b\nchain a policy drop {\n}\n", "1: found \"b\": allowed is a chain with a policy"),
        ("chain a policy drop {\n}\nchain a {\n}\n", "3: chain \"a\" is declared already, at f:1"),
        ("set a live\nset a live\n", "2: set \"a\" is declared already, at f:1"),
    ];
    for (text, expected) in cases {
        let error = read("f", text).expect_err(text);
        let shown = error.to_string();
        assert!(shown.starts_with(&format!("f:{expected}")), "{text:?}\n gave {shown}");
        assert!(!shown.contains('\n'));
    }
}

#[test]
fn several_mistakes_are_told_in_one_go() {
    let text = "chain a policy drop {\n src x drop\n accept\n dport y drop\n}\nbad\n";
    let error = read("f", text).expect_err("three mistakes");
    let places: Vec<(u32, u32)> =
        error.problems().iter().map(|problem| (problem.line, problem.column)).collect();
    assert_eq!(places, [(2, 6), (4, 8), (6, 1)]);
    assert!(error.to_string().ends_with("(and 2 more)"));
}

#[test]
fn circles_and_towers_of_chains_are_refused() {
    let circle =
        "chain a policy drop {\n jump b\n}\nchain b {\n jump c\n}\nchain c {\n goto b\n}\n";
    let error = read("f", circle).expect_err("a circle");
    assert_eq!(error.to_string(), "f:8: this jump to \"b\" closes a circle");
    let mut tower = "chain c0 policy drop {\n jump c1\n}\n".to_owned();
    for level in 1..100 {
        tower.push_str(&format!("chain c{level} {{\n jump c{}\n}}\n", level + 1));
    }
    tower.push_str("chain c100 {\n}\n");
    let error = read("f", &tower).expect_err("too deep");
    assert!(error.to_string().ends_with("65 deep: allowed is 64"), "{error}");
    // Wide is no problem.
    let many =
        "chain a policy drop {\n".to_owned() + &" jump b\n".repeat(500) + "}\nchain b {\n}\n";
    read("f", &many).expect("five hundred calls of one chain");
}

/// A good text with one byte changed or cut off never panics and never gives an empty error.
#[test]
fn damaged_text_is_an_error_or_another_ruleset() {
    let bytes = EVERYTHING.as_bytes();
    for at in 0..bytes.len() {
        for byte in [b' ', b'"', b'{', b'}', b'\n', b'0', b'(', 0xc3, 0] {
            let mut changed = bytes.to_vec();
            changed[at] = byte;
            let text = String::from_utf8_lossy(&changed);
            if let Err(error) = read("f", &text) {
                assert!(!error.problems().is_empty());
            }
        }
        let _cut: Result<Ruleset, _> = read("f", &String::from_utf8_lossy(&bytes[..at]));
    }
}
