//! Compiled programs against the rules they come from, with nft as the reader of their text.

use super::candidate::{Candidate, Maker};
use super::elements::{Element, elements, elements_without_ports};
use super::layers::{arrange, merge_neighbours};
use super::*;
use crate::model::{Action, Detail, RuleId, Test, Verdict};
use crate::naive::{self, NoSets};
use crate::nft;
use crate::normal::NoPlaces;
use crate::packet::{Family, Packet};
use crate::random::{self, Random, Shape, World};
use crate::text;

fn ruleset(rules: &str) -> Ruleset {
    text::read("edge.rules", rules).unwrap_or_else(|error| panic!("{error}\n{rules}"))
}

fn compiled(rules: &str) -> Program {
    let compiled = compile(&ruleset(rules), &NoPlaces, Options::default());
    compiled.unwrap_or_else(|error| panic!("{error}\n{rules}"))
}

/// Rules that nft can say, in runs that are long enough for maps, with what is in front of them and
/// between them.
fn rules_with_chains(random: &mut Random) -> Ruleset {
    let mut rules = String::new();
    for chain in ["forward policy drop", "first", "later"] {
        rules += &format!("chain {chain} {{\n");
        for _ in 0..140 {
            let guards = [
                "",
                "",
                "",
                "",
                " in eth0",
                " mark 5",
                " src.country = DE",
                " port 2-4",
                " not port 0",
                " port 0-65535",
            ];
            rules += guards[random.below(10) as usize];
            rules += &key_conditions(random);
            let calls: &[&str] = match chain {
                "first" => &["jump later", "goto later"],
                "later" => &["return", "accept"],
                _ => &["jump first", "jump later", "goto first"],
            };
            rules += " ";
            rules += match random.below(24) {
                0 | 1 => calls[random.below(calls.len() as u64) as usize],
                2 => "log \"a b \"",
                3 => "set-mark 7",
                4 => "return",
                5 => "reject with tcp-reset",
                6..9 => "reject",
                9..15 => "drop",
                _ => "accept",
            };
            rules += "\n";
        }
        rules += "}\n";
    }
    // nft adds the protocol where a reset is sent.
    let rules = rules.lines().map(|line| match line.contains("tcp-reset") {
        true => format!(
            " proto tcp{}\n",
            line.replace("proto tcp", "").replace("proto 47", "").replace("proto {udp icmp}", "")
        ),
        false => format!("{line}\n"),
    });
    ruleset(&rules.collect::<String>())
}

/// What a packet meets: the verdict, and the logs and marks on the way.
fn fate(ruleset: &Ruleset, packet: &Packet<'_>, sets: &dyn naive::Sets) -> (Verdict, Vec<Action>) {
    let outcome = naive::evaluate(ruleset, packet, sets);
    let verdict = match outcome.verdict {
        // nft fills in how, where nothing was said.
        Verdict::Reject { .. } => Verdict::Reject { with: None },
        other => other,
    };
    let actions = outcome.matched.iter().map(|&id| match &ruleset.rule(id).action {
        // nft prints some ways to set a mark as it computes them.
        action if action.changes_fwmark() => Action::SetMark { value: 0, mask: 0 },
        action => action.clone(),
    });
    (verdict, actions.filter(|action| !matches!(action, Action::Continue)).collect())
}

/// Packets of the rules' small world.
fn packets(random: &mut Random, count: usize) -> Vec<Packet<'static>> {
    (0..count).map(|_| random::packet(random, Shape::FULL)).collect()
}

/// The rules that a later fragment can meet.
fn without_header_tests(ruleset: &Ruleset) -> Ruleset {
    let asks = |id: &RuleId| {
        ruleset.rule(*id).conditions.iter().any(|condition| {
            matches!(
                condition.test,
                Test::Port(..) | Test::EitherPort(_) | Test::Icmp(_) | Test::TcpFlags { .. }
            )
        })
    };
    let mut kept = ruleset.clone();
    for chain in &mut kept.chains {
        chain.rules.retain(|id| !asks(id));
    }
    kept
}

