//! What is told of a sink or a stream of a feed.
//!
//! Not for: running them, which is not the server's affair; they report to the engine's board.

use serde_json::{Value, json};
use whered_engine::feeds::LinkStatus;

/// A link as JSON.
pub(crate) fn describe(link: &LinkStatus) -> Value {
    json!({
        "name": link.name,
        "kind": link.kind,
        "state": link.state,
        "error": link.error,
        "batch": link.batch,
        "rows": link.rows,
        "left_out": link.left_out,
        "missing": link.missing,
        "retry_in_millis": link.retry_in_millis,
    })
}
