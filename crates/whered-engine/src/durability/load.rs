//! Reading a snapshot back, on all cores.
//!
//! ```text
//! blocks ──> threads, each with its own ─┬─ values ──> keyspace at once; images and items aside
//!                                        ├─ settings ──> aside, in order
//!                                        ├─ points ──> a loader for each item
//!                                        ├─ scores ──> rows for each item
//!                                        └─ feeds ──> left to the caller, who reads one at a time
//! then: items become values; images are kept for the replay of the journal
//! ```
//!
//! For: turning blocks into values. Not for: choosing a snapshot, the journal (`replay.rs`).
//! Nothing that is read is trusted: checksums say that a block is what was written, and decoding
//! still refuses what it cannot be, with the file and the block's byte.
//! Cost: one pass over the file; memory for a block per thread beside the data itself.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use whered_geo::{PAGES_VERSION, PointsLoader};
use whered_store::{COLD_KIND, SnapshotReader};

use super::format::{
    Body, FEED_KIND, FEED_ROWS_KIND, POINTS_KIND, Record, SCORES_KIND, SETTINGS_KIND, VALUES_KIND,
    decode_rows, decode_settings, decode_values, split_item,
};
use crate::error::EngineError;
use crate::keyspace::Keyspace;
use crate::keyspace::saving::{Image, Role};
use crate::keyspace::sorted_set::SortedSet;
use crate::keyspace::value::{Data, Value};

/// The most threads that read.
const THREADS_MAX: usize = 8;
/// How many points make a thread of its own worth while for an item's table.
const POINTS_PER_THREAD: usize = 50_000;

/// A prefix-set or site operation: kind and payload.
pub(crate) type Setting = (u16, Vec<u8>);

/// Where a record was found: block and place within it.
type RecordPosition = (usize, usize);

/// What one thread has put aside.
#[derive(Default)]
struct ThreadResult {
    settings: Vec<(RecordPosition, Setting)>,
    records: Vec<(RecordPosition, Named)>,
    points: HashMap<u32, PointsLoader>,
    scores: HashMap<u32, Vec<(usize, Vec<u8>)>>,
    feeds: Vec<usize>,
}

/// What is the caller's to apply, in the order of the snapshot.
pub(crate) struct LoadedSnapshot {
    pub(crate) settings: Vec<Setting>,
    /// Blocks of feeds, which are still to be read.
    pub(crate) feeds: Vec<usize>,
}

/// A value that is put later, and under which name.
struct Named {
    role: Role,
    number: u8,
    key: Box<[u8]>,
    expires_at_millis: Option<u64>,
    content: Content,
}

enum Content {
    Ready(Value),
    Points(u32),
    Scores(u32),
}

/// Loads everything but settings and feeds.
///
/// # Errors
/// The first damaged block, with its file and byte.
pub(crate) fn load(
    reader: &SnapshotReader,
    keyspace: &Keyspace,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<LoadedSnapshot, EngineError> {
    let threads = threads();
    let blocks = reader.blocks();
    let total_bytes: u64 = blocks.iter().map(|block| block.length_bytes).sum();
    let (next, done_bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
    let failed: Mutex<Option<(usize, EngineError)>> = Mutex::new(None);
    let work = || {
        let mut aside = ThreadResult::default();
        let mut words = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(block) = blocks.get(index) else {
                return aside;
            };
            if let Err(error) = take_block(reader, index, &mut words, keyspace, &mut aside) {
                // The others stop, too, and the first block that is wrong is told.
                next.store(blocks.len(), Ordering::Relaxed);
                let mut failed = failed.lock().expect("no thread panics with it");
                if failed.as_ref().is_none_or(|(other, _)| index < *other) {
                    *failed = Some((index, error));
                }
                return aside;
            }
            let before = done_bytes.fetch_add(block.length_bytes, Ordering::Relaxed);
            progress(before + block.length_bytes, total_bytes);
        }
    };
    let mut asides: Vec<ThreadResult> = std::thread::scope(|scope| {
        // Where the system gives no more threads, those that are there do it all.
        let begin = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads).map_while(begin).collect();
        let mut asides = vec![work()];
        for other in others {
            asides.push(other.join().expect("reading a snapshot does not panic"));
        }
        asides
    });
    if let Some((_, error)) = failed.into_inner().expect("no thread panics with it") {
        return Err(error);
    }
    let mut aside = asides.remove(0);
    asides.into_iter().for_each(|other| aside.join(other));
    aside.finish(keyspace, threads)
}

/// How many threads a start uses.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX)
}

