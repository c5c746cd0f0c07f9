//! `service_types` of gdnsd as checks of ours.
//!
//! gdnsd forgets a failure after `ok_thresh` good answers, we count failures in a row: its
//! `down_thresh` becomes our `down_after`. A file of states (`extfile`) is searched by a command.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::text::{quoted, quoted_list};
use super::vscf::{Fault, Hash, Value};

/// How a kind of service is looked at.
#[derive(Clone, Debug)]
pub(super) struct Service {
    kind: Kind,
    interval_seconds: u32,
    timeout_seconds: u32,
    up_after: u32,
    down_after: u32,
}

#[derive(Clone, Debug)]
enum Kind {
    /// With the seconds that its state lasts, where gdnsd says so; as the next one.
    Up(Option<u64>),
    Down(Option<u64>),
    Tcp {
        port: u16,
    },
    Http {
        port: u16,
        path: String,
        name: Option<String>,
        statuses: Vec<u16>,
    },
    Command(Vec<String>),
    /// Whether addresses that the file lacks are down.
    File {
        path: String,
        is_down_without: bool,
        lasts: Option<u64>,
    },
}

/// All of them by name.
pub(super) type Services = BTreeMap<String, Service>;

const GENERIC: [&str; 6] =
    ["plugin", "up_thresh", "ok_thresh", "down_thresh", "interval", "timeout"];
/// The most results in a row that a check here may ask for.
const RESULTS_MAX: u32 = 1000;
/// Where gdnsd looks for the files of `extfile`.
const EXTFILE_FOLDER: &str = "/var/lib/gdnsd/extfile/";

/// Reads the hash; what is wrong with single ones is added to `faults`.
pub(super) fn read(
    all: Option<&Value>,
    notes: &mut Vec<Fault>,
    faults: &mut Vec<Fault>,
) -> Result<Services, Fault> {
    let constant = |kind| Service {
        kind,
        interval_seconds: 10,
        timeout_seconds: 5,
        up_after: 20,
        down_after: 10,
    };
    let mut services = BTreeMap::from(
        [("up", Kind::Up(None)), ("down", Kind::Down(None))]
            .map(|(name, kind)| (name.to_owned(), constant(kind))),
    );
    let Some(all) = all else { return Ok(services) };
    for entry in &all.hash("service_types")?.entries {
        match read_one(&entry.value, notes, faults) {
            Ok(service) => drop(services.insert(entry.key.clone(), service)),
            Err(fault) => {
                faults.push(fault);
                // What refers to it is no second fault.
                services.insert(entry.key.clone(), constant(Kind::Up(None)));
            }
        }
    }
    Ok(services)
}

fn read_one(
    value: &Value,
    notes: &mut Vec<Fault>,
    faults: &mut Vec<Fault>,
) -> Result<Service, Fault> {
    let hash = value.hash("a service type")?;
    let plugin =
        hash.get("plugin").ok_or_else(|| value.fault("a service type without 'plugin'"))?;
    let mut number = |key: &str, otherwise: u32, most: u32| {
        let Some(value) = hash.get(key) else { return otherwise };
        let read = value.number::<u32>(key).and_then(|number| {
            let wrong = || value.fault(format!("'{key}' is {number}; allowed: 1 to {most}"));
            (1..=most).contains(&number).then_some(number).ok_or_else(wrong)
        });
        read.unwrap_or_else(|fault| {
            faults.push(fault);
            otherwise
        })
    };
    let interval_seconds = number("interval", 10, 255);
    let mut service = Service {
        kind: Kind::Up(None),
        interval_seconds,
        timeout_seconds: number("timeout", (interval_seconds / 2).max(1), 255),
        up_after: number("up_thresh", 20, 65_535),
        down_after: number("down_thresh", 10, 65_535),
    };
    number("ok_thresh", 10, 65_535);
    let (kind, own) = service.read_kind(value, hash, plugin, notes)?;
    for entry in &hash.entries {
        if !GENERIC.contains(&&*entry.key) && !own.contains(&&*entry.key) {
            let allowed = [&GENERIC[..], own].concat().join(", ");
            faults.push(
                entry.value.fault(format!(
                    "the key '{}' of a service type; allowed: {allowed}",
                    entry.key
                )),
            );
        }
    }
    service.kind = kind;
    service.note_thresholds(hash, notes);
    Ok(service)
}

