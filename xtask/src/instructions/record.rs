//! `bench/results/instructions.toml`: what each operation took when somebody last looked.
//!
//! ```toml
//! ["lookup4/random/whered"]
//! instructions_per_operation = 61.25
//! checksum = "1234"
//! ```
//!
//! Sorted by name, so that a change shows as a small difference. Rewritten only by `--record`.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::callgrind::Count;
use crate::failure::ChoreError;

/// All recorded operations.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Record {
    /// By name.
    pub(crate) operations: BTreeMap<String, Recorded>,
}

/// One recorded operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recorded {
    /// Above 0, with two decimals.
    pub(crate) per_operation: f64,
    /// What the operation computed.
    pub(crate) checksum: String,
}

impl Record {
    /// Reads the file's text.
    pub(crate) fn parse(text: &str) -> Result<Record, ChoreError> {
        let wrong =
            |what: &str| ChoreError::new(format!("bench/results/instructions.toml: {what}"));
        let table: Table = text.parse().map_err(|error| wrong(&format!("{error}")))?;
        let mut operations = BTreeMap::new();
        for (name, entry) in &table {
            let per_operation = entry.get("instructions_per_operation").and_then(Value::as_float);
            let checksum = entry.get("checksum").and_then(Value::as_str);
            let (Some(per_operation), Some(checksum)) = (per_operation, checksum) else {
                return Err(wrong(&format!("{name} needs instructions_per_operation, checksum")));
            };
            if !(per_operation.is_finite() && per_operation > 0.0) {
                return Err(wrong(&format!("{name}: a count above 0 is allowed")));
            }
            operations
                .insert(name.clone(), Recorded { per_operation, checksum: checksum.to_owned() });
        }
        Ok(Record { operations })
    }

    /// The record of fresh counts.
    pub(crate) fn of(counts: &[Count]) -> Record {
        let entries = counts.iter().map(|count| {
            let per_operation = count.per_operation();
            (count.name.clone(), Recorded { per_operation, checksum: count.checksum.clone() })
        });
        Record { operations: entries.collect() }
    }

    /// The file's text, with a head that says what the counts depend on.
    pub(crate) fn to_text(&self, compiler: &str) -> String {
        let mut text = format!(
            "# Instructions per operation, written by `cargo xtask instructions --record`: change\n\
             # it deliberately and say why in the commit. `make bench-check` allows 5 % more.\n\
             #\n\
             # Counted by callgrind, whose processor offers AVX2 and no AVX-512: code paths that\n\
             # need AVX-512 are not in here.\n\
             # Compiler: {compiler}, profile bench.\n"
        );
        for (name, recorded) in &self.operations {
            text.push_str(&format!(
                "\n[{}]\ninstructions_per_operation = {:.2}\nchecksum = {}\n",
                Value::from(name.as_str()),
                recorded.per_operation,
                Value::from(recorded.checksum.as_str()),
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(name: &str, instructions: u64, checksum: &str) -> Count {
        let (name, checksum) = (name.to_owned(), checksum.to_owned());
        Count { name, instructions, operations: 100, checksum }
    }

    #[test]
    fn a_record_is_read_back_as_it_was_written_in_the_order_of_names() {
        let counts = [count("b/\"x\"", 12_345, "18446744073709551615"), count("a", 100, "0x7")];
        let text = Record::of(&counts).to_text("rustc 1 for somewhere");
        assert!(text.starts_with("# "));
        assert!(text.contains("rustc 1 for somewhere"));
        assert!(text.find("\"a\"") < text.find("123.45"), "{text}");
        let record = Record::parse(&text).unwrap();
        assert_eq!(record, Record::of(&counts));
    }

    #[test]
    fn entries_that_make_no_sense_are_refused() {
        for text in [
            "[a]\nchecksum = \"1\"\n",
            "[a]\ninstructions_per_operation = 0.0\nchecksum = \"1\"\n",
            "[a]\ninstructions_per_operation = nan\nchecksum = \"1\"\n",
            "[a]\ninstructions_per_operation = 1.0\n",
            "a = 1\n",
        ] {
            assert!(Record::parse(text).is_err(), "{text}");
        }
    }
}
