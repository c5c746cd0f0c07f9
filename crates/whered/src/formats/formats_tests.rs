//! The list of formats against the readers' own lists, and against its page.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::ValueEnum;

use super::*;

fn listed(job: &Job) -> BTreeSet<String> {
    job.entries.iter().map(|entry| entry.name.to_owned()).collect()
}

fn choices<E: ValueEnum>() -> BTreeSet<String> {
    let values = E::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    values.map(|value| value.get_name().to_owned()).collect()
}

#[test]
fn every_format_that_a_reader_knows_is_listed_and_no_other() {
    assert_eq!(listed(&logs::JOB), choices::<crate::cli::InputFormat>());
    assert_eq!(listed(&points::JOB), choices::<crate::import::flags::PointsFormat>());
    let packets = whered_capture::Format::ALL.map(|format| format.name().to_owned());
    assert_eq!(listed(&packets::JOB), packets.into());
    let rules = whered_rules::Format::readable().map(|format| format.name().to_owned());
    assert_eq!(listed(&rules::JOB), rules.collect());
    let feeds = whered_engine::feeds::formats::Format::ALL.map(|(name, _)| name.to_owned());
    assert_eq!(listed(&feeds::JOB), feeds.into());
    let sets = whered_ip::SetFormat::names().map(str::to_owned);
    assert_eq!(listed(&sets::JOB), sets.collect());
    // One of a vendor's numbered layouts stands for all of them.
    let layouts = whered_mmdb::rows::Layout::names().into_iter();
    let layouts = layouts.map(|name| {
        let name = name.replace("db1 to ip2location-db26", "db11");
        name.replace("px1 to ip2proxy-px12", "px11")
    });
    let own = ["csv", "tsv", "ndjson", "json"].map(str::to_owned);
    assert_eq!(listed(&databases::JOB), layouts.chain(own).collect());
}

#[test]
fn the_page_of_formats_is_what_the_list_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/formats.md");
    let page = fs::read_to_string(&path).expect("the page is readable");
    let first = page.find("\n## ").map_or(page.len(), |at| at + 1);
    let made = JOBS.iter().map(|job| tables(job)).collect::<Vec<_>>().join("\n");
    if std::env::var_os("WHERED_BLESS").is_some() {
        fs::write(&path, format!("{}{made}", &page[..first])).expect("the page is writable");
        return;
    }
    let advice =
        "docs/guide/formats.md is not what the list says; set WHERED_BLESS=1 and run this test";
    assert!(page[first..] == made, "{advice}");
}

#[test]
fn every_example_of_a_set_is_read() {
    for entry in sets::JOB.entries {
        let format: whered_ip::SetFormat = entry.name.parse().expect("a format's name");
        let text = entry.example.join("\n") + "\n";
        let mut count = 0;
        let read = whered_ip::read_set(format, text.as_bytes(), |_| count += 1);
        assert!(count > 0, "{}: {read:?}", entry.name);
        read.expect("the whole example is read");
    }
}
