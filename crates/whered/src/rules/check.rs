//! `whered rules check`: what is wrong, useless or doubtful in files of rules.
//!
//! Not for: the analysis (`whered_rules::check`).

use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};
use whered_engine::FilePlaces;
use whered_rules::Ruleset;
use whered_rules::check::{Effort, Finding, check};

use super::load::{self, Options};
use crate::cli::RulesCheckArguments;
use crate::outcome::{Failure, Outcome, complain};

/// Checks every file; problems go to standard error, findings to standard output.
pub(crate) fn run(arguments: &RulesCheckArguments) -> Result<Outcome, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let places = load::places(&arguments.db)?;
    let (mut found, mut failed) = (false, false);
    let files = arguments.files.iter().map(|path| Some(path.as_path()));
    for path in files.chain(arguments.live.live.then_some(None)) {
        match one(path, arguments, &places, &mut out)? {
            Outcome::Found => {}
            Outcome::NotFound => found = true,
            Outcome::Failed => failed = true,
        }
    }
    out.flush()?;
    Ok(match (failed, found) {
        (true, _) => Outcome::Failed,
        (false, true) => Outcome::NotFound,
        (false, false) => Outcome::Found,
    })
}

/// A file that cannot be read does not keep the next one from being checked.
fn one(
    path: Option<&Path>,
    arguments: &RulesCheckArguments,
    places: &FilePlaces,
    out: &mut impl Write,
) -> Result<Outcome, Failure> {
    let options = Options::from(&arguments.read);
    let read = match path {
        Some(path) => load::ruleset_and_doubt(path, options),
        None => load::live(options).map(|ruleset| (ruleset, None)),
    };
    let (ruleset, doubt) = match read {
        Ok(read) => read,
        Err(wrong) => return told(wrong),
    };
    if let Err(failed) = load::refuse_places(&ruleset, places) {
        return Ok(failed);
    }
    load::tell_open(&ruleset);
    let report = match check(&ruleset, places, Effort::default()) {
        Ok(report) => report,
        Err(error) => return told(error.into()),
    };
    if let (Some(doubt), false) = (&doubt, arguments.json) {
        writeln!(out, "{doubt}")?;
    }
    for finding in report.findings.iter().filter(|_| !arguments.json) {
        writeln!(out, "{finding}")?;
    }
    if arguments.json {
        let finding = |finding: &Finding| json!({ "origin": finding.origin.to_string(), "line": finding.origin.line, "message": finding.message });
        let findings: Vec<Value> = report.findings.iter().map(finding).collect();
        let doubt = doubt.as_ref().map(ToString::to_string);
        let (file, undecided) = (name_of(&ruleset), report.undecided);
        let object =
            json!({ "file": file, "doubt": doubt, "findings": findings, "undecided": undecided });
        writeln!(out, "{object}")?;
    }
    if report.undecided > 0 {
        let (name, count) = (name_of(&ruleset), report.undecided);
        complain(&format!("{name}: {count} rules could be proved neither useful nor useless"));
    }
    let is_clean = report.findings.is_empty() && doubt.is_none();
    Ok(if is_clean { Outcome::Found } else { Outcome::NotFound })
}

/// The file's name, or what listed the rules.
fn name_of(ruleset: &Ruleset) -> &str {
    &ruleset.chain(ruleset.entry()).origin.file
}

fn told(wrong: load::Wrong) -> Result<Outcome, Failure> {
    match wrong.tell() {
        Err(Failure::Message(message)) => {
            complain(&message);
            Ok(Outcome::Failed)
        }
        other => other,
    }
}
