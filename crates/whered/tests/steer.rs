//! `whered steer explain` as a person runs it: output, messages and exit codes.
//!
//! Not for: what policies come to; `whered-engine` has tests of that.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

const ZONE: &str = "$TTL 60\n@ SOA ns hm 7 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";
const CONFIG: &str = r#"
[[zone]]
name = "example.com"
path = "zone"
[[ruleset]]
name = "edge"
path = "edge.rules"
[[pool]]
name = "www"
owners = ["www.example.com"]
policy = ["rules:edge", "healthy", "weighted"]
[[pool.site]]
name = "fra"
addresses = ["192.0.2.10"]
weight = 3
[[pool.site]]
name = "nyc"
addresses = ["192.0.2.20"]
"#;
const RULES: &str =
    "chain steer policy continue {\n    src 192.0.2.0/24 site nyc\n    src 10.0.0.0/8 drop\n}\n";

/// Explains from a configuration of its own; gives exit code, output, errors.
fn explain(folder: &str, words: &[&str]) -> (Option<i32>, String, String) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(folder);
    fs::create_dir_all(&folder).expect("the tests' folder can be written");
    for (file, text) in [("edge.toml", CONFIG), ("zone", ZONE), ("edge.rules", RULES)] {
        fs::write(folder.join(file), text).expect("the tests' folder can be written");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
    command.current_dir(&folder).args(["steer", "explain", "--config", "edge.toml"]).args(words);
    let output = command.output().expect("the program runs");
    fs::remove_dir_all(&folder).expect("the folder was just made");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program writes text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_rule_and_the_choice_are_told() {
    let (code, out, errors) = explain("steer-rule", &["www", "--client", "192.0.2.9"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let expected = "pool      www\n\
                    client    192.0.2.9\n\
                    rule      site nyc by edge.rules:2 (ruleset edge)\n\
                    site      fra: at an unknown distance, up\n\
                    site      nyc: at an unknown distance, up\n\
                    choice    by weight: nyc 100.0 %\n\
                    scope     /24\n";
    assert_eq!(out, expected);
}

#[test]
fn a_pool_is_found_by_a_name_that_it_answers_at() {
    let (code, out, _) = explain("steer-name", &["WWW.example.com.", "--client", "203.0.113.1"]);
    assert_eq!(code, Some(0));
    assert!(out.contains("rule      continue by the policy (ruleset edge)\n"), "{out}");
    assert!(out.contains("choice    by weight: fra 75.0 %, nyc 25.0 %\n"), "{out}");
    let (_, out, _) = explain("steer-drop", &["www", "--client", "10.1.2.3", "--json"]);
    assert!(out.contains(r#""choice":{"verdict":"drop"}"#), "{out}");
}

#[test]
fn an_unknown_pool_is_one_line() {
    let (code, _, errors) = explain("steer-none", &["nothing", "--client", "10.1.2.3"]);
    assert_eq!((code, errors.as_str()), (Some(2), "whered: no such pool 'nothing'\n"));
}
