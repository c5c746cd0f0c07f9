//! `whered import redis` and `whered import points`: bars, tables and exit codes.
//!
//! Not for: copying and reading, which are `whered-connect`'s.

pub(crate) mod dump;
pub(crate) mod flags;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
#[cfg(feature = "export")]
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use whered_connect::copy::{self, CopyOptions, CopySummary, KeyReport};
use whered_connect::live::{self, LiveOptions};
use whered_connect::points::{self, LoadOptions, LoadSummary, MemberChoice};
use whered_connect::{Progress, Server};

use crate::cli::{ImportPointsArguments, ImportRedisArguments};
#[cfg(feature = "export")]
use crate::enrich::parquet::spool;
#[cfg(feature = "export")]
use crate::import::flags::PointsFormat;
use crate::outcome::{Failure, Outcome, complain, say};
use crate::server;
use crate::terminal;

/// Keys that the table names even if all is well with them.
const KEYS_SHOWN: usize = 20;
/// Bad records that are told one by one.
const BAD_SHOWN: u64 = 10;
/// Until the target of `--live` has to be near its source.
const LIVE_PATIENCE: Duration = Duration::from_secs(3600);

/// A bar that is drawn some times a second on a terminal, and nowhere else.
struct Bar(ProgressBar);

impl Bar {
    fn new(template: &'static str) -> Bar {
        let bar = ProgressBar::with_draw_target(None, terminal::bars());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Bar(bar)
    }

