//! Our own engines: a database compiled into an index, compact or fast, fixed or reloaded.
//!
//! Not for walking the file's tree (`database`). A batch goes through three steps, each over all of
//! its addresses: read the texts, find the networks and ask for the rows' memory on the way; then
//! the rows are read.

use super::addresses::{AddressList, Binary};
use super::checksum::{self, Octets};
use super::database::CallersRecord;
use super::engine::{BATCH_SIZE, Calls, Engine, Input, Task, Wants};
use crate::measure::thread_cpu_nanoseconds;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use whered_engine::{
    AccessMode, DatabaseReader, DatabaseSource, EngineOptions, Generation, GenerationReader,
    NamedDatabase, Setup, open_database_file,
};
use whered_ip::text;
use whered_mmdb::{DatabaseIndex, Found, IndexForm, IndexOptions, RecordId};

/// The columns of an index with the default fields.
const COUNTRY: usize = 0;
const CITY: usize = 1;
const LATITUDE: usize = 2;
const LONGITUDE: usize = 3;

/// The name of a serving engine's database.
const DATABASE: &str = "city";

/// Where an engine's index comes from.
pub trait IndexSource: Sync {
    /// The reader that a thread asks for the index before each call.
    type Reader<'a>: IndexReader
    where
        Self: 'a;

    /// A reader for one thread.
    fn reader(&self) -> Self::Reader<'_>;

    /// The engine's name and how it is set up.
    fn describe(&self) -> (String, String);
}

/// A thread's way to an index.
pub trait IndexReader {
    /// The index, for one call.
    fn take(&mut self) -> &DatabaseIndex;
}

/// An index that nobody replaces.
#[derive(Debug)]
pub struct Fixed {
    index: DatabaseIndex,
    built_nanoseconds: u64,
}

impl IndexReader for &DatabaseIndex {
    #[inline]
    fn take(&mut self) -> &DatabaseIndex {
        self
    }
}

impl IndexSource for Fixed {
    type Reader<'a> = &'a DatabaseIndex;

    fn reader(&self) -> &DatabaseIndex {
        &self.index
    }

    fn describe(&self) -> (String, String) {
        let name = match self.index.form() {
            IndexForm::Compact => "whered-compact",
            IndexForm::Fast => "whered-fast",
        };
        let seconds = self.built_nanoseconds as f64 / 1e9;
        (name.to_owned(), format!("built in {seconds:.2} s of processor time"))
    }
}

/// The index of the generation that serves, in a database that is reloaded when its file changes:
/// each call asks the thread's reader which generation that is. The file itself is watched by the
/// server's own thread.
pub struct Serving(Arc<whered_engine::Engine>);

impl Serving {
    /// Opens a file as the server does.
    ///
    /// # Errors
    ///
    /// The file cannot be read or is no sound database.
    pub fn open(path: &Path) -> Result<Serving, String> {
        serving_engine(path).map(Serving)
    }
}

/// An engine of its own for each contender: of two that share one, the second would find in the
/// cache what the first has read.
fn serving_engine(path: &Path) -> Result<Arc<whered_engine::Engine>, String> {
    let source = DatabaseSource::new(DATABASE, path);
    let setup = Setup { databases: vec![source], ..Setup::default() };
    let opened = whered_engine::Engine::open(EngineOptions { setup, ..EngineOptions::default() });
    opened.map(|(engine, _)| engine).map_err(|error| error.to_string())
}

/// As [`Serving`], but the database is looked for in the generation for each call.
pub struct ByGeneration(Arc<whered_engine::Engine>);

impl ByGeneration {
    /// As [`Serving::open`].
    ///
    /// # Errors
    ///
    /// As [`Serving::open`].
    pub fn open(path: &Path) -> Result<ByGeneration, String> {
        serving_engine(path).map(ByGeneration)
    }
}

impl IndexReader for GenerationReader {
    #[inline]
    fn take(&mut self) -> &DatabaseIndex {
        index_of(self.current())
    }
}

impl IndexSource for ByGeneration {
    type Reader<'a> = GenerationReader;

