//! Ordered packet rules, first match decides.
//!
//! For: [`classify`], rules compiled so that a packet's cost hardly grows with their number.
//! Not for: capture, files, sockets, threads, clocks; the time is an argument.
pub mod classify;
