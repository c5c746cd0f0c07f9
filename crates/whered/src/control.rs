//! `whered status`, `whered reload` and `whered stop`: a running server, and what is asked of it.
//!
//! For: a server that is reached by its URL, or by the data directory that it holds. Not for: what
//! the server does then (`serve.rs`).
//!
//! ```text
//! --server    INFO, /v1/status           SERVER.RELOAD             SHUTDOWN ─> its process ends
//! --data-dir                  LOCK ─> SIGHUP ─> last-reload.json   SIGTERM ─> its process ends
//! ```
//!
//! Every command waits for the outcome and says it. A process is only sent a signal while it holds
//! the directory: its descriptor is opened first, and the lock is looked at again.

use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::{Value, json};
use whered_connect::{Server, ServerAddress};
use whered_engine::store::DataDirectory;

use crate::outcome::{Failure, Outcome, complain};
use crate::reload_note::ReloadNote;
use crate::server::{HttpServer, RespServer};

/// How often the note of a reload is looked at.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    pub(crate) server: RespServer,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What `whered reload` and `whered stop` have in common.
#[derive(Args)]
pub(crate) struct ControlArguments {
    #[command(flatten)]
    pub(crate) server: RespServer,
    /// Data directory of a server on this machine, which is sent a signal, instead of its URL
    #[arg(long, value_name = "DIR", conflicts_with_all = ["server", "password_file"])]
    pub(crate) data_dir: Option<PathBuf>,
    /// Seconds to wait for the outcome
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub(crate) timeout: u16,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl ControlArguments {
    fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout.into())
    }
}

/// The lines of INFO that a status has, with their names there.
const FIELDS: [(&str, &str); 11] = [
    ("whered_version", "version"),
    ("process_id", "pid"),
    ("uptime_in_seconds", "uptime_seconds"),
    ("connected_clients", "connected_clients"),
    ("used_memory", "used_memory_bytes"),
    ("maxmemory", "max_memory_bytes"),
    ("loading", "loading"),
    ("rdb_last_bgsave_status", "last_snapshot_status"),
    ("aof_last_write_status", "last_write_status"),
    ("total_commands_processed", "commands"),
    ("io_threads_active", "threads"),
];

/// `whered status`.
pub(crate) fn status(arguments: &StatusArguments) -> Result<Outcome, Failure> {
    let asked = if arguments.server.is_http() {
        HttpServer::of(&arguments.server).open()?.get("/v1/status")
    } else {
        Server::connect(&arguments.server.address()?).and_then(|mut server| {
            let info = server.command(&["INFO"])?;
            Ok(of_info(&info))
        })
    };
    let status = match asked {
        Ok(status) => status,
        Err(error) if error.is_absent() => {
            complain(&error.to_string());
            return Ok(Outcome::NotFound);
        }
        Err(error) => return Err(Failure::new(error)),
    };
    let mut out = io::stdout().lock();
    if arguments.json {
        writeln!(out, "{status}")?;
        return Ok(Outcome::Found);
    }
    let mut lines = Vec::new();
    flatten("", &status, &mut lines);
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in lines {
        writeln!(out, "{name:<width$}  {value}")?;
    }
    Ok(Outcome::Found)
}

/// An INFO as the status that HTTP gives, as far as it goes.
fn of_info(info: &str) -> Value {
    let mut status = serde_json::Map::new();
    let lines = || info.lines().filter_map(|line| line.split_once(':'));
    for (field, name) in FIELDS {
        if let Some((_, text)) = lines().find(|(known, _)| *known == field) {
            let value = text.parse::<u64>().map_or_else(|_| text.into(), Value::from);
            status.insert(name.to_owned(), value);
        }
    }
    for (name, text) in lines().filter(|(name, _)| {
        ["db", "feed_", "pool_"].iter().any(|kind| name.starts_with(kind)) && *name != "db"
    }) {
        if text.contains('=') {
            status.insert(name.to_owned(), text.into());
        }
    }
    Value::Object(status)
}

/// A line for each value that is no object, with its path.
fn flatten(path: &str, value: &Value, lines: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(&path, value, lines);
            }
        }
        Value::String(text) => lines.push((path.to_owned(), shown(text))),
        Value::Null => lines.push((path.to_owned(), "-".to_owned())),
        other => lines.push((path.to_owned(), shown(&other.to_string()))),
    }
}

