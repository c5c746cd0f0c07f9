//! `whered rules apply` on the live kernel, in a network namespace of its own.
//!
//! Not for: what programs decide (`compiled_rules`).

#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]

mod kernel;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

const ONE: &str = "chain input policy accept {\n  src 10.0.0.1 drop\n}\n";
const TWO: &str = "chain input policy accept {\n  src 10.0.0.2 drop\n}\n";

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = std::env::temp_dir().join(format!("whered-apply-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder of this test's own");
        fs::write(path.join("one.rules"), ONE).expect("a file");
        fs::write(path.join("two.rules"), TWO).expect("a file");
        Folder(path)
    }

    fn apply_with(&self, path: &str, arguments: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_whered"))
            .args(["rules", "apply", "--state-dir", "state"])
            .args(arguments.split(' '))
            .env("PATH", path)
            .current_dir(&self.0)
            .output()
            .expect("the program runs")
    }

    /// Runs the command; its exit code, and what it said.
    fn apply(&self, arguments: &str) -> (Option<i32>, String) {
        let path = std::env::var("PATH").expect("a path");
        said(&self.apply_with(&path, arguments))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nobody needs it any more.
        let _gone = fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> (Option<i32>, String) {
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

fn loaded() -> String {
    kernel::run("nft", &["list", "ruleset"], "").expect("nft lists")
}

fn wait_for(address: &str) -> Duration {
    let start = Instant::now();
    while !loaded().contains(address) {
        assert!(start.elapsed() < Duration::from_secs(20), "{}", loaded());
        sleep(Duration::from_millis(50));
    }
    start.elapsed()
}

#[test]
fn rules_are_loaded_confirmed_and_taken_back() {
    if !kernel::is_possible(&["nft"]) {
        return;
    }
    let own = std::env::current_exe().expect("this test's own file");
    let output = Command::new("unshare")
        .arg("-n")
        .arg(own)
        .args(["--exact", "inside_of_a_namespace", "--ignored", "--nocapture"])
        .output()
        .expect("unshare was there before");
    let told = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}\n{wrong}");
}

#[test]
#[ignore = "takes over the network namespace that it runs in; the other test makes one"]
fn inside_of_a_namespace() {
    let own = fs::read_link("/proc/self/ns/net").expect("a namespace");
    let parent = format!("/proc/{}/ns/net", std::os::unix::process::parent_id());
    assert_ne!(own, fs::read_link(parent).expect("a namespace"), "run this by unshare -n only");
    let folder = Folder::new();
    what_is_kept_and_what_is_taken_back(&folder);
    what_a_probe_decides(&folder);
    what_another_program_changed_is_refused(&folder);
    a_program_that_the_kernel_refuses_leaves_the_old_rules(&folder);
}

fn what_is_kept_and_what_is_taken_back(folder: &Folder) {
    let (code, text) = folder.apply("one.rules --keep");
    assert_eq!((code, text.as_str()), (Some(0), "table inet whered is loaded\n"));
    assert!(loaded().contains("10.0.0.1"), "{}", loaded());
    let (code, text) = folder.apply("two.rules --diff");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("-ip saddr") || text.contains("10.0.0.2"), "{text}");
    assert!(loaded().contains("10.0.0.1"), "a difference loads nothing");
    // Without a confirmation, the old rules come back, although the command has ended.
    let (code, text) = folder.apply("two.rules --confirm-within 1");
    assert_eq!(code, Some(0), "{text}");
    assert!(loaded().contains("10.0.0.2"), "{}", loaded());
    let (code, text) = folder.apply("one.rules --keep");
    assert!(code == Some(2) && text.contains("wait for a confirmation"), "{text}");
    wait_for("10.0.0.1");
    sleep(Duration::from_millis(200));
    let (code, text) = folder.apply("--confirm");
    assert!(code == Some(2) && text.contains("nothing waits"), "{text}");
    // The watcher of before does not end the next wait.
    let (code, text) = folder.apply("two.rules --confirm-within 2");
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = folder.apply("--confirm");
    assert_eq!((code, text.as_str()), (Some(0), "confirmed: the rules stay\n"));
    let (code, text) = folder.apply("one.rules --confirm-within 6");
    assert_eq!(code, Some(0), "{text}");
    assert!(wait_for("10.0.0.2") > Duration::from_secs(4), "it waits its own time");
    sleep(Duration::from_millis(200));
}

fn what_a_probe_decides(folder: &Folder) {
    let (code, text) = folder.apply("one.rules --probe false");
    assert!(code == Some(2) && text.contains("the probe failed"), "{text}");
    assert!(loaded().contains("10.0.0.2"), "{}", loaded());
    let (code, text) = folder.apply("one.rules --probe true");
    assert!(code == Some(0) && text.contains("the probe succeeded"), "{text}");
    assert!(loaded().contains("10.0.0.1"), "{}", loaded());
    let (code, text) = folder.apply("two.rules");
    assert!(code == Some(2) && text.contains("--keep"), "{text}");
}

fn what_another_program_changed_is_refused(folder: &Folder) {
    kernel::run("nft", &["add", "rule", "inet", "whered", "input", "accept"], "").expect("added");
    let (code, text) = folder.apply("two.rules --keep");
    assert!(code == Some(2) && text.contains("changed since it was loaded"), "{text}");
    assert!(loaded().contains("10.0.0.1"), "{}", loaded());
    let (code, text) = folder.apply("two.rules --keep --replace");
    assert_eq!(code, Some(0), "{text}");
    kernel::run("nft", &["add", "table", "inet", "theirs"], "").expect("added");
    let (code, text) = folder.apply("two.rules --keep --name theirs");
    assert!(code == Some(2) && text.contains("which another program has loaded"), "{text}");
    kernel::run("nft", &["add", "table", "ip", "other"], "").expect("added");
    let (code, text) = folder.apply("two.rules --keep --name other");
    assert!(code == Some(2) && text.contains("found table ip other"), "{text}");
}

/// A program in front of nft that fails where rules would be loaded.
fn a_program_that_the_kernel_refuses_leaves_the_old_rules(folder: &Folder) {
    let nft = kernel::run("sh", &["-c", "command -v nft"], "").expect("nft is there");
    let bin = folder.0.join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    let script = format!(
        "#!/bin/sh\nif [ \"$*\" = '-f -' ]; then cat > /dev/null; echo 'Error: Could not process rule: Cannot allocate memory' >&2; exit 1; fi\nexec {} \"$@\"\n",
        nft.trim()
    );
    let file: &Path = &bin.join("nft");
    fs::write(file, script).expect("a file");
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("ours");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
    let before = loaded();
    for end in ["--keep", "--confirm-within 1"] {
        let (code, text) = said(&folder.apply_with(&path, &format!("one.rules {end}")));
        assert!(code == Some(2) && text.lines().count() == 1, "{text}");
        assert!(text.contains("Cannot allocate memory"), "{text}");
        assert_eq!(loaded(), before);
    }
    sleep(Duration::from_millis(1500));
    assert_eq!(loaded(), before, "nobody waits for a confirmation");
    let (code, text) = folder.apply("one.rules --keep");
    assert_eq!(code, Some(0), "{text}");
}
