//! The command table: names, texts, and the page `docs/reference/commands.md` that is made from it.

use std::fmt::Write as _;
use std::path::Path;

use super::*;

/// The families in the page's order, with their headings.
const GROUPS: [(&str, &str); 17] = [
    ("ip", "IP databases"),
    ("cidr", "Prefix sets"),
    ("rules", "Rulesets"),
    ("steer", "Pools and sites"),
    ("zone", "Zones"),
    ("feed", "Feeds"),
    ("table", "Tables"),
    ("geo", "Collections of points"),
    ("sorted-set", "Collections as sorted sets"),
    ("generic", "Keys"),
    ("transactions", "Transactions"),
    ("pubsub", "Channels"),
    ("string", "Strings"),
    ("connection", "Connections"),
    ("server", "The server"),
    ("cluster", "Cluster"),
    ("scripting", "Scripts and functions"),
];

const TOP: &str = "\
# Commands

All commands of the RESP interface. This page is made from the table that dispatch and `COMMAND` use. \
Commands of Redis reply as Redis 7.0 does. *since* is the version of Redis that introduced a command; \
for other commands it is the version of `whered`.

While `make run` in a clone serves the demonstration:

<!-- example: server -->
```sh
redis-cli -p 6380 IP.GET city 8.8.8.8 country.iso_code
redis-cli -p 6380 GEOSEARCH cities FROMLONLAT 8.68 50.11 BYRADIUS 100 km ASC WITHDIST
redis-cli -p 6380 CIDR.MATCH bogons 10.1.2.3 WITHVALUE
redis-cli -p 6380 COMMAND DOCS geodist | sed -n 3p
```
```text
US
Frankfurt
0.1802
10.0.0.0/8
private use (RFC 1918)
Returns the distance between two members
```

