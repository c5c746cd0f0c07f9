//! whered-engine.
