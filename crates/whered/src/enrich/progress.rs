//! The bar that shows a person how far a long run is.
//!
//! Not for the counts at the end, nor for logs: without a terminal on standard error there is none.

use indicatif::{ProgressBar, ProgressStyle};

use crate::terminal;

/// A bar over the bytes of the inputs, or a count where their size is unknown.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar of `size_bytes`. It draws a few times a second, and nothing without a terminal.
    pub(crate) fn new(size_bytes: Option<u64>) -> Progress {
        let bar = ProgressBar::with_draw_target(size_bytes, terminal::bars());
        let template = if size_bytes.is_some() {
            "{wide_bar} {bytes} of {total_bytes}, {msg} records, {eta} left"
        } else {
            "{spinner} {bytes}, {msg} records"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress { bar }
    }

    /// How far the run is.
    pub(crate) fn set(&self, read_bytes: u64, records: u64) {
        if !self.bar.is_hidden() {
            self.bar.set_message(records.to_string());
            self.bar.set_position(read_bytes);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
