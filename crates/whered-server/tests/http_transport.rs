//! How answers of the HTTP listener travel: compressed, and to web pages of other origins.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;
use whered_server::{Config, Server};
use world::http::{Reply, get, send};

/// The head and the body of an answer as they came, without chunks.
fn raw(server: &Server, path: &str, header: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(server.http_addresses()[0]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let text = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n{header}\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
    (head, bytes[end + 4..].to_vec())
}

#[test]
fn a_large_answer_is_compressed_as_the_client_accepts_it() {
    let server = world::start("http_compression");
    let (head, plain) = raw(&server, "/openapi.json", "");
    assert!(!head.contains("content-encoding"), "{head}");
    assert!(plain.len() > 10_000);
    for (accepted, encoding, magic) in [
        ("zstd", "zstd", &[0x28, 0xb5, 0x2f, 0xfd][..]),
        ("gzip", "gzip", &[0x1f, 0x8b]),
        ("gzip, deflate, br", "br", &[]),
        ("gzip;q=0.5, zstd;q=1.0", "zstd", &[0x28, 0xb5, 0x2f, 0xfd]),
    ] {
        let header = format!("Accept-Encoding: {accepted}\r\n");
        let (head, body) = raw(&server, "/openapi.json", &header);
        assert!(head.contains(&format!("\r\ncontent-encoding: {encoding}")), "{accepted}: {head}");
        assert!(head.contains("\r\nvary: accept-encoding"), "{head}");
        assert!(body.starts_with(magic) && body.len() < plain.len() / 3, "{accepted}");
        if encoding == "zstd" {
            assert_eq!(zstd::decode_all(&body[..]).unwrap(), plain);
        }
    }
    for (path, accepted) in [
        ("/healthz", "gzip"),
        ("/openapi.json", "identity"),
        ("/openapi.json", "compress"),
        ("/openapi.json", "gzip;q=0"),
    ] {
        let (head, _) = raw(&server, path, &format!("Accept-Encoding: {accepted}\r\n"));
        assert!(!head.contains("content-encoding"), "{path} {accepted}: {head}");
    }
    server.stop().unwrap();
}

const PAGE: &str = "https://maps.example.com";

fn ask(server: &Server, method: &str, path: &str, headers: &[&str]) -> Reply {
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
    );
    send(server.http_addresses()[0], &text)
}

fn start(name: &str, origins: &[&str], token: Option<&str>) -> Server {
    let folder = world::folder(name);
    let mut config = world::config(&folder, "");
    config.http.origins = origins.iter().map(|origin| (*origin).to_owned()).collect();
    config.http.token = token.map(str::to_owned);
    Server::start(config).unwrap()
}

fn preflight<'a>(origin: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&[origin, "Access-Control-Request-Method: GET"], more].concat()
}

