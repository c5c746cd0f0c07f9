//! Catalog zones (RFC 9432): the zones of catalogs that are followed, and catalogs made of our own
//! zones.
//!
//! Not for: the form of catalogs (`whered_dns::catalog`), which catalog gives a zone (`members`),
//! transferring catalogs and their members (`secondary`, `primary`).
//!
//! ```text
//! start, reload, a newer catalog ─> members of all catalogs ─> Engine::serve_members
//!                                          └─ copies of those that are gone are removed
//! start, reload ─> our zones ─> catalog, serial raised where it differs ─> Engine::serve_zone
//! ```
//!
//! Invariants: a catalog that cannot be read leaves its members as they are. At the same time: one
//! change of members at a time (`changing_members`). Cost: linear in all zones.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use whered_dns::catalog::{self, CatalogMember};
use whered_dns::transfer::is_newer;
use whered_dns::{Name, Zone};
use whered_engine::{
    AliasSource, CatalogMembership, EngineError, Generation, MemberZone, Pool, Setup, ZoneSource,
    sync,
};

use super::members::{CatalogEntries, ChoiceContext, ChosenMember, choose};
use super::options::{
    CatalogContent, CatalogOptions, FollowedCatalog, MemberSettings, PoolsInTransfer,
    TransferOptions, ZoneTransfers,
};
use super::times::{now_millis, now_seconds};
use super::{Transfers, copies};

/// What is known of catalogs and their members.
#[derive(Default)]
pub(super) struct CatalogState {
    /// What each catalog said last.
    read: HashMap<Name, (Arc<Zone>, Arc<Vec<CatalogMember>>)>,
    /// The members that are served.
    members: Vec<ChosenMember>,
    /// Remarks that were made already.
    remarks: HashSet<String>,
    /// Copies that nobody needs were looked for.
    has_begun: bool,
}

impl Transfers {
    /// Takes the members of the catalogs as these are now.
    pub(super) fn apply_catalogs(&self) {
        let _changing = sync::lock(&self.changing_members);
        let mut state = sync::lock(&self.catalogs);
        let file = Arc::clone(&sync::lock(&self.file_options));
        self.make_catalogs(&file);
        let generation = self.engine.generation();
        let is_start = !std::mem::replace(&mut state.has_begun, true);
        self.read_catalogs(&file, &generation, &mut state);
        let (members, mut remarks) = self.choose_members(&file, &generation, &state, is_start);
        let is_changed = members != state.members;
        let served = match is_changed {
            true => self.serve_members(&members, &state.members, is_start),
            false => Ok(()),
        };
        match served {
            Ok(()) => {
                if is_changed || is_start {
                    self.remove_copies(&file, &state, &members, is_start);
                }
                if is_changed {
                    tracing::info!("catalogs have {} member zones", members.len());
                }
                state.members = members;
                state.members.iter_mut().for_each(|member| member.moved_from = None);
            }
            Err(error) => {
                remarks.push(format!("the members of catalogs stay as they are: {error}"));
            }
        }
        for remark in &remarks {
            if !state.remarks.contains(remark) {
                tracing::warn!("{remark}");
            }
        }
        state.remarks = remarks.into_iter().collect();
        let zones = state.members.iter().filter_map(|member| {
            let settings = settings(&file, member)?;
            Some(transfers_of(member, settings))
        });
        let zones: Vec<ZoneTransfers> = file.zones.iter().cloned().chain(zones).collect();
        self.configure_zones(&file, &zones);
    }

    /// Takes another configuration's setup by `reload`, with the members that stay. No member comes
    /// or goes meanwhile.
    pub(crate) fn reload_with_members<R>(
        &self,
        options: &TransferOptions,
        mut setup: Setup,
        reload: impl FnOnce(Setup) -> R,
    ) -> R {
        let _changing = sync::lock(&self.changing_members);
        self.add_members(options, &mut setup);
        reload(setup)
    }

    fn add_members(&self, options: &TransferOptions, setup: &mut Setup) {
        let state = sync::lock(&self.catalogs);
        let configured = configured_names(setup.zones.iter());
        let aliases = alias_owners(&setup.aliases);
        let owners = setup.pools.iter().map(|pool| (&*pool.name, &pool.owners[..]));
        let owners = owners.chain(aliases.iter().map(|(name, owners)| (&**name, &owners[..])));
        let above_pools = names_above_pools(owners, &configured);
        let stays = |member: &&ChosenMember| {
            let is_followed = settings(options, member).is_some();
            let zone = &member.zone;
            is_followed && !configured.contains(zone) && !above_pools.contains_key(zone)
        };
        let staying = state.members.iter().filter(stays);
        setup.zones.extend(staying.map(|member| self.source_of(&member.zone, &member.membership)));
    }

    /// How many members each catalog has that is followed.
    pub(crate) fn catalog_members(&self) -> Vec<(Name, usize)> {
        let mut counts: HashMap<Name, usize> = HashMap::new();
        let file = Arc::clone(&sync::lock(&self.file_options));
        for (catalog, _) in followed(&file) {
            counts.insert(catalog.origin.clone(), 0);
        }
        for member in &sync::lock(&self.catalogs).members {
            *counts.entry(member.membership.catalog.clone()).or_default() += 1;
        }
        counts.into_iter().collect()
    }

