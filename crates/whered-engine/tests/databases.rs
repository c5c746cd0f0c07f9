//! Access modes answer alike; reloading one database changes nothing else; a file that is cut,
//! overwritten, removed or unreadable never hurts more than it must.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs::{self, OpenOptions};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use support::{Folder, database, place_database, place_database_of};
use whered_engine::{AccessMode, DatabaseSource, Engine, EngineOptions, Setup};

const READING_MODES: [AccessMode; 4] =
    [AccessMode::Stream, AccessMode::Tree, AccessMode::Memory, AccessMode::Indexed];

fn engine(path: &Path, mode: AccessMode) -> Arc<Engine> {
    let source = DatabaseSource { mode, ..database("city", path.to_owned()) };
    let setup = Setup { databases: vec![source], ..Setup::default() };
    Engine::open(EngineOptions { setup, ..EngineOptions::default() }).unwrap().0
}

/// Longitude of an address; an error is text.
fn ask(engine: &Engine, address: &str) -> Result<Option<f64>, String> {
    let generation = engine.generation();
    let named = generation.database("city").unwrap();
    let found = named.lookup(address.parse().unwrap()).map_err(|error| error.to_string())?;
    let Some(record) = found.record else { return Ok(None) };
    let field = named.field(record, &"location.longitude".parse().unwrap());
    Ok(field.map_err(|error| error.to_string())?.and_then(|value| value.as_f64()))
}

/// A database of 200 networks, each with that longitude and a latitude of its own, so that the
/// writer does not join them.
fn city(longitude: f64) -> Vec<u8> {
    let prefixes: Vec<String> = (0..200).map(|number| format!("10.0.{number}.0/24")).collect();
    let rows = prefixes.iter().enumerate();
    let rows = rows.map(|(n, prefix)| (prefix.as_str(), Some((longitude, n as f64 / 4.0))));
    place_database(&rows.collect::<Vec<_>>())
}

#[test]
fn every_mode_answers_alike_and_takes_the_memory_that_it_says() {
    let folder = Folder::new();
    let path = folder.file("city.mmdb", &city(1.0));
    let size = fs::metadata(&path).unwrap().len();
    let mut uses = Vec::new();
    for mode in AccessMode::ALL {
        let engine = engine(&path, mode);
        assert_eq!(ask(&engine, "10.0.7.1"), Ok(Some(1.0)), "{mode}");
        assert_eq!(ask(&engine, "11.0.7.1"), Ok(None), "{mode}");
        let generation = engine.generation();
        let named = generation.database("city").unwrap();
        assert_eq!(named.verified.networks, 200);
        uses.push(named.memory_use().file_bytes);
        let index_bytes = named.memory_use().index_bytes;
        assert_eq!(index_bytes > 0, mode == AccessMode::Indexed, "{mode}");
    }
    let [stream, tree, mmap, memory, indexed] = uses[..] else { panic!("five modes") };
    assert_eq!((stream, mmap, memory, indexed), (0, 0, size, size));
    assert!(tree > 0 && tree < size);
}

/// The edges of every network, their neighbours, and the other family.
fn edges() -> impl Iterator<Item = IpAddr> {
    let first = u32::from(Ipv4Addr::new(9, 255, 255, 250));
    let four = (first..first + 300).chain((0..210).flat_map(|n| {
        let start = (10 << 24) + (n << 8);
        [start - 1, start, start + 255]
    }));
    let six = ["::", "::ffff:10.0.7.1", "2002:a00:701::", "2001:db8::1", "::10.0.7.1"];
    four.map(|bits| Ipv4Addr::from(bits).into()).chain(six.map(|text| text.parse().unwrap()))
}

#[test]
fn every_mode_gives_the_same_networks_and_the_same_refusals() {
    for ip_version in [4, 6] {
        let folder = Folder::new();
        let rows = [("10.0.7.0/24", Some((1.0, 2.0))), ("10.0.8.0/25", Some((1.0, 3.0)))];
        let path = folder.file("city.mmdb", &place_database_of(ip_version, &rows));
        let answers = |mode| -> Vec<_> {
            let engine = engine(&path, mode);
            let generation = engine.generation();
            let named = generation.database("city").unwrap();
            let answer = |address| named.lookup(address).map_err(|error| error.to_string());
            edges().map(answer).collect()
        };
        let expected = answers(AccessMode::Memory);
        for mode in AccessMode::ALL {
            assert_eq!(answers(mode), expected, "{mode}, IP version {ip_version}");
        }
    }
}

