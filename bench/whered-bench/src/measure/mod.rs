//! Tools of every measuring program: a clock, waiting, pinning, statistics, and the machine's
//! description.
//!
//! Not for what is measured.

mod clock;
mod day_record;
mod machine;
mod process;
mod result;
mod statistics;
mod waiting;
mod weighed;

pub use clock::{cores, pin_to_core, pin_to_cores, thread_cpu_nanoseconds};
pub use day_record::{DayRecord, RecordKind, Section};
pub use machine::Machine;
pub use process::{process_cpu_nanoseconds, resident_bytes};
pub use result::{Bar, Measure, measures_to_json, result_path, write_result};
pub use statistics::{median, median_of_ratios, quantile};
pub use waiting::wait_until;
pub use weighed::{weighed, weighed_group};
