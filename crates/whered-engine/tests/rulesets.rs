//! Rulesets with live sets and places of databases.

mod support;

use std::net::IpAddr;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{Folder, place_database};

use whered_engine::rules::naive::{self, NoSets};
use whered_engine::rules::{At, Packet, Verdict};
use whered_engine::{DatabaseSource, Engine, EngineOptions, RulesetSource, Setup, Written};
use whered_random::Random;

const RULES: &str = "\
chain input policy drop {
    src @blocked drop
    distance(src, 8.68 50.11) < 500 km proto tcp dport 443 accept
    proto udp dport 53 accept
}
";

fn engine(folder: &Folder, rules: &str) -> Result<std::sync::Arc<Engine>, String> {
    let near = ("192.0.2.0/24", Some((8.5, 50.0)));
    let far = ("198.51.100.0/24", Some((-74.0, 40.7)));
    let database = folder.file("places.mmdb", &place_database(&[near, far]));
    let path = folder.file("edge.rules", rules.as_bytes());
    let setup = Setup {
        databases: vec![DatabaseSource::new("places", database)],
        rulesets: vec![RulesetSource::new("edge", path)],
        ..Setup::default()
    };
    let options = EngineOptions { setup, ..EngineOptions::default() };
    Engine::open(options).map(|(engine, _)| engine).map_err(|error| error.to_string())
}

fn packet(source: &str, protocol: u8, port: u16) -> Packet<'static> {
    let source: IpAddr = source.parse().expect("an address");
    let destination = "203.0.113.1".parse().expect("an address");
    Packet { source, destination, protocol, destination_port: port, ..Packet::default() }
}

#[test]
fn a_ruleset_knows_places_and_live_sets() {
    let folder = Folder::new();
    let engine = engine(&folder, RULES).expect("the rules are right");
    let generation = engine.generation();
    let edge = generation.ruleset("edge").expect("it is configured");
    let verdict = |packet: &Packet<'_>| edge.find(packet, 0, engine.prefix_sets()).verdict;
    assert_eq!(verdict(&packet("192.0.2.7", 6, 443)), Verdict::Accept);
    assert_eq!(verdict(&packet("198.51.100.7", 6, 443)), Verdict::Drop);
    assert_eq!(verdict(&packet("198.51.100.7", 17, 53)), Verdict::Accept);
    // A change of the set decides at once.
    let prefix: [whered_engine::ip::Block; 1] = ["192.0.2.0/28".parse().unwrap()];
    engine.prefix_sets().add("blocked", &prefix, None, None).unwrap();
    assert_eq!(verdict(&packet("192.0.2.7", 6, 443)), Verdict::Drop);
    assert_eq!(verdict(&packet("192.0.2.77", 6, 443)), Verdict::Accept);
    engine.prefix_sets().remove("blocked", &prefix).unwrap();
    assert_eq!(verdict(&packet("192.0.2.7", 6, 443)), Verdict::Accept);
    let fates = edge.edition().find_batch(
        &[packet("192.0.2.7", 6, 443), packet("198.51.100.7", 6, 443)],
        &[0, 0],
        engine.prefix_sets(),
    );
    assert_eq!(fates.len(), 2);
    assert_eq!((fates[0].verdict.clone(), fates[1].rule), (Verdict::Accept, None));
    let why = edge.edition().explain(&packet("198.51.100.7", 17, 53), engine.prefix_sets());
    assert!(why.starts_with("accept by ") && why.contains("edge.rules:4"), "{why}");
    assert!(why.contains("edge.rules:2: not src @blocked"), "{why}");
    assert!(why.contains("edge.rules:3: not distance(src"), "{why}");
}

