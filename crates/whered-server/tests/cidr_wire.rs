//! `CIDR.*` on whole sets through a connection: ranges, loads, exports, algebra.

mod support;

use support::Door;
use support::client::{Client, Value, request};
use whered_engine::{EngineOptions, Setup};

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn ask(client: &mut Client, words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    client.ask(&words)
}

#[test]
fn ranges_are_members_as_they_were_given() {
    let door = Door::in_memory();
    let mut client = door.client();
    let mut case = |words: &str, reply: &str| assert_eq!(ask(&mut client, words), reply, "{words}");
    case("CIDR.ADD s VALUE lab 10.0.0.3-10.0.0.9 10.0.0.0/8", ":2\r\n");
    case("CIDR.ADD s 10.0.0.3-10.0.0.9", ":0\r\n");
    case("CIDR.MATCH s 10.0.0.9", &bulk("10.0.0.3-10.0.0.9"));
    case(
        "CIDR.MATCH s 10.0.0.10 WITHVALUE",
        &format!("*2\r\n{}{}", bulk("10.0.0.0/8"), bulk("lab")),
    );
    let both = format!("*2\r\n{}{}", bulk("10.0.0.3-10.0.0.9"), bulk("10.0.0.0/8"));
    case("CIDR.MATCH s 10.0.0.3 ALL", &both);
    case("CIDR.ISMEMBER s 10.0.0.3-10.0.0.9", ":1\r\n");
    case("CIDR.ISMEMBER s 10.0.0.3-10.0.0.8", ":0\r\n");
    case("CIDR.ISMEMBER s 10.0.0.4", ":0\r\n");
    case("CIDR.ISMEMBER s 10.0.0.0-10.255.255.255", ":1\r\n");
    case("CIDR.CARD s", ":2\r\n");
    case("CIDR.REM s 10.0.0.3-10.0.0.9", ":1\r\n");
    case("CIDR.MATCH s 10.0.0.4", &bulk("10.0.0.0/8"));
    case(
        "CIDR.ADD s 10.0.0.9-10.0.0.3",
        "-ERR a range goes from 10.0.0.9 to 10.0.0.3: allowed is upwards\r\n",
    );
    case("CIDR.ISMEMBER nosuch 10.0.0.4", "-ERR no such prefix set 'nosuch'\r\n");
}

#[test]
fn an_expired_member_is_invisible_at_once() {
    let door = Door::in_memory();
    let sets = door.engine.prefix_sets();
    let wide: whered_engine::ip::Block = "10.0.0.0/8".parse().unwrap();
    let narrow: whered_engine::ip::Block = "10.1.0.0/16".parse().unwrap();
    sets.add("s", &[wide], None, None).unwrap();
    sets.add("s", &[narrow], None, Some(door.engine.now_millis() - 1)).unwrap();
    let mut client = door.client();
    for _ in 0..2 {
        assert_eq!(ask(&mut client, "CIDR.MATCH s 10.1.0.1"), bulk("10.0.0.0/8"));
        assert_eq!(
            ask(&mut client, "CIDR.MMATCH s 10.1.0.1"),
            format!("*1\r\n{}", bulk("10.0.0.0/8"))
        );
        assert_eq!(ask(&mut client, "CIDR.COUNT s"), ":1\r\n");
        sets.compact_all();
    }
    assert_eq!(ask(&mut client, "CIDR.ADD s EX 100 10.1.0.0/16"), ":1\r\n");
    assert_eq!(ask(&mut client, "CIDR.MATCH s 10.1.0.1"), bulk("10.1.0.0/16"));
}

