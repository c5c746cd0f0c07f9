//! `whered rules compile`: rules as an nftables program with few lookups per packet.
//!
//! Not for: planning (`whered_rules::flat`), loading.

use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};
use whered_rules::flat::{ChainPlan, Options, Plan, Program, Segment, SegmentKind, compile};
use whered_rules::{RuleId, Ruleset};

use super::load;
use crate::cli::RulesCompileArguments;
use crate::enrich::output::write_whole;
use crate::outcome::{Failure, Outcome, complain};

/// Compiles all or nothing. The program goes to a file or standard output, the plan to the latter.
pub(crate) fn run(arguments: &RulesCompileArguments) -> Result<Outcome, Failure> {
    let ruleset = match load::file_or_live(arguments.file.as_deref(), (&arguments.read).into()) {
        Ok(ruleset) => ruleset,
        Err(wrong) => return wrong.tell(),
    };
    let places = load::places(&arguments.db)?;
    if let Err(failed) = load::refuse_places(&ruleset, &places) {
        return Ok(failed);
    }
    tell_live_sets(&ruleset, &arguments.name);
    let options = Options { table: &arguments.name, counters: arguments.counters };
    let Program { text, plan } = match compile(&ruleset, &places, options) {
        Ok(program) => program,
        Err(error) => return load::Wrong::from(error).tell(),
    };
    plan.warnings().iter().for_each(|warning| complain(warning));
    let is_explained = arguments.explain || arguments.json;
    if arguments.output.is_some() || !is_explained {
        write_whole(arguments.output.as_deref(), text.as_bytes())?;
    }
    if is_explained {
        let mut out = BufWriter::new(io::stdout().lock());
        match arguments.json {
            true => writeln!(out, "{}", object_of(&plan, &ruleset))?,
            false => write!(out, "{}", plan.shown(&ruleset))?,
        }
        out.flush()?;
    }
    Ok(Outcome::Found)
}

/// Live sets begin empty; another command fills them.
pub(super) fn tell_live_sets(ruleset: &Ruleset, table: &str) {
    for name in load::live_sets(ruleset) {
        let file = &ruleset.chain(ruleset.entry()).origin.file;
        complain(&format!(
            "{file}: set {name:?} is live; it is empty in table {table} until whered sync fills it"
        ));
    }
}

/// The plan as JSON.
fn object_of(plan: &Plan, ruleset: &Ruleset) -> Value {
    let origins = |rules: &[RuleId]| -> Vec<String> {
        rules.iter().map(|&id| ruleset.rule(id).origin.to_string()).collect()
    };
    let segment = |segment: &Segment| {
        let kind = match segment.kind {
            SegmentKind::Exact => "exact",
            SegmentKind::Interval => "interval",
            SegmentKind::Concatenation => "concatenation",
            SegmentKind::Linear => "linear",
        };
        json!({
            "kind": kind,
            "key": segment.key,
            "elements": segment.elements,
            "reason": segment.reason,
            "nanoseconds": segment.nanoseconds.round(),
            "rules": origins(&segment.rules),
        })
    };
    let chain = |chain: &ChainPlan| {
        json!({
            "name": chain.name,
            "rules": chain.rules(),
            "lookups": chain.lookups(),
            "linear_rules": chain.linear_rules(),
            "nanoseconds": chain.nanoseconds().round(),
            "linear_nanoseconds": chain.linear_nanoseconds().round(),
            "segments": chain.segments.iter().map(segment).collect::<Vec<_>>(),
            "hidden": origins(&chain.hidden),
        })
    };
    json!({ "chains": plan.chains.iter().map(chain).collect::<Vec<_>>() })
}
