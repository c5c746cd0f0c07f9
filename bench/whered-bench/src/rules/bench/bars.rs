//! The bars of the rules and how far a report reaches.
//!
//! Not for measuring: everything comes from the report's tables; a bar without its tables is left
//! out.

use super::report::Report;

/// One measure, its value and what it is held against.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// What was measured.
    pub measure: String,
    /// The value.
    pub measured: f64,
    /// What it is counted in.
    pub unit: &'static str,
    /// The least that is owed, or the most that is allowed.
    pub owed: f64,
    /// What would be better still.
    pub reach_for: Option<f64>,
    /// Less is better.
    pub at_most: bool,
    /// What else should be known.
    pub beside: String,
}

impl Bar {
    /// Whether it is met or reached.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        let meets =
            |bound: f64| if self.at_most { self.measured <= bound } else { self.measured >= bound };
        match self.reach_for {
            Some(bound) if meets(bound) => "reached",
            _ if meets(self.owed) => "met",
            _ => "missed",
        }
    }
}

/// All bars that the report has figures for.
#[must_use]
pub fn bars(report: &Report) -> Vec<Bar> {
    let mut list = Vec::new();
    sets(report, &mut list);
    three_parts(report, &mut list);
    growth(report, &mut list);
    against_rte_acl(report, &mut list);
    places(report, &mut list);
    large(report, &mut list);
    list
}

fn bar(measure: impl Into<String>, measured: f64, unit: &'static str, owed: f64) -> Bar {
    let measure = measure.into();
    Bar { measure, measured, unit, owed, reach_for: None, at_most: false, beside: String::new() }
}

fn sets(report: &Report, list: &mut Vec<Bar>) {
    let Some(table) = report.table("cidrs-4096") else { return };
    for (ours, owed, reach_for) in [("batch", 20.0, 35.0), ("single", 10.0, 15.0)] {
        let engine = format!("whered {ours}");
        let found =
            table.ratio(&engine, "seed-tree").or_else(|| table.ratio(&engine, "tree in Rust"));
        if let Some((ratio, rival)) = found {
            let measure = format!("4,096 CIDRs, {ours}, against the tree of 2007");
            let beside = format!("its best: {rival}");
            list.push(Bar {
                reach_for: Some(reach_for),
                beside,
                ..bar(measure, ratio, "times", owed)
            });
        }
    }
}

fn three_parts(report: &Report, list: &mut Vec<Bar>) {
    let cost = |table: &str, list: &str| report.table(table)?.cost(&format!("whered single{list}"));
    for part in ["", ", first part", ", last part", ", nothing matches"] {
        let Some((few, many)) = cost("seed-16", part).zip(cost("seed-16384", part)) else {
            continue;
        };
        let name = format!("three parts, 16 to 16,384, single{part}");
        let beside = format!("{few:.1} to {many:.1} ns");
        list.push(Bar {
            at_most: true,
            beside,
            ..bar(format!("{name}: more"), many - few, "ns", 25.0)
        });
        list.push(Bar { at_most: true, ..bar(name, many / few, "times", 3.0) });
    }
}

fn growth(report: &Report, list: &mut Vec<Bar>) {
    for (shape, owed, reach_for) in [("acl", 3.5, 2.5), ("fw", 6.0, 5.0), ("ipc", 5.0, 3.0)] {
        let grown = |from: &str, to: &str, engine: &str| {
            Some(report.table(to)?.cost_of(engine)? / report.table(from)?.cost_of(engine)?)
        };
        let pairs = [
            (format!("{shape}-256"), format!("{shape}-16384"), shape.to_owned()),
            (format!("{shape}1-256"), format!("{shape}1-16384"), format!("ClassBench's {shape}1")),
        ];
        for (from, to, name) in pairs {
            for way in ["batch", "single"] {
                let Some(ours) = grown(&from, &to, &format!("whered {way}")) else { continue };
                let beside = grown(&from, &to, "rte_acl")
                    .map_or(String::new(), |rival| format!("rte_acl's {rival:.1} times"));
                list.push(Bar {
                    at_most: true,
                    reach_for: Some(reach_for),
                    beside,
                    ..bar(format!("{name}, 256 to 16,384, {way}"), ours, "times", owed)
                });
            }
        }
    }
}

