//! The engine's feeds as sinks and streams see them.
//!
//! For: [`FeedTables`], the tables of a feed that a sink hands on, and [`FeedIntake`], a feed that
//! takes a stream's uploads. Not for: threads, which the caller starts.
//!
//! Cost: a page is copied under its table's shared lock; a row costs one small allocation.

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod handing_on;
#[cfg(feature = "streams")]
mod taking;

#[cfg(any(feature = "mysql", feature = "postgres"))]
pub use handing_on::FeedTables;
#[cfg(feature = "streams")]
pub use taking::FeedIntake;
