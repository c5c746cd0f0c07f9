//! Clients that wait for members of a sorted set (`BZPOPMIN BZPOPMAX BZMPOP`): conversations next
//! to Debian's redis-server, and what only our own server can show.
//!
//! A line is `A WORDS ...`: connection A sends a request, and both servers' replies are compared.
//! `A ! WORDS ...` sends what is answered later, `A <` reads that answer, and `? N` goes on when N
//! clients wait. Without redis-server the conversations are skipped, unless `WHERED_REQUIRE`
//! contains `peers`.
#![allow(clippy::print_stdout, reason = "the tests say that they were skipped")]

mod support;

#[path = "differential/peer.rs"]
mod peer;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use peer::Peer;
use support::Door;
use support::client::{Client, Value, request};

const ARGUMENTS: &str = "
A BZPOPMIN
A BZPOPMIN k
A BZPOPMIN k x
A BZPOPMIN k -1
A BZPOPMIN k -0.5
A BZPOPMIN k nan
A BZPOPMIN k inf
A BZPOPMIN k -inf
A BZPOPMIN k 1e300
A BZPOPMIN k 9223372036854776
A BZPOPMIN k 0.001
A BZPOPMAX k j 0.001
A BZMPOP 0.001 1 k MIN
A BZMPOP 0.001 2 k j MAX COUNT 3
A BZMPOP
A BZMPOP 0.001 0 k MIN
A BZMPOP 0.001 x k MIN
A BZMPOP 0.001 2 k MIN
A BZMPOP 0.001 9223372036854775807 k MIN
A BZMPOP 0.001 1 k MID
A BZMPOP 0.001 1 k MIN COUNT
A BZMPOP 0.001 1 k MIN COUNT 0
A BZMPOP 0.001 1 k MIN COUNT x
A BZMPOP 0.001 1 k MIN COUNT 1 COUNT 2
A BZMPOP 0.001 1 k MIN COUNT 0 COUNT 2
A BZMPOP 0.001 1 k MIN LIMIT 1
A BZMPOP x 1 k MIN
A BZMPOP x 0 k MIN
A BZMPOP -1 1 k MIN
A ZMPOP 1 k MIN
A SET text v
A BZPOPMIN text 0.001
A BZPOPMIN k text 0.001
A BZMPOP 0.001 2 k text MIN
A ZADD k 1 a 2.5 b inf c
A BZPOPMIN text k 0
A BZPOPMIN j k text 0
A BZPOPMAX k 0
A BZMPOP 0 1 k MIN COUNT 10
A EXISTS k
A ZADD k 1 a 2 b 3 c
A BZMPOP 0 2 j k MAX COUNT 2
A HELLO 2
A CLIENT UNBLOCK x
A CLIENT UNBLOCK 0
A CLIENT UNBLOCK 999999
A CLIENT UNBLOCK 1 NEVER
A CLIENT UNBLOCK 1 ERROR now
A CLIENT UNBLOCK
";

const SERVED: &str = "
A ! BZPOPMIN k 0
? 1
B ZADD k 3 c 1 a 2 b
B ZRANGE k 0 -1 WITHSCORES
A <
A ! BZPOPMAX j i 0
? 1
B SET i text
B ZADD j 1 only
B EXISTS j
A <
A DEL k i
A ! BZMPOP 0 2 j k MAX COUNT 2
? 1
B ZADD k 1 a 2 b 3 c
A <
B ZRANGE k 0 -1
B DEL k
A ! BZPOPMIN k 0
? 1
B GEOADD k 8 50 m
A <
A ! BZPOPMIN k 0
? 1
B ZINCRBY k 2.5 m
A <
A ! BZPOPMIN k 0
? 1
B ZADD other 1 x 2 y
B RENAME other k
A <
B ZCARD k
B DEL k
B ZADD other 1 x 2 y
A ! BZPOPMIN k 0
? 1
B COPY other k
A <
B DEL k
A ! BZPOPMIN k 0
? 1
B ZUNIONSTORE k 1 other WEIGHTS 3
A <
B DEL k
A ! BZPOPMIN k 0
? 1
B ZRANGESTORE k other 0 -1
A <
B DEL k
A ! BZPOPMIN k 0
? 1
B SELECT 1
B ZADD k 7 far
B MOVE k 0
A <
B ZADD k 8 farther
B SELECT 0
A ! BZPOPMIN k 0
? 1
B SWAPDB 0 1
A <
B FLUSHALL
A ! BZPOPMIN k k k 0
? 1
B ZADD k 1 a 2 b
A <
B ZCARD k
B DEL k
";

