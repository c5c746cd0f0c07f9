//! Any bytes as the body of a request by HTTP: a GeoJSON polygon over a collection, and the batches
//! of addresses and packets. Every answer is 200 or a refusal of the documented form.
//!
//! The first byte chooses the path. Not for: heads of requests, bodies of uploads (`feeds`).
//! One server answers all inputs; nothing that they ask changes it.
#![no_main]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use whered_engine::mmdb::{Value as Field, Writer, WriterOptions};
use whered_server::{Config, Server};

/// How long the server may be silent before it counts as hanging; answers take milliseconds.
const PATIENCE: Duration = Duration::from_secs(8);

const PATHS: [&str; 6] = [
    "/v1/collections/vans/within",
    "/v1/collections/vans/within?count=2",
    "/v1/ip",
    "/v1/sets/pins/match",
    "/v1/pools/www/choose",
    "/v1/rules/edge/match",
];

const CONFIG: &str = r#"
[resp]
listen = ["127.0.0.1:0"]
[http]
listen = ["127.0.0.1:0"]
[dns]
listen = ["127.0.0.1:0"]
[[database]]
name = "city"
path = "city.mmdb"
[[rules]]
name = "edge"
path = "edge.rules"
[[pool]]
name = "www"
owners = ["www.example.com"]
overrides = "pins"
[[pool.site]]
name = "fra"
at = { longitude = 8.68, latitude = 50.11 }
addresses = ["203.0.113.1"]
"#;

static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("whered-fuzz-http-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.join(name), bytes).expect("room for a small file");
    };
    let mut writer = Writer::new(WriterOptions::default()).expect("the usual options");
    let record = Field::Map(vec![("a".to_owned(), Field::Uint32(7))]);
    writer.insert("192.0.2.0/24".parse().expect("a prefix"), record).expect("a small record");
    write("city.mmdb", &writer.finish().expect("a small database"));
    write("edge.rules", b"chain input policy drop {\n  src 10.0.0.0/8 proto tcp accept\n}\n");
    let config = Config::from_toml(CONFIG, &folder.join("fuzz.toml")).expect("a sound file");
    let server = Server::start(config).expect("free ports of loopback");
    let mut client = TcpStream::connect(server.resp_addresses()[0]).expect("RESP is open");
    client
        .write_all(
            b"GEOADD vans 8.6 50.1 one 179.9 0 two -179.9 0 three 0 0 four\r\n\
              CIDR.ADD pins VALUE fra 192.0.2.0/24 2001:db8::/32\r\nQUIT\r\n",
        )
        .expect("room in the socket");
    client.read_to_end(&mut Vec::new()).expect("three replies");
    server
});

fuzz_target!(|input: &[u8]| {
    let Some((&choice, body)) = input.split_first() else { return };
    let path = PATHS[usize::from(choice) % PATHS.len()];
    let mut client = TcpStream::connect(SERVER.http_addresses()[0]).expect("HTTP is open");
    client.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    client.write_all(&[head.as_bytes(), body].concat()).expect("the server reads it all");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("an answer in time");
    let answer = String::from_utf8(answer).expect("an answer is text");
    let (head, text) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).expect("a status");
    let json: Value = serde_json::from_str(text).expect("an answer is JSON");
    match status {
        "200" => assert!(json.get("error").is_none(), "{text}"),
        "400" | "404" | "413" => {
            let error = json.get("error").expect("a refusal has an error");
            let text = error["message"].as_str().expect("a message is text");
            assert!(!text.is_empty() && !text.contains('\n'), "one line: {text:?}");
            assert!(error["code"].is_string());
        }
        other => panic!("status {other}: {text}"),
    }
});
