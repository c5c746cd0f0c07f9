//! whered-store.
