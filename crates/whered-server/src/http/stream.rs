//! `GET /v1/stream`: changes as they happen, as server-sent events.
//!
//! ```text
//! writers ─> Watch (whered-engine) ─┐
//! generation, sites, feeds ─────────┴─ every 100 ms ─> one batch for all
//!    channel ─┬─> client: queue ─> socket
//!             └─> ...
//! ```
//!
//! Events: `move` (members of a collection that were put somewhere or removed), `resync` (a
//! collection is to be read anew), `site`, `feed`, `generation`. Each stream begins with a `resync`
//! of its collections and the state of all that it asked for: who reads after that misses nothing.
//!
//! Invariants: a client that does not keep up loses batches and is told so: `resync`, and the state
//! of all again. Nothing is collected while nobody listens.
//! Memory: [`BATCHES`] batches of up to [`BATCH_BYTES`] for all clients together, and [`QUEUED`]
//! references to events for each.
//! At the same time: one task makes batches, each client has one of its own.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::{HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, broadcast, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use whered_engine::{CollectionChanges, Engine, FOLLOWED_MAX, Generation};

use super::binary_names::{ShownName, base64};
use super::error::{ErrorCode, HttpError};
use super::query::Parameters;
use super::state::HttpState;
use crate::feeds::describe;

/// How often what has changed is sent.
const PERIOD: Duration = Duration::from_millis(100);
/// After how many periods feeds are looked at.
const FEED_PERIODS: u64 = 5;
/// How often something is sent at least.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How many batches a client may be behind.
const BATCHES: usize = 16;
/// How large the moves of a batch may be; what is more becomes `resync`.
const BATCH_BYTES: usize = 4 << 20;
/// Events that wait for a client's socket.
const QUEUED: usize = 8;
/// Streams at the same time.
pub(super) const STREAMS_MAX: usize = 64;
/// Collections of one stream.
const COLLECTIONS_MAX: usize = 16;

/// All streams.
pub(super) struct Streams {
    batches: broadcast::Sender<Arc<Batch>>,
    limit: Arc<Semaphore>,
    /// Wakes the task that makes batches when somebody listens.
    wake: Notify,
    closing: watch::Sender<bool>,
}

/// What has happened in one period.
type Batch = Vec<Event>;

/// One event, as it is sent.
#[derive(Clone, Debug)]
struct Event {
    topic: Topic,
    text: Bytes,
}

#[derive(Clone, Debug, PartialEq)]
enum Topic {
    Collection(Box<[u8]>),
    Sites,
    Feeds,
    Generation,
}

impl Streams {
    pub(super) fn new() -> Streams {
        Streams {
            batches: broadcast::channel(BATCHES).0,
            limit: Arc::new(Semaphore::new(STREAMS_MAX)),
            wake: Notify::new(),
            closing: watch::channel(false).0,
        }
    }

    /// Makes batches while somebody listens, until the listener stops.
    pub(super) async fn run(&self, engine: &Engine, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = self.make_batches(engine) => {}
            // An error means that the listener is gone, which is a stop too.
            _ = stop.wait_for(|stop| *stop) => {}
        }
        self.closing.send_replace(true);
    }

    async fn make_batches(&self, engine: &Engine) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut maker = BatchMaker::new(engine);
        loop {
            if self.batches.receiver_count() == 0 {
                // What was told last stays as it was: a new client may have read the state of all
                // before this task goes on, and is told again what has changed since.
                self.wake.notified().await;
            }
            ticks.tick().await;
            let batch = maker.batch(engine);
            if !batch.is_empty() {
                // Nobody may listen any more.
                let _ = self.batches.send(Arc::new(batch));
            }
        }
    }
}

/// What was told last.
struct BatchMaker {
    generation: u64,
    sites: Sites,
    feeds: BTreeMap<String, Value>,
    periods: u64,
}

impl BatchMaker {
    fn new(engine: &Engine) -> BatchMaker {
        let generation = engine.generation();
        let (number, sites) = (generation.number(), sites_of(&generation));
        BatchMaker { generation: number, sites, feeds: feeds_of(engine), periods: 0 }
    }

