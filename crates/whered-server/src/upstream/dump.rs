//! A dump of what a link follows, as it is at one offset.
//!
//! For: a file without a name in the data directory, which all who begin at about the same time
//! get. Not for: its format (`whered-replication`), nor sending it (`follower`).
//!
//! Cost: one pass over the keys. The link applies nothing meanwhile.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use whered_engine::{Keyspace, ReplicationId, StreamPosition, served_number};
use whered_replication::rdb::{NamedSlots, Writer};

/// How many keys are asked for at once.
const KEYS_AT_ONCE: usize = 1024;
/// After this many members of one key it is asked whether to go on.
const MEMBERS_AT_ONCE: usize = 100_000;

/// A dump on the disk.
#[derive(Debug)]
pub(super) struct Dump {
    pub(super) id: ReplicationId,
    pub(super) offset: i64,
    pub(super) bytes: u64,
    file: File,
}

impl Dump {
    /// Writes the keys of a link, which must not change meanwhile, to a file in this directory.
    /// `goes_on` is asked now and then, and may end it.
    pub(super) fn make(
        keyspace: &Keyspace,
        (link, database): (usize, usize),
        position: StreamPosition,
        directory: &Path,
        goes_on: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<Dump> {
        let file = nameless_file(directory)?;
        let imports = keyspace.imports(served_number(link));
        let imports: Vec<NamedSlots<'_>> =
            imports.iter().map(|import| (&import.name[..], &import.ranges[..])).collect();
        let output = BufWriter::new(file);
        let (database, selected) = (database as u32, position.database);
        let mut writer = Writer::with_imports(output, database, selected, &imports)?;
        let mut cursor = 0;
        loop {
            let (next, keys) = keyspace.scan(served_number(link), cursor, KEYS_AT_ONCE);
            for (key, _) in keys {
                write_key(&mut writer, keyspace, link, &key, goes_on)?;
            }
            goes_on()?;
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        let mut file = writer.end()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        let bytes = file.stream_position()?;
        Ok(Dump { id: position.replication_id, offset: position.offset, bytes, file })
    }

    /// The file from its beginning, for one reader: all have one place in it.
    pub(super) fn reader(&self) -> DumpReader<'_> {
        DumpReader { file: &self.file, place: 0 }
    }
}

fn write_key(
    writer: &mut Writer<BufWriter<File>>,
    keyspace: &Keyspace,
    link: usize,
    key: &[u8],
    goes_on: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let number = served_number(link);
    let expires_at_millis = keyspace.expires_at_millis(number, key).flatten();
    let written = keyspace.inspect(number, key, |value| {
        let Some(members) = value.ordered() else {
            return Ok(());
        };
        writer.sorted_set(key, members.len() as u64, expires_at_millis)?;
        for (index, (member, score)) in members.iter().enumerate() {
            writer.member(member, score)?;
            if index % MEMBERS_AT_ONCE == MEMBERS_AT_ONCE - 1 {
                goes_on()?;
            }
        }
        Ok(())
    });
    written.unwrap_or(Ok(()))
}

/// A file that is gone when nobody has it open any more.
fn nameless_file(directory: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE);
    options.open(directory)
}

/// See [`Dump::reader`].
pub(super) struct DumpReader<'a> {
    file: &'a File,
    place: u64,
}

impl io::Read for DumpReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = std::os::unix::fs::FileExt::read_at(self.file, into, self.place)?;
        self.place += read as u64;
        Ok(read)
    }
}
