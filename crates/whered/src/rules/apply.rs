//! `whered rules apply`: a compiled program loaded into the kernel, with a way back.
//!
//! For: one table that belongs to this command. Not for: compiling (`whered_rules::flat`).
//!
//! ```text
//! compile ─► is the table as we left it? ─► nft -c ─► watcher started ─► nft -f ─► confirmed?
//!                                                       │ sleeps N seconds          │ yes: the
//!                                                       └─ takes the token, loads   │ token is
//!                                                          the old table again      └ taken away
//! ```
//!
//! The state directory has, for each table: `loaded`, the table as nft listed it after it was
//! loaded; `program`, the text that was loaded; while nobody has confirmed, `pending`, which names
//! the token of the watcher that waits, and `rollback`, text for `nft -f` that brings the old table
//! back.
//!
//! Invariants: a table that has changed since it was loaded is not replaced unless that is asked
//! for. A confirmation and the watcher both rename the token, so that one of them decides. The
//! watcher is started before the program is loaded, in a process group of its own, and ignores a
//! hangup.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use whered_rules::flat::{self, Options, compile};
use whered_rules::{Family, Ruleset};

use super::live::run as system;
use super::load;
use crate::cli::RulesApplyArguments;
use crate::outcome::{Failure, Outcome, complain, say};

