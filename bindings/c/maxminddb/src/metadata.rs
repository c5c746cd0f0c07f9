//! Fills the metadata of a caller's `MMDB_s`.
//!
//! Not for judging the file. What is missing or of another type
//! gives the status that the original gives, in its order.
//!
//! Invariants: texts and lists are copies from `malloc`, so that they end with a zero byte as C
//! wants them; [`free`] gives them back, also after a failure in between.

use crate::abi::{
    Descriptions, Languages, MMDB_description_s, MMDB_entry_data_list_s, MMDB_entry_data_s,
    MMDB_metadata_s,
};
use crate::list::{MMDB_free_entry_data_list, collect};
use crate::status::Failure;
use crate::value::get;
use std::ffi::{CStr, c_char};
use std::ptr::{null, null_mut};
use whered_mmdb::fields::{Kind, Section};

/// Metadata that says nothing and owns nothing.
pub(crate) const EMPTY: MMDB_metadata_s = MMDB_metadata_s {
    node_count: 0,
    record_size: 0,
    ip_version: 0,
    database_type: null(),
    languages: Languages { count: 0, names: null_mut() },
    binary_format_major_version: 0,
    binary_format_minor_version: 0,
    build_epoch: 0,
    description: Descriptions { count: 0, descriptions: null_mut() },
};

/// Reads the metadata map that begins the section. After a failure `metadata` holds a part, which
/// [`free`] takes as well. Metadata beyond a limit of the decoder is invalid metadata.
pub(crate) fn read(section: &Section<'_>, metadata: &mut MMDB_metadata_s) -> Result<(), Failure> {
    read_fields(section, metadata).map_err(|failure| match failure {
        Failure::DecoderLimit => Failure::InvalidMetadata,
        other => other,
    })
}

fn read_fields(section: &Section<'_>, metadata: &mut MMDB_metadata_s) -> Result<(), Failure> {
    metadata.node_count = uint32(section, c"node_count")?;
    if metadata.node_count == 0 {
        return Err(Failure::InvalidMetadata);
    }
    metadata.record_size = uint16(section, c"record_size")?;
    match metadata.record_size {
        24 | 28 | 32 => (),
        0 => return Err(Failure::InvalidMetadata),
        _ => return Err(Failure::UnknownDatabaseFormat),
    }
    metadata.ip_version = uint16(section, c"ip_version")?;
    if !matches!(metadata.ip_version, 4 | 6) {
        return Err(Failure::InvalidMetadata);
    }
    let database_type = find(section, c"database_type", Kind::String)?;
    metadata.database_type = copy(&database_type)?;
    read_languages(section, &mut metadata.languages)?;
    metadata.binary_format_major_version = uint16(section, c"binary_format_major_version")?;
    if metadata.binary_format_major_version == 0 {
        return Err(Failure::InvalidMetadata);
    }
    metadata.binary_format_minor_version = uint16(section, c"binary_format_minor_version")?;
    let build_epoch = find(section, c"build_epoch", Kind::Uint64)?;
    // SAFETY: the type says which member of the union was written.
    metadata.build_epoch = unsafe { build_epoch.payload.uint64 };
    if metadata.build_epoch == 0 {
        return Err(Failure::InvalidMetadata);
    }
    read_description(section, &mut metadata.description)
}

/// The value of a key, which must have this type.
fn find(
    section: &Section<'_>,
    key: &'static CStr,
    kind: Kind,
) -> Result<MMDB_entry_data_s, Failure> {
    let found = get(section, 0, [key].into_iter())?;
    if found.r#type == kind as u32 { Ok(found) } else { Err(Failure::InvalidMetadata) }
}

fn uint16(section: &Section<'_>, key: &'static CStr) -> Result<u16, Failure> {
    // SAFETY: the type says which member of the union was written.
    find(section, key, Kind::Uint16).map(|found| unsafe { found.payload.uint16 })
}

fn uint32(section: &Section<'_>, key: &'static CStr) -> Result<u32, Failure> {
    // SAFETY: as above.
    find(section, key, Kind::Uint32).map(|found| unsafe { found.payload.uint32 })
}