    fn batch(&mut self, engine: &Engine) -> Batch {
        let mut batch = Batch::new();
        let generation = engine.generation();
        if generation.number() != self.generation {
            self.generation = generation.number();
            let sites = sites_of(&generation);
            batch.extend(changes_of_sites(&self.sites, &sites));
            self.sites = sites;
            batch.push(generation_event(self.generation));
        }
        self.periods += 1;
        if self.periods.is_multiple_of(FEED_PERIODS) {
            let feeds = feeds_of(engine);
            let is_news = |(name, feed): &(&String, &Value)| self.feeds.get(*name) != Some(*feed);
            batch.extend(feeds.iter().filter(is_news).map(|(_, feed)| feed_event(feed)));
            self.feeds = feeds;
        }
        let mut bytes = 0;
        for changes in engine.watch().take() {
            let event = collection_event(&changes, BATCH_BYTES - bytes);
            bytes += event.text.len();
            batch.push(event);
        }
        batch
    }
}

/// Pool and site, with what is said of it.
type Sites = BTreeMap<(String, String), Value>;

fn sites_of(generation: &Generation) -> Sites {
    let pools = generation.pools().iter();
    let sites = pools.flat_map(|pool| pool.sites.iter().map(move |site| (pool, site)));
    let told = sites.map(|(pool, site)| {
        let value = json!({
            "pool": pool.name,
            "site": site.name,
            "healthy": site.healthy,
            "state": site.health.probed.name(),
            "override": site.health.manual.name(),
        });
        ((pool.name.clone(), site.name.clone()), value)
    });
    told.collect()
}

fn changes_of_sites(old: &Sites, new: &Sites) -> Vec<Event> {
    let news = new.iter().filter(|(key, site)| old.get(*key) != Some(*site));
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let gone = gone.map(|(pool, site)| json!({ "pool": pool, "site": site, "removed": true }));
    news.map(|(_, site)| site_event(site)).chain(gone.map(|site| site_event(&site))).collect()
}

fn feeds_of(engine: &Engine) -> BTreeMap<String, Value> {
    engine.feeds().iter().map(|feed| (feed.name().to_owned(), describe(feed))).collect()
}

fn site_event(site: &Value) -> Event {
    Event { topic: Topic::Sites, text: sse("site", site.to_string().as_bytes()) }
}

fn feed_event(feed: &Value) -> Event {
    Event { topic: Topic::Feeds, text: sse("feed", feed.to_string().as_bytes()) }
}

fn generation_event(number: u64) -> Event {
    let data = json!({ "generation": number }).to_string();
    Event { topic: Topic::Generation, text: sse("generation", data.as_bytes()) }
}

fn resync_event(key: &[u8]) -> Event {
    let mut data = serde_json::Map::new();
    ShownName::new(key).put(&mut data, "collection");
    let text = sse("resync", Value::Object(data).to_string().as_bytes());
    Event { topic: Topic::Collection(key.into()), text }
}

/// What has become of a collection, within a number of bytes.
fn collection_event(changes: &CollectionChanges, bytes_max: usize) -> Event {
    let Some(members) = &changes.members else { return resync_event(&changes.key) };
    let mut data = serde_json::Map::new();
    ShownName::new(&changes.key).put(&mut data, "collection");
    let mut data = Value::Object(data).to_string();
    data.pop();
    data.push_str(",\"changes\":[");
    let mut removed: Vec<&str> = Vec::new();
    let mut removed_base64: Vec<String> = Vec::new();
    let mut comma = "";
    for (member, cell) in members {
        if data.len() > bytes_max {
            return resync_event(&changes.key);
        }
        let text = std::str::from_utf8(member);
        match (cell, text) {
            (None, Ok(text)) => removed.push(text),
            (None, Err(_)) => removed_base64.push(base64(member)),
            (Some(cell), _) => {
                let place = cell.place();
                let (x, y) = (place.longitude_degrees, place.latitude_degrees);
                let one = match text {
                    Ok(text) => json!([text, x, y]),
                    Err(_) => json!([String::from_utf8_lossy(member), x, y, base64(member)]),
                };
                data.push_str(comma);
                data.push_str(&one.to_string());
                comma = ",";
            }
        }
    }
    data.push_str("],\"removed\":");
    data.push_str(&json!(removed).to_string());
    if !removed_base64.is_empty() {
        data.push_str(&format!(",\"removed_base64\":{}", json!(removed_base64)));
    }
    data.push('}');
    if data.len() > bytes_max {
        return resync_event(&changes.key);
    }
    let topic = Topic::Collection(changes.key.clone());
    Event { topic, text: sse("move", data.as_bytes()) }
}

