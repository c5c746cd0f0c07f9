//! Restarts that lose nothing: a process hands its sockets and its data to the next one.
//!
//! Not for: messages between the two (`whered-server` has tests of those).

#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]
#![allow(clippy::print_stdout, reason = "the long test tells what it did")]

mod served;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use served::{Served, WAIT, folder, is_running, wait_for_end};
use whered_dns::RecordType;
use whered_dns::message::{Message, Query};

const NAMES: usize = 500;

/// A server with a zone of names whose addresses tell which name it is.
fn start(name: &str) -> Served {
    let folder = folder(name);
    let mut zone = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n".to_owned();
    for number in 0..NAMES {
        writeln!(zone, "h{number} A 10.0.{}.{}", number / 256, number % 256).expect("in memory");
    }
    fs::write(folder.join("example.zone"), zone).expect("the folder was just made");
    let config = "data_dir = \"data\"\n\
        [resp]\nlisten = [\"127.0.0.1:0\"]\nthreads = 2\nunix_socket = \"resp.sock\"\n\
        [http]\nlisten = [\"127.0.0.1:0\"]\n\
        [dns]\nlisten = [\"127.0.0.1:0\"]\nthreads = 2\n\
        [[zone]]\nname = \"example.com\"\npath = \"example.zone\"\n";
    fs::write(folder.join("whered.toml"), config).expect("the folder was just made");
    Served::start(folder)
}

fn question(number: usize, id: u16) -> Vec<u8> {
    let name = format!("h{}.example.com", number % NAMES).parse().expect("a name");
    let mut query = Query::new(&name, RecordType::A).build();
    query[..2].copy_from_slice(&id.to_be_bytes());
    query
}

/// Whether a message is the right answer to the question of that number.
fn is_right(message: &[u8], number: usize) -> bool {
    let Ok(message) = Message::read(message) else {
        return false;
    };
    let number = (number % NAMES) as u16;
    let [high, low] = number.to_be_bytes();
    message.answers.first().is_some_and(|record| record.data == [10, 0, high, low])
}

/// Questions at a steady pace, whatever comes back: how many were asked and answered.
fn ask_by_udp(server: SocketAddr, stop: &Arc<AtomicBool>) -> JoinHandle<(usize, usize)> {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.connect(server).expect("loopback");
        socket.set_nonblocking(true).expect("a socket");
        let (mut asked, mut open, mut answered) = (0, HashSet::new(), 0);
        let mut bytes = [0; 2000];
        let mut receive = |open: &mut HashSet<u16>| loop {
            match socket.recv(&mut bytes) {
                Ok(size) => {
                    let id = u16::from_be_bytes([bytes[0], bytes[1]]);
                    assert!(open.remove(&id), "an answer to nothing");
                    assert!(is_right(&bytes[..size], id.into()), "a wrong answer");
                    answered += 1;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return answered,
                Err(error) => panic!("an open socket was refused: {error}"),
            }
        };
        while !stop.load(Ordering::Relaxed) && asked < usize::from(u16::MAX) {
            socket.send(&question(asked, asked as u16)).expect("loopback takes it");
            open.insert(asked as u16);
            asked += 1;
            receive(&mut open);
            std::thread::sleep(Duration::from_millis(1));
        }
        let begun = Instant::now();
        while !open.is_empty() && begun.elapsed() < Duration::from_secs(2) {
            receive(&mut open);
            std::thread::sleep(Duration::from_millis(1));
        }
        (asked, receive(&mut open))
    })
}

/// One connection for each question: every one must be accepted and answered.
fn ask_by_tcp(server: SocketAddr, stop: &Arc<AtomicBool>) -> JoinHandle<usize> {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) {
            let mut stream = TcpStream::connect(server).expect("somebody listens");
            stream.set_read_timeout(Some(WAIT)).expect("a socket");
            let query = question(number, number as u16);
            let framed = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
            stream.write_all(&framed).expect("it is open");
            let mut size = [0; 2];
            stream.read_exact(&mut size).expect("an answer");
            let mut bytes = vec![0; u16::from_be_bytes(size).into()];
            stream.read_exact(&mut bytes).expect("the whole answer");
            assert!(is_right(&bytes, number), "a wrong answer");
            number += 1;
            std::thread::sleep(Duration::from_millis(5));
        }
        number
    })
}