/// A server's words on a terminal.
fn shown(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

/// `whered reload`.
pub(crate) fn reload(arguments: &ControlArguments) -> Result<Outcome, Failure> {
    let outcome = match &arguments.data_dir {
        Some(directory) => match Holder::of(directory)? {
            Some(holder) => reload_by_signal(&holder, directory, arguments.patience())?,
            None => return nobody(directory),
        },
        None => {
            let mut server = arguments.server.open()?;
            server.set_patience(arguments.patience()).map_err(Failure::new)?;
            match server.command(&["SERVER.RELOAD"]) {
                Ok(line) => Ok(line),
                Err(error) if error.is_refusal() => {
                    let why = error.to_string();
                    let prefix = format!("{}: ERR ", server.name());
                    Err(why.strip_prefix(&prefix).unwrap_or(&why).to_owned())
                }
                Err(error) => return Err(Failure::new(error)),
            }
        }
    };
    match outcome {
        Ok(line) if arguments.json => {
            writeln!(io::stdout(), "{}", json!({ "reloaded": true, "message": line }))?;
            Ok(Outcome::Found)
        }
        Ok(line) => {
            writeln!(io::stdout(), "reloaded: {}", shown(&line))?;
            Ok(Outcome::Found)
        }
        Err(why) => {
            if arguments.json {
                writeln!(io::stdout(), "{}", json!({ "reloaded": false, "message": why }))?;
            }
            Err(Failure::new(format!("not reloaded, serving on as before: {}", shown(&why))))
        }
    }
}

/// Sends SIGHUP and waits for the note of what came of it.
fn reload_by_signal(
    holder: &Holder,
    directory: &Path,
    patience: Duration,
) -> Result<Result<String, String>, Failure> {
    let before = ReloadNote::read(directory);
    let is_new = |note: &ReloadNote| {
        note.pid == holder.pid.as_raw_nonzero().get().unsigned_abs()
            && before.as_ref() != Some(note)
    };
    holder.send(Signal::HUP)?;
    let begun = Instant::now();
    loop {
        if let Some(note) = ReloadNote::read(directory).filter(is_new) {
            return Ok(note.outcome);
        }
        if begun.elapsed() >= patience {
            let seconds = patience.as_secs();
            let message = format!("{holder} has said nothing of a reload within {seconds} s");
            return Err(Failure::file(directory, message));
        }
        if holder.ends_within(LOOK)? {
            return Err(Failure::file(directory, format!("{holder} has ended")));
        }
    }
}

/// `whered stop`.
pub(crate) fn stop(arguments: &ControlArguments) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    let (holder, what) = match &arguments.data_dir {
        Some(directory) => {
            let Some(holder) = Holder::of(directory)? else { return nobody(directory) };
            holder.send(Signal::TERM)?;
            let what = holder.to_string();
            (Some(holder), what)
        }
        None => {
            let address = arguments.server.address()?;
            let mut server = match Server::connect(&address) {
                Ok(server) => server,
                Err(error) if error.is_absent() => {
                    complain(&error.to_string());
                    return Ok(Outcome::NotFound);
                }
                Err(error) => return Err(Failure::new(error)),
            };
            server.set_patience(arguments.patience()).map_err(Failure::new)?;
            let holder = local_process(&address, &mut server)?;
            server.shut_down().map_err(Failure::new)?;
            (holder, address.shown().to_owned())
        }
    };
    let left = arguments.patience().saturating_sub(begun.elapsed());
    let has_ended = match &holder {
        Some(holder) if !holder.ends_within(left)? => {
            let seconds = arguments.timeout;
            return Err(Failure::new(format!("{what} has not ended within {seconds} s")));
        }
        holder => holder.is_some(),
    };
    let seconds = begun.elapsed().as_secs_f64();
    let pid = holder.as_ref().map(|holder| holder.pid.as_raw_nonzero().get());
    let mut out = io::stdout().lock();
    if arguments.json {
        let seconds = (seconds * 1000.0).round() / 1000.0;
        let status =
            json!({ "stopped": true, "has_ended": has_ended, "pid": pid, "seconds": seconds });
        writeln!(out, "{status}")?;
    } else if has_ended {
        writeln!(out, "{what}: stopped after {seconds:.1} s")?;
    } else {
        let why = "it runs elsewhere, so that the end of its process cannot be seen from here";
        writeln!(out, "{what}: has closed its connections after {seconds:.1} s; {why}")?;
    }
    Ok(Outcome::Found)
}

