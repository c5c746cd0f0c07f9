//! `RULES.*` through a connection.

mod support;

use support::Door;
use whered_engine::{EngineOptions, RulesetSource, Setup};

const RULES: &str = "\
chain input policy drop {
    state {established related} accept
    src @blocked log
    src 10.0.0.0/8 proto tcp dport {22 80-89} accept
    proto icmp icmp 8 accept
}
";

#[test]
fn packets_are_matched_explained_and_wrong_words_refused() {
    let path = std::env::temp_dir().join(format!("whered-rules-{}.rules", std::process::id()));
    std::fs::write(&path, RULES).expect("a temporary file can be written");
    let source = RulesetSource::new("edge", path.clone());
    let setup = Setup { rulesets: vec![source], ..Setup::default() };
    let door = Door::with(EngineOptions { setup, ..EngineOptions::default() }, |_| {});
    let mut client = door.client();
    let file = path.display().to_string();
    let line = |number: u32| format!("{file}:{number}");
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let mut ask = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        client.ask(&words)
    };
    assert_eq!(ask("RULES.LIST"), format!("*1\r\n{}", bulk("edge")));
    let accepted =
        |rule: u32, at: u32| format!("*3\r\n{}:{rule}\r\n{}", bulk("accept"), bulk(&line(at)));
    let dropped = format!("*3\r\n{}$-1\r\n$-1\r\n", bulk("drop"));
    let web = "SRC 10.1.2.3 DST 192.0.2.1 PROTO tcp DPORT 80";
    assert_eq!(ask(&format!("RULES.MATCH edge {web}")), accepted(3, 4));
    assert_eq!(ask("RULES.MATCH edge SRC 11.1.2.3 DST 192.0.2.1 PROTO 6 DPORT 80"), dropped);
    let ping = "SRC 1.2.3.4 DST 192.0.2.1 PROTO icmp ICMP 8/0";
    assert_eq!(
        ask(&format!("RULES.MMATCH edge {web} {ping} {web} STATE established")),
        format!("*3\r\n{}{}{}", accepted(3, 4), accepted(4, 5), accepted(1, 2))
    );
    let wrong = "SRC 10.1.2.3 DST x PROTO tcp DPORT 80";
    let lame = "SRC 10.1.2.3 PROTO tcp";
    assert_eq!(
        ask(&format!("RULES.MMATCH edge {wrong} {web} {lame} {ping}")),
        format!(
            "*4\r\n-ERR 'x' is not an IP address\r\n{}-ERR a packet needs SRC, DST and PROTO\r\n{}",
            accepted(3, 4),
            accepted(4, 5)
        ),
        "a wrong packet of a batch costs its own answer only"
    );
    let why = ask(&format!("RULES.EXPLAIN edge {ping}"));
    assert!(why.contains("accept by") && why.contains("not src @blocked"), "{why}");
    assert!(ask("RULES.INFO edge").contains("compile_seconds"));
    for (words, error) in [
        (
            "RULES.MATCH nosuch SRC 1.1.1.1 DST 1.1.1.1 PROTO tcp",
            "-ERR no such ruleset 'nosuch'\r\n",
        ),
        (
            "RULES.MATCH edge SRC 1.1.1.1 DST ::1 PROTO tcp",
            "-ERR SRC and DST are of different families\r\n",
        ),
        ("RULES.MATCH edge SRC 1.1.1.1 DST x PROTO tcp", "-ERR 'x' is not an IP address\r\n"),
        (
            "RULES.MATCH edge SRC 1.1.1.1 DST 1.1.1.1 PROTO tcp DPORT 70000",
            "-ERR '70000' is not a port from 0 to 65535\r\n",
        ),
        (
            "RULES.MATCH edge SRC 1.1.1.1 DST 1.1.1.1 SPORT 1",
            "-ERR a packet needs SRC, DST and PROTO\r\n",
        ),
        ("RULES.MATCH edge SRC 1.1.1.1 DST 1.1.1.1 PROTO tcp WHO", "-ERR syntax error\r\n"),
        (
            "RULES.DELETE edge 1",
            "-ERR ruleset 'edge' is defined by the configuration; change its file, or set another \
             name\r\n",
        ),
        ("RULES.COUNTERS edge ALL", "-ERR syntax error\r\n"),
    ] {
        assert_eq!(ask(words), error, "{words}");
    }
    std::fs::remove_file(&path).expect("it is still there");
}

