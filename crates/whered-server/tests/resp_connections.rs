//! The connections of the RESP door: transactions against writers, channels across threads, users,
//! TLS and Unix sockets, limits, slow log, latencies.
//!
//! Not for: texts and forms that Redis has too (`resp_parity.rs` compares those), bytes in pieces
//! (`resp_wire.rs`).

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use support::Door;
use support::client::{Client, Value, moves, request};
use whered_engine::EngineOptions;
use whered_server::resp::{
    RespListener, RespOptions, UnixSocketOptions, UserOptions, password_hash,
};

/// A folder of its own that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("whered-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder can be made");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Asks again until the answer fits: what another thread does shows a moment later.
fn eventually(what: &str, mut fits: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !fits() {
        assert!(Instant::now() < end, "{what} did not come to pass");
        std::thread::yield_now();
    }
}

fn counter(door: &Door, of: impl Fn(&whered_server::resp::RespCounters) -> u64) -> u64 {
    of(door.door.counters())
}

// ---- transactions ----

/// Two connections on different threads add and remove the same member in transactions; between
/// the commands of one, the other must never be seen.
#[test]
fn no_foreign_write_comes_between_the_commands_of_a_transaction() {
    let door = Door::with(EngineOptions::default(), |options| options.threads = Some(4));
    let address = door.door.addresses()[0];
    let rounds = 300;
    std::thread::scope(|scope| {
        for worker in 0..4 {
            scope.spawn(move || {
                let mut client = Client::connect(address);
                let member = format!("m{worker}");
                for _ in 0..rounds {
                    let lines = format!(
                        "MULTI\r\nGEOADD k 1 1 {member}\r\nZCARD k\r\nZREM k {member}\r\nZCARD k\r\nEXEC\r\n"
                    );
                    client.send(lines.as_bytes());
                    for _ in 0..5 {
                        client.reply();
                    }
                    let reply = client.reply();
                    assert_eq!(reply.bytes, b"*4\r\n:1\r\n:1\r\n:1\r\n:0\r\n");
                }
            });
        }
        // Writes outside of transactions wait for their end as well.
        scope.spawn(move || {
            let mut client = Client::connect(address);
            for _ in 0..rounds {
                client.send(
                    b"MULTI\r\nGEOADD k 2 2 lone\r\nZREM k lone\r\nEXEC\r\nGEOADD other 1 1 m\r\n",
                );
                for _ in 0..5 {
                    client.reply();
                }
            }
        });
    });
}

#[test]
fn optimistic_counting_loses_nothing() {
    let door = Door::with(EngineOptions::default(), |options| options.threads = Some(3));
    let address = door.door.addresses()[0];
    let (threads, rounds) = (3, 100);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(move || {
                let mut client = Client::connect(address);
                for _ in 0..rounds {
                    loop {
                        assert_eq!(client.ask(&["WATCH", "k"]), "+OK\r\n");
                        let count = client.ask(&["ZCARD", "k"]);
                        let name = format!("member-{}", count.trim_start_matches(':').trim());
                        client.ask(&["MULTI"]);
                        client.ask(&["GEOADD", "k", "NX", "1", "1", &name]);
                        // One that was given up is tried again; one that ran has added its member.
                        match client.ask(&["EXEC"]).as_str() {
                            "*-1\r\n" => {}
                            done => {
                                assert_eq!(done, "*1\r\n:1\r\n");
                                break;
                            }
                        }
                    }
                }
            });
        }
    });
    assert_eq!(door.client().ask(&["ZCARD", "k"]), format!(":{}\r\n", threads * rounds));
}

