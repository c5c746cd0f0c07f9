//! whered-geo.
