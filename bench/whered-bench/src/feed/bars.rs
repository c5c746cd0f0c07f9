//! The bars of feeds with what was measured, as the head of the record.
//!
//! Not for measuring. A bar against several forms of a rival states its best one.

use std::fmt::Write;

use serde_json::Value as Json;

use crate::measure::RecordKind;

/// The record of feeds.
pub const RECORD: RecordKind = RecordKind { suite: "feed", bars: to_markdown };

/// A line for each bar, by the figures of all sections.
fn to_markdown(figures: &[&Json]) -> String {
    let mut text =
        String::from("| bar | at least | reach for | measured |\n| --- | --- | --- | --- |\n");
    let mut line = |bar: &str, owed: &str, reach: &str, found: Option<String>| {
        let found = found.unwrap_or_else(|| "not measured".to_owned());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {bar} | {owed} | {reach} | {found} |");
    };
    for (has_loot, what, owed, reach) in [
        (false, "position events/s a core, end to end", "600 k", "1.2 M"),
        (true, "with loot lists as well", "400 k", "800 k"),
    ] {
        line(what, owed, reach, alone(figures, has_loot).and_then(events));
    }
    let is_ram_single = |name: &str| name.contains("RAM disk, single");
    let is_disk_batch = |name: &str| {
        name.ends_with("flush 1")
            && (name.contains("multi-row, flush") || name.contains("merge, flush"))
    };
    let is_disk_single = |name: &str| name.contains("disk, single") && name.ends_with("flush 1");
    line(
        "events/s against MariaDB on its RAM disk, single-statement",
        "15x",
        "40x",
        best(figures, "mariadb-ram", is_ram_single),
    );
    line(
        "against its best batched form on disk",
        "5x",
        "10x",
        best(figures, "mariadb-disk", is_disk_batch),
    );
    line(
        "the same with XML to read for both",
        "5x",
        "10x",
        best(figures, "mariadb-disk", |name| name.ends_with("from XML, flush 1")),
    );
    line(
        "against single-statement on disk",
        "-",
        "-",
        best(figures, "mariadb-disk", is_disk_single),
    );
    for has_loot in [false, true] {
        let loot = if has_loot { ", with loot" } else { "" };
        let run = alone(figures, has_loot);
        let bar = format!("uploads/s of 100 KB, 64 clients{loot}");
        let owed = "1,500 or 60 % of a bare receiver";
        line(&bar, owed, "80 %", run.and_then(uploads));
        for (name, said) in
            [("half of what is owed", "half of that bar"), ("half of it", "half of what was taken")]
        {
            let bar = format!("p99 acknowledgement at {said}{loot}");
            let owed = "fdatasync's p99 + 5 ms";
            line(&bar, owed, "-", run.and_then(|run| acknowledged(run, name)));
        }
    }
    line("bytes written per byte of payload", "3", "2", written(figures));
    line("rows/s through a sink into MariaDB on disk", "50 k", "100 k", rows(figures));
    line(
        "acknowledged until a SELECT sees it, five times the seed's load",
        "5 s",
        "-",
        age(figures),
    );
    text
}

/// The run of whered alone.
fn alone<'a>(figures: &[&'a Json], has_loot: bool) -> Option<&'a Json> {
    let mut runs = figures.iter().filter(|section| section.get("phases").is_some());
    runs.find(|section| section["has_loot"] == has_loot).copied()
}

fn phase<'a>(run: &'a Json, name: &str) -> Option<&'a Json> {
    run["phases"].as_array()?.iter().find(|phase| phase["name"] == name)
}

fn events(run: &Json) -> Option<String> {
    let full = phase(run, "whered, full")?;
    let cores = run["machine"]["processors"].as_f64()?;
    let by_wall = full["events_per_second"].as_f64()? / cores / 1e3;
    let by_cpu = 1e6 / full["cpu_nanoseconds_per_event"].as_f64()?;
    Some(format!(
        "**{by_wall:.0} k** by wall time on all {cores} cores, clients included; {by_cpu:.0} k by \
         the server's CPU"
    ))
}

