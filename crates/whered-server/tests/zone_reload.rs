//! Zones that change under a running server: by their files and by command.

#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use whered_dns::message::{Message, Query};
use whered_dns::{Rcode, RecordType};
use whered_server::{Config, Server};

const WAIT: Duration = Duration::from_secs(10);

fn zone(serial: u32, address: &str) -> String {
    format!(
        "$TTL 60\n@ SOA ns hostmaster {serial} 1 1 1 1\n@ NS ns\nns A 127.0.0.1\nhost A {address}\n"
    )
}

struct Running {
    server: Server,
    path: std::path::PathBuf,
}

fn start(name: &str) -> Running {
    start_with(name, "")
}

/// With more lines for the zone.
fn start_with(name: &str, lines: &str) -> Running {
    let folder = std::env::temp_dir().join(format!("whered-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("example.zone");
    std::fs::write(&path, zone(1, "192.0.2.1")).unwrap();
    let text = format!(
        "[resp]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\n[http]\nlisten = []\n\
         [dns]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\n\
         [[zone]]\nname = \"example.com\"\npath = \"example.zone\"\n{lines}"
    );
    let config = Config::from_toml(&text, &folder.join("whered.toml")).unwrap();
    Running { server: Server::start(config).unwrap(), path }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.path.parent().unwrap());
    }
}

fn host(server: SocketAddr) -> Vec<u8> {
    let query = Query::new(&"host.example.com".parse().unwrap(), RecordType::A).build();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(WAIT)).unwrap();
    socket.send_to(&query, server).unwrap();
    let mut bytes = [0; 1500];
    let size = socket.recv(&mut bytes).unwrap();
    let message = Message::read(&bytes[..size]).unwrap();
    assert_eq!(message.rcode(), Rcode::NOERROR);
    message.answers[0].data.clone()
}

fn ask(server: SocketAddr, command: &str) -> String {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut bytes = [0; 1000];
    let size = stream.read(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..size]).into_owned()
}

#[test]
fn a_signed_zone_may_be_refused_and_the_unsigned_one_of_before_serves_on() {
    let signed = |serial, address| zone(serial, address) + "@ DNSKEY 257 3 13 AAAA\n";
    let running = start_with("zone_signed", "unsigned = \"refuse\"\n");
    let (dns, resp) = (running.server.dns_addresses()[0], running.server.resp_addresses()[0]);
    std::fs::write(&running.path, signed(2, "192.0.2.2")).unwrap();
    for command in ["ZONE.CHECK", "ZONE.RELOAD"] {
        let told = ask(resp, &format!("{command} example.com"));
        assert!(told.contains("example.zone:6:3: found DNSKEY in a zone that is to be"), "{told}");
    }
    assert_eq!(host(dns), [192, 0, 2, 1]);
    let running = start_with("zone_stripped", "unsigned = \"strip\"\n");
    let (dns, resp) = (running.server.dns_addresses()[0], running.server.resp_addresses()[0]);
    std::fs::write(&running.path, signed(2, "192.0.2.2")).unwrap();
    assert_eq!(ask(resp, "ZONE.RELOAD example.com"), "*2\r\n:2\r\n:4\r\n");
    assert_eq!(host(dns), [192, 0, 2, 2]);
}

#[test]
fn a_zone_is_read_anew_on_command_and_a_wrong_file_leaves_the_last_good_one() {
    let running = start("zone_command");
    let (dns, resp) = (running.server.dns_addresses()[0], running.server.resp_addresses()[0]);
    assert_eq!(ask(resp, "ZONE.LIST"), "*1\r\n$11\r\nexample.com\r\n");
    std::fs::write(&running.path, zone(2, "192.0.2.2")).unwrap();
    assert_eq!(ask(resp, "ZONE.CHECK example.com"), "*2\r\n:2\r\n:4\r\n");
    assert_eq!(ask(resp, "ZONE.RELOAD Example.COM."), "*2\r\n:2\r\n:4\r\n");
    assert_eq!(host(dns), [192, 0, 2, 2]);
    std::fs::write(&running.path, "host A 1.2.3\n").unwrap();
    let refused = ask(resp, "ZONE.RELOAD example.com");
    assert!(refused.starts_with("-ERR ") && refused.contains("example.zone:1"), "{refused}");
    assert_eq!(host(dns), [192, 0, 2, 2]);
    assert_eq!(running.server.engine().zone_failures().len(), 1);
    assert_eq!(ask(resp, "ZONE.RELOAD other.example"), "-ERR no such zone 'other.example'\r\n");
}

