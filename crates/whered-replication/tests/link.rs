//! Links to primaries that say what is right, and to those that lie.

mod fake;

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use fake::{FakePrimary, ID, command, impatience, request};
use whered_replication::rdb::{Limits, Reader};
use whered_replication::{
    CommandStream, Connection, Introduction, LinkError, Piece, ReplicationId, Resync,
};

const EMPTY_DUMP: &[u8] = b"REDIS0003\xff";
const LONG: Duration = Duration::from_secs(5);

fn open(primary: &FakePrimary) -> Result<Connection, LinkError> {
    let mut connection = Connection::open(&primary.address, impatience())?;
    connection.introduce(&Introduction { listening_port: Some(7), ..Introduction::default() })?;
    Ok(connection)
}

/// Takes a dump whole, and gives how many keys and members it has.
fn dump_of(connection: &mut Connection) -> Result<usize, String> {
    let body = connection.dump().map_err(|error| error.to_string())?;
    let mut reader = Reader::new(body, Limits::default()).map_err(|error| error.to_string())?;
    let mut events = 0;
    while reader.next_event().map_err(|error| error.to_string())?.is_some() {
        events += 1;
    }
    let (body, rest) = reader.into_parts();
    body.finish(&rest).map_err(|error| error.to_string())?;
    Ok(events)
}

/// The error of a full resync from a primary that says this behind `+FULLRESYNC`.
fn error_after(bytes: &[u8]) -> String {
    let said = [format!("+FULLRESYNC {ID} 7\r\n").as_bytes(), bytes].concat();
    let primary = FakePrimary::saying(said);
    let mut connection = open(&primary).expect("the handshake is right");
    let resync = connection.synchronize(None).expect("a full resync");
    assert!(matches!(resync, Resync::Full { offset: 7, .. }), "{resync:?}");
    dump_of(&mut connection).expect_err("it lies")
}

/// The commands that come behind `+CONTINUE`, as texts with their offsets.
fn commands_of(bytes: &[u8]) -> (Vec<(String, i64)>, Option<String>) {
    let primary = FakePrimary::saying([b"+CONTINUE\r\n", bytes].concat());
    let mut connection = open(&primary).expect("the handshake is right");
    let id = ReplicationId::parse(ID).expect("an id");
    connection.synchronize(Some((id, 100))).expect("it goes on");
    let mut stream = CommandStream::new(connection, 100, |name| name == b"set");
    let mut found = Vec::new();
    let mut raw = Vec::new();
    loop {
        match stream.next_batch(LONG, 3) {
            Ok(batch) => {
                for piece in batch.pieces(batch.len()) {
                    match piece {
                        Piece::Bytes(part) => raw.extend_from_slice(part),
                        Piece::PassedOver(count) => raw.resize(raw.len() + count as usize, 0),
                    }
                }
                for command in batch.commands() {
                    let words = command.spans.iter().map(|(start, end)| {
                        String::from_utf8_lossy(&command.bytes[*start..*end]).into_owned()
                    });
                    let cut = if command.is_cut { " (cut)" } else { "" };
                    let words: Vec<String> = words.collect();
                    found.push((words.join(" ") + cut, command.offset));
                }
                let (count, end) = (batch.len(), batch.end_offset());
                stream.accept(count);
                assert_eq!(stream.offset(), end);
                // The bytes are as they came, with zeros for what was passed over.
                assert_eq!(raw.len() as i64, end - 100);
                let is_same = |(kept, sent): (&u8, &u8)| kept == sent || *kept == 0;
                assert!(raw.iter().zip(bytes).all(is_same), "{}", raw.escape_ascii());
            }
            Err(error) => return (found, Some(error.to_string())),
        }
    }
}

#[test]
fn the_handshake_tells_port_version_and_capabilities() {
    let primary = FakePrimary::saying(format!("+FULLRESYNC {ID} 0\r\n"));
    let mut connection = open(&primary).expect("the handshake is right");
    let id = ReplicationId::parse(ID).expect("an id");
    assert_eq!(connection.synchronize(None), Ok(Resync::Full { id, offset: 0 }));
    drop(connection);
    assert_eq!(
        primary.asked(),
        [
            "PING",
            "REPLCONF listening-port 7",
            "REPLCONF version 9.1.0",
            "REPLCONF capa eof",
            "REPLCONF capa psync2",
            "PSYNC ? -1"
        ]
    );
}

#[test]
fn a_position_is_asked_from_with_the_next_byte() {
    let other = "f".repeat(40);
    let primary = FakePrimary::saying(format!("+CONTINUE {other}\r\n"));
    let mut connection = open(&primary).expect("the handshake is right");
    let id = ReplicationId::parse(ID).expect("an id");
    let resync = connection.synchronize(Some((id, 41)));
    assert_eq!(resync, Ok(Resync::Continue { id: ReplicationId::parse(&other) }));
    drop(connection);
    assert_eq!(primary.asked().last().map(String::as_str), Some(format!("PSYNC {ID} 42").as_str()));
}

