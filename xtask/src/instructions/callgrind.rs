//! Runs one operation under callgrind and reads how many instructions it took.
//!
//! Collection is off outside `measured_region`, so preparation does not count. The sum is read
//! from callgrind's messages (`==12== Collected : 345`), else from its file (`summary: 345`).

use std::path::Path;
use std::process::Command;

use crate::failure::ChoreError;

/// What one run under callgrind gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Count {
    /// The operation's name.
    pub(crate) name: String,
    /// Instructions inside the measured region, all operations together.
    pub(crate) instructions: u64,
    /// How many operations that were; never 0.
    pub(crate) operations: u64,
    /// What the operations computed, as the program prints it.
    pub(crate) checksum: String,
}

impl Count {
    /// Instructions per operation.
    #[allow(
        clippy::cast_precision_loss,
        reason = "counts are far below 2^53; two decimals are kept"
    )]
    pub(crate) fn per_operation(&self) -> f64 {
        self.instructions as f64 / self.operations as f64
    }

    /// Runs the operation; callgrind writes its file to `out_path`.
    pub(crate) fn take(program: &Path, name: &str, out_path: &Path) -> Result<Count, ChoreError> {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--toggle-collect=*measured_region*"])
            .arg(format!("--callgrind-out-file={}", out_path.display()))
            .arg(program)
            .args(["run", name])
            .output()
            .map_err(|error| ChoreError::on_program("valgrind", &error))?;
        let messages = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let reason = messages.trim_end();
            return Err(ChoreError::new(format!("{name} failed under valgrind:\n{reason}")));
        }
        let file = std::fs::read_to_string(out_path).unwrap_or_default();
        let instructions = collected(&messages).or_else(|| summary(&file));
        let instructions = instructions.filter(|count| *count > 0).ok_or_else(|| {
            ChoreError::new(format!("{name}: callgrind collected nothing; no measured_region?"))
        })?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let (checksum, operations) = result_line(&printed, name).ok_or_else(|| {
            ChoreError::new(format!("{name} did not print '{name} checksum N operations M'"))
        })?;
        Ok(Count { name: name.to_owned(), instructions, operations, checksum })
    }
}

/// `==123== Collected : 4567` of callgrind's messages.
fn collected(messages: &str) -> Option<u64> {
    messages.lines().find_map(|line| {
        let (_, rest) = line.split_once("Collected")?;
        rest.trim_start().strip_prefix(':')?.split_whitespace().next()?.parse().ok()
    })
}

/// `summary: 4567` or `totals: 4567` of callgrind's file.
fn summary(file: &str) -> Option<u64> {
    file.lines().find_map(|line| {
        let rest = line.strip_prefix("summary:").or_else(|| line.strip_prefix("totals:"))?;
        rest.split_whitespace().next()?.parse().ok()
    })
}

/// Checksum and operations from the line `NAME checksum N operations M`.
fn result_line(printed: &str, name: &str) -> Option<(String, u64)> {
    printed.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        match words.as_slice() {
            ["checksum", checksum, "operations", operations] => {
                let operations = operations.parse().ok().filter(|count| *count > 0)?;
                Some(((*checksum).to_owned(), operations))
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_read_from_messages_or_file() {
        let messages = "==12== Events    : Ir\n==12== Collected : 345\n==12== \n";
        assert_eq!(collected(messages), Some(345));
        assert_eq!(collected("==12== nothing\n"), None);
        assert_eq!(summary("events: Ir\nsummary: 678\n"), Some(678));
        assert_eq!(summary("totals: 9\n"), Some(9));
        assert_eq!(summary(""), None);
    }

    #[test]
    fn the_result_line_is_read_by_its_name() {
        let printed = "preparing\nlookup4/a checksum 18446744073709551615 operations 1000\n";
        let expected = ("18446744073709551615".to_owned(), 1000);
        assert_eq!(result_line(printed, "lookup4/a"), Some(expected));
        assert_eq!(result_line(printed, "lookup4/b"), None);
        assert_eq!(result_line("a checksum 1 operations 0\n", "a"), None);
        assert_eq!(result_line("a checksum 1\n", "a"), None);
    }
}