fn framed(number: usize) -> Vec<u8> {
    let query = question(number, number as u16);
    [&(query.len() as u16).to_be_bytes()[..], &query].concat()
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).expect("somebody listens");
    stream.set_read_timeout(Some(WAIT)).expect("a socket");
    stream.set_nodelay(true).expect("a socket");
    stream
}

/// Reads the answer to the question of that number.
fn read_answer(stream: &mut TcpStream, number: usize) -> std::io::Result<()> {
    let mut size = [0; 2];
    stream.read_exact(&mut size)?;
    let mut bytes = vec![0; u16::from_be_bytes(size).into()];
    stream.read_exact(&mut bytes)?;
    assert_eq!(bytes[..2], (number as u16).to_be_bytes(), "in the order of the questions");
    assert!(is_right(&bytes, number), "a wrong answer");
    Ok(())
}

/// One connection for all questions, in bursts of `burst` that are cut anywhere: how many were
/// asked, all of which were answered.
fn ask_on_one_connection(
    server: SocketAddr,
    burst: usize,
    stop: &Arc<AtomicBool>,
) -> JoinHandle<usize> {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let (mut stream, mut number) = (connect(server), 0);
        while !stop.load(Ordering::Relaxed) {
            let asked: Vec<u8> = (number..number + burst).flat_map(framed).collect();
            let (one, other) = asked.split_at(1 + number * 7 % (asked.len() - 1));
            stream.write_all(one).expect("it is open");
            if number % 3 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            stream.write_all(other).expect("it is open");
            for number in number..number + burst {
                let answered = read_answer(&mut stream, number);
                answered.unwrap_or_else(|error| panic!("question {number} is lost: {error}"));
            }
            number += burst;
        }
        number
    })
}

/// The timeout of keepalive in the answer to a question with EDNS that does not ask for it.
fn told_timeout(stream: &mut TcpStream) -> Option<u16> {
    let query = Query::new(&"h1.example.com".parse().expect("a name"), RecordType::A);
    let query = query.edns(1232).build();
    let framed = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
    stream.write_all(&framed).expect("it is open");
    let mut size = [0; 2];
    stream.read_exact(&mut size).expect("an answer");
    let mut bytes = vec![0; u16::from_be_bytes(size).into()];
    stream.read_exact(&mut bytes).expect("the whole answer");
    let edns = Message::read(&bytes).expect("a message").edns.expect("EDNS is answered with it");
    let (_, data) = edns.options.into_iter().find(|(code, _)| *code == 11)?;
    data.first_chunk().map(|timeout| u16::from_be_bytes(*timeout))
}

/// Writes one member after the other, on new connections when one ends; gives those acknowledged.
fn write_members(server: SocketAddr, stop: &Arc<AtomicBool>) -> JoinHandle<Vec<usize>> {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let (mut acknowledged, mut number) = (Vec::new(), 0);
        while !stop.load(Ordering::Relaxed) {
            let mut stream = TcpStream::connect(server).expect("somebody listens");
            stream.set_read_timeout(Some(WAIT)).expect("a socket");
            loop {
                number += 1;
                let command = format!("GEOADD places 8 50 m{number}\r\n");
                let mut reply = [0; 4];
                let told = stream
                    .write_all(command.as_bytes())
                    .and_then(|()| stream.read_exact(&mut reply));
                if told.is_err() {
                    break;
                }
                assert_eq!(&reply, b":1\r\n", "no write is refused");
                acknowledged.push(number);
                std::thread::sleep(Duration::from_millis(1));
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
        acknowledged
    })
}

fn ask(server: SocketAddr, command: &str, end: &str) -> String {
    let mut stream = TcpStream::connect(server).expect("somebody listens");
    stream.set_read_timeout(Some(WAIT)).expect("a socket");
    stream.write_all(command.as_bytes()).expect("it is open");
    let (mut reply, mut bytes) = (String::new(), [0; 65536]);
    while !reply.ends_with(end) {
        match stream.read(&mut bytes).expect("a reply") {
            0 => break,
            size => reply.push_str(&String::from_utf8_lossy(&bytes[..size])),
        }
    }
    reply
}