#[test]
fn user_and_password_are_sent_first_and_a_wrong_one_is_no_secret_in_the_error() {
    let answer = |words: &[String]| match words[0].as_str() {
        "AUTH" => "-WRONGPASS invalid username-password pair".to_owned(),
        _ => "+OK".to_owned(),
    };
    let primary = FakePrimary::start(answer, |_| ());
    let mut address = primary.address.clone();
    address.credentials.user = Some("ann".to_owned());
    address.credentials.password = Some("geheim".to_owned());
    let error = Connection::open(&address, impatience()).err().expect("it is wrong").to_string();
    assert!(error.contains("refuses the user name or password (WRONGPASS"), "{error}");
    assert!(!error.contains("geheim"), "{error}");
    assert_eq!(primary.asked(), ["AUTH ann geheim"]);
}

#[test]
fn refusals_say_in_the_primarys_words_why() {
    for (reply, expected) in [
        ("-NOPERM this user has no permissions", "allowed: a user with +psync +replconf +ping"),
        ("-NOMASTERLINK Can't SYNC while not connected", "gives no replication (NOMASTERLINK"),
        ("-ERR unknown command 'PSYNC'", "gives no replication (ERR unknown command"),
        ("-LOADING Redis is loading", "gives no replication (LOADING"),
        ("+FULLRESYNC 0123 5", "what is no answer to it"),
        ("+FULLRESYNC 0123456789abcdef0123456789abcdef01234567 -5", "what is no answer to it"),
        ("+CONTINUE", "what is no answer to it"),
        ("+OK", "what is no answer to it"),
        ("HTTP/1.1 400 Bad Request", "does not answer as a Redis does"),
    ] {
        let primary = FakePrimary::saying(format!("{reply}\r\n"));
        let mut connection = open(&primary).expect("the handshake is right");
        let error = connection.synchronize(None).expect_err(reply).to_string();
        assert!(error.contains(expected), "{reply}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn a_dump_of_a_known_length_and_one_with_a_mark_are_taken_whole() {
    let mark = "m".repeat(40);
    let after = command(&["ping"]);
    for said in [
        [format!("\n\n\n${}\r\n", EMPTY_DUMP.len()).as_bytes(), EMPTY_DUMP, &after].concat(),
        [format!("\n$EOF:{mark}\r\n").as_bytes(), EMPTY_DUMP, mark.as_bytes(), &after].concat(),
    ] {
        let said = [format!("+FULLRESYNC {ID} 9\r\n").as_bytes(), &said].concat();
        let primary = FakePrimary::saying(said);
        let mut connection = open(&primary).expect("the handshake is right");
        connection.synchronize(None).expect("a full resync");
        assert_eq!(dump_of(&mut connection), Ok(0));
        let mut stream = CommandStream::new(connection, 9, |_| false);
        let batch = stream.next_batch(LONG, 10).expect("a command");
        let command = batch.commands().next().expect("one");
        assert_eq!((command.get(0), command.offset), (Some(&b"ping"[..]), 9 + 14));
    }
}

#[test]
fn a_dump_that_lies_is_an_error_of_one_line() {
    let mark = "m".repeat(40);
    let mut bad_sum = b"REDIS0010\xff".to_vec();
    bad_sum.extend([1; 8]);
    for (said, expected) in [
        (b"$9\r\nREDIS0003\xff".to_vec(), "the dump ends too early"),
        (b"$11\r\nREDIS0003\xff ".to_vec(), "the dump is longer than its last key"),
        (b"$100\r\nREDIS0003".to_vec(), "the dump ends too early"),
        ([b"$18\r\n", &bad_sum[..]].concat(), "the checksum is"),
        (b"$10\r\nREDIS9999\xff".to_vec(), "begins no dump that is known"),
        (b"$10\r\nVALKEY999\xff".to_vec(), "begins no dump that is known"),
        (b"$10\r\nGARBAGE00\xff".to_vec(), "begins no dump that is known"),
        (format!("$EOF:{mark}\r\nREDIS0003\u{7f}").into_bytes(), "is not known"),
        (
            [format!("$EOF:{mark}\r\n").as_bytes(), EMPTY_DUMP, "n".repeat(40).as_bytes()].concat(),
            "does not end with its mark",
        ),
        ([format!("$EOF:{mark}\r\n").as_bytes(), EMPTY_DUMP, b"mmm"].concat(), "closes"),
        (b"$EOF:short\r\n".to_vec(), "sends no dump"),
        (b"$-1\r\n".to_vec(), "sends no dump"),
        (b"$99999999999999999999999\r\n".to_vec(), "sends no dump"),
        (b"-ERR out of memory\r\n".to_vec(), "sends no dump (ERR out of memory)"),
        (vec![b'x'; 100_000], "sends a line that does not end"),
        (Vec::new(), "closes the connection"),
    ] {
        let error = error_after(&said);
        assert!(error.contains(expected), "{}: {error}", said.escape_ascii());
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn a_length_that_is_only_claimed_takes_no_memory() {
    // A key of 512 MB less one, and then the end.
    let error = error_after(b"$1000\r\nREDIS0003\x00\x80\x1f\xff\xff\xffabc");
    assert!(error.contains("the dump ends too early"), "{error}");
}

#[test]
fn endless_keep_alives_end_in_an_error() {
    let primary = FakePrimary::start(
        |_| "+OK".to_owned(),
        |socket| {
            let said = format!("+FULLRESYNC {ID} 0\r\n");
            let mut told = socket.write_all(said.as_bytes());
            while told.is_ok() {
                told = socket.write_all(b"\n");
            }
        },
    );
    let mut connection = open(&primary).expect("the handshake is right");
    connection.synchronize(None).expect("a full resync");
    let error = dump_of(&mut connection).expect_err("nothing comes");
    assert!(error.contains("nothing but keep-alives"), "{error}");
    drop(connection);
    primary.asked();
}

#[test]
fn silence_ends_in_an_error_and_a_closer_ends_it_at_once() {
    let quiet = || {
        FakePrimary::start(
            |_| "+OK".to_owned(),
            |socket| {
                let mut rest = Vec::new();
                // Until the client closes.
                drop(socket.read_to_end(&mut rest));
            },
        )
    };
    let primary = quiet();
    let mut connection = open(&primary).expect("the handshake is right");
    let error = connection.synchronize(None).expect_err("nothing comes").to_string();
    assert!(error.contains("does not answer in time"), "{error}");
    drop(connection);
    primary.asked();

    let primary = quiet();
    let patient =
        whered_replication::Patience { silence: Duration::from_secs(600), ..impatience() };
    let mut connection = Connection::open(&primary.address, patient).expect("it listens");
    let closer = connection.closer().expect("a descriptor");
    let begun = Instant::now();
    let closing = thread::spawn(move || closer.close());
    assert!(connection.synchronize(None).is_err());
    assert!(begun.elapsed() < Duration::from_secs(300), "it waited for the silence to end");
    closing.join().expect("it closes");
}

#[test]
fn offsets_count_every_byte_and_transactions_come_whole() {
    let parts = [
        command(&["SELECT", "0"]),
        command(&["zadd", "k", "1", "m"]),
        b"\r\n".to_vec(),
        command(&["MULTI"]),
        command(&["zadd", "k", "2", "m"]),
        command(&["del", "k"]),
        command(&["EXEC"]),
        command(&["REPLCONF", "GETACK", "*"]),
    ];
    let (found, error) = commands_of(&parts.concat());
    let mut offset = 100;
    let texts =
        ["SELECT 0", "zadd k 1 m", "", "MULTI", "zadd k 2 m", "del k", "EXEC", "REPLCONF GETACK *"];
    let expected: Vec<(String, i64)> = parts
        .iter()
        .zip(texts)
        .map(|(part, text)| {
            offset += part.len() as i64;
            (text.to_owned(), offset)
        })
        .collect();
    assert_eq!(found, expected);
    assert!(error.is_some_and(|error| error.contains("closes the connection")));
}

#[test]
fn empty_lines_in_a_transaction_are_no_commands_and_their_bytes_are_counted() {
    let multi = command(&["MULTI"]);
    let empty = b"\n\r\n".repeat(1000);
    let parts = [&multi[..], &empty, &command(&["del", "k"]), &empty, &command(&["EXEC"])];
    let (found, _) = commands_of(&parts.concat());
    let end = |count: usize| 100 + parts[..count].concat().len() as i64;
    let expected = [("MULTI", end(1)), ("del k", end(3)), ("EXEC", end(5))];
    assert_eq!(found, expected.map(|(text, offset)| (text.to_owned(), offset)));
}

#[test]
fn an_argument_that_was_passed_over_is_told_from_one_that_was_empty() {
    let long = "v".repeat(100_000);
    let parts = [command(&["set", "", &long, ""]), command(&["set", &long, "", "x"])].concat();
    let primary = FakePrimary::saying([b"+CONTINUE\r\n", &parts[..]].concat());
    let mut connection = open(&primary).expect("the handshake is right");
    let id = ReplicationId::parse(ID).expect("an id");
    connection.synchronize(Some((id, 0))).expect("it goes on");
    let mut stream = CommandStream::new(connection, 0, |_| true);
    let mut found = Vec::new();
    while let Ok(batch) = stream.next_batch(LONG, 10) {
        let cut = |it: whered_replication::StreamCommand<'_>| {
            [0, 1, 2, 3, 4].map(|index| it.is_passed_over(index))
        };
        found.extend(batch.commands().map(cut));
        let count = batch.len();
        stream.accept(count);
    }
    assert_eq!(found, [[false, false, true, false, false], [false, true, false, false, false]]);
}

#[test]
fn what_was_not_accepted_comes_again() {
    let parts = [command(&["del", "a"]), command(&["del", "bcd"]), command(&["ping"])].concat();
    let primary = FakePrimary::saying([b"+CONTINUE\r\n", &parts[..]].concat());
    let mut connection = open(&primary).expect("the handshake is right");
    let id = ReplicationId::parse(ID).expect("an id");
    connection.synchronize(Some((id, 0))).expect("it goes on");
    let mut stream = CommandStream::new(connection, 0, |_| false);
    let mut seen = Vec::new();
    while let Ok(batch) = stream.next_batch(LONG, 10) {
        let Some(first) = batch.get(0) else { break };
        let key = first.get(1).map(<[u8]>::to_vec);
        seen.push((batch.len(), key, first.offset));
        stream.accept(1);
    }
    let end = parts.len() as i64;
    let key = |name: &str| Some(name.as_bytes().to_vec());
    assert_eq!(seen, [(3, key("a"), 20), (2, key("bcd"), 42), (1, None, end)]);
    assert_eq!(stream.received(), end);
}

#[test]
fn half_a_transaction_is_not_handed_out() {
    let parts = [command(&["ping"]), command(&["MULTI"]), command(&["del", "k"])];
    let (found, _) = commands_of(&parts.concat());
    assert_eq!(found, [("ping".to_owned(), 114)]);
}

#[test]
fn long_arguments_of_commands_without_use_for_them_are_passed_over() {
    let long = "v".repeat(3_000_000);
    let parts = [
        command(&["set", "k", &long]),
        command(&["zadd", "k", "1", &long[..70_000]]),
        command(&["set", "k", &long, "PXAT", "5"]),
        command(&["ping"]),
    ];
    let (found, _) = commands_of(&parts.concat());
    let end = 100 + parts.concat().len() as i64;
    let found: Vec<(&str, i64)> =
        found.iter().map(|(words, offset)| (&words[..words.len().min(22)], *offset)).collect();
    let first = 100 + parts[0].len() as i64;
    assert_eq!(found[0], ("set k  (cut)", first));
    assert_eq!(found[1], ("zadd k 1 vvvvvvvvvvvvv", first + parts[1].len() as i64));
    assert_eq!(found[2].0, "set k  PXAT 5 (cut)");
    assert_eq!(found[3], ("ping", end));
}

#[test]
fn what_is_no_command_is_an_error_of_one_line() {
    for (said, expected) in [
        (&b"*-1\r\n"[..], "where a command begins"),
        (b"*99999999999\r\n", "where a command begins"),
        (b"*0\r\n", "where a command begins"),
        (b"PING\r\n", "where a command begins"),
        (b"*1\r\n+PING\r\n", "where an argument begins"),
        (b"*1\r\n$536870913\r\n", "where an argument begins"),
        (b"*1\r\n$3\r\nPING\r\n", "another length than it says"),
        (b"*1\r\n$00000000000000000000000000000000000000004\r\n", "where a line is expected"),
        (b"*2147483647\r\n$4\r\nzadd\r\n", "closes the connection"),
        (b"*2\r\n$4\r\nzadd\r\n$500000000\r\nabc", "closes the connection"),
    ] {
        let (found, error) = commands_of(said);
        let error = error.expect("it lies");
        assert!(found.is_empty() && error.contains(expected), "{}: {error}", said.escape_ascii());
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn an_acknowledgement_is_sent_with_its_offset() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let primary = FakePrimary::start(
        |_| "+OK".to_owned(),
        move |socket| {
            socket.write_all(b"+CONTINUE\r\n").expect("it listens");
            let mut reader = std::io::BufReader::new(socket);
            sender.send(request(&mut reader)).expect("the test waits");
        },
    );
    let mut connection = open(&primary).expect("the handshake is right");
    let id = ReplicationId::parse(ID).expect("an id");
    connection.synchronize(Some((id, 1))).expect("it goes on");
    connection.acknowledge(12).expect("it listens");
    let words = receiver.recv().expect("it has come").expect("whole");
    assert_eq!(words.join(" "), "REPLCONF ACK 12");
}
