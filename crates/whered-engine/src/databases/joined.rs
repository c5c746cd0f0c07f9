//! A database in several files, each of one address family: opened, verified and made one.
//!
//! Not for: one file (`file`), nor for which file answers for a family
//! ([`whered_mmdb::by_family`]).
//! Cost: that of every file, and of writing one anew; the files' own bytes are given back.

use whered_mmdb::{Database, DatabaseIndex, IndexOptions, by_family};

use super::DatabaseSource;
use super::access::AccessMode;
use super::file::{FileState, OpenedDatabase, failure_of, open_verified};
use super::status::ReloadFailure;

/// Opens and verifies every file of a source, and joins them.
///
/// # Errors
/// The first file that cannot be read, is wrong, or would answer for no family.
pub(super) fn open(
    source: &DatabaseSource,
    index: Option<&IndexOptions>,
) -> Result<OpenedDatabase, ReloadFailure> {
    let wrong = |what: &dyn std::fmt::Display| failure_of(&source.path, what, None);
    if !matches!(source.mode, AccessMode::Memory | AccessMode::Indexed) {
        return Err(wrong(&format_args!(
            "is one of several files of a database in mode {}; allowed: memory, indexed",
            source.mode.name()
        )));
    }
    let (mut files, mut states, mut covered) = (Vec::new(), Vec::new(), Vec::new());
    for path in source.paths() {
        let OpenedDatabase { database, state, .. } = open_verified(path, AccessMode::Memory, None)?;
        let covers = |is_ipv4| {
            database.covers(is_ipv4).map_err(|error| failure_of(path, &error, Some(state)))
        };
        covered.push([covers(true)?, covers(false)?]);
        files.push(database);
        states.push(state);
    }
    let [ipv4, ipv6] = by_family(&covered).map_err(|unused| {
        let path = source.paths().nth(unused).unwrap_or(&source.path);
        let what = "the database's other files answer for its IPv4 and IPv6 addresses already; \
                    allowed: one file for each family";
        failure_of(path, &what, states.get(unused).copied())
    })?;
    let bytes = match (ipv4.and_then(|at| files.get(at)), ipv6.and_then(|at| files.get(at))) {
        (Some(ipv4), Some(ipv6)) => Database::join(ipv4, ipv6).map_err(|error| wrong(&error))?,
        // Two files of which none is left out have a family each.
        _ => return Err(wrong(&"none of the database's files has a network")),
    };
    drop(files);
    let database = Database::from_bytes(bytes).map_err(|error| wrong(&error))?;
    let verified = database.verify().map_err(|error| wrong(&error))?;
    let index = index.map(|options| DatabaseIndex::build(&database, options)).transpose();
    let index = index.map_err(|error| wrong(&format_args!("no index can be built: {error}")))?;
    let mut states = states.into_iter();
    let state = states.next().map_or_else(|| FileState::of(&source.path), Ok);
    let state = state.map_err(|error| wrong(&error))?;
    Ok(OpenedDatabase { database, verified, index, state, further: states.collect() })
}