#[test]
fn a_reload_of_one_database_shares_everything_else() {
    let folder = Folder::new();
    let city_path = folder.file("city.mmdb", &city(1.0));
    let other = folder.file("other.mmdb", &city(5.0));
    let setup = Setup {
        databases: vec![database("city", city_path.clone()), database("other", other)],
        ..Setup::default()
    };
    let (engine, _) = Engine::open(EngineOptions { setup, ..EngineOptions::default() }).unwrap();
    let before = engine.generation();
    fs::write(&city_path, city(2.0)).unwrap();
    assert_eq!(engine.reload_database("city").unwrap(), 2);
    let after = engine.generation();
    assert_eq!(ask(&engine, "10.0.0.1"), Ok(Some(2.0)));
    assert!(Arc::ptr_eq(before.database("other").unwrap(), after.database("other").unwrap()));
    assert_eq!(after.database("other").unwrap().generation, 1);
    let named = after.database("city").unwrap();
    assert_eq!((named.generation, named.status.reloads(), named.status.failures()), (2, 1, 0));
    // A query that holds the old generation is answered by it.
    let old = before.database("city").unwrap();
    let record = old.lookup("10.0.0.1".parse().unwrap()).unwrap().record.unwrap();
    let field = old.field(record, &"location.longitude".parse().unwrap()).unwrap().unwrap();
    assert_eq!(field.as_f64(), Some(1.0));
}

#[test]
fn a_file_that_cannot_be_taken_leaves_the_old_one_serving_and_is_told() {
    let folder = Folder::new();
    let path = folder.file("city.mmdb", &city(1.0));
    let engine = engine(&path, AccessMode::Indexed);
    let status = Arc::clone(&engine.generation().database("city").unwrap().status);
    let good = city(2.0);
    type Spoil<'a> = (&'a str, &'a dyn Fn());
    let spoils: [Spoil<'_>; 4] = [
        ("MaxMind DB", &|| fs::write(&path, &good[..good.len() / 2]).unwrap()),
        ("MaxMind DB", &|| fs::write(&path, b"").unwrap()),
        ("No such file", &|| fs::remove_file(&path).unwrap()),
        ("directory", &|| fs::create_dir(&path).unwrap()),
    ];
    for (count, (words, spoil)) in spoils.into_iter().enumerate() {
        spoil();
        let failure = engine.reload_database("city").unwrap_err();
        let line = failure.to_string();
        assert!(line.contains(words) && line.contains("city.mmdb"), "{line}");
        assert!(!line.contains('\n'), "{line}");
        assert_eq!(status.failures(), count as u64 + 1);
        assert_eq!(status.last_failure(), Some(failure));
        assert_eq!(ask(&engine, "10.0.0.1"), Ok(Some(1.0)));
    }
    fs::remove_dir(&path).unwrap();
    fs::write(&path, &good).unwrap();
    engine.reload_database("city").unwrap();
    assert_eq!(ask(&engine, "10.0.0.1"), Ok(Some(2.0)));
    assert_eq!((status.last_failure(), status.failures()), (None, 4));
}

#[test]
#[allow(clippy::print_stdout, reason = "who reads the tests' output shall know")]
fn a_file_without_permission_is_told() {
    let folder = Folder::new();
    let path = folder.file("city.mmdb", &city(1.0));
    let engine = engine(&path, AccessMode::Memory);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&path).is_ok() {
        println!("skipped: this user may read every file");
        return;
    }
    let failure = engine.reload_database("city").unwrap_err();
    assert!(failure.to_string().contains("ermission denied"), "{failure}");
    assert_eq!(ask(&engine, "10.0.0.1"), Ok(Some(1.0)));
}

#[test]
fn a_file_cut_in_place_gives_errors_or_answers_and_never_ends_the_process() {
    for mode in READING_MODES {
        let folder = Folder::new();
        let path = folder.file("city.mmdb", &city(1.0));
        let engine = engine(&path, mode);
        OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
        let answer = ask(&engine, "10.0.7.1");
        match mode {
            AccessMode::Stream | AccessMode::Tree => {
                let error = answer.unwrap_err();
                assert!(error.contains("cannot be read at byte"), "{mode}: {error}");
            }
            _ => assert_eq!(answer, Ok(Some(1.0)), "{mode}"),
        }
        assert!(engine.reload_database("city").is_err(), "{mode}");
    }
}

#[test]
fn a_file_overwritten_in_place_gives_answers_or_errors() {
    for mode in READING_MODES {
        let folder = Folder::new();
        let bytes = city(1.0);
        let path = folder.file("city.mmdb", &bytes);
        let engine = engine(&path, mode);
        for fill in [0, 0x41, 0xff] {
            fs::write(&path, vec![fill; bytes.len()]).unwrap();
            for number in 0..200 {
                let answer = ask(&engine, &format!("10.0.{number}.1"));
                if !matches!(mode, AccessMode::Stream | AccessMode::Tree) {
                    assert_eq!(answer, Ok(Some(1.0)), "{mode}");
                }
            }
        }
    }
}

#[test]
fn a_reload_of_the_whole_setup_changes_a_mode_and_keeps_the_history() {
    let folder = Folder::new();
    let path = folder.file("city.mmdb", &city(1.0));
    let engine = engine(&path, AccessMode::Memory);
    let good = fs::read(&path).unwrap();
    fs::write(&path, b"half").unwrap();
    let source = DatabaseSource { mode: AccessMode::Stream, ..database("city", path.clone()) };
    let setup = || Setup { databases: vec![source.clone()], ..Setup::default() };
    assert!(engine.reload(setup()).is_err());
    fs::write(&path, &good).unwrap();
    engine.reload(setup()).unwrap();
    let generation = engine.generation();
    let named = generation.database("city").unwrap();
    assert_eq!(named.source.mode, AccessMode::Stream);
    assert_eq!((named.status.reloads(), named.status.failures()), (1, 1));
    assert_eq!(ask(&engine, "10.0.0.1"), Ok(Some(1.0)));
}