    fn reader(&self) -> GenerationReader {
        self.0.reader()
    }

    fn describe(&self) -> (String, String) {
        ("whered-by-generation".to_owned(), "Engine::reader asked for each call".to_owned())
    }
}

/// As [`Serving`], but each call takes a reference to the generation and gives it back: what a
/// reader spares.
pub struct Taking(Arc<whered_engine::Engine>);

impl Taking {
    /// As [`Serving::open`].
    ///
    /// # Errors
    ///
    /// As [`Serving::open`].
    pub fn open(path: &Path) -> Result<Taking, String> {
        serving_engine(path).map(Taking)
    }
}

/// A reference to the generation of the last call.
pub struct Taken<'a> {
    engine: &'a whered_engine::Engine,
    generation: Arc<Generation>,
}

impl IndexReader for Taken<'_> {
    #[inline]
    fn take(&mut self) -> &DatabaseIndex {
        self.generation = self.engine.generation();
        index_of(&self.generation)
    }
}

impl IndexSource for Taking {
    type Reader<'a> = Taken<'a>;

    fn reader(&self) -> Taken<'_> {
        Taken { engine: &self.0, generation: self.0.generation() }
    }

    fn describe(&self) -> (String, String) {
        ("whered-taking".to_owned(), "Engine::generation called for each call".to_owned())
    }
}

/// The index of a generation's only database.
#[inline]
fn index_of(generation: &Generation) -> &DatabaseIndex {
    let database = generation.databases().first().and_then(|database| database.index());
    database.expect("the engine was opened with one database in indexed mode")
}

impl IndexReader for DatabaseReader {
    #[inline]
    fn take(&mut self) -> &DatabaseIndex {
        let index = self.current().and_then(NamedDatabase::index);
        index.expect("the engine was opened with one database in indexed mode")
    }
}

impl IndexSource for Serving {
    type Reader<'a> = DatabaseReader;

    fn reader(&self) -> DatabaseReader {
        self.0.database_reader(DATABASE)
    }

    fn describe(&self) -> (String, String) {
        ("whered-reloading".to_owned(), "Engine::database_reader asked for each call".to_owned())
    }
}

/// An index of a database, with the default fields.
#[derive(Debug)]
pub struct IndexEngine<S: IndexSource>(S);

impl IndexEngine<Fixed> {
    /// Reads and compiles a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read or is no sound database.
    pub fn open(path: &Path, form: IndexForm) -> Result<IndexEngine<Fixed>, String> {
        let message = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let clock = || thread_cpu_nanoseconds().map_err(|error| message(&error));
        let database = open_database_file(path, AccessMode::Memory);
        let database = database.map_err(|error| error.to_string())?;
        let options = IndexOptions { form, ..IndexOptions::default() };
        let before = clock()?;
        let index = DatabaseIndex::build(&database, &options).map_err(|error| message(&error))?;
        Ok(IndexEngine(Fixed { index, built_nanoseconds: clock()? - before }))
    }
}

impl<S: IndexSource> IndexEngine<S> {
    /// An engine on this source.
    pub fn new(source: S) -> IndexEngine<S> {
        IndexEngine(source)
    }
}

/// An address of either family, as a number.
trait Address {
    fn find(self, index: &DatabaseIndex) -> Found;
}

impl Address for u32 {
    #[inline(always)]
    fn find(self, index: &DatabaseIndex) -> Found {
        index.lookup4(self)
    }
}

impl Address for u128 {
    #[inline(always)]
    fn find(self, index: &DatabaseIndex) -> Found {
        index.lookup6(self)
    }
}