#[test]
fn random_rulesets_decide_as_their_compiled_programs_that_nft_has_read() {
    let Some(namespace) = crate::kernel::Namespace::open(&["nft"]) else { return };
    let (mut lookups, mut compared) = (0, 0);
    for batch in 0..2u64 {
        let mut all = Vec::new();
        let mut program_text = String::new();
        for seed in batch * 6..batch * 6 + 6 {
            let mut random = Random::new(seed);
            let ruleset = rules_with_chains(&mut random);
            let world = World::new(&mut random);
            let table = format!("t{seed}");
            let options = Options { table: &table, counters: seed % 5 == 0 };
            let program = compile(&ruleset, &world, options)
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            lookups += program.plan.chains.iter().map(ChainPlan::lookups).sum::<usize>();
            program_text += &program.text;
            all.push((seed, random, ruleset, world, program));
        }
        let tables =
            "nft list tables | while read -r _ table; do nft -j list table $table; echo; done";
        let listed = namespace
            .run(&format!("nft -f - && {tables}"), &program_text)
            .unwrap_or_else(|error| panic!("batch {batch}: {error}\n{program_text}"));
        let listings: Vec<&str> = listed.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(listings.len(), all.len());
        for (seed, mut random, ruleset, world, program) in all {
            let listed = listings.iter().find(|text| text.contains(&format!("\"t{seed}\"")));
            let listed = listed.expect("each table is listed");
            let table = format!("t{seed}");
            let options = nft::Options { table: Some(&table), chain: Some("forward") };
            let again = nft::read("listed", listed, options)
                .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", program.text));
            let without_headers = without_header_tests(&ruleset);
            for packet in packets(&mut random, 400) {
                // A later fragment meets no test of ports, ICMP types or TCP flags.
                let is_later = compared % 4 == 3;
                let details = [(Detail::named("fragment").expect("a name"), is_later.into())];
                let packet = Packet { details: &details, ..packet };
                let source = if is_later { &without_headers } else { &ruleset };
                assert_eq!(
                    fate(source, &packet, &world),
                    fate(&again, &packet, &NoSets),
                    "seed {seed} {packet:?}\n{}\n{}",
                    text::write(&ruleset),
                    program.text,
                );
                compared += 1;
            }
        }
    }
    assert!(lookups > 10 && compared > 3_000, "{lookups} {compared}");
}

#[test]
fn neighbours_of_either_family_are_all_kept_when_they_are_joined() {
    let mut rules = String::from("chain input policy drop {\n");
    for source in ["10.0.0.1", "2001:db8::1", "10.0.0.3", "10.0.0.5", "2001:db8::3", "10.0.0.7"] {
        rules += &format!(" src {source} accept\n");
    }
    // Joined, these are all addresses.
    rules += " src 0.0.0.0/1 accept\n src 128.0.0.0/1 accept\n src 10.0.0.9 accept\n}\n";
    let ruleset = ruleset(&rules);
    let mut maker = Maker::new(&ruleset, false).expect("nothing has to be resolved");
    let each = (0..9).map(|id| maker.candidate(RuleId(id))).collect();
    let merged = merge_neighbours(each, maker.domains());
    let [one] = merged.as_slice() else { panic!("{merged:?}") };
    assert_eq!(one.rules.len(), 9);
    let program = compile(&ruleset, &NoPlaces, Options::default()).expect("nft can say that");
    for element in ["0.0.0.0/0 : accept", "2001:db8::1 : accept", "2001:db8::3 : accept"] {
        assert!(program.text.contains(element), "{element}\n{}", program.text);
    }
}

#[test]
fn a_test_of_either_port_in_front_of_a_lookup_asks_for_the_protocol() {
    let list = |test: &str| -> String {
        (0..9).map(|n| format!("  src 10.0.{n}.0/24 {test} accept\n")).collect()
    };
    for test in ["not port 22", "port 0-65535", "not port {}"] {
        let Ok(ruleset) =
            text::read("a", &format!("chain input policy drop {{\n{}}}\n", list(test)))
        else {
            assert_eq!(test, "not port {}");
            continue;
        };
        let program = compile(&ruleset, &NoPlaces, Options::default()).expect("nft can say that");
        let line = program.text.lines().find(|line| line.contains("vmap")).expect("a lookup");
        assert!(line.contains("meta l4proto { 6, 17, 33, 132, 136 }"), "{test}\n{line}");
    }
}

