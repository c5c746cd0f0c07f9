//! What the doors say of databases: descriptions, pages of networks, and every wrong question.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;
mod world;

use serde_json::{Value, json};
use support::client::{self, Client};
use whered_engine::mmdb::{Value as MmdbValue, Writer, WriterOptions};
use whered_server::Server;
use world::http::get;

fn resp(server: &Server) -> Client {
    Client::connect(server.resp_addresses()[0])
}

/// A RESP reply of maps, arrays, texts, numbers and nothing as JSON.
fn as_json(value: client::Value) -> Value {
    match value {
        client::Value::Bulk(bytes) => json!(String::from_utf8(bytes).unwrap()),
        client::Value::Integer(number) => json!(number),
        client::Value::Null => Value::Null,
        client::Value::Array(values) => values.into_iter().map(as_json).collect(),
        client::Value::Error(text) => json!(String::from_utf8(text).unwrap()),
        other => panic!("{other:?}"),
    }
}

fn ask(client: &mut Client, line: &str) -> Value {
    client.send(format!("{line}\r\n").as_bytes());
    as_json(client.reply().value)
}

#[test]
fn a_database_is_described_alike_by_both_doors() {
    let server = world::start("databases_info");
    let mut client = resp(&server);
    let Value::Array(flat) = ask(&mut client, "IP.INFO city") else { panic!("a map") };
    let by_resp: serde_json::Map<String, Value> = flat
        .chunks(2)
        .map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].clone()))
        .collect();
    let by_http = get(&server, "/v1/databases/city").json();
    assert_eq!(by_http, Value::Object(by_resp));
    let all = get(&server, "/v1/databases").json();
    assert_eq!(all, json!({ "generation": 1, "databases": [by_http], "next": null }));
    let size = by_http["file_size_bytes"].as_u64().unwrap();
    for (key, expected) in [
        ("name", json!("city")),
        ("type", json!("Test-City")),
        ("build_epoch_seconds", json!(1_700_000_000)),
        ("ip_version", json!(6)),
        ("networks", json!(5)),
        ("records", json!(4)),
        ("mode", json!("indexed")),
        ("memory_file_bytes", json!(size)),
        ("reload", json!("notify")),
        ("generation", json!(1)),
        ("reloads", json!(0)),
        ("reload_failures", json!(0)),
        ("uncovered_family", json!(0)),
        ("last_reload_error", Value::Null),
        ("last_reload_error_at_milliseconds", Value::Null),
        ("last_reload_error_file", Value::Null),
    ] {
        assert_eq!(by_http[key], expected, "{key}");
    }
    assert_eq!(by_http["fields"][0], json!("country.iso_code"));
    assert!(by_http["loaded_at_milliseconds"].as_u64().unwrap() > 1_700_000_000_000);
    let three = client.ask(&["HELLO", "3"]);
    assert!(three.starts_with('%'));
    assert!(client.ask(&["IP.INFO", "city"]).starts_with("%25\r\n"));
    server.stop().unwrap();
}

#[test]
fn networks_inside_a_prefix_come_in_pages() {
    let server = world::start("databases_within");
    let mut client = resp(&server);
    let code = "country.iso_code";
    let all = ask(&mut client, &format!("IP.WITHIN city ::/0 {code}"));
    assert_eq!(
        all,
        json!([
            "0",
            [
                ["127.0.0.0/8", ["JP"]],
                ["192.0.2.0/25", ["DE"]],
                ["192.0.2.128/25", ["US"]],
                ["198.51.100.0/24", ["BR"]],
                ["2001:db8::/32", ["DE"]],
            ]
        ])
    );
    let mut pages = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let line = format!("ip.within city 0.0.0.0/0 count 2 cursor {cursor} {code}");
        let page = ask(&mut client, &line);
        cursor = page[0].as_str().unwrap().to_owned();
        pages.push(page);
        if cursor == "0" {
            break;
        }
    }
    let second = json!([["192.0.2.128/25", ["US"]], ["198.51.100.0/24", ["BR"]]]);
    assert_eq!(pages[0][0], json!("192.0.2.128"));
    assert_eq!((pages.len(), &pages[1]), (2, &json!(["0", second])));
    let whole = ask(&mut client, "IP.WITHIN city 192.0.2.0/25");
    let record = whole[1][0][1].as_str().unwrap();
    let record: Value = serde_json::from_str(record).unwrap();
    assert_eq!(record["city"]["names"]["en"], json!("Frankfurt"));
    // A network around the prefix, and no network at all.
    assert_eq!(ask(&mut client, "IP.WITHIN city ::ffff:192.0.2.0/121"), whole);
    let around = ask(&mut client, "IP.WITHIN city 192.0.2.7/32 a.b");
    assert_eq!(around, json!(["0", [["192.0.2.0/25", [null]]]]));
    assert_eq!(ask(&mut client, "IP.WITHIN city 203.0.113.0/24"), json!(["0", []]));
    server.stop().unwrap();
}

