//! Both libraries in one process give the same answers: `programs/differential.c` asks them.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]
#![allow(clippy::print_stdout, reason = "who reads the tests' output shall know")]

mod support;

use std::process::Command;
use support::Folder;

#[test]
fn every_question_about_every_conformance_file_has_the_same_answer() {
    ask("tree");
}

#[test]
fn the_answers_of_an_index_are_those_of_the_tree() {
    ask("index");
}

fn ask(mode: &str) {
    let folder = Folder::new();
    let (Some(program), Some(theirs)) =
        (support::compile("differential.c", &folder), support::theirs())
    else {
        return;
    };
    let mut files = support::conformance_files();
    let empty = folder.0.join("empty.mmdb");
    std::fs::write(&empty, b"").unwrap();
    files.extend([empty, folder.0.clone(), folder.0.join("missing.mmdb")]);
    let asked = Command::new(program)
        .env("WHERED_MMDB", mode)
        .arg(support::ours())
        .arg(theirs)
        .args(files)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&asked.stdout);
    let errors = String::from_utf8_lossy(&asked.stderr);
    assert!(asked.status.success(), "{:?}\n{said}{errors}", asked.status);
    println!("{said}");
}

#[test]
fn the_library_exports_the_fourteen_functions_and_nothing_else() {
    let Ok(listed) =
        Command::new("nm").args(["-D", "--defined-only"]).arg(support::ours()).output()
    else {
        return support::skip("peers", "nm is not installed");
    };
    let text = String::from_utf8(listed.stdout).unwrap();
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "MMDB_aget_value",
            "MMDB_close",
            "MMDB_dump_entry_data_list",
            "MMDB_free_entry_data_list",
            "MMDB_get_entry_data_list",
            "MMDB_get_metadata_as_entry_data_list",
            "MMDB_get_value",
            "MMDB_lib_version",
            "MMDB_lookup_sockaddr",
            "MMDB_lookup_string",
            "MMDB_open",
            "MMDB_read_node",
            "MMDB_strerror",
            "MMDB_vget_value",
        ]
    );
}
