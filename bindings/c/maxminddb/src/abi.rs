//! The structures of `maxminddb.h`, field by field.
//!
//! Not for behaviour. Names are those of the header, so that one can be held against the other; a
//! test compiles the installed header and compares every size and offset with these.

use std::ffi::{c_char, c_int, c_void};

/// Where a record, or a part of it, stands in a database's data section.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MMDB_entry_s {
    pub(crate) mmdb: *const MMDB_s,
    pub(crate) offset: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MMDB_lookup_result_s {
    pub(crate) found_entry: bool,
    pub(crate) entry: MMDB_entry_s,
    pub(crate) netmask: u16,
}

/// The anonymous union in `MMDB_entry_data_s`; the type says which member counts.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union Payload {
    pub(crate) utf8_string: *const c_char,
    pub(crate) double_value: f64,
    pub(crate) bytes: *const u8,
    pub(crate) uint16: u16,
    pub(crate) uint32: u32,
    pub(crate) int32: i32,
    pub(crate) uint64: u64,
    pub(crate) uint128: u128,
    pub(crate) boolean: bool,
    pub(crate) float_value: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MMDB_entry_data_s {
    pub(crate) has_data: bool,
    pub(crate) payload: Payload,
    pub(crate) offset: u32,
    pub(crate) offset_to_next: u32,
    pub(crate) data_size: u32,
    pub(crate) r#type: u32,
}

impl MMDB_entry_data_s {
    /// All zero: what callers see where nothing was found.
    pub(crate) const NOTHING: MMDB_entry_data_s = MMDB_entry_data_s {
        has_data: false,
        payload: Payload { uint128: 0 },
        offset: 0,
        offset_to_next: 0,
        data_size: 0,
        r#type: 0,
    };
}

#[repr(C)]
pub(crate) struct MMDB_entry_data_list_s {
    pub(crate) entry_data: MMDB_entry_data_s,
    pub(crate) next: *mut MMDB_entry_data_list_s,
    pub(crate) pool: *mut c_void,
}

#[repr(C)]
pub(crate) struct MMDB_description_s {
    pub(crate) language: *const c_char,
    pub(crate) description: *const c_char,
}

#[repr(C)]
pub(crate) struct Languages {
    pub(crate) count: usize,
    pub(crate) names: *mut *const c_char,
}

#[repr(C)]
pub(crate) struct Descriptions {
    pub(crate) count: usize,
    pub(crate) descriptions: *mut *mut MMDB_description_s,
}

#[repr(C)]
pub(crate) struct MMDB_metadata_s {
    pub(crate) node_count: u32,
    pub(crate) record_size: u16,
    pub(crate) ip_version: u16,
    pub(crate) database_type: *const c_char,
    pub(crate) languages: Languages,
    pub(crate) binary_format_major_version: u16,
    pub(crate) binary_format_minor_version: u16,
    pub(crate) build_epoch: u64,
    pub(crate) description: Descriptions,
}

#[repr(C)]
pub(crate) struct MMDB_ipv4_start_node_s {
    pub(crate) netmask: u16,
    pub(crate) node_value: u32,
}

/// An open database. The caller owns the memory and may copy it.
#[repr(C)]
pub(crate) struct MMDB_s {
    pub(crate) flags: u32,
    pub(crate) filename: *const c_char,
    pub(crate) file_size: isize,
    pub(crate) file_content: *const u8,
    pub(crate) data_section: *const u8,
    pub(crate) data_section_size: u32,
    pub(crate) metadata_section: *const u8,
    pub(crate) metadata_section_size: u32,
    pub(crate) full_record_byte_size: u16,
    pub(crate) depth: u16,
    pub(crate) ipv4_start_node: MMDB_ipv4_start_node_s,
    pub(crate) metadata: MMDB_metadata_s,
}

#[repr(C)]
pub(crate) struct MMDB_search_node_s {
    pub(crate) left_record: u64,
    pub(crate) right_record: u64,
    pub(crate) left_record_type: u8,
    pub(crate) right_record_type: u8,
    pub(crate) left_record_entry: MMDB_entry_s,
    pub(crate) right_record_entry: MMDB_entry_s,
}

/// What a record of a search node is, as `MMDB_read_node` tells it.
pub(crate) const RECORD_TYPE_SEARCH_NODE: u8 = 0;
pub(crate) const RECORD_TYPE_EMPTY: u8 = 1;
pub(crate) const RECORD_TYPE_DATA: u8 = 2;
pub(crate) const RECORD_TYPE_INVALID: u8 = 3;

/// The only mode of `MMDB_open`, and the bits of its flags that hold the mode.
pub(crate) const MODE_MMAP: u32 = 1;
pub(crate) const MODE_MASK: u32 = 7;

/// A C `int`, for signatures.
pub(crate) type Int = c_int;

#[cfg(test)]
#[path = "abi_tests.rs"]
mod tests;