#[test]
fn networks_inside_a_prefix_come_over_http() {
    let server = world::start("databases_within_http");
    let path = "/v1/databases/city/networks?within=192.0.2.0/24&fields=country.iso_code";
    let first = get(&server, &format!("{path}&count=1")).json();
    let network = |prefix: &str, code: &str| json!({ "prefix": prefix, "record": { "country.iso_code": code } });
    assert_eq!(
        first,
        json!({
            "database": "city",
            "within": "192.0.2.0/24",
            "networks": [network("192.0.2.0/25", "DE")],
            "next": "192.0.2.128",
        })
    );
    let last = get(&server, &format!("{path}&cursor=192.0.2.128")).json();
    assert_eq!(last["networks"], json!([network("192.0.2.128/25", "US")]));
    assert_eq!(last["next"], Value::Null);
    server.stop().unwrap();
}

#[test]
fn wrong_questions_get_one_clear_line() {
    let server = world::start("databases_wrong");
    let mut client = resp(&server);
    for (question, line) in [
        ("IP.INFO", "ERR wrong number of arguments for 'ip.info' command"),
        ("IP.INFO town", "ERR no such database 'town'"),
        ("IP.WITHIN city", "ERR wrong number of arguments for 'ip.within' command"),
        ("IP.WITHIN town 10.0.0.0/8", "ERR no such database 'town'"),
        ("IP.WITHIN city 10.0.0.0/8 COUNT 0", "ERR COUNT must be 1 to 1000"),
        ("IP.WITHIN city 10.0.0.0/8 COUNT 1001", "ERR COUNT must be 1 to 1000"),
        ("IP.WITHIN city 10.0.0.0/8 COUNT x", "ERR COUNT must be 1 to 1000"),
        ("IP.WITHIN city 10.0.0.0/8 CURSOR x", "ERR 'x' is not an IP address"),
    ] {
        assert_eq!(ask(&mut client, question), json!(line), "{question}");
    }
    for (question, begin) in [
        ("IP.WITHIN city 10.0.0.0/33", "ERR wrong prefix: "),
        ("IP.WITHIN city here", "ERR wrong prefix: "),
        ("IP.WITHIN city 10.0.0.0/8 a..b", "ERR wrong path: "),
        ("IP.WITHIN city 10.0.0.0/8 CURSOR 11.0.0.0", "ERR database 'city': wrong address family"),
    ] {
        let answer = ask(&mut client, question);
        let line = answer.as_str().unwrap();
        assert!(line.starts_with(begin) && !line.contains('\n'), "{question}: {line}");
    }
    for (path, status, field) in [
        ("/v1/databases?a=1", 400, "query"),
        ("/v1/databases/town", 404, "database"),
        ("/v1/databases/city?a=1", 400, "query"),
        ("/v1/databases/town/networks?within=10.0.0.0/8", 404, "database"),
        ("/v1/databases/city/networks", 400, "within"),
        ("/v1/databases/city/networks?within=10", 400, "within"),
        ("/v1/databases/city/networks?within=10.0.0.0/8&count=1001", 400, "count"),
        ("/v1/databases/city/networks?within=10.0.0.0/8&cursor=x", 400, "cursor"),
        ("/v1/databases/city/networks?within=10.0.0.0/8&cursor=::", 400, "within"),
        ("/v1/databases/city/networks?within=10.0.0.0/8&fields=a..b", 400, "fields"),
    ] {
        let (found, message, named) = get(&server, path).error();
        assert_eq!((found, named), (status, json!(field)), "{path}: {message}");
        assert!(!message.contains('\n'));
    }
    server.stop().unwrap();
}

