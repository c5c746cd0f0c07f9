//! What DNS zones answer beside their own records: ACME challenges, and names that are addresses.
//!
//! - [`challenges`] has the tokens that a certificate authority looks for;
//! - [`reversed`] serves prefix sets as blocklists and databases as TXT.
//!
//! Not for: the records of zones and how questions are answered (`whered-dns`).

pub(crate) mod challenges;
pub(crate) mod reversed;