/// What the watcher does: it waits, takes its token, and loads the old table again.
const WATCHER: &str = "trap '' HUP INT TERM QUIT
sleep \"$1\"
if mv \"$2.token-$3\" \"$2.taken\" 2>/dev/null; then
  tries=0
  until nft -f \"$2.rollback\"; do
    tries=$((tries + 1))
    [ \"$tries\" -lt 600 ] || exit 1
    sleep 1
  done
  rm -f \"$2.loaded\" &&
    { [ ! -e \"$2.before\" ] || mv \"$2.before\" \"$2.loaded\"; }
  rm -f \"$2.taken\" \"$2.pending\" \"$2.program\"
fi
";

/// Loads a program, or confirms the one that was loaded, or tells what would change.
pub(crate) fn run(arguments: &RulesApplyArguments) -> Result<Outcome, Failure> {
    let state = State::open(arguments)?;
    if arguments.confirm {
        return state.confirm(arguments.json);
    }
    let ruleset = match load::file_or_live(arguments.file.as_deref(), (&arguments.read).into()) {
        Ok(ruleset) => ruleset,
        Err(wrong) => return wrong.tell(),
    };
    let places = load::places(&arguments.db)?;
    if let Err(failed) = load::refuse_places(&ruleset, &places) {
        return Ok(failed);
    }
    super::compile::tell_live_sets(&ruleset, &arguments.name);
    let options = Options { table: &arguments.name, counters: arguments.counters };
    let program = match compile(&ruleset, &places, options) {
        Ok(program) => program,
        Err(error) => return load::Wrong::from(error).tell(),
    };
    program.plan.warnings().iter().for_each(|warning| complain(warning));
    let table = Table { family: family_word(&ruleset), name: arguments.name.clone() };
    if arguments.diff {
        return state.diff(&program.text, arguments.json);
    }
    state.apply(&table, &program, &ruleset, arguments)
}

pub(super) fn family_word(ruleset: &Ruleset) -> &'static str {
    match ruleset.family() {
        None => "inet",
        Some(Family::Ipv4) => "ip",
        Some(Family::Ipv6) => "ip6",
    }
}

/// A table of the kernel's.
pub(super) struct Table {
    pub(super) family: &'static str,
    pub(super) name: String,
}

impl Table {
    pub(super) fn reference(&self) -> String {
        format!("table {}", self.full_name())
    }

    /// Family and name.
    pub(super) fn full_name(&self) -> String {
        format!("{} {}", self.family, self.name)
    }

    /// The families in which a table of this name is loaded.
    pub(super) fn families(&self) -> Result<Vec<String>, Failure> {
        let listed = parsed(&system("nft -j list tables", "")?)?;
        let tables = listed["nftables"].as_array().map_or(&[][..], Vec::as_slice);
        let ours =
            tables.iter().map(|item| &item["table"]).filter(|it| it["name"] == self.name[..]);
        Ok(ours.filter_map(|table| table["family"].as_str()).map(str::to_owned).collect())
    }

    /// The table as nft lists it, without what counts and numbers, and without the members of sets
    /// that other programs fill.
    pub(super) fn listed(&self, live: &[String]) -> Result<Value, Failure> {
        let mut listed = parsed(&system(&format!("nft -j list {}", self.reference()), "")?)?;
        let items = listed["nftables"].as_array_mut().map(std::mem::take).unwrap_or_default();
        let kept = items.into_iter().filter(|item| item.get("metainfo").is_none());
        let mut kept: Vec<Value> = kept.collect();
        for item in &mut kept {
            plain(item);
            let is_live = item["set"]["name"].as_str().is_some_and(|name| is_of_live(name, live));
            if let (true, Some(set)) = (is_live, item["set"].as_object_mut()) {
                set.remove("elem");
            }
        }
        Ok(Value::Array(kept))
    }
}

/// Whether a set of nft is one of a live set's two.
fn is_of_live(name: &str, live: &[String]) -> bool {
    let base = name.strip_suffix("_v4").or(name.strip_suffix("_v6")).unwrap_or(name);
    live.iter().any(|known| known == name || known == base)
}

/// Removes handles and counts.
fn plain(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("handle");
            if let Some(Value::Object(counter)) = members.get_mut("counter") {
                counter.clear();
            }
            members.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

pub(super) fn parsed(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::Message(format!("nft -j: {error}")))
}

/// The files of one table.
struct State {
    /// Their names without the ending.
    base: PathBuf,
    /// Held while the command runs.
    _lock: File,
}

impl State {
    fn open(arguments: &RulesApplyArguments) -> Result<State, Failure> {
        let folder = &arguments.state_dir;
        let fail = |error: io::Error| Failure::file(folder, error);
        fs::create_dir_all(folder).map_err(fail)?;
        let folder = fs::canonicalize(folder).map_err(fail)?;
        if arguments.name.contains('/') {
            let found = &arguments.name;
            return Err(Failure::Message(format!(
                "found --name {found:?}: allowed is a name of nft"
            )));
        }
        let base = folder.join(&arguments.name);
        let path = folder.join(format!("{}.lock", arguments.name));
        let lock = File::create(&path).map_err(|error| Failure::file(&path, error))?;
        if lock.try_lock().is_err() {
            return Err(Failure::file(&path, "another whered rules apply is running"));
        }
        Ok(State { base, _lock: lock })
    }

    fn path(&self, ending: &str) -> PathBuf {
        let mut path = self.base.clone().into_os_string();
        path.push(".");
        path.push(ending);
        path.into()
    }

    fn read(&self, ending: &str) -> Option<String> {
        fs::read_to_string(self.path(ending)).ok()
    }

    fn write(&self, ending: &str, text: &str) -> Result<(), Failure> {
        let path = self.path(ending);
        fs::write(&path, text).map_err(|error| Failure::file(&path, error))
    }

    fn remove(&self, ending: &str) {
        // What is not there need not be removed.
        let _missing = fs::remove_file(self.path(ending));
    }

    /// Takes the token away, so that the watcher does nothing.
    fn take_pending(&self) -> bool {
        let token = format!("token-{}", self.read("pending").unwrap_or_default());
        let is_taken = fs::rename(self.path(&token), self.path("confirmed")).is_ok();
        if !is_taken {
            return false;
        }
        self.remove("pending");
        self.forget_rollback();
        true
    }

    /// Whether the watcher still waits.
    fn has_token(&self) -> bool {
        let token = self.read("pending");
        token.is_some_and(|token| self.path(&format!("token-{token}")).exists())
    }

    /// Takes away what is there for the way back; without its token the watcher does nothing.
    fn forget_rollback(&self) {
        if let Some(token) = self.read("pending") {
            self.remove(&format!("token-{token}"));
        }
        for ending in ["pending", "confirmed", "before", "rollback"] {
            self.remove(ending);
        }
    }

    fn confirm(&self, is_json: bool) -> Result<Outcome, Failure> {
        if !self.path("pending").exists() {
            let text =
                "nothing waits for a confirmation; rules that nobody confirmed in time are gone";
            return Err(Failure::new(text));
        }
        if !self.take_pending() {
            return Err(Failure::new("too late: the old rules are being loaded again"));
        }
        say(is_json, &json!({ "confirmed": true }), "confirmed: the rules stay")?;
        Ok(Outcome::Found)
    }

    /// The lines of the program that was loaded last and of this one, where they differ.
    fn diff(&self, program: &str, is_json: bool) -> Result<Outcome, Failure> {
        let before = self.read("program").unwrap_or_default();
        let (removed, added) = (lines_beyond(&before, program), lines_beyond(program, &before));
        let is_equal = removed.is_empty() && added.is_empty();
        let with = |sign: &str, lines: &[&str]| -> Vec<String> {
            lines.iter().map(|line| format!("{sign}{}", line.trim())).collect()
        };
        let text = [with("-", &removed), with("+", &added)].concat().join("\n");
        let text = if is_equal { "no difference".to_owned() } else { text };
        say(is_json, &json!({ "removed": removed, "added": added }), &text)?;
        Ok(if is_equal { Outcome::Found } else { Outcome::NotFound })
    }

    fn apply(
        &self,
        table: &Table,
        program: &flat::Program,
        ruleset: &Ruleset,
        arguments: &RulesApplyArguments,
    ) -> Result<Outcome, Failure> {
        if self.path("pending").exists() || self.path("taken").exists() {
            let allowed = "allowed is --confirm, or to wait until the old rules are back";
            return Err(Failure::Message(format!("rules wait for a confirmation: {allowed}")));
        }
        let live: Vec<String> = load::live_sets(ruleset).into_iter().map(str::to_owned).collect();
        let families = table.families()?;
        if let Some(other) = families.iter().find(|family| **family != table.family) {
            let (name, family) = (&table.name, table.family);
            return Err(Failure::Message(format!(
                "found table {other} {name}: allowed is another --name; the rules are of table {family}"
            )));
        }
        let exists = !families.is_empty();
        if exists && !arguments.replace {
            self.refuse_changed(table, &live)?;
        }
        system("nft -c -f -", &program.text)?;
        let words = table.reference();
        let gone = format!("{words}\ndelete {words}\n");
        let rollback = match exists {
            true => {
                let text = format!("{gone}{}", system(&format!("nft list {words}"), "")?);
                system("nft -c -f -", &text).map_err(|failure| match failure {
                    Failure::Message(why) => {
                        Failure::Message(format!("the old rules could not be loaded again: {why}"))
                    }
                    other => other,
                })?;
                text
            }
            false => gone,
        };
        let seconds = arguments.confirm_within.unwrap_or(PROBE_SECONDS);
        let is_pending = !arguments.keep;
        self.remove("before");
        if let Some(before) = self.read("loaded") {
            self.write("before", &before)?;
        }
        self.write("rollback", &rollback)?;
        if is_pending {
            let token = token();
            self.write(&format!("token-{token}"), "")?;
            self.write("pending", &token)?;
            self.watch(seconds, &token)?;
        }
        if let Err(failure) = system("nft -f -", &program.text) {
            self.forget_rollback();
            return Err(failure);
        }
        if is_pending && !self.has_token() {
            // The watcher was faster than the kernel, and has loaded the old table before this one.
            system("nft -f -", &rollback)?;
            return Err(failure_of_time());
        }
        let state = json!({ "live": live, "table": table.listed(&live)? });
        self.write("loaded", &state.to_string())?;
        self.write("program", &program.text)?;
        self.after(table, seconds, arguments)
    }

    /// Refuses a table that is not as this command has left it.
    fn refuse_changed(&self, table: &Table, live: &[String]) -> Result<(), Failure> {
        let words = table.reference();
        let allowed = "allowed is another --name, or --replace";
        let Some(before) = self.read("loaded").and_then(|text| parsed(&text).ok()) else {
            let message = format!("found {words}, which another program has loaded: {allowed}");
            return Err(Failure::Message(message));
        };
        let known = before["live"].as_array().map_or(&[][..], Vec::as_slice);
        let known = known.iter().filter_map(Value::as_str).map(str::to_owned);
        let live: Vec<String> = known.chain(live.iter().cloned()).collect();
        if table.listed(&live)? == before["table"] {
            return Ok(());
        }
        let message = format!("found {words} changed since it was loaded: {allowed}");
        Err(Failure::Message(message))
    }

    /// Starts the process that loads the old table again.
    fn watch(&self, seconds: u64, token: &str) -> Result<Child, Failure> {
        let path = std::env::var("PATH").unwrap_or_default();
        Command::new("/bin/sh")
            .args(["-c", WATCHER, "whered-rollback", &seconds.to_string()])
            .arg(&self.base)
            .arg(token)
            .env("PATH", format!("{path}:/usr/sbin:/sbin:/usr/local/sbin"))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| {
                self.forget_rollback();
                Failure::Message(format!("/bin/sh: {error}"))
            })
    }

    /// What follows loading: nothing, a probe, or the wait for a confirmation by another command.
    fn after(
        &self,
        table: &Table,
        seconds: u64,
        arguments: &RulesApplyArguments,
    ) -> Result<Outcome, Failure> {
        let words = table.reference();
        if arguments.keep {
            self.forget_rollback();
            say(arguments.json, &json!({ "loaded": words }), &format!("{words} is loaded"))?;
            return Ok(Outcome::Found);
        }
        let Some(probe) = &arguments.probe else {
            let object = json!({ "loaded": words, "confirm_within_seconds": seconds });
            let text = format!(
                "{words} is loaded; without whered rules apply --confirm the old rules are back in {seconds} seconds"
            );
            say(arguments.json, &object, &text)?;
            return Ok(Outcome::Found);
        };
        match probed(probe, Duration::from_secs(seconds)) {
            Ok(()) if self.take_pending() => {
                let text = format!("{words} is loaded; the probe succeeded");
                say(arguments.json, &json!({ "loaded": words, "confirmed": true }), &text)?;
                Ok(Outcome::Found)
            }
            Ok(()) => Err(Failure::new("the probe took too long: the old rules are loaded again")),
            Err(why) => {
                self.roll_back()?;
                Err(Failure::Message(format!("{why}: the old rules are loaded again")))
            }
        }
    }

    /// Loads the old table again at once, unless the watcher does so.
    fn roll_back(&self) -> Result<(), Failure> {
        let Some(rollback) = self.read("rollback") else { return Ok(()) };
        let before = self.read("before");
        if !self.take_pending() {
            return Ok(());
        }
        system("nft -f -", &rollback)?;
        match before {
            Some(before) => self.write("loaded", &before),
            None => {
                self.remove("loaded");
                Ok(())
            }
        }
    }
}

/// Loading took longer than the wait for a confirmation.
fn failure_of_time() -> Failure {
    Failure::new("loading took longer than the time to confirm: the old rules are loaded again")
}

/// A name that no other watcher has.
fn token() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{}-{}", std::process::id(), now.map_or(0, |now| now.as_nanos()))
}