#[test]
fn one_wrong_address_of_a_batch_costs_its_own_answer_only() {
    let server = world::start("databases_batch");
    let mut client = resp(&server);
    let one = |client: &mut Client, line: &str| ask(client, line);
    let known = one(&mut client, "IP.GET city 192.0.2.5");
    let batch = one(&mut client, "IP.MGET city 192.0.2.5 ten 203.0.113.9 192.0.2.5");
    let wrong = json!("ERR 'ten' is not an IP address");
    assert_eq!(batch, json!([known, wrong, null, known]));
    let fields = one(&mut client, "IP.MGET city FIELDS 1 country.iso_code 192.0.2.256 192.0.2.5");
    assert_eq!(fields[0], json!("ERR '192.0.2.256' is not an IP address"));
    assert_eq!(fields[1], one(&mut client, "IP.GET city 192.0.2.5 country.iso_code"));
    assert_eq!(one(&mut client, "IP.LIST"), json!(["city"]));
    server.stop().unwrap();
}

#[test]
fn every_command_reads_an_address_as_people_write_it() {
    let server = world::start("databases_written");
    let mut client = resp(&server);
    assert_eq!(client.ask(&["CIDR.ADD", "net", "192.0.2.0/24", "2001:db8::/32"]), ":2\r\n");
    for (plain, written) in [
        ("192.0.2.5", ["::ffff:192.0.2.5", "192.0.2.5:80", " 192.0.2.5\t", "[192.0.2.5]:443"]),
        (
            "2001:db8::7",
            ["[2001:db8::7]", "[2001:db8::7]:443", "2001:db8::7%eth0", " 2001:db8::7 "],
        ),
    ] {
        for command in
            ["IP.GET city", "IP.NET city", "IP.MGET city", "CIDR.MATCH net", "CIDR.MMATCH net"]
        {
            let words: Vec<&str> = command.split(' ').collect();
            let expected = client.ask(&[&words[..], &[plain]].concat());
            assert!(
                !expected.starts_with('-') && !expected.contains("$-1"),
                "{command}: {expected}"
            );
            for written in written {
                let reply = client.ask(&[&words[..], &[written]].concat());
                assert_eq!(reply, expected, "{command} {written}");
            }
        }
    }
    server.stop().unwrap();
}

#[test]
fn a_database_in_two_files_answers_for_both_families_as_one() {
    let folder = world::folder("databases_two_files");
    let put = |name: &str, ip_version: u16, network: &str, number: u32| {
        let options = WriterOptions { ip_version, ..WriterOptions::default() };
        let mut writer = Writer::new(options).unwrap();
        let record = MmdbValue::Map(vec![("n".to_owned(), MmdbValue::Uint32(number))]);
        writer.insert(network.parse().unwrap(), record).unwrap();
        std::fs::write(folder.join(name), writer.finish().unwrap()).unwrap();
    };
    put("v4.mmdb", 4, "192.0.2.0/24", 4);
    put("v6.mmdb", 6, "2001:db8::/32", 6);
    for mode in ["memory", "indexed"] {
        let database = format!(
            "[[database]]\nname = \"both\"\npaths = [\"v4.mmdb\", \"v6.mmdb\"]\nmode = \"{mode}\"\n\
             [[database]]\nname = \"six\"\npath = \"v6.mmdb\"\nmode = \"{mode}\"\n"
        );
        let server = Server::start(world::config(&folder, &database)).unwrap();
        let mut client = resp(&server);
        let line = "IP.MGET both FIELDS 1 n 192.0.2.1 2001:db8::1 192.0.3.1 2001:db9::1";
        assert_eq!(ask(&mut client, line), json!([["4"], ["6"], [null], [null]]), "{mode}");
        for address in ["192.0.2.1", "2001:db8::1"] {
            assert!(
                get(&server, &format!("/v1/ip/{address}?database=both")).json()["record"]["n"]
                    .is_u64()
            );
        }
        let batch = ask(&mut client, "IP.MGET six FIELDS 1 n 192.0.2.1 2001:db8::1 2001:db9::1");
        let error = batch[0].as_str().unwrap();
        assert!(error.starts_with("ERR database 'six': ") && error.contains("no IPv4"), "{error}");
        assert_eq!(batch[1], json!(["6"]));
        assert_eq!(batch[2], json!([null]));
        let info = get(&server, "/v1/databases/both").json();
        assert!(info["path"].as_str().unwrap().contains("v4.mmdb, "), "{info}");
        assert_eq!(info["uncovered_family"], json!(0));
        assert_eq!(get(&server, "/v1/databases/six").json()["uncovered_family"], json!(1));
        server.stop().unwrap();
    }
}
