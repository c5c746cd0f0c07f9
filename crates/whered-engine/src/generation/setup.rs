//! What the configuration names, read from disk and checked before anything serves it.
//!
//! Loading is all or nothing: the first fault is an error that names file and place, and the
//! caller's old generation serves on. How the bytes of databases are held is said in
//! [`crate::databases`]; zones are read whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use whered_dns::{Dnssec, Name, Zone};

use crate::databases::{DatabaseSource, DatabaseStatus, FileState, NamedDatabase, read_file};
use crate::error::{EngineError, Subject};
use crate::feeds::{FeedSource, HotOptions};
use crate::generation::Generation;
use crate::generation::signing::{SignSource, Signer};
use crate::rulesets::{self, ReadFile, RulesOptions, RulesetSource};
use crate::steering::pool::PoolSource;
use crate::zones::aliases::AliasSource;
use crate::zones::reversed::ReversedSource;

/// A DNS zone to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneSource {
    /// The zone's origin, such as `example.com`.
    pub name: String,
    /// The master file (RFC 1035). Of a secondary zone it is a copy, which need not be there;
    /// empty: no copy is kept.
    pub path: PathBuf,
    /// Other servers give the zone; the file is only what was there last.
    pub is_secondary: bool,
    /// What answers at the addresses that stand backwards below the apex.
    pub reversed: Option<ReversedSource>,
    /// What becomes of a signed zone.
    pub dnssec: Dnssec,
    /// How an unsigned zone is signed; `None`: it is not.
    pub sign: Option<SignSource>,
    /// Whether the file is loaded anew when it changes, without being asked.
    pub follows_file: bool,
    /// The catalog that it is a member of; none: the configuration names it.
    pub member: Option<CatalogMembership>,
}

/// Of a zone that a catalog zone names (RFC 9432): which catalog, and by which id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CatalogMembership {
    /// The catalog.
    pub catalog: Name,
    /// The label that stands for the zone there.
    pub id: Box<[u8]>,
}

impl ZoneSource {
    /// An unsigned zone of a file that is loaded anew when it changes.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> ZoneSource {
        ZoneSource {
            name: name.into(),
            path: path.into(),
            is_secondary: false,
            reversed: None,
            dnssec: Dnssec::default(),
            sign: None,
            follows_file: true,
            member: None,
        }
    }
}

/// Everything that a generation is built from.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// IP databases, in the order that `IP.LIST` gives them.
    pub databases: Vec<DatabaseSource>,
    /// Zones.
    pub zones: Vec<ZoneSource>,
    /// Pools.
    pub pools: Vec<PoolSource>,
    /// Names with the addresses of other names.
    pub aliases: Vec<AliasSource>,
    /// Rulesets.
    pub rulesets: Vec<RulesetSource>,
    /// What compiled rulesets may take.
    pub rules: RulesOptions,
    /// The database that DNS takes clients' places from; the first one when not named.
    pub place_database: Option<String>,
    /// Where files of prefix sets may lie; `None`: none is read.
    pub sets_directory: Option<PathBuf>,
    /// Where clients may have backups made; `None`: below `backups` of the data directory.
    pub backup_directory: Option<PathBuf>,
    /// Whether prefixes with bits behind their length are refused in commands on sets.
    pub sets_strict: bool,
    /// Feeds. They are fixed when the engine is opened: a reload leaves them as they are.
    pub feeds: Vec<FeedSource>,
    /// What their places and tables may take in memory; as fixed.
    pub hot: HotOptions,
}

/// The files of a setup, read and checked.
pub(crate) struct LoadedFiles {
    pub(crate) databases: Vec<NamedDatabase>,
    pub(crate) zones: Vec<Arc<Zone>>,
    /// What the zones' files include, by zone.
    pub(crate) zone_includes: BTreeMap<String, Vec<PathBuf>>,
    pub(crate) rulesets: Vec<ReadFile>,
    /// When they were read, in seconds since 1970.
    pub(crate) now_seconds: u64,
}

