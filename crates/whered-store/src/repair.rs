//! Makes a damaged data directory open again, with as much of it as can be had.
//!
//! For: a person who has read that the start was refused, and has no better copy. Not for: running
//! by itself; a start never repairs. Nothing is thrown away: what is not used any more is renamed
//! to `*.damaged`.
//!
//! ```text
//!   ways back:   snapshot at S, its good blocks  + journal from S+1 up to its first fault
//!                older snapshot                  + journal from there up to its first fault
//!                nothing                         + journal from 1   up to its first fault
//!   loss:        entries that are known to have been and are not reached,  64 bytes each
//!                + bytes of damaged blocks, and of damaged cold files that they name
//!                + all of a snapshot when nothing is kept
//!                + a lot when the journal does not reach the snapshot's end (pages of two times)
//! ```
//!
//! The way with the smallest loss is taken, at equal loss the newest snapshot. Then snapshots newer
//! than that and bad ones are set aside, its manifest is written anew without its damaged blocks,
//! the journal is cut at the fault, and segments behind it are set aside.
//!
//! Invariants: files are replaced by renames only, so that a backup's links keep their bytes and a
//! crash in the middle leaves something that can be repaired again; at the end the directory is
//! read as by a start. Cost: two reads of everything. The caller holds the directory's lock.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::cold::{COLD_KIND, ColdFile, ColdReference};
use crate::error::StoreError;
use crate::journal::Wanted;
use crate::journal::examine::{ExaminedSegment, examine, reach};
use crate::journal::load::{load_any_size, refuse_incomplete};
use crate::journal::recovery::recover;
use crate::journal::segment::{SEGMENT_SIZE_BYTES_MIN, segment_name};
use crate::journal::spare::SpareMaker;
use crate::journal::writer::OpenSegment;
use crate::snapshot::format::{data_name, encode_manifest, manifest_name, new_manifest_name};
use crate::snapshot::{BlockInfo, SnapshotInfo, SnapshotReader, Snapshots};
use crate::spool::reserved;
use crate::storage::Storage;

/// What a lost entry counts in comparison with lost bytes of blocks.
const ENTRY_LOSS_BYTES: u64 = 64;

/// What pages of different times count: any other way is better.
const INCONSISTENCY_LOSS_BYTES: u64 = 1 << 60;

/// The name under which a segment is made anew; recovery throws it away after a crash.
const REPAIRED_SEGMENT: &str = "journal-spare-repaired.new";

/// The contents of the directory after a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The start of the snapshot that the next start uses, if there is one.
    pub snapshot: Option<u64>,
    /// The last entry that is kept.
    pub last_sequence: u64,
    /// Whether anything was changed.
    pub changed: bool,
}

/// Keeps what can be kept and says, line by line, what is lost and where.
///
/// ```
/// use std::sync::Arc;
/// use whered_store::{JournalCore, JournalOptions, SimulatedDisk, Storage, Wanted, repair};
///
/// let disk = SimulatedDisk::new(1);
/// let storage: Arc<dyn Storage> = Arc::new(disk.clone());
/// let open = || {
///     let options = JournalOptions::default();
///     JournalCore::open(Arc::clone(&storage), &options, Wanted::all(), &mut |_| Ok(()))
/// };
/// let (mut journal, _) = open()?;
/// journal.append(3, b"one")?;
/// journal.append(3, b"two")?;
/// journal.close()?;
/// disk.flip_bit(&disk.names()[0], 4096 + 26 + 21 + 18, 0);
/// assert!(open().err().expect("the second entry is damaged").is_damaged());
///
/// let mut lines = Vec::new();
/// let repaired = repair(&storage, &mut |line| lines.push(line.to_owned()))?;
/// assert_eq!(repaired.last_sequence, 1);
/// assert!(lines.iter().any(|line| line.contains("entry 2 is lost")), "{lines:?}");
/// assert_eq!(open()?.1.last_sequence, 1);
/// # Ok::<(), whered_store::StoreError>(())
/// ```
///
/// # Errors
///
/// A file of a newer version or with an odd name (nothing is touched then); whatever the system
/// reports.
pub fn repair(
    storage: &Arc<dyn Storage>,
    say: &mut dyn FnMut(&str),
) -> Result<Repaired, StoreError> {
    refuse_incomplete(&**storage)?;
    let snapshots = look_at_snapshots(&**storage)?;
    let segments = examine(&**storage)?;
    let way = best_way(&snapshots.complete, &segments);
    let mut work = Work { storage, say, changed: false };
    work.tell_faults(&snapshots, &segments);
    work.tell_loss(&way, &segments);
    work.settle_snapshots(&snapshots, &way, &segments)?;
    work.settle_journal(&way, &segments)?;
    let changed = work.changed;
    if changed {
        sync_directory(&**storage)?;
    }
    recover(&**storage, way.wanted(), &mut |_| Ok(()))?;
    let snapshot = way.snapshot.map(|snapshot| snapshot.info.start_sequence);
    Ok(Repaired { snapshot, last_sequence: way.last_sequence, changed })
}

