//! The structures and constants of `include/whered.h`, field by field.
//!
//! Not for behaviour. A test compiles the header and compares sizes and offsets with these.

use std::ffi::c_char;

pub(crate) const OK: i32 = 0;
pub(crate) const NOT_FOUND: i32 = 1;

pub(crate) const MODE_TREE: u32 = 0;
pub(crate) const MODE_INDEX: u32 = 1;

pub(crate) const ABSENT: u32 = 0;
pub(crate) const TEXT: u32 = 1;
pub(crate) const NUMBER: u32 = 2;
pub(crate) const OTHER: u32 = 3;

pub(crate) const TEXT_BYTES_MAX: usize = 104;

#[repr(C)]
pub(crate) struct whered_options {
    pub(crate) mode: u32,
    pub(crate) fields: *const *const c_char,
    pub(crate) field_count: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct whered_address {
    pub(crate) bytes: [u8; 16],
    pub(crate) is_ipv6: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct whered_value {
    pub(crate) kind: u32,
    pub(crate) text_size_bytes: u32,
    pub(crate) number: f64,
    pub(crate) text: [u8; TEXT_BYTES_MAX],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct whered_answer {
    pub(crate) status: i32,
    pub(crate) prefix_length_bits: u8,
    pub(crate) reserved: [u8; 3],
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;
    use std::process::Command;

    #[test]
    fn the_header_says_the_same() {
        let mut asserts = vec![
            format!("sizeof(whered_options) == {}", size_of::<whered_options>()),
            format!("sizeof(whered_address) == {}", size_of::<whered_address>()),
            format!("sizeof(whered_value) == {}", size_of::<whered_value>()),
            format!("sizeof(whered_answer) == {}", size_of::<whered_answer>()),
            format!("WHERED_TEXT_BYTES_MAX == {TEXT_BYTES_MAX}"),
            format!("WHERED_NOT_FOUND == {NOT_FOUND} && WHERED_MODE_INDEX == {MODE_INDEX}"),
            format!(
                "WHERED_TEXT == {TEXT} && WHERED_NUMBER == {NUMBER} && WHERED_OTHER == {OTHER}"
            ),
        ];
        macro_rules! offsets {
            ($($structure:ident: $($field:ident),+;)+) => {$($(
                asserts.push(format!(
                    "offsetof({}, {}) == {}",
                    stringify!($structure), stringify!($field), offset_of!($structure, $field)
                ));
            )+)+};
        }
        offsets! {
            whered_options: mode, fields, field_count;
            whered_address: bytes, is_ipv6;
            whered_value: kind, text_size_bytes, number, text;
            whered_answer: status, prefix_length_bits, reserved;
        }
        let asserts: String =
            asserts.iter().map(|it| format!("_Static_assert({it}, \"\");\n")).collect();
        let path = std::env::temp_dir().join(format!("whered-header-{}.c", std::process::id()));
        std::fs::write(&path, format!("#include <whered.h>\n{asserts}")).unwrap();
        let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
        let checked = Command::new("cc").args(["-fsyntax-only", include]).arg(&path).output();
        std::fs::remove_file(&path).unwrap();
        let checked = checked.unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}
