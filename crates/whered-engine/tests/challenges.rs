//! ACME challenges through the engine: where they are taken, and what is left of them later.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use whered_engine::{Engine, EngineOptions, Setup, ZoneSource};

const TOKEN: &str = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0";
const ZONE: &str = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n\
    child NS ns\n_acme-challenge.alias CNAME elsewhere.example.\n";

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("whered-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("zone"), ZONE).unwrap();
    folder
}

fn open(folder: &Path) -> Arc<Engine> {
    let zone = ZoneSource {
        name: "example.com".into(),
        path: folder.join("zone"),
        reversed: None,
        dnssec: whered_dns::Dnssec::Refuse,
        sign: None,
        is_secondary: false,
        member: None,
        follows_file: true,
    };
    let setup = Setup { zones: vec![zone], ..Setup::default() };
    let data_dir = Some(folder.join("data"));
    Engine::open(EngineOptions { data_dir, setup, ..EngineOptions::default() }).unwrap().0
}

#[test]
fn challenges_outlive_restarts_snapshots_and_reloads_until_their_end() {
    let folder = folder("challenges");
    let engine = open(&folder);
    let end = engine.now_millis() + 1_000_000;
    let other = TOKEN.replace('L', "M");
    assert!(engine.set_challenge("www.example.com", TOKEN, end).unwrap().value);
    assert!(engine.set_challenge("_acme-challenge.WWW.example.com.", &other, end).unwrap().value);
    assert!(!engine.set_challenge("www.example.com", TOKEN, end).unwrap().value);
    assert!(engine.set_challenge("example.com", TOKEN, 1).unwrap().value, "its end has come");
    engine.reload_zone("example.com").unwrap();
    let listed = |engine: &Engine| {
        engine.forget_challenges();
        let challenges = engine.challenges().unwrap_or_default();
        challenges.iter().map(|(owner, token, _)| format!("{owner} {token}")).collect::<Vec<_>>()
    };
    let owner = "_acme-challenge.www.example.com.";
    let both = [format!("{owner} {TOKEN}"), format!("{owner} {other}")];
    assert_eq!(listed(&engine), both);
    engine.close().unwrap();
    drop(engine);
    let engine = open(&folder);
    assert_eq!(listed(&engine), both);
    engine.snapshot().unwrap();
    assert_eq!(engine.remove_challenge("www.example.com", Some(TOKEN)).unwrap().value, 1);
    engine.close().unwrap();
    drop(engine);
    let engine = open(&folder);
    assert_eq!(listed(&engine), both[1..]);
    assert_eq!(engine.remove_challenge("www.example.com", None).unwrap().value, 1);
    assert_eq!(engine.remove_challenge("www.example.com", None).unwrap().value, 0);
    assert!(engine.challenges().is_none());
    drop(engine);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_nobody_could_be_answered_with_is_refused() {
    let folder = folder("refused-challenges");
    let engine = open(&folder);
    let refusal = |name: &str, token: &str| {
        engine.set_challenge(name, token, u64::MAX).err().unwrap().to_string()
    };
    for name in ["www.example.org", "a.child.example.com", "alias.example.com"] {
        let told = refusal(name, TOKEN);
        assert!(told.contains("no zone of this server answers at"), "{name}: {told}");
    }
    assert!(refusal("www.example.com", "short").contains("'short' is no token"));
    assert!(refusal("a..b", TOKEN).contains("the name 'a..b'"));
    assert!(engine.challenges().is_none());
    for number in 0..1000 {
        engine.set_challenge(&format!("h{number}.example.com"), TOKEN, u64::MAX).unwrap();
    }
    assert!(refusal("one.more.example.com", TOKEN).contains("allowed: 1000"));
    engine.close().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}
