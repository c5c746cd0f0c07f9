//! How feeds are fed and handed on: `[[feed]]`, `[[feed.stream]]` and `[[feed.sink]]` of the
//! configuration.
//!
//! Not for: what the engine makes of uploads (`FeedSource` says that).

use std::path::PathBuf;

use whered_engine::feeds::FeedSource;

/// A feed: what the engine does with uploads, and the ways in and out beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedConfig {
    /// Its name.
    pub name: String,
    /// What the engine makes of uploads.
    pub source: FeedSource,
    /// The bearer token that opens this feed for uploads, beside that of `[http]`.
    pub token: Option<String>,
    /// The folder whose files are uploads.
    pub drop_folder: Option<PathBuf>,
    /// Streams that are followed.
    pub streams: Vec<StreamConfig>,
    /// Databases that rows are handed on to.
    pub sinks: Vec<SinkConfig>,
}

/// A Redis Stream whose entries are uploads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// Its name among the feed's streams.
    pub name: String,
    /// The server.
    pub url: String,
    /// The key of the stream.
    pub stream: String,
    /// The field of an entry that holds the upload.
    pub field: String,
    /// Whether the first start begins with the oldest entry; otherwise with the next one.
    pub from_start: bool,
    /// Whether several entries become one upload.
    pub join: bool,
}

/// A database that rows are handed on to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkConfig {
    /// Its name, which the database remembers.
    pub name: String,
    /// The database.
    pub url: String,
    /// The tables that it gets; empty: all of the feed.
    pub tables: Vec<String>,
    /// Whether the first run takes over the rows that the database holds.
    pub adopt: bool,
}
