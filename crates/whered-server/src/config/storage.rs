//! The sections of what is kept: `[journal]`, `[snapshot]`, `[rules]`, `[backup]`, `[sets]`.
//!
//! Not for: opening anything; here a value is only found right or wrong at its place.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use whered_engine::RulesOptions;
use whered_engine::store::SyncPolicy;

use super::error::ConfigError;
use super::section::{Keys, Section, resolve_path, set};

const JOURNAL: Keys = Keys {
    title: "[journal]",
    allowed: &["sync", "segment_size_bytes", "group_size_bytes", "group_delay_micros"],
    later: &[],
};
const SNAPSHOT: Keys =
    Keys { title: "[snapshot]", allowed: &["journal_size_bytes", "interval_seconds"], later: &[] };

const RULES: Keys = Keys { title: "[rules]", allowed: &["memory_bytes"], later: &[] };
const BACKUP: Keys = Keys { title: "[backup]", allowed: &["directory"], later: &[] };
const SETS: Keys = Keys { title: "[sets]", allowed: &["directory", "strict"], later: &[] };

/// The tables of this module.
#[cfg(test)]
pub(super) const TABLES: [&Keys; 5] = [&JOURNAL, &SNAPSHOT, &BACKUP, &SETS, &RULES];

/// What the journal takes as it is.
const SEGMENT_BYTES: RangeInclusive<u64> = 8 * 1024..=2 * 1024 * 1024 * 1024;
/// A group holds at least one large entry; more than a segment gains nothing.
const GROUP_BYTES: RangeInclusive<u64> = 64 * 1024..=1024 * 1024 * 1024;
/// Nobody wants to wait for an acknowledgement for longer than a second.
const GROUP_DELAY_MICROS: RangeInclusive<u64> = 0..=1_000_000;
/// 0 is never.
const SNAPSHOT_BYTES: RangeInclusive<u64> = 0..=1 << 50;
/// 0 is never; a year is the most.
const INTERVAL_SECONDS: RangeInclusive<u64> = 0..=366 * 24 * 3600;
/// Less holds no ruleset worth compiling; more than a TiB nobody means.
const RULES_BYTES: RangeInclusive<u64> = 64 * 1024..=1 << 40;

/// How writes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// When acknowledged writes are on the disk.
    pub sync: SyncPolicy,
    /// The size of one journal file; `None`: the journal's own default.
    pub segment_size_bytes: Option<u64>,
    /// How much may wait for the disk before writers wait; `None`: the journal's own default.
    pub group_size_bytes: Option<usize>,
    /// How long a group waits for more before it is written; `None`: not at all.
    pub group_delay: Option<Duration>,
}

/// When snapshots are made without anybody's asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotConfig {
    /// By how much the journal grows before one is due; `None`: the engine's own default.
    pub journal_size_bytes: Option<u64>,
    /// How old the last one becomes before one is due; `None`: the engine's own default.
    pub interval: Option<Duration>,
}

/// Where `BACKUP` may write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupConfig {
    /// The only directory below which it writes; `None`: `backups` of the data directory.
    pub directory: Option<PathBuf>,
}

/// Where prefix sets may be loaded from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetsConfig {
    /// The only directory whose files `CIDR.LOAD` reads; `None`: it reads none.
    pub directory: Option<PathBuf>,
    /// Whether prefixes with bits behind their length are refused.
    pub strict: bool,
}

impl Default for JournalConfig {
    fn default() -> Self {
        JournalConfig {
            sync: SyncPolicy::Always,
            segment_size_bytes: None,
            group_size_bytes: None,
            group_delay: None,
        }
    }
}

/// Reads `sync`.
pub(super) fn read_sync(section: &Section<'_>) -> Result<Option<SyncPolicy>, ConfigError> {
    let Some(name) = section.text("sync")? else { return Ok(None) };
    let sync = SyncPolicy::from_name(name.value).ok_or_else(|| {
        let names = SyncPolicy::ALL.map(SyncPolicy::name).join(", ");
        section.refuse(&name.span, "sync", &format!("is '{}'", name.value), &names)
    })?;
    Ok(Some(sync))
}

/// Reads `[journal]`.
pub(super) fn read_journal(
    top: &Section<'_>,
    config: &mut JournalConfig,
) -> Result<(), ConfigError> {
    let Some(section) = top.table("journal", &JOURNAL)? else {
        return Ok(());
    };
    if let Some(sync) = read_sync(&section)? {
        config.sync = sync;
    }
    if let Some(size) = section.integer("segment_size_bytes", SEGMENT_BYTES)? {
        config.segment_size_bytes = Some(size.value);
    }
    if let Some(size) = section.integer("group_size_bytes", GROUP_BYTES)? {
        config.group_size_bytes = Some(size.value as usize);
    }
    if let Some(delay) = section.integer("group_delay_micros", GROUP_DELAY_MICROS)? {
        config.group_delay = Some(Duration::from_micros(delay.value));
    }
    Ok(())
}

/// Reads `[snapshot]`.
pub(super) fn read_snapshot(
    top: &Section<'_>,
    config: &mut SnapshotConfig,
) -> Result<(), ConfigError> {
    let Some(section) = top.table("snapshot", &SNAPSHOT)? else {
        return Ok(());
    };
    if let Some(size) = section.integer("journal_size_bytes", SNAPSHOT_BYTES)? {
        config.journal_size_bytes = Some(size.value);
    }
    if let Some(seconds) = section.integer("interval_seconds", INTERVAL_SECONDS)? {
        config.interval = Some(Duration::from_secs(seconds.value));
    }
    Ok(())
}

/// Reads `[rules]`.
pub(super) fn read_rules(top: &Section<'_>, options: &mut RulesOptions) -> Result<(), ConfigError> {
    if let Some(section) = top.table("rules", &RULES)? {
        set(&mut options.memory_bytes, section.integer("memory_bytes", RULES_BYTES)?);
    }
    Ok(())
}

/// Reads `[backup]`; a relative directory starts from the configuration's own.
pub(super) fn read_backup(
    top: &Section<'_>,
    path: &Path,
    config: &mut BackupConfig,
) -> Result<(), ConfigError> {
    if let Some(section) = top.table("backup", &BACKUP)? {
        let directory = section.filled_text("directory")?;
        config.directory = directory.map(|found| resolve_path(path, found.value));
    }
    Ok(())
}

/// Reads `[sets]`; a relative directory starts from the configuration's own.
pub(super) fn read_sets(
    top: &Section<'_>,
    path: &Path,
    config: &mut SetsConfig,
) -> Result<(), ConfigError> {
    let Some(section) = top.table("sets", &SETS)? else {
        return Ok(());
    };
    let directory = section.filled_text("directory")?;
    config.directory = directory.map(|found| resolve_path(path, found.value));
    config.strict = section.flag("strict")?.unwrap_or(false);
    Ok(())
}
