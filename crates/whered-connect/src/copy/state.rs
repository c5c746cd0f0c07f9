//! The state file: which keys are copied, and how far the one in work is.
//!
//! Not for: the journal of any server. The file is written for a person to read, appended line by
//! line, and removed when the copy is whole.
//!
//! ```text
//! whered import redis, state 1
//! source  127.0.0.1:6379     ┐ what makes it the same copy: a line that differs
//! target  127.0.0.1:6380     │ ends a --resume with an error
//! ...                        ┘
//! run     7f3a...            the source's process that cursors belong to
//! key     0  0  trucks       begun, from database 0 to 0
//! at      1792  1000         its cursor and the members copied
//! done    5000               it is whole          (done* 5000: but for its expiry)
//! ```
//!
//! Fields are separated by tabs; other bytes of keys than printing ASCII are `%XX`. A last line
//! without an end is left out: it was being written when the copy stopped. A line is written after
//! the target has acknowledged what it says, so the file is never ahead of the target.
//!
//! Cost: one small write a page; memory: the keys that are done.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};

use super::{CopyOptions, Outcome, Route};
use crate::error::ConnectError;

const TITLE: &str = "whered import redis, state 1";

/// A key that is whole in the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FinishedKey {
    pub(super) members: u64,
    has_expiry: bool,
}

impl FinishedKey {
    pub(super) fn outcome(self) -> Outcome {
        if self.has_expiry { Outcome::Copied } else { Outcome::WithoutExpiry }
    }
}

/// How far the key in work is.
struct StartedKey {
    route: Route,
    key: Vec<u8>,
    cursor: Vec<u8>,
    members: u64,
}

/// What the file says, and the file.
pub(super) struct State {
    file: File,
    path: String,
    done: HashMap<(Route, Vec<u8>), FinishedKey>,
    begun: Option<StartedKey>,
    run: String,
}

impl State {
    /// Begins a file, or reads the one that is there.
    pub(super) fn open(
        options: &CopyOptions,
        source: &str,
        target: &str,
        routes: &[Route],
    ) -> Result<State, ConnectError> {
        let path = options.state_path.display().to_string();
        let fail = |error: io::Error| ConnectError::new(format!("{path}: {error}"));
        let head = head(options, source, target, routes);
        let old = match fs::read_to_string(&options.state_path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(fail(error)),
        };
        let text = match (old, options.resume) {
            (Some(text), true) => text,
            (Some(_), false) => {
                return Err(ConnectError::new(format!(
                    "{path}: an import that is not finished; allowed: --resume, --state with another \
                     file, or removing it"
                )));
            }
            (None, true) => {
                let what = "no such file, so there is nothing to resume";
                return Err(ConnectError::new(format!(
                    "{path}: {what}; allowed: without --resume"
                )));
            }
            (None, false) => {
                fs::write(&options.state_path, &head).map_err(fail)?;
                head.clone()
            }
        };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let file = File::options().append(true).open(&options.state_path).map_err(fail)?;
        file.set_len(whole as u64).map_err(fail)?;
        let mut state = State { file, path, done: HashMap::new(), begun: None, run: String::new() };
        state.read(&text[..whole], &head)?;
        Ok(state)
    }

    fn read(&mut self, text: &str, head: &str) -> Result<(), ConnectError> {
        let path = &self.path;
        let Some(lines) = text.strip_prefix(head) else {
            let differs = text.lines().zip(head.lines()).find(|(found, wanted)| found != wanted);
            let (found, wanted) = differs.unwrap_or(("nothing", TITLE));
            return Err(ConnectError::new(format!(
                "{path}: is of another import: it says '{}', this one is '{}'",
                found.replace('\t', " "),
                wanted.replace('\t', " ")
            )));
        };
        let first = head.lines().count() + 1;
        for (place, line) in lines.lines().enumerate() {
            if self.read_line(line).is_none() {
                let number = first + place;
                let path = &self.path;
                return Err(ConnectError::new(format!(
                    "{path}:{number}: is no line of a state file"
                )));
            }
        }
        Ok(())
    }

