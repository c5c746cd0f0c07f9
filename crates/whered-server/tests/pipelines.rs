//! Requests of a pipeline, which are looked up or made together, get the replies that they get
//! alone.

mod support;

use support::Door;
use support::client::{Client, moves, request};

/// Requests about a few keys and members, drawn by a seed: mostly those that only ask where members
/// are, or move members one after the other, and between them everything that changes what they
/// must answer.
fn requests(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut state = seed;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let many = |random: &mut dyn FnMut(u64) -> u64| -> Vec<String> {
        let key = ["points", "points", "points", "set", "text", "new"][random(6) as usize];
        let move_one = |random: &mut dyn FnMut(u64) -> u64| {
            let (name, key) = match random(20) {
                0 => ("GeoAdd", "points"),
                1 => ("geoadd", "points NX"),
                2 => ("GEOADD", "points CH"),
                3 => ("GEOADD", "elsewhere"),
                _ => ("GEOADD", key),
            };
            let (longitude, latitude) = (random(186), random(87));
            let more = ["", "", "", "", "", "", " 1 1 other", " 1"][random(8) as usize];
            format!("{name} {key} {longitude} {latitude} m{}{more}", random(40))
        };
        (0..1 + random(40)).map(|_| move_one(random)).collect()
    };
    let one = |random: &mut dyn FnMut(u64) -> u64| -> Vec<String> {
        // Neighbours share a key most of the time.
        let key = ["points", "points", "points", "set", "text", "nothing"][random(6) as usize];
        let mut member = || format!("m{}", random(40));
        let (a, b, c) = (member(), member(), member());
        let text = match random(24) {
            0..=6 => format!("GEODIST {key} {a} {b}"),
            7 => format!("geodist {key} {a} {b} km"),
            8 => format!("GEODIST {key} {a} {b} parsec"),
            9 => format!("GEODIST {key} {a} {b} m more"),
            10 | 11 => format!("GEOPOS {key} {a} {b} {c}"),
            12 => format!("GEOPOS {key}"),
            13 => format!("GEOHASH {key} {a}"),
            14 => format!("ZSCORE {key} {a}"),
            15 => format!("ZMSCORE {key} {a} {b} {c} {a}"),
            16 => format!("ZSCORE {key} {a} {b}"),
            17 => return many(random),
            18 => format!("ZADD set {}.5 {a}", random(1000)),
            19 => format!("ZREM {key} {a}"),
            20 => ["MULTI", "EXEC", "DISCARD"][random(3) as usize].to_owned(),
            21 => format!("SELECT {}", random(2)),
            22 => ["SET text x", "DEL points", "RENAME set points", "no such", "DEL new"]
                [random(5) as usize]
                .to_owned(),
            _ => format!("ZRANK {key} {a}"),
        };
        vec![text]
    };
    let texts = std::iter::repeat_with(|| one(&mut random)).flatten().take(count);
    texts.map(|text| request(&text.split(' ').map(str::as_bytes).collect::<Vec<_>>())).collect()
}

fn replies(client: &mut Client, requests: &[Vec<u8>], pipeline: usize) -> Vec<Vec<u8>> {
    let mut replies = Vec::new();
    for requests in requests.chunks(pipeline) {
        client.send(&requests.concat());
        replies.extend(requests.iter().map(|_| client.reply().bytes));
    }
    replies
}

#[test]
fn requests_of_a_pipeline_get_the_replies_that_they_get_alone() {
    for seed in 1..=3 {
        let requests = requests(seed, 8000);
        let alone = replies(&mut Door::in_memory().client(), &requests, 1);
        for pipeline in [2, 7, 40, 500] {
            let together = replies(&mut Door::in_memory().client(), &requests, pipeline);
            for (index, (together, alone)) in together.iter().zip(&alone).enumerate() {
                assert_eq!(
                    String::from_utf8_lossy(together),
                    String::from_utf8_lossy(alone),
                    "seed {seed}, pipelines of {pipeline}, request {index}: {}",
                    String::from_utf8_lossy(&requests[index])
                );
            }
        }
    }
}