/// A copy of a string field, with a zero byte behind it.
fn copy(text: &MMDB_entry_data_s) -> Result<*const c_char, Failure> {
    if text.r#type != Kind::String as u32 {
        return Err(Failure::InvalidMetadata);
    }
    // SAFETY: a string's member was written, and leads to `data_size` bytes of the section.
    let copy = unsafe { libc::strndup(text.payload.utf8_string, text.data_size as usize) };
    if copy.is_null() { Err(Failure::OutOfMemory) } else { Ok(copy) }
}

/// Reads an array or map with `read`, which gets its length and the element behind its own.
fn read_members(
    section: &Section<'_>,
    container: &MMDB_entry_data_s,
    read: impl FnOnce(usize, *mut MMDB_entry_data_list_s) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let first = collect(*section, container.offset)?;
    // SAFETY: the list has at least its first element.
    let members = unsafe { (*first).next };
    let done = read(container.data_size as usize, members);
    // SAFETY: our own list, used for the last time.
    unsafe { MMDB_free_entry_data_list(first) };
    done
}

/// Copies the text of a list's element and goes on to the next one.
fn copy_next(member: &mut *mut MMDB_entry_data_list_s) -> Result<*const c_char, Failure> {
    // SAFETY: null or an element of a live list.
    let element = unsafe { member.as_ref() }.ok_or(Failure::InvalidMetadata)?;
    *member = element.next;
    copy(&element.entry_data)
}

fn read_languages(section: &Section<'_>, languages: &mut Languages) -> Result<(), Failure> {
    let array = find(section, c"languages", Kind::Array)?;
    read_members(section, &array, |count, mut member| {
        languages.names = allocate(count)?;
        for position in 0..count {
            let name = copy_next(&mut member)?;
            // SAFETY: `names` has room for `count` pointers.
            unsafe { languages.names.add(position).write(name) };
            languages.count = position + 1;
        }
        Ok(())
    })
}

fn read_description(section: &Section<'_>, description: &mut Descriptions) -> Result<(), Failure> {
    let map = find(section, c"description", Kind::Map)?;
    read_members(section, &map, |count, mut member| {
        if count == 0 {
            return Ok(());
        }
        description.descriptions = allocate(count)?;
        for position in 0..count {
            let pair = allocate::<MMDB_description_s>(1)?;
            // SAFETY: `descriptions` has room for `count` pointers, `pair` for one pair, all zero.
            unsafe {
                description.descriptions.add(position).write(pair);
                description.count = position + 1;
                (*pair).language = copy_next(&mut member)?;
                (*pair).description = copy_next(&mut member)?;
            }
        }
        Ok(())
    })
}

/// Zeroed memory for `count` values.
fn allocate<T>(count: usize) -> Result<*mut T, Failure> {
    // SAFETY: calloc refuses a size that overflows. An array of none is a pointer all the same.
    let memory = unsafe { libc::calloc(count.max(1), size_of::<T>()) };
    if memory.is_null() { Err(Failure::OutOfMemory) } else { Ok(memory.cast()) }
}

/// Frees what [`read`] allocated, and leaves metadata that owns nothing; its numbers stay.
///
/// # Safety
///
/// The pointers are null, or came from [`read`] and are used nowhere else.
pub(crate) unsafe fn free(metadata: &mut MMDB_metadata_s) {
    let database_type = std::mem::replace(&mut metadata.database_type, EMPTY.database_type);
    let languages = std::mem::replace(&mut metadata.languages, EMPTY.languages);
    let description = std::mem::replace(&mut metadata.description, EMPTY.description);
    // SAFETY: the caller's promise; free takes null.
    unsafe {
        libc::free(database_type.cast_mut().cast());
        if !languages.names.is_null() {
            for position in 0..languages.count {
                libc::free((*languages.names.add(position)).cast_mut().cast());
            }
            libc::free(languages.names.cast());
        }
        if !description.descriptions.is_null() {
            for position in 0..description.count {
                let pair = *description.descriptions.add(position);
                libc::free((*pair).language.cast_mut().cast());
                libc::free((*pair).description.cast_mut().cast());
                libc::free(pair.cast());
            }
            libc::free(description.descriptions.cast());
        }
    }
}