impl<S: IndexSource> IndexEngine<S> {
    /// One lookup after the other.
    #[inline]
    fn single(
        &self,
        input: Input,
        list: &AddressList,
        part: Range<usize>,
        take: impl FnMut(&DatabaseIndex, Found),
    ) -> Result<(), String> {
        let text = |place| list.text(place).as_bytes();
        let unread = |place| format!("{:?} was not read", list.text(place));
        match (input, &list.binary) {
            (Input::Binary, Binary::V4(all)) => {
                let addresses = all[part].iter().map(|address| Ok(*address));
                self.each(addresses, take)
            }
            (Input::Binary, Binary::V6(all)) => {
                let addresses = all[part].iter().map(|address| Ok(*address));
                self.each(addresses, take)
            }
            (Input::Text, Binary::V4(_)) => {
                let read = |place| text::parse4(text(place)).ok_or_else(|| unread(place));
                self.each(part.map(read), take)
            }
            (Input::Text, Binary::V6(_)) => {
                let read = |place| text::parse6(text(place)).ok_or_else(|| unread(place));
                self.each(part.map(read), take)
            }
        }
    }

    /// In line, so that a lookup stands in the loop, as in that of any caller.
    #[inline(always)]
    fn each<A: Address>(
        &self,
        addresses: impl Iterator<Item = Result<A, String>>,
        mut take: impl FnMut(&DatabaseIndex, Found),
    ) -> Result<(), String> {
        let mut reader = self.0.reader();
        for address in addresses {
            let index = reader.take();
            take(index, address?.find(index));
        }
        Ok(())
    }

    /// Batches in arrival order; they ask for the rows' memory if the task reads them.
    #[inline]
    fn batches(
        &self,
        task: Task,
        list: &AddressList,
        part: Range<usize>,
        mut take: impl FnMut(&DatabaseIndex, &[Found]),
    ) -> Result<(), String> {
        let find4 = |index: &DatabaseIndex, addresses: &[u32], found: &mut [Found]| {
            if task.has_fields() {
                index.lookup4_batch_with_rows(addresses, found);
            } else {
                index.lookup4_batch(addresses, found);
            }
        };
        let find6 = |index: &DatabaseIndex, addresses: &[u128], found: &mut [Found]| {
            index.lookup6_batch(addresses, found);
            if task.has_fields() {
                index.prefetch_rows(found);
            }
        };
        let mut reader = self.0.reader();
        let mut found = [Found::default(); BATCH_SIZE];
        for start in part.clone().step_by(BATCH_SIZE) {
            let index = reader.take();
            let batch = start..(start + BATCH_SIZE).min(part.end);
            let found = &mut found[..batch.len()];
            match (task.input, &list.binary) {
                (Input::Binary, Binary::V4(all)) => find4(index, &all[batch], found),
                (Input::Binary, Binary::V6(all)) => find6(index, &all[batch], found),
                (Input::Text, Binary::V4(_)) => {
                    let mut read = [None; BATCH_SIZE];
                    let read = &mut read[..found.len()];
                    let (places, bytes) = (places(list, batch), list.texts().0);
                    text::parse4_batch_within(bytes, &places[..found.len()], read);
                    find4(index, &all_read(read)?[..found.len()], found);
                }
                (Input::Text, Binary::V6(_)) => {
                    let mut read = [None; BATCH_SIZE];
                    let read = &mut read[..found.len()];
                    let (places, bytes) = (places(list, batch), list.texts().0);
                    for (read, place) in read.iter_mut().zip(&places) {
                        *read = text::parse6_within(bytes, place);
                    }
                    find6(index, &all_read(read)?[..found.len()], found);
                }
            }
            take(index, found);
        }
        Ok(())
    }

    /// The sum of what a function says of each answer.
    #[inline]
    fn sum(
        &self,
        task: Task,
        list: &AddressList,
        part: Range<usize>,
        mut share: impl FnMut(&DatabaseIndex, Found) -> u64,
    ) -> Result<u64, String> {
        let mut sum = 0_u64;
        match task.calls {
            Calls::Single => self.single(task.input, list, part, |index, found| {
                sum = sum.wrapping_add(share(index, found));
            })?,
            Calls::Batch => self.batches(task, list, part, |index, batch| {
                for &found in batch {
                    sum = sum.wrapping_add(share(index, found));
                }
            })?,
        }
        Ok(sum)
    }
}