const IN_ORDER: &str = "
A ! BZPOPMIN k 0
? 1
B ! BZPOPMAX j k 0
? 2
C ! BZMPOP 0 2 k j MIN COUNT 2
? 3
Z ZADD k 1 a 2 b 3 c 4 d 5 e
A <
B <
C <
Z ZRANGE k 0 -1
Z DEL k
A ! BZPOPMIN k 0
? 1
B ! BZPOPMIN k 0
? 2
Z ZADD k 1 a
A <
? 1
Z ZADD k 1 b
B <
A ! BZPOPMIN k j 0
? 1
Z MULTI
Z ZADD j 1 first
Z ZADD k 1 second
Z ZCARD j
Z EXEC
A <
Z DEL k j
A ! BZPOPMIN k j 0
? 1
Z MULTI
Z ZADD j 1 gone
Z ZREM j gone
Z ZADD k 1 stays
Z EXEC
A <
A ! BZPOPMIN k 0
? 1
Z MULTI
Z ZADD k 1 gone
Z DEL k
Z SET k text
Z EXEC
? 1
Z DEL k
Z ZADD k 5 last
A <
Z WATCH k
A ! BZPOPMIN k 0
? 1
B ZADD k 1 a
A <
Z MULTI
Z PING
Z EXEC
";

const WITHIN: &str = "
A MULTI
A BZPOPMIN k 0
A BZMPOP 0 1 k MIN
A ZADD k 1 a
A BZPOPMAX k 0
A BZPOPMAX k 0
A EXEC
A ! BZPOPMIN k 0
? 1
A ! PING
B ZADD k 1 a
A <
A <
A ! CLIENT REPLY SKIP
A ! BZPOPMIN k 0
? 1
B ZADD k 1 a
A PING
";

/// Either server, with its connections by letter.
struct Side {
    address: SocketAddr,
    connections: BTreeMap<char, Client>,
}

impl Side {
    fn connection(&mut self, letter: char) -> &mut Client {
        let address = self.address;
        self.connections.entry(letter).or_insert_with(|| Client::connect(address))
    }

    fn send(&mut self, letter: char, words: &str) {
        let words: Vec<&[u8]> = words.split_whitespace().map(str::as_bytes).collect();
        self.connection(letter).send(&request(&words));
    }
}

fn waiting(client: &mut Client) -> u64 {
    number(&client.ask(&["INFO", "clients"]), "blocked_clients")
}

fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect("a field").trim().parse().expect("a number")
}

