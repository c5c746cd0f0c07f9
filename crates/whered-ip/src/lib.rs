//! whered-ip.