fn nobody(directory: &Path) -> Result<Outcome, Failure> {
    complain(&format!("{}: no server uses this data directory", directory.display()));
    Ok(Outcome::NotFound)
}

/// The process behind a URL, if it is on this machine and can be seen from here.
fn local_process(address: &ServerAddress, server: &mut Server) -> Result<Option<Holder>, Failure> {
    if !address.is_local() {
        return Ok(None);
    }
    let info = server.command(&["INFO", "server"]).map_err(Failure::new)?;
    let pid = info.lines().find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok());
    let holder = pid.and_then(|pid| Holder::open(pid).ok().flatten());
    Ok(holder.filter(Holder::is_whered))
}

/// A process of this machine, which cannot become another one while this lives.
struct Holder {
    pid: Pid,
    descriptor: OwnedFd,
}

impl Holder {
    /// Who holds a data directory.
    fn of(directory: &Path) -> Result<Option<Holder>, Failure> {
        if !directory.is_dir() {
            return Err(Failure::file(directory, "no such directory"));
        }
        let holder = || DataDirectory::holder(directory).map_err(Failure::new);
        let Some(pid) = holder()? else { return Ok(None) };
        let fail =
            |what: &str| Failure::file(directory, format!("process {pid}, which holds it, {what}"));
        let opened =
            Holder::open(pid).map_err(|error| fail(&format!("cannot be reached: {error}")))?;
        let Some(opened) = opened else {
            return Err(fail("is not seen from here; allowed: a process outside of containers"));
        };
        match holder()? {
            Some(now) if now == pid && opened.is_whered() => Ok(Some(opened)),
            Some(now) if now == pid => Err(fail("is no whered as seen from here")),
            _ => Ok(None),
        }
    }

    /// `None` if there is no such process.
    fn open(pid: u32) -> io::Result<Option<Holder>> {
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => Ok(Some(Holder { pid, descriptor })),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A number of another namespace of processes may be that of anybody here.
    fn is_whered(&self) -> bool {
        let path = format!("/proc/{}/comm", self.pid.as_raw_nonzero());
        fs::read_to_string(path).is_ok_and(|name| name.trim_end().starts_with("whered"))
    }

    fn send(&self, signal: Signal) -> Result<(), Failure> {
        let sent = pidfd_send_signal(&self.descriptor, signal);
        sent.map_err(|error| Failure::new(format!("{self}: {}", io::Error::from(error))))
    }

    /// Waits for the end of the process, but no longer than this.
    fn ends_within(&self, at_most: Duration) -> Result<bool, Failure> {
        let begun = Instant::now();
        loop {
            let left = at_most.saturating_sub(begun.elapsed());
            let timeout = Timespec::try_from(left).map_err(Failure::new)?;
            let mut waiting = [PollFd::new(&self.descriptor, PollFlags::IN)];
            match poll(&mut waiting, Some(&timeout)) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Failure::new(io::Error::from(error))),
            }
        }
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {}", self.pid.as_raw_nonzero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_info_becomes_a_status_with_the_names_of_http() {
        let info = "# Server\r\nwhered_version:0.1.0\r\nprocess_id:7\r\nuptime_in_seconds:9\r\n\
                    # Keyspace\r\ndb0:keys=2,expires=0\r\n# Sites\r\npool_www:sites=2,up=1\r\n";
        let status = of_info(info);
        let wanted = json!({
            "version": "0.1.0", "pid": 7, "uptime_seconds": 9,
            "db0": "keys=2,expires=0", "pool_www": "sites=2,up=1",
        });
        assert_eq!(status, wanted);
        let mut lines = Vec::new();
        flatten("", &json!({ "a": { "b": [1], "c": null } }), &mut lines);
        assert_eq!(
            lines,
            [("a.b".to_owned(), "[1]".to_owned()), ("a.c".to_owned(), "-".to_owned())]
        );
    }
}