#[test]
fn a_test_of_all_ports_is_still_a_test_of_ports() {
    let list: String =
        (0..12).map(|n| format!("  src 10.0.{n}.0/24 proto tcp dport 0-65535 accept\n")).collect();
    let program = compiled(&format!("chain input policy drop {{\n{list}}}\n"));
    let key = "ip saddr . meta l4proto . th dport vmap @whered_1_v4";
    assert!(program.text.contains(key), "{}", program.text);
    let program = compiled("chain input policy drop {\n  proto tcp dport 0-65535 accept\n}\n");
    assert!(program.text.contains("th dport 0-65535 accept"), "{}", program.text);
}

#[test]
fn later_fragments_have_chains_without_tests_of_ports_unless_they_are_reassembled() {
    let rules = |more: &str| {
        format!(
            "chain output policy drop {{\n{more}  proto tcp dport 22 accept\n  src 10.0.0.1 accept\n}}\n"
        )
    };
    let text = compiled(&rules("")).text;
    for line in ["ip frag-off & 0x1fff != 0 goto whered_later_output", "frag frag-off != 0 goto"] {
        assert!(text.contains(line), "{text}");
    }
    let later = text.split("chain whered_later_output {\n").last().expect("a chain");
    let later = later.split('}').next().expect("its rules");
    assert!(later.contains("10.0.0.1") && !later.contains("dport"), "{text}");
    // Conntrack reassembles them.
    let text = compiled(&rules("  state new accept\n")).text;
    assert!(!text.contains("frag"), "{text}");
    // What nft lists reads the data of fragments, and goes on to do so.
    let listing = r#"{"nftables":[{"chain":{"family":"inet","table":"t","name":"output","type":"filter","hook":"output","prio":0,"policy":"accept"}},{"rule":{"family":"inet","table":"t","chain":"output","handle":3,"expr":[{"match":{"op":"==","left":{"payload":{"protocol":"tcp","field":"dport"}},"right":22}},{"drop":null}]}}]}"#;
    let read = nft::read("listed", listing, nft::Options::default()).expect("a good listing");
    let program = compile(&read, &NoPlaces, Options::default()).expect("nft can say that");
    assert!(!program.text.contains("frag"), "{}", program.text);
}

#[test]
fn who_returns_from_a_chain_meets_its_policy_whatever_stands_for_it() {
    let rules = "chain input policy reject {\n  src 10.0.0.0/8 return\n  accept\n}\n";
    for text in [compiled(rules).text, nft::write(&ruleset(rules)).expect("nft can say that")] {
        let base = text.split("chain input {\n").last().expect("the chain");
        let lines: Vec<&str> = base.lines().map(str::trim).collect();
        assert!(lines[1].starts_with("jump ") && lines[2] == "reject", "{text}");
    }
}

#[test]
fn remarks_are_as_short_as_the_kernel_takes_them() {
    let long = "ä".repeat(200);
    let rules = format!("chain input policy drop {{\n  log comment \"{long}\"\n}}\n");
    let program = compiled(&rules);
    let comment = program.text.split(" comment \"").nth(1).and_then(|rest| rest.split('"').next());
    let length = comment.map(str::len);
    assert!(length.is_some_and(|length| (100..=128).contains(&length)), "{length:?}");
    let rules: String = (0..9).map(|n| format!(" src 10.0.{n}.0/24 accept\n")).collect();
    let rules = text::read(&long, &format!("chain input policy drop {{\n{rules}}}\n"));
    let options = Options { counters: true, ..Options::default() };
    let program = compile(&rules.expect("good rules"), &NoPlaces, options).expect("good rules");
    let comments = program.text.lines().filter_map(|line| line.split(" comment \"").nth(1));
    assert!(comments.clone().count() > 9);
    assert!(comments.map(str::len).all(|length| length < 128), "{}", program.text);
}

#[test]
fn lists_of_sources_become_one_lookup() {
    let list: String = (0..100).map(|n| format!("  src 10.0.{n}.0/24 accept\n")).collect();
    let rules = format!(
        "chain input policy drop {{\n  state {{established related}} accept\n{list}  proto tcp dport 80 state new accept\n}}\n"
    );
    let program = compiled(&rules);
    let chain = &program.plan.chains[0];
    assert_eq!((chain.lookups(), chain.linear_rules(), chain.rules()), (1, 2, 102));
    assert!(
        program.text.contains("meta nfproto ipv4 ip saddr vmap @whered_1_v4"),
        "{}",
        program.text
    );
    // Neighbours that decide alike are one range.
    assert!(program.text.contains("10.0.0.0-10.0.99.255 : accept"), "{}", program.text);
    assert!(program.text.contains("# edge.rules:3: src 10.0.0.0/24 accept"), "{}", program.text);
}

