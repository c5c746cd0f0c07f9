//! Places on the globe and the index that finds the ones nearby.
//!
//! For: distances, Redis's 52-bit cells and geohash strings, search shapes, and [`Points`], the
//! ordered index of one collection (member → cell).
//! Not for: IP addresses, commands, replies, sockets, clocks, expiry. Everything here is a pure
//! function or a plain value owned by its caller.
//!
//! ```text
//! Place (longitude, latitude) ──► Cell (interleaved bits) ──► Points (cell, member) in order
//!    │                                                          │
//!    └── distance ◄── Shape (circle, box, polygon) ◄── Search ──┘──► Found (spans, hits)
//! ```
//!
//! Numbers are bit-equal to those of Redis 7.0.15 on x86-64 with the same C library: the same
//! operations run in the same order, and sine, cosine and arc sine come from the C library.
//!
//! Concurrency: no interior mutability; many readers or one writer, as the borrow checker says.

mod bounding_box;
pub mod boxes;
pub mod cell;
mod cover;
pub mod distance;
mod filter;
mod nearest;
pub mod place;
pub mod points;
pub mod polygon;
pub mod region;
pub mod score;
pub mod search;
pub mod shape;
mod simd;

pub use bounding_box::{BoundingBox, BoundingBoxError};
pub use cell::Cell;
pub use nearest::{Center, NearestWithin, Radius};
pub use place::{Place, PlaceError};
pub use points::area::Area;
pub use points::bulk::{Change, ChangeBatch};
pub use points::clusters::{CLUSTERS_MAX, Cluster, Clusters};
pub use points::found::{Found, FoundCursor, FoundHit};
pub use points::naive::NaivePoints;
pub use points::nearest_index::{NearestFinder, NearestIndex};
pub use points::{
    Inserted, LookupHint, PAGES_VERSION, PageError, PagePosition, Pages, Points, PointsLoader, Tree,
};
pub use polygon::Polygon;
pub use search::{Hit, Order, Search};
pub use shape::Shape;
