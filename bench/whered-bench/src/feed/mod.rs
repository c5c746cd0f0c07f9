//! Uploads of a crowd-sourced map, and what becomes of them: the workload of `whered-bench feed`.
//!
//! For: realistic uploads from a seed, their expected tables, and timing what reads them.
//! Not for: the server's own parts.
//!
//! ```text
//! world         seed ──► zones, objects, points ──► sightings
//! upload        sightings ──► XML, NDJSON, CSV of about 100 KB ──► files
//! consolidated  sightings ──► the tables that they should become
//! run           clients ──► bare receiver, server ──► report; the server's tables ──► compare
//! syncs         fdatasync alone        written   bytes that a disk of its own was given
//! bars          what the record of a day says first
//! ```

pub mod bare;
mod bars;
mod compare;
mod consolidated;
mod files;
mod mapping;
mod report;
mod run;
pub mod sending;
mod server;
mod syncs;
mod upload;
mod world;
mod written;

pub use bars::RECORD;
pub use compare::{Checked, compare};
pub use consolidated::{Consolidated, Loot, Position};
pub use files::{Packing, write_uploads};
pub use mapping::mapping;
pub use report::{FeedReport, Paced, Phase};
pub use run::{FeedOptions, config, run};
pub use server::{FEED_PATH, FeedServer};
pub use syncs::Syncs;
pub use upload::{Upload, UploadFormat, UploadOptions};
pub use world::{Sighting, World};
pub use written::Written;