fn against_rte_acl(report: &Report, list: &mut Vec<Bar>) {
    let owed =
        [("acl", 2.0, 2.0, 3.0, 10.0), ("fw", 1.1, 1.3, 2.0, 2.0), ("ipc", 0.7, 0.8, 1.2, 2.0)];
    for (shape, built, planned, reach_for, millions) in owed {
        for name in [format!("{shape}-16384"), format!("{shape}1-16384")] {
            let Some(table) = report.table(&name) else { continue };
            let fact = |what: &str| table.fact(what).unwrap_or_default();
            if let Some((ratio, rival)) = table.ratio("whered batch", "rte_acl") {
                let beside = format!("{rival}; built in {:.1} s", fact("built seconds"));
                let measure = format!("{name}, batch, against rte_acl");
                list.push(Bar { beside, ..bar(measure, ratio, "times", built) });
            }
            if let Some((ratio, _)) = table.ratio("whered batch, planned", "rte_acl") {
                let measure = format!("{name}, batch, planned further, against rte_acl");
                let beside = format!("{:.1} s of planning", fact("planned seconds"));
                list.push(Bar {
                    beside,
                    reach_for: Some(reach_for),
                    ..bar(measure, ratio, "times", planned)
                });
            }
            if let Some(cost) = table.cost("whered single") {
                list.push(bar(format!("{name}, single calls"), 1e3 / cost, "M/s", millions));
            }
        }
    }
}

fn places(report: &Report, list: &mut Vec<Bar>) {
    for table in report.tables.iter().filter(|table| table.name.starts_with("places-")) {
        for way in ["batch", "single"] {
            let row = |name: &str| table.row(&format!("{name} places, {way}"));
            let Some((without, with)) = row("without").zip(row("with")) else { continue };
            let ratio = crate::measure::median_of_ratios(&without.nanoseconds, &with.nanoseconds);
            let cost = |row: &super::Row| crate::measure::median(&row.nanoseconds);
            let beside = format!("{:.0} ns without, {:.0} ns with", cost(without), cost(with));
            list.push(Bar {
                at_most: true,
                reach_for: Some(1.1),
                beside,
                ..bar(format!("{}, {way}, against without", table.name), ratio, "times", 1.3)
            });
        }
    }
}

fn large(report: &Report, list: &mut Vec<Bar>) {
    for shape in ["acl", "fw", "ipc"] {
        let name = format!("{shape}-100000");
        let Some(table) = report.table(&name) else { continue };
        if let Some(seconds) = table.fact("built seconds") {
            list.push(Bar { at_most: true, ..bar(format!("{name}, built"), seconds, "s", 15.0) });
        }
        if let Some(row) = table.row("whered batch") {
            let megabytes = row.bytes as f64 / 1e6;
            list.push(Bar {
                at_most: true,
                ..bar(format!("{name}, tables"), megabytes, "MB", 2000.0)
            });
        }
        for way in ["batch", "single"] {
            if let Some(cost) = table.cost(&format!("whered {way}")) {
                list.push(bar(format!("{name}, {way}"), 1e3 / cost, "M/s", 1.0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Row, Table};
    use super::*;

    fn table(name: &str, costs: &[(&str, f64)]) -> Table {
        let row = |(name, cost): &(&str, f64)| Row {
            name: (*name).to_owned(),
            bytes: 5_000_000,
            nanoseconds: vec![*cost; 3],
        };
        Table { name: name.to_owned(), rows: costs.iter().map(row).collect(), ..Table::default() }
    }

    #[test]
    fn bars_are_met_missed_or_reached_in_either_direction() {
        let report = Report {
            tables: vec![
                table("seed-16", &[("whered single", 10.0)]),
                table("seed-16384", &[("whered single", 40.0)]),
                table("acl-256", &[("whered batch", 20.0), ("rte_acl 6", 20.0)]),
                table(
                    "acl-16384",
                    &[("whered batch", 40.0), ("rte_acl 6", 90.0), ("rte_acl 7", 82.0)],
                ),
                table(
                    "places-acl-256",
                    &[("without places, batch", 100.0), ("with places, batch", 120.0)],
                ),
            ],
            left_out: Vec::new(),
        };
        let found = bars(&report);
        let verdict = |measure: &str| {
            let bar = found.iter().find(|bar| bar.measure == measure).expect("it has its tables");
            (bar.measured, bar.verdict())
        };
        assert_eq!(verdict("three parts, 16 to 16,384, single: more"), (30.0, "missed"));
        assert_eq!(verdict("three parts, 16 to 16,384, single"), (4.0, "missed"));
        assert_eq!(verdict("acl, 256 to 16,384, batch"), (2.0, "reached"));
        assert_eq!(verdict("acl-16384, batch, against rte_acl"), (2.05, "met"));
        assert_eq!(verdict("places-acl-256, batch, against without"), (1.2, "met"));
        assert_eq!(found.len(), 5);
    }
}