/// A kind, and the keys that it has.
type KindAndKeys = (Kind, &'static [&'static str]);

impl Service {
    fn read_kind(
        &mut self,
        value: &Value,
        hash: &Hash,
        plugin: &Value,
        notes: &mut Vec<Fault>,
    ) -> Result<KindAndKeys, Fault> {
        let flag = |key: &str| hash.get(key).map_or(Ok(false), |value| value.flag(key));
        Ok(match plugin.text("plugin")? {
            "tcp_connect" => {
                let port = hash.get("port");
                let port = port.ok_or_else(|| value.fault("tcp_connect without 'port'"))?;
                (Kind::Tcp { port: port.number("port")? }, &["port"])
            }
            "http_status" => (read_http(hash)?, &["port", "url_path", "vhost", "ok_codes"]),
            "extmon" => {
                let command = hash.get("cmd").ok_or_else(|| value.fault("extmon without 'cmd'"))?;
                let words = command.texts("cmd")?;
                if !words.first().is_some_and(|program| program.starts_with('/')) {
                    return Err(
                        command.fault("'cmd' has no program; allowed: one with its whole path")
                    );
                }
                self.act_at_once(flag("direct")?);
                if let Some(limit) = hash.get("max_proc") {
                    notes.push(limit.fault(
                        "'max_proc' limited the commands that run together; here 16 of all checks do",
                    ));
                }
                (Kind::Command(words), &["cmd", "direct", "max_proc"])
            }
            "extfile" => {
                let file = hash.get("file").ok_or_else(|| value.fault("extfile without 'file'"))?;
                let path = Path::new(EXTFILE_FOLDER).join(file.text("file")?);
                self.act_at_once(flag("direct")?);
                notes.push(value.fault(format!(
                    "extfile: here /bin/sh and grep look for the state in {} at each interval; TTLs \
                     in the file do not count",
                    path.display()
                )));
                let path = path.display().to_string();
                let is_down_without = flag("def_down")?;
                let def_ttl = hash.get("def_ttl").map(|ttl| ttl.number("def_ttl")).transpose()?;
                // States that were judged elsewhere last as long as the file says.
                let lasts = match flag("direct")? {
                    true => def_ttl,
                    false => Some(u64::from(self.interval_seconds) * u64::from(self.down_after)),
                };
                let keys = &["file", "direct", "def_down", "def_ttl"];
                (Kind::File { path, is_down_without, lasts }, keys)
            }
            "static" => {
                let ttl = hash.get("ttl").map(|ttl| ttl.number("ttl")).transpose()?;
                let state = hash.get("state");
                match state.map_or(Ok("UP"), |state| state.text("state"))? {
                    "UP" => (Kind::Up(ttl), &["state", "ttl"]),
                    "DOWN" => (Kind::Down(ttl), &["state", "ttl"]),
                    other => {
                        let state = state.unwrap_or(value);
                        return Err(state.fault(format!("the state '{other}'; allowed: UP, DOWN")));
                    }
                }
            }
            "null" => {
                let lasts = u64::from(self.interval_seconds) * u64::from(self.up_after);
                (Kind::Down(Some(lasts)), &[])
            }
            other => {
                return Err(plugin.fault(format!(
                    "the monitor '{other}' has no counterpart; allowed: tcp_connect, http_status, \
                     extmon, extfile, static, null"
                )));
            }
        })
    }

    /// Without thresholds, where something else has judged already.
    fn act_at_once(&mut self, is_direct: bool) {
        if is_direct {
            (self.up_after, self.down_after) = (1, 1);
        }
    }

    /// Holds thresholds within what a check may have.
    fn note_thresholds(&mut self, hash: &Hash, notes: &mut Vec<Fault>) {
        if !self.is_watched() {
            return;
        }
        if let Some(ok) = hash.get("ok_thresh") {
            notes.push(ok.fault(
                "'ok_thresh' good answers made gdnsd forget failures; here one does, and down_after \
                 counts failures in a row",
            ));
        }
        for (key, own) in [("up_thresh", &mut self.up_after), ("down_thresh", &mut self.down_after)]
        {
            if let Some(value) = hash.get(key).filter(|_| *own > RESULTS_MAX) {
                notes.push(value.fault(format!(
                    "'{key}' was {own}; here it is {RESULTS_MAX}, the largest allowed"
                )));
                *own = RESULTS_MAX;
            }
        }
    }
}

