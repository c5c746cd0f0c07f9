//! Ends a move from Redis: a server that follows a primary takes its place.
//!
//! For: `whered import redis --live`. Not for: following, which the server does (`[[replica]]`), and
//! not for the writers, which somebody else points at the new server.
//!
//! ```text
//! source ── INFO ──> history, offset        target ── INFO ──> the link with that history
//!   1. wait until the link is up              (a full synchronisation takes its time)
//!   2. CLIENT PAUSE milliseconds WRITE at the source
//!   3. wait until the target has the source's offset
//!   4. REPLICAOF NO ONE at the target: followed keys become its own
//! ```
//!
//! Invariant: the target is only promoted with everything that the source has taken, while the
//! source takes nothing more. If that is not reached within the pause, the pause is ended and
//! nothing has changed.

use std::time::{Duration, Instant};

use crate::error::ConnectError;
use crate::{Progress, Server, Stop};

/// How often both sides are asked.
const INTERVAL: Duration = Duration::from_millis(50);
/// What is left of the pause when the target has to be there at the latest.
const RESERVE: Duration = Duration::from_millis(500);
/// Behind by more bytes than this, the target is not near.
const NEAR_BYTES: i64 = 1 << 20;

/// How long things may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveOptions {
    /// How long the source takes no writes: the writers are pointed at the target meanwhile.
    pub pause: Duration,
    /// Until the target follows and is near.
    pub patience: Duration,
}

/// What was done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveSummary {
    /// The primary as the target knows it.
    pub primary: String,
    /// The offset of the source that the target has.
    pub offset: i64,
    /// From the beginning of the pause until the target was promoted.
    pub paused_for: Duration,
}

/// A primary's own account of its stream.
struct Source {
    history: String,
    offset: i64,
}

/// A link of the target.
struct Link {
    primary: String,
    is_up: bool,
    history: String,
    offset: i64,
    keys: u64,
}

/// Waits until the target has everything of the source, and promotes it.
///
/// # Errors
///
/// The source is no primary, the target does not follow it or is not near in time, one of both
/// refuses a command; the line says which. The source's pause is ended then.
pub fn take_over(
    source: &mut Server,
    target: &mut Server,
    options: LiveOptions,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<LiveSummary, ConnectError> {
    let stop = Stop::default();
    wait_until_near(source, target, options.patience, &stop, on_progress)?;
    let began = Instant::now();
    let milliseconds = options.pause.as_millis().to_string();
    source.command(&["CLIENT", "PAUSE", &milliseconds, "WRITE"])?;
    let ended = promote(source, target, began + options.pause.saturating_sub(RESERVE), &stop);
    match ended {
        Ok((link, offset)) => {
            Ok(LiveSummary { primary: link.primary, offset, paused_for: began.elapsed() })
        }
        Err(error) => {
            // The first error says more than one of this.
            let _ = source.command(&["CLIENT", "UNPAUSE"]);
            Err(error)
        }
    }
}

fn wait_until_near(
    source: &mut Server,
    target: &mut Server,
    patience: Duration,
    stop: &Stop,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<(), ConnectError> {
    let until = Instant::now() + patience;
    loop {
        let ahead = Source::of(source)?;
        let links = links(target)?;
        let link = links.iter().find(|link| link.history == ahead.history);
        if let Some(link) = link {
            let behind = (ahead.offset - link.offset).max(0);
            if link.is_up && behind < NEAR_BYTES {
                return Ok(());
            }
            let [done, total] = [link.offset, ahead.offset].map(|offset| offset.max(0) as u64);
            on_progress(Progress { done, total: Some(total), records: link.keys });
        }
        if links.is_empty() {
            return Err(ConnectError::new(format!(
                "{} follows nothing; allowed: a server with a [[replica]] of {}",
                target.name(),
                source.name()
            )));
        }
        if Instant::now() >= until {
            let what = match link {
                Some(_) => "is not up with what it follows",
                None => "does not follow this history",
            };
            return Err(ConnectError::new(format!(
                "{} {what} after {} s: {}",
                target.name(),
                patience.as_secs(),
                source.name()
            )));
        }
        stop.wait(INTERVAL);
    }
}

/// With the source paused: waits for its offset and promotes.
fn promote(
    source: &mut Server,
    target: &mut Server,
    until: Instant,
    stop: &Stop,
) -> Result<(Link, i64), ConnectError> {
    let ahead = Source::of(source)?;
    loop {
        let link = links(target)?.into_iter().find(|link| link.history == ahead.history);
        if let Some(link) = link.filter(|link| link.is_up && link.offset >= ahead.offset) {
            target.command(&["REPLICAOF", "NO", "ONE"])?;
            return Ok((link, ahead.offset));
        }
        if Instant::now() >= until {
            return Err(ConnectError::new(format!(
                "{} has not all of {} within the pause; nothing has changed",
                target.name(),
                source.name()
            )));
        }
        stop.wait(INTERVAL);
    }
}

impl Source {
    fn of(server: &mut Server) -> Result<Source, ConnectError> {
        let text = server.command(&["INFO", "replication"])?;
        if field(&text, "role") != Some("master") {
            let name = server.name();
            return Err(ConnectError::new(format!("{name} is a replica; allowed: its primary")));
        }
        let history = field(&text, "master_replid").map(str::to_owned);
        let offset = field(&text, "master_repl_offset").and_then(|offset| offset.parse().ok());
        match (history, offset) {
            (Some(history), Some(offset)) => Ok(Source { history, offset }),
            _ => Err(ConnectError::new(format!(
                "{} says nothing of its replication; allowed: a Redis or Valkey",
                server.name()
            ))),
        }
    }
}

/// The links of a server, one a line.
fn links(server: &mut Server) -> Result<Vec<Link>, ConnectError> {
    let text = server.command(&["INFO", "replication"])?;
    Ok(text.lines().filter_map(Link::parse).collect())
}

impl Link {
    /// `whered_replica0:of=...,primary=...,state=up,...`
    fn parse(line: &str) -> Option<Link> {
        let (name, fields) = line.trim_end().split_once(':')?;
        let number = name.strip_prefix("whered_replica")?;
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let of = |name: &str| {
            let value = |field: &str| Some(field.strip_prefix(name)?.strip_prefix('=')?.to_owned());
            fields.split(',').find_map(value)
        };
        Some(Link {
            primary: of("primary")?,
            is_up: of("state")? == "up",
            history: of("replid")?,
            offset: of("offset")?.parse().ok()?,
            keys: of("dump_keys")?.parse().ok()?,
        })
    }
}

fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim_end))
}
