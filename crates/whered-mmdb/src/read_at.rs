//! Bytes that are not in memory: a reader that is asked for ranges, and the pages of one question.
//!
//! Not for files: the crate that opens one implements [`ReadAt`]. Not for bytes in memory, which
//! are read directly and never come here.
//!
//! ```text
//! Pages: groups ──> 128 cells each ──> page: 512 bytes of the section and a little more
//!                                        └──> longer: the same beginning, at least twice as much
//! ```
//!
//! A page is filled when a question first meets it and lives as long as the question, so that what
//! is borrowed from it stays where it is. Invariants: a page's bytes are never changed once they
//! are there; a chain of longer pages at least doubles at each step.
//!
//! Cost: one read for each page met (a record lies in a few), 8 bytes for each 64 KiB of the
//! section at the start. Memory is bounded by what one record may hold ([`crate::walk`]).
#![deny(clippy::indexing_slicing)]

use crate::error::{ErrorKind, MmdbError};
use std::cell::OnceCell;
use std::fmt::Debug;
use std::io;

/// Something that gives any range of a database file's bytes, such as an open file.
///
/// The bytes should not change while a database sits on them. If they do, questions give errors or
/// what the changed bytes say, but every read stays checked.
///
/// ```
/// use std::io;
/// use whered_mmdb::{Database, ReadAt, Resident, Writer, WriterOptions};
///
/// #[derive(Debug)]
/// struct Held(Vec<u8>);
///
/// impl ReadAt for Held {
///     fn size_bytes(&self) -> u64 {
///         self.0.len() as u64
///     }
///     fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<()> {
///         let start = offset_bytes as usize;
///         let found = self.0.get(start..start + buffer.len());
///         buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
///         Ok(())
///     }
/// }
///
/// let file = Held(Writer::new(WriterOptions::default())?.finish()?);
/// let database = Database::from_reader(file, Resident::Nothing)?;
/// assert_eq!(database.lookup("192.0.2.1".parse()?)?.record, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ReadAt: Debug + Send + Sync {
    /// How many bytes there are.
    fn size_bytes(&self) -> u64;

    /// Fills the whole buffer with the bytes that begin at `offset_bytes`.
    ///
    /// # Errors
    ///
    /// The bytes cannot be read, or end before the buffer is full.
    fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<()>;
}

/// The part of a database that stays in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resident {
    /// Nothing: every node and every field is read when it is asked for.
    Nothing,
    /// The search tree; fields are read when they are asked for.
    Tree,
}

/// Fills the buffer; a failure says where.
pub(crate) fn fill(reader: &dyn ReadAt, buffer: &mut [u8], at: u64) -> Result<(), MmdbError> {
    reader.read_at(buffer, at).map_err(|error| {
        let count = buffer.len();
        MmdbError::new(
            ErrorKind::Unreadable,
            format!("no {count} bytes ({error})"),
            "files that stay as they were when they were opened",
        )
        .at(at)
    })
}

/// Reads a range into memory of its own.
pub(crate) fn read(reader: &dyn ReadAt, at: u64, count: usize) -> Result<Vec<u8>, MmdbError> {
    let mut bytes = vec![0; count];
    fill(reader, &mut bytes, at)?;
    Ok(bytes)
}

const PAGE_BYTES: usize = 512;
/// The bytes that a page holds beyond its end, so that most fields that begin in it end in it.
const OVERLAP_BYTES: usize = 64;
const PAGES_PER_GROUP: usize = 128;

type Group = Box<[OnceCell<Box<Page>>]>;

/// The pages of a section that one question has met.
#[derive(Debug)]
pub(crate) struct Pages<'r> {
    reader: &'r dyn ReadAt,
    /// Where in the file the section begins, and how long it is.
    base: u64,
    size: usize,
    groups: Box<[OnceCell<Group>]>,
}

#[derive(Debug)]
struct Page {
    bytes: Vec<u8>,
    longer: OnceCell<Box<Page>>,
}