#[test]
fn a_transaction_is_answered_when_its_last_write_is_durable() {
    let folder = Folder::new("resp-exec-durable");
    let options = EngineOptions { data_dir: Some(folder.0.clone()), ..EngineOptions::default() };
    let door = Door::with(options, |_| {});
    let mut client = door.client();
    for index in 0..200 {
        client.send(
            format!("MULTI\r\nGEOADD k 1 1 {index}\r\nZCARD k\r\nEXEC\r\nPING\r\n").as_bytes(),
        );
        for _ in 0..3 {
            client.reply();
        }
        let expected = format!("*2\r\n:1\r\n:{}\r\n", index + 1);
        assert_eq!(String::from_utf8_lossy(&client.reply().bytes), expected);
        assert_eq!(client.reply().bytes, b"+PONG\r\n");
        let frames = door.engine.journal_stats().expect("there is a journal").frames;
        assert!(frames > index, "the reply came before the journal had the write");
    }
    drop(client);
    door.door.stop();
    door.engine.close().expect("the journal closes");
}

#[test]
fn a_transaction_longer_than_a_query_may_be_fails() {
    let door = Door::with(EngineOptions::default(), |options| {
        options.query_buffer_limit_bytes = 64 * 1024;
    });
    let mut client = door.client();
    client.ask(&["MULTI"]);
    let word = "x".repeat(10_000);
    let refused = (0..10).map(|_| client.ask(&["ECHO", &word])).find(|text| text.starts_with('-'));
    assert_eq!(
        refused.as_deref(),
        Some("-ERR the transaction is longer than the limit of a query\r\n")
    );
    assert!(client.ask(&["EXEC"]).starts_with("-EXECABORT"));
    assert_eq!(client.ask(&["PING"]), "+PONG\r\n");
}

#[test]
fn replies_of_a_transaction_beyond_the_output_limit_end_the_connection_not_the_server() {
    let door = Door::with(EngineOptions::default(), |options| {
        options.output_buffer_limit_bytes = 100_000;
    });
    let mut client = door.client();
    client.send(b"MULTI\r\n");
    let word = "x".repeat(10_000);
    for _ in 0..200 {
        client.send(&request(&[b"ECHO", word.as_bytes()]));
    }
    client.send(b"GEOADD k 1 1 m\r\nEXEC\r\n");
    let rest = client.rest();
    assert!(rest.len() < 100_000, "{} bytes came", rest.len());
    assert_eq!(door.client().ask(&["ZCARD", "k"]), ":1\r\n", "all of its commands ran");
}

// ---- channels ----

#[test]
fn messages_reach_listeners_of_all_threads_in_order() {
    let door = Door::with(EngineOptions::default(), |options| options.threads = Some(4));
    let mut listeners: Vec<Client> = (0..12).map(|_| door.client()).collect();
    for listener in &mut listeners {
        assert!(listener.ask(&["SUBSCRIBE", "news"]).ends_with(":1\r\n"));
    }
    let mut publisher = door.client();
    let count = 2_000;
    let lines: String = (0..count).map(|index| format!("PUBLISH news {index}\r\n")).collect();
    publisher.send(lines.as_bytes());
    for _ in 0..count {
        assert_eq!(publisher.reply().value, Value::Integer(12));
    }
    for listener in &mut listeners {
        for index in 0..count {
            let expected = ["message", "news", &index.to_string()]
                .map(|word| Value::Bulk(word.as_bytes().to_vec()));
            assert_eq!(listener.reply().value, Value::Array(expected.to_vec()));
        }
    }
    drop(listeners);
    eventually("leaving", || publisher.ask(&["PUBSUB", "NUMSUB", "news"]).ends_with(":0\r\n"));
}

#[test]
fn a_listener_that_does_not_read_is_closed_and_others_go_on() {
    let door = Door::with(EngineOptions::default(), |options| {
        options.pubsub_buffer_limit_bytes = 200_000;
    });
    let mut lazy = door.client();
    assert!(lazy.ask(&["SUBSCRIBE", "news"]).ends_with(":1\r\n"));
    let mut reader = door.client();
    assert!(reader.ask(&["SUBSCRIBE", "news"]).ends_with(":1\r\n"));
    let mut publisher = door.client();
    let word = "x".repeat(10_000);
    let mut published = 0;
    // The kernel's buffers take some megabytes before ours begin to fill.
    eventually("closing the lazy listener", || {
        published += 1;
        let count = publisher.ask(&["PUBLISH", "news", &word]);
        assert!(reader.reply().bytes.len() > 10_000);
        count == ":1\r\n"
    });
    assert!(published < 10_000, "{published} messages of 10 kB");
    assert_eq!(counter(&door, |it| it.output_limit_closed.load(Ordering::Relaxed)), 1);
}