#[test]
fn texts_are_loaded_as_a_whole_and_exported_again() {
    let door = Door::in_memory();
    let mut client = door.client();
    assert_eq!(
        client.ask(&["CIDR.LOAD", "s", "BULK", "# list\n10.0.0.0/8\n10.0.0.3-10.0.0.9\n::1\n"]),
        ":3\r\n"
    );
    assert_eq!(ask(&mut client, "CIDR.EXPORT s"), bulk("10.0.0.0/8\n10.0.0.3-10.0.0.9\n::1\n"));
    assert_eq!(
        client.ask(&["CIDR.LOAD", "s", "bulk", "10.0.0.0/8\n10.0.0.0/99\n", "replace"]),
        "-ERR line 2, column 10: found \"99\": allowed is a length of 0 to 32 bits\r\n"
    );
    assert_eq!(ask(&mut client, "CIDR.CARD s"), ":3\r\n");
    let json = r#"[{"prefix": "192.0.2.1", "value": "x"}]"#;
    assert_eq!(
        client.ask(&["CIDR.LOAD", "s", "BULK", json, "REPLACE", "FORMAT", "json"]),
        "-ERR set 's': found 1 members in the place of 3, a loss of 50 % or more\r\n"
    );
    assert_eq!(
        client.ask(&["CIDR.LOAD", "s", "BULK", json, "REPLACE", "MAXSHRINK", "100"]),
        ":1\r\n"
    );
    assert_eq!(
        ask(&mut client, "CIDR.EXPORT s FORMAT json"),
        bulk("[\n{\"prefix\":\"192.0.2.1\",\"value\":\"x\"}\n]\n")
    );
    for format in ["plain", "ipset", "nft", "json"] {
        let text = ask(&mut client, &format!("CIDR.EXPORT s FORMAT {format}"));
        let text = text.split_once("\r\n").expect("a length").1.trim_end();
        assert_eq!(
            client.ask(&["CIDR.LOAD", "t", "BULK", text, "REPLACE", "FORMAT", format]),
            ":1\r\n"
        );
        assert_eq!(ask(&mut client, "CIDR.MATCH t 192.0.2.1"), bulk("192.0.2.1/32"));
    }
    for (words, error) in [
        ("CIDR.EXPORT s FORMAT csv", "-ERR this format is only read"),
        ("CIDR.EXPORT s FORMAT x", "-ERR \"x\" is no format of sets: allowed is plain,"),
        ("CIDR.EXPORT s x", "-ERR syntax error"),
        ("CIDR.EXPORT nosuch", "-ERR no such prefix set"),
        ("CIDR.LOAD s x y", "-ERR syntax error"),
        ("CIDR.LOAD s BULK y FORMAT", "-ERR syntax error"),
        ("CIDR.LOAD s BULK 10.0.0.1 EX 0", "-ERR invalid expire time in 'cidr.load' command"),
        ("CIDR.LOAD s FILE list", "-ERR files of sets are not allowed: 'directory' of [sets]"),
    ] {
        let found = ask(&mut client, words);
        assert!(found.starts_with(error), "{words}: {found}");
    }
}

#[test]
fn a_large_set_is_exported_part_by_part_and_scanned_step_by_step() {
    let door = Door::in_memory();
    let mut client = door.client();
    let lines: Vec<String> =
        (0..60_000).map(|n| format!("10.{}.{}.{}", n >> 12, n >> 4 & 255, n & 15)).collect();
    let text = format!("{}\n", lines.join("\n"));
    assert_eq!(client.ask(&["CIDR.LOAD", "s", "BULK", &text]), ":60000\r\n");
    // Some that are not compiled yet.
    assert_eq!(ask(&mut client, "CIDR.ADD s 9.0.0.0/8 10.1.0.0/16"), ":2\r\n");
    client.send(b"CIDR.EXPORT s\r\nPING\r\n");
    let exported = client.reply();
    let Value::Bulk(exported) = exported.value else { panic!("a bulk was expected") };
    assert_eq!(client.reply().bytes, b"+PONG\r\n");
    let exported = String::from_utf8(exported).expect("a text");
    assert_eq!(exported.lines().count(), 60_002);
    assert!(exported.starts_with("9.0.0.0/8\n10.0.0.0\n"), "{}", &exported[..60]);
    assert_eq!(client.ask(&["CIDR.LOAD", "copy", "BULK", &exported]), ":60002\r\n");
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let words = ["CIDR.SCAN", "copy", &cursor, "COUNT", "7000"];
        client.send(&support::client::request(&words.map(str::as_bytes)));
        let Value::Array(parts) = client.reply().value else { panic!("an array was expected") };
        let [Value::Bulk(next), Value::Array(members)] = &parts[..] else { panic!("two parts") };
        found.extend(members.iter().map(|member| match member {
            Value::Bulk(block) => String::from_utf8(block.clone()).expect("a text"),
            _ => panic!("a bulk was expected"),
        }));
        cursor = String::from_utf8(next.clone()).expect("a text");
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found.len(), 60_002);
    assert_eq!(found[1], "10.0.0.0/32");
    assert!(ask(&mut client, "CIDR.SCAN s ten").starts_with("-ERR"));
    let info = ask(&mut client, "CIDR.INFO s");
    for word in ["members", "60002", "pending", "because", "last_fold_seconds"] {
        assert!(info.contains(word), "no {word} in {info}");
    }
}

