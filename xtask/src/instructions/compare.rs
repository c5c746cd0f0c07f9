//! Fresh counts against the record: a table for people, findings for the exit code.
//!
//! A count that is more than the tolerance above the record fails; one below the record never does,
//! and is shown, so that somebody may record it.

use std::fmt::Write as _;

use super::callgrind::Count;
use super::record::Record;
use crate::finding::Finding;

/// One line an operation: name, instructions per operation, recorded, change.
pub(crate) fn table(counts: &[Count], record: &Record) -> String {
    let width = counts.iter().map(|count| count.name.len()).max().unwrap_or(0).max(9);
    let mut text = format!(
        "{:width$}  {:>14}  {:>14}  {:>8}\n",
        "operation", "instructions", "recorded", "change"
    );
    for count in counts {
        let fresh = count.per_operation();
        let (recorded, change) = match record.operations.get(&count.name) {
            None => ("-".to_owned(), "new".to_owned()),
            Some(recorded) => {
                let change = change_percent(fresh, recorded.per_operation);
                (format!("{:.2}", recorded.per_operation), format!("{change:+.1} %"))
            }
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:width$}  {fresh:>14.2}  {recorded:>14}  {change:>8}", count.name);
    }
    text
}

/// Finds what must not pass.
pub(crate) fn check(
    counts: &[Count],
    record: &Record,
    record_path: &str,
    tolerance_percent: f64,
) -> Vec<Finding> {
    let allowed_ratio = 1.0 + tolerance_percent / 100.0;
    let mut findings = Vec::new();
    let mut found = |what: String, allowed: String| {
        findings.push(Finding::new(record_path, 1, what, allowed));
    };
    let how = "cargo xtask instructions --record";
    for count in counts {
        let Some(recorded) = record.operations.get(&count.name) else {
            found(format!("{} has no record", count.name), format!("recorded ones; {how}"));
            continue;
        };
        if count.checksum != recorded.checksum {
            let what = format!("{} computed checksum {}", count.name, count.checksum);
            found(what, recorded.checksum.clone());
        }
        let change = change_percent(count.per_operation(), recorded.per_operation);
        if count.per_operation() > recorded.per_operation * allowed_ratio {
            let fresh = count.per_operation();
            let what = format!("{} takes {fresh:.2} instructions ({change:+.1} %)", count.name);
            let allowed = format!("{:.2} and {tolerance_percent} % more", recorded.per_operation);
            found(what, allowed);
        }
    }
    for name in record.operations.keys() {
        if counts.iter().all(|count| count.name != *name) {
            found(format!("{name} is recorded and no longer exists"), how.to_owned());
        }
    }
    findings
}

fn change_percent(fresh: f64, recorded: f64) -> f64 {
    (fresh / recorded - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(name: &str, instructions: u64, checksum: &str) -> Count {
        let (name, checksum) = (name.to_owned(), checksum.to_owned());
        Count { name, instructions, operations: 10, checksum }
    }

    fn found(fresh: &[Count], recorded: &[Count]) -> Vec<String> {
        let findings = check(fresh, &Record::of(recorded), "record", 5.0);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn up_to_five_percent_more_passes_and_less_always_does() {
        let recorded = [count("a", 1000, "7")];
        assert!(found(&[count("a", 1050, "7")], &recorded).is_empty());
        assert!(found(&[count("a", 10, "7")], &recorded).is_empty());
        let found = found(&[count("a", 1060, "7")], &recorded);
        assert_eq!(
            found,
            ["record:1: a takes 106.00 instructions (+6.0 %); allowed: 100.00 and 5 % more"]
        );
    }

    #[test]
    fn the_tolerance_can_be_smaller() {
        let record = Record::of(&[count("a", 1000, "7")]);
        let findings = |fresh| check(&[count("a", fresh, "7")], &record, "record", 1.0);
        assert!(findings(1010).is_empty());
        let found = findings(1020)[0].to_string();
        let expected =
            "record:1: a takes 102.00 instructions (+2.0 %); allowed: 100.00 and 1 % more";
        assert_eq!(found, expected);
    }

    #[test]
    fn another_checksum_fails_even_when_it_is_faster() {
        let found = found(&[count("a", 10, "8")], &[count("a", 1000, "7")]);
        assert_eq!(found, ["record:1: a computed checksum 8; allowed: 7"]);
    }

    #[test]
    fn new_and_vanished_operations_fail() {
        let found = found(&[count("a", 10, "7")], &[count("b", 10, "7")]);
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("a has no record"));
        assert!(found[1].contains("b is recorded and no longer exists"));
    }

    #[test]
    fn the_table_shows_both_numbers_and_the_change() {
        let record = Record::of(&[count("a", 1000, "7")]);
        let text = table(&[count("a", 900, "7"), count("new", 5, "7")], &record);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["a", "90.00", "100.00", "-10.0", "%"]);
        assert_eq!(lines[2], ["new", "0.50", "-", "new"]);
    }
}