- **Names.** Names of commands and options are not case-sensitive. Keys and members are any bytes. Names of \
databases, prefix sets, rulesets, pools, sites, feeds and tables are UTF-8 and case-sensitive.
- **Users.** Each name in a command is compared with the patterns of its user for that kind \
([configuration](configuration.md#respuser-users-with-rules)). Lists have only the names that the user may use.
- **Keys.** Databases, prefix sets, rulesets, pools, sites and tables are no keys: `DEL`, `TYPE` and `FLUSHALL` do not \
affect them.
- **Missing things** are errors: `-ERR no such database 'x'`, `-ERR no such prefix set 'x'`, \
`-ERR no such pool 'x'`, `-ERR no such site 'x'`. A missing key is an empty collection, as in Redis.
- **Durability.** A write is answered when it is durable ([durability](../operate/durability.md)). The reply to a write \
that the journal refuses begins with `-MISCONF`, and nothing of the write was applied.
- **Types.** A key holds a collection of points, a plain sorted set, or a string. The first two are one type for \
clients (`TYPE` says `zset`). A collection becomes a plain sorted set when a score arrives that is not a cell (by \
`ZADD`, `ZINCRBY`, `STOREDIST`, weights). GEO commands read its scores as Redis does. A command for another type gets \
`-WRONGTYPE`.
- **Expiry.** Expiry times are in milliseconds since 1970, also over restarts. An expired key is invisible at once; \
its memory is freed within about a second.
- **Reasons.** `EXPLAIN` as the last word gives [the reasons](../guide/explain.md) instead of the answer.

## Differences from Redis 7.0

- A search finds every point inside the shape, also the few near the poles and at the limits of the globe that Redis \
misses. The distance of antipodes is a number.
- `ZADD` stores the score `-0` as `0`. Redis distinguishes them in sets of more than 128 members.
- `ZSCAN` goes in the order of the scores, and gives members with one score in one step. A member whose score changes \
during the iteration may come twice or not at all.
- `GEOSEARCHSTORE`, `ZRANGESTORE`, `GEORADIUS ... STORE`, `ZUNIONSTORE`, `ZINTERSTORE` and `ZDIFFSTORE` store what \
was found a moment before. Another client's write may come between the two, except in a transaction.
- A range of names (`BYLEX`) in a set whose scores differ is that of Redis for a small set, whatever the size.
- A reply of `ZRANDMEMBER` that is longer than the client's output limit closes the connection.
- `BZPOPMIN`, `BZPOPMAX` and `BZMPOP` see what a feed has put into a key within about a second.
- `SET` with a time in the past removes the key at once.
- `KEYS`, `SCAN` and `PUBSUB CHANNELS` leave out what the user may not use. `FLUSHALL`, `FLUSHDB`, `SWAPDB` and \
`RANDOMKEY` need a user of all keys.
- A line of HTTP closes the connection. This applies to `POST` and `Host:` as in Redis. It also applies to the inline \
requests `PUT`, `DELETE`, `HEAD`, `OPTIONS`, `PATCH`, `CONNECT`, `TRACE` and `PRI`, and to any unknown command that \
ends in `HTTP/1.0` or `HTTP/1.1`.
- `OBJECT ENCODING` and `OBJECT REFCOUNT` say what Redis would. `MEMORY USAGE` says what is used here.
";

/// Every command, each container followed by its subcommands.
fn all_and_subcommands() -> impl Iterator<Item = &'static Command> {
    table().all().flat_map(|command| std::iter::once(command).chain(command.subcommands()))
}

/// Text below a heading, for what the rows do not say.
const NOTES: [(&str, &str); 8] = [
    (
        "feed",
        "An upload is answered when it is on the disk of its feed's spool, and applied a little later. \
         `-TRYAGAIN` says that the spool is full. A push is refused in a transaction.",
    ),
    (
        "table",
        "A row is an array of its cells, those of the key first, in the order of `TABLE.INFO`. Whole \
         numbers and times (milliseconds since 1970) are integers, other numbers are strings, an absent \
         value is null. All changes of a batch to a table become visible at once.",
    ),
    (
        "cidr",
        "Members are prefixes and ranges, stored as given. The smallest member that holds an address and \
         has not expired is its match. `VALUE` and `EX` apply to members that bring none.\n\n\
         - A list of `CIDR.LOAD` counts as a whole; a list with an error changes nothing.\n\
         - With `REPLACE` every reader finds all old members or all new ones, also after a restart. An \
         empty list is refused. So is one that has lost half of the set's members or more, because it may \
         be incomplete. `ALLOWEMPTY` and `MAXSHRINK percent` (the refused loss; 100: none) accept them.\n\
         - A dump of several sets needs the name of one: `SET name`, or `FILE dump:name`. Options of \
         `create` that change what an entry means (`netmask`, `bitmask`, `timeout`, `family`) count or \
         are refused.\n\
         - A set without members stays until `CIDR.DEL`. Sets are no keys: `DEL`, `FLUSHDB` and `FLUSHALL` \
         do not affect them.\n\
         - An export is the set at one moment. `CIDR.SCAN` gives each member once that exists during the \
         whole iteration.",
    ),
    (
        "sorted-set",
        "`BZPOPMIN`, `BZPOPMAX` and `BZMPOP` wait until one of their keys has members. Clients that wait for one key \
         are served in the order in which they came, before the reply of the write that serves them. In a transaction \
         they do not wait. `CLIENT UNBLOCK` ends a wait. A client that goes away takes no member with it.",
    ),
    (
        "string",
        "The journal keeps each changed string as a whole: `APPEND` costs as much as the string is long. \
         `INCRBYFLOAT` computes with the 64 binary digits that Redis has on x86, on every processor.",
    ),
    (
        "transactions",
        "The queued commands run without another client's write between them, and no other client reads a \
         key meanwhile. Reads of prefix sets and sites may see a part of a transaction. The replies are \
         sent together, when the last write is durable. `EXEC` does nothing if a watched key was changed, \
         in the cases in which Redis does: `SET` of the same string changes a key, `ZADD` of the same score \
         does not. `WATCH` does not see the uploads of feeds.",
    ),
    (
        "pubsub",
        "A subscriber that is behind by more than `pubsub_buffer_limit_bytes`, or by a quarter of it for a \
         minute, is disconnected. What a transaction publishes to its own connection (RESP3) follows the \
         reply to `EXEC`; Redis puts it into the middle of that reply.",
    ),
    (
        "server",
        "`CONFIG SET` lasts until the server stops. `CONFIG GET requirepass` is always empty, because only \
         a hash is stored. Users come from the configuration; `ACL` only describes them. Short commands \
         that follow each other in a pipeline are timed together, about 16 of them. If they were slow, the \
         slow log has the command's name without its arguments.",
    ),
];

fn page() -> String {
    let mut page = TOP.to_owned();
    for (group, heading) in GROUPS {
        let _ = write!(page, "\n## {heading}\n\n");
        for (_, note) in NOTES.iter().filter(|(of, _)| *of == group) {
            let _ = write!(page, "{note}\n\n");
        }
        let _ = writeln!(page, "| command | effect | cost | writes | since |");
        let _ = writeln!(page, "| --- | --- | --- | --- | --- |");
        let mut commands: Vec<_> = all_and_subcommands().filter(|c| c.group == group).collect();
        commands.sort_by_key(|command| command.name);
        for command in commands {
            let name = command.name.to_uppercase().replace('|', " ");
            let call = format!("{name} {}", command.syntax).trim().replace('|', "\\|");
            let writes = if command.has(Flag::Write) { "yes" } else { "" };
            let Command { summary, cost, since, .. } = command;
            let _ = writeln!(page, "| `{call}` | {summary} | {cost} | {writes} | {since} |");
        }
    }
    page
}

#[test]
fn the_page_of_commands_is_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/commands.md");
    if std::env::var_os("WHERED_BLESS").is_some() {
        std::fs::write(&path, page()).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page(),
        "docs/reference/commands.md is not what the table says; set WHERED_BLESS=1 and run this test again"
    );
}

