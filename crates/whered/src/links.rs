//! The sinks and streams of a running server: their threads, what they log, and what feeds show.
//!
//! For: `whered serve`. Not for: SQL and Redis, which are `whered-connect`'s.
//!
//! ```text
//! configuration ─> [stream-FEED-NAME] ─> spool of the feed
//!                  tables of the feed ─> [sink-FEED-NAME] ─> SQL server
//! ```
//!
//! Invariants: a fault is told once, and that it is over is told as well; a feed whose sink has
//! rows to take over applies no upload before those rows are there. Changes of the configuration
//! need a restart.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use whered_connect::Stop;
use whered_engine::Engine;
use whered_engine::feeds::{Feed, LinkStatus};
use whered_server::{Config, SinkConfig, StartLinks, StreamConfig};

use crate::outcome::Failure;
use sinks::target;
use streams::source;

/// How long a stop waits for statements that are under way; what they would have written comes with
/// the next start.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// The threads of all sinks and streams.
#[derive(Default)]
pub(crate) struct Links {
    stop: Arc<Stop>,
    ended: Vec<Receiver<()>>,
}

impl Links {
    /// Checks the sinks and streams of a configuration.
    ///
    /// # Errors
    /// One line that names the feed.
    pub(crate) fn check(config: &Config) -> Result<(), Failure> {
        for feed in &config.feeds {
            let name = &feed.name;
            let wrong = |kind: &str, of: &str, error: Failure| match error {
                Failure::Message(why) => {
                    let at = config.location_of(&format!("feed.{name}.{kind}.{of}"));
                    let at = at.map_or(String::new(), |at| format!("{at}: "));
                    Failure::Message(format!("{at}feed '{name}': {why}"))
                }
                other => other,
            };
            for sink in &feed.sinks {
                target(sink).map(drop).map_err(|error| wrong("sink", &sink.name, error))?;
            }
            for stream in &feed.streams {
                source(stream).map(drop).map_err(|error| wrong("stream", &stream.name, error))?;
            }
        }
        Ok(())
    }

    /// Starts a thread for each.
    ///
    /// # Errors
    /// A URL that is none, a table that the feed does not have, the folder of sinks cannot be
    /// written.
    pub(crate) fn start(config: &Config, engine: &Arc<Engine>) -> Result<Links, Failure> {
        let mut links = Links::default();
        for configured in &config.feeds {
            let Some(feed) = engine.feeds().get(&configured.name) else { continue };
            for sink in &configured.sinks {
                links.start_sink(engine, feed, sink, config.data_dir.as_deref())?;
            }
            for stream in &configured.streams {
                links.start_stream(feed, stream, config.data_dir.as_deref())?;
            }
        }
        Ok(links)
    }

    /// Ends them, and waits a while for what they are at.
    pub(crate) fn stop(self) {
        self.stop.stop();
        let end = Instant::now() + STOP_WAIT;
        for ended in self.ended {
            // The sender is dropped with its thread.
            let _ = ended.recv_timeout(end.saturating_duration_since(Instant::now()));
        }
    }

    fn spawn(
        &mut self,
        name: String,
        work: impl FnOnce(&Stop) + Send + 'static,
    ) -> Result<(), Failure> {
        let (alive, ended): (Sender<()>, _) = mpsc::channel();
        let stop = Arc::clone(&self.stop);
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            work(&stop);
            drop(alive);
        });
        thread.map_err(Failure::new)?;
        self.ended.push(ended);
        Ok(())
    }
}

/// How a server starts the links of its configuration.
pub(crate) fn starter() -> StartLinks {
    Arc::new(|config, engine| {
        let links = Links::start(config, engine).map_err(|failure| match failure {
            Failure::Message(why) => why,
            Failure::ClosedPipe => "standard output is closed".to_owned(),
        })?;
        // Only one thread stops them; the server wants what it holds to be shared all the same.
        let links = Mutex::new(links);
        Ok(Box::new(move || links.into_inner().unwrap_or_else(PoisonError::into_inner).stop()))
    })
}

/// Puts a link's word on its feed's board, and into the log when it begins or ends to be a fault.
struct Board {
    feed: Arc<Feed>,
    said: Mutex<Option<String>>,
}

impl Board {
    fn new(feed: &Arc<Feed>) -> Board {
        Board { feed: Arc::clone(feed), said: Mutex::default() }
    }