#[test]
fn a_zone_follows_its_file() {
    let running = start("zone_file");
    let dns = running.server.dns_addresses()[0];
    assert_eq!(host(dns), [192, 0, 2, 1]);
    let begun = Instant::now();
    // Written again until it is seen, since the first look may come after the first writing.
    let mut serial = 2;
    while host(dns) != [192, 0, 2, 3] {
        if begun.elapsed() > Duration::from_secs(3) * (serial - 1) {
            std::fs::write(&running.path, zone(serial, "192.0.2.3")).unwrap();
            serial += 1;
        }
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}

#[test]
fn a_zone_that_shall_not_follow_its_file_is_read_when_asked() {
    let running = start_with("zone_off", "reload = \"off\"\n");
    let (dns, resp) = (running.server.dns_addresses()[0], running.server.resp_addresses()[0]);
    // Zones that follow are read at the second look of those that find a change, which come each
    // second.
    for serial in [2, 3] {
        std::thread::sleep(Duration::from_millis(1500));
        std::fs::write(&running.path, zone(serial, "192.0.2.2")).unwrap();
    }
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(host(dns), [192, 0, 2, 1]);
    assert_eq!(ask(resp, "ZONE.RELOAD example.com"), "*2\r\n:3\r\n:4\r\n");
    assert_eq!(host(dns), [192, 0, 2, 2]);
}

#[test]
fn a_wrong_way_of_reloading_is_told_with_its_place() {
    let text = "[[zone]]\nname = \"example.com\"\npath = \"example.zone\"\nreload = \"notify\"\n";
    let refused = Config::from_toml(text, "whered.toml".as_ref()).unwrap_err().to_string();
    let wanted = "whered.toml:4:10: 'reload' in [[zone]] is 'notify'; allowed: 'poll' or 'off'";
    assert_eq!(refused, wanted);
}

/// The answer to A of one name: the rcode, and the data if there are any.
fn listed(message: &[u8]) -> (Rcode, Option<Vec<u8>>) {
    let message = Message::read(message).unwrap();
    (message.rcode(), message.answers.first().map(|record| record.data.clone()))
}

#[test]
fn a_blocklist_follows_its_set_by_udp_and_tcp() {
    let folder = std::env::temp_dir().join(format!("whered-blocklist-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("bl.zone");
    std::fs::write(&path, zone(1, "192.0.2.1")).unwrap();
    let text = "[resp]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\n[http]\nlisten = []\n\
                [dns]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\n\
                [[zone]]\nname = \"bl.example.com\"\npath = \"bl.zone\"\n\
                blocklist = { set = \"bad\" }\n";
    let config = Config::from_toml(text, &folder.join("whered.toml")).unwrap();
    let running = Running { server: Server::start(config).unwrap(), path };
    let (dns, resp) = (running.server.dns_addresses()[0], running.server.resp_addresses()[0]);
    let name = "77.2.0.192.bl.example.com".parse().unwrap();
    let query = Query::new(&name, RecordType::A).build();
    let by_udp = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(WAIT)).unwrap();
        socket.send_to(&query, dns).unwrap();
        let mut bytes = [0; 1500];
        let size = socket.recv(&mut bytes).unwrap();
        listed(&bytes[..size])
    };
    let by_tcp = || {
        let mut stream = TcpStream::connect(dns).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        let framed = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
        stream.write_all(&framed).unwrap();
        let mut size = [0; 2];
        stream.read_exact(&mut size).unwrap();
        let mut bytes = vec![0; u16::from_be_bytes(size).into()];
        stream.read_exact(&mut bytes).unwrap();
        listed(&bytes)
    };
    assert_eq!((by_udp(), by_tcp()), ((Rcode::NXDOMAIN, None), (Rcode::NXDOMAIN, None)));
    assert_eq!(ask(resp, "CIDR.ADD bad 192.0.2.0/24"), ":1\r\n");
    let expected = (Rcode::NOERROR, Some(vec![127, 0, 0, 2]));
    assert_eq!((by_udp(), by_tcp()), (expected.clone(), expected));
}

/// Answers of one client, in order.
struct Client(TcpStream);

impl Client {
    fn connect(server: SocketAddr) -> Client {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        Client(stream)
    }

    fn send(&mut self, commands: &str) {
        self.0.write_all(commands.as_bytes()).unwrap();
    }

    fn expect(&mut self, replies: &str) {
        let mut bytes = vec![0; replies.len()];
        self.0.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), replies);
    }
}

