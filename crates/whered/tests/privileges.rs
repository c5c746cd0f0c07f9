//! `[server] user`: from root to a user without privileges. Needs root; skipped otherwise unless
//! `WHERED_REQUIRE` contains `root`.

#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod served;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use served::{Served, WAIT, folder, wait_for_end};

const ZONE: &str = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells");
    let root = status.contains("\nUid:\t0\t0\t0\t0");
    let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
    assert!(root || !required.contains("root"), "WHERED_REQUIRE wants root");
    if !root {
        eprintln!("skipped: not root");
    }
    root
}

fn write_config(folder: &Path, user: &str) {
    let config = format!(
        "data_dir = \"data\"\n[server]\nuser = \"{user}\"\n[resp]\nlisten = [\"127.0.0.1:0\"]\n\
         threads = 2\n[http]\nlisten = [\"127.0.0.1:0\"]\n[dns]\nlisten = [\"127.0.0.1:0\"]\n\
         [[zone]]\nname = \"example.com\"\npath = \"example.zone\"\n"
    );
    fs::write(folder.join("whered.toml"), config).expect("the folder was just made");
    fs::write(folder.join("example.zone"), ZONE).expect("the folder was just made");
}

/// The line of a process's status.
fn status(pid: u32, key: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("such a line");
    line.trim().to_owned()
}

fn ping(served: &Served) -> String {
    let mut stream = TcpStream::connect(served.resp).expect("somebody listens");
    stream.set_read_timeout(Some(WAIT)).expect("a socket");
    stream.write_all(b"GEOADD k 1 2 m\r\n").expect("it is open");
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).expect("a reply");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn root_becomes_a_user_that_has_nothing_and_hands_over_to_one() {
    if !is_root() {
        return;
    }
    let folder = folder("privileges");
    fs::create_dir(folder.join("data")).expect("the folder was just made");
    for path in [folder.clone(), folder.join("data")] {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        chown(&path, Some(NOBODY), None).expect("root may");
    }
    write_config(&folder, "nobody");
    let mut served = Served::start(folder);
    let all = format!("{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}");
    for process in ["the first one", "its successor"] {
        let pid = served.pid();
        for thread in fs::read_dir(format!("/proc/{pid}/task")).expect("it runs") {
            let name = thread.expect("it runs").file_name();
            let id = name.to_string_lossy().parse().expect("a number");
            assert_eq!((status(id, "Uid:"), status(id, "Gid:").is_empty()), (all.clone(), false));
            for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
                assert_eq!(status(id, set), "0000000000000000", "{set} of {process}");
            }
            assert_eq!(status(id, "NoNewPrivs:"), "1", "{process}");
        }
        assert!(!status(pid, "Groups:").split_whitespace().any(|group| group == "0"));
        assert!(ping(&served).starts_with(':'));
        served.signal("HUP");
        served.wait_for_log("reloaded: ", if process == "its successor" { 2 } else { 1 });
        if process == "the first one" {
            served.signal("USR2");
            served.wait_until_ready();
            wait_for_end(pid);
        }
    }
}

#[test]
fn what_the_user_cannot_open_again_is_told_before_anything_is_served() {
    if !is_root() {
        return;
    }
    let folder = folder("privileges-refused");
    write_config(&folder, "nobody");
    let refusal = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
        let command = command.args(["serve", "--config"]).arg(folder.join("whered.toml"));
        let output = command.output().expect("the program runs");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        errors.lines().last().unwrap_or_default().to_owned()
    };
    let told = |file: &str| {
        let line = refusal();
        let is_told = line.contains(file)
            && line.contains("ermission denied")
            && line.ends_with("(as the user 'nobody' of [server])");
        assert!(is_told, "{file}: {line}");
    };
    let permit = |file: &str, mode: u32| {
        let path = folder.join(file);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    permit("", 0o755);
    permit("example.zone", 0o600);
    told("example.zone");
    permit("example.zone", 0o644);
    told("data");
    fs::create_dir(folder.join("data")).expect("the folder is ours");
    chown(folder.join("data"), Some(NOBODY), None).expect("root may");
    permit("whered.toml", 0o600);
    told("whered.toml");
    write_config(&folder, "nonesuch");
    assert!(refusal().ends_with("[server] user 'nonesuch': there is no such user"));
    fs::remove_dir_all(&folder).expect("it is ours");
}
