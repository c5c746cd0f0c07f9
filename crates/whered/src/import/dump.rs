//! `whered import rdb FILE`: what was written, what was not, and the exit code.
//!
//! Not for: reading and writing, which are `whered-connect`'s.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};
use whered_connect::dump::{self, DumpOptions, DumpSource, DumpTally};

use super::Bar;
use crate::cli::ImportRdbArguments;
use crate::interrupt;
use crate::outcome::{Failure, Outcome, complain, say};
use crate::server::address;

/// Found if every key that was asked for, and can be here, is in the target whole.
pub(crate) fn rdb(arguments: &ImportRdbArguments) -> Result<Outcome, Failure> {
    // The target's password is not for the source.
    let mut server = arguments.server.open_by(&["WHERED_PASSWORD"])?;
    let options = DumpOptions {
        source: source_of(arguments)?,
        databases: arguments.db.iter().map(|number| number.unsigned_abs()).collect(),
        replace: arguments.replace,
    };
    let patterns = &arguments.patterns;
    let is_wanted = |key: &[u8]| {
        let matches = |pattern: &String| whered_server::key_matches(pattern.as_bytes(), key);
        patterns.is_empty() || patterns.iter().any(matches)
    };
    let tally = Arc::new(DumpTally::default());
    let at_signal = Arc::clone(&tally);
    interrupt::before_end(move || complain(&interrupted(&at_signal)));
    let bar = Bar::new("{wide_bar} {bytes} of {total_bytes}, {msg} keys, {eta} left");
    let loaded =
        dump::load(&mut server, &options, &is_wanted, &tally, &mut |progress| bar.show(progress));
    drop(bar);
    loaded.map_err(|error| Failure::Message(format!("{error}; {tally}")))?;
    say(arguments.json, &object_of(&tally), text_of(&tally).trim_end())?;
    Ok(if tally.refused() == 0 { Outcome::Found } else { Outcome::NotFound })
}

/// A server, if it has the form of a URL.
fn source_of(arguments: &ImportRdbArguments) -> Result<DumpSource, Failure> {
    let source = &arguments.source;
    if !source.contains("://") {
        return Ok(DumpSource::File(source.into()));
    }
    let file = arguments.source_password_file.as_deref();
    let address = address(source, file, &["REDISCLI_AUTH"])?;
    Ok(DumpSource::Server(address.with_tls(arguments.server.tls.read()?)))
}

/// The line that a signal leaves behind.
fn interrupted(tally: &DumpTally) -> String {
    match tally.open_key() {
        Some((database, key)) => {
            let key = key.escape_ascii();
            format!("interrupted; {tally}; key '{key}' of database {database} is not whole")
        }
        None => format!("interrupted; {tally}"),
    }
}

fn object_of(tally: &DumpTally) -> Value {
    let skipped = tally.skipped();
    let skipped: serde_json::Map<String, Value> =
        skipped.iter().map(|(kind, count)| (kind.to_string(), json!(count))).collect();
    let refused = tally.refused_keys();
    let refused = refused.iter().map(|refused| {
        json!({
            "database": refused.database,
            "key": refused.key.escape_ascii().to_string(),
            "message": refused.why,
        })
    });
    json!({
        "sorted_sets": tally.sorted_sets(),
        "members": tally.members(),
        "strings": tally.strings(),
        "expired": tally.expired(),
        "left_out": tally.left_out(),
        "refused": tally.refused(),
        "refused_keys": refused.collect::<Vec<Value>>(),
        "other_keys": skipped,
    })
}

fn text_of(tally: &DumpTally) -> String {
    let mut text = format!("{tally}\n");
    for refused in tally.refused_keys() {
        let key = refused.key.escape_ascii();
        // A text in memory takes whatever is written.
        let _ = writeln!(text, "database {}, {key}: {}", refused.database, refused.why);
    }
    let skipped = tally.skipped();
    if !skipped.is_empty() {
        let by_type: Vec<String> =
            skipped.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let _ = writeln!(text, "keys of other types left: {}", by_type.join(", "));
    }
    text
}