/// What the kernel has dropped of the server's sockets for want of room.
fn dropped(server: SocketAddr) -> usize {
    const QUESTION: &str = "GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text\r\n\r\n";
    let metrics = ask(server, QUESTION, "# EOF\n");
    let line = metrics.lines().find_map(|line| line.strip_prefix("whered_dns_dropped_total "));
    line.expect("there is such a metric").parse().expect("a number")
}

#[test]
fn twenty_restarts_under_load_lose_no_question_no_connection_and_no_write() {
    let mut served = start("twenty-restarts");
    let (dns, resp) = (served.dns, served.resp);
    let stop = Arc::new(AtomicBool::new(false));
    let by_udp: Vec<_> = (0..6).map(|_| ask_by_udp(dns, &stop)).collect();
    let (by_tcp, writer) = (ask_by_tcp(dns, &stop), write_members(resp, &stop));
    for restart in 0..20 {
        let old = served.pid();
        served.signal("USR2");
        served.wait_until_ready();
        wait_for_end(old);
        assert_ne!(served.pid(), old);
        assert_eq!((served.dns, served.resp), (dns, resp), "restart {restart}: {}", served.log());
    }
    stop.store(true, Ordering::Relaxed);
    let totals = by_udp.into_iter().map(|thread| thread.join().expect("answers are right"));
    let (asked, answered) = totals.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let by_tcp = by_tcp.join().expect("every connection is answered");
    let acknowledged = writer.join().expect("every write is taken");
    let (lost, dropped) = (asked - answered, dropped(served.http));
    println!(
        "{asked} questions by UDP, {lost} lost, {dropped} dropped by the kernel; {by_tcp} by TCP; \
         {} writes",
        acknowledged.len()
    );
    assert!(lost <= dropped, "{lost} lost, {dropped} dropped");
    assert!(asked > 1000 && by_tcp > 20 && acknowledged.len() > 20);
    let members = ask(resp, "ZRANGE places 0 -1\r\nPING\r\n", "+PONG\r\n");
    let members: HashSet<_> = members.lines().collect();
    let missing = acknowledged.iter().filter(|number| !members.contains(&*format!("m{number}")));
    assert_eq!(missing.count(), 0);
}

#[test]
fn twenty_restarts_under_load_lose_no_question_on_connections_that_stay_open() {
    let mut served = start("open-connections");
    let dns = served.dns;
    let stop = Arc::new(AtomicBool::new(false));
    let asking: Vec<_> = [1, 2, 7, 50, 50, 50, 100, 400]
        .map(|burst| ask_on_one_connection(dns, burst, &stop))
        .into();
    let (mut quiet, mut half) = (connect(dns), connect(dns));
    for restart in 0..20 {
        // One that nothing was asked on before; an idle one is closed after ten seconds.
        let mut never_asked = connect(dns);
        // One that asks now and then, and one whose message is cut by the restart.
        quiet.write_all(&framed(restart)).expect("it is open");
        read_answer(&mut quiet, restart).expect("an answer");
        let message = framed(restart);
        let cut = restart * 5 % message.len();
        half.write_all(&message[..cut]).expect("it is open");
        let old = served.pid();
        served.signal("USR2");
        served.wait_until_ready();
        half.write_all(&message[cut..]).expect("it is open");
        read_answer(&mut half, restart).expect("an answer");
        never_asked.write_all(&framed(restart)).expect("it is open");
        read_answer(&mut never_asked, restart).expect("an answer");
        wait_for_end(old);
        assert_ne!(served.pid(), old);
    }
    stop.store(true, Ordering::Relaxed);
    let asked: usize =
        asking.into_iter().map(|thread| thread.join().expect("every question is answered")).sum();
    println!("{asked} questions on connections that stay open, none lost");
    assert!(asked > 5000, "{asked}");
}