#[inline]
fn offset(index: &DatabaseIndex, found: Found) -> u64 {
    checksum::of_record(index.record(found).map(RecordId::to_u32))
}

/// In line, so that the loop over a batch keeps what is the same for all rows.
#[inline(always)]
fn fields(index: &DatabaseIndex, found: Found, octets: Octets) -> u64 {
    let row = index.row(found);
    let texts = [row.text(COUNTRY), row.text(CITY)];
    checksum::of_fields(octets, texts, [row.number(LATITUDE), row.number(LONGITUDE)])
}

#[inline]
fn copies(index: &DatabaseIndex, found: Found, record: &mut CallersRecord) -> u64 {
    let row = index.row(found);
    let (country, city) = (row.text(COUNTRY), row.text(CITY));
    record.copy(country, city, row.number(LATITUDE), row.number(LONGITUDE));
    record.checksum()
}

/// Where the texts of a batch stand; what is behind the last one is empty.
#[inline]
fn places(list: &AddressList, batch: Range<usize>) -> [Range<usize>; BATCH_SIZE] {
    let starts = &list.texts().1[batch.start..=batch.end];
    let mut places = [const { 0..0 }; BATCH_SIZE];
    for (place, ends) in places.iter_mut().zip(starts.windows(2)) {
        // A zero byte ends each text.
        *place = ends[0] as usize..ends[1] as usize - 1;
    }
    places
}

/// The addresses of a batch of texts, if all were read; zeros behind the last one.
#[inline]
fn all_read<T: Copy + Default>(read: &[Option<T>]) -> Result<[T; BATCH_SIZE], String> {
    let mut addresses = [T::default(); BATCH_SIZE];
    let mut is_all = true;
    for (address, read) in addresses.iter_mut().zip(read) {
        is_all &= read.is_some();
        *address = read.unwrap_or_default();
    }
    if is_all { Ok(addresses) } else { Err("a text was not read".to_owned()) }
}

impl<S: IndexSource> Engine for IndexEngine<S> {
    fn name(&self) -> String {
        self.0.describe().0
    }

    fn settings(&self) -> String {
        format!(
            "DatabaseIndex with the default fields, {}; lookup4 and lookup6 or their batches of \
             {BATCH_SIZE}; texts by whered_ip::text",
            self.0.describe().1
        )
    }

    fn can(&self, _: Task) -> bool {
        true
    }

    fn run(&self, task: Task, list: &AddressList, part: Range<usize>) -> Result<u64, String> {
        let mut record = CallersRecord::default();
        match task.wants {
            Wants::Row => self.sum(task, list, part, |_, found| u64::from(found.row)),
            Wants::Record => self.sum(task, list, part, offset),
            Wants::Fields => {
                self.sum(task, list, part, |index, found| fields(index, found, Octets::Ends))
            }
            Wants::Octets => {
                self.sum(task, list, part, |index, found| fields(index, found, Octets::All))
            }
            Wants::Copies => {
                self.sum(task, list, part, |index, found| copies(index, found, &mut record))
            }
        }
    }

    fn settle(
        &self,
        task: Task,
        list: &AddressList,
        part: Range<usize>,
        sum: u64,
    ) -> Result<u64, String> {
        if task.wants != Wants::Row {
            return Ok(sum);
        }
        let (mut rows, mut offsets) = (0_u64, 0_u64);
        self.single(Input::Binary, list, part, |index, found| {
            rows = rows.wrapping_add(u64::from(found.row));
            offsets = offsets.wrapping_add(offset(index, found));
        })?;
        if rows == sum {
            Ok(offsets)
        } else {
            Err(format!("the rows' numbers are {sum} together, and {rows} when asked again"))
        }
    }

    fn memory(&self) -> Vec<(&'static str, usize)> {
        let mut reader = self.0.reader();
        let index = reader.take();
        vec![("networks", index.networks_bytes()), ("columns", index.columns_bytes())]
    }

    fn accesses(&self, list: &AddressList, index: usize) -> Option<usize> {
        Some(self.0.reader().take().accesses(list.address(index)))
    }
}
