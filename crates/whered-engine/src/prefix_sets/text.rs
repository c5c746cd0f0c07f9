//! Texts into sets: given as bytes, or in files of one directory.
//!
//! For: reading a whole text before anything of it counts, and choosing files that may be read.
//! Not for: formats (`whered_ip::SetReading`), sending a set out (the doors, with `SetWriter`).
//!
//! Files are read from the directory that the configuration names (`[sets] directory`) and from
//! nowhere else: a name is relative, without `..`, and what it leads to lies inside, links
//! followed.
//!
//! Cost: reading takes some 40 ns a line, and happens beside the set.

use std::path::{Component, Path};

use whered_ip::{HostBitsFinder, MemberList, SetReading, ShrinkLimit};
use whered_store::{Confined, ConfinedError};
use whered_unpack::read_unpacked;

use super::{PrefixSets, ReadyMembers};
use crate::clock;
use crate::error::WriteError;
use crate::journal::log::Written;

/// The largest file that is read, unpacked.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// How a text becomes members.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions<'a> {
    /// The format of the text, one set of it, and where its blocks are.
    pub reading: SetReading,
    /// Whether the members take the place of all that the set had.
    pub replaces: bool,
    /// How much smaller they may be then.
    pub limit: ShrinkLimit,
    /// Whether prefixes with bits behind their length are refused.
    pub is_strict: bool,
    /// The value of members that bring none.
    pub value: Option<&'a [u8]>,
    /// The expiry of members that bring none.
    pub expires_at_millis: Option<u64>,
}

impl PrefixSets {
    /// Puts the members of a text into a set, all of them or none; gives how many the text has.
    ///
    /// # Errors
    /// `Refused` with line and column of the first mistake in the text; otherwise as
    /// [`PrefixSets::load`].
    pub fn load_text(
        &self,
        set: &str,
        text: &[u8],
        how: &LoadOptions<'_>,
    ) -> Result<Written<usize>, WriteError> {
        self.put(set, ReadyMembers::of_text(text, how)?)
    }
}

impl ReadyMembers {
    /// The members of a text.
    ///
    /// # Errors
    /// `Refused` with line and column of the first mistake in the text.
    pub fn of_text(text: &[u8], how: &LoadOptions<'_>) -> Result<ReadyMembers, WriteError> {
        let members = read(text, how).map_err(WriteError::Refused)?;
        let ready = ReadyMembers::new(members, how.replaces).limited(how.limit);
        // A strict reading has none.
        let remark = HostBitsFinder::of(text).remark();
        Ok(ReadyMembers { remark, ..ready })
    }

    /// What is doubtful about the text, in one line.
    pub fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }
}

impl ReadyMembers {
    /// As [`ReadyMembers::of_text`], from a file of the directory for sets, `None` when there is no
    /// such directory; `dump:blocked` is the set `blocked` of the file `dump`, where there is no
    /// file of that whole name.
    ///
    /// # Errors
    /// `Refused` also when there is no directory, or the file cannot be read or lies outside.
    pub(crate) fn of_file(
        directory: Option<&Path>,
        file: &str,
        how: &LoadOptions<'_>,
    ) -> Result<ReadyMembers, WriteError> {
        let directory = directory.ok_or_else(|| {
            WriteError::Refused(
                "files of sets are not allowed: 'directory' of [sets] in the configuration says \
                 where they may lie"
                    .to_owned(),
            )
        })?;
        let (file, source_set) = match file.rsplit_once(':') {
            // A name that leads elsewhere is refused below, whole.
            Some((name, set))
                if how.reading.set.is_none()
                    && is_plain(name)
                    && !directory.join(file).exists() =>
            {
                (name, Some(set.to_owned()))
            }
            _ => (file, how.reading.set.clone()),
        };
        let text = read_file(directory, file).map_err(WriteError::Refused)?;
        let reading = SetReading { set: source_set, ..how.reading.clone() };
        let how = LoadOptions { reading, ..how.clone() };
        ReadyMembers::of_text(&text, &how).map_err(|error| match error {
            WriteError::Refused(reason) => WriteError::Refused(format!("'{file}': {reason}")),
            other => other,
        })
    }
}

/// The members of a text, in order.
///
/// # Errors
/// Line and column of the first mistake.
pub(crate) fn read_members(
    text: &[u8],
    reading: &SetReading,
    is_strict: bool,
) -> Result<MemberList, String> {
    let reading = reading.clone();
    let mut members = read(text, &LoadOptions { reading, is_strict, ..LoadOptions::default() })?;
    members.sort();
    Ok(members)
}

fn read(text: &[u8], how: &LoadOptions<'_>) -> Result<MemberList, String> {
    if how.is_strict
        && let Some(remark) = HostBitsFinder::of(text).remark()
    {
        return Err(format!(
            "{remark}; allowed are prefixes without such bits ('strict' of [sets])"
        ));
    }
    let now_millis = clock::now_millis();
    let mut members = MemberList::new();
    let mut too_long = false;
    let result = how.reading.read(text, |entry| {
        let expires_at_millis = match entry.ttl_seconds {
            None => how.expires_at_millis,
            Some(seconds) => {
                let at = seconds.checked_mul(1000).and_then(|ms| ms.checked_add(now_millis));
                too_long |= at.is_none();
                at
            }
        };
        // The journal's 0 means "never".
        let expires_at_millis = expires_at_millis.map(|at| at.max(1));
        members.push(entry.block, entry.value.as_deref().or(how.value), expires_at_millis);
    });
    result.map_err(|error| error.to_string())?;
    if too_long {
        return Err("a member lasts longer than times are counted".to_owned());
    }
    Ok(members)
}

/// Whether a name leads downwards only.
fn is_plain(file: &str) -> bool {
    let is_normal = |part| matches!(part, Component::Normal(_));
    !file.is_empty() && !file.contains('\0') && Path::new(file).components().all(is_normal)
}

fn read_file(directory: &Path, file: &str) -> Result<Vec<u8>, String> {
    let path = Path::new(file);
    if !is_plain(file) {
        return Err(format!(
            "'{}' is no name of a file for sets: allowed is one inside of 'directory' of [sets], \
             without '..'",
            file.escape_debug()
        ));
    }
    let failed = |error: std::io::Error| format!("'{}': {error}", file.escape_debug());
    let opened =
        Confined::open(directory).map_err(failed)?.open_file(path).map_err(
            |error| match error {
                ConfinedError::Outside => format!("'{file}' leads out of 'directory' of [sets]"),
                ConfinedError::Io(error) => failed(error),
            },
        )?;
    if !opened.metadata().map_err(failed)?.is_file() {
        return Err(format!("'{file}' is no regular file"));
    }
    read_unpacked(Box::new(opened), FILE_BYTES_MAX).map_err(failed)
}