#[test]
fn every_command_is_on_the_page_once() {
    let page = page();
    let rows = page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, all_and_subcommands().count(), "a group without a heading");
}

#[test]
fn every_command_is_found_by_its_name_and_no_name_is_used_twice() {
    for command in table().all() {
        let found = table().by_name(command.name.to_uppercase().as_bytes());
        assert!(found.is_some_and(|found| std::ptr::eq(found, command)), "{}", command.name);
        for sub in command.subcommands() {
            assert!(sub.name.starts_with(&format!("{}|", command.name)), "{}", sub.name);
        }
    }
    assert!(table().by_name(b"nosuch").is_none());
    assert!(table().by_name(b"").is_none());
}

/// The kinds of what a command's arguments name, by the words of its syntax.
fn kinds_by_syntax(command: &Command) -> std::collections::BTreeSet<NameKind> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let words = command.syntax.split(|c| !is_word(c));
    let kind = |word: &str| match word {
        "database" => Some(NameKind::Database),
        "set" => Some(NameKind::Set),
        "ruleset" => Some(NameKind::Ruleset),
        "pool" | "site" => Some(NameKind::Pool),
        "zone" => Some(NameKind::Zone),
        "name" if command.group == "zone" => Some(NameKind::Zone),
        "feed" => Some(NameKind::Feed),
        "table" => Some(NameKind::Table),
        "destination" | "source" if command.group == "cidr" => Some(NameKind::Set),
        // Scripts never run, so that their keys are not touched.
        "key" if ["table", "feed", "scripting"].contains(&command.group) => None,
        "key" | "newkey" | "destination" | "source" | "dst" | "src" => Some(NameKind::Key),
        _ => None,
    };
    words.filter_map(kind).collect()
}

#[test]
fn every_command_with_a_name_for_an_argument_declares_it() {
    for command in all_and_subcommands() {
        let found = kinds_by_syntax(command);
        let asked = command.names.iter().filter(|named| !matches!(named, NameSpec::Shown(_)));
        let mut declared: std::collections::BTreeSet<NameKind> =
            asked.flat_map(|named| named.kinds().iter().copied()).collect();
        if !command.keys.is_empty() {
            declared.insert(NameKind::Key);
        }
        assert!(found.is_subset(&declared), "{}: {found:?}, {declared:?}", command.name);
        // A list of a family shows names, and every other command of it has one.
        let is_family = ["ip", "cidr", "rules", "steer", "zone", "feed", "table"];
        if is_family.contains(&command.group) {
            assert!(!command.names.is_empty(), "{} names nothing", command.name);
            let is_list = command.name.ends_with(".list") && command.arity == 1;
            let shows = command.names.iter().any(|named| matches!(named, NameSpec::Shown(_)));
            assert_eq!(is_list, shows, "{}", command.name);
        }
        for named in command.names {
            if let NameSpec::Args(_, first, _) = named {
                assert!(command.arity.unsigned_abs() as usize > *first, "{}", command.name);
            }
        }
    }
}

