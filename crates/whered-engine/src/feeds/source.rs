//! A feed as the configuration has it, and what it is checked against.
//!
//! Not for: reading the configuration (the doors), paths within uploads (`whered-feeds`).

use std::time::Duration;

use whered_feeds::{FieldKind, Mapping};
use whered_ip::{SetReading, ShrinkLimit};

use crate::tables::schema::{Fields, Plan};
use crate::tables::{ColumnKind, RowsOf, TableSchema, TableSource};

/// What is uploaded.
#[derive(Clone, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "there are as many as feeds, and nearly all are records"
)]
pub enum FeedInput {
    /// Records, read by a mapping.
    Records(Mapping),
    /// Lists of prefixes; each upload is one.
    Prefixes(SetReading),
}

impl PartialEq for FeedInput {
    fn eq(&self, other: &FeedInput) -> bool {
        match (self, other) {
            // A mapping shows all that it is made of.
            (FeedInput::Records(one), FeedInput::Records(other)) => {
                format!("{one:?}") == format!("{other:?}")
            }
            (FeedInput::Prefixes(one), FeedInput::Prefixes(other)) => one == other,
            _ => false,
        }
    }
}

/// A prefix set that uploads go into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetTarget {
    /// Its name.
    pub name: String,
    /// Whether an upload takes the place of all that the set had.
    pub replaces: bool,
    /// How much smaller it may be than what it takes the place of; another one is rejected.
    pub limit: ShrinkLimit,
    /// Whether a list with a prefix such as `10.0.0.1/8` is refused and not taken as `10.0.0.0/8`.
    pub is_strict: bool,
}

/// What a feed may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedLimits {
    /// The largest upload, as it is received and decompressed.
    pub upload_size_bytes_max: u64,
    /// How much may wait in the spool before uploads are refused.
    pub spool_size_bytes_max: u64,
    /// About how many records and items a batch takes at most; at least one upload. It takes fewer
    /// if they change some hundred thousand places or rows.
    pub batch_events_max: usize,
    /// How long a batch waits for more uploads at most.
    pub batch_delay: Duration,
    /// For how long idempotency keys are remembered.
    pub remember_keys: Duration,
    /// Whether an upload whose bytes were uploaded before counts as repeated.
    pub content_hash: bool,
    /// Whether its places and tables stay in memory whatever the budget.
    pub resident: bool,
    /// After how long without a batch they are put into a file; zero: only when memory is wanted.
    pub idle: Duration,
}

impl Default for FeedLimits {
    fn default() -> FeedLimits {
        FeedLimits {
            upload_size_bytes_max: 64 << 20,
            spool_size_bytes_max: 1 << 30,
            batch_events_max: 2_000_000,
            batch_delay: Duration::from_millis(50),
            remember_keys: Duration::from_secs(24 * 3600),
            content_hash: false,
            resident: false,
            idle: Duration::ZERO,
        }
    }
}

/// A feed as the configuration has it.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedSource {
    /// Its name; it names a folder and a file, too: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// What is uploaded.
    pub input: FeedInput,
    /// The key, in database 0, of the collection that places go into.
    pub collection: Option<String>,
    /// The tables that it fills.
    pub tables: Vec<TableSource>,
    /// The prefix set that it fills.
    pub set: Option<SetTarget>,
    /// Within this many metres a member's sightings are one position.
    pub merge_within_meters: Option<f64>,
    /// What it may take.
    pub limits: FeedLimits,
}

/// The largest radius within which positions are merged.
const MERGE_METERS_MAX: f64 = 100_000.0;

/// The longest name of a feed.
const NAME_BYTES_MAX: usize = 128;

impl FeedSource {
    /// Checks the feed and gives its tables' columns.
    ///
    /// # Errors
    /// One line that says what is wrong and what is allowed.
    pub fn check(&self) -> Result<Vec<TableSchema>, String> {
        Ok(self.plans()?.iter().map(|plan| plan.shape.schema()).collect())
    }

    /// The tables, checked.
    pub(crate) fn plans(&self) -> Result<Vec<Plan>, String> {
        let wrong = |what: String| Err(format!("feed '{}': {what}", self.name));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_named = !self.name.is_empty()
            && self.name.len() <= NAME_BYTES_MAX
            && !self.name.starts_with('.')
            && self.name.bytes().all(is_plain);
        if !is_named {
            return wrong(format!(
                "its name is no name of a file; allowed: up to {NAME_BYTES_MAX} letters, digits, \
                 '-', '_' and '.', and no '.' in front"
            ));
        }
        let FeedInput::Records(mapping) = &self.input else {
            if self.collection.is_some() || !self.tables.is_empty() {
                return wrong("lists of prefixes go into a set only".to_owned());
            }
            return match self.set {
                None => wrong("lists of prefixes need a set to go into".to_owned()),
                Some(_) => Ok(Vec::new()),
            };
        };
        if self.set.is_some() {
            return wrong("records do not go into a prefix set".to_owned());
        }
        let has_place = mapping.has_place();
        if self.collection.is_some() && !has_place {
            return wrong("records without a place do not go into a collection".to_owned());
        }
        if let Some(meters) = self.merge_within_meters {
            if !has_place {
                return wrong("records without a place have no positions to merge".to_owned());
            }
            if !(meters > 0.0 && meters <= MERGE_METERS_MAX) {
                return wrong(format!(
                    "positions within {meters} metres are one; allowed: above 0, up to \
                     {MERGE_METERS_MAX}"
                ));
            }
        }
        let own = mapping.fields().map(|(name, kind)| (name, column_kind(kind))).collect();
        let fields = Fields { own, has_place, has_items: mapping.has_items() };
        let plans: Result<Vec<Plan>, String> =
            self.tables.iter().map(|table| table.compile(&fields)).collect();
        plans.or_else(wrong)
    }

    /// Whether records need places.
    pub fn wants_places(&self) -> bool {
        let of_positions = |table: &TableSource| {
            table.of == RowsOf::Positions || table.key.iter().any(|field| field == "position")
        };
        self.collection.is_some()
            || self.merge_within_meters.is_some()
            || self.tables.iter().any(of_positions)
    }
}

fn column_kind(kind: FieldKind) -> ColumnKind {
    match kind {
        FieldKind::Integer => ColumnKind::Integer,
        FieldKind::Number => ColumnKind::Number,
        FieldKind::Text => ColumnKind::Text,
        FieldKind::Time => ColumnKind::Time,
    }
}