/// A database of one network, whose longitude is a number.
fn family(network: &str, longitude: f64) -> Vec<u8> {
    let ip_version = if network.contains(':') { 6 } else { 4 };
    place_database_of(ip_version, &[(network, Some((longitude, 1.0)))])
}

#[test]
fn files_by_family_are_one_database_and_a_file_too_many_is_refused() {
    let folder = Folder::new();
    let four = folder.file("v4.mmdb", &family("10.0.0.0/8", 4.0));
    let six = folder.file("v6.mmdb", &family("2001:db8::/32", 6.0));
    let open = |paths: [&Path; 2], mode| {
        let further_paths = vec![paths[1].to_owned()];
        let source =
            DatabaseSource { mode, further_paths, ..database("city", paths[0].to_owned()) };
        let setup = Setup { databases: vec![source], ..Setup::default() };
        Engine::open(EngineOptions { setup, ..EngineOptions::default() }).map(|(engine, _)| engine)
    };
    for (paths, mode) in
        [([&*four, &*six], AccessMode::Indexed), ([&*six, &*four], AccessMode::Memory)]
    {
        let engine = open(paths, mode).unwrap();
        assert_eq!(ask(&engine, "10.1.2.3"), Ok(Some(4.0)));
        assert_eq!(ask(&engine, "2001:db8::1"), Ok(Some(6.0)));
        assert_eq!(ask(&engine, "11.1.2.3"), Ok(None));
        assert_eq!(ask(&engine, "2001:db9::1"), Ok(None));
        // Either file may be replaced.
        fs::write(&six, family("2001:db8::/32", 7.0)).unwrap();
        engine.reload_database("city").unwrap();
        assert_eq!(ask(&engine, "2001:db8::1"), Ok(Some(7.0)));
        assert_eq!(ask(&engine, "10.1.2.3"), Ok(Some(4.0)));
        fs::write(&six, b"broken").unwrap();
        let failure = engine.reload_database("city").unwrap_err();
        assert!(failure.message.contains("v6.mmdb"), "{failure}");
        assert_eq!(ask(&engine, "2001:db8::1"), Ok(Some(7.0)));
        fs::write(&six, family("2001:db8::/32", 6.0)).unwrap();
    }
    let more = folder.file("more.mmdb", &family("11.0.0.0/8", 5.0));
    let error = open([&four, &more], AccessMode::Memory).err().unwrap().to_string();
    assert!(error.contains("more.mmdb") && error.contains("one file for each family"), "{error}");
    let error = open([&four, &six], AccessMode::Mmap).err().unwrap().to_string();
    assert!(error.contains("mode mmap; allowed: memory, indexed"), "{error}");
}

#[test]
fn a_question_about_a_family_that_is_not_covered_is_an_error_and_is_counted() {
    let folder = Folder::new();
    for (network, known, unknown, uncovered) in [
        ("10.0.0.0/8", "10.1.1.1", "11.1.1.1", "2001:db8::1"),
        ("2001:db8::/32", "2001:db8::1", "2001:db9::1", "10.1.1.1"),
    ] {
        let path = folder.file("city.mmdb", &family(network, 1.0));
        for mode in READING_MODES {
            let engine = engine(&path, mode);
            let generation = engine.generation();
            let named = generation.database("city").unwrap();
            let answer = |text: &str| named.answer(text.parse().unwrap());
            assert!(answer(known).unwrap().record.is_some(), "{mode}");
            assert!(answer(unknown).unwrap().record.is_none(), "{mode}");
            assert_eq!(named.status.uncovered(), 0);
            assert!(answer(uncovered).is_err(), "{mode}");
            assert_eq!(named.status.uncovered(), 1);
        }
    }
}

#[test]
fn a_packed_database_is_refused_with_the_way_to_unpack_it() {
    let folder = Folder::new();
    for (head, name) in [
        (&b"\x1f\x8b\x08\x00"[..], "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\xfd7zXZ\x00", "xz"),
        (b"BZh91AY&SY", "bzip2"),
        (b"PK\x03\x04", "zip"),
        (b"\x04\x22\x4d\x18", "lz4"),
    ] {
        let path = folder.file("city.mmdb", &[head, &[7; 100]].concat());
        for mode in AccessMode::ALL {
            let error = whered_engine::open_database_file(&path, mode).unwrap_err().to_string();
            assert!(error.contains(&format!("packed with {name},")), "{mode}: {error}");
            assert!(error.contains("unpack it first ("), "{error}");
        }
        assert!(whered_engine::read_file(&path).unwrap_err().to_string().contains(name));
    }
}
