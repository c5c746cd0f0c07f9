//! HTTP sent to the RESP port: what a web page or a confused proxy sends runs nothing.

mod support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use support::Door;
use whered_engine::EngineOptions;
use whered_server::resp::UnixSocketOptions;

const BODY: &str = "GEOADD pwned 1 1 m\r\nFLUSHALL\r\n";

/// Requests whose first line closes the connection.
const REQUESTS: [&str; 11] = [
    "POST / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\nContent-Length: 31\r\n\r\n",
    "post / HTTP/1.1\r\n\r\n",
    "PUT / HTTP/1.1\r\n\r\n",
    "DELETE / HTTP/1.1\n\n",
    "HEAD / HTTP/1.1\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\n\r\n",
    "PATCH / HTTP/1.1\r\n\r\n",
    "*1\r\n$4\r\nPOST\r\n",
    "PROPFIND / HTTP/1.1\r\n\r\n",
    "mkcol /a HTTP/1.0\n\n",
    "FOO / http/1.1\r\n\r\n",
];

/// Requests that run as commands until their line `Host:`, which closes the connection.
const GETS: [&str; 4] = [
    "GET / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\n\r\n",
    "GET / HTTP/1.1\r\nAccept: */*\r\nhOsT:x\r\n\r\n",
    "\r\nHost: x\r\n",
    "*2\r\n$5\r\nHost:\r\n$1\r\nx\r\n",
];

fn door_with_a_point() -> Door {
    let door = Door::in_memory();
    assert_eq!(door.client().ask(&["GEOADD", "k", "1", "1", "m"]), ":1\r\n");
    door
}

fn assert_untouched(door: &Door) {
    assert_eq!(door.client().ask(&["DBSIZE"]), ":1\r\n");
    assert_eq!(door.client().ask(&["EXISTS", "k"]), ":1\r\n");
}

#[test]
fn a_post_line_or_a_host_line_closes_at_once_and_nothing_after_it_runs() {
    let door = door_with_a_point();
    for (index, request) in REQUESTS.iter().chain(&GETS).enumerate() {
        let mut client = door.client();
        client.send(format!("{request}{BODY}").as_bytes());
        let rest = client.rest();
        assert!(rest.is_empty(), "{request}: {}", rest.escape_ascii());
        assert_untouched(&door);
        let closed = door.door.counters().http_closed.load(Ordering::Relaxed);
        assert_eq!(closed, index as u64 + 1, "{request}");
    }
}

#[test]
fn http_in_parts_and_behind_other_requests_closes_too() {
    let door = door_with_a_point();
    for request in REQUESTS {
        let mut client = door.client();
        let text = format!("{request}{BODY}");
        for byte in text.as_bytes() {
            // The server may have closed meanwhile.
            if client.stream.write_all(&[*byte]).is_err() {
                break;
            }
        }
        assert!(client.rest().is_empty(), "{request}");
        assert_untouched(&door);
        // What came before the line has run, and was answered.
        let mut client = door.client();
        assert_eq!(client.ask(&["PING"]), "+PONG\r\n");
        client.send(b"MULTI\r\n");
        assert_eq!(client.reply().bytes, b"+OK\r\n");
        client.send(format!("FLUSHALL\r\n{request}EXEC\r\n").as_bytes());
        let rest = client.rest();
        assert!(rest.is_empty() || rest == b"+QUEUED\r\n", "{}", rest.escape_ascii());
        assert_untouched(&door);
    }
    let mut client = door.client();
    client.send(b"GET / HTTP/1.1\r\n");
    let refused = String::from_utf8(client.reply().bytes).expect("text");
    assert_eq!(refused, "-ERR wrong number of arguments for 'get' command\r\n");
    client.send(format!("Host: x\r\n\r\n{BODY}").as_bytes());
    assert!(client.rest().is_empty());
    assert_untouched(&door);
}

#[test]
fn http_through_a_unix_socket_and_before_a_login_closes_too() {
    let path = std::env::temp_dir().join(format!("whered-http-{}.sock", std::process::id()));
    let door = Door::with(EngineOptions::default(), |options| {
        options.password = Some("secret".to_owned());
        options.unix_socket = Some(UnixSocketOptions { path: path.clone(), permissions: 0o700 });
    });
    for request in REQUESTS.iter().chain(&GETS) {
        let mut stream = UnixStream::connect(&path).expect("it accepts");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("it can be set");
        let _ = stream.write_all(format!("{request}AUTH secret\r\n{BODY}").as_bytes());
        let mut rest = Vec::new();
        // A reset is an end as well.
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{request}: {}", rest.escape_ascii());
    }
    assert_eq!(
        door.door.counters().http_closed.load(Ordering::Relaxed),
        (REQUESTS.len() + GETS.len()) as u64
    );
    let _ = std::fs::remove_file(&path);
}

#[test]
fn commands_that_only_look_like_http_run() {
    let door = Door::in_memory();
    let mut client = door.client();
    for (request, reply) in [
        ("ECHO POST\r\n", "$4\r\nPOST\r\n"),
        ("ECHO Host:\r\n", "$5\r\nHost:\r\n"),
        ("GET k\r\n", "$-1\r\n"),
        ("*2\r\n$4\r\nECHO\r\n$5\r\nhost:\r\n", "$5\r\nhost:\r\n"),
        // Redis knows neither of them, and goes on.
        ("*1\r\n$3\r\nPUT\r\n", "-ERR unknown command 'PUT', with args beginning with: \r\n"),
        ("Accept: */*\r\n", "-ERR unknown command 'Accept:', with args beginning with: '*/*' \r\n"),
        (
            "PROPFIND HTTP/1.1\r\n",
            "-ERR unknown command 'PROPFIND', with args beginning with: 'HTTP/1.1' \r\n",
        ),
        ("SET /a HTTP/1.1\r\n", "+OK\r\n"),
        ("GET /a\r\n", "$8\r\nHTTP/1.1\r\n"),
        ("PING\r\n", "+PONG\r\n"),
    ] {
        client.send(request.as_bytes());
        let found = String::from_utf8(client.reply().bytes).expect("text");
        assert_eq!(found, reply, "{request}");
    }
}
