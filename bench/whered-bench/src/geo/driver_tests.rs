//! The driver against a small server in a thread: it counts right, and it notices wrong replies.

use super::*;
use crate::geo::read_reply;
use std::net::{Ipv4Addr, TcpListener};

/// Answers each command by the next of `replies`, over and over, on every connection.
fn server(replies: &'static [&'static str]) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream, replies));
        }
    });
    address
}

fn answer(mut stream: std::net::TcpStream, replies: &[&str]) {
    let (mut buffer, mut next) = (Vec::new(), replies.iter().cycle());
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        buffer.extend_from_slice(&piece[..count]);
        // A command is an array, so what reads replies can read it.
        while let Ok(Some(command)) = read_reply(&buffer) {
            buffer.drain(..command.size_bytes);
            let reply = next.next().unwrap();
            if stream.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn script(count: usize) -> Script {
    let mut script = Script::default();
    (0..count).for_each(|_| script.push(&[b"PING"]));
    script
}

fn run(address: SocketAddr, until: Until) -> Result<Vec<Done>, String> {
    let scripts = [script(8)];
    let replies = [Replies::constant(b"+PONG\r\n", 8)];
    let group = Group { connections: 3, pipeline: 4, scripts: &scripts, replies: &replies };
    let single = Group { connections: 1, pipeline: 1, ..group };
    Driver::connect(address, &[group, single])?.run(until)
}

#[test]
fn every_batch_is_counted_once() {
    let address = server(&["+PONG\r\n"]);
    let done = run(address, Until::Time(Duration::from_millis(30))).unwrap();
    assert_eq!(done[0].operations, 4 * done[0].latencies.count());
    assert_eq!(done[1].operations, done[1].latencies.count());
    assert!(done[0].operations >= 12 && done[1].operations >= 1);
}

#[test]
fn a_script_is_driven_to_its_end() {
    let address = server(&["+PONG\r\n"]);
    let scripts = [script(8)];
    let replies = [Replies::constant(b"+PONG\r\n", 8)];
    let group = Group { connections: 1, pipeline: 2, scripts: &scripts, replies: &replies };
    let mut driver = Driver::connect(address, &[group]).unwrap();
    let first = driver.run(Until::Time(Duration::ZERO)).unwrap();
    assert_eq!(first[0].operations, 0);
    driver.connections[0].at = 2;
    assert_eq!(driver.run(Until::ScriptEnd).unwrap()[0].operations, 6);
}

#[test]
fn an_error_or_a_longer_reply_is_noticed() {
    let time = Until::Time(Duration::from_millis(30));
    let error = run(server(&["-ERR no such\r\n"]), time).unwrap_err();
    assert!(error.contains("unexpected reply"), "{error}");
    assert!(run(server(&["+PONG\r\n", "+PONG too long\r\n"]), time).is_err());
}

#[test]
fn a_script_that_is_no_multiple_of_the_pipeline_is_refused() {
    let scripts = [script(8)];
    let replies = [Replies::constant(b"+PONG\r\n", 8)];
    let group = Group { connections: 1, pipeline: 3, scripts: &scripts, replies: &replies };
    assert!(Driver::connect(server(&["+PONG\r\n"]), &[group]).is_err());
}
