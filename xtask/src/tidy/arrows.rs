//! Which crate of this repository may use which.
//!
//! The table below is the project's crate table: arrows point down its levels, and only along
//! the rows. Dev- and build-dependencies follow the same arrows, since a test that needs a
//! crate from above belongs into that crate.
//!
//! ```text
//! level 3   server -> engine, dns, replication     connect -> engine, feeds, replication
//! level 2   engine -> everything of levels 0 and 1, except replication
//! level 1   mmdb, rules, dns, unpack -> ip    feeds -> geo    capture -> ip    replication
//! level 0   ip, geo -> simd    store    random, for the tests of all
//! ```
//!
//! `whered` (level 4) uses anything of levels 0 to 3. Outside `crates/`, each package of `bindings`
//! has a row of its own. `bench/*`, `fuzz` and `xtask` use anything. Nothing uses them, except that
//! packages of `bench/` use `bench/whered-bench`.

use super::metadata::{Arrow, Package};
use crate::finding::{Finding, line_where};
use crate::repository::TextFile;

const LEVEL_0_TO_1: &[&str] = &[
    "whered-simd",
    "whered-random",
    "whered-ip",
    "whered-unpack",
    "whered-geo",
    "whered-store",
    "whered-mmdb",
    "whered-rules",
    "whered-dns",
    "whered-feeds",
    "whered-capture",
];
const LEVEL_0_TO_3: &[&str] = &[
    "whered-simd",
    "whered-random",
    "whered-ip",
    "whered-unpack",
    "whered-geo",
    "whered-store",
    "whered-mmdb",
    "whered-rules",
    "whered-dns",
    "whered-feeds",
    "whered-capture",
    "whered-replication",
    "whered-engine",
    "whered-server",
    "whered-connect",
];

/// Package name and the packages it may use. A new crate needs a row here.
const TABLE: &[(&str, &[&str])] = &[
    ("whered-simd", &[]),
    ("whered-random", &[]),
    ("whered-ip", &["whered-simd", "whered-random"]),
    ("whered-geo", &["whered-simd", "whered-random"]),
    ("whered-store", &["whered-random"]),
    ("whered-unpack", &["whered-ip"]),
    ("whered-mmdb", &["whered-random", "whered-ip"]),
    ("whered-rules", &["whered-simd", "whered-random", "whered-ip"]),
    ("whered-dns", &["whered-simd", "whered-random", "whered-ip"]),
    ("whered-feeds", &["whered-geo"]),
    ("whered-capture", &["whered-ip"]),
    ("whered-replication", &[]),
    ("whered-engine", LEVEL_0_TO_1),
    ("whered-server", &["whered-engine", "whered-dns", "whered-replication"]),
    (
        "whered-connect",
        &[
            "whered-engine",
            "whered-feeds",
            "whered-geo",
            "whered-ip",
            "whered-replication",
            "whered-unpack",
        ],
    ),
    ("whered", LEVEL_0_TO_3),
];

/// What packages of `bench/` may use beside the product's crates.
const BENCH_LIBRARY: &str = "bench/whered-bench";

/// Rows by folder, for packages outside `crates/`. Each library is a package of its own.
const BINDINGS: &[(&str, &[&str])] = &[
    ("bindings/c/geoip", &["whered-ip", "whered-mmdb"]),
    ("bindings/c/maxminddb", &["whered-ip", "whered-mmdb"]),
    ("bindings/c/whered", &["whered-ip", "whered-mmdb"]),
    (
        "bindings/python",
        &["whered-geo", "whered-ip", "whered-mmdb", "whered-rules", "whered-simd", "whered-unpack"],
    ),
    ("bindings/redis-module", &["whered-engine"]),
];

/// What a package may use.
enum Row {
    Only(&'static [&'static str]),
    Anything,
    Unknown,
}

/// Finds arrows that the table does not have, and packages without a row.
pub(crate) fn check(packages: &[Package], texts: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let manifest = format!("{}/Cargo.toml", package.folder);
        let text = texts.iter().find(|file| file.path == manifest).map_or("", |file| &file.text);
        findings.extend(check_place(package, &manifest, text));
        let row = row_of(package);
        if matches!(row, Row::Unknown) {
            findings.push(Finding::new(
                &manifest,
                1,
                format!("package {} has no row in the crate table", package.name),
                "a row in xtask/src/tidy/arrows.rs with what it may use",
            ));
            continue;
        }
        for arrow in &package.arrows {
            let line = line_where(text, |line| names_dependency(line, &arrow.name));
            findings.extend(check_arrow(package, arrow, &row, &manifest, line));
        }
    }
    findings
}

/// A folder is called as its package; nothing is called `common`.
fn check_place(package: &Package, manifest: &str, text: &str) -> Option<Finding> {
    let line = line_where(text, |line| line.trim_start().starts_with("name"));
    if package.name.split('-').any(|part| part == "common") {
        let what = format!("package {} is called common", package.name);
        return Some(Finding::new(manifest, line, what, "a name that says what it is for"));
    }
    let folder = package.folder.strip_prefix("crates/")?;
    if folder == package.name {
        return None;
    }
    let what = format!("package {} lies in crates/{folder}", package.name);
    Some(Finding::new(manifest, line, what, "the folder and the package have the same name"))
}

fn check_arrow(
    package: &Package,
    arrow: &Arrow,
    row: &Row,
    manifest: &str,
    line: usize,
) -> Option<Finding> {
    let what = format!("{} uses {}", package.name, arrow.name);
    let Some(folder) = &arrow.folder else {
        let allowed = "dependencies by path only inside the repository";
        return Some(Finding::new(manifest, line, what, allowed));
    };
    if folder == BENCH_LIBRARY && package.folder.starts_with("bench/") {
        return None;
    }
    if !folder.starts_with("crates/") {
        let allowed = format!("nothing depends on {folder}");
        return Some(Finding::new(manifest, line, what, allowed));
    }
    match row {
        Row::Only(may_use) if !may_use.contains(&arrow.name.as_str()) => {
            let allowed = if may_use.is_empty() {
                "no other crate of ours".to_owned()
            } else {
                may_use.join(", ")
            };
            Some(Finding::new(manifest, line, what, allowed))
        }
        _ => None,
    }
}

fn row_of(package: &Package) -> Row {
    let folder = package.folder.as_str();
    if folder.starts_with("crates/") {
        let row = TABLE.iter().find(|(name, _)| *name == package.name);
        return row.map_or(Row::Unknown, |(_, may_use)| Row::Only(may_use));
    }
    if folder == "fuzz" || folder == "xtask" || folder.starts_with("bench/") {
        return Row::Anything;
    }
    let row = BINDINGS.iter().find(|(place, _)| *place == folder);
    row.map_or(Row::Unknown, |(_, may_use)| Row::Only(may_use))
}

/// Whether a manifest's line is `name = ...`, `name.workspace = ...` or `[....name]`.
fn names_dependency(line: &str, name: &str) -> bool {
    let line = line.trim();
    let as_key =
        line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(['=', '.']));
    as_key || line.strip_suffix(']').is_some_and(|head| head.ends_with(&format!(".{name}")))
}

#[cfg(test)]
#[path = "arrows_tests.rs"]
mod tests;
