//! What the engine keeps in its journal: operations as bytes, and writing them in order.
//!
//! Plain data goes in and out: this folder knows none of the things that operations change.
//!
//! - [`operation`] has the operations and their bytes;
//! - [`numbers`] says which numbered databases there are, [`stream`] what a position is, and
//!   [`imports`] which slots a primary takes over;
//! - [`log`] reserves room, appends, and says when a write is durable;
//! - [`watch`] collects what is appended for those who follow collections.

pub(crate) mod imports;
pub(crate) mod log;
pub(crate) mod numbers;
pub(crate) mod operation;
pub(crate) mod stream;
pub(crate) mod watch;