/// The outcome of the first layer that has an element for a packet's key.
fn by_layers(
    maps: &[(Vec<Element>, Vec<Element>, super::candidate::KeyFields)],
    candidates: &[Candidate],
    packet: &Packet<'_>,
) -> Option<Action> {
    use crate::normal::Field;
    let number = |field| match field {
        Field::Source => crate::packet::address_number(packet.source),
        Field::Destination => crate::packet::address_number(packet.destination),
        Field::Protocol => packet.protocol.into(),
        Field::SourcePort => packet.source_port.into(),
        _ => packet.destination_port.into(),
    };
    let has_ports = packet.has_ports();
    let holds = |element: &&Element, fields: super::candidate::KeyFields| {
        fields
            .iter()
            .zip(&element.key)
            .all(|(field, range)| range.0 <= number(field) && number(field) <= range.1)
    };
    maps.iter().find_map(|(main, without_ports, fields)| {
        let readable = !fields.has_ports() || has_ports;
        let found = main.iter().find(|one| readable && holds(one, *fields));
        let found = found.or_else(|| {
            let fields = fields.without_ports();
            without_ports.iter().find(|one| !has_ports && holds(one, fields))
        });
        found.map(|element| candidates[element.candidate].outcome.action.clone())
    })
}

/// Conditions of key fields, which overlap in every way.
fn key_conditions(random: &mut Random) -> String {
    let span = |random: &mut Random, limit: u64| {
        let (a, b) = (random.below(limit), random.below(limit));
        if random.below(3) == 0 { (a, a) } else { (a.min(b), a.max(b)) }
    };
    if random.below(2) == 0 {
        let protocol = ["tcp", "udp"][random.below(2) as usize];
        let net = ["10.0.0.", "10.0.0.", "2001:db8::"][random.below(3) as usize];
        let [a, b] = [(); 2].map(|()| random.below(10));
        let (low, more) = (random.below(8), random.below(2) * random.below(4));
        let ports = if more == 0 { low.to_string() } else { format!("{low}-{}", low + more) };
        return format!(" src {net}{a} dst {net}{b} proto {protocol} dport {ports}");
    }
    let mut line = String::new();
    for side in ["src", "dst"] {
        match random.below(4) {
            0 | 1 => {
                let (a, b) = span(random, 16);
                let not = if random.below(8) == 0 { "not " } else { "" };
                line += &format!(" {not}{side} {{10.0.0.{a}-10.0.0.{b} 2001:db8::{b:x}}}");
            }
            2 => line += &format!(" {side} 10.0.0.{}", random.below(16)),
            _ => {}
        }
    }
    if random.below(2) == 0 {
        line += [" proto tcp", " proto {udp icmp}", " proto 47"][random.below(3) as usize];
    }
    for side in ["sport", "dport"] {
        match random.below(9) {
            0..3 => {
                let (a, b) = span(random, 8);
                line += &format!(" {side} {a}-{b}");
            }
            3 => line += &format!(" {side} 0-65535"),
            _ => {}
        }
    }
    line
}

/// Rules over key fields alone.
fn rules_of_key(random: &mut Random, count: usize) -> String {
    let mut rules = String::from("chain input policy drop {\n");
    for _ in 0..count {
        rules += &key_conditions(random);
        rules += [" accept\n", " drop\n", " reject\n"][random.below(3) as usize];
    }
    rules + "}\n"
}

