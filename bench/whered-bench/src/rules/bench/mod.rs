//! The benchmark of 2007, answered: sets and rules as N grows, with every answer checked.
//!
//! For: `whered-bench rules`, and `bench/versus`, which adds rivals through [`Rivals`]. Not for:
//! how a ruleset changes while it is asked (`bench/own`, program `rules`).
//!
//! ```text
//! section ──► set or rules, questions ──► engines ──► rounds ──► Table ──► Report: JSON
//!
//! sections: cidrs-16 ... blocklist, seed-16 ..., acl-256 ..., places-..., kernel-16 ...
//!           flat-seed-16 ...
//! ```
//!
//! A section that cannot be measured here is told with its reason. Everything is drawn from a seed.

mod bars;
mod cidrs;
mod flat;
mod kernel;
mod places;
mod report;
mod rounds;
mod seed;
mod shapes;
mod tree;

pub use bars::{Bar, bars};
pub use report::{Report, Setting};
pub use rounds::{Engine, Row, Run, Table};
pub use tree::{Expression, Tree};

use super::{FiveTuple, Shape};
use crate::sets::Prefix4;
use std::fs;
use std::path::PathBuf;
use whered_rules::classify::Packet;

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only sections whose names have this in them, or one of several parted by commas.
    pub only: Option<String>,
    /// Addresses asked of each set.
    pub addresses: usize,
    /// Packets asked of each ruleset, in every round.
    pub packets: usize,
    /// Rounds of each section.
    pub rounds: usize,
    /// What everything is drawn with.
    pub seed: u64,
    /// Seconds of further planning at 16 k rules; zero for none.
    pub plan_seconds: u64,
    /// A folder with city.mmdb and asn.mmdb, for rules with places.
    pub data: Option<PathBuf>,
    /// A folder with ClassBench's own rulesets.
    pub classbench: Option<PathBuf>,
    /// A folder where finished sections are kept, and taken from rather than measured again.
    pub parts: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            only: None,
            addresses: 40_000_000,
            packets: 1 << 16,
            rounds: 15,
            seed: 1,
            plan_seconds: 15,
            data: None,
            classbench: None,
            parts: None,
        }
    }
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.split(',').any(|one| name.contains(one)))
    }
}

/// What others answer the same questions with.
pub trait Rivals {
    /// Engines that answer 1 for addresses that a prefix holds and 0 for others.
    ///
    /// # Errors
    ///
    /// A rival that cannot be built.
    fn of_prefixes<'a>(
        &self,
        prefixes: &[Prefix4],
        addresses: &'a [u32],
    ) -> Result<Vec<Engine<'a>>, String>;

    /// Engines that answer the place of a packet's rule plus one, or zero.
    ///
    /// # Errors
    ///
    /// A rival that cannot be built.
    fn of_rules<'a>(
        &self,
        rules: &[FiveTuple],
        packets: &'a [Packet],
    ) -> Result<Vec<Engine<'a>>, String>;
}

/// Nobody: ours and the tree in Rust alone.
#[derive(Clone, Copy, Debug)]
pub struct NoRivals;

impl Rivals for NoRivals {
    fn of_prefixes<'a>(
        &self,
        _prefixes: &[Prefix4],
        _addresses: &'a [u32],
    ) -> Result<Vec<Engine<'a>>, String> {
        Ok(Vec::new())
    }

    fn of_rules<'a>(
        &self,
        _rules: &[FiveTuple],
        _packets: &'a [Packet],
    ) -> Result<Vec<Engine<'a>>, String> {
        Ok(Vec::new())
    }
}

/// A section.
#[derive(Clone, Debug)]
enum Section {
    Cidrs(usize),
    FullTable,
    Blocklist,
    Seed(usize),
    Generated(Shape, usize),
    Real(PathBuf),
    Places(Shape, usize),
    Kernel(usize),
    Flat(flat::Rules, usize),
}

const SHAPES: [Shape; 3] = [Shape::Acl, Shape::Fw, Shape::Ipc];

/// All sections by name, in their order.
fn sections(options: &Options) -> Vec<(String, Section)> {
    let powers = || (4..=14).map(|power| 1 << power);
    let mut list: Vec<(String, Section)> = Vec::new();
    list.extend(powers().map(|count| (format!("cidrs-{count}"), Section::Cidrs(count))));
    list.push(("full-table".to_owned(), Section::FullTable));
    list.push(("blocklist".to_owned(), Section::Blocklist));
    list.extend(powers().map(|count| (format!("seed-{count}"), Section::Seed(count))));
    for shape in SHAPES {
        let counts = [256, 1024, 4096, 16_384, 100_000];
        let named = |count| (format!("{}-{count}", shape.name()), Section::Generated(shape, count));
        list.extend(counts.map(named));
    }
    let files = options.classbench.as_deref().map(shapes::files).unwrap_or_default();
    list.extend(files.into_iter().map(|(name, path)| (name, Section::Real(path))));
    for shape in SHAPES {
        let named =
            |count| (format!("places-{}-{count}", shape.name()), Section::Places(shape, count));
        list.extend([256, 4096].map(named));
    }
    list.extend(kernel::SIZES.map(|count| (format!("kernel-{count}"), Section::Kernel(count))));
    let flat = [flat::Rules::Seed]
        .into_iter()
        .chain(SHAPES.map(flat::Rules::Accepting))
        .chain(SHAPES.map(flat::Rules::Mixed));
    for rules in flat {
        let named = |count| (format!("flat-{}-{count}", rules.name()), Section::Flat(rules, count));
        list.extend([16, 256, 4096, 16_384, 100_000].map(named));
    }
    list.retain(|(name, _)| options.wants(name));
    list
}