/// Two rules, as the tests of commands set them.
const EDGE: &str = "chain input policy drop {\n    proto tcp dport 80 accept\n    log\n}\n";

#[test]
fn details_are_given_with_a_packet_and_unknown_otherwise() {
    let door = Door::with(EngineOptions::default(), |_| {});
    let mut client = door.client();
    let mut ask = |words: &[&str]| client.ask(words);
    let rules =
        "chain input policy accept {\n    with ttl 0-9 with source-mac 00:16:3e:00:00:01 drop\n}\n";
    assert_eq!(ask(&["RULES.SET", "near", "OWN", rules]), ":1\r\n");
    let web = ["SRC", "10.1.2.3", "DST", "192.0.2.1", "PROTO", "tcp"];
    let mac = ["WITH", "source-mac=00:16:3e:00:00:01"];
    let mut verdict = |with: &[&str]| {
        let words = [&["RULES.MATCH", "near"][..], &web, with].concat();
        ask(&words).split("\r\n").nth(2).unwrap_or_default().to_owned()
    };
    assert_eq!(verdict(&[]), "maybe");
    assert_eq!(verdict(&["WITH", "ttl=64"]), "accept");
    assert_eq!(verdict(&["WITH", "ttl=5"]), "maybe");
    assert_eq!(verdict(&[&["with", "ttl=5"][..], &mac].concat()), "drop");
    let many = [
        &["RULES.MMATCH", "near"][..],
        &web,
        &["WITH", "ttl=5"],
        &mac,
        &web,
        &["WITH", "ttl=9x"],
        &web,
    ]
    .concat();
    let replies = ask(&many);
    assert!(replies.starts_with("*3\r\n*3\r\n$4\r\ndrop"), "{replies}");
    assert!(
        replies.contains("-ERR 'ttl=9x' is not a detail and its value, as ttl=64\r\n"),
        "{replies}"
    );
    assert!(replies.contains("$5\r\nmaybe"), "{replies}");
    let why = ask(&[&["RULES.EXPLAIN", "near"][..], &web, &["WITH", "ttl=10"]].concat());
    assert!(why.contains("accept by the policy"), "{why}");
    assert_eq!(
        ask(&[&["RULES.MATCH", "near"][..], &web, &["WITH"]].concat()),
        "-ERR syntax error\r\n"
    );
}

