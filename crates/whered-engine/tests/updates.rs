//! Updates of zones through the engine: served at once, kept over reloads, snapshots and restarts,
//! and dropped when somebody says so.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use whered_dns::update::Update;
use whered_dns::{Name, Rcode, RecordType};
use whered_engine::{Engine, EngineOptions, Setup, UpdateError, ZoneSource};

const ZONE: &str = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n";

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("whered-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("zone"), ZONE).unwrap();
    folder
}

fn open(folder: &Path) -> Arc<Engine> {
    let mut zone = ZoneSource::new("example.com", folder.join("zone"));
    zone.follows_file = false;
    let setup = Setup { zones: vec![zone], ..Setup::default() };
    let data_dir = Some(folder.join("data"));
    Engine::open(EngineOptions { data_dir, setup, ..EngineOptions::default() }).unwrap().0
}

/// An UPDATE of example.com that adds (class 1) or removes (class 254) an address.
fn update(owner: &str, class: u16, address: [u8; 4]) -> Update {
    let mut bytes = vec![0, 1, 0x28, 0, 0, 1, 0, 0, 0, 1, 0, 0];
    bytes.extend_from_slice("example.com".parse::<Name>().unwrap().as_wire());
    bytes.extend_from_slice(&[0, 6, 0, 1]);
    bytes.extend_from_slice(owner.parse::<Name>().unwrap().as_wire());
    bytes.extend_from_slice(&[0, 1]);
    bytes.extend_from_slice(&class.to_be_bytes());
    let ttl_seconds = if class == 1 { 60_u32 } else { 0 };
    bytes.extend_from_slice(&ttl_seconds.to_be_bytes());
    bytes.extend_from_slice(&[0, 4]);
    bytes.extend_from_slice(&address);
    Update::read(&bytes).unwrap()
}

/// The addresses of a name, and the serial of its zone.
fn addresses(engine: &Engine, owner: &str) -> (Vec<Vec<u8>>, u32) {
    let generation = engine.generation();
    let zone = generation.zones().zone(&"example.com".parse().unwrap()).unwrap();
    let records = zone.records_at(&owner.parse().unwrap()).into_iter();
    let addresses = records.filter(|record| record.record_type == RecordType::A);
    let mut addresses: Vec<Vec<u8>> = addresses.map(|record| record.data.to_vec()).collect();
    addresses.sort();
    (addresses, zone.serial())
}

#[test]
fn updates_outlive_reloads_snapshots_and_restarts_until_they_are_discarded() {
    let folder = folder("updates");
    let engine = open(&folder);
    let new = "new.example.com";
    assert_eq!(engine.update_zone(&update(new, 1, [192, 0, 2, 9])).unwrap().value, 2);
    assert_eq!(engine.update_zone(&update(new, 1, [192, 0, 2, 9])).unwrap().value, 2, "no change");
    let www = "www.example.com";
    assert_eq!(engine.update_zone(&update(www, 254, [192, 0, 2, 2])).unwrap().value, 3);
    let changed = |engine: &Engine, serial: u32| {
        assert_eq!(addresses(engine, new), (vec![vec![192, 0, 2, 9]], serial));
        assert_eq!(addresses(engine, www), (vec![], serial));
    };
    changed(&engine, 3);
    engine.close().unwrap();
    drop(engine);
    let engine = open(&folder);
    changed(&engine, 3);
    // The file goes on: what was added is there, what was removed is not, the serial rises.
    std::fs::write(folder.join("zone"), ZONE.replace("hm 1", "hm 2") + "more A 192.0.2.8\n")
        .unwrap();
    engine.reload_zone("example.com").unwrap();
    changed(&engine, 4);
    assert_eq!(addresses(&engine, "more.example.com").0.len(), 1);
    engine.snapshot().unwrap();
    engine.close().unwrap();
    drop(engine);
    let engine = open(&folder);
    assert_eq!(addresses(&engine, new).0, [[192, 0, 2, 9]]);
    assert_eq!(engine.zone_updates(), [("example.com".parse().unwrap(), (1, 1))]);
    let (_, before) = addresses(&engine, new);
    assert_eq!(engine.discard_zone_updates("example.com").unwrap().value, (1, 1));
    let after = (Vec::<Vec<u8>>::new(), before + 1);
    assert_eq!(addresses(&engine, new), after, "the serial goes on rising");
    assert_eq!(addresses(&engine, www).0, [[192, 0, 2, 2]]);
    let told = engine.discard_zone_updates("example.com").err().unwrap().to_string();
    assert!(told.contains("no update has changed"), "{told}");
    engine.close().unwrap();
    drop(engine);
    let engine = open(&folder);
    assert_eq!(addresses(&engine, www), (vec![vec![192, 0, 2, 2]], before + 1));
    drop(engine);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_update_that_no_file_goes_with_any_more_is_told_and_never_left_out_unseen() {
    let folder = folder("unfit-updates");
    let engine = open(&folder);
    engine.update_zone(&update("new.example.com", 1, [192, 0, 2, 9])).unwrap();
    // An alias where the update has an address.
    std::fs::write(folder.join("zone"), format!("{ZONE}new CNAME www\n")).unwrap();
    let told = engine.reload_zone("example.com").unwrap_err().to_string();
    assert!(told.contains("does not fit its file") && told.contains("zone discard"), "{told}");
    assert_eq!(addresses(&engine, "new.example.com").0.len(), 1, "the zone serves on");
    engine.close().unwrap();
    drop(engine);
    let engine = open(&folder);
    let generation = engine.generation();
    let zone = generation.zones().zone(&"example.com".parse().unwrap()).unwrap();
    assert!(zone.is_unavailable());
    assert!(generation.unfit_overlays()[0].contains("does not fit its file"));
    engine.discard_zone_updates("example.com").unwrap();
    assert_eq!(addresses(&engine, "www.example.com").0.len(), 1);
    engine.close().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_cannot_be_updated_is_refused_by_its_code() {
    let folder = folder("refused-updates");
    let engine = open(&folder);
    let mut bytes = vec![0, 1, 0x28, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    bytes.extend_from_slice("example.org".parse::<Name>().unwrap().as_wire());
    bytes.extend_from_slice(&[0, 6, 0, 1]);
    let elsewhere = Update::read(&bytes).unwrap();
    match engine.update_zone(&elsewhere).err().unwrap() {
        UpdateError::Refused(rcode, line) => {
            assert_eq!(rcode, Rcode::NOTAUTH);
            assert!(line.contains("is not served here"), "{line}");
        }
        other @ UpdateError::Write(_) => panic!("{other}"),
    }
    engine.close().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}
