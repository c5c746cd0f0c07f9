//! The HTTP door by its wire: a client of a few lines against a server in this process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use whered_engine::AddCondition;
use whered_engine::geo::{Cell, Place};
use whered_engine::mmdb::{Value as MmdbValue, Writer, WriterOptions};
use whered_server::{Config, Server};
use world::http::{get, send};

fn add(server: &Server, key: &[u8], points: &[(&[u8], f64, f64)]) {
    let cell = |longitude, latitude| Cell::from_place(Place::new(longitude, latitude).unwrap());
    let points: Vec<_> = points.iter().map(|(member, x, y)| (*member, cell(*x, *y))).collect();
    server.engine().keyspace().add_points(0, key, &points, AddCondition::Always).unwrap();
}

const CITIES: [(&[u8], f64, f64); 3] =
    [(b"Palermo", 13.361389, 38.115556), (b"Catania", 15.087269, 37.502669), (b"Rome", 12.5, 41.9)];

#[test]
fn healthz_says_ok() {
    let server = world::start("http_healthz");
    let reply = get(&server, "/healthz");
    assert_eq!((reply.status, reply.json()), (200, json!({ "status": "ok", "generation": 1 })));
    server.stop().unwrap();
}

#[test]
fn an_address_gives_its_record() {
    let server = world::start("http_ip");
    for path in
        ["/v1/ip/192.0.2.5", "/v1/ip/192.0.2.5?database=city", "/v1/ip/192.0.2.5?database=&fields="]
    {
        let reply = get(&server, path);
        assert_eq!(reply.status, 200);
        assert!(reply.headers.contains("content-type: application/json"));
        let expected = json!({
            "address": "192.0.2.5",
            "database": "city",
            "prefix": "192.0.2.0/25",
            "record": {
                "city": { "names": { "en": "Frankfurt" } },
                "country": { "iso_code": "DE" },
                "location": { "latitude": 50.11, "longitude": 8.68 },
            },
        });
        assert_eq!(reply.json(), expected);
    }
    let reply = get(&server, "/v1/ip/2001:db8::7");
    assert_eq!(reply.json()["prefix"], json!("2001:db8::/32"));
    server.stop().unwrap();
}

#[test]
fn fields_choose_parts_of_the_record() {
    let server = world::start("http_fields");
    let reply = get(&server, "/v1/ip/198.51.100.9?fields=country.iso_code,city.names.en,a.b");
    let expected = json!({ "country.iso_code": "BR", "city.names.en": "São Paulo", "a.b": null });
    assert_eq!(reply.json()["record"], expected);
    server.stop().unwrap();
}

#[test]
fn an_explained_address_gives_its_reasons_instead() {
    let server = world::start("http_ip_explain");
    let reasons = get(&server, "/v1/ip/192.0.2.5?explain=1").json();
    assert_eq!(reasons["record"]["country"]["iso_code"], json!("DE"));
    assert_eq!(reasons["prefix"], json!("192.0.2.0/25"));
    assert_eq!(reasons["question"]["job"], json!("ip"));
    let nothing = get(&server, "/v1/ip/203.0.113.9?explain=1");
    assert_eq!((nothing.status, &nothing.json()["record"]), (200, &Value::Null));
    assert!(get(&server, "/v1/ip/192.0.2.5?explain=0").json().get("question").is_none());
    server.stop().unwrap();
}

#[test]
fn an_address_of_a_family_that_nothing_covers_is_told_apart_from_one_that_is_not_found() {
    let folder = world::folder("http_ipv4_only");
    let options = WriterOptions { ip_version: 4, ..WriterOptions::default() };
    let mut writer = Writer::new(options).unwrap();
    writer.insert("192.0.2.0/24".parse().unwrap(), MmdbValue::Uint32(4)).unwrap();
    std::fs::write(folder.join("v4.mmdb"), writer.finish().unwrap()).unwrap();
    let config = world::config(&folder, "[[database]]\nname = \"v4\"\npath = \"v4.mmdb\"\n");
    let server = Server::start(config).unwrap();
    for explain in ["", "&explain=1"] {
        let (status, _, field) =
            get(&server, &format!("/v1/ip/2001:db8::1?database=v4{explain}")).error();
        assert_eq!((status, field), (404, json!("family")));
    }
    let reply = get(&server, "/v1/ip/192.0.3.1?database=v4");
    assert_eq!((reply.status, &reply.json()["record"]), (200, &Value::Null));
    assert_eq!(get(&server, "/v1/databases/v4").json()["uncovered_family"], json!(2));
    let metrics = get(&server, "/metrics").body;
    let line = "whered_database_uncovered_family_total{database=\"v4\"} 2";
    assert!(metrics.contains(line), "{metrics}");
    // One that is written as IPv6 and is IPv4 is covered.
    for written in
        ["::ffff:192.0.2.1", "192.0.2.1:80", "%5B::ffff:192.0.2.1%5D:443", "%20192.0.2.1"]
    {
        let reply = get(&server, &format!("/v1/ip/{written}?database=v4")).json();
        assert_eq!(reply["address"], json!("192.0.2.1"), "{written}");
        assert_eq!(reply["record"], json!(4), "{written}");
    }
    server.stop().unwrap();
}

