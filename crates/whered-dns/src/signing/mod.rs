//! Signing of zones: keys, the signatures that they make, and how one key replaces another.
//!
//! Not for: which records of a zone are signed (`zone/sign.rs`), files (texts are handed in), the
//! order of names (`zone/canonical.rs`).
//!
//! ```text
//! K*.key, K*.private ─ keys.rs ─► SigningKey ┐
//! states ─ rollover.rs ─► KeyUse             ┴─► SigningContext ─► zone/sign.rs: NSEC and RRSIG
//!                                 └► ZoneSigner, kept with the zone: answers of pools
//! ```
//!
//! Invariants: a private key leaves this crate as the text of [`SigningKey::generate`] alone, and
//! no `Debug` shows it. Times are arguments.

mod keys;
mod rollover;
mod signer;

pub use keys::{KeyAlgorithm, KeyError, NewKey, SigningKey, zone_in_file_names};
pub use rollover::{DS_TTL_SECONDS, KeyId, KeyStates, KeyUse, Rollover, RolloverStep, StepTimes};
pub(crate) use signer::{Demand, ZoneSigner};
pub use signer::{DenialMethod, RESIGN_BEFORE_SECONDS, SigningContext};

/// The tag of a key by the data of its DNSKEY (RFC 4034, appendix B).
pub(crate) fn key_tag(data: &[u8]) -> u16 {
    let sum: u32 = data
        .iter()
        .enumerate()
        .map(|(at, byte)| u32::from(*byte) << if at % 2 == 0 { 8 } else { 0 })
        .fold(0, u32::wrapping_add);
    (sum + (sum >> 16)) as u16
}
