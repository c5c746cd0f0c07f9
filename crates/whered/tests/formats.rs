//! Every example of `whered formats`, read by the command that stands beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn whered(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whered"));
    command.args(words).current_dir(folder).output().expect("the program runs")
}

/// A folder with a database and a ruleset.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("whered-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder can be made");
    fs::write(folder.join("rows.csv"), "network,country.iso_code\n8.8.8.0/24,US\n")
        .expect("writable");
    fs::write(folder.join("edge.rules"), "chain input policy drop {\n}\n").expect("writable");
    let built = whered(&folder, &["db", "build", "rows.csv", "-o", "db.mmdb"]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    folder
}

/// Runs the command of a job on each of its examples.
fn every_example_is_read(job: &str, answer: &str) {
    let folder = folder(&format!("formats-{job}"));
    let listed = whered(&folder, &["formats", job, "--format", "json"]);
    let listed = String::from_utf8(listed.stdout).expect("JSON is UTF-8");
    let mut count = 0;
    for line in listed.lines() {
        let entry: Value = serde_json::from_str(line).expect("an object a line");
        let lines = entry["example"].as_array().expect("an array of lines");
        if lines.is_empty() {
            continue;
        }
        let lines = lines.iter().map(|line| line.as_str().unwrap_or_default().to_owned() + "\n");
        fs::write(folder.join("file"), lines.collect::<String>()).expect("writable");
        let name = entry["name"].as_str().expect("a name");
        let command = entry["command"].as_str().expect("a command");
        let words = command.split(' ').skip(1).map(|word| match word {
            "NAME" => name,
            "FILE" => "file",
            "DB" => "db.mmdb",
            "RULES" => "edge.rules",
            "OUTPUT.mmdb" => "out.mmdb",
            word => word,
        });
        let output = whered(&folder, &words.collect::<Vec<_>>());
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && said.contains(answer), "{job} {name}: {said}");
        count += 1;
    }
    assert!(count > 2, "{job}: {count} examples");
    let _ = fs::remove_dir_all(folder);
}

#[test]
fn every_example_of_a_log_finds_its_address() {
    every_example_is_read("logs", "1 found");
}

#[test]
fn every_example_of_a_packet_meets_the_rules() {
    every_example_is_read("packets", "192.0.2.1");
}

#[test]
fn every_example_of_rules_gives_a_verdict() {
    every_example_is_read("rules", "accept");
}

#[test]
fn every_example_of_rows_makes_a_database() {
    every_example_is_read("databases", "1 networks");
}
