//! `whered backup`, `whered restore` and `whered repair`: data directories.
//!
//! Not for: what is in their files (`whered-store`); a running server, which makes its own copies
//! and is only asked here.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use whered_engine::store::{self, Contents, DataDirectory, Spool, Storage};
use whered_engine::{Engine, EngineOptions};

use crate::cli::BackupArguments;
use crate::outcome::{Failure, Outcome, say};

/// Makes a copy of a running server's data, or of a directory that no server uses.
pub(crate) fn backup(arguments: &BackupArguments) -> Result<Outcome, Failure> {
    let target = &arguments.directory;
    if let Some(source) = &arguments.data_dir {
        return copy(source, target, "backed up", arguments.json);
    }
    // The server has a working directory of its own.
    let absolute = std::path::absolute(target).map_err(|error| Failure::file(target, error))?;
    let Some(text) = absolute.to_str() else {
        return Err(Failure::file(target, "the name is not UTF-8, which the server needs"));
    };
    let mut server = arguments.server.open()?;
    let told = server.command(&["BACKUP", text]).map_err(Failure::new)?;
    let object = json!({ "directory": target.display().to_string(), "message": told });
    say(arguments.json, &object, &format!("{}: {told}", target.display()))?;
    Ok(Outcome::Found)
}

/// Checks a backup and makes a data directory of it.
pub(crate) fn restore(source: &Path, target: &Path, is_json: bool) -> Result<Outcome, Failure> {
    copy(source, target, "restored", is_json)
}

/// Keeps what can be kept of a damaged data directory. Exit code 1 if anything was changed.
pub(crate) fn repair(path: &Path, is_json: bool) -> Result<Outcome, Failure> {
    must_exist(path)?;
    let directory = DataDirectory::lock(path).map_err(Failure::new)?;
    let storage: Arc<dyn Storage> = Arc::new(directory.storage());
    let mut lines = Vec::new();
    let repaired = store::repair(&storage, &mut |line| lines.push(line.to_owned()));
    let mut messages = Messages { is_json, lines: Vec::new() };
    for line in lines {
        messages.say(line)?;
    }
    let repaired = repaired.map_err(Failure::new)?;
    let last = repaired.last_sequence;
    let from = match repaired.snapshot {
        Some(start) => format!("the snapshot at entry {start} and the journal up to entry {last}"),
        None => format!("the journal up to entry {last}"),
    };
    let has_feeds = !directory.folders("spool").map_err(Failure::new)?.is_empty();
    drop(directory);
    let spools_changed = has_feeds && repair_feeds(path, &mut messages)?;
    let changed = repaired.changed || spools_changed;
    let done = if changed { "repaired" } else { "nothing to repair" };
    let directory = path.display().to_string();
    let object = json!({
        "directory": directory, "changed": changed, "next_start_uses": from, "messages": messages.lines,
    });
    say(is_json, &object, &format!("{directory}: {done}; the next start uses {from}"))?;
    Ok(if changed { Outcome::NotFound } else { Outcome::Found })
}

/// The messages of a repair: each at once, or all of them at the end.
struct Messages {
    is_json: bool,
    lines: Vec<String>,
}

impl Messages {
    fn say(&mut self, line: String) -> Result<(), Failure> {
        if !self.is_json {
            writeln!(io::stdout(), "{line}")?;
        }
        self.lines.push(line);
        Ok(())
    }
}

/// Repairs feeds whose rows are lost, and spools: the data say how far each has been applied. Gives
/// whether anything was changed.
fn repair_feeds(path: &Path, messages: &mut Messages) -> Result<bool, Failure> {
    let options = EngineOptions {
        data_dir: Some(path.to_owned()),
        repairs_feeds: true,
        ..EngineOptions::default()
    };
    let (engine, _) = Engine::open(options).map_err(Failure::new)?;
    let (positions, reset) = (engine.feeds().positions(), engine.feeds().reset());
    if !reset.is_empty() {
        engine.snapshot().map_err(Failure::new)?;
    }
    for (name, batch) in &reset {
        messages.say(format!("feed '{name}': lost: places and rows of batches up to {batch}"))?;
    }
    engine.close().map_err(Failure::new)?;
    drop(engine);
    let directory = DataDirectory::lock(path).map_err(Failure::new)?;
    let folders = directory.folders("spool").map_err(Failure::new)?;
    let names: BTreeSet<&String> = positions.keys().chain(&folders).collect();
    let mut changed = !reset.is_empty();
    for name in names {
        let done = positions.get(name).copied().unwrap_or(0);
        let files = directory.folder(Path::new("spool").join(name)).map_err(Failure::new)?;
        if done == 0 && !Spool::exists(&files).map_err(Failure::new)? {
            continue;
        }
        let files: Arc<dyn Storage> = Arc::new(files);
        let mut lines = Vec::new();
        let repaired = store::repair_spool(&files, done, &mut |line| lines.push(line.to_owned()));
        for line in &lines {
            messages.say(format!("feed '{name}': {line}"))?;
        }
        changed |= repaired.map_err(Failure::new)?.changed;
    }
    Ok(changed)
}

fn copy(source: &Path, target: &Path, done: &str, is_json: bool) -> Result<Outcome, Failure> {
    must_exist(source)?;
    let from = DataDirectory::lock(source).map_err(Failure::new)?;
    let to = DataDirectory::lock(target).map_err(Failure::new)?;
    let contents = store::restore(&from.storage(), &to.storage()).map_err(Failure::new)?;
    for spool in from.folders("spool").map_err(Failure::new)? {
        let spool = Path::new("spool").join(spool);
        let (from, to) = (from.folder(&spool), to.folder(&spool));
        let (from, to) = (from.map_err(Failure::new)?, to.map_err(Failure::new)?);
        // A start that a crash has ended may have left a folder with nothing in it.
        if Spool::exists(&from).map_err(Failure::new)? {
            store::restore_spool(&from, &to).map_err(Failure::new)?;
        }
    }
    let Contents { last_sequence, segments, copied_bytes, .. } = contents;
    let directory = target.display().to_string();
    let object = json!({
        "directory": directory,
        "last_entry": last_sequence,
        "bytes": copied_bytes,
        "journal_files": segments,
        "has_snapshot": contents.snapshot.is_some(),
    });
    let snapshot = contents.snapshot.map_or("", |_| " and a snapshot");
    let text = format!(
        "{directory}: {done} to entry {last_sequence}, {copied_bytes} bytes in {segments} journal \
         files{snapshot}"
    );
    say(is_json, &object, &text)?;
    Ok(Outcome::Found)
}

/// Locking makes a directory that is not there, which nobody wants here.
fn must_exist(path: &Path) -> Result<(), Failure> {
    if path.is_dir() { Ok(()) } else { Err(Failure::file(path, "no such directory")) }
}