#[test]
fn sets_are_made_of_sets() {
    let door = Door::in_memory();
    let mut client = door.client();
    let mut case = |words: &str, reply: &str| assert_eq!(ask(&mut client, words), reply, "{words}");
    case("CIDR.ADD a 10.0.0.0/9 10.128.0.0/9", ":2\r\n");
    case("CIDR.ADD b 10.1.0.0/16 192.0.2.0/24", ":2\r\n");
    case("CIDR.UNION u a b", ":4\r\n");
    case("CIDR.SUMMARISE u u", ":2\r\n");
    case("CIDR.EXPORT u", &bulk("10.0.0.0/8\n192.0.2.0/24\n"));
    case("CIDR.INTER i a b", ":1\r\n");
    case("CIDR.EXPORT i", &bulk("10.1.0.0/16\n"));
    case("CIDR.DIFF d b a", ":1\r\n");
    case("CIDR.EXPORT d", &bulk("192.0.2.0/24\n"));
    case("CIDR.COMPLEMENT c a", ":2\r\n");
    case("CIDR.EXPORT c", &bulk("0.0.0.0-9.255.255.255\n11.0.0.0-255.255.255.255\n"));
    case("CIDR.UNION u nosuch", "-ERR no such prefix set 'nosuch'\r\n");
}

#[test]
fn empty_and_much_smaller_lists_are_refused_unless_asked_for() {
    let door = Door::in_memory();
    let mut client = door.client();
    let list: String = (0..10).map(|n| format!("10.0.{n}.0/24\n")).collect();
    assert_eq!(client.ask(&["CIDR.LOAD", "s", "BULK", &list, "REPLACE"]), ":10\r\n");
    for empty in ["", "# nothing\n", "[]", "table ip t { set s { type ipv4_addr; } }"] {
        assert_eq!(
            client.ask(&["CIDR.LOAD", "s", "BULK", empty, "REPLACE"]),
            "-ERR set 's': found no members\r\n",
            "{empty}"
        );
    }
    let half: String = list.lines().take(5).map(|line| format!("{line}\n")).collect();
    let refused = client.ask(&["CIDR.LOAD", "s", "BULK", &half, "REPLACE"]);
    assert!(refused.starts_with("-ERR set 's': found 5 members in the place of 10"), "{refused}");
    assert_eq!(ask(&mut client, "CIDR.COUNT s"), ":10\r\n");
    let words = ["CIDR.LOAD", "s", "BULK", &half, "REPLACE", "MAXSHRINK", "51"];
    assert_eq!(client.ask(&words), ":5\r\n");
    assert_eq!(client.ask(&["CIDR.LOAD", "s", "BULK", "", "REPLACE", "ALLOWEMPTY"]), ":0\r\n");
    assert_eq!(ask(&mut client, "CIDR.COUNT s"), ":0\r\n");
    for words in ["CIDR.LOAD s BULK 1.1.1.1 ALLOWEMPTY", "CIDR.LOAD s BULK 1.1.1.1 MAXSHRINK 9"] {
        assert_eq!(ask(&mut client, words), "-ERR syntax error\r\n");
    }
    assert_eq!(
        ask(&mut client, "CIDR.LOAD s BULK 1.1.1.1 REPLACE MAXSHRINK 101"),
        "-ERR MAXSHRINK must be from 1 to 100\r\n"
    );
}