#[test]
fn addresses_that_are_wrong_or_unknown_are_errors() {
    let server = world::start("http_ip_errors");
    let cases = [
        (
            "/v1/ip/192.0.2.256",
            400,
            "'192.0.2.256' is no IP address; allowed: an IPv4 or IPv6 address such as 192.0.2.1 \
             or 2001:db8::1",
            "address",
        ),
        (
            "/v1/ip/192.0.2.1?database=asn",
            404,
            "no such database 'asn'; databases: city",
            "database",
        ),
        ("/v1/ip/192.0.2.1?explain=yes", 400, "'explain' is 'yes'; allowed: 1, 0", "explain"),
        (
            "/v1/ip/192.0.2.1?dbase=city",
            400,
            "unknown parameter 'dbase'; allowed: database, fields, explain",
            "query",
        ),
        ("/v1/ip/192.0.2.1?database=city&db=city", 400, "'database' is given twice", "database"),
    ];
    for (path, status, message, field) in cases {
        let expected = (status, message.to_owned(), json!(field));
        assert_eq!(get(&server, path).error(), expected, "{path}");
    }
    for path in ["/v1/ip/%ff", "/v1/ip/192.0.2.1?fields=..", "/v1/ip/192.0.2.1?database=%ff"] {
        let reply = get(&server, path);
        assert!(matches!(reply.error().0, 400 | 404), "{path}: {}", reply.body);
    }
    server.stop().unwrap();
}

#[test]
fn an_address_without_a_record_has_the_network_that_has_none() {
    let server = world::start("http_no_record");
    for query in ["", "?fields=country.iso_code"] {
        let reply = get(&server, &format!("/v1/ip/203.0.113.9{query}"));
        let body = reply.json();
        assert_eq!((reply.status, &body["record"]), (200, &Value::Null));
        let prefix: whered_engine::ip::Prefix = body["prefix"].as_str().unwrap().parse().unwrap();
        assert!(prefix.contains("203.0.113.9".parse().unwrap()), "{prefix}");
        assert!(!prefix.contains("198.51.100.9".parse().unwrap()), "{prefix}");
    }
    server.stop().unwrap();
}