#[test]
fn rules_are_set_changed_counted_and_removed_by_command() {
    let door = Door::with(EngineOptions::default(), |_| {});
    let mut client = door.client();
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let mut ask = |words: &[&str]| client.ask(words);
    assert_eq!(ask(&["RULES.SET", "edge", "OWN", EDGE]), ":2\r\n");
    let found = |words: &str| -> Vec<String> { words.split(' ').map(str::to_owned).collect() };
    let web = found("RULES.MATCH edge SRC 10.1.2.3 DST 192.0.2.1 PROTO tcp DPORT 80 LENGTH 60");
    let web: Vec<&str> = web.iter().map(String::as_str).collect();
    let decided = |verdict: &str, rule: u32, at: &str| {
        format!("*3\r\n{}:{rule}\r\n{}", bulk(verdict), bulk(at))
    };
    assert_eq!(ask(&web), decided("accept", 1, "edge:2"));
    let insert = ["RULES.INSERT", "edge", "BEFORE", "1", "src 10.1.0.0/16 drop"];
    assert_eq!(ask(&insert), ":3\r\n");
    assert_eq!(ask(&web), decided("drop", 3, "inserted:3"));
    assert_eq!(ask(&["RULES.REPLACE", "edge", "3", "src 10.0.0.0/8 reject"]), "+OK\r\n");
    assert_eq!(ask(&web), decided("reject", 3, "inserted:3"));
    assert_eq!(ask(&["RULES.DELETE", "edge", "3"]), "+OK\r\n");
    assert_eq!(ask(&web), decided("accept", 1, "edge:2"));
    let last = ["RULES.INSERT", "edge", "POSITION", "3", "CHAIN", "input", "proto udp accept"];
    assert_eq!(ask(&last), ":4\r\n");
    let rows = |policy: &str, rows: &[(u32, u32, u32)]| {
        let rows: Vec<String> = rows
            .iter()
            .map(|(number, packets, bytes)| {
                format!("*3\r\n:{number}\r\n:{packets}\r\n:{bytes}\r\n")
            })
            .collect();
        let head = format!("*4\r\n{}*2\r\n{policy}{}", bulk("policy"), bulk("rules"));
        format!("{head}*{}\r\n{}", rows.len(), rows.concat())
    };
    let counted = rows(":0\r\n:0\r\n", &[(1, 2, 120), (2, 0, 0), (4, 0, 0)]);
    assert_eq!(ask(&["RULES.COUNTERS", "edge"]), counted);
    assert_eq!(ask(&["RULES.COUNTERS", "edge", "RESET"]), counted);
    let zero = rows(":0\r\n:0\r\n", &[(1, 0, 0), (2, 0, 0), (4, 0, 0)]);
    assert_eq!(ask(&["RULES.COUNTERS", "edge"]), zero);
    let info = ask(&["RULES.INFO", "edge"]);
    assert!(info.contains("command") && info.contains("changes_waiting"), "{info}");
    let shown = ask(&["RULES.GET", "edge"]);
    assert!(shown.contains("proto tcp dport 80 accept") && shown.contains("udp"), "{shown}");
    assert_eq!(ask(&["RULES.UNSET", "edge"]), "+OK\r\n");
    assert_eq!(ask(&["RULES.UNSET", "edge"]), "-ERR no such ruleset 'edge'\r\n");
    assert_eq!(ask(&["RULES.LIST"]), "*0\r\n");
}

#[test]
fn wrong_changes_of_rules_are_refused_in_one_line_and_the_old_rules_serve_on() {
    let door = Door::with(EngineOptions::default(), |_| {});
    let mut client = door.client();
    let mut ask = |words: &[&str]| client.ask(words);
    assert_eq!(ask(&["RULES.SET", "edge", "OWN", EDGE]), ":2\r\n");
    for (words, error) in [
        (
            &["RULES.SET", "edge", "OWN", "chain input policy drop {\n    dport 70000 drop\n}\n"][..],
            "-ERR edge:2:11: found \"70000\"",
        ),
        (&["RULES.SET", "edge", "XML", EDGE], "-ERR 'XML' is not a format: own, iptables,"),
        (&["RULES.SET", "edge", "IPTABLES", "*filter\n-A X -j NO\n"], "-ERR edge:2"),
        (&["RULES.INSERT", "edge", "BEFORE", "9", "drop"], "-ERR no rule 9\r\n"),
        (&["RULES.INSERT", "edge", "BEFORE", "x", "drop"], "-ERR 'x' is not a rule's number\r\n"),
        (
            &["RULES.INSERT", "edge", "POSITION", "9", "drop"],
            "-ERR no such position: allowed are 1",
        ),
        (
            &["RULES.INSERT", "edge", "POSITION", "1", "CHAIN", "x", "drop"],
            "-ERR no chain \"x\"\r\n",
        ),
        (&["RULES.INSERT", "edge", "AFTER", "1", "sport x drop"], "-ERR rule:1:7: found \"x\""),
        (&["RULES.INSERT", "edge", "NEAR", "1", "drop"], "-ERR syntax error\r\n"),
        (&["RULES.INSERT", "edge", "AFTER", "1", "jump x"], "-ERR rule:1: found \"x\": allowed"),
        (&["RULES.DELETE", "edge", "3"], "-ERR no rule 3\r\n"),
        (&["RULES.DELETE", "none", "3"], "-ERR no such ruleset 'none'\r\n"),
        (&["RULES.RELOAD", "edge"], "-ERR ruleset 'edge' was set by command, it has no file\r\n"),
    ] {
        let reply = ask(words);
        assert!(reply.starts_with(error), "{words:?}: {reply}");
        assert_eq!(reply.matches("\r\n").count(), 1, "{words:?}: {reply}");
    }
    let shown = ask(&["RULES.GET", "edge"]);
    assert!(shown.contains("proto tcp dport 80 accept"), "{shown}");
}
