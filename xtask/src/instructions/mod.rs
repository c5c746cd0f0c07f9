//! `cargo xtask instructions`: instructions per operation, counted and held against a record.
//!
//! Not for speed: nothing here reads a clock. A count does not depend on the load of the machine,
//! so it can guard every commit; what it cannot see (caches, system calls) is measured by hand.
//!
//! ```text
//! bench/own `instructions list`      names, one a line
//! bench/own `instructions run NAME`  under callgrind, collecting inside measured_region only
//!   standard output                  NAME checksum N operations M
//!   callgrind                        Collected : I        ->  I / M  against the record
//! ```
//!
//! A checksum that differs from the record is a failure by itself: an operation that computes
//! something else is not comparable.

mod callgrind;
mod compare;
mod record;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::ChoreError;
use crate::finding::Finding;
use crate::repository::Repository;
use crate::scratch::Scratch;
use callgrind::Count;
use record::Record;

const PACKAGE: &str = "whered-own-bench";
const PROGRAM: &str = "instructions";
const RECORD: &str = "bench/results/instructions.toml";

/// How much a count may be above its record where nobody says otherwise, as in CI.
pub(crate) const TOLERANCE_PERCENT: f64 = 5.0;

/// Reads the value of `--tolerance`.
pub(crate) fn read_tolerance(text: &str) -> Result<f64, ChoreError> {
    let percent = text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| ChoreError::new(format!("--tolerance {text}; allowed: 0 to 100")))
}

/// Counts every operation and compares with the record.
pub(crate) fn check(
    repository: &Repository,
    tolerance_percent: f64,
) -> Result<Vec<Finding>, ChoreError> {
    let counts = count(repository)?;
    let recorded = recorded(repository)?;
    print!("{}", compare::table(&counts, &recorded));
    Ok(compare::check(&counts, &recorded, RECORD, tolerance_percent))
}

/// Counts every operation and rewrites the record.
pub(crate) fn record(repository: &Repository) -> Result<(), ChoreError> {
    let counts = count(repository)?;
    print!("{}", compare::table(&counts, &recorded(repository)?));
    let text = Record::of(&counts).to_text(&compiler()?);
    let path = repository.root().join(RECORD);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| ChoreError::on_file(folder, &error))?;
    }
    std::fs::write(&path, text).map_err(|error| ChoreError::on_file(&path, &error))?;
    println!("{RECORD}: {} operations recorded", counts.len());
    Ok(())
}

fn recorded(repository: &Repository) -> Result<Record, ChoreError> {
    match std::fs::read_to_string(repository.root().join(RECORD)) {
        Ok(text) => Record::parse(&text),
        Err(_) => Ok(Record::default()),
    }
}

fn count(repository: &Repository) -> Result<Vec<Count>, ChoreError> {
    let program = build(repository.root())?;
    let names = list(&program)?;
    let scratch = Scratch::new("instructions")?;
    let mut counts = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        eprintln!("[{}/{}] {name}", index + 1, names.len());
        let out_path = scratch.path().join(format!("{index}.out"));
        counts.push(Count::take(&program, name, &out_path)?);
    }
    Ok(counts)
}

/// Builds the benchmark program and returns where cargo says it is.
fn build(root: &Path) -> Result<PathBuf, ChoreError> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["build", "--locked", "--profile", "bench", "--package", PACKAGE, "--bin", PROGRAM])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| ChoreError::on_program("cargo", &error))?;
    if !output.status.success() {
        return Err(ChoreError::new(format!("cargo could not build {PROGRAM} of {PACKAGE}")));
    }
    executable(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| ChoreError::new(format!("cargo built no program {PROGRAM}")))
}

/// The last program among cargo's JSON messages.
fn executable(messages: &str) -> Option<PathBuf> {
    let parsed = messages.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut paths = parsed.filter_map(|message: serde_json::Value| {
        message.get("executable").and_then(|path| path.as_str()).map(PathBuf::from)
    });
    paths.next_back()
}

fn list(program: &Path) -> Result<Vec<String>, ChoreError> {
    let output = Command::new(program)
        .arg("list")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| ChoreError::on_file(program, &error))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names: Vec<String> =
        text.lines().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if !output.status.success() || names.is_empty() {
        return Err(ChoreError::new(format!("{PROGRAM} list named no operations")));
    }
    Ok(names)
}

/// What `rustc -vV` says about version and target.
fn compiler() -> Result<String, ChoreError> {
    let output = Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned()))
        .arg("-vV")
        .output()
        .map_err(|error| ChoreError::on_program("rustc", &error))?;
    Ok(describe_compiler(&String::from_utf8_lossy(&output.stdout)))
}

fn describe_compiler(verbose_version: &str) -> String {
    let version = verbose_version.lines().next().unwrap_or("an unknown compiler");
    let target = verbose_version.lines().find_map(|line| line.strip_prefix("host: "));
    format!("{version} for {}", target.unwrap_or("an unknown target"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_read_from_cargos_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/t/instructions\"}\n\
                        {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/t/instructions")));
        assert_eq!(executable("nothing\n"), None);
    }

    #[test]
    fn a_tolerance_is_a_percentage() {
        assert_eq!(read_tolerance("0.5").ok(), Some(0.5));
        for text in ["", "5%", "-1", "nan", "101"] {
            assert!(read_tolerance(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_compiler_is_described_by_version_and_target() {
        let text = "rustc 1.95.0 (abc 2026-01-01)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\n";
        assert_eq!(
            describe_compiler(text),
            "rustc 1.95.0 (abc 2026-01-01) for x86_64-unknown-linux-gnu"
        );
    }
}
