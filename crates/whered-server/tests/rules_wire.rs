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
    let source = RulesetSource { name: "edge".to_owned(), path: path.clone() };
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
    ] {
        assert_eq!(ask(words), error, "{words}");
    }
    std::fs::remove_file(&path).expect("it is still there");
}