#[test]
fn in_resp3_messages_are_pushes_and_other_commands_go_on() {
    let door = Door::in_memory();
    let mut client = door.client();
    client.ask(&["HELLO", "3"]);
    assert_eq!(client.ask(&["SUBSCRIBE", "news"]), ">3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    assert_eq!(client.ask(&["ECHO", "x"]), "$1\r\nx\r\n");
    assert_eq!(door.client().ask(&["PUBLISH", "news", "hello"]), ":1\r\n");
    assert_eq!(client.reply().bytes, b">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n");
    assert!(client.ask(&["CLIENT", "INFO"]).contains(" flags=P "));
    // A message in the middle of an array would break clients: it comes behind the transaction.
    client.send(b"MULTI\r\nPUBLISH news own\r\nPING\r\nEXEC\r\n");
    for expected in ["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "*2\r\n:1\r\n+PONG\r\n"] {
        assert_eq!(client.reply().bytes, expected.as_bytes());
    }
    assert_eq!(client.reply().bytes, b">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$3\r\nown\r\n");
}

// ---- clients ----

#[test]
fn clients_are_listed_named_and_ended() {
    let door = Door::in_memory();
    let (mut one, mut two) = (door.client(), door.client());
    assert_eq!(one.ask(&["CLIENT", "SETNAME", "first"]), "+OK\r\n");
    assert_eq!(one.ask(&["CLIENT", "SETINFO", "LIB-NAME", "lib"]), "+OK\r\n");
    assert_eq!(one.ask(&["CLIENT", "SETINFO", "LIB-VER", "1.2"]), "+OK\r\n");
    assert!(one.ask(&["CLIENT", "SETINFO", "LIB-NAME", "a b"]).starts_with("-ERR lib-name cannot"));
    assert!(one.ask(&["CLIENT", "SETINFO", "x", "y"]).starts_with("-ERR Unrecognized option 'x'"));
    one.ask(&["MULTI"]);
    one.ask(&["PING"]);
    let list = two.ask(&["CLIENT", "LIST"]);
    let line = list.lines().find(|line| line.contains(" name=first ")).expect("it is listed");
    for part in
        [" flags=x ", " multi=1 ", " cmd=ping ", " user=default ", "lib-name=lib lib-ver=1.2"]
    {
        assert!(line.contains(part), "{part} in {line}");
    }
    let id = line.split(['=', ' ']).nth(1).expect("the line begins with the id").to_owned();
    let of_id = two.ask(&["CLIENT", "LIST", "ID", &id, "77777"]);
    assert_eq!(of_id.lines().filter(|line| line.starts_with("id=")).count(), 1);
    assert!(!two.ask(&["CLIENT", "LIST", "TYPE", "pubsub"]).contains("id="));
    assert_eq!(two.ask(&["CLIENT", "KILL", "ID", &id]), ":1\r\n");
    assert_eq!(one.rest(), b"");
    // By default the asker is spared; otherwise it still gets its reply.
    assert_eq!(two.ask(&["CLIENT", "KILL", "TYPE", "normal"]), ":0\r\n");
    two.send(b"CLIENT KILL TYPE normal SKIPME no\r\nPING\r\n");
    assert_eq!(two.rest(), b":1\r\n");
    eventually("forgetting", || {
        counter(&door, |it| it.connections_open.load(Ordering::Relaxed)) == 0
    });
}

#[test]
fn a_pause_stops_commands_until_it_ends() {
    let door = Door::in_memory();
    let (mut operator, mut client) = (door.client(), door.client());
    assert_eq!(operator.ask(&["CLIENT", "PAUSE", "100000", "WRITE"]), "+OK\r\n");
    assert_eq!(client.ask(&["PING"]), "+PONG\r\n", "only writes wait");
    client.send(b"GEOADD k 1 1 m\r\nPING\r\n");
    client.stream.set_read_timeout(Some(Duration::from_millis(200))).expect("it can be set");
    let mut byte = [0];
    assert!(client.stream.read(&mut byte).is_err(), "nothing is answered meanwhile");
    client.stream.set_read_timeout(Some(Duration::from_secs(20))).expect("it can be set");
    assert_eq!(operator.ask(&["ZCARD", "k"]), ":0\r\n");
    assert_eq!(operator.ask(&["CLIENT", "UNPAUSE"]), "+OK\r\n");
    assert_eq!(client.reply().bytes, b":1\r\n");
    assert_eq!(client.reply().bytes, b"+PONG\r\n");
    // A transaction is queued meanwhile, and waits at its end.
    assert_eq!(operator.ask(&["CLIENT", "PAUSE", "100000", "WRITE"]), "+OK\r\n");
    assert_eq!(client.ask(&["MULTI"]), "+OK\r\n");
    assert_eq!(client.ask(&["GEOADD", "k", "1", "1", "n"]), "+QUEUED\r\n");
    client.send(b"EXEC\r\n");
    assert_eq!(operator.ask(&["ZCARD", "k"]), ":1\r\n");
    assert_eq!(operator.ask(&["CLIENT", "UNPAUSE"]), "+OK\r\n");
    assert_eq!(client.reply().bytes, b"*1\r\n:1\r\n");
    // A short one ends by itself.
    assert_eq!(operator.ask(&["CLIENT", "PAUSE", "50"]), "+OK\r\n");
    assert_eq!(client.ask(&["PING"]), "+PONG\r\n");
}

// ---- users ----

fn with_users(options: &mut RespOptions) {
    let user = |name: &str, commands: &[&str], keys: &[&str], channels: &[&str]| {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        UserOptions {
            name: name.to_owned(),
            password: Some(password_hash(b"secret")),
            commands: owned(commands),
            keys: owned(keys),
            channels: owned(channels),
            names: Default::default(),
        }
    };
    options.password = Some("master".to_owned());
    options.users = vec![
        user("reader", &["+@read", "+@connection", "-keys", "+client|id"], &["geo:*"], &[]),
        user("herald", &["+@pubsub"], &[], &["news.*"]),
    ];
}

#[test]
fn users_may_do_what_their_rules_say() {
    let door = Door::with(EngineOptions::default(), with_users);
    let mut client = door.client();
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    assert_eq!(client.ask(&["AUTH", "reader", "wrong"]), wrong);
    assert_eq!(client.ask(&["AUTH", "nobody", "secret"]), wrong);
    assert_eq!(client.ask(&["AUTH", "reader", "secret"]), "+OK\r\n");
    assert_eq!(client.ask(&["ZCARD", "geo:a"]), ":0\r\n");
    let no_key =
        "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n";
    assert_eq!(client.ask(&["ZCARD", "other"]), no_key);
    assert_eq!(client.ask(&["EXISTS", "geo:a", "other"]), no_key);
    let no = |name: &str| {
        format!("-NOPERM this user has no permissions to run the '{name}' command\r\n")
    };
    assert_eq!(client.ask(&["GEOADD", "geo:a", "1", "1", "m"]), no("geoadd"));
    assert_eq!(client.ask(&["KEYS", "*"]), no("keys"));
    assert_eq!(client.ask(&["CONFIG", "GET", "save"]), no("config|get"));
    assert_eq!(client.ask(&["ACL", "WHOAMI"]), no("acl|whoami"));
    let aborted = format!("-EXECABORT Transaction discarded because of: {}", &no("exec")[1..]);
    assert_eq!(client.ask(&["EXEC"]), aborted);
    let mut herald = door.client();
    let hello = herald.ask(&["HELLO", "3", "AUTH", "herald", "secret"]);
    assert!(hello.starts_with("%7"), "{hello}");
    assert_eq!(herald.ask(&["PUBLISH", "news.de", "x"]), ":0\r\n");
    let no_channel =
        "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n";
    assert_eq!(herald.ask(&["PUBLISH", "old", "x"]), no_channel);
    assert_eq!(herald.ask(&["PSUBSCRIBE", "*"]), no_channel);
    assert!(herald.ask(&["PSUBSCRIBE", "news.*"]).starts_with(">3"));
    let mut master = door.client();
    assert_eq!(master.ask(&["AUTH", "master"]), "+OK\r\n");
    assert_eq!(
        master.ask(&["ACL", "USERS"]),
        "*3\r\n$7\r\ndefault\r\n$6\r\nreader\r\n$6\r\nherald\r\n"
    );
    let list = master.ask(&["ACL", "LIST"]);
    let line = "user reader on #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b \
                ~geo:* resetchannels -@all +@read +@connection -keys +client|id\r\n";
    assert!(list.contains(line), "{list}");
    assert!(master.ask(&["ACL", "GETUSER", "reader"]).contains("~geo:*"));
    assert!(master.ask(&["CLIENT", "LIST"]).contains(" user=herald "));
    assert_eq!(master.ask(&["CLIENT", "KILL", "USER", "herald"]), ":1\r\n");
}

#[test]
fn moves_made_together_need_what_each_of_them_needs() {
    let door = Door::with(EngineOptions::default(), with_users);
    let mut reader = door.client();
    assert_eq!(reader.ask(&["AUTH", "reader", "secret"]), "+OK\r\n");
    let replies_begin = |client: &mut Client, sent: &[u8], expected: &[&str]| {
        client.send(sent);
        for expected in expected {
            let reply = String::from_utf8(client.reply().bytes).expect("replies are texts");
            assert!(reply.starts_with(expected), "{reply}");
        }
    };
    replies_begin(&mut reader, &moves("geo:a", "2", 3), &["-NOPERM"; 3]);
    // Who is logged out in the middle of a pipeline is a stranger.
    let behind_reset = [request(&[b"RESET"]), moves("geo:a", "2", 3)].concat();
    replies_begin(&mut reader, &behind_reset, &["+RESET", "-NOAUTH", "-NOAUTH", "-NOAUTH"]);

    let mut master = door.client();
    assert_eq!(master.ask(&["AUTH", "master"]), "+OK\r\n");
    assert_eq!(master.ask(&["ZCARD", "geo:a"]), ":0\r\n");
    let queued = [request(&[b"MULTI"]), moves("geo:a", "2", 2), request(&[b"EXEC"])].concat();
    replies_begin(&mut master, &queued, &["+OK", "+QUEUED", "+QUEUED", "*2\r\n:1\r\n:1"]);
    let listening = [request(&[b"SUBSCRIBE", b"news"]), moves("geo:a", "2", 2)].concat();
    let refused = "-ERR Can't execute 'geoadd'";
    let mut listener = door.client();
    assert_eq!(listener.ask(&["AUTH", "master"]), "+OK\r\n");
    replies_begin(&mut listener, &listening, &["*3", refused, refused]);

    // A pause holds them up, and its end lets them go.
    let mut operator = door.client();
    assert_eq!(operator.ask(&["AUTH", "master"]), "+OK\r\n");
    assert_eq!(operator.ask(&["CLIENT", "PAUSE", "60000", "WRITE"]), "+OK\r\n");
    let paused = [request(&[b"PING"]), moves("geo:b", "2", 3)].concat();
    replies_begin(&mut master, &paused, &["+PONG"]);
    assert_eq!(operator.ask(&["ZCARD", "geo:b"]), ":0\r\n");
    assert_eq!(operator.ask(&["CLIENT", "UNPAUSE"]), "+OK\r\n");
    replies_begin(&mut master, b"", &[":1"; 3]);

    assert_eq!(master.ask(&["CONFIG", "SET", "maxmemory", "1"]), "+OK\r\n");
    replies_begin(&mut master, &moves("geo:c", "2", 3), &["-OOM"; 3]);
    assert_eq!(master.ask(&["ZCARD", "geo:c"]), ":0\r\n");
}

#[test]
fn a_rule_that_names_no_command_stops_the_start() {
    let (engine, _) = whered_engine::Engine::open(EngineOptions::default()).expect("it opens");
    let mut options = RespOptions { listen: Vec::new(), ..RespOptions::default() };
    with_users(&mut options);
    options.users[0].commands.push("+nosuch".to_owned());
    let error = RespListener::start(engine, options).err().expect("the door stays closed");
    assert_eq!(
        error.to_string(),
        "the user 'reader' has the rule '+nosuch', which names no command"
    );
}

// ---- limits ----

#[test]
fn an_idle_client_is_closed_and_a_listener_is_not() {
    let door = Door::in_memory();
    let mut operator = door.client();
    let (mut idle, mut listener) = (door.client(), door.client());
    assert_eq!(idle.ask(&["PING"]), "+PONG\r\n");
    assert!(listener.ask(&["SUBSCRIBE", "news"]).ends_with(":1\r\n"));
    assert_eq!(operator.ask(&["CONFIG", "SET", "timeout", "1"]), "+OK\r\n");
    assert_eq!(idle.rest(), b"", "it ends without a word");
    assert_eq!(door.client().ask(&["PUBLISH", "news", "x"]), ":1\r\n");
    assert!(!listener.reply().bytes.is_empty());
    assert!(counter(&door, |it| it.idle_closed.load(Ordering::Relaxed)) >= 1);
}

#[test]
fn many_idle_connections_keep_no_buffers() {
    let door = Door::in_memory();
    let mut clients: Vec<Client> = (0..400).map(|_| door.client()).collect();
    for client in &mut clients {
        let word = "x".repeat(20_000);
        client.ask(&["ECHO", &word]);
    }
    assert!(counter(&door, |it| it.buffer_bytes.load(Ordering::Relaxed)) > 400 * 16_000);
    eventually("giving back", || counter(&door, |it| it.buffer_bytes.load(Ordering::Relaxed)) == 0);
    for client in &mut clients {
        assert_eq!(client.ask(&["PING"]), "+PONG\r\n");
    }
    drop(clients);
    eventually("closing", || counter(&door, |it| it.connections_open.load(Ordering::Relaxed)) == 0);
    assert_eq!(counter(&door, |it| it.buffer_bytes.load(Ordering::Relaxed)), 0);
}

#[test]
fn all_buffers_together_have_a_limit() {
    let door = Door::with(EngineOptions::default(), |options| {
        options.client_buffers_limit_bytes = 20 << 20;
    });
    let mut greedy: Vec<Client> = (0..8).map(|_| door.client()).collect();
    // Each announces a lot and sends a part of it, far below the limit of one connection.
    for client in &mut greedy {
        client.send(b"*2\r\n$4\r\nECHO\r\n$100000000\r\n");
    }
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..8 {
        for client in &mut greedy {
            // Whoever was closed cannot write any more.
            let _ = client.stream.write_all(&piece);
        }
    }
    let closed = || counter(&door, |it| it.buffers_limit_closed.load(Ordering::Relaxed));
    eventually("closing", || closed() > 0);
    assert_eq!(door.client().ask(&["PING"]), "+PONG\r\n");
}

#[test]
fn the_slow_log_and_the_latencies_know_what_was_asked() {
    let door = Door::in_memory();
    let mut client = door.client();
    client.ask(&["CLIENT", "SETNAME", "me"]);
    assert_eq!(
        client.ask(&["CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "5"]),
        "+OK\r\n"
    );
    let long = "y".repeat(200);
    let mut words = vec!["ECHO"];
    words.push(&long);
    client.ask(&words);
    let numbers: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    let many: Vec<&str> =
        std::iter::once("DEL").chain(numbers.iter().map(String::as_str)).collect();
    client.ask(&many);
    let log = client.ask(&["SLOWLOG", "GET", "-1"]);
    assert!(log.starts_with("*2\r\n*6\r\n:1\r\n"), "{log}");
    assert!(log.contains("... (10 more arguments)"), "{log}");
    assert!(log.contains(&format!("{}... (72 more bytes)", "y".repeat(128))), "{log}");
    assert!(log.contains("$2\r\nme\r\n"), "{log}");
    for _ in 0..10 {
        client.ask(&["PING"]);
    }
    assert_eq!(client.ask(&["SLOWLOG", "LEN"]), ":5\r\n");
    assert_eq!(client.ask(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]), "+OK\r\n");
    client.ask(&["SLOWLOG", "RESET"]);
    client.ask(&["PING"]);
    assert_eq!(client.ask(&["SLOWLOG", "LEN"]), ":0\r\n");
    assert_eq!(client.ask(&["CONFIG", "RESETSTAT"]), "+OK\r\n");
    client.send(&b"PING\r\n".repeat(1000));
    for _ in 0..1000 {
        client.reply();
    }
    client.ask(&["GEOADD", "k"]);
    client.ask(&["GEOADD", "k", "1", "x", "m"]);
    let stats = client.ask(&["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_ping:calls=1000,"), "{stats}");
    assert!(stats.contains("cmdstat_geoadd:calls=1,"), "{stats}");
    assert!(stats.contains("rejected_calls=1,failed_calls=1"), "{stats}");
    let histogram = client.ask(&["LATENCY", "HISTOGRAM", "ping"]);
    assert!(
        histogram.starts_with("*2\r\n$4\r\nping\r\n*4\r\n$5\r\ncalls\r\n:1000\r\n"),
        "{histogram}"
    );
}

// ---- Unix sockets ----

#[test]
fn a_unix_socket_serves_and_goes_with_the_door() {
    let folder = Folder::new("resp-unix");
    let path = folder.0.join("whered.sock");
    let start = || {
        let (engine, _) = whered_engine::Engine::open(EngineOptions::default()).expect("it opens");
        let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        let mut options = RespOptions { listen, threads: Some(2), ..RespOptions::default() };
        options.unix_socket = Some(UnixSocketOptions { path: path.clone(), permissions: 0o600 });
        RespListener::start(engine, options)
    };
    // What a killed process has left behind is taken over.
    drop(UnixListener::bind(&path).expect("it can be bound"));
    let door = start().expect("the door opens");
    let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut streams: Vec<UnixStream> =
        (0..10).map(|_| UnixStream::connect(&path).expect("it listens")).collect();
    for stream in &mut streams {
        stream.write_all(b"CLIENT INFO\r\n").expect("it reads");
        let mut text = [0; 600];
        let count = stream.read(&mut text).expect("it answers");
        let text = String::from_utf8_lossy(&text[..count]).into_owned();
        assert!(text.contains(&format!("addr={}:0", path.display())), "{text}");
        assert!(text.contains(" flags=U "), "{text}");
    }
    // A second server leaves the first one alone.
    let error = start().err().expect("the path is taken").to_string();
    assert!(error.ends_with("another process listens there"), "{error}");
    door.stop();
    assert!(!path.exists());
    std::fs::write(&path, "a file").expect("it can be written");
    let error = start().err().expect("a file is no socket").to_string();
    assert!(error.ends_with("there is something that is no socket"), "{error}");
    assert!(path.exists(), "it is left alone");
}

// ---- keeping what others need ----

#[test]
fn a_client_that_stops_reading_does_not_hold_a_transaction_or_a_thread() {
    let door = Door::with(EngineOptions::default(), |options| options.threads = Some(1));
    let mut lazy = door.client();
    let word = "x".repeat(100_000);
    for _ in 0..100 {
        lazy.send(&request(&[b"ECHO", word.as_bytes()]));
    }
    let mut other = door.client();
    assert_eq!(other.ask(&["MULTI"]), "+OK\r\n");
    assert_eq!(other.ask(&["GEOADD", "k", "1", "1", "m"]), "+QUEUED\r\n");
    assert_eq!(other.ask(&["EXEC"]), "*1\r\n:1\r\n");
}

#[test]
fn half_open_connections_are_counted_and_go_when_their_door_does() {
    let door = Door::in_memory();
    let streams: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(door.door.addresses()[0]).expect("it accepts"))
        .collect();
    eventually("accepting", || {
        counter(&door, |it| it.connections_open.load(Ordering::Relaxed)) == 200
    });
    assert_eq!(door.client().ask(&["PING"]), "+PONG\r\n");
    let engine = Arc::clone(&door.engine);
    door.door.stop();
    drop(streams);
    engine.close().expect("nothing is left open");
}
