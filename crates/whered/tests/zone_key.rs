//! `whered zone key` as a person runs it, and a server that signs with its keys: what BIND's tools
//! say of both.
//!
//! Parts are skipped where `delv`, `dnssec-keygen` or `dnssec-dsfromkey` is missing, unless
//! `WHERED_REQUIRE` contains `peers`.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod served;

use std::fs;
use std::path::Path;
use std::process::Command;

use served::{Served, folder};

const ZONE: &str = "$TTL 60\n@ SOA ns hm 7 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nmail A 192.0.2.2\n";
const CONFIG: &str = "\
data_dir = 'data'
[resp]
listen = ['127.0.0.1:0']
[dns]
listen = ['127.0.0.1:0']
[[zone]]
name = 'example.com'
path = 'example.com.zone'
sign = true
[[pool]]
name = 'www'
owners = ['www.example.com']
policy = ['weighted']
answers = 2
[[pool.site]]
name = 'one'
addresses = ['198.51.100.1', '2001:db8::1']
[[pool.site]]
name = 'two'
addresses = ['198.51.100.2']
[[pool.site]]
name = 'three'
addresses = ['198.51.100.3']
";

/// Exit code, output and errors of `whered zone key` in a folder.
fn key(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
    command.current_dir(folder).args(["zone", "key"]).args(arguments);
    let output = command.output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program writes text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> Option<String> {
    let Ok(done) = Command::new(program).current_dir(folder).args(arguments).output() else {
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|what| what == "peers"), "{program} is missing");
        eprintln!("skipped: {program} is missing");
        return None;
    };
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{program} {arguments:?}: {errors}");
    Some(String::from_utf8_lossy(&done.stdout).into_owned() + &errors)
}

#[test]
fn keys_are_made_listed_and_replaced_and_bind_reads_them() {
    let folder = folder("zone-key");
    let place = ["example.com", "--keys", "keys"];
    let with = |words: &[&str]| -> (Option<i32>, String, String) {
        key(&folder, &[&words[..1], &place, &words[1..]].concat())
    };
    let (code, _, errors) = with(&["list"]);
    assert_eq!((code, errors.contains("keys: No such file")), (Some(2), true), "{errors}");
    let (code, made, errors) = with(&["create"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{made}");
    assert!(made.starts_with("keys/Kexample.com.+013+") && made.ends_with(".key\n"), "{made}");
    let (code, _, errors) = with(&["create"]);
    assert_eq!(
        (code, errors.contains("a key of example.com; 'whered zone key rollover'")),
        (Some(2), true)
    );
    let (code, ds, _) = with(&["ds"]);
    assert_eq!(code, Some(0));
    if let Some(theirs) = run(&folder, "dnssec-dsfromkey", &["-2", made.trim()]) {
        assert_eq!(theirs, ds);
    }
    let (_, listed, _) = with(&["list"]);
    assert!(
        listed.contains(" ECDSAP256SHA256: signs all, DS in the parent zone: keys/"),
        "{listed}"
    );
    let (code, _, errors) = with(&["rollover", "--ds-seen"]);
    assert_eq!((code, errors.contains("no key is being replaced")), (Some(2), true), "{errors}");
    let (code, new, _) = with(&["rollover"]);
    assert!(code == Some(0) && new != made, "{new}");
    let (code, _, errors) = with(&["rollover"]);
    assert_eq!((code, errors.contains("step 'publish'")), (Some(2), true), "{errors}");
    let (_, listed, _) = with(&["list"]);
    assert!(listed.contains("step 'publish', waits for a server"), "{listed}");
    let (_, json, _) = with(&["list", "--json"]);
    let lines: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line["rollover"]["step"] == "publish"), "{json}");
    assert_eq!(with(&["ds"]).1, ds, "the old key's until the new one signs");
    let (code, ..) = key(&folder, &["create", "example.com"]);
    assert_eq!(code, Some(2), "no directory is named");
    // A key of BIND's is taken, and told apart from those of other zones.
    for algorithm in ["ECDSAP256SHA256", "ED25519"] {
        let theirs = ["-q", "-K", "keys", "-a", algorithm, "-f", "KSK", "example.org"];
        if run(&folder, "dnssec-keygen", &theirs).is_none() {
            break;
        }
        let (code, listed, errors) = key(&folder, &["list", "example.org", "--keys", "keys"]);
        assert_eq!(code, Some(0), "{errors}");
        assert!(listed.contains(algorithm) && !listed.contains("example.com"), "{listed}");
    }
    fs::remove_dir_all(&folder).expect("the folder was just made");
}

#[test]
fn a_server_signs_its_zone_and_delv_validates_zone_and_pool_through_a_rollover() {
    let folder = folder("zone-sign");
    fs::write(folder.join("whered.toml"), CONFIG).expect("the folder is ours");
    fs::write(folder.join("example.com.zone"), ZONE).expect("the folder is ours");
    let check = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
        let output = command.current_dir(&folder).args(["check", "whered.toml"]).output();
        String::from_utf8(output.expect("the program runs").stderr).expect("text")
    };
    let errors = check();
    assert!(errors.contains("data/keys/example.com: No such file"), "{errors}");
    let (code, made, errors) = key(&folder, &["create", "example.com", "--config", "whered.toml"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{made}");
    assert_eq!(check(), "");
    let (_, ds, _) = key(&folder, &["ds", "example.com", "--config", "whered.toml"]);
    let words: Vec<&str> = ds.split_whitespace().collect();
    let [_, _, _, tag, algorithm, kind, digest] = words[..] else { panic!("{ds}") };
    let anchor = format!(
        "trust-anchors {{ example.com. static-ds {tag} {algorithm} {kind} \"{digest}\"; }};\n"
    );
    fs::write(folder.join("anchor"), anchor).expect("the folder is ours");
    let served = Served::start(folder.clone());
    let port = served.dns.port().to_string();
    let ask = |owner: &str, kind: &str| {
        let owner = format!("{owner}example.com.");
        let arguments =
            ["@127.0.0.1", "-p", &port, "-a", "anchor", "+root=example.com", &owner, kind];
        let Some(said) = run(&folder, "delv", &arguments) else { return };
        assert!(said.contains("fully validated"), "{owner} {kind}: {said}");
    };
    let ask_all = || {
        for (owner, kind) in [
            ("", "SOA"),
            ("", "DNSKEY"),
            ("mail.", "A"),
            ("mail.", "AAAA"),
            ("nobody.", "A"),
            ("www.", "A"),
            ("www.", "AAAA"),
            ("www.", "TXT"),
        ] {
            ask(owner, kind);
        }
    };
    ask_all();
    let (code, _, errors) = key(&folder, &["rollover", "example.com", "--config", "whered.toml"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    served.wait_for_log("zone 'example.com': the rollover of its key is at the step 'publish'", 1);
    ask_all();
    assert!(!served.log().contains("PrivateKey"), "{}", served.log());
}