impl<'r> Pages<'r> {
    pub(crate) fn new(reader: &'r dyn ReadAt, base: usize, size: usize) -> Pages<'r> {
        let groups = size.div_ceil(PAGE_BYTES * PAGES_PER_GROUP);
        Pages { reader, base: base as u64, size, groups: cells(groups) }
    }

    /// `count` bytes at `at`, which lie inside the section.
    pub(crate) fn get(&self, at: usize, count: usize) -> Result<&[u8], MmdbError> {
        let number = at / PAGE_BYTES;
        let start = number * PAGE_BYTES;
        let end = at.saturating_add(count);
        let outside = || {
            let found = format!("{count} bytes at {at} of a section of {} bytes", self.size);
            MmdbError::new(ErrorKind::Data, found, "bytes inside the section")
        };
        if end > self.size {
            return Err(outside());
        }
        let group = self.groups.get(number / PAGES_PER_GROUP).ok_or_else(outside)?;
        let group = group.get_or_init(|| cells(PAGES_PER_GROUP));
        let mut cell = group.get(number % PAGES_PER_GROUP).ok_or_else(outside)?;
        let mut least = PAGE_BYTES + OVERLAP_BYTES;
        loop {
            let page = match cell.get() {
                Some(page) => page,
                None => {
                    let length = least.max(end - start).min(self.size - start);
                    let bytes = read(self.reader, self.base + start as u64, length)?;
                    cell.get_or_init(|| Box::new(Page { bytes, longer: OnceCell::new() }))
                }
            };
            if let Some(found) = page.bytes.get(at - start..end - start) {
                return Ok(found);
            }
            least = page.bytes.len().saturating_mul(2);
            cell = &page.longer;
        }
    }
}

fn cells<T>(count: usize) -> Box<[OnceCell<T>]> {
    (0..count).map(|_| OnceCell::new()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Debug)]
    struct Counted(Vec<u8>, AtomicUsize);

    impl ReadAt for Counted {
        fn size_bytes(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            let found = self.0.iter().skip(offset_bytes as usize).take(buffer.len());
            if found.len() < buffer.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer.iter_mut().zip(found).for_each(|(to, from)| *to = *from);
            Ok(())
        }
    }

    #[test]
    fn any_range_is_what_it_is_in_memory() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n * 7 % 251) as u8).collect();
        let file = Counted(bytes.clone(), AtomicUsize::new(0));
        let section = bytes.get(100..).unwrap();
        let pages = Pages::new(&file, 100, section.len());
        for at in (0..section.len()).step_by(97) {
            for count in [0, 1, 16, 64, 600, 5_000, 90_000] {
                let found = pages.get(at, count).ok();
                assert_eq!(found, section.get(at..at + count), "{count} at {at}");
            }
        }
    }

    #[test]
    fn a_page_is_read_once_for_what_it_holds() {
        let file = Counted(vec![7; 4096], AtomicUsize::new(0));
        let pages = Pages::new(&file, 0, 4096);
        for at in 0..512 {
            pages.get(at, 16).unwrap();
        }
        assert_eq!(file.1.load(Ordering::Relaxed), 1);
        assert_eq!(pages.get(500, 300).unwrap().len(), 300);
        assert_eq!(pages.get(400, 600).unwrap().len(), 600);
        assert_eq!(file.1.load(Ordering::Relaxed), 2, "a longer page holds both");
    }

    #[test]
    fn what_cannot_be_read_says_where() {
        let file = Counted(vec![0; 1000], AtomicUsize::new(0));
        let pages = Pages::new(&file, 200, 2_000);
        assert!(pages.get(0, 10).is_ok());
        let error = pages.get(1_024, 10).unwrap_err();
        assert_eq!((error.kind(), error.offset_bytes()), (ErrorKind::Unreadable, Some(1_224)));
        assert_eq!(pages.get(1_999, 2).unwrap_err().kind(), ErrorKind::Data);
    }
}
