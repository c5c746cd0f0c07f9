//! `GET /v1/status`: what runs, since when, with what, and whether it takes writes.
//!
//! For: people and `whered status`. Not for: supervisors (`/healthz`, `/readyz`), nor for figures
//! over time (`/metrics`).

use std::sync::Arc;
use std::sync::OnceLock;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde_json::{Map, Value, json};
use whered_engine::Kind;

use super::answers;
use super::collections::NUMBER;
use super::error::HttpError;
use super::probes::unreadiness;
use super::query::Parameters;
use super::searches;
use super::state::{HttpState, json_response};
use crate::disk_watch::disk_space;

/// Keys that are looked at in one step.
const STEP_KEYS: usize = 10_000;

/// The commit that the program was built from, if it has said so.
static COMMIT: OnceLock<&'static str> = OnceLock::new();

/// Says which commit the program was built from; to be called before a server starts.
pub fn set_commit(commit: &'static str) {
    // The first one counts: there is one program.
    let _ = COMMIT.set(commit);
}

/// What runs, since when, and with what.
#[utoipa::path(
    get,
    path = "/v1/status",
    operation_id = "get_status",
    tag = "health and metrics",
    responses((status = 200, description = "the answer", body = answers::Status))
)]
pub(crate) async fn status(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    Parameters::read(&uri, &[])?;
    let about = state.about.clone();
    let answer = searches::run(&state, move |engine, _| {
        let generation = engine.generation();
        let unreadiness = unreadiness(engine, &about);
        let disk = about.data_dir.as_ref().map(|directory| {
            let space = disk_space(directory);
            json!({
                "path": directory.to_string_lossy(),
                "size_bytes": space.map(|space| space.0),
                "free_bytes": space.map(|space| space.1),
            })
        });
        let listeners: Map<String, Value> = about
            .listeners
            .iter()
            .filter(|(_, addresses)| !addresses.is_empty())
            .map(|(protocol, addresses)| ((*protocol).to_owned(), json!(addresses)))
            .collect();
        let (mut collections, mut cursor) = (0, 0);
        loop {
            let (next, keys) = engine.keyspace().scan(NUMBER, cursor, STEP_KEYS);
            collections += keys.iter().filter(|(_, kind)| *kind == Kind::SortedSet).count();
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "commit": COMMIT.get(),
            "pid": std::process::id(),
            "uptime_seconds": about.started.elapsed().as_secs(),
            "generation": generation.number(),
            "ready": unreadiness.is_none(),
            "reason": unreadiness.map(|(_, reason)| reason),
            "counts": {
                "databases": generation.databases().len(),
                "sets": engine.prefix_sets().names().len(),
                "rulesets": generation.rulesets().len(),
                "collections": collections,
                "pools": generation.pools().len(),
                "zones": generation.zones().zones().count(),
                "feeds": engine.feeds().iter().count(),
                "tables": engine.feeds().tables().len(),
            },
            "disk": disk,
            "listeners": listeners,
        }))
    });
    answer.await.map(|body| json_response(body.to_string().into_bytes()))
}