fn wait_for(client: &mut Client, count: u64) {
    let end = Instant::now() + Duration::from_secs(20);
    while waiting(client) != count {
        assert!(Instant::now() < end, "{count} clients do not wait");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

fn run(side: &mut Side, line: &str) -> Option<Vec<u8>> {
    let letter = line.chars().next().expect("a line has words");
    let words = line[1..].trim();
    if letter == '?' {
        wait_for(side.connection('Y'), words.parse().expect("a count"));
        return None;
    }
    if let Some(later) = words.strip_prefix('!') {
        side.send(letter, later);
        return None;
    }
    if words != "<" {
        side.send(letter, words);
    }
    Some(side.connection(letter).reply().bytes)
}

#[test]
fn those_who_wait_are_answered_as_redis_answers_them() {
    let Some(peer) = Peer::start() else {
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        let text = "redis-server is not installed (package redis-server)";
        assert!(!required.split(',').any(|word| word == "peers"), "{text}");
        println!("skipped: {text}");
        return;
    };
    let mut faults = Vec::new();
    for protocol in ["2", "3"] {
        for (title, lines) in [
            ("arguments", ARGUMENTS),
            ("served", SERVED),
            ("in order", IN_ORDER),
            ("within", WITHIN),
        ] {
            let door = Door::in_memory();
            let side = |address| Side { address, connections: BTreeMap::new() };
            let mut sides = [side(door.door.addresses()[0]), side(peer.address)];
            sides[1].connection('Y').ask(&["FLUSHALL"]);
            for side in &mut sides {
                for letter in ['A', 'B', 'C', 'Z'] {
                    side.send(letter, &format!("HELLO {protocol}"));
                    side.connection(letter).reply();
                }
            }
            for line in lines.lines().filter(|line| !line.is_empty()) {
                let [ours, theirs] = sides.each_mut().map(|side| run(side, line));
                if ours != theirs && !line.starts_with("A HELLO") {
                    let shown = |bytes: Option<Vec<u8>>| bytes.unwrap_or_default();
                    let (ours, theirs) = (shown(ours), shown(theirs));
                    let (ours, theirs) = (ours.escape_ascii(), theirs.escape_ascii());
                    faults.push(format!("{title} {protocol}: {line}\n  {ours}\n  {theirs}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn many_clients_are_served_in_the_order_of_their_coming() {
    let door = Door::in_memory();
    let mut control = door.client();
    let mut clients: Vec<Client> = (0..50).map(|_| door.client()).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        client.send(&request(&[b"BZPOPMIN", b"queue", b"0"]));
        wait_for(&mut control, index as u64 + 1);
    }
    // A pipeline of additions, which are made together.
    let one = |n: usize| {
        let (longitude, name) = (n.to_string(), format!("m{n:02}"));
        request(&["GEOADD", "queue", &longitude, "10", &name].map(str::as_bytes))
    };
    let pipeline: Vec<u8> = (0..30).flat_map(one).collect();
    control.send(&pipeline);
    (0..30).for_each(|_| assert_eq!(control.reply().value, Value::Integer(1)));
    for n in 30..50 {
        let name = format!("m{n:02}");
        assert_eq!(control.ask(&["ZADD", "queue", &n.to_string(), &name]), ":1\r\n");
    }
    let member = |client: &mut Client| match client.reply().value {
        Value::Array(parts) => parts[1].clone(),
        other => panic!("{other:?}"),
    };
    let got: Vec<Value> = clients.iter_mut().map(member).collect();
    let mut first: Vec<_> = got[..30].to_vec();
    let name = |n: usize| Value::Bulk(format!("m{n:02}").into_bytes());
    first.sort_by_key(|value| format!("{value:?}"));
    assert_eq!(first, (0..30).map(name).collect::<Vec<_>>());
    assert_eq!(got[30..], (30..50).map(name).collect::<Vec<_>>());
    assert_eq!(waiting(&mut control), 0);
}

#[test]
fn a_client_that_goes_away_takes_no_member_with_it() {
    let door = Door::in_memory();
    let mut control = door.client();
    let mut gone = door.client();
    gone.send(&request(&[b"BZPOPMIN", b"k", b"0"]));
    wait_for(&mut control, 1);
    let mut stays = door.client();
    stays.send(&request(&[b"BZPOPMIN", b"k", b"0"]));
    wait_for(&mut control, 2);
    drop(gone);
    wait_for(&mut control, 1);
    assert_eq!(control.ask(&["ZADD", "k", "1", "a"]), ":1\r\n");
    assert_eq!(stays.reply().bytes, b"*3\r\n$1\r\nk\r\n$1\r\na\r\n$1\r\n1\r\n");
    // So does one that is ended by another.
    let mut killed = door.client();
    let id = killed.ask(&["CLIENT", "ID"])[1..].trim().to_owned();
    killed.send(&request(&[b"BZPOPMIN", b"k", b"0"]));
    wait_for(&mut control, 1);
    let list = control.ask(&["CLIENT", "LIST", "ID", &id]);
    assert!(list.contains(" flags=b ") && list.contains(" cmd=bzpopmin "), "{list}");
    assert_eq!(control.ask(&["CLIENT", "KILL", "ID", &id]), ":1\r\n");
    wait_for(&mut control, 0);
    assert_eq!(control.ask(&["ZADD", "k", "1", "a"]), ":1\r\n");
    assert_eq!(control.ask(&["ZCARD", "k"]), ":1\r\n");
}

#[test]
fn a_wait_ends_at_its_time_and_by_unblock() {
    let door = Door::in_memory();
    let mut control = door.client();
    let mut client = door.client();
    let began = Instant::now();
    assert_eq!(client.ask(&["BZPOPMIN", "k", "0.15"]), "*-1\r\n");
    let took = began.elapsed();
    assert!((Duration::from_millis(150)..Duration::from_secs(10)).contains(&took), "{took:?}");
    let id = client.ask(&["CLIENT", "ID"])[1..].trim().to_owned();
    for (words, expected) in [
        (&["CLIENT", "UNBLOCK", &id][..], &b"*-1\r\n"[..]),
        (&["CLIENT", "UNBLOCK", &id, "timeout"], b"*-1\r\n"),
        (
            &["CLIENT", "UNBLOCK", &id, "ERROR"],
            b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n",
        ),
    ] {
        client.send(&request(&[b"BZPOPMIN", b"k", b"0"]));
        wait_for(&mut control, 1);
        assert_eq!(control.ask(words), ":1\r\n");
        assert_eq!(client.reply().bytes, expected);
        assert_eq!(control.ask(words), ":0\r\n", "it waits no more");
    }
    assert_eq!(waiting(&mut control), 0);
    // Those with one deadline and those with several are all answered.
    let mut clients: Vec<Client> = (0..40).map(|_| door.client()).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        let timeout = format!("0.0{}", 1 + index % 9);
        client.send(&request(&[b"BZPOPMAX", b"k", timeout.as_bytes()]));
    }
    clients.iter_mut().for_each(|client| assert_eq!(client.reply().bytes, b"*-1\r\n"));
}

#[test]
fn what_fills_a_key_without_a_command_serves_within_seconds() {
    let door = Door::in_memory();
    let mut client = door.client();
    client.send(&request(&[b"BZPOPMIN", b"k", b"0"]));
    wait_for(&mut door.client(), 1);
    let keyspace = door.engine.keyspace();
    let rules = whered_engine::ScoreRules::default();
    keyspace.add_scores(0, b"k", &[(b"m", 2.5)], rules).expect("it is in memory");
    assert_eq!(client.reply().bytes, b"*3\r\n$1\r\nk\r\n$1\r\nm\r\n$3\r\n2.5\r\n");
}

#[test]
fn a_stop_does_not_wait_for_those_who_wait() {
    let door = Door::in_memory();
    let mut client = door.client();
    client.send(&request(&[b"BZPOPMIN", b"k", b"0"]));
    wait_for(&mut door.client(), 1);
    let began = Instant::now();
    door.door.stop();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(client.rest(), b"");
}

#[test]
fn members_go_to_one_client_each_while_many_come_and_go() {
    let door = Door::in_memory();
    let members = 400;
    let takers: Vec<_> = (0..8)
        .map(|_| {
            let mut client = door.client();
            std::thread::spawn(move || {
                let mut taken = Vec::new();
                loop {
                    client.send(&request(&[b"BZPOPMIN", b"a", b"b", b"0.5"]));
                    match client.reply().value {
                        Value::Array(parts) => taken.push(parts[1].clone()),
                        _ => return taken,
                    }
                }
            })
        })
        .collect();
    let givers: Vec<_> = (0..4)
        .map(|giver| {
            let mut client = door.client();
            std::thread::spawn(move || {
                for n in 0..members / 4 {
                    let key = if n % 2 == 0 { "a" } else { "b" };
                    let name = format!("{giver}-{n}");
                    assert_eq!(client.ask(&["ZADD", key, "1.5", &name]), ":1\r\n");
                }
            })
        })
        .collect();
    givers.into_iter().for_each(|giver| giver.join().expect("it gives"));
    let mut taken: Vec<String> = takers
        .into_iter()
        .flat_map(|taker| taker.join().expect("it takes"))
        .map(|member| format!("{member:?}"))
        .collect();
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), members);
    assert_eq!(door.client().ask(&["EXISTS", "a", "b"]), ":0\r\n");
}

#[test]
fn a_client_whose_end_comes_with_its_wait_takes_no_member_with_it() {
    let door = Door::in_memory();
    let mut control = door.client();
    let mut gone = door.client();
    let mut both = request(&[b"ZADD", b"z", b"1", b"m"]);
    both.extend(request(&[b"BZPOPMIN", b"k", b"0"]));
    gone.send(&both);
    gone.stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    assert_eq!(gone.rest(), b":1\r\n", "the earlier reply and the end");
    wait_for(&mut control, 0);
    assert_eq!(control.ask(&["ZADD", "k", "1", "a"]), ":1\r\n");
    assert_eq!(control.ask(&["ZCARD", "k"]), ":1\r\n");
}

#[test]
fn a_client_that_was_served_has_not_been_idle() {
    let door = Door::in_memory();
    let mut control = door.client();
    let mut client = door.client();
    let id = client.ask(&["CLIENT", "ID"])[1..].trim().to_owned();
    client.send(&request(&[b"BZPOPMIN", b"k", b"0"]));
    wait_for(&mut control, 1);
    std::thread::park_timeout(Duration::from_millis(3100));
    let served = Instant::now();
    assert_eq!(control.ask(&["ZADD", "k", "1", "a"]), ":1\r\n");
    assert_eq!(client.reply().bytes, b"*3\r\n$1\r\nk\r\n$1\r\na\r\n$1\r\n1\r\n");
    let list = control.ask(&["CLIENT", "LIST", "ID", &id]);
    let idle = list.split(" idle=").nth(1).and_then(|rest| rest.split(' ').next());
    let idle: u64 = idle.and_then(|text| text.parse().ok()).expect("a number of seconds");
    assert!(idle <= served.elapsed().as_secs() + 1, "{list}");
}

#[test]
fn who_waits_is_served_before_a_client_that_comes_later() {
    let door = Door::in_memory();
    let mut control = door.client();
    let mut waits = door.client();
    waits.send(&request(&[b"BZMPOP", b"0", b"1", b"k", b"MIN", b"COUNT", b"5"]));
    wait_for(&mut control, 1);
    // Each member that comes is asked for at once by another client.
    let mut later = door.client();
    control.send(&request(&[b"ZADD", b"k", b"1", b"a"]));
    later.send(&request(&[b"BZPOPMIN", b"k", b"0"]));
    let expected = b"*2\r\n$1\r\nk\r\n*1\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n";
    assert_eq!(waits.reply().bytes, expected);
    assert_eq!(control.reply().bytes, b":1\r\n");
}

#[test]
fn a_reply_beyond_the_output_limit_is_not_gathered() {
    let door = Door::in_memory();
    let mut control = door.client();
    let limit = ["CONFIG", "SET", "client-output-buffer-limit", "normal 1000000 0 0"];
    assert_eq!(control.ask(&limit), "+OK\r\n");
    assert_eq!(control.ask(&["SET", "text", &"x".repeat(100_000)]), "+OK\r\n");
    let mut greedy = door.client();
    let words = std::iter::once(&b"MGET"[..]).chain(std::iter::repeat_n(&b"text"[..], 100_000));
    greedy.send(&request(&words.collect::<Vec<_>>()));
    assert_eq!(greedy.rest(), b"", "the connection ends");
    assert_eq!(control.ask(&["STRLEN", "text"]), ":100000\r\n");
}

#[test]
fn a_stored_result_loses_no_member_that_another_client_has_added() {
    let door = Door::in_memory();
    let geo = ["GEOADD", "own", "13", "52", "seed"];
    for (store, add) in [
        (&["ZUNIONSTORE", "own", "2", "own", "none"][..], &["ZADD", "own", "1"][..]),
        (&["ZRANGESTORE", "own", "own", "0", "-1"], &["ZADD", "own", "1"]),
        (
            &["GEOSEARCHSTORE", "own", "own", "FROMLONLAT", "13", "52", "BYRADIUS", "9", "km"],
            &["GEOADD", "own", "13", "52"],
        ),
        (
            &["GEORADIUS", "own", "13", "52", "9", "km", "STORE", "own"],
            &["GEOADD", "own", "13", "52"],
        ),
    ] {
        let mut control = door.client();
        control.ask(&["DEL", "own"]);
        control.ask(&geo);
        std::thread::scope(|scope| {
            let adds = scope.spawn(|| {
                let mut client = door.client();
                for n in 0..500 {
                    let member = format!("m{n}");
                    let words: Vec<&str> = add.iter().copied().chain([member.as_str()]).collect();
                    assert_eq!(client.ask(&words), ":1\r\n");
                }
            });
            let mut client = door.client();
            while !adds.is_finished() {
                let stored = client.ask(store);
                assert!(stored.starts_with(':'), "{stored}");
            }
        });
        assert_eq!(control.ask(&["ZCARD", "own"]), ":501\r\n", "{store:?}");
    }
}
