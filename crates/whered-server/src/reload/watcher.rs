//! The watcher's loop: events and ticks come in, names of databases and rulesets to load go out.
//!
//! Not for: when a state is tried ([`super::candidate`]), which folders matter
//! ([`super::folders`]). Cost: a `stat` for each file and look; a busy folder makes no more
//! looks than one in [`EVENT_PAUSE`].

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _, event::AccessKind};
use whered_engine::{Engine, FileState, Generation, ReloadFailure, ReloadMode};

use super::candidate::{Candidate, ObservedState, Step};
use super::{Message, Name, folders};

/// How often `poll` looks.
const POLL_TIME: Duration = Duration::from_secs(1);
/// How often `notify` looks without having been told.
const UNTOLD_TIME: Duration = Duration::from_secs(10);
/// The least time between two looks after events.
const EVENT_PAUSE: Duration = Duration::from_millis(20);

/// Between looks.
pub(super) struct Watcher {
    engine: Arc<Engine>,
    jobs: Sender<Name>,
    messages: Sender<Message>,
    files: BTreeMap<(Name, usize), WatchedFile>,
    /// `None` where the system has no more of it: the databases are looked at every second.
    system: Option<RecommendedWatcher>,
    /// The folders that are watched, with what tells a new folder of the same name.
    folders: BTreeMap<PathBuf, (u64, u64)>,
    /// Whether an event may have changed the way to a file.
    moved: bool,
    building: bool,
}

/// What a generation says about one file.
struct ServedFile {
    name: Name,
    /// Which file of that name it is.
    number: usize,
    path: PathBuf,
    reload: ReloadMode,
    state: FileState,
}

/// Every file that a generation was read from.
fn served(generation: &Generation) -> Vec<ServedFile> {
    let databases = generation.databases().iter().flat_map(|named| {
        let states = std::iter::once(&named.file).chain(&named.further_files);
        named.source.paths().zip(states).enumerate().map(|(number, (path, state))| ServedFile {
            name: Name::Database(named.name.clone()),
            number,
            path: path.clone(),
            reload: named.source.reload,
            state: *state,
        })
    });
    let rulesets = generation.rulesets().iter().filter_map(|named| {
        let file = named.file.as_ref()?;
        Some(ServedFile {
            name: Name::Ruleset(named.name.clone()),
            number: 0,
            path: file.source.path.clone(),
            reload: file.source.reload,
            state: file.state,
        })
    });
    databases.chain(rulesets).collect()
}

/// One file.
struct WatchedFile {
    candidate: Candidate,
    due: Instant,
    /// What was seen when it was given to the builder; `None` once that has ended.
    tried: Option<ObservedState>,
}

impl Watcher {
    pub(super) fn new(
        engine: Arc<Engine>,
        jobs: Sender<Name>,
        messages: Sender<Message>,
    ) -> Watcher {
        let (files, folders) = (BTreeMap::new(), BTreeMap::new());
        let (system, moved, building) = (None, false, false);
        Watcher { engine, jobs, messages, files, system, folders, moved, building }
    }

