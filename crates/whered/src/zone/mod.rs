//! `whered zone`: DNS zones on the command line.
//!
//! Not for: what master files mean (`whered-dns`); serving them.

mod check;
pub(crate) mod flags;
mod gdnsd;
mod key;
mod transfer;

pub(crate) use check::run as check;
pub(crate) use gdnsd::run as convert_gdnsd;
pub(crate) use key::run as key;
pub(crate) use transfer::{discard, refresh, retransfer};