fn uploads(run: &Json) -> Option<String> {
    let of = |name: &str| phase(run, name)?["uploads_per_second"].as_f64();
    let (ours, bare) = (of("whered, full")?, of("bare receiver, full")?);
    Some(format!("**{ours:.0}**, {:.0} % of {bare:.0}", 100.0 * ours / bare))
}

fn acknowledged(run: &Json, name: &str) -> Option<String> {
    let of = |who: &str, figure: &str| phase(run, &format!("{who}, {name}"))?[figure].as_f64();
    let p99 = |who: &str| of(who, "acknowledged_p99_millis");
    let (ours, bare) = (p99("whered")?, p99("bare receiver")?);
    let pace = of("whered", "uploads_per_second")?;
    let alone = run["fdatasync"].as_array()?.iter().find(|alone| alone["name"] == name)?;
    let alone = alone["p99_millis"].as_f64()?;
    Some(format!(
        "**{ours:.1} ms** at {pace:.0}/s; fdatasync alone {alone:.1} ms, the bare receiver {bare:.1} ms"
    ))
}

fn written(figures: &[&Json]) -> Option<String> {
    let runs = figures.iter().find_map(|section| section.get("written"))?.as_array()?;
    let parts = runs.iter().filter_map(|run| {
        let ratio = run["device_bytes"].as_f64()? / run["payload_bytes"].as_f64()?;
        let loot = if run["has_loot"] == true { ", with loot" } else { "" };
        Some(format!("**{ratio:.2}** ({} snapshots{loot})", run["snapshots"]))
    });
    Some(parts.collect::<Vec<_>>().join(", "))
}

fn sink<'a>(figures: &[&'a Json]) -> Option<&'a Json> {
    figures.iter().find_map(|section| section.get("sink"))
}

fn rows(figures: &[&Json]) -> Option<String> {
    let rows = sink(figures)?["rows_per_second"].as_f64()? / 1e3;
    Some(format!("**{rows:.0} k**"))
}

fn age(figures: &[&Json]) -> Option<String> {
    let at = |name: &str| sink(figures)?[format!("age_{name}_seconds")].as_f64();
    let (p50, p99, most) = (at("p50")?, at("p99")?, at("max")?);
    Some(format!("p50 {p50:.2} s, p99 {p99:.2} s, most **{most:.2} s**"))
}

/// The rival that comes nearest, for each workload.
fn best(figures: &[&Json], group: &str, is_meant: impl Fn(&str) -> bool) -> Option<String> {
    let mut parts = Vec::new();
    for section in figures.iter().filter(|section| section["group"] == group) {
        let rivals = section["rivals"].as_array()?.iter();
        let meant = rivals.filter_map(|rival| {
            let name = rival["name"].as_str()?;
            is_meant(name).then_some(())?;
            Some((rival["times_by_wall"].as_f64()?, rival["times_by_cpu"].as_f64()?, name))
        });
        // A section of an earlier program may lack a form.
        let nearest = meant.min_by(|one, other| one.0.total_cmp(&other.0));
        let Some((wall, cpu, name)) = nearest else { continue };
        let workload = section["workload"].as_str().unwrap_or_default();
        parts.push(format!("**{wall:.1}x** by wall time, {cpu:.1}x by CPU ({workload}; {name})"));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_nearest_form_of_a_rival_counts() {
        let rival = |name: &str, times: f64| json!({ "name": name, "times_by_wall": times, "times_by_cpu": 9.0 });
        let section = json!({ "group": "mariadb-ram", "workload": "positions", "rivals": [
            rival("whered", 1.0),
            rival("MariaDB, RAM disk, multi-row, flush 1", 3.0),
            rival("MariaDB, RAM disk, single, flush 1", 70.0),
            rival("MariaDB, RAM disk, single, 8 clients, flush 2", 50.0),
        ] });
        let page = to_markdown(&[&section]);
        assert!(page.contains("| 15x | 40x | **50.0x** by wall time, 9.0x by CPU"), "{page}");
        assert!(page.contains("| 5x | 10x | not measured |"), "{page}");
    }
}