    fn tell(&self, status: LinkStatus) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if *said != status.error {
            let (feed, kind, name) = (self.feed.name(), &status.kind, &status.name);
            match &status.error {
                Some(why) => {
                    tracing::warn!("feed '{feed}', {kind} '{name}', {}: {why}", status.state);
                }
                None => tracing::info!("feed '{feed}', {kind} '{name}': {} again", status.state),
            }
            said.clone_from(&status.error);
        }
        self.feed.report_link(status);
    }
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod sinks {
    use whered_connect::feed::FeedTables;
    use whered_connect::sinks::{Sink, SinkMemory, SinkOptions, SinkState, SinkStatus, Target};

    use super::*;

    pub(super) fn target(sink: &SinkConfig) -> Result<Target, Failure> {
        Target::parse(&sink.url).map_err(Failure::new)
    }

    impl Links {
        pub(super) fn start_sink(
            &mut self,
            engine: &Arc<Engine>,
            feed: &Arc<Feed>,
            sink: &SinkConfig,
            data_dir: Option<&Path>,
        ) -> Result<(), Failure> {
            let target = target(sink)?;
            let tables = FeedTables::new(engine, feed, &sink.tables).map_err(Failure::new)?;
            let memory = match data_dir {
                Some(folder) => SinkMemory::open(folder, feed.name(), &sink.name),
                None => Ok(SinkMemory::none()),
            };
            let memory = memory.map_err(Failure::new)?;
            let options = SinkOptions { name: sink.name.clone(), target, adopt: sink.adopt };
            let (board, feed) = (Board::new(feed), Arc::clone(feed));
            let (held, is_held) = mpsc::channel();
            self.spawn(format!("sink-{}-{}", feed.name(), sink.name), move |stop| {
                let may_adopt = options.adopt && !memory.is_adopted();
                let mut hold = may_adopt.then(|| feed.hold());
                // Whoever waits has gone only if the program ends.
                let _ = held.send(());
                let name = options.name.clone();
                let mut report = |status: &SinkStatus| {
                    if matches!(status.state, SinkState::Connected | SinkState::Stopped) {
                        hold = None;
                    }
                    board.tell(link(&name, status));
                };
                Sink::new(options, &tables, memory, stop, &mut report).run();
            })?;
            // The feed's own thread starts after this.
            let _ = is_held.recv();
            Ok(())
        }
    }

    fn link(name: &str, status: &SinkStatus) -> LinkStatus {
        let left_out = || status.left_out_why.as_ref().map(|why| format!("left out: {why}"));
        LinkStatus {
            name: name.to_owned(),
            kind: "sink".to_owned(),
            state: status.state.name().to_owned(),
            error: status.error.clone().or_else(left_out),
            batch: status.batch,
            rows: status.rows,
            left_out: status.left_out,
            missing: 0,
            retry_in_millis: u64::try_from(status.retry_in.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

#[cfg(not(any(feature = "mysql", feature = "postgres")))]
mod sinks {
    use super::*;

    pub(super) fn target(sink: &SinkConfig) -> Result<(), Failure> {
        let name = &sink.name;
        Err(Failure::Message(format!(
            "sink '{name}': this program is built without mysql and postgres"
        )))
    }

    impl Links {
        pub(super) fn start_sink(
            &mut self,
            _engine: &Arc<Engine>,
            _feed: &Arc<Feed>,
            sink: &SinkConfig,
            _data_dir: Option<&Path>,
        ) -> Result<(), Failure> {
            target(sink)
        }
    }
}

#[cfg(feature = "streams")]
mod streams {
    use whered_connect::feed::FeedIntake;
    use whered_connect::streams::{Consumer, RedisStream, StreamMemory, StreamStatus};

    use super::*;

    pub(super) fn source(stream: &StreamConfig) -> Result<RedisStream, Failure> {
        let StreamConfig { name, url, stream, field, from_start, .. } = stream;
        RedisStream::new(name, url, stream, field, *from_start).map_err(Failure::new)
    }

    impl Links {
        pub(super) fn start_stream(
            &mut self,
            feed: &Arc<Feed>,
            stream: &StreamConfig,
            data_dir: Option<&Path>,
        ) -> Result<(), Failure> {
            let memory =
                data_dir.map(|folder| StreamMemory::open(folder, feed.name(), &stream.name));
            let memory = memory.transpose().map_err(Failure::new)?.unwrap_or_default();
            let (name, joins) = (stream.name.clone(), stream.join);
            let (source, intake, board) =
                (source(stream)?, FeedIntake::new(feed), Board::new(feed));
            self.spawn(format!("stream-{}-{name}", feed.name()), move |stop| {
                let mut report = |status: &StreamStatus| board.tell(link(&name, status));
                let consumer = Consumer::new(source, &intake, joins, stop, &mut report);
                consumer.with_memory(memory).run();
            })
        }
    }

    fn link(name: &str, status: &StreamStatus) -> LinkStatus {
        let passed_over =
            || status.passed_over_why.as_ref().map(|why| format!("passed over: {why}"));
        let error = status.error.clone().or_else(|| status.gap.clone()).or_else(passed_over);
        LinkStatus {
            name: name.to_owned(),
            kind: "stream".to_owned(),
            state: status.state.name().to_owned(),
            error,
            batch: 0,
            rows: status.entries,
            left_out: status.passed_over,
            missing: status.missing,
            retry_in_millis: u64::try_from(status.retry_in.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

#[cfg(not(feature = "streams"))]
mod streams {
    use super::*;

    pub(super) fn source(stream: &StreamConfig) -> Result<(), Failure> {
        let name = &stream.name;
        Err(Failure::Message(format!("stream '{name}': this program is built without streams")))
    }

    impl Links {
        pub(super) fn start_stream(
            &mut self,
            _feed: &Arc<Feed>,
            stream: &StreamConfig,
            _data_dir: Option<&Path>,
        ) -> Result<(), Failure> {
            source(stream)
        }
    }
}
