//! Zones that other servers gave, put into service several at a time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use whered_dns::{DenialMethod, KeyAlgorithm, Name, Zone};
use whered_engine::{
    ArrivedZone, Engine, EngineOptions, KeyDirectory, PoolSource, Setup, SignSource, Site,
    ZoneSource,
};

fn source(zone: &str) -> ZoneSource {
    let mut source = ZoneSource::new(zone, PathBuf::new());
    source.is_secondary = true;
    source
}

/// Secondary zones with a pool at `www.b.example`.
fn setup() -> Setup {
    let site = Site::new("one", None, vec!["198.51.100.1".parse().unwrap()]);
    let pool = PoolSource::new("www", vec!["www.b.example".into()], vec![site]);
    let zones = ["a.example", "b.example", "c.example", "d.example"].map(source).to_vec();
    Setup { zones, pools: vec![pool], ..Setup::default() }
}

fn engine() -> Arc<Engine> {
    Engine::open(EngineOptions { setup: setup(), ..EngineOptions::default() }).unwrap().0
}

fn zone(origin: &str, serial: u32, more: &str) -> Arc<Zone> {
    let text = format!("@ 60 SOA ns h {serial} 1 1 1 1\n@ 60 NS ns\nns 60 A 192.0.2.1\n{more}");
    let origin: Name = origin.parse().unwrap();
    let read = Zone::from_master_file(&origin, text.as_bytes(), &mut |_| Err("none".into()));
    Arc::new(read.unwrap())
}

fn serial(engine: &Engine, origin: &str) -> Option<u32> {
    let generation = engine.generation();
    let zone = generation.zones().zone(&origin.parse().unwrap()).unwrap();
    (!zone.is_unavailable()).then(|| zone.serial())
}

#[test]
fn zones_that_arrive_together_make_one_generation() {
    let engine = engine();
    let before = engine.generation().number();
    let names = ["a.example", "b.example", "c.example"];
    let arrived = names.map(|name| ArrivedZone::new(&source(name), &zone(name, 7, "")));
    let served = engine.serve_zones(arrived.to_vec());
    assert!(served.iter().all(|served| served.as_ref().unwrap().generation == before + 1));
    assert_eq!(engine.generation().number(), before + 1);
    assert_eq!(names.map(|name| serial(&engine, name)), [Some(7); 3]);
    assert_eq!(serial(&engine, "d.example"), None);
}

#[test]
fn a_zone_that_is_refused_takes_none_of_those_with_it() {
    let engine = engine();
    let arrived = [
        ("a.example", ""),
        ("b.example", "www 60 CNAME elsewhere.example.\n"),
        ("c.example", ""),
        ("gone.example", ""),
        ("d.example", ""),
    ];
    let arrived = arrived.map(|(name, more)| ArrivedZone::new(&source(name), &zone(name, 3, more)));
    let served = engine.serve_zones(arrived.to_vec());
    let errors: Vec<Option<String>> =
        served.iter().map(|served| served.as_ref().err().map(ToString::to_string)).collect();
    assert!(errors[1].as_ref().unwrap().contains("www"), "{errors:?}");
    assert_eq!(errors[3].as_deref(), Some("no secondary zone 'gone.example'"));
    assert_eq!(errors.iter().flatten().count(), 2, "{errors:?}");
    let serials = ["a.example", "b.example", "c.example", "d.example"];
    assert_eq!(
        serials.map(|name| serial(&engine, name)),
        [Some(3), None, Some(3), Some(3)],
        "the refused zone stays as it was"
    );
    assert!(engine.serve_zones(Vec::new()).is_empty());
}

#[test]
fn a_zone_is_signed_as_the_configuration_says_when_it_begins_to_serve() {
    let folder = std::env::temp_dir().join(format!("whered-arrivals-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let origin: Name = "a.example".parse().unwrap();
    let keys = KeyDirectory::new(&folder, origin.clone());
    keys.create(KeyAlgorithm::Ed25519, None).unwrap();
    let engine = engine();
    let is_signed = || engine.generation().zones().zone(&origin).unwrap().is_signed_here();
    let mut arrived = ArrivedZone::new(&source("a.example"), &zone("a.example", 1, ""));
    engine.prepare_zone(&mut arrived).unwrap();
    // A reload comes between: the configuration wants signatures now.
    let mut signing = setup();
    signing.zones[0].sign =
        Some(SignSource { keys: folder.clone(), serial: None, denial: DenialMethod::default() });
    engine.reload(signing).unwrap();
    engine.serve_zones(vec![arrived]).pop().unwrap().unwrap();
    assert_eq!((serial(&engine, "a.example"), is_signed()), (Some(1), true));
    // What a caller knew of the zone before does not count either.
    engine.serve_zone(&source("a.example"), &zone("a.example", 2, "")).unwrap();
    assert_eq!((serial(&engine, "a.example"), is_signed()), (Some(2), true));
    engine.reload(setup()).unwrap();
    engine.serve_zone(&source("a.example"), &zone("a.example", 3, "")).unwrap();
    assert_eq!((serial(&engine, "a.example"), is_signed()), (Some(3), false));
    fs::remove_dir_all(&folder).unwrap();
}
