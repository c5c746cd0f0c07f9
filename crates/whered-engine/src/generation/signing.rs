//! What a zone is signed with: its keys, the owners of pools in it, and the zone as it was before.
//!
//! Not for: files of keys (`zones/keys.rs`), signing (`whered-dns`), when (`engine/signing.rs`).

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use whered_dns::{Name, RecordType, SigningContext, Zone};

use crate::error::EngineError;
use crate::generation::Generation;
use crate::generation::setup::{Setup, ZoneSource};
use crate::zones::keys::KeyDirectory;

/// How a zone is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignSource {
    /// The directory of its keys; empty when nobody has named one.
    pub keys: PathBuf,
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
        let zones = current.into_iter().flat_map(|generation| generation.zones().zones());
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
        for (owner, types) in self.pool_owners.get(origin).into_iter().flatten() {
            context.add_pool_owner(owner, types.iter().copied());
        }
        if let Some(&zone) = self.before.get(origin) {
            context.reuse(Arc::clone(zone));
        }
        Ok(Some(context))
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
