//! Conversations with whered and with Debian's redis-server: the same bytes back.
//!
//! For: transactions, channels, users, settings and what clients send on connecting. Commands on
//! data are compared in `differential.rs`, at random.
//!
//! A line is `A WORDS ...`: connection A sends a request and both servers' replies are compared.
//! `A <` reads one reply more, such as a message. `A ~ WORDS ...` sends and does not compare, for
//! replies that name the server itself. `A ! WORDS ...` sends what gets no reply. Without
//! redis-server the test is skipped, unless `WHERED_REQUIRE` contains `peers`.

mod support;

#[path = "differential/peer.rs"]
mod peer;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use peer::Peer;
use support::Door;
use support::client::{Client, request};

const SWAPPED: &str = "
B SELECT 1
B SET there 1
A WATCH there
A SWAPDB 0 1
A MULTI
A PING
A EXEC
A WATCH there
A SWAPDB 0 1
A MULTI
A PING
A EXEC
A WATCH nowhere
A SWAPDB 0 1
A MULTI
A PING
A EXEC
A WATCH there
A SWAPDB 0 0
A MULTI
A PING
A EXEC
A WATCH there
A SWAPDB 2 3
A MULTI
A PING
A EXEC
A WATCH there
A SWAPDB 0 99
A MULTI
A PING
A EXEC
A FLUSHALL
A WATCH moved
B SET moved 1
B MOVE moved 0
A MULTI
A PING
A EXEC
B SET moved 2
A WATCH moved
B MOVE moved 0
A MULTI
A PING
A EXEC
";

const NOTICES: &str = "
A ! CLIENT REPLY OFF
A SUBSCRIBE news
A PSUBSCRIBE n*
B PUBLISH news one
A <
A <
A PUNSUBSCRIBE n*
A UNSUBSCRIBE news
A CLIENT REPLY ON
A ! CLIENT REPLY SKIP
A SUBSCRIBE news
A UNSUBSCRIBE
A PING
C ~ HELLO 3
C ! CLIENT REPLY OFF
C SUBSCRIBE news
C ! PUBLISH news own
C <
C ! PING
C UNSUBSCRIBE news
C CLIENT REPLY ON
C PING
";

const TRANSACTIONS: &str = "
A EXEC
A DISCARD
A MULTI
A MULTI
A WATCH k
A GEOADD k 1 2 m
A ZCARD k
A GEOADD k NX
A EXEC
A ZCARD k
A DEL k
A MULTI
A GEOADD k
A ZCARD k
A EXEC
A EXEC
A MULTI
A NOSUCH a b
A DISCARD
A MULTI
A EXEC
A MULTI
A ECHO x
A EXEC now
A ECHO not-queued
A EXEC
A MULTI
A SELECT 3
A GEOADD three 1 1 m
A SELECT 0
A EXISTS three
A PING
A PING a b
A EXEC
A EXISTS three
A MULTI
A RESET
A EXEC
A MULTI now
A UNWATCH
A WATCH
A WATCH k
A MULTI
A ZCARD k
A EXEC
A WATCH k
B GEOADD k 1 1 b
A MULTI
A ZCARD k
A EXEC
A MULTI
A ZCARD k
A EXEC
A WATCH k other
B ZREM k nobody
B DEL other
B ZCARD k
A MULTI
A ZCARD k
A EXEC
A WATCH k
A UNWATCH
B ZREM k b
A MULTI
A EXISTS k
A EXEC
A WATCH k
B FLUSHALL
A MULTI
A PING
A EXEC
A GEOADD k 1 1 m
A WATCH k
B FLUSHALL
A MULTI
A PING
A EXEC
A GEOADD k 1 1 m
A WATCH k
B SELECT 1
B FLUSHDB
B GEOADD k 1 1 m
B SELECT 0
A MULTI
A PING
A EXEC
A WATCH k
A GEOADD k 2 2 m
A MULTI
A PING
A EXEC
A WATCH k
A MULTI
A PING
A DISCARD
B GEOADD k 3 3 m
A MULTI
A PING
A EXEC
A MULTI
A SUBSCRIBE news
A PING
A EXEC
A PING
A UNSUBSCRIBE
A PING
";