    fn show(&self, progress: Progress) {
        if !self.0.is_hidden() {
            if let Some(total) = progress.total {
                self.0.set_length(total.max(progress.done));
            }
            self.0.set_message(progress.records.to_string());
            self.0.set_position(progress.done);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// `whered import redis URL`: found if everything that was to be copied is in the target whole.
pub(crate) fn redis(arguments: &ImportRedisArguments) -> Result<Outcome, Failure> {
    // The target's password is not for the source.
    let file = arguments.source_password_file.as_deref();
    let source = server::address(&arguments.source, file, &["REDISCLI_AUTH"])?;
    let source = source.with_tls(arguments.server.tls.read()?);
    let mut source = Server::connect(&source).map_err(Failure::new)?;
    let mut target = arguments.server.open_by(&["WHERED_PASSWORD"])?;
    if arguments.live {
        return take_over(&mut source, &mut target, arguments);
    }
    let options = CopyOptions {
        pattern: arguments.pattern.clone(),
        databases: arguments.db.clone(),
        all_sorted_sets: arguments.all_zsets,
        replace: arguments.replace,
        state_path: arguments.state_file.clone(),
        resume: arguments.resume,
    };
    let bar = Bar::new("{wide_bar} {pos} of {len} members, {msg} keys, {per_sec}, {eta} left");
    let copied = copy::copy(&mut source, &mut target, &options, &mut |progress| bar.show(progress));
    drop(bar);
    let copied = copied.map_err(Failure::new)?;
    if arguments.json {
        say(true, &object_of(&copied), "")?;
    } else {
        write!(io::stdout(), "{}{}", table(&copied.keys), others(&copied))?;
    }
    Ok(if copied.is_whole() { Outcome::Found } else { Outcome::NotFound })
}

/// `whered import redis URL --live`: found if the target has taken the source's place.
fn take_over(
    source: &mut Server,
    target: &mut Server,
    arguments: &ImportRedisArguments,
) -> Result<Outcome, Failure> {
    let pause = Duration::from_secs(arguments.pause_seconds);
    let options = LiveOptions { pause, patience: LIVE_PATIENCE };
    let bar = Bar::new("{wide_bar} {bytes} of {total_bytes} of the source's stream, {eta} left");
    let moved = live::take_over(source, target, options, &mut |progress| bar.show(progress));
    drop(bar);
    let moved = moved.map_err(Failure::new)?;
    let object = json!({
        "primary": moved.primary,
        "offset": moved.offset,
        "paused_seconds": moved.paused_for.as_secs_f64(),
    });
    let left = pause.saturating_sub(moved.paused_for).as_secs_f64();
    let text = format!(
        "{} has everything of {} (offset {}) and is a replica no more\n\
         the source takes no writes for another {left:.1} s: point the writers at the target, and \
         remove its [[replica]] before it starts again",
        target.name(),
        moved.primary,
        moved.offset
    );
    say(arguments.json, &object, &text)?;
    Ok(Outcome::Found)
}

/// What was copied, as JSON.
fn object_of(copied: &CopySummary) -> Value {
    let keys = copied.keys.iter().map(|report| {
        json!({
            "database": report.database,
            "collection": report.key.escape_ascii().to_string(),
            "source_count": report.source_count,
            "target_count": report.target_count,
            "copied": report.outcome == copy::Outcome::Copied && !report.is_mismatch(),
            "message": remark(report),
        })
    });
    let keys: Vec<Value> = keys.collect();
    json!({ "collections": keys, "other_keys": copied.others })
}

/// The line about keys of other types.
fn others(copied: &CopySummary) -> String {
    let Some(others) = &copied.others else {
        return "the source does not tell how many keys of other types it has\n".to_owned();
    };
    let all: u64 = others.values().sum();
    let by_type: Vec<String> =
        others.iter().map(|(of_type, count)| format!("{of_type} {count}")).collect();
    match all {
        0 => String::new(),
        1 => format!("1 key of another type left: {}\n", by_type.join(", ")),
        all => format!("{all} keys of other types left: {}\n", by_type.join(", ")),
    }
}

/// The keys that something is to be said of, and the sums.
fn table(reports: &[KeyReport]) -> String {
    let is_shown = |report: &&KeyReport| {
        reports.len() <= KEYS_SHOWN
            || report.is_mismatch()
            || report.outcome != copy::Outcome::Copied
    };
    let mut rows = vec![["db", "key", "source", "target", ""].map(str::to_owned)];
    for report in reports.iter().filter(is_shown) {
        rows.push([
            report.database.to_string(),
            report.key.escape_ascii().to_string(),
            report.source_count.to_string(),
            report.target_count.to_string(),
            remark(report),
        ]);
    }
    let copied = reports.iter().filter(|report| report.outcome == copy::Outcome::Copied);
    let (keys, source, target) = copied.fold((0, 0, 0), |(keys, source, target), report| {
        (keys + 1, source + report.source_count, target + report.target_count)
    });
    let mismatches = reports.iter().filter(|report| report.is_mismatch()).count();
    let remark = if mismatches == 0 { "equal".to_owned() } else { format!("{mismatches} differ") };
    let name = format!("{keys} keys copied");
    rows.push([String::new(), name, source.to_string(), target.to_string(), remark]);
    let mut widths = [0; 5];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count().min(60));
        }
    }
    let mut text = String::new();
    for [database, key, source, target, remark] in &rows {
        let [a, b, c, d, _] = widths;
        let line = format!("{database:>a$}  {key:<b$}  {source:>c$}  {target:>d$}  {remark}");
        // A text in memory takes whatever is written.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn remark(report: &KeyReport) -> String {
    match &report.outcome {
        copy::Outcome::Copied if report.is_mismatch() => "differs".to_owned(),
        copy::Outcome::Copied => "equal".to_owned(),
        copy::Outcome::WithoutExpiry => {
            "its expiry is not kept: the target has no PEXPIRE".to_owned()
        }
        copy::Outcome::NotCells { score, member } => {
            format!("skipped: no GEO key (score {score} of {member}); --all-zsets copies it")
        }
        copy::Outcome::Exists => "not copied: the target has such a key; --replace".to_owned(),
        copy::Outcome::Gone => "gone from the source meanwhile".to_owned(),
        copy::Outcome::Refused(what) => format!("not copied: {what}"),
    }
}

/// `whered import points FILE`: found if no record was bad.
pub(crate) fn points(arguments: &ImportPointsArguments) -> Result<Outcome, Failure> {
    let mut server = arguments.server.open()?;
    let options = LoadOptions {
        path: arguments.file.clone(),
        format: arguments.input_format.map(Into::into),
        key: arguments.key.clone().into_bytes(),
        longitude: arguments.longitude.clone(),
        latitude: arguments.latitude.clone(),
        geometry: arguments.geometry.clone(),
        delimiter: arguments.delimiter,
        member: arguments.member.clone(),
        tags: arguments.tag.clone(),
        strict: arguments.strict,
        spooled: spooled(arguments)?,
    };
    let bar = Bar::new("{wide_bar} {bytes} of {total_bytes}, {msg} records, {eta} left");
    let mut told = 0;
    let mut on_bad = |line: &str| {
        told += 1;
        match told {
            ..=BAD_SHOWN => bar.0.suspend(|| complain(line)),
            _ if told == BAD_SHOWN + 1 => {
                bar.0.suspend(|| complain("more bad records follow; they are only counted"));
            }
            _ => {}
        }
    };
    let loaded =
        points::load(&mut server, &options, &mut on_bad, &mut |progress| bar.show(progress));
    drop(bar);
    let loaded = loaded.map_err(Failure::new)?;
    let left_out = match loaded.left_out {
        0 => String::new(),
        count => format!(", {count} left out"),
    };
    let object = json!({
        "collection": arguments.key,
        "points": loaded.written,
        "new": loaded.added,
        "bad": loaded.bad,
        "left_out": loaded.left_out,
        "member": loaded.member,
        "repeated_members": loaded.repeated_members,
        "replaced": loaded.replaced,
    });
    let text = format!(
        "{}: {} points, {} of them new, {} bad{left_out}",
        arguments.key.escape_debug(),
        loaded.written,
        loaded.added,
        loaded.bad
    );
    say(arguments.json, &object, &text)?;
    if !arguments.json {
        write!(io::stdout(), "{}", repeats(&loaded))?;
    }
    Ok(if loaded.bad == 0 { Outcome::Found } else { Outcome::NotFound })
}

/// Standard input as a file, if it is Parquet.
#[cfg(feature = "export")]
fn spooled(arguments: &ImportPointsArguments) -> Result<Option<Arc<File>>, Failure> {
    let is_parquet = arguments.file == Path::new("-")
        && match arguments.input_format {
            Some(format) => format == PointsFormat::Parquet,
            None => spool::is_parquet_on_standard_input(),
        };
    Ok(if is_parquet { Some(Arc::new(spool::standard_input()?)) } else { None })
}

#[cfg(not(feature = "export"))]
fn spooled(_: &ImportPointsArguments) -> Result<Option<Arc<File>>, Failure> {
    Ok(None)
}

/// What is to be said of the members: those that came more than once, and what named them.
fn repeats(loaded: &LoadSummary) -> String {
    let LoadSummary { member, choice, repeated_members, replaced, repeats_are_part, .. } = loaded;
    let mut text = String::new();
    let why = match choice {
        MemberChoice::Usual => None,
        MemberChoice::Instead => Some("the usual one has values that repeat"),
        MemberChoice::Unusual => Some("none has a usual name"),
    };
    if let Some(why) = why {
        text.push_str(&format!("the member is {member}, since {why}; --member names another\n"));
    }
    if *replaced > 0 {
        let least = if *repeats_are_part { "at least " } else { "" };
        let by = if member.is_empty() { "the field of --member" } else { member };
        text.push_str(&format!(
            "{least}{repeated_members} members came more than once with another place, of which the last \
             is kept ({replaced} records replaced); the member is {by}, --member names another\n"
        ));
    }
    text
}