fn read_http(hash: &Hash) -> Result<Kind, Fault> {
    let text =
        |key: &str| hash.get(key).map(|value| value.text(key).map(str::to_owned)).transpose();
    let statuses = match hash.get("ok_codes") {
        None => vec![200],
        Some(codes) => {
            codes.elements().iter().map(|code| code.number("ok_codes")).collect::<Result<_, _>>()?
        }
    };
    Ok(Kind::Http {
        port: hash.get("port").map_or(Ok(80), |port| port.number("port"))?,
        path: text("url_path")?.unwrap_or_else(|| "/".to_owned()),
        name: text("vhost")?,
        statuses,
    })
}

impl Service {
    /// Whether its state ever changes.
    pub(super) fn is_watched(&self) -> bool {
        !matches!(self.kind, Kind::Up(_) | Kind::Down(_))
    }

    /// Whether it is always down.
    pub(super) fn is_down(&self) -> bool {
        matches!(self.kind, Kind::Down(_))
    }

    /// How long its state stays as it is at least; `None`: for ever.
    pub(super) fn steady_seconds(&self) -> Option<u64> {
        match self.kind {
            Kind::Up(seconds) | Kind::Down(seconds) => seconds,
            Kind::File { lasts, .. } => lasts,
            _ => Some(u64::from(self.interval_seconds) * u64::from(self.down_after)),
        }
    }

    /// A check of ours as inline TOML; `None` for what never changes.
    pub(super) fn check(&self, target: &str) -> Option<String> {
        let host = if target.contains(':') { format!("[{target}]") } else { target.to_owned() };
        let mut text = match &self.kind {
            Kind::Up(_) | Kind::Down(_) => return None,
            Kind::Tcp { port } => format!("{{ url = {}", quoted(&format!("tcp://{host}:{port}"))),
            Kind::Http { port, path, name, statuses } => {
                let mut text =
                    format!("{{ url = {}", quoted(&format!("http://{host}:{port}{path}")));
                if let Some(name) = name {
                    let _ = write!(text, ", name = {}", quoted(name));
                }
                let _ = write!(text, ", status = {statuses:?}");
                text
            }
            Kind::File { path, is_down_without, .. } => {
                let words = ["-c", &search(path, target, *is_down_without)];
                format!("{{ url = \"exec:/bin/sh\", args = {}", quoted_list(&words))
            }
            Kind::Command(command) => {
                let filled: Vec<_> =
                    command.iter().map(|word| word.replace("%%ITEM%%", target)).collect();
                let (program, arguments) = filled.split_first()?;
                let url = quoted(&format!("exec:{program}"));
                format!("{{ url = {url}, args = {}", quoted_list(arguments))
            }
        };
        let Service { interval_seconds, timeout_seconds, up_after, down_after, .. } = self;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            ", interval_seconds = {interval_seconds}, timeout_seconds = {timeout_seconds}, \
             up_after = {up_after}, down_after = {down_after} }}"
        );
        Some(text)
    }
}

/// A command of a shell that succeeds while a file of `extfile` says that the target is up.
fn search(path: &str, target: &str, is_down_without: bool) -> String {
    let escaped: String = target
        .chars()
        .flat_map(|next| {
            let is_plain = next.is_ascii_alphanumeric() || matches!(next, ':' | '-' | '_');
            let before = if is_plain { None } else { Some('\\') };
            before.into_iter().chain([next])
        })
        .collect();
    let (not, state) = if is_down_without { ("", "UP") } else { ("! ", "DOWN") };
    let blank = "[[:space:]]*";
    let pattern =
        format!("(^|[[:space:],;{{]){blank}\"?{escaped}\\.?\"?{blank}=>?{blank}\"?{state}");
    let path = path.replace('\'', "'\\''");
    let pattern = pattern.replace('\'', "'\\''");
    format!("{not}grep -Eq -e '{pattern}' -- '{path}'")
}
