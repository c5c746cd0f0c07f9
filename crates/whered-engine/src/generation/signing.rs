//! What a zone is signed with: its keys, the owners of pools in it, and the zone as it was before.
//!
//! Not for: files of keys (`zones/keys.rs`), signing (`whered-dns`), when (`engine/signing.rs`).

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use whered_dns::transfer::is_newer;
use whered_dns::{DenialMethod, Name, RecordType, SigningContext, Zone, Zones};

use crate::error::EngineError;
use crate::generation::Generation;
use crate::generation::setup::{Setup, ZoneSource};
use crate::zones::keys::KeyDirectory;

/// How a zone is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignSource {
    /// The directory of its keys; empty when nobody has named one.
    pub keys: PathBuf,
    /// Of a zone that other servers get, the file that keeps its serial, which rises whenever it is
    /// signed; empty: nothing is kept.
    pub serial: Option<PathBuf>,
    /// How absence is proven.
    pub denial: DenialMethod,
}

/// What zones of a setup are signed with.
pub(crate) struct Signer<'a> {
    /// By zone: the names at which pools answer, with the types of their answers.
    pool_owners: HashMap<Name, Vec<(Name, Vec<RecordType>)>>,
    /// The zones that are signed here, as they were before.
    before: HashMap<&'a Name, &'a Arc<Zone>>,
    now_seconds: u64,
}

impl<'a> Signer<'a> {
    /// For the zones of a setup; `current` has them as they were before.
    pub(crate) fn new(
        setup: &Setup,
        current: Option<&'a Generation>,
        now_seconds: u64,
    ) -> Signer<'a> {
        Signer::after(setup, current.map(Generation::zones), now_seconds)
    }

    /// For the zones of a setup, which `before` has as they were.
    pub(crate) fn after(setup: &Setup, before: Option<&'a Zones>, now_seconds: u64) -> Signer<'a> {
        let mut pool_owners: HashMap<Name, Vec<(Name, Vec<RecordType>)>> = HashMap::new();
        if setup.zones.iter().all(|zone| zone.sign.is_none()) {
            return Signer { pool_owners, before: HashMap::new(), now_seconds };
        }
        for zone in &setup.zones {
            if let Ok(origin) = zone.name.parse() {
                pool_owners.insert(origin, Vec::new());
            }
        }
        for pool in &setup.pools {
            let mut types = Vec::new();
            for site in &pool.sites {
                types.extend(site.details.alias.iter().map(|_| RecordType::CNAME));
                types.extend(site.details.records.iter().map(|(of, _)| *of));
            }
            types.sort_unstable();
            types.dedup();
            for owner in pool.owners.iter().filter_map(|owner| owner.parse::<Name>().ok()) {
                // The deepest zone around it has it.
                let mut at = Some(owner.clone());
                while let Some(name) = at {
                    if let Some(owners) = pool_owners.get_mut(&name) {
                        owners.push((owner, types.clone()));
                        break;
                    }
                    at = name.parent();
                }
            }
        }
        for alias in &setup.aliases {
            let mut at = Some(alias.owner.clone());
            while let Some(name) = at {
                if let Some(owners) = pool_owners.get_mut(&name) {
                    owners.push((alias.owner.clone(), Vec::new()));
                    break;
                }
                at = name.parent();
            }
        }
        let zones = before.into_iter().flat_map(Zones::zones);
        let signed = zones.filter(|zone| zone.is_signed_here());
        let before = signed.map(|zone| (zone.origin(), zone)).collect();
        Signer { pool_owners, before, now_seconds }
    }

    /// What a zone is signed with; `None` for one that is not signed here.
    ///
    /// # Errors
    /// One line with the place: keys that are missing, unreadable, of another zone, open to others.
    pub(crate) fn context(
        &self,
        source: &ZoneSource,
        origin: &Name,
    ) -> Result<Option<SigningContext>, EngineError> {
        let Some(sign) = &source.sign else { return Ok(None) };
        let directory = key_directory(source, origin.clone())?;
        let keys = directory.read()?;
        let (used, states) = (keys.keys.into_iter().map(|(_, key)| key).collect(), keys.states);
        let context = SigningContext::new(used, &states, self.now_seconds);
        let mut context = context.map_err(|error| {
            let (path, zone) = (sign.keys.display(), &source.name);
            EngineError::new(format!(
                "{path}: found {error}; 'whered zone key create {zone} --keys {path}' makes one"
            ))
        })?;
        context.set_denial(sign.denial);
        for (owner, types) in self.pool_owners.get(origin).into_iter().flatten() {
            context.add_pool_owner(owner, types.iter().copied());
        }
        let before = self.before.get(origin).copied();
        if let Some(path) = &sign.serial {
            let (kept, before) = (read_serial(path)?, before.map(|zone| zone.serial()));
            let newest = kept.zip(before).map(|(kept, before)| match is_newer(before, kept) {
                true => before,
                false => kept,
            });
            context.raise_serial(newest.or(kept).or(before));
        }
        if let Some(zone) = before {
            context.reuse(Arc::clone(zone));
        }
        Ok(Some(context))
    }
}

