//! The command table: names, texts, and the page `docs/reference/commands.md` that is made from it.

use std::fmt::Write as _;
use std::path::Path;

use super::*;

/// The families in the page's order, with their headings.
const GROUPS: [(&str, &str); 16] = [
    ("ip", "Databases of addresses"),
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
    ("string", "Texts"),
    ("connection", "Connections"),
    ("server", "The server"),
    ("scripting", "Scripts and functions"),
];

const TOP: &str = "\
# Commands

Every command of the RESP door, made from the one table that dispatch and `COMMAND` use too. \
Commands that Redis has answer as Redis 7.0 does; *since* is the version of Redis that had them \
first, and for the other commands the version of `whered`.

- The name of a command or option may be written in any case. Keys and members are any bytes; the \
names of databases, prefix sets, pools, sites, feeds and tables are UTF-8 and are told apart by case.
- What a command names is compared with the patterns of its user for that kind \
([configuration.md](configuration.md#resp-user-users-with-rules)); lists give the names that he may touch.
- Databases, prefix sets, pools, sites and tables are no keys: `DEL`, `TYPE` and `FLUSHALL` do not see them.
- What does not exist is an error that says so: `-ERR no such database 'x'`, \
`-ERR no such prefix set 'x'`, `-ERR no such pool 'x'`, `-ERR no such site 'x'`. A key that does \
not exist is an empty collection, as in Redis.
- A write is answered when it is durable ([durability.md](../operate/durability.md)). A write that the \
journal refuses begins with `-MISCONF`, and nothing of it was applied.
- A key holds a collection of points, a sorted set with other scores, or a text. The first two are \
one thing to clients (`TYPE` says `zset`): a collection becomes a plain sorted set when a score \
comes that is no cell (by `ZADD`, `ZINCRBY`, `STOREDIST`), and GEO commands read the scores of that \
as Redis does. A command for another kind of value gets `-WRONGTYPE`.
- Expiry times are kept in milliseconds since 1970, also over restarts. A key whose time is over is \
invisible at once; its memory is freed within a second or so.
- `EXPLAIN` as the last word gives the reasons in the answer's place \
([explain.md](../guide/explain.md)).

What differs from Redis 7.0:

- A search finds every point inside the shape, also the few near the poles and at the limits of the \
globe that Redis misses. The distance of antipodes is a number.
- `ZADD` takes the score `-0` for `0`; Redis tells them apart in sets of more than 128 members.
- `ZSCAN` goes in the order of the scores, and gives members with one score in one step: one whose \
score changes during the iteration may be given twice or not at all.
- `GEOSEARCHSTORE`, `ZRANGESTORE` and `GEORADIUS ... STORE` put what was found a moment before; \
another client's write may come between the two, except in a transaction.
- `SET` with a time that is over removes the key at once.
- `KEYS`, `SCAN` and `PUBSUB CHANNELS` leave out what the user may not touch; `FLUSHALL`, `FLUSHDB`, \
`SWAPDB` and `RANDOMKEY` need a user of all keys.
- A line of HTTP closes the connection: `POST` and `Host:` as in Redis, and as inline requests `PUT`, \
`DELETE`, `HEAD`, `OPTIONS`, `PATCH`, `CONNECT`, `TRACE` and `PRI` too.
- `OBJECT ENCODING` and `REFCOUNT` say what Redis would; `MEMORY USAGE` says what is used here.
";

/// Every command, each container followed by its subcommands.
fn all_and_subcommands() -> impl Iterator<Item = &'static Command> {
    table().all().flat_map(|command| std::iter::once(command).chain(command.subcommands()))
}

/// What stands below a heading, where the rows do not say it.
const NOTES: [(&str, &str); 6] = [
    (
        "feed",
        "An upload is answered when it is on the disk of its feed's spool, and applied a little later; \
         `-TRYAGAIN` says that the spool is full. A push cannot stand in a transaction.",
    ),
    (
        "table",
        "A row is an array of its cells, those of the key first, in the order of `TABLE.INFO`: whole \
         numbers and times (milliseconds since 1970) as integers, other numbers as text, null where \
         there is none. All that a batch of a feed does to a table is seen at once.",
    ),
    (
        "cidr",
        "Members are prefixes and ranges, kept as given; the smallest live one that holds an address \
         is its match. A text of `CIDR.LOAD` counts as a whole or, with a mistake, not at all; \
         with `REPLACE` every reader finds all old members or all new ones, and so does a restart. \
         With `REPLACE` a text without members is refused, and so is one that has lost half of the set's \
         members or more, since it may be cut off: `ALLOWEMPTY` and `MAXSHRINK percent` (the loss that \
         is refused; 100: none) take them. A dump of several sets needs the name of one: `SET name`, or \
         `FILE dump:name`. Options of `create` that change what an entry means (`netmask`, `bitmask`, \
         `timeout`, `family`) count or are refused. A set stays when its last member goes, until \
         `CIDR.DEL`; sets are no keys, so that `DEL`, `FLUSHDB` and `FLUSHALL` leave them alone. \
         `VALUE` and `EX` are for members that bring none. An export is the set of one moment. \
         `CIDR.SCAN` gives what is there during all of the iteration once.",
    ),
    (
        "transactions",
        "The queued commands run without a foreign write between them, and no other client reads a \
         key meanwhile; reads of prefix sets and sites may see a transaction half done. The replies leave together, when the last write is durable. A key \
         counts as changed for `WATCH` when a command wrote to it, even the same value.",
    ),
    (
        "pubsub",
        "A listener that stays behind by more than `pubsub_buffer_limit_bytes`, or by a quarter of \
         it for a minute, is closed. What a transaction publishes to its own connection (RESP3) comes \
         behind the reply to `EXEC`; Redis puts it into the middle of that reply.",
    ),
    (
        "server",
        "`CONFIG SET` lasts until the server stops. `CONFIG GET requirepass` is always empty, since \
         only a hash is kept. Users come from the configuration; `ACL` only tells about them. Short \
         commands that follow each other in a pipeline are timed together, some 16 of them: when \
         they were held up, the slow log has the command's name without its arguments.",
    ),
];

fn page() -> String {
    let mut page = TOP.to_owned();
    for (group, heading) in GROUPS {
        let _ = write!(page, "\n## {heading}\n\n");
        for (_, note) in NOTES.iter().filter(|(of, _)| *of == group) {
            let _ = write!(page, "{note}\n\n");
        }
        let _ = writeln!(page, "| command | what it does | cost | writes | since |");
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
        let asked = command.names.iter().filter(|named| !matches!(named, Named::Shown(_)));
        let mut declared: std::collections::BTreeSet<NameKind> =
            asked.flat_map(|named| named.kinds().iter().copied()).collect();
        if command.keys.0 > 0 {
            declared.insert(NameKind::Key);
        }
        assert!(found.is_subset(&declared), "{}: {found:?}, {declared:?}", command.name);
        // A list of a family shows names, and every other command of it has one.
        let is_family = ["ip", "cidr", "rules", "steer", "zone", "feed", "table"];
        if is_family.contains(&command.group) {
            assert!(!command.names.is_empty(), "{} names nothing", command.name);
            let is_list = command.name.ends_with(".list") && command.arity == 1;
            let shows = command.names.iter().any(|named| matches!(named, Named::Shown(_)));
            assert_eq!(is_list, shows, "{}", command.name);
        }
        for named in command.names {
            if let Named::Args(_, first, _) = named {
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