#[test]
fn every_command_tells_its_purpose_and_cost() {
    for command in all_and_subcommands() {
        let told = [command.summary, command.cost, command.since, command.group];
        assert!(told.iter().all(|text| !text.is_empty()), "{}", command.name);
        assert_ne!(command.arity, 0, "{}", command.name);
    }
}

#[test]
fn every_write_and_no_read_says_what_happens_when_memory_is_full() {
    for command in all_and_subcommands() {
        let says = command.when_full != WhenFull::Runs;
        assert_eq!(says, command.has(Flag::Write), "{}", command.name);
    }
}

#[test]
fn writes_and_no_reads_have_keys_that_they_change() {
    for command in all_and_subcommands() {
        let changes = command.keys.iter().any(|spec| spec.access.writes());
        let has_keys = !command.keys.is_empty();
        assert_eq!(changes, command.has(Flag::Write) && has_keys, "{}", command.name);
        // What has no keys names what it writes in another way; of scripts there is none to flush.
        let names = has_keys || !command.names.is_empty() || command.group == "scripting";
        assert!(names || !command.has(Flag::Write), "{} writes to nothing", command.name);
    }
}

#[test]
fn one_command_runs_the_queue_and_no_refused_one_is_for_transactions() {
    let named = |wanted: InTransaction| -> Vec<&str> {
        let found = all_and_subcommands().filter(|command| command.in_transaction == wanted);
        found.map(|command| command.name).collect()
    };
    assert_eq!(named(InTransaction::Executes), ["exec"]);
    assert!(!named(InTransaction::Refused).is_empty());
    for command in all_and_subcommands().filter(|command| command.group == "transactions") {
        assert_ne!(command.in_transaction, InTransaction::Refused, "{}", command.name);
    }
}

/// Every source file below a folder, without tests.
fn sources(folder: &Path, found: &mut Vec<(std::path::PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            sources(&path, found);
        } else if name.ends_with(".rs") && !name.ends_with("_tests.rs") {
            let text = std::fs::read_to_string(&path).expect("a source can be read");
            found.push((path, text));
        }
    }
}

/// Whether a line decides something by the name of a command: it compares with it, matches it, or
/// has it in a list. Words of options and of requests (byte strings) are not meant.
fn decides_by(line: &str, name: &str) -> bool {
    let quoted = format!("\"{name}\"");
    let line = line.trim();
    line.match_indices(&quoted).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + quoted.len()..]);
        let is_alone = before.is_empty() && (after == "," || after.is_empty());
        let comparisons = ["== ", "!= ", "| ", "[", "starts_with("];
        let is_compared = comparisons.iter().any(|it| before.ends_with(it));
        let is_matched = after.starts_with(" |") || after.starts_with(" =>");
        let is_command = before.ends_with(".is(0, ");
        !before.ends_with('b') && (is_alone || is_compared || is_matched || is_command)
    })
}

#[test]
fn nothing_but_the_table_decides_by_the_name_of_a_command() {
    assert!(decides_by("matches!(command.name, \"exec\" | \"reset\")", "reset"));
    assert!(decides_by("const SOME: [&str; 2] = [\"del\", \"unlink\"];", "del"));
    assert!(!decides_by("() if args.is(at, \"get\") => true,", "get"));
    // QUIT is answered before it is looked up; GEOADDs in a row are found by their bytes.
    // Categories, families and classes of clients have names of commands too.
    let allowed = [
        ("mod.rs", "quit"),
        ("moves.rs", "geoadd"),
        ("acl.rs", "set"),
        ("acl.rs", "pubsub"),
        ("acl.rs", "steer"),
        ("parameters.rs", "pubsub"),
    ];
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/resp"), &mut files);
    assert!(files.len() > 40, "the sources are elsewhere");
    for (path, text) in files {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for line in text.split("#[cfg(test)]").next().unwrap_or_default().lines() {
            let found = all_and_subcommands().find(|command| decides_by(line, command.name));
            let is_allowed = found.is_some_and(|it| allowed.contains(&(file.as_str(), it.name)));
            assert!(found.is_none() || is_allowed, "{}: {}", path.display(), line.trim());
        }
    }
}