#[test]
fn a_successor_that_takes_no_connections_leaves_them_to_the_old_process_until_they_are_quiet() {
    use socket2::{Domain, SockAddr, Socket, Type};

    let served = start("no-connections");
    let pid = served.pid();
    let mut stream = connect(served.dns);
    stream.write_all(&framed(0)).expect("it is open");
    read_answer(&mut stream, 0).expect("an answer");
    assert_eq!(told_timeout(&mut stream), None, "nobody asked for it");
    let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None).expect("a socket");
    let path = SockAddr::unix(served.folder.join("data/handover")).expect("a short path");
    socket.connect(&path).expect("somebody waits for a successor");
    socket.set_read_timeout(Some(WAIT)).expect("a socket");
    socket.send(b"whered 1 take over").expect("it is open");
    socket.send(b"data").expect("it is open");
    let mut word = [0; 5000];
    loop {
        let size = (&socket).read(&mut word).expect("a word");
        assert_ne!(size, 0, "it goes on");
        if &word[..size] == b"data is yours" {
            break;
        }
    }
    // As older programs: it serves, and takes nothing.
    socket.send(b"serving").expect("it is open");
    drop(socket);
    let begun = Instant::now();
    let (mut number, mut is_told) = (1, false);
    while begun.elapsed() < Duration::from_secs(3) {
        stream.write_all(&framed(number)).expect("it is open");
        read_answer(&mut stream, number).expect("the old process answers");
        number += 1;
        is_told |= told_timeout(&mut stream) == Some(0);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(is_told, "the client is told to close");
    assert!(is_running(pid));
    assert_eq!(stream.read(&mut word).expect("it is closed in order"), 0);
    wait_for_end(pid);
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
}

#[test]
fn a_successor_that_fails_leaves_everything_as_it_was() {
    let served = start("failed-successor");
    let pid = served.pid();
    // It fails at its files, before anything changes hands.
    fs::write(served.folder.join("example.zone"), "nonsense\n").expect("the folder is ours");
    served.signal("USR2");
    served.wait_for_log("the process that was to take over: exit status: 2", 1);
    assert_eq!((served.pid(), is_running(pid)), (pid, true));
    assert_eq!(ask(served.resp, "PING\r\n", "\r\n"), "+PONG\r\n");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(WAIT)).expect("a socket");
    socket.send_to(&question(7, 7), served.dns).expect("loopback");
    let mut bytes = [0; 2000];
    let size = socket.recv(&mut bytes).expect("an answer");
    assert!(is_right(&bytes[..size], 7));
}

