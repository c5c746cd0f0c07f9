//! Requests of a pipeline, which are looked up together, get the replies that they get alone.

mod support;

use support::Door;
use support::client::{Client, request};

/// Requests about a few keys and members, drawn by a seed: mostly those that only ask where members
/// are, and between them everything that changes what they must answer.
fn requests(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut state = seed;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let one = |random: &mut dyn FnMut(u64) -> u64| {
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
            17 => format!("GEOADD points {} {} {a}", random(180), random(80)),
            18 => format!("ZADD set {}.5 {a}", random(1000)),
            19 => format!("ZREM {key} {a}"),
            20 => ["MULTI", "EXEC", "DISCARD"][random(3) as usize].to_owned(),
            21 => format!("SELECT {}", random(2)),
            22 => ["SET text x", "DEL points", "RENAME set points", "no such"][random(4) as usize]
                .to_owned(),
            _ => format!("ZRANK {key} {a}"),
        };
        request(&text.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    };
    (0..count).map(|_| one(&mut random)).collect()
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