#[test]
fn many_predicates_are_resolved_together_and_hold_where_each_does_alone() {
    let folder = Folder::new();
    let rules = "\
chain input policy drop {
    distance(src, 8.68 50.11) < 500 km distance(dst, 8.68 50.11) < 500 km accept
    distance(src, -74 40.7) < 100 km not distance(dst, 8.68 50.11) < 7000 km reject
    distance(dst, -74 40.7) < 100 km log \"x\"
    not distance(src, 8.68 50.11) < 500 km accept
}
";
    let engine = engine(&folder, rules).expect("the rules are right");
    let generation = engine.generation();
    let edge = generation.ruleset("edge").expect("it is configured").edition();
    let addresses = ["192.0.2.7", "198.51.100.7", "203.0.113.7", "192.0.1.255", "192.0.3.0"];
    let addresses = addresses.map(|text| text.parse::<IpAddr>().expect("an address"));
    let mut lines = std::collections::BTreeSet::new();
    for source in addresses {
        for destination in addresses {
            let packet = Packet { source, destination, ..Packet::default() };
            let found = edge.find(&packet, 0, engine.prefix_sets());
            let together = edge.find_batch(&[packet; 3], &[0; 3], engine.prefix_sets());
            assert!(together.iter().all(|other| *other == found), "{together:?}, {found:?}");
            let why = edge.explain(&packet, engine.prefix_sets());
            let line = found.rule.and_then(|rule| Some(edge.rule(rule)?.origin.line));
            let expected =
                line.map_or("by the policy".to_owned(), |line| format!("edge.rules:{line}"));
            let first = why.lines().next().expect("a line");
            assert!(first.ends_with(&expected), "{source} {destination}: {line:?}, {why}");
            lines.insert(line);
        }
    }
    assert!(lines.len() >= 3, "{lines:?}");
}

#[test]
fn a_ruleset_that_is_wrong_is_refused_with_its_place_and_the_old_one_serves_on() {
    let folder = Folder::new();
    let error = engine(&folder, "chain input policy drop {\n    src nowhere accept\n}\n").err();
    let error = error.expect("there is no such address");
    assert!(error.contains("edge.rules:2:") && !error.contains('\n'), "{error}");
    let engine = engine(&folder, RULES).expect("the rules are right");
    folder.file("edge.rules", b"chain input policy drop {\n    src.nosuch:x = 1 accept\n}\n");
    let current = engine.generation();
    let source = current.ruleset("edge").unwrap().file.as_ref().unwrap().source.clone();
    let setup = Setup { rulesets: vec![source], ..Setup::default() };
    let error = engine.reload(setup).expect_err("there is no such database").to_string();
    assert!(error.contains("edge.rules:2:") && error.contains("nosuch"), "{error}");
    let packet = packet("198.51.100.7", 17, 53);
    let generation = engine.generation();
    let edge = generation.ruleset("edge").unwrap();
    assert_eq!(edge.find(&packet, 0, engine.prefix_sets()).verdict, Verdict::Accept);
}

/// A rule of a small world, so that rules overlap.
fn random_rule(random: &mut Random) -> String {
    let verdict = ["accept", "drop", "reject", "log", "continue"][random.below(5) as usize];
    let length = 28 + random.below(5);
    let source = random.below(32);
    let port = random.below(6);
    match random.below(3) {
        0 => format!("src 10.0.0.{source}/{length} {verdict}"),
        1 => format!("src 10.0.0.{source} proto tcp dport {port} {verdict}"),
        _ => format!("proto udp dport {port}-{} {verdict}", port + 2),
    }
}

/// Prefixes with host bits are no prefixes.
fn written(rule: &str) -> String {
    let Some((before, rest)) = rule.split_once('/') else { return rule.to_owned() };
    let (length, rest) = rest.split_once(' ').expect("a verdict follows");
    let (head, last) = before.rsplit_once('.').expect("an address");
    let bits: u32 = 32 - length.parse::<u32>().expect("a length");
    let last = last.parse::<u32>().expect("a number") >> bits << bits;
    format!("{head}.{last}/{length} {rest}")
}

fn random_packet(random: &mut Random) -> Packet<'static> {
    let source = [10, 0, 0, random.below(40) as u8];
    let protocol = if random.below(2) == 0 { 6 } else { 17 };
    Packet {
        source: source.into(),
        destination: [192, 0, 2, 1].into(),
        protocol,
        destination_port: random.below(9) as u16,
        ..Packet::default()
    }
}

fn lines(random: &mut Random, count: usize) -> String {
    let rules: Vec<String> =
        (0..count).map(|_| format!("    {}\n", written(&random_rule(random)))).collect();
    format!("chain input policy drop {{\n{}}}\n", rules.concat())
}

/// A ruleset's decisions against the walk through what it says it is.
fn check(engine: &Engine, name: &str, random: &mut Random) {
    let edition = engine.generation().ruleset(name).expect("it is set").edition();
    let (ruleset, numbers) = edition.to_ruleset();
    for _ in 0..60 {
        let packet = random_packet(random);
        let walked = naive::evaluate(&ruleset, &packet, &NoSets);
        let found = edition.find(&packet, 60, engine.prefix_sets());
        assert_eq!(found.verdict, walked.verdict, "{packet:?}");
        assert_eq!(found.rule, walked.rule.map(|id| numbers[id.index()]), "{packet:?}");
        let met: Vec<u32> = walked.matched.iter().map(|id| numbers[id.index()]).collect();
        assert_eq!(found.matched, met);
    }
}