/// The serial that a zone had when it was signed the last time.
fn read_serial(path: &Path) -> Result<Option<u32>, EngineError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(EngineError::new(format!("{}: {error}", path.display()))),
    };
    text.trim_end().parse().map(Some).map_err(|_| {
        let (path, found) = (path.display(), text.lines().next().unwrap_or_default());
        let found: String = found.chars().take(40).collect();
        EngineError::new(format!(
            "{path}: found '{}'; allowed: the serial that the signed zone had last",
            found.escape_debug()
        ))
    })
}

/// Keeps the serial of a zone that was signed, before anybody is told of it.
///
/// # Errors
/// It cannot be written.
pub(crate) fn keep_serial(source: &ZoneSource, zone: &Zone) -> Result<(), EngineError> {
    let path = source.sign.as_ref().and_then(|sign| sign.serial.as_ref());
    let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) else { return Ok(()) };
    if !zone.is_signed_here() {
        return Ok(());
    }
    let write = || {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let new = path.with_extension("serial.new");
        let mut file = File::create(&new)?;
        file.write_all(format!("{}\n", zone.serial()).as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(|error: io::Error| {
        EngineError::new(format!("the serial of a signed zone, {}: {error}", path.display()))
    })
}

/// What is served of a zone that other servers gave: signed if that is asked.
///
/// # Errors
/// Keys as in [`Signer::context`]; a zone that has signatures already.
pub(crate) fn served_secondary(
    source: &ZoneSource,
    zone: &Arc<Zone>,
    signer: &Signer<'_>,
) -> Result<Arc<Zone>, EngineError> {
    match signer.context(source, zone.origin())? {
        Some(context) if !zone.is_unavailable() => {
            let signed = zone.sign("what its primary gave", &context);
            let name = &source.name;
            signed
                .map(Arc::new)
                .map_err(|error| EngineError::new(format!("zone '{name}': {error}")))
        }
        _ => Ok(Arc::clone(zone)),
    }
}

/// The directory of a zone's keys.
///
/// # Errors
/// Nobody has named one.
pub(crate) fn key_directory(
    source: &ZoneSource,
    origin: Name,
) -> Result<KeyDirectory, EngineError> {
    match &source.sign {
        Some(sign) if !sign.keys.as_os_str().is_empty() => {
            Ok(KeyDirectory::new(&sign.keys, origin))
        }
        _ => {
            let zone = &source.name;
            Err(EngineError::new(format!(
                "zone '{zone}': found sign = true without a directory of keys; allowed: keys = \
                 \"DIR\" in its [[zone]], or a data_dir, below which keys/{zone} is that directory"
            )))
        }
    }
}