impl LoadedFiles {
    /// Reads every file of the setup, and signs zones at a time in seconds since 1970. A database
    /// keeps the status that `current` has for its name.
    ///
    /// # Errors
    /// The first file that cannot be read or is wrong, with the place of the fault.
    pub(crate) fn read(
        setup: &Setup,
        current: Option<&Generation>,
        now_seconds: u64,
    ) -> Result<LoadedFiles, EngineError> {
        let read_database = |source: &DatabaseSource| {
            let known = current.and_then(|generation| generation.database(&source.name));
            let status = known.map(|named| Arc::clone(&named.status)).unwrap_or_default();
            NamedDatabase::load(source, Arc::clone(&status)).map_err(|failure| {
                status.note_failure(&failure);
                EngineError::new(failure.message).about(Subject::Database(source.name.clone()))
            })
        };
        let databases = setup.databases.iter().map(read_database).collect::<Result<_, _>>()?;
        let mut zone_includes = BTreeMap::new();
        let signer = Signer::new(setup, current, now_seconds);
        let zones = setup.zones.iter().map(|source| {
            let includes = zone_includes.entry(source.name.clone()).or_default();
            let about = |error: EngineError| error.about(Subject::Zone(source.name.clone()));
            if source.is_secondary {
                return secondary_zone(source, &signer, current).map_err(about);
            }
            read_zone(source, &signer, includes).map_err(about)
        });
        let zones = zones.collect::<Result<_, _>>()?;
        let read_ruleset = |source: &RulesetSource| {
            let known = current.and_then(|generation| generation.ruleset(&source.name));
            let known = known.and_then(|named| named.file.as_ref());
            let status = known.map(|file| Arc::clone(&file.status)).unwrap_or_default();
            let about = |error: EngineError| error.about(Subject::Ruleset(source.name.clone()));
            read_ruleset(source, status).map_err(about)
        };
        let rulesets = setup.rulesets.iter().map(read_ruleset).collect::<Result<_, _>>()?;
        Ok(LoadedFiles { databases, zones, zone_includes, rulesets, now_seconds })
    }
}

/// Reads one ruleset's file.
///
/// # Errors
/// It cannot be read, or is wrong, with the place.
pub(crate) fn read_ruleset(
    source: &RulesetSource,
    status: Arc<DatabaseStatus>,
) -> Result<ReadFile, EngineError> {
    let unreadable =
        |error: std::io::Error| EngineError::new(format!("{}: {error}", source.path.display()));
    // A file that changes after this look is read again, since the watcher compares with it.
    let state = FileState::of(&source.path).map_err(unreadable)?;
    let bytes = read_file(&source.path).map_err(unreadable)?;
    let ruleset = Arc::new(rulesets::read(source, &bytes)?);
    Ok(ReadFile { source: source.clone(), state, status, ruleset })
}

/// The zone that a secondary begins with: the one that serves, else the copy of the last, else
/// none that could be served. A damaged copy counts for nothing, since it will be replaced.
pub(crate) fn secondary_zone(
    source: &ZoneSource,
    signer: &Signer<'_>,
    current: Option<&Generation>,
) -> Result<Arc<Zone>, EngineError> {
    let origin: Name = source.name.parse().map_err(|error| {
        EngineError::new(format!("the name of the zone '{}': {error}", source.name))
    })?;
    if let Some((_, zone)) = current.and_then(|generation| generation.base_zone(&origin))
        && !zone.is_unavailable()
    {
        return Ok(Arc::clone(zone));
    }
    let copy = match source.path.as_os_str().is_empty() {
        true => None,
        false => {
            // The copy is what the primaries gave; it is signed anew.
            let given = ZoneSource { sign: None, ..source.clone() };
            read_zone(&given, signer, &mut Vec::new()).ok()
        }
    };
    Ok(copy.unwrap_or_else(|| Arc::new(Zone::unavailable(&origin))))
}

/// Reads the file of a zone and all that it includes; notes which files those are.
///
/// # Errors
/// It cannot be read or is wrong, with the place.
pub(crate) fn read_zone(
    source: &ZoneSource,
    signer: &Signer<'_>,
    includes: &mut Vec<PathBuf>,
) -> Result<Arc<Zone>, EngineError> {
    let wrong = |error: &dyn std::fmt::Display| {
        EngineError::new(format!("{}: {error}", source.path.display()))
    };
    let origin: Name = source.name.parse().map_err(|error| wrong(&error))?;
    let signing = signer.context(source, &origin)?;
    let text = read_file(&source.path).map_err(|error| wrong(&error))?;
    let folder = source.path.parent().unwrap_or(Path::new(".")).to_path_buf();
    let mut include = |name: &str| {
        let path = folder.join(name);
        let read = read_file(&path).map_err(|error| format!("{}: {error}", path.display()));
        if !includes.contains(&path) {
            includes.push(path);
        }
        read
    };
    let zone = match &signing {
        Some(signing) => Zone::sign_master_file(&origin, &text, signing, &mut include),
        None => Zone::from_any_master_file(&origin, &text, source.dnssec, &mut include),
    };
    let zone = zone.map_err(|error| match error.file() {
        Some(_) => wrong(&format_args!("included {error}")),
        None => EngineError::new(format!("{}:{error}", source.path.display())),
    })?;
    Ok(Arc::new(zone))
}
