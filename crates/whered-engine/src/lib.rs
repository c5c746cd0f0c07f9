//! The engine of `whered`: named databases, collections, prefix sets, zones and pools, kept
//! durable by one journal and served as one generation.
//!
//! Not for: protocols, sockets, async runtimes (the doors in `whered-server`), nor for how an
//! index lies in memory (the level-0 and level-1 crates).
//!
//! ```text
//!             ┌────────────── Engine ───────────────────────────────────────────┐
//!  reads ───> │ Generation, PrefixSets (swapped by pointer)                     │
//!             │ Keyspace (live, under locks)                                    │
//!  writes ──> │   reserve ─> apply ─> append ──> Log ──> whered-store journal   │ ──> disk
//!             └──────────────────────────────────────────────── Ticket <────────┘
//! ```
//!
//! To follow a write, start at [`Keyspace::add_points`]; to follow a choice of site, at
//! [`Generation::steer`]; to follow a start, at [`Engine::open`].
//!
//! # Example
//! ```
//! use whered_engine::geo::{Cell, Order, Place, Search, Shape};
//! use whered_engine::{AddCondition, Engine, EngineOptions, Value};
//!
//! let (engine, _) = Engine::open(EngineOptions::default())?;
//! let palermo = Cell::from_place(Place::new(13.361389, 38.115556)?);
//! engine.keyspace().add_points(0, b"Sicily", &[(b"Palermo", palermo)], AddCondition::Always)?;
//! let search = Search {
//!     center: Place::new(15.0, 37.0)?,
//!     shape: Shape::Circle { radius_meters: 200_000.0 },
//!     order: Order::Ascending,
//!     count: None,
//!     any: false,
//! };
//! let found = engine.keyspace().read(0, b"Sicily", |points| {
//!     let points = points.and_then(Value::points).expect("the key was just made");
//!     let mut hits = Vec::new();
//!     points.search(&search, &mut hits);
//!     hits.len()
//! });
//! assert_eq!(found, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod account;
mod clock;
mod databases;
mod durability;
mod engine;
mod error;
pub mod feeds;
mod generation;
pub mod glob;
mod journal;
mod keyspace;
mod prefix_sets;
mod rulesets;
mod steering;
pub mod sync;
pub mod tables;
mod zones;

pub use account::MemoryReport;
pub use clock::Clock;
pub use databases::{
    AccessMode, DatabaseSource, DatabaseStatus, FileState, MemoryUse, NamedDatabase, ReloadFailure,
    ReloadMode, open_database_file, open_index_file, read_database_file, read_file,
};
pub use durability::{
    LoadReport, OpenReport, ShowProgress, SnapshotOptions, SnapshotProgress, SnapshotReport,
    SnapshotStatus, StartProgress,
};
pub use engine::{
    ArrivedZone, BeforeData, DatabaseReader, Engine, EngineOptions, GenerationListener,
    GenerationReader, MemberZone, ReloadReport, SetRules, SigningTask, UpdateError, ZoneReport,
};
pub use error::{EngineError, ExplainError, Subject, WriteError};
pub use generation::Generation;
pub use generation::setup::{CatalogMembership, Setup, ZoneSource};
pub use generation::signing::SignSource;
pub use journal::log::{Durability, Ticket, Written};
pub use journal::watch::{CollectionChanges, FOLLOWED_MAX, MemberChange, Watch};
pub use keyspace::sorted_set::SortedSet;
pub use keyspace::value::{Data, Kind, Members, MembersByRank, Ordered, TextForm, Value};
pub use keyspace::{
    AddCondition, Added, Aggregate, Combination, CombineOperation, CombinedMembers, DATABASE_COUNT,
    ExpiryCondition, Found, Increment, KeyRole, Keyspace, LINKS_MAX, Load, Popped, Position,
    Renamed, ReplicationId, Route, SLOTS, ScoreRules, SetText, SlotImport, SlotOwners,
    StreamPosition, TextChange, TextExpiry, TextSet, key_slot, load_number, served_number,
};
pub use prefix_sets::{LoadOptions, PrefixSets, ReadyMembers, SetInfo, SetOperation};
pub use rulesets::{
    Background, Edition, FilePlaces, NamedRuleset, RuleReferences, RulesOptions, RulesetFile,
    RulesetSource,
};
pub use steering::Live;
pub use steering::catchment::{CELL_DEGREES, Catchment, CatchmentCell, CatchmentGrid};
pub use steering::pool::{
    ADDRESSES_PER_SITE_MAX, MapSource, PolicyStep, Pool, PoolSource, SITES_PER_POOL_MAX, Site,
    SiteDetails, SitesFrom, WhenAllDown,
};
pub use steering::site_health::{HealthOverride, ProbeResult, Probed, SiteHealth};
pub use zones::aliases::{AliasAddresses, AliasSource};
pub use zones::keys::{KeyDirectory, ZoneKeys};
pub use zones::reversed::{
    BlocklistSource, DatabaseTxtSource, LiveZones, REVERSED_TEXT_SIZE_MAX, ReversedSource, TxtField,
};

pub use whered_geo as geo;
pub use whered_ip as ip;
pub use whered_mmdb as mmdb;
pub use whered_rules as rules;
pub use whered_store as store;
pub use whered_store::{Priority, lower_priority, use_short_time_slices};
