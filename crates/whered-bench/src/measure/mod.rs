//! Tools of every measuring program: a clock, pinning, statistics, and the machine's description.
//!
//! Not for what is measured.

mod clock;
mod machine;
mod statistics;

pub use clock::{pin_to_core, thread_cpu_nanoseconds};
pub use machine::Machine;
pub use statistics::{median, median_of_ratios, quantile};