/// One change drawn at random; `numbers` is the list that the rules should be.
fn change(engine: &Engine, name: &str, random: &mut Random, numbers: &mut Vec<u32>) {
    let place = random.below(numbers.len().max(1) as u64) as usize;
    let rule = written(&random_rule(random));
    match random.below(4) {
        0 if numbers.len() > 20 => {
            engine.delete_rule(name, numbers.remove(place)).expect("it is there");
        }
        1 if !numbers.is_empty() => {
            engine.replace_rule(name, numbers[place], &rule).expect("it is there");
        }
        2 if !numbers.is_empty() => {
            let Written { value, .. } =
                engine.insert_rule(name, At::After(numbers[place]), &rule).expect("a right rule");
            numbers.insert(place + 1, value);
        }
        _ => {
            let at = At::Position(None, place + 1);
            let Written { value, .. } = engine.insert_rule(name, at, &rule).expect("a right rule");
            numbers.insert(place, value);
        }
    }
}

#[test]
fn rules_come_and_go_under_concurrent_readers_and_no_count_is_lost() {
    let (engine, _) = Engine::open(EngineOptions::default()).expect("nothing is needed");
    let mut random = Random(11);
    engine.set_rules("edge", None, &lines(&mut random, 30)).expect("right rules");
    let (stop, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (engine, stop, asked) = (&engine, &stop, &asked);
            scope.spawn(move || {
                let mut random = Random(seed);
                while !stop.load(Ordering::Relaxed) {
                    let generation = engine.generation();
                    let named = generation.ruleset("edge").expect("it is never away");
                    let packets: Vec<_> = (0..9).map(|_| random_packet(&mut random)).collect();
                    let edition = named.edition();
                    let sets = engine.prefix_sets();
                    let batch = edition.find_batch(&packets, &[100; 9], sets);
                    let single: Vec<_> =
                        packets.iter().map(|packet| edition.find(packet, 1, sets)).collect();
                    assert_eq!(batch, single);
                    asked.fetch_add(18, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if !engine.maintain_rules() {
                    engine.wait_for_rules(Duration::from_millis(5));
                }
            }
        });
        let mut numbers: Vec<u32> = (1..=30).collect();
        for turn in 0..400 {
            change(&engine, "edge", &mut random, &mut numbers);
            if turn % 40 == 0 {
                let edition = engine.generation().ruleset("edge").expect("it is set").edition();
                assert_eq!(edition.to_ruleset().1, numbers);
                check(&engine, "edge", &mut random);
                asked.fetch_add(60, Ordering::Relaxed);
            }
        }
        // As many changes as there were are folded at last, however busy the machine is.
        let deadline = Instant::now() + Duration::from_secs(60);
        let folds =
            || engine.generation().ruleset("edge").map_or(0, |named| named.background().folds);
        while folds() == 0 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        assert!(folds() > 0, "400 changes and no fold");
    });
    let generation = engine.generation();
    let named = generation.ruleset("edge").expect("it is set");
    let verdicts = named.verdicts();
    let packets: u64 = verdicts.iter().map(|(_, count)| count.packets).sum();
    assert_eq!(packets, asked.load(Ordering::Relaxed));
}