#[test]
fn layers_decide_as_the_rules_do_and_the_kernel_would_take_their_elements() {
    let (mut compared, mut maps_seen) = (0, 0);
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let count = 5 + random.below(60) as usize;
        let ruleset = ruleset(&rules_of_key(&mut random, count));
        let counters = seed % 4 == 0;
        let mut maker = Maker::new(&ruleset, counters).expect("nothing has to be resolved");
        let ids = (0..ruleset.rules().len() as u32).map(RuleId);
        let mut candidates: Vec<Candidate> = ids.map(|id| maker.candidate(id)).collect();
        if !counters {
            candidates = merge_neighbours(candidates, maker.domains());
        }
        let layers = arrange(&mut candidates, maker.domains());
        let maps = [0, 1].map(|family| {
            let domain = maker.domains()[family];
            let of_layer = |layer: &super::layers::Layer| {
                let main = elements(layer, &candidates, family, domain);
                let other = elements_without_ports(layer, &candidates, family, domain);
                (main, other, layer.fields(&candidates))
            };
            layers.list.iter().map(of_layer).collect::<Vec<_>>()
        });
        for (main, other, _) in maps.iter().flatten() {
            maps_seen += 1;
            refuse_conflicts(main, &candidates);
            refuse_conflicts(other, &candidates);
        }
        for packet in packets(&mut random, 300) {
            let family = usize::from(packet.family() == Family::Ipv6);
            let found = by_layers(&maps[family], &candidates, &packet);
            let outcome = naive::evaluate(&ruleset, &packet, &NoSets);
            let expected = outcome.rule.map(|id| ruleset.rule(id).action.clone());
            // A rule without a key is a layer without fields, which no element stands for.
            assert_eq!(found, expected, "seed {seed} {packet:?}\n{}", text::write(&ruleset));
            compared += 1;
        }
    }
    assert!(compared > 15_000 && maps_seen > 300, "{compared} {maps_seen}");
}

/// Elements that overlap decide alike, and no corner of one is in another.
fn refuse_conflicts(elements: &[Element], candidates: &[Candidate]) {
    let is_in = |key: &[u128], other: &Element| {
        key.iter().zip(&other.key).all(|(number, range)| range.0 <= *number && *number <= range.1)
    };
    for (at, one) in elements.iter().enumerate() {
        for other in &elements[..at] {
            let mut pairs = one.key.iter().zip(&other.key);
            if !pairs.all(|(a, b)| a.0 <= b.1 && b.0 <= a.1) {
                continue;
            }
            let outcome = |element: &Element| &candidates[element.candidate].outcome;
            assert_eq!(outcome(one), outcome(other), "{one:?} {other:?}");
            for (corner_of, of) in [(one, other), (other, one)] {
                let low: Vec<u128> = corner_of.key.iter().map(|range| range.0).collect();
                let high: Vec<u128> = corner_of.key.iter().map(|range| range.1).collect();
                assert!(!is_in(&low, of) && !is_in(&high, of), "{one:?} {other:?}");
            }
        }
    }
}

