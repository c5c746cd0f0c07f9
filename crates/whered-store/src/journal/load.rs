//! Finds the segments of a journal and brings them into memory, one ahead of the one in use.
//!
//! Not for: their frames (`recovery.rs`). All but the frames is checked here: name, header, size.
//! Two segments are in memory at most; their buffers are used again.

use std::sync::mpsc;
use std::thread::Scope;

use super::frame::Seed;
use super::segment::{
    FileName, HEADER_BYTES, HEADER_USED_BYTES, SEGMENT_SIZE_BYTES_MAX, SegmentHeader, segment_name,
};
use super::writer::OpenSegment;
use crate::error::StoreError;
use crate::storage::Storage;

/// The file that a backup or a restore has in its target until all is there.
pub(crate) const INCOMPLETE: &str = "INCOMPLETE";

/// Refuses a directory that a backup or a restore did not finish.
pub(crate) fn refuse_incomplete(storage: &dyn Storage) -> Result<(), StoreError> {
    let names = storage.list().map_err(|error| {
        StoreError::io(&format!("cannot list {}", storage.describe("")), &error)
    })?;
    if !names.iter().any(|name| name == INCOMPLETE) {
        return Ok(());
    }
    let what = "a backup or restore to this directory did not end; empty it and make it anew";
    Err(StoreError::refused(&storage.describe(INCOMPLETE), 0, what))
}

/// Smaller segments are read when it is their turn: a thread would cost more than it saves.
const READ_AHEAD_BYTES_MIN: usize = 1 << 20;

/// The first sequences of all segments in order, and the names of left spares.
pub(crate) fn list(storage: &dyn Storage) -> Result<(Vec<u64>, Vec<String>), StoreError> {
    let names = storage.list().map_err(|error| {
        StoreError::io(&format!("cannot list {}", storage.describe("")), &error)
    })?;
    let mut firsts = Vec::new();
    let mut leftovers = Vec::new();
    for name in names {
        match FileName::parse(&name) {
            FileName::Segment(first_sequence) => firsts.push(first_sequence),
            FileName::Spare => leftovers.push(name),
            FileName::Odd => {
                let what = "its name is nearly that of a journal segment, which has twenty \
                            digits; move it away";
                return Err(StoreError::foreign(&storage.describe(&name), 0, what));
            }
            FileName::Other => {}
        }
    }
    firsts.sort_unstable();
    Ok((firsts, leftovers))
}

/// A segment in memory.
pub(crate) struct LoadedSegment {
    pub(crate) open: OpenSegment,
    pub(crate) seed: Seed,
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
}

/// Reads a segment's file into the buffer and checks all but its frames.
pub(crate) fn load(
    storage: &dyn Storage,
    first_sequence: u64,
    may_write: bool,
    buffer: Vec<u8>,
) -> Result<LoadedSegment, StoreError> {
    let (loaded, wrong_size) = load_any_size(storage, first_sequence, may_write, buffer)?;
    wrong_size.map_or(Ok(loaded), Err)
}

/// As [`load`]; a file that was cut or made longer is read as it is, and the error comes beside.
pub(crate) fn load_any_size(
    storage: &dyn Storage,
    first_sequence: u64,
    may_write: bool,
    mut buffer: Vec<u8>,
) -> Result<(LoadedSegment, Option<StoreError>), StoreError> {
    let name = segment_name(first_sequence);
    let path = storage.describe(&name);
    let cannot_read = |error| StoreError::io(&format!("cannot read {path}"), &error);
    let file = storage.open(&name, may_write).map_err(cannot_read)?;
    let size_bytes = file.size_bytes().map_err(cannot_read)?;
    if size_bytes < HEADER_BYTES {
        let what = format!("the file ends within the header of {HEADER_BYTES} bytes");
        return Err(StoreError::damaged(&path, size_bytes, &what));
    }
    let mut header = [0; HEADER_USED_BYTES];
    file.read_at(0, &mut header).map_err(cannot_read)?;
    let header = SegmentHeader::decode(&header, &path)?;
    if header.first_sequence != first_sequence {
        let what = format!(
            "the header says that it starts with entry {}, the name says {first_sequence}",
            header.first_sequence
        );
        return Err(StoreError::damaged(&path, 16, &what));
    }
    let wrong_size = check_size(&path, size_bytes, header.size_bytes).err();
    if let Some(error) = &wrong_size
        && size_bytes.max(header.size_bytes) > SEGMENT_SIZE_BYTES_MAX
    {
        return Err(error.clone());
    }
    buffer.resize(size_bytes as usize, 0);
    file.read_at(0, &mut buffer).map_err(cannot_read)?;
    let loaded = LoadedSegment {
        seed: Seed::of(header.salt),
        open: OpenSegment { name, file, header, position_bytes: HEADER_BYTES },
        path,
        bytes: buffer,
    };
    Ok((loaded, wrong_size))
}