#[test]
fn a_worker_serves_others_while_a_zone_is_read_and_replies_keep_their_order() {
    let running = start("zone_deferred");
    let resp = running.server.resp_addresses()[0];
    // Long enough that a second client's command comes while it is read.
    let large = (0..4).map(|part| format!("$GENERATE 0-65535 h{part}x$ A 192.0.2.9\n"));
    let text = format!("{}{}", zone(5, "192.0.2.5"), large.collect::<String>());
    std::fs::write(&running.path, text).unwrap();
    let (mut slow, mut quick) = (Client::connect(resp), Client::connect(resp));
    slow.send("ZONE.RELOAD example.com\r\nPING\r\n");
    // The one worker has taken it when it counts it.
    quick.send("PING\r\n");
    quick.expect("+PONG\r\n");
    slow.0.set_nonblocking(true).unwrap();
    let early = slow.0.peek(&mut [0]);
    assert_eq!(early.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    slow.0.set_nonblocking(false).unwrap();
    slow.expect("*2\r\n:5\r\n:262148\r\n+PONG\r\n");
    assert_eq!(host(running.server.dns_addresses()[0]), [192, 0, 2, 5]);
    // In a transaction there is nobody to wait for it.
    std::fs::write(&running.path, zone(6, "192.0.2.6")).unwrap();
    slow.send("MULTI\r\nZONE.CHECK example.com\r\nZONE.RELOAD x\r\nEXEC\r\n");
    let exec = "*2\r\n*2\r\n:6\r\n:4\r\n-ERR no such zone 'x'\r\n";
    slow.expect(&format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n{exec}"));
    // A reply that is not wanted is not given later either.
    slow.send("CLIENT REPLY SKIP\r\nZONE.CHECK example.com\r\nPING\r\n");
    slow.expect("+PONG\r\n");
    // Whoever goes meanwhile is missed by nobody.
    let mut gone = Client::connect(resp);
    gone.send("ZONE.CHECK example.com\r\n");
    drop(gone);
    slow.send("ZONE.CHECK example.com\r\n");
    slow.expect("*2\r\n:6\r\n:4\r\n");
}

#[test]
fn every_kind_of_mistake_is_told_with_its_place_and_the_last_good_zone_serves_on() {
    let running = start("zone_mistakes");
    let (dns, resp) = (running.server.dns_addresses()[0], running.server.resp_addresses()[0]);
    let head = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\n";
    let many = "m TXT 012345678901234567890123456789012345678901234567890123456789\n";
    let many: String = (0..1200)
        .map(|number| many.replace("0123456789012345", &format!("{number:016}")))
        .collect();
    let cases = [
        ("b A 192.0.2.300\n", "4:5: found \"192.0.2.300\""),
        ("b A\n", "4:3: found data of type A that end too early"),
        ("b A 192.0.2.1 x\n", "4:15: found"),
        ("b NOTYPE x\n", "4:3: found \"NOTYPE\" where"),
        ("b 60\n", "4:3: found a record that ends before its type"),
        ("b CH A 192.0.2.1\n", "4:3: found the class CH; allowed: IN, once"),
        ("b OPT x\n", "4:3: found the type OPT, which is no data"),
        ("a..b A 192.0.2.1\n", "4:1: found"),
        ("b.example.org. A 192.0.2.300\n", "4:18: found \"192.0.2.300\""),
        ("b TXT \"open\n", "4:7: found a quotation that does not end"),
        ("b A ( 192.0.2.1\n", "4:5: found a ( that is never closed"),
        ("b A 192.0.2.1 )\n", "4:15: found a ) without ("),
        ("b TXT a\\256\n", "4:8: found a bad escape"),
        ("b MX 1 \u{e4}\n", "4:8: found"),
        ("b 4294967296 A 192.0.2.1\n", "4:3: found \"4294967296\""),
        ("$NOTHING x\n", "4:1: found the directive $NOTHING"),
        ("$TTL x\n", "4:6: found \"x\""),
        ("$ORIGIN a..b\n", "4:9: found"),
        ("$GENERATE 2-1 a$ A 192.0.2.$\n", "4:11: found the range \"2-1\""),
        ("$GENERATE 1-9999999 a$ A 192.0.2.1\n", "4:11: found too many generated lines"),
        ("$INCLUDE missing\n", "4:10: found \"missing\""),
        ("$INCLUDE example.zone\n", "too many included files"),
        ("b CNAME a\nb A 192.0.2.1\n", "5:1: found CNAME and A"),
        ("@ SOA ns hm 2 2 3 4 5\n", "4:1: found a second SOA"),
        ("b SOA ns hm 1 2 3 4 5\n", "4:1: found a SOA below the apex"),
        ("b DNAME a\nb DNAME c\n", "5:1: found a second DNAME"),
        (many.as_str(), "found 1200 records of one type"),
    ];
    let mut wrong = Vec::new();
    for (text, told) in cases {
        std::fs::write(&running.path, format!("{head}{text}")).unwrap();
        for command in ["CHECK", "RELOAD"] {
            let reply = ask(resp, &format!("ZONE.{command} example.com"));
            let has_place = reply.starts_with("-ERR ") && reply.contains("example.zone:");
            if !has_place || !reply.contains(told) || reply.lines().count() != 1 {
                wrong.push(format!("{command} of {text:?}: {reply}"));
            }
        }
        assert_eq!(host(dns), [192, 0, 2, 1], "{text}");
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
    std::fs::write(&running.path, zone(9, "192.0.2.9")).unwrap();
    assert_eq!(ask(resp, "ZONE.RELOAD example.com"), "*2\r\n:9\r\n:4\r\n");
    assert_eq!(host(dns), [192, 0, 2, 9]);
}

#[test]
fn a_zone_follows_the_files_that_it_includes() {
    let running = start("zone_included");
    let (dns, resp) = (running.server.dns_addresses()[0], running.server.resp_addresses()[0]);
    let folder = running.path.parent().unwrap();
    let text = zone(2, "192.0.2.2").replace("host A 192.0.2.2", "$INCLUDE hosts");
    std::fs::write(folder.join("hosts"), "host A 192.0.2.2\n").unwrap();
    std::fs::write(&running.path, text).unwrap();
    assert_eq!(ask(resp, "ZONE.RELOAD example.com"), "*2\r\n:2\r\n:4\r\n");
    // Written again until it is seen, as above; a mistake on the way is told and mended.
    for (number, data) in [("3", "192.0.2.3"), ("wrong", "192.0.2."), ("4", "192.0.2.4")] {
        let is_taken = || {
            let has_failed = !running.server.engine().zone_failures().is_empty();
            if number == "wrong" {
                has_failed
            } else {
                !has_failed && host(dns)[3].to_string() == number
            }
        };
        let (begun, mut written) = (Instant::now(), 0);
        while !is_taken() {
            if begun.elapsed() >= Duration::from_secs(3) * written {
                written += 1;
                let spaces = " ".repeat(written as usize);
                std::fs::write(folder.join("hosts"), format!("host{spaces}A {data}\n")).unwrap();
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{number}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    assert!(running.server.engine().zone_failures().is_empty());
}

#[test]
fn challenges_are_answered_from_the_next_question_on() {
    let running = start("zone_challenges");
    let (dns, resp) = (running.server.dns_addresses()[0], running.server.resp_addresses()[0]);
    let texts = || {
        let name = "_acme-challenge.www.example.com".parse().unwrap();
        let query = Query::new(&name, RecordType::TXT).build();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(WAIT)).unwrap();
        socket.send_to(&query, dns).unwrap();
        let mut bytes = [0; 1500];
        let size = socket.recv(&mut bytes).unwrap();
        let message = Message::read(&bytes[..size]).unwrap();
        let texts = message.answers.iter().map(|record| record.data[1..3].to_vec());
        (message.rcode(), texts.map(|text| String::from_utf8(text).unwrap()).collect::<Vec<_>>())
    };
    let [one, two] = ["a1", "b2"].map(|start| format!("{start}{}", "x".repeat(41)));
    assert_eq!(texts(), (Rcode::NXDOMAIN, vec![]));
    assert_eq!(ask(resp, &format!("ACME.SET www.example.com {one} EX 1000")), ":1\r\n");
    assert_eq!(ask(resp, &format!("acme.set _acme-challenge.www.example.com {two}")), ":1\r\n");
    assert_eq!(ask(resp, &format!("ACME.SET www.example.com {two} ex 600")), ":0\r\n");
    assert_eq!(texts(), (Rcode::NOERROR, vec!["a1".to_owned(), "b2".to_owned()]));
    let owner = "$32\r\n_acme-challenge.www.example.com.\r\n";
    let entry = |token: &str, left: u32| format!("*3\r\n{owner}$43\r\n{token}\r\n:{left}\r\n");
    let list = format!("*2\r\n{}{}", entry(&one, 1000), entry(&two, 600));
    assert_eq!(ask(resp, "ACME.LIST"), list);
    assert_eq!(ask(resp, &format!("ACME.DEL www.example.com {one}")), ":1\r\n");
    assert_eq!(texts(), (Rcode::NOERROR, vec!["b2".to_owned()]));
    assert_eq!(ask(resp, "ACME.DEL www.example.com"), ":1\r\n");
    assert_eq!(ask(resp, "ACME.DEL www.example.com"), ":0\r\n");
    assert_eq!((texts().0, ask(resp, "ACME.LIST")), (Rcode::NXDOMAIN, "*0\r\n".to_owned()));
    let refusal = ask(resp, &format!("ACME.SET www.example.org {one}"));
    assert!(refusal.contains("no zone of this server answers at"), "{refusal}");
    assert!(ask(resp, "ACME.SET www.example.com x").contains("'x' is no token"));
    assert_eq!(ask(resp, &format!("ACME.SET a.example.com {one} PX 1")), "-ERR syntax error\r\n");
    let refusal = ask(resp, &format!("ACME.SET a.example.com {one} EX 0"));
    assert_eq!(refusal, "-ERR invalid expire time in 'acme.set' command\r\n");
}
