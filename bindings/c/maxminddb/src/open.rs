//! Opening and closing: `MMDB_open`, `MMDB_close`.
//!
//! Not for answers. Opening maps the file and reads the metadata with the original's checks in the
//! original's order, so that bad files give the same status. What else is wrong with a file, the
//! call that meets it reports; `whered_mmdb::Database`, which is stricter, is only asked for an
//! index.
//!
//! Cost: the metadata and up to 96 nodes; with `WHERED_MMDB=index`, see `lookup.rs`.

use crate::abi::{Int, MMDB_ipv4_start_node_s, MMDB_s, MODE_MASK, MODE_MMAP};
use crate::answers::Answers;
use crate::cache::Cache;
use crate::lookup::Index;
use crate::mapping::{MappedFile, Mapping, keeping_errno};
use crate::metadata;
use crate::status::{Failure, code, guarded};
use crate::value::{get, section};
use std::ffi::{CStr, CString, c_char};
use std::ptr::null;
use std::sync::Arc;
use whered_mmdb::fields::Section;
use whered_mmdb::{Database, DatabaseIndex, FileTree, IndexForm, IndexOptions, TreeShape};

/// The marker in front of the metadata, and how far from the file's end it may stand.
const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";
const MAX_METADATA_BYTES: usize = 128 << 10;

/// The zero bytes between tree and data section.
const SEPARATOR_BYTES: u64 = 16;

/// What the path cache beside a tree may take: so little that asking it in vain costs next to
/// nothing.
const TREE_CACHE_BYTES: usize = 256 << 10;

/// The paths that most hosts ask for.
const USUAL_PATHS: [[Option<&CStr>; 4]; 4] = [
    [Some(c"country"), Some(c"iso_code"), None, None],
    [Some(c"city"), Some(c"names"), Some(c"en"), None],
    [Some(c"location"), Some(c"latitude"), None, None],
    [Some(c"location"), Some(c"longitude"), None, None],
];

/// A structure that owns nothing: what callers see after a failure.
const CLOSED: MMDB_s = MMDB_s {
    flags: 0,
    filename: null(),
    file_size: 0,
    file_content: null(),
    data_section: null(),
    data_section_size: 0,
    metadata_section: null(),
    metadata_section_size: 0,
    full_record_byte_size: 0,
    depth: 0,
    ipv4_start_node: MMDB_ipv4_start_node_s { netmask: 0, node_value: 0 },
    metadata: metadata::EMPTY,
};

/// Opens a database.
///
/// # Safety
///
/// As the header says: a C string, and a place for the structure.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MMDB_open(
    filename: *const c_char,
    flags: u32,
    mmdb: *mut MMDB_s,
) -> Int {
    let mut opened = CLOSED;
    opened.flags = if flags & MODE_MASK == 0 { flags | MODE_MMAP } else { flags };
    // SAFETY: the caller keeps the contract above.
    let path = unsafe { CStr::from_ptr(filename) };
    let status = guarded(|| Err(Failure::InvalidData), || open(path, &mut opened));
    if status.is_err() {
        // SAFETY: what `open` has allocated before it failed is known to nobody else.
        keeping_errno(|| unsafe { release(&mut opened) });
    }
    // SAFETY: as above; the place may be uninitialized.
    unsafe { mmdb.write(opened) };
    code(status)
}

/// Closes a database: unmaps the file and frees the metadata. A structure that is closed already,
/// or is all zero since it was never opened, is left alone.
///
/// # Safety
///
/// `mmdb` is null, or a database that is open or closed, of which no pointer is used any more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MMDB_close(mmdb: *mut MMDB_s) {
    // SAFETY: the caller keeps the contract above.
    if let Some(mmdb) = unsafe { mmdb.as_mut() } {
        // SAFETY: as above.
        guarded(|| (), || unsafe { release(mmdb) });
    }
}

/// # Safety
///
/// The structure's pointers are null, or ours and used nowhere else.
unsafe fn release(mmdb: &mut MMDB_s) {
    // SAFETY: the caller's promise; free takes null.
    unsafe {
        libc::free(mmdb.filename.cast_mut().cast());
        mmdb.filename = null();
        metadata::free(&mut mmdb.metadata);
        if !mmdb.file_content.is_null() {
            Mapping::close(mmdb.file_content);
        }
    }
    mmdb.file_content = null();
    mmdb.file_size = 0;
    mmdb.data_section = null();
    mmdb.data_section_size = 0;
    mmdb.metadata_section = null();
    mmdb.metadata_section_size = 0;
}

fn open(path: &CStr, mmdb: &mut MMDB_s) -> Result<(), Failure> {
    // SAFETY: a C string; the copy is freed by `release`.
    mmdb.filename = unsafe { libc::strdup(path.as_ptr()) };
    if mmdb.filename.is_null() {
        return Err(Failure::OutOfMemory);
    }
    let file = MappedFile::open(path)?;
    let bytes = file.bytes();
    mmdb.file_size = isize::try_from(bytes.len()).map_err(|_| Failure::OutOfMemory)?;
    let start = find_metadata(bytes).ok_or(Failure::InvalidMetadata)?;
    let section = bytes.get(start..).unwrap_or_default();
    mmdb.metadata_section = section.as_ptr();
    mmdb.metadata_section_size = section.len() as u32;
    metadata::read(&Section::new(section, start), &mut mmdb.metadata)?;
    fill_sizes(bytes, mmdb)?;
    let tree = FileTree::new(
        bytes,
        TreeShape {
            node_count: mmdb.metadata.node_count,
            record_size_bits: mmdb.metadata.record_size,
            is_ipv6: mmdb.metadata.ip_version == 6,
        },
    )?;
    let (node_value, depth_bits) = tree.ipv4_start();
    mmdb.ipv4_start_node = MMDB_ipv4_start_node_s { netmask: u16::from(depth_bits), node_value };
    let (index, is_kept) = index(bytes, path);
    // About one line for each record of some size; a small file needs no more than its own size.
    let (cache, answers) = match &index {
        Index::Tree => (Cache::new(TREE_CACHE_BYTES.min(bytes.len())), None),
        Index::Compiled(index) => (None, answers(index, mmdb, is_kept)),
    };
    mmdb.file_content = file.keep(tree, index, cache, answers).as_ptr();
    Ok(())
}

