//! Rulesets like ClassBench's, of our own generator and of its own, beside rivals.
//!
//! Not for: the proportions themselves (`rules::Proportions`, which each table's note states).

use super::rounds::{Engine, Table, repeated, run};
use super::{Options, Rivals};
use crate::measure::{weighed, weighed_group};
use crate::rules::{FiveTuple, Proportions, Shape, generate, lower, packets, read_classbench};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use whered_rules::classify::plan::{Budget, Planner};
use whered_rules::classify::{Compiled, Matched, NO_RULE, Packet, scan};

/// Packets of a batch.
const BATCH: usize = 64;
/// From how many rules on a further plan is looked for.
const PLANNED_RULES: usize = 10_000;
/// Past this number of rules, rivals are not built: rte_acl takes minutes and gigabytes.
const RIVAL_RULES: usize = 20_000;
/// How many packets are held against a scan.
const SCANNED: usize = 500;

/// A ruleset of our generator.
pub(super) fn generated(
    options: &Options,
    rivals: &dyn Rivals,
    shape: Shape,
    count: usize,
) -> Result<Table, String> {
    measure(options, rivals, &generate(shape, count, options.seed))
}

/// A file of ClassBench's.
pub(super) fn real(options: &Options, rivals: &dyn Rivals, path: &Path) -> Result<Table, String> {
    let wrong = |what: String| format!("{}: {what}", path.display());
    let bytes = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let mut text = String::new();
    let mut unpacked = flate2::read::GzDecoder::new(bytes.as_slice());
    std::io::Read::read_to_string(&mut unpacked, &mut text)
        .map_err(|error| wrong(error.to_string()))?;
    let rules = read_classbench(&text).map_err(|line| wrong(format!("line {line} is no rule")))?;
    measure(options, rivals, &rules)
}

/// The files of a folder, by name; none where there is no such folder.
pub(super) fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(".rules.gz")?.replace('_', "-");
        Some((name, path))
    };
    let mut files: Vec<_> = entries.filter_map(|entry| named(entry.path())).collect();
    files.sort();
    files
}

fn measure(options: &Options, rivals: &dyn Rivals, rules: &[FiveTuple]) -> Result<Table, String> {
    let lowered = lower(rules).map_err(|error| error.to_string())?;
    let packets = packets(&lowered, options.packets, options.seed);
    let epoch = Instant::now();
    let clock = || epoch.elapsed();
    let is_large = rules.len() > RIVAL_RULES;
    let time = Duration::from_secs(if is_large { 10 } else { 2 });
    let mut planner = Planner::new(lowered, Budget { time, ..Budget::default() }, &clock);
    let mut facts = vec![("built seconds".to_owned(), epoch.elapsed().as_secs_f64())];
    let first = Arc::clone(planner.compiled());
    let mut note = format!("{}\n\nBuilt: {}", Proportions::of(rules), planner.info());
    let is_planned = rules.len() >= PLANNED_RULES && !is_large && options.plan_seconds > 0;
    if is_planned {
        let start = epoch.elapsed();
        planner.plan_more(Duration::from_secs(options.plan_seconds), &clock);
        facts.push(("planned seconds".to_owned(), (epoch.elapsed() - start).as_secs_f64()));
        note.push_str(&format!("\n\nPlanned further: {}", planner.info()));
    }
    check_by_scan(&first, &packets)?;
    let mut engines = ours(&first, &packets, "");
    if is_planned {
        engines.extend(ours(planner.compiled(), &packets, ", planned"));
    }
    if !is_large {
        engines.extend(rivals.of_rules(rules, &packets)?);
    }
    let rows = run(&mut engines, &repeated(packets.len(), options.rounds))?;
    Ok(Table { note, entries: rules.len(), facts, rows, ..Table::default() })
}

/// Holds the first packets against the scan.
pub(super) fn check_by_scan(compiled: &Compiled, packets: &[Packet]) -> Result<(), String> {
    let mut met = Vec::new();
    for (place, packet) in packets.iter().take(SCANNED).enumerate() {
        if compiled.find(packet, &mut met) != scan(compiled.rules().list(), packet).rule {
            return Err(format!("packet {place}: the classifier and the scan differ"));
        }
    }
    Ok(())
}

/// The classifier in batches and one at a time. Answers are the rule's place plus one, or zero.
pub(super) fn ours<'a>(
    compiled: &Arc<Compiled>,
    packets: &'a [Packet],
    suffix: &str,
) -> Vec<Engine<'a>> {
    let bytes = compiled.memory_bytes();
    let (in_batches, singly) = (Arc::clone(compiled), Arc::clone(compiled));
    let (mut answers, mut met) = ([0; BATCH], Matched::default());
    let batch = Engine::new(format!("whered batch{suffix}"), bytes, move |part: Range<usize>| {
        let mut sum = 0;
        for (group, packets) in packets[part].chunks(BATCH).enumerate() {
            let answers = &mut answers[..packets.len()];
            in_batches.find_batch(packets, answers, &mut met);
            answers.iter_mut().for_each(|answer| *answer = answer.wrapping_add(1));
            sum = weighed_group(sum, group * BATCH, answers);
        }
        sum
    });
    let mut none = Vec::new();
    let single = Engine::new(format!("whered single{suffix}"), bytes, move |part: Range<usize>| {
        let each = packets[part].iter().enumerate();
        each.fold(0, |sum, (place, packet)| {
            let answer = singly.find(packet, &mut none).unwrap_or(NO_RULE);
            weighed(sum, place, answer.wrapping_add(1))
        })
    });
    vec![batch, single]
}
