//! `whered backup`, `whered restore` and `whered repair`: data directories.
//!
//! Not for: what is in their files (`whered-store`); a running server, which makes its own copies
//! and is only asked here.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use whered_connect::Server;
use whered_engine::store::{self, Contents, DataDirectory, Spool, Storage};
use whered_engine::{Engine, EngineOptions};

use crate::cli::BackupArguments;
use crate::outcome::{Failure, Outcome};

/// Makes a copy of a running server's data, or of a directory that no server uses.
pub(crate) fn backup(arguments: &BackupArguments) -> Result<Outcome, Failure> {
    let target = &arguments.directory;
    if let Some(source) = &arguments.data_dir {
        return copy(source, target, "backed up");
    }
    // The server has a working directory of its own.
    let absolute = std::path::absolute(target).map_err(|error| Failure::file(target, error))?;
    let Some(text) = absolute.to_str() else {
        return Err(Failure::file(target, "the name is not UTF-8, which the server needs"));
    };
    let mut server = Server::open(&arguments.from).map_err(Failure::new)?;
    let told = server.command(&["BACKUP", text]).map_err(Failure::new)?;
    writeln!(io::stdout(), "{}: {told}", target.display())?;
    Ok(Outcome::Found)
}

/// Checks a backup and makes a data directory of it.
pub(crate) fn restore(source: &Path, target: &Path) -> Result<Outcome, Failure> {
    copy(source, target, "restored")
}

/// Keeps what can be kept of a damaged data directory. Exit code 1 if anything was changed.
pub(crate) fn repair(path: &Path) -> Result<Outcome, Failure> {
    must_exist(path)?;
    let directory = DataDirectory::lock(path).map_err(Failure::new)?;
    let storage: Arc<dyn Storage> = Arc::new(directory.storage());
    let mut lines = Vec::new();
    let repaired = store::repair(&storage, &mut |line| lines.push(line.to_owned()));
    let mut out = io::stdout();
    for line in &lines {
        writeln!(out, "{line}")?;
    }
    let repaired = repaired.map_err(Failure::new)?;
    let last = repaired.last_sequence;
    let from = match repaired.snapshot {
        Some(start) => format!("the snapshot at entry {start} and the journal up to entry {last}"),
        None => format!("the journal up to entry {last}"),
    };
    let has_feeds = !directory.folders("spool").map_err(Failure::new)?.is_empty();
    drop(directory);
    let spools_changed = has_feeds && repair_feeds(path)?;
    let changed = repaired.changed || spools_changed;
    let done = if changed { "repaired" } else { "nothing to repair" };
    writeln!(out, "{}: {done}; the next start uses {from}", path.display())?;
    Ok(if changed { Outcome::NotFound } else { Outcome::Found })
}

/// Repairs feeds whose rows are lost, and spools: the data say how far each has been applied. Gives
/// whether anything was changed.
fn repair_feeds(path: &Path) -> Result<bool, Failure> {
    let options = EngineOptions {
        data_dir: Some(path.to_owned()),
        repairs_feeds: true,
        ..EngineOptions::default()
    };
    let (engine, _) = Engine::open(options).map_err(Failure::new)?;
    let (positions, reset) = (engine.feeds().positions(), engine.feeds().reset());
    let mut out = io::stdout();
    if !reset.is_empty() {
        engine.snapshot().map_err(Failure::new)?;
    }
    for (name, batch) in &reset {
        writeln!(out, "feed '{name}': lost: places and rows of batches up to {batch}")?;
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
            writeln!(out, "feed '{name}': {line}")?;
        }
        changed |= repaired.map_err(Failure::new)?.changed;
    }
    Ok(changed)
}

fn copy(source: &Path, target: &Path, done: &str) -> Result<Outcome, Failure> {
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
    writeln!(
        io::stdout(),
        "{}: {done} to entry {last_sequence}, {copied_bytes} bytes in {segments} journal files{}",
        target.display(),
        contents.snapshot.map_or("", |_| " and a snapshot"),
    )?;
    Ok(Outcome::Found)
}

/// Locking makes a directory that is not there, which nobody wants here.
fn must_exist(path: &Path) -> Result<(), Failure> {
    if path.is_dir() { Ok(()) } else { Err(Failure::file(path, "no such directory")) }
}
