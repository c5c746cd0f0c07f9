//! Ends a move from Redis: a server that follows a primary takes its place.
//!
//! For: `whered import redis --live`. Not for: following, which the server does (`[[replica]]`), and
//! not for the writers, which somebody else points at the new server.
//!
//! ```text
//! source ── INFO ──> history, offset        target ── INFO ──> its links, all of that history
//!   1. wait until all links are up            (a full synchronisation takes its time)
//!   2. CLIENT PAUSE milliseconds WRITE at the source
//!   3. wait until the target has the source's offset
//!   4. REPLICAOF NO ONE at the target: the followed keys of all links become its own
//! ```
//!
//! Invariant: the target is only promoted with everything that the source has taken, while the
//! source takes nothing more. If that is not reached within the pause, the pause is ended and
//! nothing has changed. A target with a link to something else is refused, as step 4 ends that
//! link too.

use std::time::{Duration, Instant};

use crate::error::ConnectError;
use crate::{Progress, Server, Stop};

/// How often both sides are asked.
const INTERVAL: Duration = Duration::from_millis(50);
/// The target has to be there this long before the end of the pause.
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

/// Result of a takeover.
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
/// The source is no primary, the target does not follow it, follows something else too or is not
/// near in time, one of both refuses a command; the line says which. The source's pause is ended
/// then.
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
        if links.is_empty() {
            return Err(ConnectError::new(format!(
                "{} follows nothing; allowed: a server with a [[replica]] of {}",
                target.name(),
                source.name()
            )));
        }
        refuse_others(&ahead, &links, source, target)?;
        if ahead.has_reached(&links, NEAR_BYTES - 1) {
            return Ok(());
        }
        let is_followed = links.iter().any(|link| link.history == ahead.history);
        if is_followed {
            let slowest = links.iter().map(|link| link.offset).min().unwrap_or(0);
            let [done, total] = [slowest, ahead.offset].map(|offset| offset.max(0) as u64);
            let records = links.iter().map(|link| link.keys).sum();
            on_progress(Progress { done, total: Some(total), records });
        }
        if Instant::now() >= until {
            let what = match is_followed {
                true => "is not up with what it follows",
                false => "does not follow this history",
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
        let links = links(target)?;
        refuse_others(&ahead, &links, source, target)?;
        if ahead.has_reached(&links, 0)
            && let Some(link) = links.into_iter().next()
        {
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

/// A link that is up with something else would end too, without all of what it follows.
fn refuse_others(
    ahead: &Source,
    links: &[Link],
    source: &Server,
    target: &Server,
) -> Result<(), ConnectError> {
    match ahead.other_link(links) {
        None => Ok(()),
        Some(other) => Err(ConnectError::new(format!(
            "{} also follows {} with another history, which would end too; allowed: links to {} \
             alone",
            target.name(),
            other.primary,
            source.name()
        ))),
    }
}

impl Source {
    /// Whether all links, of which there are some, are up with this history and behind by at most
    /// this number of bytes.
    fn has_reached(&self, links: &[Link], behind: i64) -> bool {
        let is_near = |link: &Link| {
            let is_same = link.is_up && link.history == self.history;
            is_same && self.offset.saturating_sub(link.offset) <= behind
        };
        !links.is_empty() && links.iter().all(is_near)
    }

    /// A link that is up with another history. (Of one that is not up, that may still change.)
    fn other_link<'l>(&self, links: &'l [Link]) -> Option<&'l Link> {
        links.iter().find(|link| link.is_up && link.history != self.history)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn link(state: &str, history: &str, offset: i64) -> Link {
        let line = format!(
            "whered_replica0:of=redis://a,primary=a:1,state={state},replid={history},\
             offset={offset},dump_keys=3,error="
        );
        Link::parse(&line).expect("the line of a link")
    }

    fn source() -> Source {
        Source { history: "h".to_owned(), offset: 100 }
    }

    #[test]
    fn the_target_is_there_only_when_every_link_is_up_with_the_sources_offset() {
        let there = || link("up", "h", 100);
        assert!(source().has_reached(&[there()], 0));
        assert!(source().has_reached(&[there(), link("up", "h", 101)], 0));
        for late in [
            link("up", "h", 99),
            link("synchronizing", "h", 100),
            link("down", "h", 100),
            link("up", "other", 100),
            link("connecting", "", -1),
        ] {
            assert!(!source().has_reached(&[there(), late], 0));
        }
        assert!(!source().has_reached(&[], 0));
        assert!(source().has_reached(&[there(), link("up", "h", 99)], 1));
    }

    #[test]
    fn a_link_that_is_up_with_another_history_is_seen_wherever_it_stands() {
        let (same, other) = (|| link("up", "h", 7), || link("up", "other", 7));
        assert!(source().other_link(&[same(), other()]).is_some());
        assert!(source().other_link(&[other(), same()]).is_some());
        assert!(source().other_link(&[same(), link("down", "other", 7)]).is_none());
        assert!(source().other_link(&[same(), same()]).is_none());
    }
}