/// As [`repair`], for the folder of a spool whose entries up to `done` are done with, as the data
/// say that it belongs to; these are to be repaired before. What waits is kept up to the first
/// fault. A spool that does not reach `done`, or begins behind it, is set aside, and goes on after
/// `done`. The numbers of what is set aside are not given away again.
///
/// # Errors
///
/// As [`repair`].
pub fn repair_spool(
    storage: &Arc<dyn Storage>,
    done: u64,
    say: &mut dyn FnMut(&str),
) -> Result<Repaired, StoreError> {
    refuse_incomplete(&**storage)?;
    let segments = examine(&**storage)?;
    let (last_sequence, range) = reach(&segments, done);
    let wanted = Wanted { after: done, through: done };
    let behind = segments.iter().map(|segment| segment.known_sequence).max().unwrap_or(0);
    let known = highest_known(&[], &segments).max(behind).max(last_sequence);
    let mark_changed = repair_mark(&**storage, known, say)?;
    if segments.is_empty() && done > 0 {
        say(&format!("there is no spool; the next upload is number {}", done + 1));
        begin_segment(storage, done + 1)?;
        return Ok(Repaired { snapshot: None, last_sequence: done, changed: true });
    }
    if segments.is_empty() || is_whole(&segments, &range) {
        recover(&**storage, wanted, &mut |_| Ok(()))?;
        return Ok(Repaired { snapshot: None, last_sequence, changed: mark_changed });
    }
    let way = Way { snapshot: None, last_sequence, segments: range, loss_bytes: 0 };
    let mut work = Work { storage, say, changed: false };
    let none = AllSnapshots { complete: Vec::new(), bad: Vec::new() };
    work.tell_faults(&none, &segments);
    let line = match last_sequence {
        last if last > done => format!("kept: uploads {} to {last}, which wait", done + 1),
        _ => format!("nothing that waits can be kept; the next upload is number {}", known + 1),
    };
    (work.say)(&line);
    if known > last_sequence {
        (work.say)(&format!("{} set aside", entries(last_sequence + 1, known)));
    }
    // Before the entries go: their numbers were given away, and no other upload gets them.
    if known > last_sequence && known > reserved::read(&**storage)? {
        reserved::write(&**storage, known)?;
    }
    work.settle_journal(&way, &segments)?;
    let changed = work.changed || mark_changed;
    if changed {
        sync_directory(&**storage)?;
    }
    recover(&**storage, wanted, &mut |_| Ok(()))?;
    Ok(Repaired { snapshot: None, last_sequence, changed })
}

/// Makes a mark of reserved numbers anew that cannot be read, behind the highest number that is
/// known. Gives whether there was one.
fn repair_mark(
    storage: &dyn Storage,
    known: u64,
    say: &mut dyn FnMut(&str),
) -> Result<bool, StoreError> {
    let Err(error) = reserved::read(storage) else { return Ok(false) };
    if !error.is_damaged() {
        return Err(error);
    }
    say(&error.to_string());
    reserved::remove(storage)?;
    reserved::write(storage, known)?;
    Ok(true)
}

/// Whether nothing is wrong with what is needed, and nothing lies behind it.
fn is_whole(segments: &[ExaminedSegment], needed: &std::ops::Range<usize>) -> bool {
    let is_well = |segment: &ExaminedSegment| segment.fault.is_none();
    !needed.is_empty() && needed.end == segments.len() && segments.iter().all(is_well)
}

/// A complete snapshot and which of its blocks cannot be read.
struct CheckedFiles {
    info: SnapshotInfo,
    damaged: Vec<(usize, StoreError)>,
    /// How much is lost with those blocks, and with the cold files that they name.
    lost_bytes: u64,
    /// How much it has, with all cold files that it names.
    size_bytes: u64,
}

struct AllSnapshots {
    complete: Vec<CheckedFiles>,
    /// Start and error.
    bad: Vec<(u64, StoreError)>,
}