#[test]
fn many_addresses_get_the_answers_that_each_gets_alone() {
    let server = world::start("http_batch");
    let addresses =
        ["192.0.2.5", "203.0.113.9", "2001:db8::7", "x", "::ffff:192.0.2.1", "192.0.2.5"];
    let body =
        json!({ "addresses": addresses, "database": "city", "fields": ["country.iso_code"] });
    let reply = post(&server, "/v1/ip", &body.to_string());
    assert_eq!(reply.status, 200, "{}", reply.body);
    let answers = reply.json()["answers"].as_array().unwrap().clone();
    assert_eq!(answers.len(), addresses.len());
    for (address, answer) in addresses.iter().zip(&answers) {
        let alone = get(&server, &format!("/v1/ip/{address}?fields=country.iso_code")).json();
        if *address == "x" {
            assert_eq!((&answer["address"], &answer["error"]), (&json!("x"), &alone["error"]));
            assert_eq!(answer["error"]["code"], "invalid_parameter");
            continue;
        }
        for key in ["address", "prefix", "record"] {
            assert_eq!(answer[key], alone[key], "{address} {key}");
        }
    }
    let whole = post(&server, "/v1/ip", r#"{"addresses":["192.0.2.5"]}"#).json();
    assert_eq!(whole["answers"][0]["record"], get(&server, "/v1/ip/192.0.2.5").json()["record"]);
    let many = json!({ "addresses": vec!["1.1.1.1"; 10_001] }).to_string();
    for (body, status, code) in [
        ("", 400, "invalid_body"),
        ("[]", 400, "invalid_body"),
        ("{}", 400, "invalid_body"),
        (r#"{"addresses":["1.1.1.1"],"db":"city"}"#, 400, "invalid_body"),
        (r#"{"addresses":[1]}"#, 400, "invalid_body"),
        (r#"{"addresses":["1.1.1.1"],"fields":["."]}"#, 400, "invalid_parameter"),
        (r#"{"addresses":["1.1.1.1"],"database":"x"}"#, 404, "not_found"),
        (many.as_str(), 400, "invalid_body"),
    ] {
        let reply = post(&server, "/v1/ip", body);
        let found = (reply.status, reply.json()["error"]["code"].clone());
        assert_eq!(found, (status, json!(code)), "{}", reply.body);
    }
    let large = format!(r#"{{"addresses":["{}"]}}"#, "1".repeat(3 << 20));
    assert_eq!(post(&server, "/v1/ip", &large).error().0, 413);
    let packed = "POST /v1/ip HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                  Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(send(server.http_addresses()[0], packed).error().0, 415);
    let cut = "POST /v1/ip HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{}";
    let mut stream = TcpStream::connect(server.http_addresses()[0]).unwrap();
    stream.write_all(cut.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 400 "), "{text}");
    assert_eq!(get(&server, "/v1/ip").error().0, 405);
    server.stop().unwrap();
}

#[test]
fn old_names_work_and_the_answer_says_the_new_ones() {
    let server = world::start("http_old_names");
    let block: whered_engine::ip::Block = "10.0.0.0/8".parse().unwrap();
    server.engine().prefix_sets().add("lab", &[block], None, None).unwrap();
    server.engine().set_rules("edge", None, "chain input policy accept {\n}\n").unwrap();
    let old = get(&server, "/v1/ip/192.0.2.5?db=city&explain=0");
    let new = get(&server, "/v1/ip/192.0.2.5?database=city&explain=0");
    assert_eq!((old.status, old.json()), (200, new.json()));
    assert!(old.headers.contains("\r\ndeprecation: true"), "{}", old.headers);
    let warning = "\r\nwarning: 299 whered \"'db' is now 'database'; the old name goes\"";
    assert!(old.headers.contains(warning), "{}", old.headers);
    assert!(!new.headers.contains("deprecation") && !new.headers.contains("warning"));
    let old = get(&server, "/v1/sets/lab/match?addr=10.1.2.3");
    let new = get(&server, "/v1/sets/lab/match?address=10.1.2.3").json();
    assert_eq!((&old.json()["addr"], &old.json()["address"]), (&new["address"], &new["address"]));
    assert_eq!((&old.json()["match"], new.get("addr")), (&new["match"], None));
    assert!(old.headers.contains("'addr' is now 'address'"), "{}", old.headers);
    let path = "/v1/rules/edge/match";
    let old = post(&server, path, r#"{"src":"1.1.1.1","dst":"1.1.1.2","proto":6,"dport":80}"#);
    let new = r#"{"source":"1.1.1.1","destination":"1.1.1.2","protocol":6,"destination_port":80}"#;
    let new = post(&server, path, new);
    assert_eq!((old.status, old.json()), (200, new.json()));
    for name in ["src", "dst", "proto", "dport"] {
        assert!(old.headers.contains(&format!("'{name}' is now '")), "{}", old.headers);
    }
    assert!(!new.headers.contains("warning"), "{}", new.headers);
    let both = r#"{"src":"1.1.1.1","source":"1.1.1.1","destination":"1.1.1.2","protocol":6}"#;
    assert_eq!(post(&server, path, both).error().0, 400);
    // An error says it too, and a route without the new name does not know the old one.
    let wrong = get(&server, "/v1/ip/192.0.2.5?db=none");
    assert!(wrong.status == 404 && wrong.headers.contains("deprecation: true"));
    assert_eq!(get(&server, "/v1/databases?db=city").json()["error"]["code"], "unknown_parameter");
    server.stop().unwrap();
}

#[test]
fn pages_of_a_list_have_each_name_once() {
    let server = world::start("http_pages");
    let block: whered_engine::ip::Block = "10.0.0.0/8".parse().unwrap();
    let names = ["a b", "a/c", "b&d", "é"];
    for name in names {
        server.engine().prefix_sets().add(name, &[block], None, None).unwrap();
    }
    let all = get(&server, "/v1/sets").json();
    assert_eq!((&all["sets"], &all["next"]), (&json!(names), &Value::Null));
    for count in 1..=5 {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = get(&server, &format!("/v1/sets?count={count}{cursor}")).json();
            seen.extend(page["sets"].as_array().unwrap().iter().cloned());
            let Some(next) = page["next"].as_str() else { break };
            let escaped: String = next.bytes().map(|byte| format!("%{byte:02x}")).collect();
            cursor = format!("&cursor={escaped}");
        }
        assert_eq!(json!(seen), json!(names));
    }
    for path in ["/v1/databases", "/v1/rules", "/v1/feeds", "/v1/tables"] {
        let page = get(&server, &format!("{path}?count=1")).json();
        assert_eq!(page["next"], Value::Null, "{path}");
        assert_eq!(get(&server, &format!("{path}?count=0")).error().0, 400, "{path}");
        assert_eq!(get(&server, &format!("{path}?count=10001")).error().0, 400, "{path}");
    }
    server.stop().unwrap();
}

#[test]
fn sets_and_rules_explain_their_answers() {
    let server = world::start("http_explain_more");
    let block: whered_engine::ip::Block = "10.0.0.0/8".parse().unwrap();
    server.engine().prefix_sets().add("lab", &[block], Some(b"v"), None).unwrap();
    let reasons = get(&server, "/v1/sets/lab/match?address=10.1.2.3&explain=1").json();
    assert_eq!(reasons["question"]["job"], "match");
    assert_eq!(
        (&reasons["choice"], &reasons["set_entry"]["value"]),
        (&json!("10.0.0.0/8"), &json!("v"))
    );
    let none = get(&server, "/v1/sets/lab/match?address=11.1.2.3&explain=1");
    assert_eq!((none.status, &none.json()["choice"]), (200, &Value::Null));
    assert_eq!(get(&server, "/v1/sets/x/match?address=11.1.2.3&explain=1").error().0, 404);
    let rules = "chain input policy drop {\n    src 10.0.0.0/8 accept\n}\n";
    server.engine().set_rules("edge", None, rules).unwrap();
    let packet =
        |source: &str| json!({ "source": source, "destination": "192.0.2.1", "protocol": 6 });
    let path = "/v1/rules/edge/match?explain=1";
    let one = post(&server, path, &packet("11.0.0.1").to_string()).json();
    let expected = json!(["drop by the policy", "edge:2: not src 10.0.0.0/8"]);
    assert_eq!((&one["verdict"], &one["explanation"]), (&json!("drop"), &expected));
    let both = json!([packet("11.0.0.1"), 3, packet("10.0.0.1")]).to_string();
    let both = post(&server, path, &both).json();
    assert_eq!((&both[0], &both[1]["error"]["code"]), (&one, &json!("invalid_body")));
    assert_eq!(both[2]["explanation"][0], "accept by edge:2");
    server.stop().unwrap();
}

#[test]
fn many_addresses_are_matched_as_each_is_alone() {
    let server = world::start("http_match_many");
    let blocks: Vec<whered_engine::ip::Block> =
        ["10.0.0.0/8", "10.1.0.0/16"].map(|text| text.parse().unwrap()).to_vec();
    server.engine().prefix_sets().add("a b", &blocks, None, None).unwrap();
    let addresses = ["10.1.2.3", "10.2.2.3", "11.0.0.1", "ten", "2001:db8::1"];
    for all in [false, true] {
        let body = json!({ "addresses": addresses, "all": all }).to_string();
        let reply = post(&server, "/v1/sets/a%20b/match", &body).json();
        assert_eq!(reply["set"], "a b");
        for (index, address) in addresses.iter().enumerate() {
            let path = format!("/v1/sets/a%20b/match?address={address}&all={all}");
            let mut alone = get(&server, &path).json();
            alone.as_object_mut().unwrap().remove("set");
            if *address == "ten" {
                alone["address"] = json!("ten");
            }
            assert_eq!(reply["answers"][index], alone, "{address}");
        }
    }
    assert_eq!(post(&server, "/v1/sets/none/match", r#"{"addresses":[]}"#).error().0, 404);
    assert_eq!(post(&server, "/v1/sets/a%20b/match", r#"{"addresses":3}"#).error().0, 400);
    server.stop().unwrap();
}

#[test]
fn without_any_database_an_address_is_not_found() {
    let mut config = Config::default();
    config.resp.listen.clear();
    config.dns.listen.clear();
    config.http.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let server = Server::start(config).unwrap();
    let error = get(&server, "/v1/ip/192.0.2.1").error();
    assert_eq!(error, (404, "no database is loaded".to_owned(), json!("database")));
    server.stop().unwrap();
}

#[test]
fn near_gives_the_members_within_the_radius_nearest_first() {
    let server = world::start("http_near");
    add(&server, b"cities", &CITIES);
    let path = "/v1/collections/cities/near?longitude=15&latitude=37&radius_meters=200000";
    let reply = get(&server, path).json();
    assert_eq!((&reply["collection"], &reply["count"]), (&json!("cities"), &json!(2)));
    let hits = reply["hits"].as_array().unwrap();
    assert_eq!((&hits[0]["member"], &hits[1]["member"]), (&json!("Catania"), &json!("Palermo")));
    let distance_meters = hits[0]["distance_meters"].as_f64().unwrap();
    assert!((distance_meters - 56_441.3).abs() < 0.1, "{distance_meters}");
    assert!((hits[0]["longitude"].as_f64().unwrap() - 15.087269).abs() < 1e-5);
    assert_eq!(hits[0].as_object().unwrap().len(), 4, "no member_base64 for text");
    let one = get(&server, &format!("{path}&count=1")).json();
    assert_eq!((&one["count"], &one["hits"][0]["member"]), (&json!(1), &json!("Catania")));
    let all = get(&server, "/v1/collections/cities/near?longitude=15&latitude=37").json();
    assert_eq!(all["count"], json!(3));
    let reasons = get(&server, &format!("{path}&explain=1")).json();
    assert_eq!(reasons["choice"], json!(["Catania", "Palermo"]));
    assert_eq!(reasons["question"]["count"], Value::Null);
    let towns = "/v1/collections/towns/near?longitude=1&latitude=1&explain=1";
    assert_eq!(get(&server, towns).status, 404);
    server.stop().unwrap();
}

#[test]
fn members_and_names_of_any_bytes_have_a_form() {
    let server = world::start("http_near_bytes");
    add(&server, "öffis & co/1".as_bytes(), &[(b"\xff\"\n", 1.0, 1.0)]);
    let path = "/v1/collections/%C3%B6ffis%20%26%20co%2F1/near?longitude=1&latitude=1";
    let reply = get(&server, path).json();
    assert_eq!(reply["collection"], json!("öffis & co/1"));
    assert_eq!(reply["hits"][0]["member"], json!("\u{fffd}\"\n"));
    assert_eq!(reply["hits"][0]["member_base64"], json!("/yIK"));
    server.stop().unwrap();
}

#[test]
fn mistakes_of_a_search_are_errors_with_their_field() {
    let server = world::start("http_near_errors");
    add(&server, b"cities", &CITIES);
    let near = "/v1/collections/cities/near?";
    let cases = [
        ("latitude=37", 400, "longitude"),
        ("longitude=15", 400, "latitude"),
        ("longitude=east&latitude=37", 400, "longitude"),
        ("longitude=nan&latitude=37", 400, "longitude"),
        ("longitude=181&latitude=37", 400, "longitude"),
        ("longitude=15&latitude=-91", 400, "latitude"),
        ("longitude=15&latitude=37&radius_meters=-1", 400, "radius_meters"),
        ("longitude=15&latitude=37&radius_meters=inf", 400, "radius_meters"),
        ("longitude=15&latitude=37&count=0", 400, "count"),
        ("longitude=15&latitude=37&count=100001", 400, "count"),
        ("longitude=15&latitude=37&count=many", 400, "count"),
        ("longitude=15&latitude=37&radius=1", 400, "query"),
    ];
    for (query, status, field) in cases {
        let reply = get(&server, &format!("{near}{query}"));
        let (found, message, found_field) = reply.error();
        assert_eq!((found, found_field), (status, json!(field)), "{query}: {message}");
    }
    let missing = get(&server, "/v1/collections/towns/near?longitude=1&latitude=1").error();
    assert_eq!(missing, (404, "no such collection 'towns'".to_owned(), json!("name")));
    server.stop().unwrap();
}

#[test]
fn more_hits_than_an_answer_holds_are_refused_unless_a_count_is_given() {
    let server = world::start("http_near_many");
    let members: Vec<_> = (0..100_001).map(|number: u32| number.to_string()).collect();
    let cell = Cell::from_place(Place::new(1.0, 1.0).unwrap());
    let points: Vec<_> = members.iter().map(|member| (member.as_bytes(), cell)).collect();
    let keyspace = server.engine().keyspace();
    keyspace.add_points(0, b"many", &points, AddCondition::Always).unwrap();
    let path = "/v1/collections/many/near?longitude=1&latitude=1&radius_meters=1000";
    let expected = "more than 100000 hits; ask for a count of 1 to 100000".to_owned();
    assert_eq!(get(&server, path).error(), (400, expected, json!("count")));
    assert_eq!(get(&server, &format!("{path}&count=100000")).json()["count"], json!(100_000));
    server.stop().unwrap();
}

#[test]
fn what_is_no_request_at_all_is_told_so_in_the_same_form() {
    let server = world::start("http_refusals");
    let long = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(150));
    for (text, status) in [
        ("no request\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nno header\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: many\r\n\r\n", 400),
        (long.as_str(), 431),
    ] {
        let (found, message, field) = send(server.http_addresses()[0], text).error();
        assert_eq!((found, field), (status, Value::Null), "{text}");
        assert!(message.contains("allowed: "), "{message}");
    }
    server.stop().unwrap();
}

#[test]
fn unknown_paths_and_methods_have_the_same_form_of_error() {
    let server = world::start("http_paths");
    for path in ["/index.html", "/v1", "/v1/ip/", "/v1/collections/a/b", "/healthz/"] {
        let (status, message, field) = get(&server, path).error();
        assert_eq!((status, field), (404, json!("path")), "{path}");
        assert!(message.contains("/v1/ip/{address}"));
    }
    for path in ["/healthz", "/metrics", "/v1/ip/192.0.2.1", "/v1/collections/a/near"] {
        let text = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"
        );
        let reply = send(server.http_addresses()[0], &text);
        let expected = "method not allowed; allowed: GET, HEAD".to_owned();
        assert!(reply.headers.contains("\r\nallow: get,head"), "{}", reply.headers);
        assert_eq!(reply.error(), (405, expected, json!("method")), "{path}");
    }
    let long = format!("/v1/ip/{}", "1".repeat(9000));
    assert_eq!(get(&server, &long).error().0, 414);
    server.stop().unwrap();
}

#[test]
fn a_token_opens_everything_but_healthz() {
    let folder = world::folder("http_token");
    let mut config = world::config(&folder, "");
    config.http.token = Some("s3cret".to_owned());
    let server = Server::start(config).unwrap();
    assert_eq!(get(&server, "/healthz").status, 200);
    for path in ["/metrics", "/v1/ip/192.0.2.1", "/nothing"] {
        let reply = get(&server, path);
        assert_eq!(reply.error().0, 401, "{path}");
        assert!(reply.headers.contains("www-authenticate: bearer"));
        for (token, status) in [("s3cret", 200), ("s3cre", 401), ("S3cret", 401)] {
            let text = format!(
                "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
            );
            let found = send(server.http_addresses()[0], &text).status;
            let status = if path == "/nothing" && status == 200 { 404 } else { status };
            assert_eq!(found, status, "{path} with {token}");
        }
    }
    server.stop().unwrap();
}

#[test]
fn prefix_sets_are_told_and_asked() {
    let folder = world::folder("http_sets");
    let server = Server::start(world::config(&folder, "")).unwrap();
    let blocks: Vec<whered_engine::ip::Block> =
        ["10.0.0.0/8", "10.0.0.3-10.0.0.9"].map(|text| text.parse().unwrap()).to_vec();
    server.engine().prefix_sets().add("a b", &blocks, Some(b"lab"), None).unwrap();
    assert_eq!(get(&server, "/v1/sets").json()["sets"], serde_json::json!(["a b"]));
    let told = get(&server, "/v1/sets/a%20b").json();
    assert_eq!((&told["members"], &told["ranges"]), (&2.into(), &1.into()));
    let found = get(&server, "/v1/sets/a%20b/match?address=10.0.0.4").json();
    assert_eq!(found["match"]["prefix"], "10.0.0.3-10.0.0.9");
    assert_eq!(found["match"]["value"], "lab");
    let all = get(&server, "/v1/sets/a%20b/match?address=10.0.0.4&all=1").json();
    assert_eq!(all["matches"][1]["prefix"], "10.0.0.0/8");
    assert!(get(&server, "/v1/sets/a%20b/match?address=11.0.0.4").json()["match"].is_null());
    for (path, status) in [
        ("/v1/sets/nosuch/match?address=10.0.0.1", 404),
        ("/v1/sets/nosuch", 404),
        ("/v1/sets/a%20b/match", 400),
        ("/v1/sets/a%20b/match?address=ten", 400),
        ("/v1/sets/a%20b?x=1", 400),
    ] {
        assert_eq!(get(&server, path).error().0, status, "{path}");
    }
    server.stop().unwrap();
}

#[test]
fn metrics_count_what_was_asked_and_show_the_data() {
    let folder = world::folder("http_metrics");
    let mut config = world::config(&folder, "");
    config.data_dir = Some(folder.join("data"));
    let server = Server::start(config).unwrap();
    add(&server, b"cities", &CITIES);
    let prefix: whered_engine::ip::Prefix = "192.0.2.0/24".parse().unwrap();
    let written = server.engine().prefix_sets().add("blocked", &[prefix], None, None).unwrap();
    server.engine().wait_durable(written.ticket).unwrap();
    get(&server, "/v1/ip/192.0.2.1");
    get(&server, "/v1/ip/nonsense");
    get(&server, "/no/such/path");
    let dns = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let query = whered_dns::message::Query::new(
        &"plain.example.com".parse().unwrap(),
        whered_dns::RecordType::A,
    );
    dns.send_to(&query.build(), server.dns_addresses()[0]).unwrap();
    dns.recv(&mut [0; 512]).unwrap();
    let mut redis = TcpStream::connect(server.resp_addresses()[0]).unwrap();
    redis.write_all(b"PING\r\n").unwrap();
    redis.read_exact(&mut [0; 7]).unwrap();
    let reply = get(&server, "/metrics");
    assert_eq!(reply.status, 200);
    let lines = [
        "whered_build_info{version=\"0.1.0\"} 1",
        "whered_generation 1",
        "whered_http_requests_total{route=\"/v1/ip/{address}\",status=\"200\"} 1",
        "whered_http_requests_total{route=\"/v1/ip/{address}\",status=\"400\"} 1",
        "whered_http_requests_total{route=\"other\",status=\"404\"} 1",
        "whered_dns_queries_total{transport=\"udp\",rcode=\"NOERROR\"} 1",
        "whered_dns_silent_total{transport=\"tcp\"} 0",
        "whered_database_build_timestamp_seconds{database=\"city\"} 1700000000",
        "whered_keys{number=\"0\"} 1",
        "whered_keys{number=\"15\"} 0",
        "whered_prefix_set_entries{set=\"blocked\"} 1",
        "whered_journal_poisoned 0",
        "whered_resp_connections_open 1",
        "whered_resp_connections_total 1",
        "whered_journal_frames_total 2",
    ];
    for line in lines {
        assert!(reply.body.lines().any(|found| found == line), "no {line} in\n{}", reply.body);
    }
    for name in [
        "whered_uptime_seconds ",
        "whered_journal_groups_total ",
        "whered_journal_last_sync_seconds ",
    ] {
        assert!(reply.body.lines().any(|found| found.starts_with(name)), "no {name}");
    }
    assert!(!reply.body.contains("# EOF"), "nobody has asked for OpenMetrics");
    server.stop().unwrap();
}

#[test]
fn what_was_written_is_there_after_a_stop_and_a_start() {
    let folder = world::folder("http_restart");
    let mut config = world::config(&folder, "");
    config.data_dir = Some(folder.join("data"));
    let server = Server::start(config.clone()).unwrap();
    add(&server, b"cities", &CITIES);
    server.stop().unwrap();
    let server = Server::start(config).unwrap();
    let reply = get(&server, "/v1/collections/cities/near?longitude=15&latitude=37").json();
    assert_eq!(reply["count"], json!(3));
    server.stop().unwrap();
}

#[test]
fn a_door_that_others_can_reach_is_not_opened_without_its_token() {
    let mut config = Config::default();
    config.http.listen = vec!["0.0.0.0:0".parse().unwrap()];
    let refusal = Server::start(config).err().unwrap().to_string();
    assert!(refusal.starts_with("HTTP does not listen on 0.0.0.0:0"), "{refusal}");
}

#[test]
fn requests_on_one_connection_are_answered_one_after_the_other() {
    let server = world::start("http_keep_alive");
    let mut stream = TcpStream::connect(server.http_addresses()[0]).unwrap();
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let last = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(format!("{request}{request}{last}").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 3);
    server.stop().unwrap();
}

#[test]
fn a_stop_does_not_wait_for_idle_connections() {
    let server = world::start("http_idle");
    let mut idle = TcpStream::connect(server.http_addresses()[0]).unwrap();
    idle.write_all(b"GET /healthz HT").unwrap();
    let begun = std::time::Instant::now();
    server.stop().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
}

fn post(server: &Server, path: &str, body: &str) -> world::http::Reply {
    let length = body.len();
    let text = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    send(server.http_addresses()[0], &text)
}

#[test]
fn packets_are_matched_and_rulesets_described() {
    let server = world::start("http_rules");
    let rules = "chain input policy drop {\n    log\n    proto tcp dport 80 accept\n}\n";
    server.engine().set_rules("edge", None, rules).unwrap();
    let web = r#"{"src":"10.0.0.1","dst":"192.0.2.1","proto":"tcp","dport":80,"length":60}"#;
    let reply = post(&server, "/v1/rules/edge/match", web);
    let accepted = json!({ "verdict": "accept", "rule": 2, "at": "edge:3", "met": [1] });
    assert_eq!((reply.status, reply.json()), (200, accepted.clone()));
    let other = r#"{"src":"10.0.0.1","dst":"192.0.2.1","proto":1,"icmp":"8/0","state":"new"}"#;
    let reply = post(&server, "/v1/rules/edge/match", &format!("[{web},{other}]"));
    let dropped = json!({ "verdict": "drop", "rule": null, "at": null, "met": [1] });
    assert_eq!(reply.json(), json!([accepted, dropped]));
    let one = get(&server, "/v1/rules/edge").json();
    assert_eq!(one["counters"]["policy"], json!({ "packets": 1, "bytes": 0 }));
    assert_eq!(one["counters"]["rules"][1], json!({ "rule": 2, "packets": 2, "bytes": 120 }));
    assert_eq!((&one["rules"], &one["source"]), (&json!(2), &json!("command")));
    let list = get(&server, "/v1/rules").json();
    assert_eq!(list["rulesets"][0]["name"], json!("edge"));
    let metrics = get(&server, "/metrics").body;
    for line in [
        "whered_rules_packets_total{ruleset=\"edge\",verdict=\"accept\"} 2",
        "whered_rules_packets_total{ruleset=\"edge\",verdict=\"drop\"} 1",
        "whered_rules_bytes_total{ruleset=\"edge\",verdict=\"accept\"} 120",
        "whered_rules{ruleset=\"edge\"} 2",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
    for (body, status, message) in [
        ("{", 400, "it is no JSON"),
        ("3", 400, "it is no object with source, destination and protocol"),
        ("{}", 400, "a packet needs source, destination and protocol"),
        (r#"{"who":1}"#, 400, "unknown member 'who'"),
        (r#"{"dport":65536}"#, 400, "'dport' is 65536; allowed: a number from 0 to 65535"),
        (r#"{"flags":"syn,x"}"#, 400, "'flags' has 'x'"),
        (r#"{"src":"::1","dst":"1.1.1.1","proto":6}"#, 400, "of different families"),
        (r#"{"with":7}"#, 400, "'with' is 7; allowed: an object of details"),
        (r#"{"with":{"ttl":"x"}}"#, 400, "'with' has 'ttl': \"x\"; allowed: a detail"),
        (r#"{"with":{"TTL":1}}"#, 400, "'with' has 'TTL'"),
    ] {
        let reply = post(&server, "/v1/rules/edge/match", body);
        let found = reply.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(reply.status == status && found.contains(message), "{body}: {found}");
    }
    // Details that are not given are unknown.
    let rules = "chain input policy drop {\n    with ttl 9-64 accept\n}\n";
    server.engine().set_rules("near", None, rules).unwrap();
    let packet = |with: &str| {
        let body = format!(r#"{{"src":"10.0.0.1","dst":"192.0.2.1","proto":6{with}}}"#);
        post(&server, "/v1/rules/near/match", &body).json()["verdict"].clone()
    };
    assert_eq!(packet(""), json!("maybe"));
    assert_eq!(packet(r#","with":{"ttl":64,"packet-type":"unicast"}"#), json!("accept"));
    assert_eq!(packet(r#","with":{"ttl":"3"}"#), json!("drop"));
    // A wrong packet of a batch costs its own answer only.
    let reply = post(&server, "/v1/rules/edge/match", &format!("[{{\"src\":1}},{web},7]")).json();
    let message = "packet 0: 'src' is 1; allowed: an IP address";
    let error = json!({ "code": "invalid_body", "message": message, "field": "body" });
    assert_eq!(reply[0], json!({ "error": error }));
    assert_eq!(reply[1], post(&server, "/v1/rules/edge/match", web).json());
    assert!(reply[2]["error"]["message"].as_str().unwrap().starts_with("packet 2: "), "{reply}");
    let many = format!("[{}]", vec!["0"; 10_001].join(","));
    assert_eq!(post(&server, "/v1/rules/edge/match", &many).status, 400);
    assert_eq!(post(&server, "/v1/rules/none/match", web).status, 404);
    assert_eq!(get(&server, "/v1/rules/none").status, 404);
    server.stop().unwrap();
}

/// The status of a request with these lines behind its first one.
fn status_of(server: &Server, first: &str, lines: &str) -> (u16, String, Value) {
    let text = format!("{first}\r\n{lines}Connection: close\r\n\r\n");
    let reply = send(server.http_addresses()[0], &text);
    if reply.status < 400 { (reply.status, String::new(), Value::Null) } else { reply.error() }
}

#[test]
fn a_foreign_web_page_gets_403_with_a_reason_at_every_path() {
    let server = world::start("http_foreign");
    let port = server.http_addresses()[0].port();
    let own = format!("Host: localhost:{port}\r\n");
    for path in ["/healthz", "/metrics", "/v1/databases", "/v1/tables", "/nothing"] {
        let first = format!("GET {path} HTTP/1.1");
        let usual = if path == "/nothing" { 404 } else { 200 };
        assert_eq!(status_of(&server, &first, &own).0, usual, "{path}");
        let same =
            format!("{own}Origin: http://localhost:{port}\r\nSec-Fetch-Site: same-origin\r\n");
        assert_eq!(status_of(&server, &first, &same).0, usual, "{path}");
        for (lines, field) in [
            (format!("Host: evil.example:{port}\r\n"), "Host"),
            (format!("{own}Origin: http://evil.example\r\n"), "Origin"),
            (format!("{own}Origin: null\r\n"), "Origin"),
            (format!("{own}Origin: http://localhost:1\r\n"), "Origin"),
            (format!("{own}Sec-Fetch-Site: cross-site\r\n"), "Sec-Fetch-Site"),
            (format!("{own}Sec-Fetch-Site: same-site\r\n"), "Sec-Fetch-Site"),
        ] {
            let (status, message, found) = status_of(&server, &first, &lines);
            assert_eq!((status, found), (403, json!(field)), "{path} {lines}");
            assert!(message.contains("allowed without a token: "), "{message}");
        }
    }
    let absolute = "GET http://evil.example/healthz HTTP/1.1";
    assert_eq!(status_of(&server, absolute, &own).0, 403);
    let absolute = format!("GET http://LOCALHOST.:{port}/healthz HTTP/1.1");
    assert_eq!(status_of(&server, &absolute, &own).0, 200);
    server.stop().unwrap();
}

#[test]
fn a_token_makes_host_and_origin_of_no_matter() {
    let folder = world::folder("http_foreign_token");
    let mut config = world::config(&folder, "");
    config.http.token = Some("s3cret".to_owned());
    let server = Server::start(config).unwrap();
    let foreign =
        "Host: edge.example\r\nOrigin: https://maps.example\r\nSec-Fetch-Site: cross-site\r\n";
    let with_token = format!("{foreign}Authorization: Bearer s3cret\r\n");
    for path in ["/metrics", "/v1/tables"] {
        let first = format!("GET {path} HTTP/1.1");
        assert_eq!(status_of(&server, &first, &with_token).0, 200, "{path}");
        assert_eq!(status_of(&server, &first, foreign).0, 401, "{path}");
    }
    // What a balancer on another host asks.
    assert_eq!(status_of(&server, "GET /healthz HTTP/1.1", foreign).0, 200);
    server.stop().unwrap();
}

#[test]
fn further_names_are_trusted_by_configuration() {
    let folder = world::folder("http_names");
    let text = "[http]\nlisten = [\"127.0.0.1:0\"]\nhosts = [\"maps.example\"]\n\
                origins = [\"https://maps.example\"]\n[resp]\nlisten = []\n[dns]\nlisten = []\n";
    let config = Config::from_toml(text, &folder.join("edge.toml")).unwrap();
    let server = Server::start(config).unwrap();
    let status = |lines| status_of(&server, "GET /healthz HTTP/1.1", lines).0;
    assert_eq!(status("Host: maps.example\r\nOrigin: https://maps.example\r\n"), 200);
    assert_eq!(status("Host: maps.example\r\nOrigin: http://other.example\r\n"), 403);
    assert_eq!(status("Host: other.example\r\n"), 403);
    server.stop().unwrap();
}

#[test]
fn a_missing_or_second_host_is_400_and_a_foreign_transfer_encoding_501() {
    let server = world::start("http_form");
    let first = "POST /v1/rules/edge/match HTTP/1.1";
    let get = "GET /healthz HTTP/1.1";
    assert_eq!(status_of(&server, get, "").0, 400);
    assert_eq!(status_of(&server, get, "Host: localhost\r\nHost: localhost\r\n").0, 400);
    assert_eq!(status_of(&server, get, "Host: local host\r\n").0, 400);
    assert_eq!(status_of(&server, "GET /healthz HTTP/1.0", "").0, 200);
    let own = "Host: localhost\r\n";
    for coding in ["gzip, chunked", "gzip", "identity", "chunked, gzip", "chunked, chunked"] {
        let lines = format!("{own}Transfer-Encoding: {coding}\r\n");
        let (status, _, field) = status_of(&server, first, &lines);
        assert_eq!((status, field), (501, json!("Transfer-Encoding")), "{coding}");
    }
    let twice = format!("{own}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n");
    assert_eq!(status_of(&server, first, &twice).0, 501);
    // The same behind another request of one connection.
    let mut stream = TcpStream::connect(server.http_addresses()[0]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let good = format!("{get}\r\n{own}\r\n");
    let bad = format!("{first}\r\n{own}Transfer-Encoding: gzip\r\n\r\n");
    stream.write_all(format!("{good}{bad}").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("200 OK") && text.contains("501 Not Implemented"), "{text}");
    server.stop().unwrap();
}
