//! Uploads of a crowd-sourced map, and what becomes of them: the workload of `whered bench feed`.
//!
//! For: realistic uploads from a seed, their expected tables, and timing what reads them.
//! Not for: the server's own parts.
//!
//! ```text
//! world         seed ──► zones, objects, points ──► sightings
//! upload        sightings ──► XML, NDJSON, CSV of about 100 KB
//! consolidated  sightings ──► the tables that they should become
//! ```

mod consolidated;
mod mapping;
mod upload;
mod world;

pub use consolidated::{Consolidated, Loot, Position};
pub use mapping::mapping;
pub use upload::{Upload, UploadFormat, UploadOptions};
pub use world::{Sighting, World};