/// One event of `text/event-stream`; JSON on one line is one line of data.
fn sse(event: &str, data: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(event.len() + data.len() + 16);
    text.extend_from_slice(b"event: ");
    text.extend_from_slice(event.as_bytes());
    text.extend_from_slice(b"\ndata: ");
    text.extend_from_slice(data);
    text.extend_from_slice(b"\n\n");
    text.into()
}

/// What a client listens to.
#[derive(Debug)]
struct Topics {
    collections: Vec<Box<[u8]>>,
    sites: bool,
    feeds: bool,
}

impl Topics {
    fn read(parameters: &Parameters) -> Result<Topics, HttpError> {
        let mut collections: Vec<Box<[u8]>> = Vec::new();
        let together = parameters.text("collections").unwrap_or_default().split(',');
        let together = together.filter(|name| !name.is_empty());
        for name in parameters.values_of("collection").chain(together) {
            if !collections.iter().any(|known| **known == *name.as_bytes()) {
                collections.push(name.as_bytes().into());
            }
        }
        if collections.len() > COLLECTIONS_MAX {
            let message = format!("{} collections; allowed: {COLLECTIONS_MAX}", collections.len());
            let is_list = parameters.text("collections").is_some();
            let field = if is_list { "collections" } else { "collection" };
            return Err(HttpError::bad_request(field, message));
        }
        let (sites, feeds) = (parameters.switch("sites")?, parameters.switch("feeds")?);
        Ok(Topics { collections, sites, feeds })
    }

    fn has(&self, topic: &Topic) -> bool {
        match topic {
            Topic::Collection(key) => self.collections.contains(key),
            Topic::Sites => self.sites,
            Topic::Feeds => self.feeds,
            Topic::Generation => true,
        }
    }

    /// The state of all: what a stream begins with, and goes on with after a gap.
    fn whole(&self, engine: &Engine) -> Vec<Event> {
        let generation = engine.generation();
        let mut events = vec![generation_event(generation.number())];
        events.extend(self.collections.iter().map(|key| resync_event(key)));
        if self.sites {
            events.extend(sites_of(&generation).values().map(site_event));
        }
        if self.feeds {
            events.extend(feeds_of(engine).values().map(feed_event));
        }
        events
    }
}

/// Changes as they happen.
#[utoipa::path(
    get,
    path = "/v1/stream",
    operation_id = "stream_changes",
    tag = "stream",
    params(
        ("collection" = Option<Vec<String>>, Query, description = "a collection; repeatable, up to 16 with those of collections"),
        ("collections" = Option<String>, Query, description = "collections whose names have no comma, with commas between"),
        ("sites" = Option<String>, Query, description = "1 or true: also the states of sites"),
        ("feeds" = Option<String>, Query, description = "1 or true: also the states of feeds"),
    ),
    responses((status = 200, description = "text/event-stream without an end"))
)]
pub(crate) async fn stream(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let names = ["collection", "collections", "sites", "feeds"];
    let parameters = Parameters::read_with_lists(&uri, &names, &["collection"])?;
    let topics = Topics::read(&parameters)?;
    let streams = &state.streams;
    let permit = Arc::clone(&streams.limit).try_acquire_owned().map_err(|_| {
        let message = format!("{STREAMS_MAX} streams are open; allowed: {STREAMS_MAX}");
        HttpError::new(ErrorCode::TooManyStreams, None, message)
    })?;
    let (sender, receiver) = mpsc::channel(QUEUED);
    let client = Client {
        following: FollowerGuard::begin(&state.engine, topics)?,
        batches: streams.batches.subscribe(),
        closing: streams.closing.subscribe(),
        sender,
        _permit: permit,
    };
    streams.wake.notify_one();
    tokio::spawn(client.run());
    let kind = HeaderValue::from_static("text/event-stream");
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, Body::new(StreamBody(receiver))).into_response())
}

