//! `whered zone check` as a person runs it: output, messages and exit codes.
//!
//! Not for: what master files mean; `whered-dns` has tests of that.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

const GOOD: &str = "$TTL 60\n@ SOA ns hm 7 2 3 4 5\n@ NS ns\n$INCLUDE hosts\n";

/// Writes files into a folder of their own, checks the first; gives exit code, output, errors.
fn check(folder: &str, files: &[(&str, &str)], flags: &[&str]) -> (Option<i32>, String, String) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(folder);
    fs::create_dir_all(&folder).expect("the tests' folder can be written");
    for (file, text) in files {
        fs::write(folder.join(file), text).expect("the tests' folder can be written");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
    command.current_dir(&folder).args(["zone", "check", files[0].0]).args(flags);
    let output = command.output().expect("the program runs");
    fs::remove_dir_all(&folder).expect("the folder was just made");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program writes text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_good_zone_is_summed_up() {
    let files = [("example.com.zone", GOOD), ("hosts", "ns A 192.0.2.1\na.b A 192.0.2.2\n")];
    let (code, out, errors) = check("zone-good", &files, &[]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(out, "example.com.zone: ok: example.com. serial 7, 4 records, 4 names\n");
}

#[test]
fn oddities_are_told_and_are_exit_code_1() {
    let files = [("z", GOOD), ("hosts", "ns A 192.0.2.1\nns A 192.0.2.1\n")];
    let (code, out, _) = check("zone-odd", &files, &["--origin", "example.com"]);
    assert_eq!(code, Some(1));
    assert!(out.starts_with("hosts:2:1: found A of ns.example.com. a second time"), "{out}");
}

#[test]
fn a_mistake_has_file_line_and_column_and_is_exit_code_2() {
    let files = [("example.com.zone", "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nns A 192.0.2.\n")];
    let (code, _, errors) = check("zone-bad", &files, &[]);
    assert_eq!(code, Some(2));
    assert!(errors.starts_with("whered: example.com.zone:4:6: found \"192.0.2.\""), "{errors}");
    let files = [("example.com.zone", GOOD), ("hosts", "\n  ns A x\n")];
    let (code, _, errors) = check("zone-bad-included", &files, &[]);
    assert_eq!((code, errors.contains("hosts:2:")), (Some(2), true), "{errors}");
    let (code, _, errors) = check("zone-no-origin", &[("..zone", GOOD)], &[]);
    assert_eq!((code, errors.lines().count()), (Some(2), 1), "{errors}");
}