#[test]
fn what_nft_cannot_say_is_refused_with_the_place_of_the_rule() {
    for (rules, expected) in [
        ("chain input policy drop {\n with ttl 1 drop\n}\n", "edge.rules:2: found \"with ttl 1\""),
        ("chain input policy drop {\n accept\n site fra\n}\n", "edge.rules:3: found site fra"),
        (
            "chain input policy drop {\n maybe limit \"x\" drop\n}\n",
            "edge.rules:2: found a test of limit",
        ),
        ("chain input policy continue {\n accept\n}\n", "edge.rules:1: found policy continue"),
        (
            "chain input policy drop {\n src.country = DE accept\n}\n",
            "edge.rules:2: found \"src.country",
        ),
        (
            "set whered_a { 10.0.0.1 }\nchain input policy drop {\n accept\n}\n",
            "edge.rules:1: found \"whered_a\"",
        ),
        (
            "chain input policy drop {\n jump \"a b\"\n}\nchain \"a b\" {\n accept\n}\n",
            "edge.rules:2: found the name \"a b\"",
        ),
        (
            "chain input policy drop {\n src @whered_1 accept\n}\n",
            "edge.rules:2: found \"whered_1\"",
        ),
        (
            "chain input policy drop {\n src 10.0.0.1 reject with tcp-reset\n}\n",
            "edge.rules:2: found reject with tcp-reset, which nft sends to some packets alone",
        ),
        (
            "chain input policy drop {\n dst 10.0.0.1 accept\n proto tcp reject with icmp-port-unreachable\n}\n",
            "edge.rules:3: found reject with icmp-port-unreachable",
        ),
        (
            "chain input policy drop {\n in \"eth*\" accept\n}\n",
            "edge.rules:2: found the interface \"eth*\"",
        ),
        ("chain input policy drop {\n log \"a$b\"\n}\n", "edge.rules:2: found the text \"a$b\""),
        (
            "chain one policy drop {\n accept\n}\nchain two policy drop {\n accept\n}\n",
            "edge.rules:1: found chain \"one\"",
        ),
    ] {
        let compiled = compile(&ruleset(rules), &NoPlaces, Options::default());
        let error = compiled.expect_err(rules).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let rules = ruleset("chain input policy drop {\n accept\n}\n");
    let options = Options { table: "a b", counters: false };
    let error = compile(&rules, &NoPlaces, options).expect_err("no name").to_string();
    assert!(error.starts_with("edge.rules:1: found the name \"a b\""), "{error}");
}

#[test]
fn rules_that_overlap_crosswise_are_said_to_stay_expensive() {
    let rules: String = (0..200)
        .map(|n| {
            let verdict = if n % 2 == 0 { "accept" } else { "drop" };
            match n % 2 {
                0 => format!("  src 10.0.{n}.0/24 dport {n}-9000 {verdict}\n"),
                _ => format!("  dst 10.0.{n}.0/24 sport {n}-9000 {verdict}\n"),
            }
        })
        .collect();
    let program = compiled(&format!("chain input policy drop {{\n{rules}}}\n"));
    let warnings = program.plan.warnings();
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert!(warning.starts_with("edge.rules:1: chain input stays expensive: "), "{warning}");
}

#[test]
fn a_rule_that_would_be_endless_lines_is_refused() {
    let rules = format!("chain input policy drop {{\n{} drop\n}}\n", " port 22".repeat(40));
    let error = compile(&ruleset(&rules), &NoPlaces, Options::default()).expect_err("endless");
    let error = error.to_string();
    assert!(
        error.starts_with("edge.rules:2: found conditions that nft can only say in"),
        "{error}"
    );
}

#[test]
fn hooks_and_priorities_are_those_of_the_rules() {
    let listing = r#"{"nftables":[{"chain":{"family":"inet","table":"t","name":"early","type":"filter","hook":"prerouting","prio":-300,"policy":"accept"}},{"rule":{"family":"inet","table":"t","chain":"early","expr":[{"drop":null}]}}]}"#;
    let read = nft::read("listed", listing, nft::Options::default()).expect("a good listing");
    let program = compile(&read, &NoPlaces, Options::default()).expect("nft can say that");
    assert!(program.text.contains("hook prerouting priority -300; policy accept;"));
    let saved = "*mangle\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -s 10.0.0.1 -j DROP\nCOMMIT\n";
    let options = crate::ReadOptions { table: Some("mangle"), ..Default::default() };
    let read = crate::Format::Iptables.read("saved", saved, options).expect("a good file");
    let program = compile(&read, &NoPlaces, Options::default()).expect("nft can say that");
    assert!(program.text.contains("hook prerouting priority -150; policy accept;"));
}

#[test]
fn a_file_name_with_a_line_break_adds_no_command() {
    let rules = text::read("a\nflush ruleset\n", "chain input policy drop {\n  log\n}\n");
    let rules = rules.expect("good rules");
    let program = compile(&rules, &NoPlaces, Options::default()).expect("nft can say that");
    assert!(program.text.lines().all(|line| !line.starts_with("flush")), "{}", program.text);
}

#[test]
fn rules_without_a_protocol_meet_ipv6_packets_that_have_none_to_be_read() {
    let list: String = (1..20)
        .map(|n| format!("  src 2001:db8::{n:x} proto tcp dport 1-{n} accept\n  src 2001:db8:{n:x}::/48 dst 2001:db8::/32 drop\n"))
        .collect();
    let program = compiled(&format!("chain input policy accept {{\n{list}}}\n"));
    // The kernel cannot tell the protocol behind headers that it cannot read.
    let rule = "meta nfproto ipv6 ip6 saddr . ip6 daddr vmap @";
    assert!(program.text.contains(rule), "{}", program.text);
    let key = "ip6 saddr . ip6 daddr . meta l4proto . th dport vmap @";
    assert!(!program.text.contains(key), "{}", program.text);
}
