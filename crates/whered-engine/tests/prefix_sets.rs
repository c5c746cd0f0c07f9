//! Prefix sets through the engine: readers beside loads, changes and folds, against plain maps.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use whered_engine::ip::{Block, MemberList, PrefixMatch, SetFormat, SetReading};
use whered_engine::{Engine, EngineOptions, LoadOptions, SetOperation, Setup, WriteError};
use whered_random::Random;

fn engine() -> std::sync::Arc<Engine> {
    Engine::open(EngineOptions::default()).expect("the engine opens").0
}

type Twin = BTreeMap<Block, [u8; 1]>;

fn host(number: u32) -> Block {
    Block::from(IpAddr::V4(Ipv4Addr::from_bits(number)))
}

fn text(lines: impl Iterator<Item = u32>) -> String {
    let lines: Vec<String> = lines.map(|n| Ipv4Addr::from_bits(n).to_string()).collect();
    lines.join("\n")
}

#[test]
fn no_member_of_both_lists_is_missing_while_one_replaces_the_other() {
    let engine = engine();
    let sets = engine.prefix_sets();
    let kept = 0..2000_u32;
    // Each list has the kept ones, and others in between that change where all lies.
    let list =
        |other: u32| text(kept.clone().map(|n| n * 5).chain(kept.clone().map(|n| n * 5 + other)));
    let lists = [list(1), list(2)];
    let how = LoadOptions { replaces: true, ..LoadOptions::default() };
    sets.load_text("s", lists[0].as_bytes(), &how).expect("it is right");
    let (is_done, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let addresses: Vec<IpAddr> = kept.clone().map(|n| host(n * 5).first()).collect();
            let mut random = Random(1);
            while !is_done.load(Ordering::Relaxed) {
                let address = addresses[random.below(2000) as usize];
                let found = sets.read("s", |set| set.contains(address, 0));
                assert_eq!(found, Some(true), "{address}");
                sets.read("s", |set| {
                    let mut found = Vec::new();
                    set.longest_match_batch(&addresses, 0, &mut found);
                    assert!(found.iter().all(Option::is_some));
                    // One version has one of the lists, not some of each.
                    let others = [1, 2].map(|n| set.contains(host(n).first(), 0));
                    assert_ne!(others[0], others[1]);
                });
                looks.fetch_add(1, Ordering::Relaxed);
            }
        });
        for round in 0..60 {
            sets.load_text("s", lists[(round + 1) % 2].as_bytes(), &how).expect("it is right");
            if round % 7 == 0 {
                sets.compact_all();
            }
        }
        while looks.load(Ordering::Relaxed) < 20 {
            std::thread::yield_now();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(sets.read("s", whered_engine::ip::LayeredSet::len), Some(4000));
}

#[test]
fn changes_beside_folds_are_all_there_and_readers_see_each_at_once() {
    let engine = engine();
    let sets = engine.prefix_sets();
    let always: Block = "192.0.2.0/24".parse().expect("a block");
    sets.add("s", &[always], Some(b"always"), None).expect("there is room");
    let is_done = AtomicBool::new(false);
    let mut twins = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                sets.compact_all();
                sets.compact_due();
            }
        });
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let address = "192.0.2.77".parse().expect("an address");
                let value = sets.read("s", |set| {
                    set.longest_match(address, 0).and_then(|found| found.value.map(<[u8]>::to_vec))
                });
                assert_eq!(value, Some(Some(b"always".to_vec())));
            }
        });
        let writers: Vec<_> =
            (0..2_u32).map(|writer| scope.spawn(move || write(sets, writer))).collect();
        twins.extend(writers.into_iter().map(|writer| writer.join().expect("it does not panic")));
        is_done.store(true, Ordering::Relaxed);
    });
    sets.compact_all();
    let mut expected: Vec<String> = twins
        .iter()
        .flatten()
        .map(|(block, value)| PrefixMatch {
            block: *block,
            value: Some(value),
            expires_at_millis: None,
        })
        .map(|member| format!("{member:?}"))
        .collect();
    let found = sets.read("s", |set| {
        assert_eq!(set.pending_len(), 0);
        set.iter(0).filter(|m| m.block != always).map(|m| format!("{m:?}")).collect::<Vec<_>>()
    });
    let mut found = found.expect("the set is there");
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

