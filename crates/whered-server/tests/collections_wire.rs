//! Collections by HTTP: lists, members, areas, clusters, drawings.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use whered_engine::geo::{Cell, Place};
use whered_engine::{AddCondition, Route, ScoreRules, SetText, StreamPosition, TextExpiry};
use whered_server::Server;
use world::http::{Reply, get, send};

fn add(server: &Server, key: &[u8], points: &[(&[u8], f64, f64)]) {
    let cell = |longitude, latitude| Cell::from_place(Place::new(longitude, latitude).unwrap());
    let points: Vec<_> = points.iter().map(|(member, x, y)| (*member, cell(*x, *y))).collect();
    server.engine().keyspace().add_points(0, key, &points, AddCondition::Always).unwrap();
}

fn add_scores(server: &Server, key: &[u8], scores: &[(&[u8], f64)]) {
    server.engine().keyspace().add_scores(0, key, scores, ScoreRules::default()).unwrap();
}

fn post(server: &Server, path: &str, body: &str) -> Reply {
    let length = body.len();
    let text = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    send(server.http_addresses()[0], &text)
}

const CITIES: [(&[u8], f64, f64); 4] = [
    (b"Palermo", 13.361389, 38.115556),
    (b"Catania", 15.087269, 37.502669),
    (b"Rome", 12.5, 41.9),
    (b"Suva", 178.44, -18.14),
];