/// How long a probe may take, where nobody says it.
const PROBE_SECONDS: u64 = 10;

/// Runs a probe; why it failed.
fn probed(probe: &str, within: Duration) -> Result<(), String> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", probe])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("/bin/sh: {error}"))?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (sender, receiver) = mpsc::channel();
    // Nobody listens any more where the probe took too long.
    thread::spawn(move || sender.send(child.wait()).unwrap_or_default());
    match receiver.recv_timeout(within) {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("the probe failed ({status})")),
        Ok(Err(error)) => Err(format!("the probe: {error}")),
        Err(_) => {
            // It may have ended just now.
            let _ended = group.map(|group| kill_process_group(group, Signal::KILL));
            Err(format!("the probe did not end in {} seconds", within.as_secs()))
        }
    }
}

/// The lines of one text that the other has less often.
fn lines_beyond<'t>(one: &'t str, other: &str) -> Vec<&'t str> {
    let mut counts = std::collections::HashMap::new();
    for line in other.lines() {
        *counts.entry(line).or_insert(0usize) += 1;
    }
    let is_more = |line: &&str| match counts.get_mut(*line) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    one.lines().filter(is_more).collect()
}

/// Where the state is by default.
pub(crate) fn default_state_dir() -> &'static Path {
    Path::new("/run/whered/rules")
}