fn take_block(
    reader: &SnapshotReader,
    index: usize,
    words: &mut Vec<u64>,
    keyspace: &Keyspace,
    aside: &mut ThreadResult,
) -> Result<(), EngineError> {
    let kind = reader.blocks()[index].kind;
    if matches!(kind, FEED_KIND..=FEED_ROWS_KIND | COLD_KIND) {
        aside.feeds.push(index);
        return Ok(());
    }
    let bytes = reader.read_block(index, words)?;
    let wrong = |reason: String| EngineError::from(reader.refuse(index, &reason));
    match kind {
        VALUES_KIND => decode_values(bytes, |record| aside.take_record(index, record, keyspace)),
        SETTINGS_KIND => decode_settings(bytes, |kind, payload| {
            aside.settings.push(((index, aside.settings.len()), (kind, payload.to_vec())));
            Ok(())
        }),
        POINTS_KIND => aside.take_points(index, words),
        SCORES_KIND => aside.take_scores(index, bytes),
        other => Err(format!("unknown kind {other}; this program knows 1 to {FEED_ROWS_KIND}")),
    }
    .map_err(wrong)
}

impl ThreadResult {
    fn take_record(
        &mut self,
        index: usize,
        record: Record<'_>,
        keyspace: &Keyspace,
    ) -> Result<(), String> {
        let Record { role, number, key, expires_at_millis, body } = record;
        let content = match body {
            Body::Nothing => Content::Ready(Value::empty()),
            Body::Text(text) => Content::Ready(Value::of_text(text)),
            Body::Scores(rows) => Content::Ready(Value::of_scores(rows)),
            Body::PointsItem(item) => Content::Points(item),
            Body::ScoresItem(item) => Content::Scores(item),
        };
        match (role, content) {
            (Role::Base, Content::Ready(value)) => {
                keyspace.put_loaded(number, key, value, expires_at_millis);
            }
            (role, content) => {
                let place = (index, self.records.len());
                let key = key.into();
                self.records.push((place, Named { role, number, key, expires_at_millis, content }));
            }
        }
        Ok(())
    }

    fn take_points(&mut self, index: usize, words: &[u64]) -> Result<(), String> {
        let Some((&head, pages)) = words.split_first() else {
            return Err("a block of points without a head".to_owned());
        };
        let (item, format, _) = split_item(&head.to_le_bytes())?;
        if format != u32::from(PAGES_VERSION) {
            return Err(format!(
                "points of format {format}; this program reads format {PAGES_VERSION}"
            ));
        }
        let loader = self.points.entry(item).or_default();
        loader.load(index as u64, pages).map_err(|error| error.to_string())
    }

    fn take_scores(&mut self, index: usize, bytes: &[u8]) -> Result<(), String> {
        let (item, _, rows) = split_item(bytes)?;
        decode_rows(rows)?;
        self.scores.entry(item).or_default().push((index, rows.to_vec()));
        Ok(())
    }

    fn join(&mut self, other: ThreadResult) {
        self.settings.extend(other.settings);
        self.records.extend(other.records);
        self.feeds.extend(other.feeds);
        for (item, loader) in other.points {
            self.points.entry(item).or_default().join(loader);
        }
        for (item, rows) in other.scores {
            self.scores.entry(item).or_default().extend(rows);
        }
    }

    /// Makes values of the items, and puts or keeps everything.
    fn finish(
        mut self,
        keyspace: &Keyspace,
        threads: usize,
    ) -> Result<LoadedSnapshot, EngineError> {
        // Images of one key have to stand in the order of their operations.
        self.records.sort_by_key(|(place, _)| *place);
        for (_, named) in std::mem::take(&mut self.records) {
            let Named { role, number, key, expires_at_millis, content } = named;
            let value = match content {
                Content::Ready(value) => value,
                Content::Points(item) => {
                    let loader = self.points.remove(&item).unwrap_or_default();
                    let threads = threads.min(1 + loader.len() / POINTS_PER_THREAD);
                    Value::of_loaded(Data::Collection(loader.finish(threads)))
                }
                Content::Scores(item) => {
                    let mut rows = self.scores.remove(&item).unwrap_or_default();
                    rows.sort_by_key(|(index, _)| *index);
                    let mut set = SortedSet::default();
                    for (_, rows) in &rows {
                        for (member, score) in decode_rows(rows).map_err(EngineError::new)? {
                            set.insert(member, score);
                        }
                    }
                    Value::of_loaded(Data::SortedSet(set))
                }
            };
            match role {
                Role::Base => keyspace.put_loaded(number, &key, value, expires_at_millis),
                Role::Image | Role::Exact => {
                    let value = (role == Role::Image).then_some(value);
                    keyspace.keep_image(number, &key, Image { value, expires_at_millis });
                }
            }
        }
        self.settings.sort_by_key(|(place, _)| *place);
        self.feeds.sort_unstable();
        Ok(LoadedSnapshot {
            settings: self.settings.into_iter().map(|(_, setting)| setting).collect(),
            feeds: self.feeds,
        })
    }
}
