//! The log of `whered serve`: its level, its form, and what a line begins with.
//!
//! ```text
//! terminal, file    2026-11-27T07:43:44.450221Z  INFO text      colours on a terminal
//! journald          <6>text                                      it has time and priority itself
//! format = "json"   {"timestamp":...,"level":"INFO","message":"text","target":"..."}
//! ```
//! Not for: what is logged. `RUST_LOG` goes before `[log] level`, also at a reload.

use std::env;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};
use whered_server::{LogConfig, LogFormat, LogLevel};

use crate::outcome::Failure;
use crate::terminal;

/// Directives of `tracing`, such as `info,whered_server::http=debug`.
const RUST_LOG: &str = "RUST_LOG";
/// The crates whose level is configured; those of others tell no more than `info`.
const OWN: [&str; 5] =
    ["whered", "whered_server", "whered_engine", "whered_connect", "whered_store"];
/// What the service manager sets where a stream goes to its journal: device and inode.
const JOURNAL_STREAM: &str = "JOURNAL_STREAM";

/// The running log.
pub(crate) struct Log {
    filter: reload::Handle<EnvFilter, Registry>,
}

impl Log {
    /// Starts writing to standard error. To be called once.
    ///
    /// # Errors
    /// `RUST_LOG` is no filter.
    pub(crate) fn start(config: LogConfig) -> Result<Log, Failure> {
        let (filter, handle) = reload::Layer::new(filter(config.level)?);
        let (is_json, for_journal) = (config.format == LogFormat::Json, goes_to_journal());
        let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr);
        let layer = match (is_json, for_journal) {
            (false, false) => layer.with_ansi(terminal::has_colours()).with_target(false).boxed(),
            (false, true) => {
                let text = Format::default().without_time().with_level(false).with_target(false);
                layer.with_ansi(false).event_format(PriorityFormat(text)).boxed()
            }
            (true, false) => layer.json().flatten_event(true).with_ansi(false).boxed(),
            (true, true) => {
                let layer = layer.json().with_ansi(false);
                let json = Format::default().json().flatten_event(true).without_time();
                layer.event_format(PriorityFormat(json)).boxed()
            }
        };
        tracing_subscriber::registry().with(filter).with(layer).init();
        Ok(Log { filter: handle })
    }

    /// Takes the level of a configuration that was read anew.
    ///
    /// # Errors
    /// As [`Log::start`].
    pub(crate) fn take(&self, config: LogConfig) -> Result<(), Failure> {
        self.filter.reload(filter(config.level)?).map_err(Failure::new)
    }
}

/// Checks `RUST_LOG`.
///
/// # Errors
/// One line with what was found and what is allowed.
pub(crate) fn check() -> Result<(), Failure> {
    filter(LogLevel::default()).map(drop)
}

fn filter(level: LogLevel) -> Result<EnvFilter, Failure> {
    let Some(directives) = env::var_os(RUST_LOG).filter(|text| !text.is_empty()) else {
        return Ok(EnvFilter::new(directives_of(level)));
    };
    let text = directives.to_string_lossy();
    let wrong = |error: &dyn fmt::Display| {
        Failure::Message(format!(
            "{RUST_LOG} is '{text}' ({error}); allowed: levels (off, error, warn, info, debug, \
             trace) and directives such as whered_server=debug"
        ))
    };
    // A word that is no level would be the name of a crate, and nothing be written.
    let is_level = |word: &str| word.parse::<tracing::level_filters::LevelFilter>().is_ok();
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let is_name = |word: &&str| word.starts_with("whered") || word.contains(['=', '[', ':']);
    if let Some(odd) = words.clone().find(|word| !is_level(word) && !is_name(word)) {
        return Err(wrong(&format_args!("'{odd}' is neither")));
    }
    EnvFilter::try_new(&*text).map_err(|error| wrong(&error))
}

/// The filter of a level.
fn directives_of(level: LogLevel) -> String {
    let level = level.name();
    let others = if matches!(level, "debug" | "trace") { "info" } else { level };
    let own = OWN.map(|name| format!("{name}={level}")).join(",");
    format!("{others},{own}")
}

/// Whether standard error is the stream that the service manager has connected to its journal.
fn goes_to_journal() -> bool {
    let Ok(named) = env::var(JOURNAL_STREAM) else { return false };
    let Ok(stderr) = io::stderr().as_fd().try_clone_to_owned() else { return false };
    let Ok(found) = File::from(stderr).metadata() else { return false };
    named == format!("{}:{}", found.dev(), found.ino())
}

/// Lines that begin with their priority, as `sd-daemon(3)` has it.
struct PriorityFormat<F>(F);

impl<S, N, F> FormatEvent<S, N> for PriorityFormat<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// The priority of syslog.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_that_of_our_crates_and_others_tell_no_more_than_info() {
        assert_eq!(
            directives_of(LogLevel::Debug),
            "info,whered=debug,whered_server=debug,whered_engine=debug,whered_connect=debug,\
             whered_store=debug"
        );
        assert!(directives_of(LogLevel::Warn).starts_with("warn,whered=warn,"));
        assert!(directives_of(LogLevel::Off).starts_with("off,whered=off,"));
    }
}