/// Changes members of its own part, and looks at each at once; gives what must be there.
fn write(sets: &whered_engine::PrefixSets, writer: u32) -> Twin {
    let mut random = Random(u64::from(writer) + 7);
    let mut twin = Twin::new();
    for _ in 0..4000 {
        let first = (10 + writer) << 24 | (random.below(500) as u32) << 4;
        let block = match random.below(3) {
            0 => Block::from_ends(host(first + 3).first(), host(first + 9).first()),
            _ => Ok(host(first + random.below(3) as u32)),
        }
        .expect("upwards");
        if random.below(3) == 0 {
            let removed = sets.remove("s", &[block]).expect("there is room").value;
            assert_eq!(removed == 1, twin.remove(&block).is_some(), "{block}");
        } else {
            let value = [b'a' + random.below(3) as u8];
            let new = sets.add("s", &[block], Some(&value), None).expect("there is room").value;
            assert_eq!(new == 1, twin.insert(block, value).is_none(), "{block}");
        }
        let seen = sets.read("s", |set| set.get(block, 0).map(|m| m.value.map(<[u8]>::to_vec)));
        let wanted = twin.get(&block).map(|value| Some(value.to_vec()));
        assert_eq!(seen.expect("the set is there"), wanted, "{block}");
    }
    twin
}

#[test]
fn a_text_counts_as_a_whole_or_not_at_all() {
    let engine = engine();
    let sets = engine.prefix_sets();
    sets.add("s", &[host(1)], None, None).expect("there is room");
    let how = LoadOptions { replaces: true, ..LoadOptions::default() };
    let error = sets.load_text("s", b"10.0.0.0/8\n10.0.0.0/33\n", &how).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 2, column 10: found \"33\": allowed is a length of 0 to 32 bits"
    );
    assert_eq!(
        sets.read("s", |set| (set.len(), set.contains(host(1).first(), 0))),
        Some((1, true))
    );
    assert!(sets.load_text("new", b"x", &how).is_err());
    assert_eq!(sets.names(), ["s"], "a refused text makes no set");
    let json = br#"["10.0.0.0/8", {"prefix": "10.0.0.3-10.0.0.9", "value": "x", "seconds": 60}]"#;
    let defaults = LoadOptions {
        reading: SetReading::of(SetFormat::Json),
        value: Some(b"default"),
        expires_at_millis: Some(u64::MAX),
        ..LoadOptions::default()
    };
    assert_eq!(sets.load_text("s", json, &defaults).expect("it is right").value, 2);
    let now = engine.now_millis();
    sets.read("s", |set| {
        let all: Vec<_> = set.iter(now).collect();
        assert_eq!(all.len(), 3);
        assert_eq!(
            (all[1].value, all[1].expires_at_millis),
            (Some(&b"default"[..]), Some(u64::MAX))
        );
        assert_eq!(all[2].value, Some(&b"x"[..]));
        assert!(all[2].expires_at_millis.is_some_and(|at| at <= now + 60_000 && at > now));
    });
    let endless = br#"[{"prefix": "10.0.0.3", "seconds": 18446744073709551615}]"#;
    assert!(sets.load_text("s", endless, &defaults).unwrap_err().to_string().contains("longer"));
}

#[test]
fn files_are_read_from_their_directory_only() {
    let root = std::env::temp_dir().join(format!("whered-sets-{}", std::process::id()));
    let inside = root.join("sets");
    std::fs::create_dir_all(inside.join("more")).expect("a folder can be made");
    std::fs::write(inside.join("more/list"), "10.0.0.0/8\n").expect("it can be written");
    std::fs::write(inside.join("wrong"), "10.0.0.0/8\n\n  ten\n").expect("it can be written");
    std::fs::write(root.join("secret"), "10.0.0.0/8\n").expect("it can be written");
    let how = LoadOptions::default();
    let refused = |engine: &Engine, file: &str| match engine.read_set_file(file, &how) {
        Err(WriteError::Refused(reason)) => reason,
        Err(other) => panic!("{file}: {other:?}"),
        Ok(_) => panic!("{file} is read"),
    };
    assert!(refused(&engine(), "more/list").contains("'directory' of [sets]"));
    let setup = Setup { sets_directory: Some(inside.clone()), ..Setup::default() };
    let options = EngineOptions { setup, ..EngineOptions::default() };
    let engine = Engine::open(options).expect("the engine opens").0;
    let ready = engine.read_set_file("more/list", &how).expect("it is there");
    assert_eq!(engine.prefix_sets().put("s", ready).expect("there is room").value, 1);
    for file in ["", "..", "../secret", "more/../../secret", "/etc/passwd", "./list", "a\0b"] {
        assert!(refused(&engine, file).contains("no name of a file for sets"), "{file:?}");
    }
    assert!(refused(&engine, "nosuch").contains("nosuch"));
    assert!(refused(&engine, "more").contains("no regular file"));
    assert!(refused(&engine, "wrong").starts_with("'wrong': line 3, column 3: found \"ten\""));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(root.join("secret"), inside.join("link")).expect("a link");
        assert!(refused(&engine, "link").contains("leads out"));
    }
    std::fs::remove_dir_all(&root).expect("it is ours");
}