    /// Reads each catalog that has changed. One that is not there, or cannot be read, stays as it
    /// was.
    fn read_catalogs(
        &self,
        file: &TransferOptions,
        generation: &Generation,
        state: &mut CatalogState,
    ) {
        state.read.retain(|name, _| followed(file).any(|(catalog, _)| catalog.origin == *name));
        for (catalog, options) in followed(file) {
            let Some(zone) = generation.zones().zone(&catalog.origin) else { continue };
            let known = state.read.get(&catalog.origin);
            if zone.is_unavailable() || known.is_some_and(|(old, _)| Arc::ptr_eq(old, zone)) {
                continue;
            }
            match catalog::members(zone, options.members_max) {
                Ok(members) => {
                    let read = (Arc::clone(zone), Arc::new(members));
                    state.read.insert(catalog.origin.clone(), read);
                }
                Err(error) => tracing::error!("{error}; its members stay as they are"),
            }
        }
    }

    fn choose_members(
        &self,
        file: &TransferOptions,
        generation: &Generation,
        state: &CatalogState,
        is_start: bool,
    ) -> (Vec<ChosenMember>, Vec<String>) {
        let sources = self.engine.zone_sources();
        let configured = configured_names(sources.iter());
        let owners =
            generation.pools().iter().map(|pool: &Arc<Pool>| (&*pool.name, &pool.owners[..]));
        let aliases = alias_owners(&self.engine.alias_sources());
        let owners = owners.chain(aliases.iter().map(|(name, owners)| (&**name, &owners[..])));
        let above_pools = names_above_pools(owners, &configured);
        let before = state.members.iter();
        let before =
            before.map(|member| (member.zone.clone(), member.membership.clone())).collect();
        let has_copy = |zone: &Name, membership: &CatalogMembership| {
            is_start && self.data_dir.is_some() && self.source_of(zone, membership).path.exists()
        };
        let known = ChoiceContext {
            before: &before,
            configured: &configured,
            above_pools: &above_pools,
            has_copy: &has_copy,
        };
        let listed = followed(file).filter_map(|(catalog, _)| {
            let (_, members) = state.read.get(&catalog.origin)?;
            Some(CatalogEntries { catalog: &catalog.origin, members })
        });
        choose(&listed.collect::<Vec<_>>(), &known)
    }

    fn serve_members(
        &self,
        members: &[ChosenMember],
        before: &[ChosenMember],
        is_start: bool,
    ) -> Result<(), EngineError> {
        let before: HashSet<(&Name, &CatalogMembership)> =
            before.iter().map(|member| (&member.zone, &member.membership)).collect();
        let zones = members.iter().map(|member| {
            let source = self.source_of(&member.zone, &member.membership);
            let was_there = before.contains(&(&member.zone, &member.membership));
            let has_moved = member.moved_from.as_ref().is_some_and(|from| {
                let old = self.source_of(&member.zone, from);
                before.contains(&(&member.zone, from)) && !was_there && {
                    move_copy(&old.path, &source.path);
                    true
                }
            });
            if !is_start && !was_there && !has_moved {
                // What is left of one that had this name and id before.
                remove(&source.path);
            }
            MemberZone { source, keeps_zone: was_there || has_moved }
        });
        self.engine.serve_members(zones.collect())
    }

