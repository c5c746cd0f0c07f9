//! whered-mmdb.