/// The answers beside an index. An opening that builds an index takes long anyway, and so the
/// answers of frequent paths are put there too, which a host that forks after opening then shares;
/// beside an index that was kept in a file they are kept as they are asked for, so that opening
/// stays quick.
fn answers(index: &DatabaseIndex, mmdb: &MMDB_s, is_kept: bool) -> Option<Answers> {
    let answers = Answers::new(index.row_count())?;
    if is_kept {
        return Some(answers);
    }
    // SAFETY: `fill_sizes` has set the data section.
    let section = unsafe { section(mmdb) };
    for path in USUAL_PATHS {
        let pointers = path.map(|name| name.map_or(null(), CStr::as_ptr));
        for row in 1..index.row_count() as u32 {
            let Some(record) = index.record_of_row(row) else { continue };
            let names = path.iter().flatten().copied();
            let answer = get(&section, record.to_u32(), names);
            // SAFETY: C strings, and a null pointer behind them.
            unsafe {
                answers.set((row, record.to_u32()), pointers.as_ptr(), mmdb.data_section, &answer);
            }
        }
    }
    answers.wait_for_callers();
    Some(answers)
}

/// The form of the index that `WHERED_MMDB` asks for, if it asks for one.
fn form_asked_for() -> Option<IndexForm> {
    match std::env::var_os("WHERED_MMDB")?.to_str()? {
        "index" => Some(IndexForm::Compact),
        "index-fast" => Some(IndexForm::Fast),
        _ => None,
    }
}

/// The index that `WHERED_MMDB` asks for, and whether it was kept in a file. A file that breaks the
/// specification has none: it is walked, and each lookup reports what it meets.
fn index(bytes: &'static [u8], path: &CStr) -> (Index, bool) {
    let Some(form) = form_asked_for() else { return (Index::Tree, false) };
    let Ok(database) = Database::from_bytes(bytes) else { return (Index::Tree, false) };
    let kept = kept_index(&database, path, form);
    let is_kept = kept.is_some();
    let index = kept.or_else(|| compile(&database, form));
    (index.map_or(Index::Tree, |index| Index::Compiled(Box::new(index))), is_kept)
}

/// Compiles the tree. Records are read in the file, so no field is decoded before it is asked. A
/// tree that cannot be compiled is walked: it may be broken where nobody asks.
fn compile(database: &Database, form: IndexForm) -> Option<DatabaseIndex> {
    DatabaseIndex::build(database, &IndexOptions { form, fields: Vec::new() }).ok()
}

/// The index that `whered db index` has written beside a database, mapped: processes share it, and
/// opening costs two checksums. One of another database or form, or a damaged one, is as none.
fn kept_index(database: &Database, path: &CStr, form: IndexForm) -> Option<DatabaseIndex> {
    let name = CString::new([path.to_bytes(), b".index"].concat()).ok()?;
    // That there is none is no failure that a host should hear of.
    let file = keeping_errno(|| MappedFile::open(&name)).ok()?;
    let kept = DatabaseIndex::from_bytes(Arc::new(file), database).ok()?;
    (kept.form() == form).then_some(kept)
}

/// Where the metadata begins: behind the last marker of the file's last 128 KiB, if anything does.
fn find_metadata(bytes: &[u8]) -> Option<usize> {
    let first = bytes.len().saturating_sub(MAX_METADATA_BYTES);
    let tail = bytes.get(first..)?;
    let marker = tail.windows(MARKER.len()).rposition(|window| window == MARKER)?;
    Some(first + marker + MARKER.len()).filter(|&start| start < bytes.len())
}

/// The sizes that follow from the metadata, and the data section, which for C callers ends with
/// the file.
fn fill_sizes(bytes: &[u8], mmdb: &mut MMDB_s) -> Result<(), Failure> {
    if mmdb.metadata.binary_format_major_version != 2 {
        return Err(Failure::UnknownDatabaseFormat);
    }
    mmdb.full_record_byte_size = mmdb.metadata.record_size / 4;
    mmdb.depth = if mmdb.metadata.ip_version == 4 { 32 } else { 128 };
    let nodes = u64::from(mmdb.metadata.node_count);
    let start = nodes * u64::from(mmdb.full_record_byte_size) + SEPARATOR_BYTES;
    let data = usize::try_from(start).ok().and_then(|start| bytes.get(start..));
    let data = data.filter(|data| !data.is_empty()).ok_or(Failure::InvalidMetadata)?;
    mmdb.data_section = data.as_ptr();
    mmdb.data_section_size = u32::try_from(data.len()).map_err(|_| Failure::InvalidMetadata)?;
    if mmdb.data_section_size < 3 { Err(Failure::InvalidData) } else { Ok(()) }
}
