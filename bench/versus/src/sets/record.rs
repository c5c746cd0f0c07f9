//! The report of a run: tables and bars for a terminal, and its JSON file.
//!
//! Not for measuring. Ratios are medians over rounds, the two halves of each having run one after
//! the other on the same addresses.

use super::rounds::Table;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use whered_bench::measure::{Machine, write_result};

/// A bar: in this table ours beats the rivals so named by so much.
struct Bar {
    measure: &'static str,
    table: &'static str,
    ours: &'static str,
    rival: &'static str,
    at_least: f64,
    reach_for: f64,
}

const BARS: [Bar; 5] = [
    Bar {
        measure: "4,096 CIDRs, batch",
        table: "cidrs-4096",
        ours: "whered batch",
        rival: "seed-tree",
        at_least: 20.0,
        reach_for: 35.0,
    },
    Bar {
        measure: "4,096 CIDRs, single",
        table: "cidrs-4096",
        ours: "whered single",
        rival: "seed-tree",
        at_least: 10.0,
        reach_for: 15.0,
    },
    Bar {
        measure: "full IPv4 table, batch",
        table: "full-table4",
        ours: "whered batch",
        rival: "rte_fib",
        at_least: 1.3,
        reach_for: 2.0,
    },
    Bar {
        measure: "500 k blocklist, batch",
        table: "blocklist",
        ours: "whered batch",
        rival: "rte_fib",
        at_least: 2.5,
        reach_for: 4.0,
    },
    Bar {
        measure: "IPv6 table, batch",
        table: "full-table6",
        ours: "whered batch",
        rival: "rte_fib6",
        at_least: 3.5,
        reach_for: 5.0,
    },
];

/// One table with its rows.
pub(crate) fn table_to_markdown(table: &Table) -> String {
    let mut out = format!("## {}\n\n{} entries. {}\n\n", table.name, table.entries, table.note);
    out.push_str(
        "| engine | M/s | ns | bytes | bytes an entry |\n| --- | ---: | ---: | ---: | ---: |\n",
    );
    for row in &table.rows {
        let millions = row.millions();
        let (bytes, each) = match row.bytes {
            0 => ("-".to_owned(), "-".to_owned()),
            bytes => (bytes.to_string(), format!("{:.1}", bytes as f64 / table.entries as f64)),
        };
        let nanoseconds = 1000.0 / millions;
        let _ =
            writeln!(out, "| {} | {millions:.1} | {nanoseconds:.2} | {bytes} | {each} |", row.name);
    }
    out
}

/// Bars with what was measured, of those whose table there is.
fn measured_bars(tables: &[Table]) -> Vec<Value> {
    let mut judged = Vec::new();
    for bar in &BARS {
        let table = tables.iter().find(|table| table.name == bar.table);
        let Some((ratio, rival)) = table.and_then(|table| table.ratio(bar.ours, bar.rival)) else {
            continue;
        };
        let verdict = match ratio {
            ratio if ratio < bar.at_least => "below the bar",
            ratio if ratio >= bar.reach_for => "reached",
            _ => "met",
        };
        let Bar { measure, at_least, reach_for, .. } = bar;
        eprintln!("{measure}: {rival} takes {ratio:.2} times ours, wanted {at_least}: {verdict}");
        judged.push(json!({"measure": measure, "rival": rival, "ratio": ratio,
            "at_least": at_least, "reach_for": reach_for, "verdict": verdict}));
    }
    judged
}

/// Prints the bars, and writes the JSON file if a folder is given.
pub(crate) fn write(
    folder: Option<&Path>,
    date: &str,
    settings: &[(&'static str, String)],
    tables: &[Table],
) -> Result<(), String> {
    let bars = measured_bars(tables);
    let Some(folder) = folder else { return Ok(()) };
    let rows = |table: &Table| {
        let each = table.rows.iter();
        each.map(|row| json!({"engine": row.name, "bytes": row.bytes, "ns": row.nanoseconds}))
            .collect::<Vec<_>>()
    };
    let tables: Vec<_> = tables
        .iter()
        .map(|table| json!({"set": table.name, "entries": table.entries, "rows": rows(table)}))
        .collect();
    let settings: serde_json::Map<_, _> =
        settings.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let machine = Machine::this().to_json();
    let all = json!({"machine": machine, "settings": settings, "bars": bars, "tables": tables});
    write_result(folder, "sets", date, &all).map(drop)
}
