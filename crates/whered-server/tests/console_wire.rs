//! The console by its wire: the page and its files, what guards them, and what turns them off.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use whered_server::{Config, Server};
use world::http::{Reply, get, send};

fn start(name: &str, http: &str) -> Server {
    let folder = world::folder(name);
    let mut config = world::config(&folder, "");
    let text = format!("[http]\nlisten = [\"127.0.0.1:0\"]\n{http}");
    config.http = Config::from_toml(&text, &folder.join("edge.toml")).unwrap().http;
    Server::start(config).unwrap()
}

fn ask(server: &Server, method: &str, path: &str, headers: &str) -> Reply {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    send(server.http_addresses()[0], &format!("{head}{headers}\r\n"))
}

#[test]
fn the_page_and_its_files_load_nothing_from_elsewhere() {
    let server = start("console_page", "");
    let files = [
        ("/", "text/html; charset=utf-8", "<!doctype html>"),
        ("/console/main.js", "text/javascript; charset=utf-8", "import "),
        ("/console/style.css", "text/css; charset=utf-8", ":root"),
        ("/console/icon.svg", "image/svg+xml", "<svg"),
        ("/console/world.json", "application/json", "Topology"),
        ("/console/NOTICE.txt", "text/plain; charset=utf-8", "d3-zoom"),
    ];
    for (path, kind, text) in files {
        let reply = get(&server, path);
        assert_eq!(reply.status, 200, "{path}");
        assert!(reply.body.contains(text), "{path}");
        for header in [
            &format!("content-type: {kind}"),
            "content-security-policy: default-src 'self'; ",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-cache",
            "vary: accept-encoding",
            "etag: w/\"",
        ] {
            assert!(reply.headers.contains(header), "{path}: {header}\n{}", reply.headers);
        }
        assert!(!reply.headers.contains("content-encoding"), "{path}");
    }
    server.stop().unwrap();
}

#[test]
fn a_browser_gets_gzip_and_no_body_for_what_it_has() {
    let server = start("console_gzip", "");
    let mut stream = TcpStream::connect(server.http_addresses()[0]).unwrap();
    let head = "GET /console/main.js HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    stream.write_all(format!("{head}Accept-Encoding: gzip, br\r\n\r\n").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let headers = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    assert!(headers.contains("content-encoding: gzip"), "{headers}");
    assert_eq!(bytes[end + 4..][..2], [0x1f, 0x8b]);
    let tag = headers.lines().find_map(|line| line.strip_prefix("etag: w/")).unwrap();

    let known = ask(&server, "GET", "/console/main.js", &format!("If-None-Match: W/{tag}\r\n"));
    assert_eq!((known.status, known.body.as_str()), (304, ""));
    assert!(known.headers.contains(&format!("etag: w/{tag}")));
    let other = ask(&server, "GET", "/console/dom.js", &format!("If-None-Match: W/{tag}\r\n"));
    assert_eq!(other.status, 200);
    let head = ask(&server, "HEAD", "/", "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    server.stop().unwrap();
}

#[test]
fn what_is_no_file_of_the_console_is_not_found() {
    let server = start("console_404", "");
    let missing = [
        "/console/",
        "/console/gone.js",
        "/console/..",
        "/console/..%2fCargo.toml",
        "/console/npm/package.json",
        "/console/%00",
        "/console/main.js/",
        "/index.html",
    ];
    for path in missing {
        assert_eq!(get(&server, path).status, 404, "{path}");
    }
    assert_eq!(get(&server, "/console/%ff").status, 400);
    assert_eq!(ask(&server, "POST", "/", "Content-Length: 0\r\n").status, 405);
    server.stop().unwrap();
}

#[test]
fn with_a_token_the_page_is_open_and_the_data_are_not() {
    let server = start("console_token", "token = \"secret\"\n");
    for path in ["/", "/console/main.js"] {
        let headers = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n";
        assert_eq!(ask(&server, "GET", path, headers).status, 200, "{path}");
    }
    for path in ["/v1/databases", "/metrics", "/console/../v1/databases", "//v1/databases"] {
        let (status, body) = (get(&server, path).status, get(&server, path).body);
        assert!(matches!(status, 401 | 404), "{path}: {status}");
        assert!(!body.contains("city"), "{path}: {body}");
    }
    server.stop().unwrap();
}

#[test]
fn without_a_token_a_foreign_link_leads_to_the_page_and_a_foreign_host_does_not() {
    let server = start("console_hosts", "");
    assert_eq!(ask(&server, "GET", "/", "Sec-Fetch-Site: cross-site\r\n").status, 200);
    assert_eq!(ask(&server, "GET", "/v1/sets", "Sec-Fetch-Site: cross-site\r\n").status, 403);
    let foreign = "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    let reply = send(server.http_addresses()[0], foreign);
    assert_eq!((reply.status, &reply.json()["error"]["field"]), (403, &json!("Host")));
    server.stop().unwrap();
}

#[test]
fn the_console_can_be_turned_off() {
    let server = start("console_off", "console = false\n");
    for path in ["/", "/console/main.js"] {
        assert_eq!(get(&server, path).status, 404, "{path}");
    }
    assert_eq!(get(&server, "/healthz").status, 200);
    server.stop().unwrap();
}