    /// Works until it is told to stop.
    pub(super) fn run(mut self, received: &Receiver<Message>) {
        self.configure();
        let mut last_event = None;
        loop {
            let message = match self.files.values().map(|file| file.due).min() {
                Some(due) => received.recv_timeout(due.saturating_duration_since(Instant::now())),
                None => received.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match message {
                Ok(Message::Changed) => {
                    let at = last_event.map_or_else(Instant::now, |last: Instant| {
                        Instant::now().max(last + EVENT_PAUSE)
                    });
                    last_event = Some(at);
                    self.bring_forward(at);
                }
                Ok(Message::Configured) => self.configure(),
                Ok(Message::Built { name, outcome }) => self.built(&name, outcome),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
            self.look();
        }
    }

    /// Takes the files that the generation has now.
    fn configure(&mut self) {
        let served = served(&self.engine.generation());
        let mut known = std::mem::take(&mut self.files);
        for named in &served {
            if named.reload != ReloadMode::Off {
                let key = (named.name.clone(), named.number);
                let file = known.remove(&key).unwrap_or_else(|| WatchedFile {
                    candidate: Candidate::default(),
                    due: Instant::now(),
                    tried: None,
                });
                self.files.insert(key, WatchedFile { due: Instant::now(), ..file });
            }
        }
        self.watch_folders(&served);
    }

    /// Files that are told of changes are looked at then.
    fn bring_forward(&mut self, at: Instant) {
        self.moved = true;
        for named in served(&self.engine.generation()) {
            let file = self.files.get_mut(&(named.name, named.number));
            if let (Some(file), ReloadMode::Notify) = (file, named.reload) {
                file.due = file.due.min(at);
            }
        }
    }

    /// Looks at every file whose time has come.
    fn look(&mut self) {
        let (served, now) = (served(&self.engine.generation()), Instant::now());
        // Folders come before files: what changes after a look is told by then.
        if self.moved && self.files.values().any(|file| file.due <= now) {
            self.moved = false;
            self.watch_folders(&served);
        }
        for named in &served {
            let key = (named.name.clone(), named.number);
            let Some(file) = self.files.get_mut(&key) else { continue };
            if file.due > now {
                continue;
            }
            let is_told = named.reload == ReloadMode::Notify && self.system.is_some();
            let regularly = now + if is_told { UNTOLD_TIME } else { POLL_TIME };
            let seen = FileState::of(&named.path).ok();
            file.due = match file.candidate.look(seen, named.state, now) {
                Step::Nothing => regularly,
                // A polled file is looked at once a second and no more.
                Step::LookAt(at) => {
                    if is_told {
                        at.min(regularly)
                    } else {
                        regularly
                    }
                }
                Step::Load if self.building => regularly.min(now + POLL_TIME),
                Step::Load => {
                    file.tried = Some(seen);
                    // A builder that is gone has ended the process's reloading; nothing to do.
                    self.building = self.jobs.send(named.name.clone()).is_ok();
                    regularly
                }
            };
        }
    }

    /// Tells the log what became of a load.
    fn built(&mut self, name: &Name, outcome: Result<u64, ReloadFailure>) {
        self.building = false;
        let is_alone = !self.files.contains_key(&(name.clone(), 1));
        let of_name = self.files.iter_mut().filter(|((of, _), _)| of == name);
        let tried = of_name.filter_map(|(_, file)| file.tried.take().map(|seen| (file, seen)));
        match outcome {
            Ok(number) => {
                tried.for_each(drop);
                let generation = self.engine.generation();
                if let Some(found) = served(&generation).into_iter().find(|one| one.name == *name) {
                    let time = match name {
                        Name::Database(name) => generation.database(name).map(|n| n.load_time),
                        Name::Ruleset(name) => generation.ruleset(name).map(|n| n.compile_time),
                    };
                    let milliseconds = time.unwrap_or_default().as_millis();
                    let ServedFile { path, state, .. } = found;
                    tracing::info!(
                        "{name} loaded anew in {milliseconds} ms as generation {number}: {} \
                         ({state})",
                        path.display()
                    );
                }
            }
            Err(failure) => {
                if failure.is_changing {
                    tracing::debug!("{name} is still being written: {failure}");
                } else {
                    tracing::error!("{name} serves on as before: {failure}");
                }
                for (file, seen) in tried {
                    match failure.is_changing {
                        true => file.candidate.wait_again(),
                        // What was opened may have come after what was seen.
                        false if is_alone => file.candidate.refuse(failure.file.or(seen)),
                        false => file.candidate.refuse(seen),
                    }
                }
            }
        }
        // Others may have waited for the builder, and this file may have changed meanwhile.
        self.bring_forward(Instant::now());
    }

    /// Watches the folders that lead to the files now, and those only.
    fn watch_folders(&mut self, served: &[ServedFile]) {
        let told = served.iter().filter(|named| named.reload == ReloadMode::Notify);
        let wanted: BTreeMap<PathBuf, (u64, u64)> = told
            .flat_map(|named| folders::on_the_way(&named.path))
            .filter_map(|folder| identity(&folder).map(|identity| (folder, identity)))
            .collect();
        if wanted == self.folders {
            return;
        }
        if self.system.is_none() {
            self.system = system_watcher(self.messages.clone());
        }
        let Some(system) = &mut self.system else { return };
        for (folder, identity) in &self.folders {
            if wanted.get(folder) != Some(identity) {
                // The folder may be gone, and its watch with it.
                let _ = system.unwatch(folder);
            }
        }
        let mut watched = BTreeMap::new();
        for (folder, identity) in wanted {
            let is_watched = self.folders.get(&folder) == Some(&identity);
            match if is_watched {
                Ok(())
            } else {
                system.watch(&folder, RecursiveMode::NonRecursive)
            } {
                Ok(()) => {
                    watched.insert(folder, identity);
                }
                Err(error) => {
                    let shown = folder.display();
                    tracing::warn!(
                        "{shown} cannot be watched, its files are looked at every {} seconds: \
                         {error}",
                        UNTOLD_TIME.as_secs()
                    );
                    // Not tried again until the folder is another one.
                    watched.insert(folder, identity);
                }
            }
        }
        self.folders = watched;
    }
}

fn identity(folder: &Path) -> Option<(u64, u64)> {
    let found = std::fs::metadata(folder).ok()?;
    Some((found.dev(), found.ino()))
}

/// The system's own notices, as messages.
fn system_watcher(messages: Sender<Message>) -> Option<RecommendedWatcher> {
    let handler = move |event: notify::Result<notify::Event>| {
        // Our own reading opens files too.
        let is_reading = |event: &notify::Event| {
            matches!(event.kind, EventKind::Access(AccessKind::Open(_) | AccessKind::Read))
        };
        if !event.as_ref().is_ok_and(is_reading) {
            // The receiver is gone when the server stops.
            let _ = messages.send(Message::Changed);
        }
    };
    notify::recommended_watcher(handler)
        .inspect_err(|error| {
            tracing::warn!("databases are looked at every second: {error}");
        })
        .ok()
}
