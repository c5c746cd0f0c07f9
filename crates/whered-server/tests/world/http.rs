//! An HTTP client of a few lines: one request, one connection. Answers are compared with the
//! document of the interface (`schema.rs`).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use whered_server::Server;

use super::schema::Document;

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Status, message and field of an error.
    pub(crate) fn error(&self) -> (u16, String, Value) {
        let json = self.json();
        let object = json.as_object().unwrap();
        assert_eq!(object.keys().collect::<Vec<_>>(), ["error"]);
        let error = object["error"].as_object().unwrap();
        assert_eq!(error.keys().collect::<Vec<_>>(), ["code", "message", "field"]);
        (self.status, error["message"].as_str().unwrap().to_owned(), error["field"].clone())
    }
}

pub(crate) fn send(server: SocketAddr, text: &str) -> Reply {
    send_bytes(server, text.as_bytes())
}

/// Sends a request and reads the answer, which is compared with its schema.
pub(crate) fn send_bytes(server: SocketAddr, request: &[u8]) -> Reply {
    let reply = exchange(server, request);
    let is_json = reply.headers.contains("content-type: application/json")
        && !["content-encoding:", "transfer-encoding:"].iter().any(|it| reply.headers.contains(it));
    let line = String::from_utf8_lossy(request.split(|byte| *byte == b'\r').next().unwrap());
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap();
    // A proxy's form of the target begins with the server.
    let path = path.split_once("://").map_or(path, |(_, rest)| &rest[rest.find('/').unwrap()..]);
    let is_compared = matches!(reply.status, 200 | 202) && method != "HEAD";
    // Files of the console and the document itself are no answers of the API.
    let is_file = path == "/openapi.json" || path.starts_with("/console/");
    if is_json && is_compared && !is_file {
        let text = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let document = DOCUMENT.get_or_init(|| exchange(server, text.as_bytes()).json());
        Document(document).compare(method, path, reply.status, &reply.json());
    }
    reply
}

/// The same for all servers: they are of one program.
static DOCUMENT: OnceLock<Value> = OnceLock::new();

fn exchange(server: SocketAddr, request: &[u8]) -> Reply {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // A server that has refused may close before it has read everything.
    let _ = stream.write_all(request);
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (headers, body) = text.split_once("\r\n\r\n").unwrap();
    let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, headers: headers.to_ascii_lowercase(), body: body.to_owned() }
}

pub(crate) fn get(server: &Server, path: &str) -> Reply {
    let text = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    send(server.http_addresses()[0], &text)
}

/// A body without the lines of its chunks, of which no line of its own looks like one.
pub(crate) fn unchunked(body: &str) -> String {
    let is_length = |line: &&str| line.ends_with('\r') && line.trim_end().len() < 8;
    let lines = body.split('\n').filter(|line| !is_length(line) && *line != "\r");
    lines
        .map(|line| line.trim_end_matches('\r'))
        .collect::<Vec<_>>()
        .join("\n")
        .trim_end()
        .to_owned()
}