#[test]
fn formats_are_guessed_and_one_of_several_sets_is_named() {
    let door = Door::in_memory();
    let mut client = door.client();
    let dump = "create good hash:net\ncreate bad hash:ip netmask 24\nadd good 10.0.0.0/8\n\
                add bad 1.2.3.0\n";
    let refused = client.ask(&["CIDR.LOAD", "s", "BULK", dump]);
    assert!(refused.ends_with("the name of one of several: good, bad\r\n"), "{refused}");
    assert_eq!(client.ask(&["CIDR.LOAD", "s", "BULK", dump, "SET", "bad"]), ":1\r\n");
    assert_eq!(ask(&mut client, "CIDR.MATCH s 1.2.3.77"), bulk("1.2.3.0/24"));
    assert_eq!(ask(&mut client, "CIDR.MATCH s 10.0.0.1"), "$-1\r\n");
    let nft = "add element ip t s { 192.0.2.0/24 }";
    assert_eq!(client.ask(&["CIDR.LOAD", "n", "BULK", nft]), ":1\r\n");
    assert_eq!(ask(&mut client, "CIDR.MATCH n 192.0.2.1"), bulk("192.0.2.0/24"));
}

#[test]
fn bits_behind_a_prefix_are_refused_where_the_sets_are_strict() {
    for is_strict in [false, true] {
        let setup = Setup { sets_strict: is_strict, ..Setup::default() };
        let door = Door::with(EngineOptions { setup, ..EngineOptions::default() }, |_| {});
        let mut client = door.client();
        let added = ask(&mut client, "CIDR.ADD s 10.0.0.0/8 1.0.0.1/8");
        let loaded = client.ask(&["CIDR.LOAD", "t", "BULK", "10.0.0.0/8\n1.0.0.1/8\n"]);
        if is_strict {
            let expected =
                "-ERR '1.0.0.1/8' has bits set behind its length; allowed is 1.0.0.0/8\r\n";
            assert_eq!(added, expected);
            assert!(loaded.starts_with("-ERR line 2, column 1: found \"1.0.0.1/8\""), "{loaded}");
        } else {
            assert_eq!((added.as_str(), loaded.as_str()), (":2\r\n", ":2\r\n"));
        }
    }
}

#[test]
fn sets_are_deleted_with_their_names() {
    let door = Door::in_memory();
    let mut client = door.client();
    for set in ["a", "b", "c"] {
        assert_eq!(ask(&mut client, &format!("CIDR.ADD {set} 10.0.0.0/8")), ":1\r\n");
    }
    assert_eq!(ask(&mut client, "CIDR.REM a 10.0.0.0/8"), ":1\r\n");
    assert_eq!(ask(&mut client, "FLUSHALL"), "+OK\r\n");
    assert_eq!(ask(&mut client, "CIDR.LIST"), "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n");
    assert_eq!(ask(&mut client, "CIDR.DEL a c nosuch"), ":2\r\n");
    assert_eq!(ask(&mut client, "CIDR.LIST"), "*1\r\n$1\r\nb\r\n");
    assert!(ask(&mut client, "CIDR.COUNT a").starts_with("-ERR no such prefix set"));
    assert_eq!(ask(&mut client, "CIDR.DEL a"), ":0\r\n");
    assert_eq!(ask(&mut client, "CIDR.ADD a 192.0.2.0/24"), ":1\r\n");
    assert_eq!(ask(&mut client, "CIDR.EXPORT a"), bulk("192.0.2.0/24\n"));
}