    /// Removes the copies of zones that are no members any more; at a start also those that an
    /// earlier process left behind.
    fn remove_copies(
        &self,
        file: &TransferOptions,
        state: &CatalogState,
        members: &[ChosenMember],
        is_start: bool,
    ) {
        let Some(data_dir) = &self.data_dir else { return };
        let paths: HashSet<_> = members
            .iter()
            .map(|member| self.source_of(&member.zone, &member.membership).path)
            .collect();
        for member in &state.members {
            let path = self.source_of(&member.zone, &member.membership).path;
            if !paths.contains(&path) {
                remove(&path);
            }
        }
        // Without the members of a catalog, all of its copies would seem to be left over.
        let read = followed(file).filter(|(catalog, _)| state.read.contains_key(&catalog.origin));
        for (catalog, _) in read.filter(|_| is_start) {
            let folder = copies::members_folder(data_dir, &catalog.origin);
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let is_copy = path.extension().is_some_and(|end| end == "zone" || end == "new");
                if is_copy && !paths.contains(&path) {
                    remove(&path);
                }
            }
        }
    }

    /// A member as the engine loads it.
    fn source_of(&self, zone: &Name, membership: &CatalogMembership) -> ZoneSource {
        let path = self.data_dir.as_ref().map(|data_dir| {
            copies::member_copy(data_dir, &membership.catalog, zone, &membership.id)
        });
        let mut source = ZoneSource::new(zone_text(zone), path.unwrap_or_default());
        source.is_secondary = true;
        source.follows_file = false;
        source.member = Some(membership.clone());
        source
    }

    /// Makes the catalogs that list our zones, where they have changed.
    fn make_catalogs(&self, file: &TransferOptions) {
        for options in &file.catalogs {
            let CatalogContent::Made(members) = &options.content else { continue };
            if let Err(error) = self.make_catalog(options, members) {
                tracing::error!("catalog '{}' is not made: {error}", options.name);
            }
        }
    }

    fn make_catalog(
        &self,
        options: &CatalogOptions,
        members: &[(Name, Option<String>)],
    ) -> Result<(), String> {
        let Some(source) = self.engine.zone_source_of(&options.origin) else { return Ok(()) };
        let generation = self.engine.generation();
        let old = generation.zones().zone(&options.origin).filter(|zone| !zone.is_unavailable());
        let members: Vec<(Name, Option<&str>)> =
            members.iter().map(|(zone, group)| (zone.clone(), group.as_deref())).collect();
        let build = |serial| {
            let made = catalog::build(&options.origin, serial, &members);
            made.map_err(|error| error.to_string())
        };
        let now = now_seconds() as u32;
        let serial = match old {
            None => now,
            Some(old) => {
                let same = build(old.serial())?;
                let difference = old.difference(&same);
                if difference.removed == difference.added {
                    return Ok(());
                }
                if is_newer(now, old.serial()) { now } else { old.serial().wrapping_add(1) }
            }
        };
        let zone = Arc::new(build(serial)?);
        self.engine.serve_zone(&source, &zone).map_err(|error| error.to_string())?;
        tracing::info!("catalog '{}' of serial {serial} has {} zones", options.name, members.len());
        if !source.path.as_os_str().is_empty() {
            let written = copies::write(&source.path, &zone, now_millis());
            written.map_err(|error| format!("its copy {}: {error}", source.path.display()))?;
        }
        Ok(())
    }
}

/// The catalogs that are followed.
fn followed(
    options: &TransferOptions,
) -> impl Iterator<Item = (&CatalogOptions, &FollowedCatalog)> {
    options.catalogs.iter().filter_map(|catalog| match &catalog.content {
        CatalogContent::Followed(own) => Some((catalog, own)),
        CatalogContent::Made(_) => None,
    })
}

/// What the configuration says of a member: the first of its groups that is there, else what holds
/// for all; none when its catalog is not followed.
fn settings<'o>(options: &'o TransferOptions, member: &ChosenMember) -> Option<&'o MemberSettings> {
    let mut catalogs = followed(options);
    let (_, own) = catalogs.find(|(catalog, _)| catalog.origin == member.membership.catalog)?;
    let is_in = |name: &str| member.groups.iter().any(|group| **group == *name.as_bytes());
    let group = own.groups.iter().find(|(name, _)| is_in(name));
    Some(group.map_or(&own.members, |(_, settings)| settings))
}

fn transfers_of(member: &ChosenMember, settings: &MemberSettings) -> ZoneTransfers {
    ZoneTransfers {
        name: zone_text(&member.zone),
        origin: member.zone.clone(),
        primaries: settings.primaries.clone(),
        allow: settings.allow.clone(),
        notify: settings.notify.clone(),
        size_max_bytes: settings.size_max_bytes,
        pools: PoolsInTransfer::default(),
        updates: Vec::new(),
        members_max: None,
        member: Some(member.membership.clone()),
    }
}

/// A name as a configuration has it.
fn zone_text(zone: &Name) -> String {
    let text = zone.to_string();
    match text.strip_suffix('.') {
        Some(name) if !name.is_empty() => name.to_ascii_lowercase(),
        _ => text,
    }
}

/// The zones that the configuration names itself.
fn configured_names<'a>(sources: impl Iterator<Item = &'a ZoneSource>) -> HashSet<Name> {
    let own = sources.filter(|source| source.member.is_none());
    own.filter_map(|source| source.name.parse().ok()).collect()
}

/// Aliases as pools: each has one owner.
fn alias_owners(aliases: &[AliasSource]) -> Vec<(String, [String; 1])> {
    let owner = |alias: &AliasSource| alias.owner.to_string();
    aliases.iter().map(|alias| (format!("alias {}", alias.owner), [owner(alias)])).collect()
}

/// The names at or above owners of pools, up to the zone that has them: a zone of such a name would
/// have them in its place.
fn names_above_pools<'a>(
    pools: impl Iterator<Item = (&'a str, &'a [String])>,
    configured: &HashSet<Name>,
) -> HashMap<Name, String> {
    let mut names = HashMap::new();
    for (pool, owners) in pools {
        for owner in owners {
            let mut at = owner.parse::<Name>().ok();
            while let Some(name) = at.filter(|name| !configured.contains(name)) {
                at = name.parent();
                names.insert(name, pool.to_owned());
            }
        }
    }
    names
}

fn move_copy(from: &Path, to: &Path) {
    // One that cannot be moved is written again after the next transfer.
    if let Some(folder) = to.parent().filter(|_| !from.as_os_str().is_empty()) {
        let _ = fs::create_dir_all(folder);
        let _ = fs::rename(from, to);
    }
}

fn remove(path: &Path) {
    // It may not have been written yet.
    if !path.as_os_str().is_empty() {
        let _ = fs::remove_file(path);
    }
}
