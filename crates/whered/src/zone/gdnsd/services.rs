//! `service_types` of gdnsd as checks of ours.
//!
//! gdnsd forgets a failure after `ok_thresh` good answers, we count failures in a row: its
//! `down_thresh` becomes our `down_after`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

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
    Up,
    Down,
    Tcp { port: u16 },
    Http { port: u16, path: String, name: Option<String>, statuses: Vec<u16> },
    Command(Vec<String>),
}

/// All of them by name.
pub(super) type Services = BTreeMap<String, Service>;

const GENERIC: [&str; 6] =
    ["plugin", "up_thresh", "ok_thresh", "down_thresh", "interval", "timeout"];

/// Reads the hash; what is wrong with single ones is added to `faults`.
pub(super) fn read(all: Option<&Value>, faults: &mut Vec<Fault>) -> Result<Services, Fault> {
    let constant = |kind| Service {
        kind,
        interval_seconds: 10,
        timeout_seconds: 5,
        up_after: 20,
        down_after: 10,
    };
    let mut services = BTreeMap::from(
        [("up", Kind::Up), ("down", Kind::Down)]
            .map(|(name, kind)| (name.to_owned(), constant(kind))),
    );
    let Some(all) = all else { return Ok(services) };
    for entry in &all.hash("service_types")?.entries {
        match read_one(&entry.value) {
            Ok(service) => drop(services.insert(entry.key.clone(), service)),
            Err(fault) => {
                faults.push(fault);
                // What refers to it is no second fault.
                services.insert(entry.key.clone(), constant(Kind::Up));
            }
        }
    }
    Ok(services)
}

fn read_one(value: &Value) -> Result<Service, Fault> {
    let hash = value.hash("a service type")?;
    let plugin =
        hash.get("plugin").ok_or_else(|| value.fault("a service type without 'plugin'"))?;
    let number = |key: &str, otherwise: u32| match hash.get(key) {
        Some(value) => value.number::<u32>(key),
        None => Ok(otherwise),
    };
    let interval_seconds = number("interval", 10)?;
    let mut service = Service {
        kind: Kind::Up,
        interval_seconds,
        timeout_seconds: number("timeout", (interval_seconds / 2).max(1))?,
        up_after: number("up_thresh", 20)?,
        down_after: number("down_thresh", 10)?,
    };
    let (kind, own): (Kind, &[&str]) = match plugin.text("plugin")? {
        "tcp_connect" => {
            let port = hash.get("port").ok_or_else(|| value.fault("tcp_connect without 'port'"))?;
            (Kind::Tcp { port: port.number("port")? }, &["port"])
        }
        "http_status" => (read_http(hash)?, &["port", "url_path", "vhost", "ok_codes"]),
        "extmon" => {
            let command = hash.get("cmd").ok_or_else(|| value.fault("extmon without 'cmd'"))?;
            if hash.get("direct").map_or(Ok(false), |direct| direct.flag("direct"))? {
                (service.up_after, service.down_after) = (1, 1);
            }
            (Kind::Command(command.texts("cmd")?), &["cmd", "direct", "max_proc"])
        }
        "static" => match hash.get("state").map_or(Ok("UP"), |state| state.text("state"))? {
            "UP" => (Kind::Up, &["state", "ttl"]),
            _ => (Kind::Down, &["state", "ttl"]),
        },
        "null" => (Kind::Down, &[]),
        other => {
            return Err(plugin.fault(format!(
                "the monitor '{other}' has no counterpart; allowed: tcp_connect, http_status, \
                 extmon, static, null"
            )));
        }
    };
    let known = |key: &str| GENERIC.contains(&key) || own.contains(&key);
    if let Some(entry) = hash.entries.iter().find(|entry| !known(&entry.key)) {
        return Err(entry.value.fault(format!("the key '{}' of a service type", entry.key)));
    }
    service.kind = kind;
    Ok(service)
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
        matches!(self.kind, Kind::Tcp { .. } | Kind::Http { .. } | Kind::Command(_))
    }

    /// Whether it is always down.
    pub(super) fn is_down(&self) -> bool {
        matches!(self.kind, Kind::Down)
    }

    /// How long something that is up stays up at least.
    pub(super) fn steady_seconds(&self) -> u64 {
        u64::from(self.interval_seconds) * u64::from(self.down_after)
    }

    /// A check of ours as inline TOML; `None` for what never changes.
    pub(super) fn check(&self, target: &str) -> Option<String> {
        let host = if target.contains(':') { format!("[{target}]") } else { target.to_owned() };
        let mut text = match &self.kind {
            Kind::Up | Kind::Down => return None,
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
