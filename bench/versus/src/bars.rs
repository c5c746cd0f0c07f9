//! The bars: which ratio is wanted, of which task, against whom.
//!
//! Not for measuring. A ratio says how many times as long the rival takes.

use whered_bench::lookup::{Calls, Input, Task, Wants};

/// Which file a comparison is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum File {
    /// The city-scale MaxMind DB file.
    City,
    /// Debian's legacy country file.
    Legacy,
}

/// One bar.
pub(crate) struct Bar {
    /// What it is about, in words.
    pub(crate) measure: &'static str,
    /// The file and the list of addresses.
    pub(crate) place: (File, &'static str),
    /// Our engines; each is stated.
    pub(crate) ours: &'static [&'static str],
    /// What ours do; the rival does the same in single calls.
    pub(crate) task: Task,
    /// The rival.
    pub(crate) rival: &'static str,
    /// The ratio that must be.
    pub(crate) at_least: f64,
    /// The ratio that would be good.
    pub(crate) reach_for: Option<f64>,
}

const INDEXED: &[&str] = &["whered-compact", "whered-fast"];
const DROP_IN_INDEX: &[&str] = &["drop-in-index", "drop-in-index-fast"];
const DROP_IN_TREE: &[&str] = &["drop-in-tree"];

const fn task(input: Input, wants: Wants, calls: Calls) -> Task {
    Task { input, calls, wants }
}
const ROW: Task = task(Input::Binary, Wants::Row, Calls::Single);
const ROW_BATCH: Task = task(Input::Binary, Wants::Row, Calls::Batch);
const RECORD: Task = task(Input::Binary, Wants::Record, Calls::Single);
const RECORD_BATCH: Task = task(Input::Binary, Wants::Record, Calls::Batch);
const FIELDS: Task = task(Input::Binary, Wants::Fields, Calls::Single);
const FIELDS_BATCH: Task = task(Input::Binary, Wants::Fields, Calls::Batch);
const TEXT_FIELDS_BATCH: Task = task(Input::Text, Wants::Fields, Calls::Batch);
const TEXT_ROW: Task = task(Input::Text, Wants::Row, Calls::Single);
const TEXT_ROW_BATCH: Task = task(Input::Text, Wants::Row, Calls::Batch);

const fn city(
    measure: &'static str,
    list: &'static str,
    task: Task,
    at_least: f64,
    reach_for: f64,
) -> Bar {
    Bar {
        measure,
        place: (File::City, list),
        ours: INDEXED,
        task,
        rival: "libmaxminddb",
        at_least,
        reach_for: Some(reach_for),
    }
}

/// All bars, in the order of the page that sets them.
pub(crate) const BARS: &[Bar] = &[
    city("address -> record's row, single, uniform", "uniform4", ROW, 15.0, 25.0),
    city("address -> record's row, single, network-weighted", "networks4", ROW, 12.0, 22.0),
    city("address -> record's row, single, IPv6", "networks6", ROW, 8.0, 15.0),
    city("address -> record's row, batch, uniform", "uniform4", ROW_BATCH, 22.0, 40.0),
    city("address -> record's row, batch, network-weighted", "networks4", ROW_BATCH, 32.0, 50.0),
    city("address -> record's row, batch, IPv6", "networks6", ROW_BATCH, 12.0, 25.0),
    city("address -> record's offset, single, uniform", "uniform4", RECORD, 15.0, 25.0),
    city("address -> record's offset, single, network-weighted", "networks4", RECORD, 12.0, 22.0),
    city("address -> record's offset, single, IPv6", "networks6", RECORD, 8.0, 15.0),
    city("address -> record's offset, batch, uniform", "uniform4", RECORD_BATCH, 22.0, 40.0),
    city(
        "address -> record's offset, batch, network-weighted",
        "networks4",
        RECORD_BATCH,
        32.0,
        50.0,
    ),
    city("address -> record's offset, batch, IPv6", "networks6", RECORD_BATCH, 12.0, 25.0),
    city("address -> four fields, single, uniform", "uniform4", FIELDS, 28.0, 45.0),
    city("address -> four fields, single, network-weighted", "networks4", FIELDS, 28.0, 45.0),
    city("address -> four fields, batch, uniform", "uniform4", FIELDS_BATCH, 45.0, 80.0),
    city("address -> four fields, batch, network-weighted", "networks4", FIELDS_BATCH, 45.0, 80.0),
    city("text -> four fields, batch, uniform", "uniform4", TEXT_FIELDS_BATCH, 18.0, 30.0),
    city(
        "text -> four fields, batch, network-weighted",
        "networks4",
        TEXT_FIELDS_BATCH,
        18.0,
        30.0,
    ),
    Bar {
        rival: "libmaxminddb-fastest",
        ..city("text -> four fields, batch, uniform", "uniform4", TEXT_FIELDS_BATCH, 18.0, 30.0)
    },
    Bar {
        place: (File::Legacy, "uniform4"),
        rival: "libGeoIP-MEMORY_CACHE",
        reach_for: None,
        ..city("legacy country file, random texts, single", "uniform4", TEXT_ROW, 2.5, 0.0)
    },
    Bar {
        place: (File::Legacy, "uniform4"),
        rival: "libGeoIP-MEMORY_CACHE",
        ..city("legacy country file, random texts, batch", "uniform4", TEXT_ROW_BATCH, 5.0, 10.0)
    },
    Bar {
        ours: DROP_IN_INDEX,
        ..city("drop-in with index, lookup_sockaddr, uniform", "uniform4", RECORD, 6.0, 10.0)
    },
    Bar {
        ours: DROP_IN_INDEX,
        ..city(
            "drop-in with index, lookup_sockaddr, network-weighted",
            "networks4",
            RECORD,
            6.0,
            10.0,
        )
    },
    Bar {
        ours: DROP_IN_INDEX,
        ..city("drop-in with index, lookup + 4 get_value, uniform", "uniform4", FIELDS, 3.0, 8.0)
    },
    Bar {
        ours: DROP_IN_INDEX,
        ..city(
            "drop-in with index, lookup + 4 get_value, network-weighted",
            "networks4",
            FIELDS,
            3.0,
            8.0,
        )
    },
    Bar {
        ours: DROP_IN_TREE,
        reach_for: None,
        ..city(
            "drop-in with the tree, lookup_sockaddr, network-weighted",
            "networks4",
            RECORD,
            1.0,
            0.0,
        )
    },
    Bar {
        ours: DROP_IN_TREE,
        reach_for: None,
        ..city(
            "drop-in with the tree, lookup + 4 get_value, network-weighted",
            "networks4",
            FIELDS,
            1.0,
            0.0,
        )
    },
];

/// A bar for memory over the file itself, in millions of bytes.
pub(crate) struct MemoryBar {
    /// The engine.
    pub(crate) engine: &'static str,
    /// What the memory is for.
    pub(crate) what: &'static str,
    /// What it may take.
    pub(crate) at_most: f64,
    /// What would be good.
    pub(crate) reach_for: Option<f64>,
}

/// The bars for memory; an index of IPv4 alone (32) is not made here.
pub(crate) const MEMORY_BARS: &[MemoryBar] = &[
    MemoryBar { engine: "whered-compact", what: "networks", at_most: 60.0, reach_for: Some(45.0) },
    MemoryBar { engine: "whered-compact", what: "columns", at_most: 24.0, reach_for: None },
];