    fn read_line(&mut self, line: &str) -> Option<()> {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields.as_slice() {
            ["run", run] => self.run = (*run).to_owned(),
            ["key", from, to, key] => {
                let route = (from.parse().ok()?, to.parse().ok()?);
                let key = unshown(key)?;
                self.begun = Some(StartedKey { route, key, cursor: b"0".to_vec(), members: 0 });
            }
            ["at", cursor, members] => {
                let begun = self.begun.as_mut()?;
                cursor.parse::<u64>().ok()?;
                begun.cursor = cursor.as_bytes().to_vec();
                begun.members = members.parse().ok()?;
            }
            [word @ ("done" | "done*"), members] => {
                let begun = self.begun.take()?;
                let done =
                    FinishedKey { members: members.parse().ok()?, has_expiry: *word == "done" };
                self.done.insert((begun.route, begun.key), done);
            }
            _ => return None,
        }
        Some(())
    }

    /// Whether the noted cursor is of this process of the source; notes the process.
    pub(super) fn continues_run(&mut self, run: &str) -> bool {
        let is_same = !run.is_empty() && self.run == run;
        self.run = run.to_owned();
        is_same
    }

    /// Lets the key in work begin at its first page again. It stays ours.
    pub(super) fn forget_cursor(&mut self) -> Result<(), ConnectError> {
        self.append(&format!("run\t{}\n", self.run.clone()))?;
        if let Some(begun) = &mut self.begun {
            begun.cursor = b"0".to_vec();
            begun.members = 0;
            self.append("at\t0\t0\n")?;
        }
        Ok(())
    }

    /// What is noted of a key that is whole.
    pub(super) fn done(&self, route: Route, key: &[u8]) -> Option<FinishedKey> {
        self.done.get(&(route, key.to_vec())).copied()
    }

    /// Whether this is the key in work.
    pub(super) fn is_begun(&self, route: Route, key: &[u8]) -> bool {
        self.begun.as_ref().is_some_and(|begun| begun.route == route && begun.key == key)
    }

    /// The cursor of the key in work and the members that are copied.
    pub(super) fn position(&self) -> (Vec<u8>, u64) {
        let start = || (b"0".to_vec(), 0);
        self.begun.as_ref().map_or_else(start, |begun| (begun.cursor.clone(), begun.members))
    }

    pub(super) fn begin(&mut self, route: Route, key: &[u8]) -> Result<(), ConnectError> {
        self.append(&format!("key\t{}\t{}\t{}\n", route.0, route.1, shown(key)))?;
        self.begun =
            Some(StartedKey { route, key: key.to_vec(), cursor: b"0".to_vec(), members: 0 });
        Ok(())
    }

    pub(super) fn advance(&mut self, cursor: &[u8], members: u64) -> Result<(), ConnectError> {
        self.append(&format!("at\t{}\t{members}\n", shown(cursor)))
    }

    pub(super) fn finish_key(
        &mut self,
        members: u64,
        has_expiry: bool,
    ) -> Result<(), ConnectError> {
        let word = if has_expiry { "done" } else { "done*" };
        self.append(&format!("{word}\t{members}\n"))?;
        self.begun = None;
        Ok(())
    }

    /// The copy is whole: nothing is left to resume.
    pub(super) fn finish(self) -> Result<(), ConnectError> {
        fs::remove_file(&self.path)
            .map_err(|error| ConnectError::new(format!("{}: {error}", self.path)))
    }

    fn append(&mut self, line: &str) -> Result<(), ConnectError> {
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|error| ConnectError::new(format!("{}: {error}", self.path)))
    }
}

/// The lines that make two imports the same one.
fn head(options: &CopyOptions, source: &str, target: &str, routes: &[Route]) -> String {
    let routes: Vec<String> = routes.iter().map(|(from, to)| format!("{from}>{to}")).collect();
    let pattern = options
        .pattern
        .as_deref()
        .map_or_else(|| "all".to_owned(), |pattern| format!("match {}", shown(pattern.as_bytes())));
    let kind = if options.all_sorted_sets { "all sorted sets" } else { "GEO keys" };
    let source = shown(source.as_bytes());
    let target = shown(target.as_bytes());
    let routes = routes.join(" ");
    format!(
        "{TITLE}\nsource\t{source}\ntarget\t{target}\ndatabases\t{routes}\nkeys\t{pattern}\n\
         kind\t{kind}\n"
    )
}

/// Bytes as printing ASCII, the others and `%` as `%XX`.
pub(super) fn shown(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_graphic() && byte != b'%' {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// The inverse of [`shown`].
fn unshown(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after.get(2..)?;
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    Some(bytes)
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
