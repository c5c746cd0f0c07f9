//! What is drawn on a terminal: progress bars and colours.
//!
//! For: every command. Not for: help, which clap lays out for the width of the terminal.
//!
//! | environment | bars | colours |
//! | --- | --- | --- |
//! | no terminal | no | no |
//! | `TERM=dumb` | no | no |
//! | `NO_COLOR` with any text (<https://no-color.org>) | yes | no |

use std::env;
use std::io::{self, IsTerminal};

use indicatif::ProgressDrawTarget;

/// Where progress bars are drawn; nowhere if standard error cannot move back in a line.
pub(crate) fn bars() -> ProgressDrawTarget {
    if is_dumb() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
}

/// Whether lines on standard error have colours.
pub(crate) fn has_colours() -> bool {
    let is_unwanted = env::var_os("NO_COLOR").is_some_and(|text| !text.is_empty());
    io::stderr().is_terminal() && !is_unwanted && !is_dumb()
}

fn is_dumb() -> bool {
    env::var_os("TERM").is_some_and(|name| name == "dumb")
}
