//! `whered zone key`: makes, lists and replaces the keys that sign a zone.
//!
//! Not for: signing, which the server does; the states of keys, which it leads on (`whered-engine`).
//! No private key is printed.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde_json::{Value, json};
use whered_dns::{
    DS_TTL_SECONDS, KeyAlgorithm, KeyId, KeyStates, KeyUse, Name, Rollover, RolloverStep,
    SigningKey,
};
use whered_engine::{KeyDirectory, ZoneKeys};

use crate::outcome::{Failure, Outcome};
use crate::serve::read_config;

/// What is done with keys. It is no command of its own, since completions of fish have two levels.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyAction {
    /// Make the first key of a zone
    Create,
    /// List the keys and how far a rollover is
    List,
    /// Print the DS records that the parent zone is to have
    Ds,
    /// Replace a zone's key by a new one, step by step
    Rollover,
}

/// A zone, where its keys are, and what is done with them.
#[derive(Args)]
pub(crate) struct KeyArguments {
    /// What to do
    #[arg(value_enum)]
    action: KeyAction,
    /// The zone's name
    #[arg(value_name = "ZONE")]
    zone: String,
    #[command(flatten)]
    location: KeyLocation,
    /// For 'create': how the key signs, ecdsap256sha256 or ed25519
    #[arg(long, value_name = "NAME")]
    algorithm: Option<KeyAlgorithm>,
    /// For 'rollover': all servers of the parent zone have the new DS, and not the old one
    #[arg(long)]
    ds_seen: bool,
    /// The TTL of the old DS, a day by default
    #[arg(long, value_name = "SECONDS", requires = "ds_seen")]
    ds_ttl: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct KeyLocation {
    /// The directory of its keys
    #[arg(long, value_name = "DIR")]
    keys: Option<PathBuf>,
    /// A configuration file that signs the zone
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Does it.
pub(crate) fn run(arguments: &KeyArguments) -> Result<Outcome, Failure> {
    if arguments.algorithm.is_some() && arguments.action != KeyAction::Create {
        return Err(Failure::new("--algorithm is for 'create'; a rollover keeps the algorithm"));
    }
    if arguments.ds_seen && arguments.action != KeyAction::Rollover {
        return Err(Failure::new("--ds-seen is for 'rollover'"));
    }
    match arguments.action {
        KeyAction::Create => create(arguments),
        KeyAction::List => list(arguments),
        KeyAction::Ds => ds(arguments),
        KeyAction::Rollover => rollover(arguments),
    }
}

impl KeyArguments {
    fn open(&self) -> Result<(Name, KeyDirectory), Failure> {
        let parsed: Result<Name, _> = self.zone.parse();
        let zone =
            parsed.map_err(|error| Failure::new(format!("zone '{}': {error}", self.zone)))?;
        let keys = match (&self.location.keys, &self.location.config) {
            (Some(keys), _) => keys.clone(),
            (None, Some(file)) => keys_of_config(file, &zone)?,
            (None, None) => return Err(Failure::new("--keys or --config is needed")),
        };
        Ok((zone.clone(), KeyDirectory::new(keys, zone)))
    }
}

/// The directory that a configuration names for a zone's keys.
fn keys_of_config(file: &Path, zone: &Name) -> Result<PathBuf, Failure> {
    let setup = read_config(file)?.into_setup();
    let is_it = |name: &str| name.parse::<Name>().is_ok_and(|name| name == *zone);
    let source = setup.zones.into_iter().find(|source| is_it(&source.name));
    let Some(source) = source else {
        return Err(Failure::file(file, format!("no [[zone]] with the name {zone}")));
    };
    match source.sign.map(|sign| sign.keys) {
        Some(keys) if !keys.as_os_str().is_empty() => Ok(keys),
        Some(_) => {
            Err(Failure::file(file, format!("the zone {zone} has neither 'keys' nor a data_dir")))
        }
        None => Err(Failure::file(file, format!("the zone {zone} has no sign = true"))),
    }
}

fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn create(arguments: &KeyArguments) -> Result<Outcome, Failure> {
    let (zone, directory) = arguments.open()?;
    if directory.exists() {
        let known = directory.read().map_err(Failure::new)?;
        if let Some((path, _)) = known.keys.first() {
            let zone = &arguments.zone;
            let what = format!("a key of {zone}; 'whered zone key rollover' replaces it");
            return Err(Failure::file(path, what));
        }
    }
    let algorithm = arguments.algorithm.unwrap_or(KeyAlgorithm::EcdsaP256Sha256);
    let key = directory.create(algorithm, None).map_err(Failure::new)?;
    print_key(arguments, &directory, &zone, &key)
}

fn print_key(
    arguments: &KeyArguments,
    directory: &KeyDirectory,
    zone: &Name,
    key: &SigningKey,
) -> Result<Outcome, Failure> {
    let path = directory.path().join(format!("{}.key", key.file_stem(zone)));
    let mut out = io::stdout();
    if arguments.json {
        let (algorithm, tag) = (key.algorithm().number(), key.tag());
        let file = path.to_string_lossy();
        let object =
            json!({ "zone": zone.to_string(), "algorithm": algorithm, "tag": tag, "file": file });
        writeln!(out, "{object}")?;
    } else {
        writeln!(out, "{}", path.display())?;
    }
    Ok(Outcome::Found)
}

/// What a key does; none for a retired one.
fn key_use(keys: &ZoneKeys, key: &SigningKey) -> Option<KeyUse> {
    let is_alike = |other: &SigningKey| other.algorithm() == key.algorithm();
    let mut all = keys.keys.iter().map(|(_, key)| key);
    let has_data_key = all.any(|other| is_alike(other) && !other.is_entry_point());
    keys.states.key_use(KeyId::of(key), key.is_entry_point(), has_data_key)
}

fn list(arguments: &KeyArguments) -> Result<Outcome, Failure> {
    let (zone, directory) = arguments.open()?;
    let keys = directory.read().map_err(Failure::new)?;
    let mut out = io::stdout().lock();
    for (path, key) in &keys.keys {
        let does = match key_use(&keys, key) {
            None => "retired",
            Some(KeyUse { signs_keys: true, signs_data: true, .. }) => "signs all",
            Some(KeyUse { signs_keys: true, .. }) => "signs keys",
            Some(_) => "signs data",
        };
        let is_for_parent = key_use(&keys, key).is_some_and(|used| used.is_for_parent);
        if arguments.json {
            let object = json!({
                "zone": zone.to_string(),
                "algorithm": key.algorithm().number(),
                "tag": key.tag(),
                "use": does,
                "ds_wanted": is_for_parent,
                "file": path.to_string_lossy(),
                "rollover": rollover_json(&keys.states),
            });
            writeln!(out, "{object}")?;
            continue;
        }
        let parent = if is_for_parent { ", DS in the parent zone" } else { "" };
        let (tag, algorithm) = (key.tag(), key.algorithm().mnemonic());
        writeln!(out, "{tag} {algorithm}: {does}{parent}: {}", path.display())?;
    }
    if let (Some(rollover), false) = (&keys.states.rollover, arguments.json) {
        writeln!(out, "{}", rollover_text(rollover))?;
    }
    Ok(if keys.keys.is_empty() { Outcome::NotFound } else { Outcome::Found })
}

fn rollover_json(states: &KeyStates) -> Option<Value> {
    let rollover = states.rollover?;
    Some(json!({
        "old_tag": rollover.old.tag,
        "new_tag": rollover.new.tag,
        "step": rollover.step.word(),
        "since": rollover.times.map(|times| times.since),
        "until": rollover.times.map(|times| times.until),
    }))
}

fn rollover_text(rollover: &Rollover) -> String {
    let Rollover { old, new, step, times } = rollover;
    let start = format!("rollover from {} to {}: step '{}'", old.tag, new.tag, step.word());
    let waits = match (times, step) {
        (None, _) => "waits for a server that serves it".to_owned(),
        (Some(_), RolloverStep::Sign) => {
            "waits for the new DS in the parent zone and for --ds-seen".to_owned()
        }
        (Some(times), _) => format!("until {}", time(times.until)),
    };
    format!("{start}, {waits}")
}

fn time(seconds: u64) -> String {
    let time = Timestamp::from_second(seconds.try_into().unwrap_or(i64::MAX));
    time.map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

fn ds(arguments: &KeyArguments) -> Result<Outcome, Failure> {
    let (zone, directory) = arguments.open()?;
    let keys = directory.read().map_err(Failure::new)?;
    let mut out = io::stdout().lock();
    let mut outcome = Outcome::NotFound;
    for (_, key) in &keys.keys {
        if !key_use(&keys, key).is_some_and(|used| used.is_for_parent) {
            continue;
        }
        let (head, digest) = key.ds(&zone).split_at_checked(4).map_or_else(
            || (Vec::new(), Vec::new()),
            |(head, digest)| (head.to_vec(), digest.to_vec()),
        );
        let mut text = String::new();
        for byte in &digest {
            write!(text, "{byte:02X}").map_err(Failure::new)?;
        }
        let kind = head.last().copied().unwrap_or_default();
        let (tag, algorithm) = (key.tag(), key.algorithm().number());
        if arguments.json {
            let object = json!({
                "zone": zone.to_string(),
                "tag": tag,
                "algorithm": algorithm,
                "digest_type": kind,
                "digest": text,
            });
            writeln!(out, "{object}")?;
        } else {
            writeln!(out, "{zone} IN DS {tag} {algorithm} {kind} {text}")?;
        }
        outcome = Outcome::Found;
    }
    Ok(outcome)
}

fn rollover(arguments: &KeyArguments) -> Result<Outcome, Failure> {
    let (zone, directory) = arguments.open()?;
    let keys = directory.read().map_err(Failure::new)?;
    if arguments.ds_seen {
        let mut states = keys.states;
        let taken =
            states.parent_has_new(now_seconds(), arguments.ds_ttl.unwrap_or(DS_TTL_SECONDS));
        taken.map_err(|error| Failure::file(&directory.states_path(), error))?;
        directory.write_states(&states).map_err(Failure::new)?;
        match (&states.rollover, arguments.json) {
            (Some(_), true) => {
                let object = json!({
                    "zone": zone.to_string(),
                    "rollover": rollover_json(&states),
                });
                writeln!(io::stdout(), "{object}")?;
            }
            (Some(rollover), false) => {
                writeln!(io::stdout(), "{}", rollover_text(rollover))?;
            }
            (None, _) => {}
        }
        return Ok(Outcome::Found);
    }
    let used: Vec<&SigningKey> =
        keys.keys.iter().map(|(_, key)| key).filter(|key| key_use(&keys, key).is_some()).collect();
    if let Some(rollover) = &keys.states.rollover {
        return Err(Failure::file(&directory.states_path(), rollover_text(rollover)));
    }
    let [old] = used[..] else {
        let what = format!("{} keys of {zone} in use; allowed: one that signs all", used.len());
        return Err(Failure::file(directory.path(), what));
    };
    let key = directory.create(old.algorithm(), Some(KeyId::of(old))).map_err(Failure::new)?;
    print_key(arguments, &directory, &zone, &key)
}
