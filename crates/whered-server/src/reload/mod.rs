//! Databases and rulesets follow their files: a thread that watches, and one that builds.
//!
//! Not for: SIGHUP (the program asks [`crate::Server::reload`]), nor for reading files (the engine
//! opens and verifies them). Lookups know nothing of this: they take the generation that serves.
//!
//! ```text
//! inotify ──event──┐                       ┌── name ──> builder (lowest priority)
//!                  ├─> watcher: stat, wait ┤                │ engine.reload_database, _ruleset
//! clock ───tick────┘   until it is quiet   └── outcome <────┘
//! ```
//!
//! `notify`: an event in any folder on the way to a file ([`folders`]) makes the watcher look, and
//! it looks every ten seconds besides, since not every file system tells. `poll`: it looks once a
//! second. A look is one `stat` for each database. A state that is new is tried when it has been
//! the same for a while ([`candidate`]).
//!
//! Concurrency: one load at a time; the builder shares the cores with the listeners and gives way.

mod candidate;
mod folders;
mod priority;
mod remarks;
mod watcher;

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{Builder, JoinHandle};

use whered_engine::{Engine, ReloadFailure};

pub(crate) use priority::lower as lower_priority;
pub(crate) use priority::with_lowest_priority;
use remarks::remark_on_ruleset;
pub(crate) use remarks::remark_on_rulesets;

/// What follows a file; names of each kind are told apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Database(String),
    Ruleset(String),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Database(name) => write!(f, "database '{name}'"),
            Name::Ruleset(name) => write!(f, "ruleset '{name}'"),
        }
    }
}

/// What the watcher is told.
enum Message {
    /// Something happened in a watched folder.
    Changed,
    /// The configuration was reloaded.
    Configured,
    /// The builder is done.
    Built { name: Name, outcome: Result<u64, ReloadFailure> },
    /// The server stops.
    Stop,
}

/// Loads a database or a ruleset. A panic, which no file should lead to, costs this load only.
fn build(engine: &Engine, name: &Name) -> Result<u64, ReloadFailure> {
    let load = AssertUnwindSafe(|| match name {
        Name::Database(name) => engine.reload_database(name),
        Name::Ruleset(name) => {
            let loaded = engine.reload_ruleset(name)?;
            engine.generation().ruleset(name).iter().for_each(|named| remark_on_ruleset(named));
            Ok(loaded)
        }
    });
    catch_unwind(load).unwrap_or_else(|_| {
        Err(ReloadFailure {
            message: format!("{name}: loading it has failed inside the server"),
            at_millis: engine.now_millis(),
            file: None,
            is_changing: false,
        })
    })
}

/// The running threads.
pub(crate) struct Reloader {
    messages: Sender<Message>,
    watcher: JoinHandle<()>,
}

impl Reloader {
    /// Starts watching the files of the generation that serves.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(engine: &Arc<Engine>) -> io::Result<Reloader> {
        let (messages, received) = mpsc::channel();
        let (jobs, names) = mpsc::channel::<Name>();
        let (builder_engine, built) = (Arc::clone(engine), messages.clone());
        Builder::new().name("whered-build".to_owned()).spawn(move || {
            priority::lower();
            // Ends when the watcher is gone; nobody waits for a load that is under way then.
            for name in names {
                let outcome = build(&builder_engine, &name);
                if built.send(Message::Built { name, outcome }).is_err() {
                    break;
                }
            }
        })?;
        let (engine, sender) = (Arc::clone(engine), messages.clone());
        let watcher = Builder::new()
            .name("whered-watch".to_owned())
            .spawn(move || watcher::Watcher::new(engine, jobs, sender).run(&received))?;
        Ok(Reloader { messages, watcher })
    }

    /// Watches what the generation names that serves now.
    pub(crate) fn configured(&self) {
        // A watcher that is gone has nothing to be told.
        let _ = self.messages.send(Message::Configured);
    }

    /// Ends watching. A load that is under way is left to itself.
    pub(crate) fn stop(self) {
        let _ = self.messages.send(Message::Stop);
        if self.watcher.join().is_err() {
            tracing::error!("the thread that watches databases has failed");
        }
    }
}