fn look_at_snapshots(storage: &dyn Storage) -> Result<AllSnapshots, StoreError> {
    let found = Snapshots::find(storage)?;
    let mut complete = Vec::new();
    let mut bad = Vec::new();
    for snapshot in found.bad {
        if snapshot.error.is_newer() {
            return Err(snapshot.error);
        }
        bad.push((snapshot.start_sequence, snapshot.error));
    }
    let mut words = Vec::new();
    for info in found.complete {
        let reader = SnapshotReader::open(storage, &info)?;
        let (mut damaged, mut lost_bytes, mut size_bytes) = (Vec::new(), 0_u64, 0_u64);
        for (index, block) in info.blocks.iter().enumerate() {
            // A block that the disk refuses to read is lost like one that changed.
            let mut lost = block.length_bytes;
            let read = reader.read_block(index, &mut words);
            let checked = read.and_then(|bytes| match block.kind {
                COLD_KIND => check_cold(storage, &reader, index, bytes, &mut lost),
                _ => Ok(()),
            });
            size_bytes = size_bytes.saturating_add(lost);
            if let Err(error) = checked {
                damaged.push((index, error));
                lost_bytes = lost_bytes.saturating_add(lost);
            }
        }
        complete.push(CheckedFiles { info, damaged, lost_bytes, size_bytes });
    }
    Ok(AllSnapshots { complete, bad })
}

/// Whether the file that a block names is whole; what is lost if it is not goes into `lost_bytes`.
fn check_cold(
    storage: &dyn Storage,
    reader: &SnapshotReader,
    index: usize,
    bytes: &[u8],
    lost_bytes: &mut u64,
) -> Result<(), StoreError> {
    let decoded = ColdReference::decode(bytes);
    let (reference, _) = decoded.map_err(|reason| reader.refuse(index, &reason))?;
    *lost_bytes = reference.size_bytes;
    ColdFile::open(storage, &reference)?.verify()
}

/// One way back; see the file's header.
struct Way<'a> {
    snapshot: Option<&'a CheckedFiles>,
    last_sequence: u64,
    /// The segments that are needed for it.
    segments: std::ops::Range<usize>,
    loss_bytes: u64,
}

impl Way<'_> {
    fn start_sequence(&self) -> u64 {
        self.snapshot.map_or(0, |snapshot| snapshot.info.start_sequence)
    }

    fn end_sequence(&self) -> u64 {
        self.snapshot.map_or(0, |snapshot| snapshot.info.end_sequence)
    }

    fn wanted(&self) -> Wanted {
        let through = self.end_sequence().min(self.last_sequence);
        Wanted { after: self.start_sequence(), through }
    }
}

fn best_way<'a>(snapshots: &'a [CheckedFiles], segments: &[ExaminedSegment]) -> Way<'a> {
    let known = highest_known(snapshots, segments);
    let ways = snapshots.iter().map(Some).chain([None]).map(|snapshot| {
        let after = snapshot.map_or(0, |snapshot| snapshot.info.start_sequence);
        let (last_sequence, range) = reach(segments, after);
        let mut loss_bytes = (known - last_sequence).saturating_mul(ENTRY_LOSS_BYTES);
        if let Some(CheckedFiles { info, lost_bytes, .. }) = snapshot {
            loss_bytes = loss_bytes.saturating_add(*lost_bytes);
            if last_sequence < info.end_sequence {
                loss_bytes = loss_bytes.saturating_add(INCONSISTENCY_LOSS_BYTES);
            }
        }
        if snapshot.is_none() && last_sequence == 0 {
            // Nothing at all is kept: an entry may be a feed's batch of megabytes.
            let sizes = snapshots.iter().map(|snapshot| snapshot.size_bytes);
            loss_bytes = loss_bytes.saturating_add(sizes.max().unwrap_or(0));
        }
        Way { snapshot, last_sequence, segments: range, loss_bytes }
    });
    // The first of equal ones is the newest snapshot's. Nothing is always a way.
    ways.min_by_key(|way| way.loss_bytes).expect("there is the way without a snapshot")
}

/// The highest entry of which anything bears witness.
fn highest_known(snapshots: &[CheckedFiles], segments: &[ExaminedSegment]) -> u64 {
    let of_snapshots = snapshots.iter().map(|snapshot| snapshot.info.end_sequence);
    let of_segments = segments.iter().map(|segment| segment.last_sequence);
    of_snapshots.chain(of_segments).max().unwrap_or(0)
}

fn entries(first: u64, last: u64) -> String {
    if first == last {
        format!("entry {first} is")
    } else {
        format!("entries {first} to {last} are")
    }
}

