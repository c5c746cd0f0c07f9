//! The structures have the headers' sizes and offsets, ours and the installed ones: the C compiler
//! says so.

use super::*;
use std::mem::offset_of;
use std::process::Command;

/// One assertion for each field of a structure, in C.
macro_rules! fields {
    ($asserts:ident, $structure:ident: $($field:ident),+) => {
        $asserts.push(format!("sizeof({}) == {}", stringify!($structure), size_of::<$structure>()));
        $asserts.push(format!("_Alignof({}) == {}", stringify!($structure), align_of::<$structure>()));
        $($asserts.push(format!(
            "offsetof({}, {}) == {}",
            stringify!($structure), stringify!($field), offset_of!($structure, $field)
        ));)+
    };
}

fn asserts() -> Vec<String> {
    let mut all = Vec::new();
    fields!(all, GeoIP: GeoIPDatabase, file_path, cache, index_cache, databaseSegments,
        databaseType, mtime, flags, size, record_length, charset, record_iter, netmask,
        last_mtime_check, dyn_seg_size, ext_flags);
    fields!(all, GeoIPRecord: country_code, country_code3, country_name, region, city,
        postal_code, latitude, longitude, metro_code, area_code, charset, continent_code, netmask);
    fields!(all, GeoIPRegion: country_code, region);
    fields!(all, GeoIPLookup: netmask);
    all.push(format!("sizeof(geoipv6_t) == {}", size_of::<geoipv6_t>()));
    for (name, number) in [
        ("GEOIP_MEMORY_CACHE", MEMORY_CACHE),
        ("GEOIP_CHECK_CACHE", CHECK_CACHE),
        ("GEOIP_INDEX_CACHE", INDEX_CACHE),
        ("GEOIP_MMAP_CACHE", MMAP_CACHE),
        ("GEOIP_SILENCE", SILENCE),
        ("GEOIP_CHARSET_UTF8", CHARSET_UTF8),
        ("NUM_DB_TYPES", NUM_DB_TYPES as c_int),
        ("1 << GEOIP_TEREDO_BIT", TEREDO as c_int),
    ] {
        all.push(format!("({name}) == {number}"));
    }
    all
}

/// Compiles a header with the assertions; the compiler's words.
fn compile(include: &[&str], name: &str) -> (bool, String) {
    let asserts =
        asserts().iter().map(|it| format!("_Static_assert({it}, \"\");\n")).collect::<String>();
    let source = format!("#include <stddef.h>\n#include <GeoIPCity.h>\n{asserts}");
    let path = std::env::temp_dir().join(format!("whered-geoip-{name}-{}.c", std::process::id()));
    std::fs::write(&path, &source).unwrap();
    let checked = Command::new("cc")
        .args(["-std=gnu11", "-fsyntax-only"])
        .args(include)
        .arg(&path)
        .output()
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    (checked.status.success(), String::from_utf8_lossy(&checked.stderr).into_owned())
}

#[test]
fn every_field_is_where_our_header_has_it() {
    let (is_right, errors) =
        compile(&["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/include")], "ours");
    assert!(is_right, "{errors}");
}

#[test]
fn every_field_is_where_the_installed_header_has_it() {
    let (is_right, errors) = compile(&[], "installed");
    if errors.contains("GeoIPCity.h: No such file") {
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        assert!(!required.contains("peers"), "GeoIPCity.h is not installed");
        return;
    }
    assert!(is_right, "{errors}");
}