fn check_size(path: &str, found: u64, stated: u64) -> Result<(), StoreError> {
    if found != stated || found > SEGMENT_SIZE_BYTES_MAX {
        let what = format!(
            "the file ends here and its header states {stated} bytes \
             (the most is {SEGMENT_SIZE_BYTES_MAX})"
        );
        return Err(StoreError::damaged(path, found, &what));
    }
    Ok(())
}

/// What is done with each segment and the first sequence of the next; its buffer may come back.
pub(crate) type Visit<'a> =
    &'a mut dyn FnMut(LoadedSegment, Option<u64>) -> Result<Option<Vec<u8>>, StoreError>;

/// Gives the segments to `visit` in order; where they are large, a thread reads the next one
/// meanwhile.
pub(crate) fn read_ahead(
    storage: &dyn Storage,
    firsts: &[u64],
    visit: Visit<'_>,
) -> Result<(), StoreError> {
    let Some((&first, others)) = firsts.split_first() else {
        return Ok(());
    };
    let loaded = load(storage, first, others.is_empty(), Vec::new())?;
    if !others.is_empty() && loaded.bytes.len() >= READ_AHEAD_BYTES_MIN {
        return std::thread::scope(|scope| {
            let ahead = ReadAhead::start(scope, storage, others)?;
            ahead.visit_all(loaded, others, visit)
        });
    }
    let mut buffer = visit(loaded, others.first().copied())?;
    for (index, &first) in others.iter().enumerate() {
        let next = others.get(index + 1).copied();
        let loaded = load(storage, first, next.is_none(), buffer.take().unwrap_or_default())?;
        buffer = visit(loaded, next)?;
    }
    Ok(())
}

/// The ends of the channels to the thread that reads segments.
struct ReadAhead {
    loaded: mpsc::Receiver<Result<LoadedSegment, StoreError>>,
    recycle: mpsc::Sender<Vec<u8>>,
}

impl ReadAhead {
    fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        storage: &'scope dyn Storage,
        firsts: &'scope [u64],
    ) -> Result<ReadAhead, StoreError> {
        // The channel has no room of its own: one segment is visited, one is ready.
        let (sender, loaded) = mpsc::sync_channel(0);
        let (recycle, recycled) = mpsc::channel::<Vec<u8>>();
        let read = move || {
            for (index, &first) in firsts.iter().enumerate() {
                let buffer = recycled.try_recv().unwrap_or_default();
                let loaded = load(storage, first, index + 1 == firsts.len(), buffer);
                let failed = loaded.is_err();
                if sender.send(loaded).is_err() || failed {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("journal reader".to_owned())
            .spawn_scoped(scope, read)
            .map_err(|error| StoreError::io("cannot start a thread to read the journal", &error))?;
        Ok(ReadAhead { loaded, recycle })
    }

    fn visit_all(
        self,
        first: LoadedSegment,
        others: &[u64],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let mut loaded = first;
        for &next in others {
            if let Some(buffer) = visit(loaded, Some(next))? {
                // The thread may have ended: it needs no more buffers then.
                let _ = self.recycle.send(buffer);
            }
            loaded = self.loaded.recv().expect("the thread sends every segment or an error")?;
        }
        visit(loaded, None)?;
        Ok(())
    }
}