#[test]
fn a_page_of_a_listed_origin_may_read_and_others_may_not() {
    let server = start("http_cors", &[PAGE], None);
    let page = format!("Origin: {PAGE}");
    let reply = ask(&server, "GET", "/v1/databases", &[&page, "Sec-Fetch-Site: cross-site"]);
    assert_eq!(reply.status, 200);
    assert!(reply.headers.contains("\r\naccess-control-allow-origin: https://maps.example.com"));
    assert!(reply.headers.contains("\r\nvary: origin"), "{}", reply.headers);
    let reply = ask(&server, "GET", "/v1/nothing", &[&page]);
    assert!(reply.status == 404 && reply.headers.contains("access-control-allow-origin"));
    let reply = ask(&server, "OPTIONS", "/v1/databases", &preflight(&page, &[]));
    assert_eq!((reply.status, reply.body.as_str()), (204, ""));
    for header in [
        "access-control-allow-methods: get, head, post",
        "access-control-allow-headers: authorization, content-encoding, content-type, \
         idempotency-key",
        "access-control-max-age: 600",
    ] {
        assert!(reply.headers.contains(header), "{header}: {}", reply.headers);
    }
    assert!(!reply.headers.contains("private-network"), "{}", reply.headers);
    let private = "Access-Control-Request-Private-Network: true";
    let reply = ask(&server, "OPTIONS", "/v1/databases", &preflight(&page, &[private]));
    assert!(reply.headers.contains("access-control-allow-private-network: true"));
    for foreign in
        ["https://evil.example", "http://maps.example.com", "https://maps.example.com.evil", "null"]
    {
        let foreign = format!("Origin: {foreign}");
        for (method, headers) in
            [("GET", vec![foreign.as_str()]), ("OPTIONS", preflight(&foreign, &[]))]
        {
            let reply = ask(&server, method, "/v1/databases", &headers);
            assert_eq!(reply.json()["error"]["code"], "foreign_page", "{foreign}");
            assert!(!reply.headers.contains("access-control"), "{}", reply.headers);
        }
    }
    // Another name than the listener's is refused, listed origin or not.
    let text = format!(
        "GET /v1/databases HTTP/1.1\r\nHost: evil.example\r\n{page}\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(send(server.http_addresses()[0], &text).error().0, 403);
    // No page, no header.
    assert!(!get(&server, "/v1/databases").headers.contains("access-control"));
    server.stop().unwrap();
}

#[test]
fn a_page_of_a_listed_origin_needs_the_token_where_there_is_one() {
    let server = start("http_cors_token", &[PAGE], Some("s3cret"));
    let page = format!("Origin: {PAGE}");
    let reply = ask(&server, "OPTIONS", "/v1/databases", &preflight(&page, &[]));
    assert_eq!(reply.status, 204, "a browser sends no token with it");
    for (token, status) in [("s3cret", 200), ("s3cre", 401), ("", 401)] {
        let token = format!("Authorization: Bearer {token}");
        let reply = ask(&server, "GET", "/v1/databases", &[&page, &token]);
        assert_eq!(reply.status, status);
        assert!(reply.headers.contains("access-control-allow-origin"), "the page may see why");
    }
    let foreign = preflight("Origin: https://evil.example", &[]);
    let reply = ask(&server, "OPTIONS", "/v1/databases", &foreign);
    assert!(reply.status == 401 && !reply.headers.contains("access-control"));
    server.stop().unwrap();
}

#[test]
fn a_page_of_any_origin_reads_where_that_is_configured_and_uploads_nothing() {
    let server = start("http_cors_every", &["*"], None);
    let page = "Origin: https://anybody.example";
    let reply = ask(&server, "GET", "/v1/ip/192.0.2.1", &[page, "Sec-Fetch-Site: cross-site"]);
    assert_eq!(reply.status, 200);
    assert!(reply.headers.contains("\r\naccess-control-allow-origin: *"), "{}", reply.headers);
    let reply = ask(&server, "OPTIONS", "/v1/ip", &preflight(page, &[]));
    assert!(reply.headers.contains("access-control-allow-headers: content-type\r\n"));
    assert!(!reply.headers.contains("authorization"), "never with a token");
    let reply = ask(&server, "POST", "/v1/feeds/x", &[page, "Content-Length: 0"]);
    assert_eq!(reply.json()["error"]["code"], "foreign_page", "{}", reply.body);
    // A page that has made its name this machine's own is still refused.
    let text = format!(
        "GET /v1/databases HTTP/1.1\r\nHost: evil.example\r\n{page}\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(send(server.http_addresses()[0], &text).error().0, 403);
    server.stop().unwrap();
}

#[test]
fn every_origin_is_not_configured_beside_a_token_or_others() {
    for (lines, found) in [
        ("token = 't'\norigins = ['*']", "holds '*' beside a 'token'"),
        ("origins = ['https://a.example', '*']", "holds '*' and more"),
        ("origins = ['https://*.example']", "holds 'https://*.example'"),
    ] {
        let text = format!("[http]\n{lines}\n");
        let error = Config::from_toml(&text, std::path::Path::new("c.toml")).unwrap_err();
        assert!(error.to_string().contains(found), "{error}");
    }
    let text = "[http]\norigins = ['*']\n";
    let config = Config::from_toml(text, std::path::Path::new("c.toml")).unwrap();
    assert_eq!(json!(config.http.origins), json!(["*"]));
}
