//! Rulesets with live sets and places of databases.

mod support;

use std::net::IpAddr;

use support::{Folder, place_database};
use whered_engine::rules::{Packet, Verdict};
use whered_engine::{DatabaseSource, Engine, EngineOptions, RulesetSource, Setup};

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
        rulesets: vec![RulesetSource { name: "edge".to_owned(), path }],
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
    let verdict = |packet: &Packet<'_>| edge.find(packet, engine.prefix_sets()).verdict;
    assert_eq!(verdict(&packet("192.0.2.7", 6, 443)), Verdict::Accept);
    assert_eq!(verdict(&packet("198.51.100.7", 6, 443)), Verdict::Drop);
    assert_eq!(verdict(&packet("198.51.100.7", 17, 53)), Verdict::Accept);
    // A change of the set decides at once.
    let prefix = ["192.0.2.0/28".parse().unwrap()];
    engine.prefix_sets().add("blocked", &prefix, None, None).unwrap();
    assert_eq!(verdict(&packet("192.0.2.7", 6, 443)), Verdict::Drop);
    assert_eq!(verdict(&packet("192.0.2.77", 6, 443)), Verdict::Accept);
    engine.prefix_sets().remove("blocked", &prefix).unwrap();
    assert_eq!(verdict(&packet("192.0.2.7", 6, 443)), Verdict::Accept);
    let fates = edge.find_batch(
        &[packet("192.0.2.7", 6, 443), packet("198.51.100.7", 6, 443)],
        engine.prefix_sets(),
    );
    assert_eq!(fates.len(), 2);
    assert_eq!((fates[0].verdict.clone(), fates[1].rule), (Verdict::Accept, None));
    let why = edge.explain(&packet("198.51.100.7", 17, 53), engine.prefix_sets());
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
    let edge = generation.ruleset("edge").expect("it is configured");
    let addresses = ["192.0.2.7", "198.51.100.7", "203.0.113.7", "192.0.1.255", "192.0.3.0"];
    let addresses = addresses.map(|text| text.parse::<IpAddr>().expect("an address"));
    let mut lines = std::collections::BTreeSet::new();
    for source in addresses {
        for destination in addresses {
            let packet = Packet { source, destination, ..Packet::default() };
            let found = edge.find(&packet, engine.prefix_sets());
            assert_eq!(edge.find_batch(&[packet; 3], engine.prefix_sets()), vec![found.clone(); 3]);
            let why = edge.explain(&packet, engine.prefix_sets());
            let line = found.rule.map(|rule| edge.ruleset.rule(rule).origin.line);
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
    let source = RulesetSource {
        name: "edge".to_owned(),
        path: current.ruleset("edge").unwrap().source.path.clone(),
    };
    let setup = Setup { rulesets: vec![source], ..Setup::default() };
    let error = engine.reload(setup).expect_err("there is no such database").to_string();
    assert!(error.contains("edge.rules:2:") && error.contains("nosuch"), "{error}");
    let packet = packet("198.51.100.7", 17, 53);
    let generation = engine.generation();
    let edge = generation.ruleset("edge").unwrap();
    assert_eq!(edge.find(&packet, engine.prefix_sets()).verdict, Verdict::Accept);
}
