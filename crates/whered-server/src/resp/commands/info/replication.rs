//! The section of `INFO` about primaries that are followed.
//!
//! Not for: the figures themselves (`crate::replica`). With several links, `master_...` are of the
//! first one, `up` is said when all are, and each link has a line of its own.

use whered_engine::ReplicationId;

use super::{line, zeros};
use crate::replica::{Count, LinkState, LinkStatus};
use crate::resp::session::Session;

/// Writes the section.
pub(super) fn section(session: &Session, text: &mut String) {
    let links = session.shared.context.replicas.links();
    let Some(first) = links.first() else {
        line(text, "role", "master");
        zeros(text, &["connected_slaves"]);
        line(text, "master_failover_state", "no-failover");
        line(text, "master_replid2", "0".repeat(40));
        zeros(text, &["master_repl_offset"]);
        return backlog(text);
    };
    line(text, "role", "slave");
    let primary = first.primary();
    let (host, port) = primary.rsplit_once(':').unwrap_or((&primary, "0"));
    line(text, "master_host", host);
    line(text, "master_port", port);
    let is_up = links.iter().all(|link| link.state() == LinkState::Up);
    line(text, "master_link_status", if is_up { "up" } else { "down" });
    let silence = match first.state() {
        LinkState::Up => first.silence().as_secs().to_string(),
        _ => "-1".to_owned(),
    };
    line(text, "master_last_io_seconds_ago", silence);
    let is_syncing = first.state() == LinkState::Synchronizing;
    line(text, "master_sync_in_progress", u8::from(is_syncing));
    line(text, "slave_read_repl_offset", first.offset());
    line(text, "slave_repl_offset", first.offset());
    if is_syncing {
        synchronizing(text, first);
    }
    if !is_up {
        line(text, "master_link_down_since_seconds", first.since_change().as_secs());
    }
    // No Sentinel is to promote this server.
    line(text, "slave_priority", 0);
    line(text, "slave_read_only", 1);
    line(text, "replica_announced", 1);
    line(text, "connected_slaves", session.shared.context.replicas.upstream.follower_count());
    line(text, "master_failover_state", "no-failover");
    if let Some(id) = history_of(session, first) {
        line(text, "master_replid", id);
    }
    line(text, "master_replid2", "0".repeat(40));
    line(text, "master_repl_offset", first.offset().max(0));
    backlog(text);
    for (index, link) in links.iter().enumerate() {
        let id = history_of(session, link).map_or_else(String::new, |id| id.to_string());
        line(text, &format!("whered_replica{index}"), of_link(link, &id));
    }
}

/// The history that a link's data are of.
fn history_of(session: &Session, link: &LinkStatus) -> Option<ReplicationId> {
    let position = session.engine().keyspace().position(link.number)?;
    Some(link.history().unwrap_or(position.replication_id))
}

fn backlog(text: &mut String) {
    line(text, "second_repl_offset", -1);
    zeros(text, &["repl_backlog_active", "repl_backlog_size"]);
    zeros(text, &["repl_backlog_first_byte_offset", "repl_backlog_histlen"]);
}

fn synchronizing(text: &mut String, link: &LinkStatus) {
    let (read, total) = (link.count(Count::DumpBytes), link.count(Count::DumpBytesStated));
    line(text, "master_sync_total_bytes", total);
    line(text, "master_sync_read_bytes", read);
    line(text, "master_sync_left_bytes", total.saturating_sub(read));
    let percent = if total == 0 { 0.0 } else { read as f64 * 100.0 / total as f64 };
    line(text, "master_sync_perc", format_args!("{percent:.2}"));
    line(text, "master_sync_last_io_seconds_ago", link.silence().as_secs());
}

/// One link in one line; what a fault says may hold anything and stands last.
fn of_link(link: &LinkStatus, id: &str) -> String {
    let (state, error) = match link.state() {
        LinkState::Connecting => ("connecting", String::new()),
        LinkState::Synchronizing => ("synchronizing", String::new()),
        LinkState::Up => ("up", String::new()),
        LinkState::Down(error) => ("down", error),
    };
    format!(
        "of={},primary={},state={state},replid={id},offset={},lag_bytes={},lag_seconds={:.3},full_syncs={},\
         partial_syncs={},faults={},commands={},keys_read_anew={},dump_keys={},dump_keys_of_other_types={},error={error}",
        link.of,
        link.primary(),
        link.offset(),
        link.lag_bytes(),
        link.lag().as_secs_f64(),
        link.count(Count::FullSyncs),
        link.count(Count::PartialSyncs),
        link.count(Count::Faults),
        link.count(Count::Commands),
        link.count(Count::KeysReadAnew),
        link.count(Count::DumpKeys),
        link.count(Count::DumpKeysOfOtherTypes),
    )
}
