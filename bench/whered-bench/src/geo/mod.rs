//! The geo benchmark: points like OpenStreetMap's, and what searching and moving them costs a
//! server.
//!
//! For: `whered-bench geo`, which drives any RESP server, and `bench/versus` with rivals beside it.
//! Not for: indexes in process (`bench/own`).
//!
//! ```text
//! points   (seed, number) ──► place          load ──► server
//! classes  what is asked ──► scripts ──► verify on each server ──► rounds, in turn ──► rows
//! run      servers, classes, scenarios ──► report ──► table, JSON
//! ```
//!
//! The server runs on one core, this thread on another. A figure is the processor time of the
//! server's process for a command; rate and latency stand beside it.

mod beside;
mod classes;
mod driver;
mod latency;
mod load;
mod points;
mod report;
mod resp;
mod rounds;
mod run;
mod scenarios;
mod script;
mod server;

pub use classes::{CLASSES, Class, MOVE_METERS, Workload, class_named};
pub use driver::{Done, Driver, Group, Until};
pub use latency::Latencies;
pub use load::{KEY, Loaded, load, member, move_all};
pub use points::{Census, Order, PUBLIC_POINTS, Part, Point, Points, World};
pub use report::{LoadNote, Report, ServerNote};
pub use resp::{Reply, push_command, read_reply};
pub use rounds::{Rounds, Row, ask_all, interleaved};
pub use run::{Bench, Options, Setup, Starter, run, whered};
pub use scenarios::{
    ALL_MOVED, BESIDE_SEARCH, EVERYSEC, FEWER_POINTS, HELD_VIEW, SCENARIOS, TWO_THREADS, on_fresh,
    on_running,
};
pub use script::{Likeness, Replies, Script};
pub use server::{Server, Wire, free_port, start_whered};
