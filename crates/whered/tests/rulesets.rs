//! What firewalls load into the kernel is read, and decides real packets as the kernel does.
//!
//! ```text
//! rulesets/make.sh ─► samples: ufw, firewalld, Docker, kube-proxy, libvirt, OpenWrt, ...
//! sample ─► every chain that filters is read
//! sample ─► kernel ─► packets that pass ─┐
//!      └──► whered match ─► verdicts ────┴► equal, or maybe
//! ```
//!
//! Not for: what single matches mean (`whered-rules`). The packets need root, nft, iptables and
//! python3, otherwise they are skipped.

mod kernel;

use std::path::{Path, PathBuf};
use std::process::Command;

use whered_rules::check::{Effort, check};
use whered_rules::normal::NoPlaces;
use whered_rules::{Format, ReadOptions};

fn samples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rulesets");
    let entries = std::fs::read_dir(folder).expect("the samples are there");
    let is_sample = |path: &PathBuf| {
        path.extension().is_some_and(|end| ["v4", "v6", "json"].iter().any(|kind| *kind == end))
    };
    let mut samples: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_sample).collect();
    samples.sort();
    assert!(samples.len() >= 15, "{samples:?}");
    samples
}

/// The chains of a sample that filter packets, each with the table's family and name.
fn chains(text: &str) -> Vec<(String, String)> {
    if !text.starts_with('{') {
        let chains = ["INPUT", "FORWARD", "OUTPUT"];
        return chains.map(|chain| ("filter".to_owned(), chain.to_owned())).to_vec();
    }
    let listing: serde_json::Value = serde_json::from_str(text).expect("the sample is JSON");
    let objects = listing["nftables"].as_array().expect("a list");
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    objects
        .iter()
        .map(|object| &object["chain"])
        .filter(|chain| chain["type"] == "filter")
        .map(|chain| {
            let table = format!("{} {}", word(&chain["family"]), word(&chain["table"]));
            (table, word(&chain["name"]))
        })
        .collect()
}

#[test]
fn what_firewalls_write_is_read_and_checked_by_each_of_its_chains() {
    let mut read = 0;
    for path in samples() {
        let text = std::fs::read_to_string(&path).expect("a sample");
        for (table, chain) in chains(&text) {
            let options =
                ReadOptions { table: Some(&table), chain: Some(&chain), ..ReadOptions::default() };
            let name = path.display().to_string();
            let ruleset = Format::detect(&text)
                .read(&name, &text, options)
                .unwrap_or_else(|error| panic!("{error}"));
            check(&ruleset, &NoPlaces, Effort::default()).unwrap_or_else(|error| panic!("{error}"));
            read += 1;
        }
    }
    assert!(read > 50, "{read}");
}

#[test]
fn real_packets_fare_as_we_say_or_we_say_maybe() {
    let tools = ["nft", "iptables-restore", "ip6tables-restore", "ip", "python3"];
    if !kernel::is_possible(&tools) || !Path::new("/dev/net/tun").exists() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rulesets");
    for path in samples() {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        // nft lists what iptables loaded, but does not take all of it.
        if name == "ufw.json" {
            continue;
        }
        let output = Command::new("unshare")
            .args(["-n", "python3", "judge.py", env!("CARGO_BIN_EXE_whered"), &name])
            .current_dir(&folder)
            .output()
            .expect("unshare was there before");
        let told = String::from_utf8_lossy(&output.stdout);
        let wrong = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}\n{told}\n{wrong}");
        // Most packets meet nothing that depends on a limit.
        let sum = |word: &str| -> u64 {
            let counts = told.split_whitespace().zip(told.split_whitespace().skip(1));
            counts
                .filter(|(_, next)| next.starts_with(word))
                .filter_map(|(n, _)| n.parse::<u64>().ok())
                .sum()
        };
        assert!(sum("sure") > 2 * sum("maybe"), "{told}");
    }
}