/// Measures all sections that are wanted; `show` is told of each.
///
/// # Errors
///
/// Engines that answer otherwise than another one or than a scan: whatever else goes wrong leaves
/// its section out.
pub fn run(options: &Options, rivals: &dyn Rivals, show: &dyn Fn(&str)) -> Result<Report, String> {
    let mut report = Report::default();
    for (name, section) in sections(options) {
        if let Some(table) = kept(options, &name) {
            report.tables.push(table);
            continue;
        }
        match measure(options, rivals, &section) {
            Ok(table) => {
                let table = Table { name, ..table };
                show(&report::table_to_markdown(&table));
                keep(options, &table)?;
                report.tables.push(table);
            }
            Err(reason) if is_wrong_answer(&reason) => return Err(format!("{name}: {reason}")),
            Err(reason) => {
                show(&format!("{name} is left out: {reason}\n"));
                report.left_out.push((name, reason));
            }
        }
    }
    Ok(report)
}

/// Answers that differ end everything; what is missing here does not.
fn is_wrong_answer(reason: &str) -> bool {
    ["differ", "otherwise than", "the walk"].iter().any(|word| reason.contains(word))
}

fn measure(options: &Options, rivals: &dyn Rivals, section: &Section) -> Result<Table, String> {
    match section {
        Section::Cidrs(count) => cidrs::random(options, rivals, *count),
        Section::FullTable => cidrs::full_table(options, rivals),
        Section::Blocklist => cidrs::blocklist(options, rivals),
        Section::Seed(count) => seed::measure(options, *count),
        Section::Generated(shape, count) => shapes::generated(options, rivals, *shape, *count),
        Section::Real(path) => shapes::real(options, rivals, path),
        Section::Places(shape, count) => {
            let folder = options.data.as_deref().filter(|folder| folder.join("city.mmdb").exists());
            let folder = folder.ok_or("it needs --data with city.mmdb and asn.mmdb")?;
            places::measure(options, folder, *shape, *count)
        }
        Section::Kernel(count) => kernel::measure(options, *count),
        Section::Flat(rules, count) => flat::measure(options, *rules, *count),
    }
}

/// A section that was measured before.
fn kept(options: &Options, name: &str) -> Option<Table> {
    let path = options.parts.as_ref()?.join(format!("{name}.json"));
    Table::from_json(&serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?)
}

fn keep(options: &Options, table: &Table) -> Result<(), String> {
    let Some(folder) = &options.parts else { return Ok(()) };
    let path = folder.join(format!("{}.json", table.name));
    let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(folder).map_err(wrong)?;
    fs::write(&path, format!("{:#}\n", table.to_json())).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_sections_agree_and_become_a_report() {
        let options = Options {
            only: Some("cidrs-16,seed-16,acl-256".to_owned()),
            addresses: 4000,
            packets: 512,
            rounds: 2,
            plan_seconds: 0,
            ..Options::default()
        };
        let wanted = Options { only: Some("cidrs-16".to_owned()), ..options.clone() };
        assert_eq!(sections(&wanted).len(), 2, "16 and 16,384");
        let mut report = Report::default();
        for (name, section) in sections(&options) {
            // Those with `flat-` need the program and a kernel of their own.
            let is_left_out = ["places", "flat-"].iter().any(|part| name.contains(part));
            if is_left_out || name.ends_with("16384") {
                continue;
            }
            let table = measure(&options, &NoRivals, &section).expect("nothing is missing");
            report.tables.push(Table { name, ..table });
        }
        let names: Vec<_> = report.tables.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names, ["cidrs-16", "seed-16", "acl-256"]);
        let page = report.to_markdown("Rules", &[("rounds", "2".to_owned())]);
        assert!(page.contains("| whered single, nothing matches |"), "{page}");
        assert_eq!(report.to_json(&[])["tables"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn what_is_missing_is_left_out_with_its_reason() {
        let only = Some("places-acl-256".to_owned());
        let options = Options { only, ..Options::default() };
        let report = run(&options, &NoRivals, &|_| {}).expect("no wrong answers");
        assert_eq!(report.left_out.len(), 1);
        assert!(report.left_out[0].1.contains("--data"), "{:?}", report.left_out);
    }
}
