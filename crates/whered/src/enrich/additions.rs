//! What is added to every record, and from where: decided once for a run.
//!
//! Not for how it is written, which differs between text and columns.

use std::sync::Arc;
use std::thread;

use whered_ip::text::ListChoice;

use super::fields::Column;
use super::find::Finder;

/// The fields that are added, and what finds them.
pub(crate) struct Additions {
    pub(crate) columns: Vec<Column>,
    /// The column or member that says what is wrong with a record.
    pub(crate) fault_name: String,
    pub(crate) finders: Vec<Finder>,
    /// Which address of a list counts.
    pub(crate) list: ListChoice,
    /// Whether any database covers IPv4 and IPv6 addresses.
    pub(crate) covered: [bool; 2],
    /// Only for measuring what everything else costs: every address counts as not found.
    pub(crate) is_without_lookups: bool,
}

impl Additions {
    /// The names of the added columns, that of faults among them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let columns = self.columns.iter().map(|column| column.name.as_str());
        columns.chain([self.fault_name.as_str()])
    }

    /// Builds the indexes of the databases in a thread of its own. Nobody waits for an index that
    /// comes too late.
    pub(crate) fn build_indexes(this: &Arc<Additions>) {
        let this = this.clone();
        thread::spawn(move || {
            if !this.is_without_lookups {
                this.finders.iter().for_each(Finder::build_index);
            }
        });
    }
}