const CHANNELS: &str = "
A PUBLISH news nobody
A PUBSUB CHANNELS
A PUBSUB NUMSUB
A PUBSUB NUMSUB news other
A PUBSUB NUMPAT
A PUBSUB NOSUCH
A PUBSUB CHANNELS a b
A UNSUBSCRIBE
A PUNSUBSCRIBE
A UNSUBSCRIBE a b
A <
A SUBSCRIBE
A SUBSCRIBE news news old
A <
A <
A PING
A PING hello
A PING a b
A ECHO x
A MULTI
A GEOADD
A NOSUCH
B PUBLISH news first
A <
B PUBLISH old second
A <
B PUBLISH other third
A PSUBSCRIBE x* *
A <
B PUBLISH news both
A <
A <
B PUBSUB NUMPAT
B PUBSUB NUMSUB news old other
B PUBSUB CHANNELS n*
B PUBSUB CHANNELS [
B PSUBSCRIBE n*
A PUNSUBSCRIBE n*
A UNSUBSCRIBE nosuch
A UNSUBSCRIBE news
B PUNSUBSCRIBE
B PUBLISH news pattern
A <
A RESET
B PUBLISH news gone
A SUBSCRIBE news
A QUIT
B PUBLISH news gone
C ~ HELLO 3
C SUBSCRIBE news
C PSUBSCRIBE ne*
C ECHO allowed
C PING
C PUBLISH news own
C <
C <
C MULTI
C ECHO x
C EXEC
B PUBLISH news more
C <
C <
C UNSUBSCRIBE
C PUNSUBSCRIBE
C PUNSUBSCRIBE
C PUBSUB NUMSUB a b
C PUBSUB CHANNELS
";

const CLIENTS: &str = "
A CLIENT SETNAME bob
A CLIENT GETNAME
A CLIENT SETNAME
A CLIENT SETNAME a\x01b
A CLIENT NOSUCH
A CLIENT ID x
A CLIENT KILL 127.0.0.1:1
A CLIENT KILL TYPE nosuch
A CLIENT KILL ID x
A CLIENT KILL ID 0
A CLIENT KILL ID -1
A CLIENT KILL ID 999999
A CLIENT KILL SKIPME maybe ID 3
A CLIENT KILL USER nobody
A CLIENT KILL ADDR
A CLIENT KILL NOSUCH x
A CLIENT KILL ID 1 ADDR
A CLIENT LIST TYPE nosuch
A CLIENT LIST TYPE replica
A CLIENT LIST ID x
A CLIENT LIST ID 999999
A CLIENT LIST NOSUCH
A CLIENT PAUSE x
A CLIENT PAUSE -1
A CLIENT PAUSE 1 nosuch
A CLIENT PAUSE 0
A CLIENT UNPAUSE
A CLIENT UNPAUSE now
A CLIENT NO-EVICT maybe
A CLIENT NO-EVICT on
A CLIENT TRACKING off
A CLIENT GETREDIR
A CLIENT REPLY maybe
A RESET
A CLIENT GETNAME
A HELLO x
A HELLO 4
A HELLO 3 NOSUCH
A HELLO 3 AUTH nobody x
A AUTH x
A AUTH nobody x
A AUTH a b c
A AUTH default anything
A ACL WHOAMI
A ACL WHOAMI x
A ACL LIST
A ACL USERS
A ACL GETUSER nobody
A ACL GETUSER default
A ACL CAT nosuch
A ACL CAT a b
A ACL NOSUCH
A ACL DRYRUN
A ACL DRYRUN default
A ACL DRYRUN default get x
A ACL DRYRUN DEFAULT get x
A ACL DRYRUN default get
A ACL DRYRUN default nosuch x
A ACL DRYRUN default client
A ACL DRYRUN default client nosuch
A ACL DRYRUN default client id
A ACL DRYRUN default zunion 2 a b
A ACL DRYRUN nobody get x
A CLUSTER
A CLUSTER INFO
A CLUSTER INFO x
A CLUSTER HELP
A CLUSTER NOSUCH
A COMMAND GETKEYS ZUNION 2 a b
A COMMAND GETKEYS ZUNION 3 a b
A COMMAND GETKEYS ZUNION x a b
A COMMAND GETKEYS ZUNIONSTORE d 2 a b WEIGHTS 1 2
A COMMAND GETKEYS MSET a 1 b 2
A COMMAND GETKEYS BZPOPMIN a b 0
A COMMAND GETKEYS BZMPOP 0 2 a b MIN
A COMMAND GETKEYSANDFLAGS ZMPOP 1 a MIN
A COMMAND GETKEYSANDFLAGS ZINTERSTORE d 1 a
A COMMAND GETKEYSANDFLAGS BZPOPMAX a b 0
A COMMAND GETKEYSANDFLAGS INCR a
A COMMAND GETKEYSANDFLAGS APPEND a b
A COMMAND GETKEYSANDFLAGS MSETNX a b
A COMMAND GETKEYSANDFLAGS SETNX a b
A COMMAND GETKEYSANDFLAGS GETDEL a
A COMMAND GETKEYSANDFLAGS GETEX a
A COMMAND GETKEYSANDFLAGS GETSET a b
A COMMAND GETKEYSANDFLAGS MGET a b
A COMMAND GETKEYSANDFLAGS STRLEN a
A COMMAND GETKEYSANDFLAGS ZREMRANGEBYLEX a - +
A COMMAND GETKEYSANDFLAGS ZRANDMEMBER a
A TIME x
A ECHO
A SCRIPT FLUSH nosuch
A SCRIPT FLUSH
A SCRIPT FLUSH async
A SCRIPT FLUSH async x
A SCRIPT NOSUCH
A SCRIPT
A SCRIPT EXISTS
A SCRIPT EXISTS 8000000000000000000000000000000000000000
A SCRIPT EXISTS a b c
A SCRIPT KILL
A SCRIPT KILL x
A SCRIPT LOAD
A EVALSHA
A EVALSHA a
A EVALSHA a x
A EVALSHA 8000000000000000000000000000000000000000 0
A EVALSHA 8000000000000000000000000000000000000000 1 k a
A EVALSHA 8000000000000000000000000000000000000000 x k a
A EVALSHA 8000000000000000000000000000000000000000 2 k
A EVALSHA 8000000000000000000000000000000000000000 -1 k
A EVALSHA_RO 8000000000000000000000000000000000000000 1 k
A EVALSHA_RO short 1 k
A EVAL
A EVAL x
A FCALL x
A MULTI
A EVALSHA 8000000000000000000000000000000000000000 0
A EVALSHA
A EXEC
A MULTI
A EVALSHA 8000000000000000000000000000000000000000 0
A SCRIPT EXISTS a
A EXEC
A FUNCTION LIST
A FUNCTION LIST WITHCODE
A FUNCTION LIST LIBRARYNAME
A FUNCTION LIST LIBRARYNAME x WITHCODE
A FUNCTION LIST NOSUCH
A FUNCTION LIST WITHCODE WITHCODE
A FUNCTION KILL
A FUNCTION LOAD
A FUNCTION FLUSH nosuch
A FUNCTION FLUSH sync
A FUNCTION FLUSH sync x
A COMMAND GETKEYS GEOADD k 1 2 m
A COMMAND GETKEYS DEL a b c
A COMMAND GETKEYS PING x
A COMMAND GETKEYS NOSUCH x
A COMMAND GETKEYS GEOADD k
A COMMAND GETKEYSANDFLAGS ZCARD k
A COMMAND GETKEYSANDFLAGS NOSUCH k
A COMMAND INFO nosuch
A COMMAND COUNT x
A COMMAND LIST x
A COMMAND LIST FILTERBY nosuch x
A COMMAND LIST FILTERBY MODULE x
A COMMAND NOSUCH
A COMMAND DOCS nosuch
A COMMAND GETKEYSANDFLAGS DEL a b
A COMMAND GETKEYSANDFLAGS ZREM a b
A COMMAND GETKEYSANDFLAGS GEOADD a 1 1 b
A COMMAND GETKEYSANDFLAGS ZSCORE a b
A COMMAND GETKEYSANDFLAGS WATCH a b
";

const SETTINGS: &str = "
A CONFIG
A CONFIG NOSUCH
A CONFIG GET
A CONFIG GET nosuch
A CONFIG GET databases
A CONFIG GET maxmemory-policy
A CONFIG GET APPENDONLY
A CONFIG GET save
A CONFIG GET timeou? timeout
A CONFIG GET Timeout
A CONFIG GET zset-max-listpack-entries
A CONFIG GET zset-max-ziplist-value
A CONFIG SET zset-max-ziplist-entries 64 zset-max-listpack-value 1kb
A CONFIG GET zset-max-listpack-entries
A CONFIG GET zset-max-listpack-value
A CONFIG SET zset-max-listpack-entries -1
A CONFIG SET zset-max-listpack-entries 128 zset-max-listpack-value 64
A CONFIG GET slowlog-max-len
A CONFIG GET slowlog-log-slower-than
A CONFIG SET a
A CONFIG SET nosuch x
A CONFIG SET maxmemory x
A CONFIG SET maxmemory -1
A CONFIG SET maxmemory 1 maxmemory 2
A CONFIG SET databases 3
A CONFIG SET maxclients 0
A CONFIG SET maxclients x
A CONFIG SET timeout -1
A CONFIG SET timeout 100 maxclients 5000
A CONFIG GET timeout
A CONFIG SET timeout 7 maxclients x
A CONFIG GET timeout
A CONFIG SET timeout 0
A CONFIG SET slowlog-log-slower-than x
A CONFIG SET slowlog-max-len -1
A CONFIG SET client-output-buffer-limit foo
A CONFIG SET client-output-buffer-limit 'normal 1 2'
A CONFIG SET client-output-buffer-limit 'pubsub 1mb 2 3'
A CONFIG SET client-output-buffer-limit 'nosuch 1mb 2 3'
A CONFIG SET client-output-buffer-limit 'normal x 2 3'
A CONFIG SET maxmemory 100mb
A CONFIG GET maxmemory
A CONFIG SET maxmemory 1
A GEOADD k 1 1 m
A ZCARD k
A DEL k
A ZREM k m
A MULTI
A ZCARD k
A EXEC
A MULTI
A EXEC
A MULTI
A DISCARD
A CONFIG SET maxmemory 0
A MULTI
A GEOADD k 1 1 m
B CONFIG SET maxmemory 1
A EXEC
B CONFIG SET maxmemory 0
A EXEC
A EXISTS k
A GEOADD k 1 1 m
A CONFIG RESETSTAT x
A CONFIG RESETSTAT
A INFO errorstats
A NOSUCH
A GEOADD k
A EXEC
A EXEC x
A HELLO 9
A GEOSEARCH k FROMMEMBER nobody BYRADIUS 1 km
A CONFIG SET maxmemory 1
A GEOADD k 1 1 m
A CONFIG SET maxmemory 0
A INFO errorstats
A SLOWLOG GET x
A SLOWLOG GET -2
A SLOWLOG GET 1 2
A SLOWLOG NOSUCH
A SLOWLOG RESET
A SLOWLOG LEN
A SLOWLOG LEN x
A LATENCY LATEST
A LATENCY HISTORY x
A LATENCY RESET
A LATENCY RESET x
A LATENCY NOSUCH
A LATENCY HISTOGRAM nosuch
A CONFIG SET requirepass secret
A PING
B PING
C PING
C HELLO 3
C MULTI
C AUTH wrong
C AUTH secret
C PING
C ACL LIST
C ACL GETUSER default
C RESET
C PING
C AUTH default secret
C CONFIG SET requirepass ''
C AUTH secret
C ACL LIST
";

const REPLICATION: &str = "
A ROLE
A ROLE x
A WAIT 0 0
A WAIT 0 100
A WAIT -1 1
A WAIT 1 10
A WAIT x 0
A WAIT 1 x
A WAIT 1 -1
A WAIT 1
A MULTI
A WAIT 3 0
A ROLE
A EXEC
A READONLY
A READWRITE
A READONLY now
A ASKING
A REPLICAOF NO ONE
A SLAVEOF no one
A REPLICAOF localhost x
A REPLICAOF localhost 65536
A SLAVEOF localhost -1
A REPLICAOF localhost
A PSYNC ?
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
}

