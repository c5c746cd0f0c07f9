//! `whered rules test`: packets whose fate is written down, against what the rules decide.
//!
//! Not for: reading and comparing cases (`whered_rules::cases`).

use std::io::{self, BufWriter, Write};

use serde_json::json;
use whered_rules::cases::{self, Answer, Case};
use whered_rules::naive::{Sets, is_met};
use whered_rules::unknown::Fields;
use whered_rules::{Ruleset, text};

use super::load::{self, FileSets, Options};
use super::place::Places;
use crate::cli::RulesTestArguments;
use crate::outcome::{Failure, Outcome};

/// Asks about every case. Found if all are as expected.
pub(crate) fn run(arguments: &RulesTestArguments) -> Result<Outcome, Failure> {
    let ruleset = match load::ruleset(&arguments.file, Options::from(&arguments.read)) {
        Ok(ruleset) => ruleset,
        Err(wrong) => return wrong.tell(),
    };
    let file_places = load::places(&arguments.db)?;
    if let Err(failed) = load::refuse_places(&ruleset, &file_places) {
        return Ok(failed);
    }
    let name = load::shown(&arguments.cases);
    let cases = match cases::read(&name, &load::text_of(&arguments.cases)?) {
        Ok(cases) => cases,
        Err(error) => return load::Wrong::from(error).tell(),
    };
    load::tell_live_sets(&ruleset);
    let places = Places::new(&ruleset);
    let mut out = BufWriter::new(io::stdout().lock());
    let mut failed = 0;
    for case in &cases {
        let answer = case.ask(&ruleset, &FileSets(&file_places));
        if let Some(difference) = &answer.difference {
            failed += 1;
            let why = why(&places, case, &answer, &FileSets(&file_places));
            if arguments.json {
                let object = json!({
                    "file": name, "line": answer.line, "difference": difference.to_string(), "reason": why,
                });
                writeln!(out, "{object}")?;
            } else {
                writeln!(out, "{name}:{}: {difference}; {why}", answer.line)?;
            }
        }
    }
    if arguments.json {
        writeln!(out, "{}", json!({ "file": name, "cases": cases.len(), "failed": failed }))?;
    } else {
        writeln!(out, "{name}: {} cases, {failed} not as expected", cases.len())?;
    }
    out.flush()?;
    Ok(if failed == 0 { Outcome::Found } else { Outcome::NotFound })
}

/// What decided, and what kept the expected rule from deciding.
fn why(places: &Places<'_>, case: &Case, answer: &Answer, sets: &dyn Sets) -> String {
    let ruleset = places.ruleset;
    let packet = case.packet();
    let mut why = match answer.outcome.possible.is_empty() {
        true => format!("decided {}", places.decider(&packet, answer.outcome.rule)),
        false => places.verdict_text(&packet, Fields::NONE, &answer.outcome),
    };
    if let (Some(id), true) = (answer.outcome.rule, answer.outcome.possible.is_empty()) {
        why.push_str(&format!(": {}", text::rule_text(ruleset, ruleset.rule(id))));
    }
    if let Some(line) = case.expected_line() {
        why.push_str(&format!("; line {line} {}", fate_of_line(ruleset, case, line, sets)));
    }
    why
}

fn fate_of_line(ruleset: &Ruleset, case: &Case, line: u32, sets: &dyn Sets) -> String {
    let Some(rule) = ruleset.rules().iter().find(|rule| rule.origin.line == line) else {
        return "has no rule".to_owned();
    };
    let packet = case.packet();
    let unmet = |condition: &&_| !is_met(ruleset, condition, &packet, sets);
    match rule.conditions.iter().find(unmet) {
        Some(condition) => format!("does not hold: {}", text::condition_text(condition)),
        None => "holds, but was not the one that decided".to_owned(),
    }
}