fn members(reply: &Value) -> BTreeSet<String> {
    let hits = reply["hits"].as_array().unwrap().iter();
    hits.map(|hit| hit["member"].as_str().unwrap().to_owned()).collect()
}

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn collections_are_listed_with_their_kinds_and_bounds_in_pages() {
    let server = world::start("http_collections_list");
    add(&server, b"cities", &CITIES[..3]);
    add_scores(&server, b"prices", &[(b"bread", 1.5)]);
    add(&server, b"caf\xe9", &[(b"x", 0.0, 0.0)]);
    let (condition, expiry) = (AddCondition::Always, TextExpiry::Never);
    let text = SetText { text: b"t", condition, expiry, wants_old: false };
    server.engine().keyspace().set_text(0, b"text", &text).unwrap();
    let all = get(&server, "/v1/collections").json();
    assert_eq!(all["next"], Value::Null);
    let mut seen = all["collections"].as_array().unwrap().clone();
    seen.sort_by_key(|one| one["name"].to_string());
    assert_eq!(seen.len(), 3, "a text is no collection: {all}");
    let cities = &seen[1];
    assert_eq!(cities["name"], "cities");
    assert_eq!((&cities["members"], &cities["kind"]), (&json!(3), &json!("points")));
    let bounds: Vec<f64> =
        cities["bounds"].as_array().unwrap().iter().map(|side| side.as_f64().unwrap()).collect();
    let expected = [12.5, 37.502669, 15.087269, 41.9];
    assert!(bounds.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{bounds:?}");
    assert_eq!(
        seen[2],
        json!({
            "name": "prices", "members": 1, "kind": "scores", "bounds": null,
        })
    );
    assert_eq!(seen[0]["name"], "caf\u{fffd}");
    assert_eq!(seen[0]["name_base64"], "Y2Fm6Q==");
    assert_eq!(get(&server, "/v1/collections/cities").json(), *cities);
    assert_eq!(get(&server, "/v1/collections/caf%E9").json(), seen[0]);
    // Page by page the same ones come, each once.
    let (mut paged, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let page = get(&server, &format!("/v1/collections?count=1&cursor={cursor}")).json();
        paged.extend(page["collections"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    paged.sort_by_key(|one| one["name"].to_string());
    assert_eq!(paged, seen);
    for path in
        ["/v1/collections/none", "/v1/collections/text", "/v1/collections/none/within?box=0,0,1,1"]
    {
        assert_eq!(get(&server, path).status, 404, "{path}");
    }
    server.stop().unwrap();
}

#[test]
fn a_member_of_any_bytes_is_found_by_its_path() {
    let server = world::start("http_collections_members");
    let members: [(&[u8], f64, f64); 3] =
        [(b"a/b c", 1.0, 2.0), (b"caf\xe9", 3.0, 4.0), ("São".as_bytes(), 5.0, 6.0)];
    add(&server, b"m", &members);
    let one = get(&server, "/v1/collections/m/members/a/b%20c").json();
    assert_eq!(one["member"], "a/b c");
    assert!((one["longitude"].as_f64().unwrap() - 1.0).abs() < 1e-5);
    let one = get(&server, "/v1/collections/m/members/caf%E9").json();
    assert_eq!(
        (&one["member"], &one["member_base64"]),
        (&json!("caf\u{fffd}"), &json!("Y2Fm6Q=="))
    );
    let one = get(&server, "/v1/collections/m/members/S%C3%A3o").json();
    assert_eq!(one["member"], "São");
    assert!(one.get("member_base64").is_none());
    assert_eq!(get(&server, "/v1/collections/m/members/caf").status, 404);
    assert_eq!(get(&server, "/v1/collections/m/members/%zz").status, 400);
    server.stop().unwrap();
}

#[test]
fn boxes_circles_and_polygons_give_what_is_inside() {
    let server = world::start("http_collections_within");
    add(&server, b"cities", &CITIES);
    let within =
        |query: &str| get(&server, &format!("/v1/collections/cities/within?{query}")).json();
    let sicily = within("box=12,36,16,39");
    assert_eq!(members(&sicily), names(&["Palermo", "Catania"]));
    assert_eq!((&sicily["total"], &sicily["next"]), (&json!(2), &Value::Null));
    assert!(sicily["took_microseconds"].is_u64());
    assert_eq!(members(&within("box=170,-90,-170,90")), names(&["Suva"]));
    assert_eq!(members(&within("box=-170,-90,170,90")), names(&["Palermo", "Catania", "Rome"]));
    let circle = within("longitude=13.4&latitude=38&radius_meters=200000");
    assert_eq!(members(&circle), names(&["Palermo", "Catania"]));
    let polygon = r#"{"type":"Polygon","coordinates":[[[11,41],[14,41],[14,43],[11,41]]]}"#;
    let found = post(&server, "/v1/collections/cities/within", polygon);
    assert_eq!((found.status, members(&found.json())), (200, names(&["Rome"])));
    let wrong = [
        ("box=1,2,3", "box"),
        ("box=1,2,3,x", "box"),
        ("box=0,5,1,4", "box"),
        ("box=0,0,181,1", "box"),
        ("box=nan,0,1,1", "box"),
        ("", "box"),
        ("box=0,0,1,1&longitude=1", "box"),
        ("longitude=1&latitude=2", "radius_meters"),
        ("longitude=1&latitude=2&radius_meters=-1", "radius_meters"),
        ("longitude=1&latitude=86&radius_meters=1", "latitude"),
        ("box=0,0,1,1&count=0", "count"),
        ("box=0,0,1,1&cursor=x", "cursor"),
        ("box=0,0,1,1&zoom=1", "query"),
    ];
    for (query, field) in wrong {
        let reply = get(&server, &format!("/v1/collections/cities/within?{query}"));
        assert_eq!(
            (reply.status, &reply.json()["error"]["field"]),
            (400, &json!(field)),
            "{query}"
        );
    }
    let reply = post(&server, "/v1/collections/cities/within", r#"{"type":"Point"}"#);
    assert_eq!((reply.status, &reply.json()["error"]["field"]), (400, &json!("body")));
    server.stop().unwrap();
}

#[test]
fn pages_of_a_box_give_each_member_once_while_others_come_and_go() {
    let server = world::start("http_collections_pages");
    let names: Vec<String> = (0..1_000).map(|number| format!("m{number}")).collect();
    let points: Vec<(&[u8], f64, f64)> = names
        .iter()
        .zip(0..)
        .map(|(name, number)| (name.as_bytes(), f64::from(number % 40), f64::from(number % 7)))
        .collect();
    add(&server, b"grid", &points);
    let (mut seen, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let path = format!("/v1/collections/grid/within?box=0,0,39.5,7&count=77&cursor={cursor}");
        let page = get(&server, &path).json();
        seen.extend(page["hits"].as_array().unwrap().iter().map(|hit| hit["member"].to_string()));
        pages += 1;
        // Others come before and after, and the last member of the page goes.
        let extra = format!("x{pages}");
        add(&server, b"grid", &[(extra.as_bytes(), -100.0, 0.0)]);
        match page["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(pages, 13);
    let unique: BTreeSet<&String> = seen.iter().collect();
    assert_eq!((seen.len(), unique.len()), (1_000, 1_000));
    server.stop().unwrap();
}

#[test]
fn clusters_add_up_to_the_members_of_their_box() {
    let server = world::start("http_collections_clusters");
    let names: Vec<String> = (0..5_000).map(|number| format!("m{number}")).collect();
    let place =
        |number: usize| (number as f64 * 0.37 % 360.0 - 180.0, number as f64 * 0.11 % 170.0 - 85.0);
    let points: Vec<(&[u8], f64, f64)> = names
        .iter()
        .enumerate()
        .map(|(number, name)| (name.as_bytes(), place(number).0, place(number).1))
        .collect();
    add(&server, b"many", &points);
    for (area, zoom) in
        [("-180,-90,180,90", 0), ("-180,-90,180,90", 9), ("170,-40,-170,40", 4), ("0,0,1,1", 20)]
    {
        let found =
            get(&server, &format!("/v1/collections/many/clusters?box={area}&zoom={zoom}")).json();
        let clusters = found["clusters"].as_array().unwrap();
        assert!(clusters.len() <= 2_048, "{area} {zoom}");
        let sum: u64 = clusters.iter().map(|cluster| cluster["count"].as_u64().unwrap()).sum();
        let within =
            get(&server, &format!("/v1/collections/many/within?box={area}&count=1")).json();
        assert_eq!(
            (json!(sum), &found["total"]),
            (within["total"].clone(), &within["total"]),
            "{area}"
        );
        for cluster in clusters {
            let is_single = cluster["count"] == 1;
            assert_eq!(cluster.get("member").is_some(), is_single, "{cluster}");
        }
    }
    let wrong =
        [("box=0,0,1,1&zoom=31", "zoom"), ("box=0,0,1,1&zoom=x", "zoom"), ("zoom=1", "box")];
    for (query, field) in wrong {
        let reply = get(&server, &format!("/v1/collections/many/clusters?{query}"));
        assert_eq!(
            (reply.status, &reply.json()["error"]["field"]),
            (400, &json!(field)),
            "{query}"
        );
    }
    server.stop().unwrap();
}

/// Longitudes and latitudes of a drawing, and the header's total.
fn drawn(server: &Server, query: &str) -> (Vec<(f32, f32)>, u64) {
    let mut stream = TcpStream::connect(server.http_addresses()[0]).unwrap();
    let path = format!("/v1/collections/drawn/points?{query}");
    let text = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
    assert!(head.contains("content-type: application/octet-stream"), "{head}");
    let total = head.split("x-whered-total: ").nth(1).unwrap().split("\r\n").next().unwrap();
    let body = &bytes[end + 4..];
    let word = |at: usize| <[u8; 4]>::try_from(&body[at..at + 4]).unwrap();
    assert_eq!(u32::from_le_bytes(word(0)), 1, "the version");
    let count = u32::from_le_bytes(word(4)) as usize;
    assert_eq!(body.len(), 8 + 8 * count);
    let number = |at: usize| f32::from_le_bytes(word(at));
    let points = (0..count).map(|index| (number(8 + 8 * index), number(12 + 8 * index)));
    (points.collect(), total.parse().unwrap())
}

#[test]
fn points_are_drawn_as_numbers_and_thinned_out_evenly() {
    let server = world::start("http_collections_points");
    let names: Vec<String> = (0..3_000).map(|number| format!("m{number}")).collect();
    let points: Vec<(&[u8], f64, f64)> = names
        .iter()
        .zip(0..)
        .map(|(name, number)| (name.as_bytes(), f64::from(number) * 0.01, 10.0))
        .collect();
    add(&server, b"drawn", &points);
    let (all, total) = drawn(&server, "box=-1,0,40,20");
    assert_eq!((all.len(), total), (3_000, 3_000));
    let (part, total) = drawn(&server, "box=9.995,0,19.995,20");
    assert_eq!((part.len(), total), (1_000, 1_000));
    assert!(part.iter().all(|(x, y)| (9.99..20.0).contains(x) && (9.99..10.01).contains(y)));
    let (thin, total) = drawn(&server, "box=-1,0,40,20&limit=100");
    assert_eq!((thin.len(), total), (100, 3_000));
    let tens: BTreeSet<u32> = thin.iter().map(|(x, _)| (x / 3.0) as u32).collect();
    assert_eq!(tens.len(), 10, "from everywhere");
    let (none, total) = drawn(&server, "box=100,0,101,1");
    assert_eq!((none.len(), total), (0, 0));
    server.stop().unwrap();
}

#[test]
fn a_sorted_set_whose_scores_are_no_places_is_refused_by_its_kind() {
    let server = world::start("http_collections_scores");
    add_scores(&server, b"prices", &[(b"bread", 1.5), (b"milk", 7.0)]);
    for path in ["within?box=0,0,1,1", "clusters?box=0,0,1,1&zoom=1", "points?box=0,0,1,1"] {
        let reply = get(&server, &format!("/v1/collections/prices/{path}"));
        let error = &reply.json()["error"];
        assert_eq!((reply.status, &error["field"]), (400, &json!("name")), "{path}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("scores that are no places"), "{message}");
    }
    server.stop().unwrap();
}

#[test]
fn near_takes_an_address_in_the_place_of_a_place() {
    let server = world::start("http_collections_near_address");
    add(&server, b"cities", &CITIES);
    // 192.0.2.5 is in Frankfurt.
    let found = get(&server, "/v1/collections/cities/near?address=192.0.2.5&count=1").json();
    assert_eq!(found["hits"][0]["member"], "Rome");
    let found = get(&server, "/v1/collections/cities/near?address=192.0.2.5&database=city&count=1");
    assert_eq!(found.json()["hits"][0]["member"], "Rome");
    let cases = [
        ("address=203.0.113.9", 404, "address"),
        ("address=x", 400, "address"),
        ("address=192.0.2.5&longitude=1", 400, "address"),
    ];
    for (query, status, field) in cases {
        let reply = get(&server, &format!("/v1/collections/cities/near?{query}"));
        assert_eq!(
            (reply.status, &reply.json()["error"]["field"]),
            (status, &json!(field)),
            "{query}"
        );
    }
    server.stop().unwrap();
}

#[test]
fn a_followed_collection_is_unavailable_until_its_data_comes_and_is_then_read_like_any_other() {
    let server = world::start("http_collections_followed");
    add(&server, b"own", &CITIES[..1]);
    let keyspace = server.engine().keyspace();
    let link = keyspace.link("primary").unwrap();
    let patterns = vec![b"fleet".to_vec()];
    keyspace.set_routes(vec![Route { database: 0, patterns, links: vec![link], slots: None }]);
    let paths = [
        "/v1/collections/fleet",
        "/v1/collections/fleet/members/Rome",
        "/v1/collections/fleet/within?box=0,0,90,60",
        "/v1/collections/fleet/clusters?box=0,0,90,60&zoom=3",
        "/v1/collections/fleet/near?longitude=12&latitude=41",
        "/v1/collections",
    ];
    for path in paths {
        let reply = get(&server, path);
        assert_eq!(reply.status, 503, "{path}: {}", reply.body);
        assert!(reply.body.contains("data has not come yet"), "{path}: {}", reply.body);
    }
    assert_eq!(get(&server, "/v1/collections/own").status, 200);
    let stream = StreamPosition {
        replication_id: "0123456789abcdef0123456789abcdef01234567".parse().unwrap(),
        offset: 1,
        database: 0,
    };
    let mut load = keyspace.begin_load(link).unwrap();
    load.sorted_set(b"fleet", None);
    for (member, x, y) in CITIES {
        let cell = Cell::from_place(Place::new(x, y).unwrap());
        load.member(member, cell.bits() as f64).unwrap();
    }
    load.end_sorted_set().unwrap();
    load.finish(stream, || ()).unwrap();
    for path in paths {
        assert_eq!(get(&server, path).status, 200, "{path}");
    }
    let all = get(&server, "/v1/collections").json();
    let listed: Vec<&Value> =
        all["collections"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert!(listed.contains(&&json!("fleet")) && listed.contains(&&json!("own")), "{all}");
    server.stop().unwrap();
}
