//! What listeners say of databases: one description and one way to page through networks, for RESP
//! and HTTP alike.
//!
//! Not for: single addresses ([`whered_engine::NamedDatabase::lookup`]). Cost: a description is
//! constant; a page is bounded by [`PAGE_NETWORKS_MAX`] and [`PAGE_BYTES`], whatever is asked for.

use std::net::IpAddr;

use serde_json::{Value, json};
use whered_engine::ip::Prefix;
use whered_engine::mmdb::{MmdbError, RecordId};
use whered_engine::{FileState, NamedDatabase};

/// How many networks a page has when nobody says.
pub(crate) const PAGE_NETWORKS: usize = 100;
/// How many it may have at most.
pub(crate) const PAGE_NETWORKS_MAX: usize = 1_000;
/// A page ends with the network that brings it to this size.
const PAGE_BYTES: usize = 1 << 20;

/// Everything that is to be said of a database, under the names that all listeners use.
pub(crate) fn describe(named: &NamedDatabase) -> Vec<(&'static str, Value)> {
    let (source, metadata, memory) = (&named.source, named.metadata(), named.memory_use());
    let failure = named.status.last_failure();
    let failure = failure.as_ref();
    let fields: Vec<String> = source.fields.iter().map(ToString::to_string).collect();
    let paths: Vec<_> = source.paths().map(|path| path.to_string_lossy()).collect();
    let size_bytes = |state: &FileState| state.size_bytes;
    let further: u64 = named.further_files.iter().map(size_bytes).sum();
    vec![
        ("name", json!(named.name)),
        ("path", json!(paths.join(", "))),
        ("type", json!(metadata.database_type)),
        ("build_epoch_seconds", json!(metadata.build_epoch_seconds)),
        ("ip_version", json!(metadata.ip_version)),
        ("record_size_bits", json!(metadata.record_size_bits)),
        ("nodes", json!(metadata.node_count)),
        ("networks", json!(named.verified.networks)),
        ("records", json!(named.verified.records)),
        ("file_size_bytes", json!(named.file.size_bytes + further)),
        ("mode", json!(source.mode.name())),
        ("memory_file_bytes", json!(memory.file_bytes)),
        ("memory_index_bytes", json!(memory.index_bytes)),
        ("memory_columns_bytes", json!(memory.columns_bytes)),
        ("fields", json!(fields)),
        ("reload", json!(source.reload.name())),
        ("generation", json!(named.generation)),
        ("loaded_at_milliseconds", json!(named.loaded_at_millis)),
        ("load_milliseconds", json!(named.load_time.as_millis() as u64)),
        ("reloads", json!(named.status.reloads())),
        ("reload_failures", json!(named.status.failures())),
        ("uncovered_family", json!(named.status.uncovered())),
        ("last_reload_error", json!(failure.map(|failure| &failure.message))),
        ("last_reload_error_at_milliseconds", json!(failure.map(|failure| failure.at_millis))),
        (
            "last_reload_error_file",
            json!(failure.and_then(|failure| failure.file).map(|file| file.to_string())),
        ),
    ]
}

/// Gives `write` the networks inside a prefix, from `first` on, until the page is full, and says
/// where the next page begins; `write` gives the page's size so far.
///
/// # Errors
/// A prefix or first address that the database or the prefix does not hold, and what `write` gives.
pub(crate) fn page(
    named: &NamedDatabase,
    prefix: Prefix,
    first: Option<IpAddr>,
    networks_max: usize,
    mut write: impl FnMut(Prefix, RecordId) -> Result<usize, MmdbError>,
) -> Result<Option<IpAddr>, MmdbError> {
    let mut is_full = false;
    for (count, network) in named.database().networks_within(prefix, first)?.enumerate() {
        let (network, record) = network?;
        if is_full || count == networks_max {
            return Ok(Some(network.address()));
        }
        is_full = write(network, record)? >= PAGE_BYTES;
    }
    Ok(None)
}