/// Follows the collections of a client as long as it is there.
struct FollowerGuard {
    engine: Arc<Engine>,
    topics: Topics,
}

impl FollowerGuard {
    fn begin(engine: &Arc<Engine>, topics: Topics) -> Result<FollowerGuard, HttpError> {
        let mut following = FollowerGuard {
            engine: Arc::clone(engine),
            topics: Topics { collections: Vec::new(), sites: topics.sites, feeds: topics.feeds },
        };
        for key in topics.collections {
            if !engine.watch().follow(&key) {
                let message = format!("{FOLLOWED_MAX} collections are followed; allowed: no more");
                let field = Some("collections");
                return Err(HttpError::new(ErrorCode::TooManyStreams, field, message));
            }
            following.topics.collections.push(key);
        }
        Ok(following)
    }
}

impl Drop for FollowerGuard {
    fn drop(&mut self) {
        self.topics.collections.iter().for_each(|key| self.engine.watch().unfollow(key));
    }
}

struct Client {
    following: FollowerGuard,
    batches: broadcast::Receiver<Arc<Batch>>,
    closing: watch::Receiver<bool>,
    sender: mpsc::Sender<Bytes>,
    _permit: OwnedSemaphorePermit,
}

/// The client is gone, or the server stops.
struct StreamEnd;

impl Client {
    async fn run(mut self) {
        let mut closing = self.closing.clone();
        let sender = self.sender.clone();
        tokio::select! {
            StreamEnd = self.send_all() => {}
            () = sender.closed() => {}
            _ = closing.wait_for(|closing| *closing) => {}
        }
    }

    async fn send_all(&mut self) -> StreamEnd {
        let whole = self.following.topics.whole(&self.following.engine);
        if self.send(whole).await.is_err() {
            return StreamEnd;
        }
        let mut heartbeat = Instant::now() + HEARTBEAT;
        loop {
            let events = tokio::select! {
                batch = self.batches.recv() => match batch {
                    Ok(batch) => self.of_interest(&batch),
                    Err(broadcast::error::RecvError::Lagged(_)) => {
                        // From the newest batch on: the state is read after that.
                        self.batches = self.batches.resubscribe();
                        self.following.topics.whole(&self.following.engine)
                    }
                    Err(broadcast::error::RecvError::Closed) => return StreamEnd,
                },
                () = sleep_until(heartbeat) => {
                    let text = Bytes::from_static(b": still here\n\n");
                    vec![Event { topic: Topic::Generation, text }]
                }
            };
            if events.is_empty() {
                continue;
            }
            heartbeat = Instant::now() + HEARTBEAT;
            if self.send(events).await.is_err() {
                return StreamEnd;
            }
        }
    }

    fn of_interest(&self, batch: &Batch) -> Vec<Event> {
        let topics = &self.following.topics;
        batch.iter().filter(|event| topics.has(&event.topic)).cloned().collect()
    }

    /// Waits for the client's socket; batches that come meanwhile wait in the channel, or are lost.
    async fn send(&self, events: Vec<Event>) -> Result<(), StreamEnd> {
        for event in events {
            self.sender.send(event.text).await.map_err(|_| StreamEnd)?;
        }
        Ok(())
    }
}

/// The queue of a client as a body.
struct StreamBody(mpsc::Receiver<Bytes>);