#[test]
fn counters_sum_up_start_where_the_file_says_and_are_reset() {
    let folder = Folder::new();
    let rules = "\
chain input policy drop [7:700] {
    [3:30] src 10.0.0.1 accept
    log
    src 10.0.0.2 accept
}
";
    let path = folder.file("edge.rules", rules.as_bytes());
    let rulesets = vec![RulesetSource::new("edge", &path)];
    let setup = Setup { rulesets, ..Setup::default() };
    let options = EngineOptions { setup: setup.clone(), ..EngineOptions::default() };
    let (engine, _) = Engine::open(options).expect("the rules are right");
    let asked = |source: &str| {
        let packet = packet(source, 6, 80);
        let generation = engine.generation();
        generation.ruleset("edge").unwrap().find(&packet, 100, engine.prefix_sets());
    };
    for source in ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.3"] {
        asked(source);
    }
    let told = |reset| {
        let (rules, policy) = engine.generation().ruleset("edge").unwrap().counts(reset);
        let rules: Vec<_> = rules.iter().map(|(n, c)| (*n, c.packets, c.bytes)).collect();
        (rules, (policy.packets, policy.bytes))
    };
    let expected = (vec![(1, 4, 130), (2, 3, 300), (3, 2, 200)], (8, 800));
    assert_eq!(told(false), expected);
    // Reading the same file again is no reason to begin anew.
    engine.reload(setup).expect("nothing has changed");
    assert_eq!(told(true), expected);
    asked("10.0.0.2");
    assert_eq!(told(false), (vec![(1, 0, 0), (2, 1, 100), (3, 1, 100)], (0, 0)));
    let error = engine.set_rules("edge", None, rules).expect_err("the name is taken");
    assert!(error.to_string().contains("is defined by the configuration"), "{error}");
    folder.file("edge.rules", b"chain input policy accept {\n    src x drop\n}\n");
    let failure = engine.reload_ruleset("edge").expect_err("it is wrong");
    assert!(failure.message.contains("edge.rules:2:9: "), "{failure}");
    assert_eq!(told(false).0.len(), 3);
    let named = engine.generation().ruleset("edge").cloned().unwrap();
    assert_eq!(named.file.as_ref().unwrap().status.failures(), 1);
    folder.file("edge.rules", b"chain input policy accept {\n    src 10.0.0.9 drop\n}\n");
    engine.reload_ruleset("edge").expect("it is right");
    assert_eq!(told(false), (vec![(1, 0, 0)], (0, 0)));
}

#[test]
fn rules_set_and_changed_survive_a_restart_with_and_without_a_snapshot() {
    let folder = Folder::new();
    let data = folder.path().join("data");
    let mut random = Random(5);
    let mut rulesets = HashMap::new();
    {
        let engine = support::open(&data, Setup::default());
        let text = lines(&mut random, 20);
        let set = engine.set_rules("a", None, &text).expect("right rules").value;
        assert!(set.is_new && set.rules == 20);
        assert!(!engine.set_rules("a", None, &text).expect("right rules").value.is_new);
        engine.set_rules("gone", None, &text).expect("right rules");
        engine.unset_rules("gone").expect("it is there");
        let save = "*filter\n:INPUT DROP [0:0]\n[5:9] -A INPUT -p tcp -m tcp --dport 80 -j ACCEPT\nCOMMIT\n";
        engine.set_rules("b", None, save).expect("iptables' rules");
        let mut numbers: Vec<u32> = (1..=20).collect();
        for _ in 0..60 {
            change(&engine, "a", &mut random, &mut numbers);
        }
        let called = "chain input policy drop {\n jump web\n}\nchain web {\n return\n}\n";
        engine.set_rules("c", None, called).expect("right rules");
        let into = engine.insert_rule("c", At::Before(2), "proto tcp accept").expect("it fits");
        assert_eq!(into.value, 3);
        let circle = engine.insert_rule("c", At::Position(Some("web"), 1), "jump web");
        let error = circle.expect_err("a circle").to_string();
        assert!(error.contains("closes a circle"), "{error}");
        assert_eq!(engine.insert_rule("c", At::After(1), "drop").expect("it fits").value, 4);
        dump(&engine, &mut rulesets);
        engine.close().expect("all is written");
    }
    for turn in 0..3 {
        let engine = support::open(&data, Setup::default());
        let mut found = HashMap::new();
        dump(&engine, &mut found);
        assert_eq!(found, rulesets, "turn {turn}");
        check(&engine, "a", &mut random);
        assert!(engine.generation().ruleset("gone").is_none());
        let mut numbers = rulesets["a"].0.clone();
        change(&engine, "a", &mut random, &mut numbers);
        if turn < 2 {
            engine.snapshot().expect("it can be made");
        }
        change(&engine, "a", &mut random, &mut numbers);
        dump(&engine, &mut rulesets);
        engine.close().expect("all is written");
    }
}

/// Numbers and rules as text, by name.
fn dump(engine: &Arc<Engine>, into: &mut HashMap<String, (Vec<u32>, String)>) {
    for named in engine.generation().rulesets() {
        let (ruleset, numbers) = named.edition().to_ruleset();
        let text = whered_engine::rules::text::write(&ruleset);
        into.insert(named.name.clone(), (numbers, text));
    }
}