struct Work<'a> {
    storage: &'a Arc<dyn Storage>,
    say: &'a mut dyn FnMut(&str),
    changed: bool,
}

impl Work<'_> {
    fn tell_faults(&mut self, snapshots: &AllSnapshots, segments: &[ExaminedSegment]) {
        for (_, error) in &snapshots.bad {
            (self.say)(&error.to_string());
        }
        for (_, error) in snapshots.complete.iter().flat_map(|snapshot| &snapshot.damaged) {
            (self.say)(&error.to_string());
        }
        for error in segments.iter().filter_map(|segment| segment.fault.as_ref()) {
            (self.say)(&error.to_string());
        }
    }

    fn tell_loss(&mut self, way: &Way<'_>, segments: &[ExaminedSegment]) {
        let last = way.last_sequence;
        if let Some(CheckedFiles { info, damaged, .. }) = way.snapshot {
            let mut line = format!(
                "kept: the snapshot at entry {} and the journal up to entry {last}",
                info.start_sequence
            );
            for (index, _) in damaged {
                let BlockInfo { kind, length_bytes, .. } = info.blocks[*index];
                let _ = write!(line, "; lost: block {index} of kind {kind}, {length_bytes} bytes");
            }
            if last < info.end_sequence {
                let _ = write!(
                    line,
                    "; the snapshot has parts of entries up to {}, so it is not of one moment",
                    info.end_sequence
                );
            }
            (self.say)(&line);
        } else {
            (self.say)(&format!("kept: the journal up to entry {last}, without a snapshot"));
        }
        // How much lies beyond the last good entry nobody can count.
        let faulty = segments.get(way.segments.clone()).unwrap_or_default().last();
        let in_doubt =
            faulty.is_some_and(|segment| !segment.is_complete) || way.segments.end < segments.len();
        let known = segments.iter().map(|segment| segment.last_sequence).max().unwrap_or(0);
        let known = known.max(way.end_sequence()).max(last + u64::from(in_doubt));
        if known > last {
            (self.say)(&format!("{} lost, and any after", entries(last + 1, known)));
        }
    }

    fn settle_snapshots(
        &mut self,
        snapshots: &AllSnapshots,
        way: &Way<'_>,
        segments: &[ExaminedSegment],
    ) -> Result<(), StoreError> {
        for (start_sequence, _) in &snapshots.bad {
            self.set_snapshot_aside(*start_sequence)?;
        }
        for other in &snapshots.complete {
            let start = other.info.start_sequence;
            // An older one stays as the second generation if it leads to the same end.
            let leads_here = start < way.start_sequence()
                && other.damaged.is_empty()
                && reach(segments, start).0 >= way.last_sequence;
            if Some(start) != way.snapshot.map(|chosen| chosen.info.start_sequence) && !leads_here {
                self.set_snapshot_aside(start)?;
            }
        }
        match way.snapshot {
            Some(chosen)
                if !chosen.damaged.is_empty() || way.last_sequence < chosen.info.end_sequence =>
            {
                self.rewrite_manifest(chosen, way.last_sequence)
            }
            _ => Ok(()),
        }
    }

    /// The manifest first and for certain: it must never stand there without its data.
    fn set_snapshot_aside(&mut self, start_sequence: u64) -> Result<(), StoreError> {
        self.set_aside(&manifest_name(start_sequence))?;
        sync_directory(&**self.storage)?;
        self.set_aside(&data_name(start_sequence))
    }

    fn rewrite_manifest(&mut self, chosen: &CheckedFiles, last: u64) -> Result<(), StoreError> {
        let mut info = chosen.info.clone();
        info.end_sequence = info.end_sequence.min(last);
        let is_damaged = |index| chosen.damaged.iter().any(|(damaged, _)| *damaged == index);
        let blocks = info.blocks.iter().enumerate();
        info.blocks =
            blocks.filter(|(index, _)| !is_damaged(*index)).map(|(_, block)| *block).collect();
        let name = manifest_name(info.start_sequence);
        self.keep_a_copy(&name)?;
        let new_name = new_manifest_name(info.start_sequence);
        self.make(&new_name, &encode_manifest(&info), &name)
    }

    fn settle_journal(
        &mut self,
        way: &Way<'_>,
        segments: &[ExaminedSegment],
    ) -> Result<(), StoreError> {
        for (index, segment) in segments.iter().enumerate() {
            let is_needed = way.segments.contains(&index);
            let is_behind = index >= way.segments.end;
            if !is_needed && (is_behind || segment.fault.is_some()) {
                self.set_aside(&segment_name(segment.first_sequence))?;
            }
        }
        let needed = segments.get(way.segments.clone()).unwrap_or_default();
        for segment in needed {
            if let ExaminedSegment {
                first_sequence, end_bytes: Some(end), fault: Some(_), ..
            } = segment
            {
                self.cut_segment(*first_sequence, *end)?;
            }
        }
        if needed.is_empty() && way.last_sequence > 0 {
            self.begin_segment(way.last_sequence + 1)?;
        }
        Ok(())
    }

    /// Puts a copy of the segment that ends at `end` in its place; the old one is kept.
    fn cut_segment(&mut self, first_sequence: u64, end: u64) -> Result<(), StoreError> {
        let name = segment_name(first_sequence);
        let buffer = Vec::new();
        let (loaded, _) = load_any_size(&**self.storage, first_sequence, false, buffer)?;
        let mut bytes = loaded.bytes;
        self.keep_a_copy(&name)?;
        // What was read may be shorter than the segment should be, or have more behind its end.
        bytes.truncate(end as usize);
        bytes.resize(loaded.open.header.size_bytes as usize, 0);
        self.make(REPAIRED_SEGMENT, &bytes, &name)
    }

    /// A journal without entries that goes on from here.
    fn begin_segment(&mut self, first_sequence: u64) -> Result<(), StoreError> {
        begin_segment(self.storage, first_sequence)?;
        self.changed = true;
        Ok(())
    }

    /// Writes a file under a passing name and puts it in its place.
    fn make(&mut self, new_name: &str, bytes: &[u8], name: &str) -> Result<(), StoreError> {
        self.changed = true;
        let storage = &**self.storage;
        let make = || {
            match storage.remove(new_name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result?,
            }
            let file = storage.create(new_name, bytes.len() as u64)?;
            file.write_at(0, bytes)?;
            file.sync_all()?;
            storage.sync_directory()?;
            storage.rename(new_name, name)?;
            storage.sync_directory()
        };
        make().map_err(|error| cannot("write", storage, name, &error))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        let storage = &**self.storage;
        let read = || {
            let file = storage.open(name, false)?;
            let mut bytes = vec![0; file.size_bytes()? as usize];
            file.read_at(0, &mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|error| cannot("read", storage, name, &error))
    }

    /// Gives the file a second name, by a link or else a copy, before it is replaced.
    fn keep_a_copy(&mut self, name: &str) -> Result<(), StoreError> {
        let storage = &**self.storage;
        let kept = self.free_name(name)?;
        if storage.link(name, storage, &kept).is_err() {
            let bytes = self.read(name)?;
            self.make(REPAIRED_SEGMENT, &bytes, &kept)?;
        }
        self.changed = true;
        (self.say)(&format!("{} is kept as {kept}", self.storage.describe(name)));
        sync_directory(&**self.storage)
    }

    /// Renames a file that is not used any more, if it is there.
    fn set_aside(&mut self, name: &str) -> Result<(), StoreError> {
        let kept = self.free_name(name)?;
        match self.storage.rename(name, &kept) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            result => result.map_err(|error| cannot("rename", &**self.storage, name, &error))?,
        }
        self.changed = true;
        (self.say)(&format!("{} is set aside as {kept}", self.storage.describe(name)));
        Ok(())
    }

    fn free_name(&self, name: &str) -> Result<String, StoreError> {
        let names =
            self.storage.list().map_err(|error| cannot("list", &**self.storage, "", &error))?;
        let mut candidate = format!("{name}.damaged");
        let mut number = 1;
        while names.contains(&candidate) {
            number += 1;
            candidate = format!("{name}.{number}.damaged");
        }
        Ok(candidate)
    }
}

/// A segment without entries, durably.
pub(crate) fn begin_segment(
    storage: &Arc<dyn Storage>,
    first_sequence: u64,
) -> Result<(), StoreError> {
    let mut spares = SpareMaker::new(Arc::clone(storage), SEGMENT_SIZE_BYTES_MIN, Duration::ZERO);
    OpenSegment::begin(&**storage, spares.make(0)?, first_sequence)?;
    Ok(())
}

fn sync_directory(storage: &dyn Storage) -> Result<(), StoreError> {
    storage.sync_directory().map_err(|error| cannot("sync", storage, "", &error))
}

fn cannot(verb: &str, storage: &dyn Storage, name: &str, error: &io::Error) -> StoreError {
    StoreError::io(&format!("cannot {verb} {}", storage.describe(name)), error)
}
