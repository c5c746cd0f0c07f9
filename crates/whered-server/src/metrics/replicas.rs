//! Metrics of links to primaries.
//!
//! Not for: what the figures mean (`replica::board`).

use prometheus_client::registry::Registry;

use super::families::{Counters, FloatGauges, Gauges};
use crate::replica::{Count, LinkState, ReplicaBoard};

pub(super) fn add(registry: &mut Registry, board: &ReplicaBoard) {
    let links = board.links();
    if links.is_empty() {
        return;
    }
    let (up, lag_bytes, lag) = (Gauges::default(), Gauges::default(), FloatGauges::default());
    let (keys, others, offset) = (Gauges::default(), Gauges::default(), Gauges::default());
    let (syncs, faults, commands) = (Counters::default(), Counters::default(), Counters::default());
    let read_anew = Counters::default();
    for link in links {
        let primary = link.primary();
        let labels = [("replica", link.of.as_str()), ("primary", primary.as_str())];
        up.set(labels, u64::from(link.state() == LinkState::Up));
        lag_bytes.set(labels, link.lag_bytes());
        lag.set(labels, link.lag().as_secs_f64());
        keys.set(labels, link.count(Count::DumpKeys));
        others.set(labels, link.count(Count::DumpKeysOfOtherTypes));
        offset.set(labels, u64::try_from(link.offset()).unwrap_or(0));
        for (kind, count) in [("full", Count::FullSyncs), ("partial", Count::PartialSyncs)] {
            let [replica, primary] = labels;
            syncs.add([replica, primary, ("kind", kind)], link.count(count));
        }
        faults.add(labels, link.count(Count::Faults));
        commands.add(labels, link.count(Count::Commands));
        read_anew.add(labels, link.count(Count::KeysReadAnew));
    }
    up.register(registry, "replica_up", "Whether the link has all that its primary has sent");
    let help = "Bytes of the primary's stream that have come and are not applied";
    lag_bytes.register(registry, "replica_lag_bytes", help);
    let help = "Time since everything was here that the primary had sent";
    lag.register(registry, "replica_lag_seconds", help);
    keys.register(registry, "replica_dump_keys", "Followed keys of the last dump");
    let help = "Keys of the last dump that match and have a type that is not followed";
    others.register(registry, "replica_dump_keys_of_other_types", help);
    let help = "Offset of the primary's stream up to which everything is applied";
    offset.register(registry, "replica_offset_bytes", help);
    syncs.register(registry, "replica_syncs", "Synchronizations with the primary, by kind");
    faults.register(registry, "replica_faults", "Times that a link has failed and tried again");
    commands.register(registry, "replica_commands", "Commands of the primary that were applied");
    let help = "Keys that were read anew, each by itself, because the stream did not tell them";
    read_anew.register(registry, "replica_keys_read_anew", help);
}
