//! What uploads say, and the naive twin of the table that they become.
//!
//! ```text
//! upload = one line of its own (its mark) | some lines of shared members | perhaps a bad one
//! table: member -> how often, sum, largest
//! ```
//! For: telling from the table alone which uploads were applied: a mark is there once or not at
//! all. Not for sending them. All rules are sums and maxima, so that the order of uploads does not
//! matter.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::Random;

/// Members that uploads of all lanes count.
const SHARED: u64 = 40;

/// How often a member was met, its sum, its largest number.
pub(super) type Row = (i64, i64, i64);

/// The rows of the table by member.
pub(super) type Rows = BTreeMap<String, Row>;

/// One upload, made from its number.
#[derive(Clone, Debug)]
pub(super) struct Upload {
    /// The member that no other upload has; its idempotency key as well.
    pub(super) mark: String,
    records: Vec<(String, i64)>,
    /// It has a record that is none.
    pub(super) is_flawed: bool,
}

impl Upload {
    pub(super) fn new(lane: &str, number: u64, random: &mut Random) -> Upload {
        let mark = format!("{lane}-{number}");
        let mut records = vec![(mark.clone(), random.below(1000) as i64)];
        for _ in 0..random.below(12) {
            records.push((format!("shared-{}", random.below(SHARED)), random.below(1000) as i64));
        }
        Upload { mark, records, is_flawed: random.chance(0.1) }
    }

    /// Its text in NDJSON.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (member, number) in &self.records {
            let _ = writeln!(text, r#"{{"m":"{member}","x":8.5,"y":50.25,"n":{number}}}"#);
        }
        if self.is_flawed {
            text.push_str("{\"m\":\"flawed\",\"x\":8.5,\"n\":1}\n");
        }
        text
    }
}

/// The table as it must be.
#[derive(Debug, Default)]
pub(super) struct Twin {
    pub(super) rows: Rows,
    /// Uploads with a record that is none, each of which has one line in the quarantine file.
    pub(super) flawed: u64,
}

impl Twin {
    pub(super) fn apply(&mut self, upload: &Upload) {
        self.flawed += u64::from(upload.is_flawed);
        for (member, number) in &upload.records {
            let row = self.rows.entry(member.clone()).or_insert((0, 0, i64::MIN));
            *row = (row.0 + 1, row.1 + number, row.2.max(*number));
        }
    }

    /// Compares with what somebody has.
    ///
    /// # Errors
    ///
    /// The first differences.
    pub(super) fn compare(&self, who: &str, found: &Rows) -> Result<(), String> {
        if self.rows == *found {
            return Ok(());
        }
        let mut differences = Vec::new();
        for member in self.rows.keys().chain(found.keys().filter(|it| !self.rows.contains_key(*it)))
        {
            let (wanted, got) = (self.rows.get(member), found.get(member));
            if wanted != got {
                differences.push(format!("{member}: expected {wanted:?}, found {got:?}"));
            }
        }
        let count = differences.len();
        differences.truncate(5);
        Err(format!("{who}: {count} rows are others: {}", differences.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_that_is_applied_twice_or_in_part_is_found_out() {
        let mut random = Random::new(3);
        let uploads: Vec<_> = (0..50).map(|n| Upload::new("a", n, &mut random)).collect();
        let mut twin = Twin::default();
        uploads.iter().for_each(|upload| twin.apply(upload));
        let mut found = twin.rows.clone();
        assert_eq!(twin.compare("it", &found), Ok(()));
        let more = uploads.iter().find(|upload| upload.records.len() > 1).expect("there are some");
        let row = found.get_mut(&more.records[1].0).expect("it was applied");
        row.0 += 1;
        assert!(twin.compare("it", &found).expect_err("once too often").contains("shared-"));
        found.clone_from(&twin.rows);
        found.remove(&more.mark);
        assert!(twin.compare("it", &found).expect_err("a part is missing").contains(&more.mark));
    }
}