impl HttpBody for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(http_body::Frame::data(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whered_engine::geo::{Cell, Place};

    fn text(event: &Event) -> String {
        String::from_utf8(event.text.to_vec()).expect("events are text")
    }

    fn cell(x: f64, y: f64) -> Option<Cell> {
        Some(Cell::from_place(Place::new(x, y).expect("a place")))
    }

    #[test]
    fn moves_and_removals_are_one_line_of_json_whatever_the_names_are() {
        let member = |name: &[u8], cell| (Box::from(name), cell);
        let members = vec![
            member(b"van\n\"1\"", cell(8.0, 50.0)),
            member(b"caf\xe9", cell(0.0, 0.0)),
            member(b"gone", None),
            member(b"\xff", None),
        ];
        let changes = CollectionChanges { key: Box::from(&b"a,b"[..]), members: Some(members) };
        let told = text(&collection_event(&changes, 1_000));
        assert_eq!(told.lines().count(), 3, "{told}");
        let data = told.strip_prefix("event: move\ndata: ").expect("a move");
        let value: Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(value["collection"], "a,b");
        assert_eq!(value["changes"][0][0], "van\n\"1\"");
        assert!((value["changes"][0][1].as_f64().expect("a longitude") - 8.0).abs() < 1e-5);
        assert_eq!(value["changes"][1][3], "Y2Fm6Q==");
        assert_eq!(value["removed"], json!(["gone"]));
        assert_eq!(value["removed_base64"], json!(["/w=="]));
        let short = text(&collection_event(&changes, 100));
        assert_eq!(short, "event: resync\ndata: {\"collection\":\"a,b\"}\n\n");
        let all = CollectionChanges { key: Box::from(&b"\xff"[..]), members: None };
        let expected = "data: {\"collection\":\"\u{fffd}\",\"collection_base64\":\"/w==\"}\n\n";
        assert!(text(&collection_event(&all, 1_000)).ends_with(expected));
    }

    #[test]
    fn only_sites_that_are_otherwise_than_before_are_told() {
        let site = |healthy: bool| json!({ "pool": "www", "site": "fra", "healthy": healthy });
        let key = |site: &str| ("www".to_owned(), site.to_owned());
        let old = Sites::from([(key("fra"), site(true)), (key("nyc"), json!(1))]);
        assert_eq!(changes_of_sites(&old, &old).len(), 0);
        let new = Sites::from([(key("fra"), site(false))]);
        let told: Vec<String> = changes_of_sites(&old, &new).iter().map(text).collect();
        assert!(told[0].contains("\"healthy\":false"), "{told:?}");
        assert!(told[1].contains("\"removed\":true"), "{told:?}");
    }

    #[tokio::test]
    async fn a_client_that_does_not_keep_up_is_told_to_read_anew_and_goes_on_from_there() {
        let (engine, _) = Engine::open(whered_engine::EngineOptions::default()).expect("an engine");
        let streams = Streams::new();
        let topics = Topics { collections: vec![Box::from(&b"k"[..])], sites: false, feeds: false };
        let (sender, mut receiver) = mpsc::channel(QUEUED);
        let permit = Arc::clone(&streams.limit).acquire_owned().await.expect("a place");
        let client = Client {
            following: FollowerGuard::begin(&engine, topics).expect("a key that may be followed"),
            batches: streams.batches.subscribe(),
            closing: streams.closing.subscribe(),
            sender,
            _permit: permit,
        };
        let running = tokio::spawn(client.run());
        let event = |number: usize| {
            let topic = Topic::Collection(Box::from(&b"k"[..]));
            Event { topic, text: sse("move", number.to_string().as_bytes()) }
        };
        // Far more than the queue and the channel hold, while nobody reads.
        let last = 100 * BATCHES;
        for number in 0..last {
            streams.batches.send(Arc::new(vec![event(number)])).expect("a client");
            tokio::task::yield_now().await;
        }
        let (mut resyncs, mut moves) = (0, 0);
        let told = |bytes: Bytes| String::from_utf8(bytes.to_vec()).expect("text");
        loop {
            let text = told(receiver.recv().await.expect("the stream goes on"));
            resyncs += usize::from(text.starts_with("event: resync"));
            moves += usize::from(text.starts_with("event: move"));
            if resyncs == 2 {
                break;
            }
        }
        assert!(moves <= QUEUED + BATCHES, "{moves} batches were held for it");
        streams.batches.send(Arc::new(vec![event(last)])).expect("a client");
        let next = told(receiver.recv().await.expect("the stream goes on"));
        assert_eq!(next, format!("event: move\ndata: {last}\n\n"));
        drop(receiver);
        running.await.expect("a client that is gone ends its task");
        assert_eq!(streams.limit.available_permits(), STREAMS_MAX);
        assert!(engine.watch().follow(b"k"), "nobody follows it any more");
        engine.watch().unfollow(b"k");
    }
}