#[test]
fn lookups_of_a_pipeline_are_counted_one_by_one() {
    let door = Door::in_memory();
    let mut client = door.client();
    client.send(&request(&[b"GEOADD", b"points", b"1", b"1", b"a", b"2", b"2", b"b"]));
    assert_eq!(client.reply().bytes, b":2\r\n");
    let asked = request(&[b"GEODIST", b"points", b"a", b"b"]).repeat(100);
    client.send(&asked);
    (0..100).for_each(|_| assert_eq!(client.reply().bytes, b"$11\r\n157270.0561\r\n"[..].to_vec()));
    client.send(b"INFO commandstats\r\n");
    let figures = String::from_utf8(client.reply().bytes).expect("INFO is a text");
    assert!(figures.contains("cmdstat_geodist:calls=100,"), "{figures}");
}

#[test]
fn moves_of_a_pipeline_are_counted_one_by_one() {
    let door = Door::in_memory();
    let mut client = door.client();
    assert_eq!(client.ask(&["SET", "text", "x"]), "+OK\r\n");
    client.send(
        &[moves("points", "2", 100), moves("text", "2", 50), moves("points", "2", 10)].concat(),
    );
    let mut texts = |count: usize| -> Vec<String> {
        (0..count).map(|_| String::from_utf8_lossy(&client.reply().bytes).into_owned()).collect()
    };
    assert!(texts(100).iter().all(|text| text == ":1\r\n"));
    assert!(texts(50).iter().all(|text| text.starts_with("-WRONGTYPE ")));
    assert!(texts(10).iter().all(|text| text == ":0\r\n"));
    client.send(b"INFO commandstats\r\nINFO errorstats\r\n");
    let figures = String::from_utf8(client.reply().bytes).expect("INFO is a text");
    assert!(figures.contains("cmdstat_geoadd:calls=160,"), "{figures}");
    assert!(figures.contains(",failed_calls=50"), "{figures}");
    let errors = String::from_utf8(client.reply().bytes).expect("INFO is a text");
    assert!(errors.contains("errorstat_WRONGTYPE:count=50"), "{errors}");
}

#[test]
fn moves_of_a_pipeline_are_seen_by_whoever_watches() {
    let door = Door::in_memory();
    let (mut watcher, mut mover) = (door.client(), door.client());
    let mut round = |key: &str, latitude: &str| {
        assert_eq!(watcher.ask(&["WATCH", "points"]), "+OK\r\n");
        mover.send(&moves(key, latitude, 3));
        (0..3).for_each(|_| drop(mover.reply()));
        watcher.send(b"MULTI\r\nPING\r\nEXEC\r\n");
        let replies: Vec<Vec<u8>> = (0..3).map(|_| watcher.reply().bytes).collect();
        replies[2] == b"*-1\r\n"
    };
    assert!(round("points", "2"), "new members are a change");
    assert!(!round("points", "2"), "the same places again are none, as of single commands");
    assert!(round("points", "3"), "other places are a change");
    assert!(!round("others", "2"), "another key is not watched");
}

#[test]
fn moves_whose_replies_are_not_wanted_are_made() {
    let door = Door::in_memory();
    let mut client = door.client();
    client.send(&[&b"CLIENT REPLY OFF\r\n"[..], &moves("points", "2", 20)].concat());
    client.send(b"CLIENT REPLY ON\r\nZCARD points\r\n");
    assert_eq!(client.reply().bytes, b"+OK\r\n");
    assert_eq!(client.reply().bytes, b":20\r\n");
    client.send(&[&b"CLIENT REPLY SKIP\r\n"[..], &moves("others", "2", 3)].concat());
    client.send(b"ZCARD others\r\n");
    let replies: Vec<Vec<u8>> = (0..3).map(|_| client.reply().bytes).collect();
    assert_eq!(replies, [&b":1\r\n"[..], b":1\r\n", b":3\r\n"]);
}