#[test]
fn files_come_from_the_configured_directory() {
    let folder = std::env::temp_dir().join(format!("whered-cidr-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    std::fs::write(folder.join("list"), "10.0.0.0/8\n192.0.2.1\n").expect("it can be written");
    let setup = Setup { sets_directory: Some(folder.clone()), ..Setup::default() };
    let door = Door::with(EngineOptions { setup, ..EngineOptions::default() }, |_| {});
    let mut client = door.client();
    assert_eq!(ask(&mut client, "CIDR.LOAD s FILE list VALUE bad EX 60"), ":2\r\n");
    let found = ask(&mut client, "CIDR.MATCH s 192.0.2.1 WITHVALUE");
    assert_eq!(found, format!("*2\r\n{}{}", bulk("192.0.2.1/32"), bulk("bad")));
    assert!(ask(&mut client, "CIDR.LOAD s FILE ../list").contains("no name of a file"));
    let dump = "create a hash:net\nadd a 10.0.0.0/8\nadd b 192.0.2.0/24\n";
    std::fs::write(folder.join("dump"), dump).expect("it can be written");
    assert!(ask(&mut client, "CIDR.LOAD b FILE dump").contains("one of several: a, b"));
    assert_eq!(ask(&mut client, "CIDR.LOAD b FILE dump:b"), ":1\r\n");
    assert_eq!(ask(&mut client, "CIDR.MATCH b 192.0.2.1"), bulk("192.0.2.0/24"));
    std::fs::remove_dir_all(&folder).expect("it is ours");
}

#[test]
fn a_long_list_is_read_elsewhere_and_counts_before_what_comes_behind_it() {
    let door = Door::in_memory();
    let mut client = door.client();
    let list: String = (0..20_000).map(|n| format!("10.{}.{}.0/24\n", n / 250, n % 250)).collect();
    let load = |set: &str, text: &str| {
        request(&[b"CIDR.LOAD", set.as_bytes(), b"BULK", text.as_bytes(), b"REPLACE"])
    };
    // What stands behind it in the pipeline sees the whole list.
    let mut requests = load("long", &list);
    requests.extend(request(&[b"CIDR.MATCH", b"long", b"10.79.249.1"]));
    requests.extend(load("long", &format!("{list}10.0.0.0/99\n")));
    requests.extend(request(&[b"CIDR.MATCH", b"long", b"10.79.249.1"]));
    client.send(&requests);
    assert_eq!(client.reply().bytes, b":20000\r\n");
    assert_eq!(client.reply().bytes, b"$14\r\n10.79.249.0/24\r\n");
    let refused = String::from_utf8_lossy(&client.reply().bytes).into_owned();
    assert!(refused.starts_with("-ERR") && refused.contains("20001"), "{refused}");
    assert_eq!(client.reply().bytes, b"$14\r\n10.79.249.0/24\r\n", "a mistake changes nothing");
    // In a transaction it is done at its place.
    let mut requests = request(&[b"MULTI"]);
    requests.extend(load("other", &list));
    requests.extend(request(&[b"CIDR.MATCH", b"other", b"10.0.0.1"]));
    requests.extend(request(&[b"EXEC"]));
    client.send(&requests);
    for _ in 0..3 {
        assert!(client.reply().bytes.starts_with(b"+"));
    }
    assert_eq!(client.reply().bytes, b"*2\r\n:20000\r\n$11\r\n10.0.0.0/24\r\n");
}

#[test]
fn one_wrong_address_of_a_batch_costs_its_own_answer_only() {
    let door = Door::in_memory();
    let mut client = door.client();
    assert_eq!(ask(&mut client, "CIDR.ADD s 10.0.0.0/8 2001:db8::/32"), ":2\r\n");
    assert_eq!(
        ask(&mut client, "CIDR.MMATCH s 10.1.0.1 ten 11.0.0.1 2001:db8::1 10.0.0.256"),
        format!(
            "*5\r\n{}-ERR 'ten' is not an IP address\r\n$-1\r\n{}-ERR '10.0.0.256' is not an IP \
             address\r\n",
            bulk("10.0.0.0/8"),
            bulk("2001:db8::/32")
        )
    );
}

#[test]
fn a_mapped_prefix_is_the_ipv4_prefix_that_it_stands_for() {
    let door = Door::in_memory();
    let mut client = door.client();
    assert_eq!(ask(&mut client, "CIDR.ADD s ::ffff:10.1.0.0/112 ::ffff:0:0/64"), ":2\r\n");
    for address in ["10.1.2.3", "::ffff:10.1.2.3"] {
        assert_eq!(ask(&mut client, &format!("CIDR.MATCH s {address}")), bulk("10.1.0.0/16"));
    }
    assert_eq!(ask(&mut client, "CIDR.ISMEMBER s ::ffff:10.1.0.0/112"), ":1\r\n");
    assert_eq!(
        client.ask(&[
            "CIDR.LOAD",
            "t",
            "BULK",
            "::ffff:192.0.2.0/120\n::ffff:1.1.1.1-::ffff:1.1.1.9\n"
        ]),
        ":2\r\n"
    );
    assert_eq!(ask(&mut client, "CIDR.MATCH t 192.0.2.7"), bulk("192.0.2.0/24"));
    assert_eq!(ask(&mut client, "CIDR.MATCH t ::ffff:1.1.1.2"), bulk("1.1.1.1-1.1.1.9"));
    assert_eq!(ask(&mut client, "CIDR.REM s ::ffff:10.1.0.0/112"), ":1\r\n");
    assert_eq!(ask(&mut client, "CIDR.MATCH s 10.1.2.3"), "$-1\r\n");
}