#[test]
fn sets_are_made_of_sets() {
    let engine = engine();
    let sets = engine.prefix_sets();
    let add = |set: &str, text: &str, value: Option<&[u8]>| {
        let blocks: Vec<Block> = text.split(' ').map(|t| t.parse().expect("a block")).collect();
        sets.add(set, &blocks, value, None).expect("there is room");
    };
    let shown = |set: &str| {
        let shown = |m: PrefixMatch<'_>| {
            format!("{}{}", m.block, String::from_utf8_lossy(m.value.unwrap_or_default()))
        };
        sets.read(set, |set| set.iter(0).map(shown).collect::<Vec<_>>().join(" "))
            .expect("it is there")
    };
    add("a", "10.0.0.0/9 10.128.0.0/9 10.1.0.0/16", Some(b"A"));
    add("b", "10.1.0.0/16 2001:db8::/32", Some(b"B"));
    let store = |operation, sources: &[&str]| sets.store("to", operation, sources).map(|w| w.value);
    assert_eq!(store(SetOperation::Union, &["a", "b"]), Ok(4));
    assert_eq!(shown("to"), "10.0.0.0/9A 10.1.0.0/16B 10.128.0.0/9A 2001:db8::/32B");
    assert_eq!(store(SetOperation::Summary, &["a", "b"]), Ok(2));
    assert_eq!(shown("to"), "10.0.0.0/8 2001:db8::/32");
    assert_eq!(store(SetOperation::Intersection, &["a", "b"]), Ok(1));
    assert_eq!(shown("to"), "10.1.0.0/16");
    assert_eq!(store(SetOperation::Difference, &["a", "to"]), Ok(2));
    assert_eq!(shown("to"), "10.0.0.0/16 10.2.0.0-10.255.255.255");
    assert_eq!(store(SetOperation::Complement, &["a"]), Ok(2));
    assert_eq!(shown("to"), "0.0.0.0-9.255.255.255 11.0.0.0-255.255.255.255");
    assert_eq!(store(SetOperation::Complement, &["a", "to"]), Ok(0), "nothing of IPv4 is left");
    assert!(matches!(store(SetOperation::Union, &["a", "nosuch"]), Err(WriteError::NoSuch { .. })));
}

#[test]
fn a_load_with_expired_and_equal_members_is_as_adding_them_one_by_one() {
    let engine = engine();
    let sets = engine.prefix_sets();
    let now = engine.now_millis();
    let mut random = Random(3);
    for round in 0..40 {
        let mut list = MemberList::new();
        for _ in 0..random.below(if round % 4 == 0 { 3000 } else { 30 }) {
            let block = host(random.below(400) as u32);
            let value = [random.below(3) as u8];
            let at = (random.below(3) == 0).then_some(if random.below(2) == 0 {
                1
            } else {
                now + 1_000_000
            });
            sets.add("single", &[block], Some(&value), at).expect("there is room");
            list.push(block, Some(&value), at);
        }
        let removed = host(random.below(400) as u32);
        sets.load("loaded", list, false).expect("there is room");
        for set in ["single", "loaded"] {
            let _ = sets.remove(set, &[removed]);
        }
        let shown = |set| {
            sets.read(set, |set| {
                (set.live_len(now), set.iter(now).map(|m| format!("{m:?}")).collect::<Vec<_>>())
            })
        };
        if sets.names().len() == 2 {
            assert_eq!(shown("single"), shown("loaded"), "round {round}");
        }
    }
}
