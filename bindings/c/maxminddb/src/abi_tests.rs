//! The structures have the installed header's sizes, offsets and constants: the C compiler says so.

use super::*;
use std::mem::offset_of;
use std::process::Command;

/// One assertion for each field of a structure, in C.
macro_rules! fields {
    ($asserts:ident, $structure:ident: $($rust:ident $(. $inner:ident)? = $c:literal),+) => {
        $asserts.push(format!("sizeof({}) == {}", stringify!($structure), size_of::<$structure>()));
        $asserts.push(format!("_Alignof({}) == {}", stringify!($structure), align_of::<$structure>()));
        $($asserts.push(format!(
            "offsetof({}, {}) == {}",
            stringify!($structure), $c, offset_of!($structure, $rust $(. $inner)?)
        ));)+
    };
}

fn asserts() -> Vec<String> {
    let mut all = Vec::new();
    fields!(all, MMDB_entry_s: mmdb = "mmdb", offset = "offset");
    fields!(all, MMDB_lookup_result_s: found_entry = "found_entry", entry = "entry",
        netmask = "netmask");
    fields!(all, MMDB_entry_data_s: has_data = "has_data", payload = "utf8_string",
        payload = "double_value", payload = "bytes", payload = "uint16", payload = "uint32",
        payload = "int32", payload = "uint64", payload = "uint128", payload = "boolean",
        payload = "float_value", offset = "offset", offset_to_next = "offset_to_next",
        data_size = "data_size", r#type = "type");
    fields!(all, MMDB_entry_data_list_s: entry_data = "entry_data", next = "next", pool = "pool");
    fields!(all, MMDB_description_s: language = "language", description = "description");
    fields!(all, MMDB_metadata_s: node_count = "node_count", record_size = "record_size",
        ip_version = "ip_version", database_type = "database_type",
        languages.count = "languages.count", languages.names = "languages.names",
        binary_format_major_version = "binary_format_major_version",
        binary_format_minor_version = "binary_format_minor_version", build_epoch = "build_epoch",
        description.count = "description.count",
        description.descriptions = "description.descriptions");
    fields!(all, MMDB_ipv4_start_node_s: netmask = "netmask", node_value = "node_value");
    fields!(all, MMDB_s: flags = "flags", filename = "filename", file_size = "file_size",
        file_content = "file_content", data_section = "data_section",
        data_section_size = "data_section_size", metadata_section = "metadata_section",
        metadata_section_size = "metadata_section_size",
        full_record_byte_size = "full_record_byte_size", depth = "depth",
        ipv4_start_node = "ipv4_start_node", metadata = "metadata");
    fields!(all, MMDB_search_node_s: left_record = "left_record", right_record = "right_record",
        left_record_type = "left_record_type", right_record_type = "right_record_type",
        left_record_entry = "left_record_entry", right_record_entry = "right_record_entry");
    for (name, number) in [
        ("RECORD_TYPE_SEARCH_NODE", u32::from(RECORD_TYPE_SEARCH_NODE)),
        ("RECORD_TYPE_EMPTY", u32::from(RECORD_TYPE_EMPTY)),
        ("RECORD_TYPE_DATA", u32::from(RECORD_TYPE_DATA)),
        ("RECORD_TYPE_INVALID", u32::from(RECORD_TYPE_INVALID)),
        ("MODE_MMAP", MODE_MMAP),
        ("MODE_MASK", MODE_MASK),
        ("IPV6_LOOKUP_IN_IPV4_DATABASE_ERROR", 11),
        ("DATA_TYPE_FLOAT", 15),
    ] {
        all.push(format!("MMDB_{name} == {number}"));
    }
    all
}

#[test]
fn every_field_lies_where_the_installed_header_has_it() {
    let asserts =
        asserts().iter().map(|it| format!("_Static_assert({it}, \"\");\n")).collect::<String>();
    let source = format!("#include <stddef.h>\n#include <maxminddb.h>\n{asserts}");
    let path = std::env::temp_dir().join(format!("whered-abi-{}.c", std::process::id()));
    std::fs::write(&path, &source).unwrap();
    let checked =
        Command::new("cc").args(["-std=gnu11", "-fsyntax-only"]).arg(&path).output().unwrap();
    std::fs::remove_file(&path).unwrap();
    let errors = String::from_utf8_lossy(&checked.stderr);
    if errors.contains("maxminddb.h: No such file") {
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        assert!(!required.contains("peers"), "maxminddb.h is not installed");
        return;
    }
    assert!(checked.status.success(), "{errors}");
}