#[test]
fn conversations_are_those_of_redis() {
    let Some(peer) = Peer::start() else {
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        let text = "redis-server is not installed (package redis-server)";
        assert!(!required.split(',').any(|word| word == "peers"), "{text}");
        println!("skipped: {text}");
        return;
    };
    let mut faults = Vec::new();
    for (title, lines) in [
        ("transactions", TRANSACTIONS),
        ("swapped databases", SWAPPED),
        ("channels", CHANNELS),
        ("notices to those who want no replies", NOTICES),
        ("clients", CLIENTS),
        ("settings", SETTINGS),
        ("replication", REPLICATION),
    ] {
        let door = Door::in_memory();
        let side = |address| Side { address, connections: BTreeMap::new() };
        let (mut ours, mut theirs) = (side(door.door.addresses()[0]), side(peer.address));
        theirs.connection('Z').ask(&["FLUSHALL"]);
        theirs.connection('Z').ask(&["CONFIG", "SET", "timeout", "0", "maxmemory", "0"]);
        for line in lines.lines().filter(|line| !line.is_empty()) {
            say(&mut ours, &mut theirs, line)
                .unwrap_or_else(|fault| faults.push(format!("{title}: {line}\n{fault}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Sends a line to both and compares what they say.
fn say(ours: &mut Side, theirs: &mut Side, line: &str) -> Result<(), String> {
    let letter = line.chars().next().expect("a line names its connection");
    let mut words = words_of(&line[1..]);
    let compared = words.first().is_none_or(|word| word != "~");
    let answered = words.first().is_none_or(|word| word != "!");
    words.retain(|word| word != "~" && word != "!");
    let mut replies = Vec::new();
    for side in [ours, theirs] {
        let client = side.connection(letter);
        if words != ["<"] {
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            client.send(&request(&words));
        }
        if answered {
            replies.push(client.reply());
        }
    }
    if !answered {
        return Ok(());
    }
    let same = replies[0].bytes == replies[1].bytes;
    if compared && !same {
        return Err(format!("  whered: {:?}\n  redis:  {:?}", replies[0], replies[1]));
    }
    Ok(())
}

/// Words between blanks; quotes keep blanks together.
fn words_of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in text.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}
