//! What DNS zones answer beside their own records: ACME challenges, and names that are addresses.
//!
//! - [`aliases`] has names with the addresses of other names;
//! - [`challenges`] has the tokens that a certificate authority looks for;
//! - [`keys`] is the directory of the keys that sign a zone;
//! - [`reversed`] serves prefix sets as blocklists and databases as TXT.
//!
//! Not for: the records of zones and how questions are answered (`whered-dns`).

pub(crate) mod aliases;
pub(crate) mod challenges;
pub(crate) mod keys;
pub(crate) mod reversed;
