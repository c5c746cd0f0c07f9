//! Names, messages, zones, and one pure function from query bytes to answer bytes: [`answer`], and
//! the same for many at once: [`answer_batch`].
//!
//! Not for: sockets, files, clocks, and where a place comes from. Files are bytes handed in
//! (`$INCLUDE` is a callback); which of a pool's answers a client gets is the caller's `choose`,
//! and what stands at a zone's reversed addresses is the caller's [`Synthesise`].
//!
//! ```text
//! master file ─► Zone ┐
//!                     ├─► Zones (immutable, one generation) ─┐
//!        sites ─► Pool ┘                                     ├─► answer(...) ─► reply bytes
//!                           query bytes, Context, choose ────┘
//! ```
//!
//! To follow a query, start at `answer.rs`; to follow a zone, at `zone/mod.rs`.
#![forbid(unsafe_code)]

mod answer;
mod batch;
pub mod catalog;
mod challenges;
mod code;
mod cookie;
mod ecs;
mod fast_path;
mod limit;
mod lower;
pub mod message;
mod name;
mod record;
mod reply;
mod request;
mod resolve;
mod reversed;
mod signing;
pub mod transfer;
pub mod update;
mod zone;
mod zones;

pub use answer::{
    ANSWERS_MAX, Choice, ChoiceVerdict, Chooser, Client, Context, Outcome, Transport, answer,
};
pub use batch::{Answers, BATCH_SIZE, Query, Workspace, answer_batch};
pub use challenges::{CHALLENGES_MAX, Challenges};
pub use code::{Rcode, RecordType};
pub use cookie::CookieSecrets;
pub use limit::{RateLimit, SignatureLimit, SignatureLimiter};
pub use name::{NAME_SIZE_MAX, Name, NameError};
pub use record::{record_data, text_data};
pub use resolve::CHAIN_LENGTH_MAX;
pub use reversed::{Synthesise, Synthesised};
pub use signing::{
    DS_TTL_SECONDS, DenialMethod, KeyAlgorithm, KeyError, KeyId, KeyStates, KeyUse, NewKey,
    RESIGN_BEFORE_SECONDS, Rollover, RolloverStep, SigningContext, SigningKey, StepTimes,
    zone_in_file_names,
};
pub use zone::{Difference, Dnssec, Zone, ZoneError, ZoneRecord};
pub use zones::{Answer, Pool, PoolOwnerReason, Reflect, Zones, ZonesBuilder, ZonesError};