#[test]
fn a_take_over_that_would_fail_changes_nothing_at_the_old_process() {
    let served = start("wrong-take-over");
    let pid = served.pid();
    let config = fs::read_to_string(served.folder.join("whered.toml")).expect("it is ours");
    let mut client = connect(served.resp);
    fs::write(served.folder.join("wrong.rules"), "chain input policy drop {\n accept it\n}\n")
        .expect("the folder is ours");
    let pool = |site: &str| {
        format!(
            "[[pool]]\nname = \"p\"\nowners = [\"www.example.com\"]\npolicy = [\"weighted\"]\n\
             [[pool.site]]\nname = \"s\"\n{site}\n"
        )
    };
    let feed = "[[feed]]\nname = \"f\"\nformat = \"ndjson\"\nmember = \"m\"\n\
                into = { table = \"t\" }\n";
    // A journal that a later program has begun: what the new process could not read.
    let first = fs::read(served.folder.join("data/journal-00000000000000000001.log"));
    let mut later = first.expect("there is a journal");
    (later[8], later[12]) = (9, !later[12]);
    let later_path = served.folder.join("data/journal-00000000000000009000.log");
    let mistakes = [
        ("unknown key", "[resq]\n".to_owned()),
        ("wrong.rules:2", "[[ruleset]]\nname = \"r\"\npath = \"wrong.rules\"\n".to_owned()),
        ("leads back to the pool", pool("cname = \"www.example.com\"")),
        (
            "none.pem",
            "[resp.tls]\nlisten = [\"127.0.0.1:0\"]\ncertificate = \"none.pem\"\n\
                      key = \"none.key\"\n"
                .to_owned(),
        ),
        ("the drop folder", format!("{feed}drop_folder = \"whered.toml\"\n")),
        ("feed 'f'", format!("{feed}[[feed.sink]]\nurl = \"mysql://h\"\n")),
        ("which is not there", "[backup]\ndirectory = \"none\"\n".to_owned()),
        ("there is no such user", "[server]\nuser = \"no-such-user\"\n".to_owned()),
        ("journal format 9 is unknown", "[snapshot]\n".to_owned()),
    ];
    for (says, more) in &mistakes {
        let is_later = says.starts_with("journal format");
        if is_later {
            fs::write(&later_path, &later).expect("the folder is ours");
        }
        fs::write(served.folder.join("next.toml"), format!("{config}{more}")).expect("it is ours");
        let mut next = Command::new(env!("CARGO_BIN_EXE_whered"));
        next.args(["serve", "--take-over", "--config"]).arg(served.folder.join("next.toml"));
        let ended = next.output().expect("the program runs");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{says}: {said}");
        assert!(said.lines().last().is_some_and(|line| line.contains(says)), "{says}: {said}");
        if is_later {
            fs::remove_file(&later_path).expect("it is there");
        }
        // The connection of before is still open, and the same process answers.
        client.write_all(b"GEOADD places 8 50 m\r\n").expect("it is open");
        let mut reply = [0; 4];
        client.read_exact(&mut reply).expect("an answer");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.set_read_timeout(Some(WAIT)).expect("a socket");
        socket.send_to(&question(7, 7), served.dns).expect("loopback");
        let mut bytes = [0; 2000];
        let size = socket.recv(&mut bytes).expect("an answer");
        assert!(is_right(&bytes[..size], 7), "{says}");
        assert_eq!((served.pid(), is_running(pid)), (pid, true), "{says}");
    }
    assert!(!served.log().contains("handing over"), "{}", served.log());
}

#[test]
fn a_successor_that_goes_with_the_data_is_done_without() {
    use socket2::{Domain, SockAddr, Socket, Type};

    let served = start("lost-successor");
    let acknowledged = ask(served.resp, "GEOADD places 8 50 kept\r\n", "\r\n");
    assert_eq!(acknowledged, ":1\r\n");
    for round in 1..=2 {
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None).expect("a socket");
        let path = SockAddr::unix(served.folder.join("data/handover")).expect("a short path");
        socket.connect(&path).expect("somebody waits for a successor");
        socket.send(b"whered 1 take over").expect("it is open");
        socket.send(b"data").expect("it is open");
        served.wait_for_log("handing over to another process", round);
        drop(socket);
        served.wait_for_log("the other process was gone before it served; serving on", round);
        assert_eq!(ask(served.resp, "ZCARD places\r\n", "\r\n"), ":1\r\n");
        assert!(ask(served.http, "GET /healthz HTTP/1.0\r\n\r\n", "}").contains("200 OK"));
        let stop = Arc::new(AtomicBool::new(false));
        let asking = ask_by_udp(served.dns, &stop);
        std::thread::sleep(Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        let (asked, answered) = asking.join().expect("answers are right");
        assert_eq!((asked > 0, asked), (true, answered));
    }
    // It can still be stopped as any other one.
    served.signal("TERM");
    wait_for_end(served.pid());
}

#[test]
fn taking_over_starts_where_nobody_serves_and_wants_a_data_directory() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
    let none = ["serve", "--take-over", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let refused = command.args(none).output().expect("the program runs");
    let why = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{why}");
    assert!(why.contains("taking over needs a data_dir"), "{why}");
    let served = start("nobody-serves");
    let old = served.pid();
    let stopped = served.folder.clone();
    served.signal("TERM");
    wait_for_end(old);
    let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
    command.args(["serve", "--take-over", "--config"]).arg(stopped.join("whered.toml"));
    let log = fs::File::create(stopped.join("log")).expect("the folder is ours");
    let mut process =
        command.stdout(std::process::Stdio::null()).stderr(log).spawn().expect("the program runs");
    let begun = Instant::now();
    while served.pid() != process.id() {
        assert!(begun.elapsed() < WAIT, "{}", served.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    process.kill().expect("it runs");
    process.wait().expect("it was ours");
}
