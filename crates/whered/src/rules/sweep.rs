//! `whered match`: which rule each packet of a list meets.
//!
//! Not for: reading lines (`packets`), printing (`report`), matching (`whered-rules`).
//!
//! ```text
//! PacketSource ──up to 64──► Matcher::find_batch ──► Report
//! ```
//!
//! A wrong line is told at once (after a hundred they are counted) and ends nothing. Answers do not wait for packets that are not
//! there yet: a batch is also full when the source would have to wait.
//! Cost: compiling the rules takes up to half a second; memory does not grow with the input.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use whered_rules::classify::plan::Budget;
use whered_rules::compile::{BATCH, Matcher};
use whered_rules::naive::NoSets;
use whered_rules::normal::NoPlaces;
use whered_rules::{Packet, Ruleset};

use super::load::{self, Options};
use super::packets::{Item, Lines, PacketSource, Record};
use super::place::Places;
use super::report::{Counts, Report};
use crate::cli::MatchArguments;
use crate::enrich::progress::Progress;
use crate::outcome::{Failure, Outcome, complain};

/// How long a good form of the rules may be looked for.
const PLAN_TIME: Duration = Duration::from_millis(500);

/// How many wrong lines are told; a hostile input shall not become a hostile report.
const WRONG_TOLD_MAX: u64 = 100;

/// Matches everything. Failed if a line was no packet; the others are answered nevertheless.
pub(crate) fn run(arguments: &MatchArguments) -> Result<Outcome, Failure> {
    let options = Options {
        format: arguments.rules_format,
        chain: arguments.chain.as_deref(),
        table: arguments.table.as_deref(),
        skip_tables: arguments.skip_tables,
    };
    let standard = Path::new("-");
    let packets = arguments.packets.as_deref().unwrap_or(standard);
    if packets == standard && arguments.rules == standard {
        return Err(Failure::new("standard input cannot hold both rules and packets"));
    }
    let ruleset = match load::ruleset(&arguments.rules, options) {
        Ok(ruleset) => ruleset,
        Err(wrong) => return wrong.tell(),
    };
    if let Err(failed) = load::refuse_places(&ruleset) {
        return Ok(failed);
    }
    let start = Instant::now();
    let budget = Budget { time: PLAN_TIME, ..Budget::default() };
    let matcher = match Matcher::build(&ruleset, &NoPlaces, budget, &|| start.elapsed()) {
        Ok(matcher) => matcher,
        Err(error) => return load::Wrong::from(error).tell(),
    };
    load::tell_live_sets(&ruleset);
    let name = load::shown(packets);
    if packets == standard {
        let source = Lines::new(name, io::stdin().lock());
        return sweep(&ruleset, &matcher, source, None, arguments);
    }
    let fail = |error: io::Error| Failure::file(packets, error);
    let file = File::open(packets).map_err(fail)?;
    let about = file.metadata().map_err(fail)?;
    let size_bytes = about.is_file().then_some(about.len());
    sweep(&ruleset, &matcher, Lines::new(name, file), size_bytes, arguments)
}

fn sweep(
    ruleset: &Ruleset,
    matcher: &Matcher,
    mut source: impl PacketSource,
    size_bytes: Option<u64>,
    arguments: &MatchArguments,
) -> Result<Outcome, Failure> {
    let places = Places::new(ruleset);
    let counts = arguments.summary.then(|| Counts::new(ruleset.rules().len()));
    let mut report = Report { places: &places, format: arguments.format, counts };
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    // Lines on the same terminal would tear the bar.
    let has_bar = arguments.summary || !io::stdout().is_terminal();
    let progress = has_bar.then(|| Progress::new(size_bytes));
    let mut batch: Vec<Record> = Vec::with_capacity(BATCH);
    let (mut packets, mut wrong) = (0, 0u64);
    report.begin(&mut out)?;
    while let Some(item) = source.next()? {
        match item {
            Item::Packet(record) => batch.push(record),
            Item::Wrong(what) => {
                wrong += 1;
                match wrong {
                    ..=WRONG_TOLD_MAX => complain(&what),
                    _ if wrong == WRONG_TOLD_MAX + 1 => {
                        complain("more lines are no packets; they are only counted");
                    }
                    _ => {}
                }
            }
        }
        let waits = source.may_wait();
        if batch.len() == BATCH || waits {
            packets += batch.len() as u64;
            answer(matcher, &mut report, &mut batch, &mut out)?;
            if let Some(progress) = &progress {
                progress.set(source.read_bytes(), packets);
            }
            if waits {
                out.flush()?;
            }
        }
    }
    answer(matcher, &mut report, &mut batch, &mut out)?;
    drop(progress);
    report.end(&mut out)?;
    out.flush()?;
    if wrong > WRONG_TOLD_MAX {
        complain(&format!("{wrong} lines were no packets"));
    }
    Ok(if wrong == 0 { Outcome::Found } else { Outcome::Failed })
}

/// Matches what has come together, and empties it.
fn answer(
    matcher: &Matcher,
    report: &mut Report<'_>,
    batch: &mut Vec<Record>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let packets: Vec<Packet<'_>> = batch.iter().map(Record::packet).collect();
    let outcomes = matcher.find_batch(&packets, &NoSets);
    for ((record, packet), outcome) in batch.iter().zip(&packets).zip(&outcomes) {
        report.packet(record.number, packet, outcome, out)?;
    }
    batch.clear();
    Ok(())
}
