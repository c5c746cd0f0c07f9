//! The two functions with variable arguments, `MMDB_get_value` and `MMDB_vget_value`: they hand a
//! path on to `MMDB_aget_value`.
//!
//! Not for finding values (`value.rs`). Rust cannot define such functions, so they are jumps and a
//! few pushes; what takes a `va_list` is in C (`shim/get_value.c`).

#[cfg(target_arch = "x86_64")]
use crate::value::MMDB_aget_value;
use std::arch::naked_asm;

unsafe extern "C" {
    #[cfg(not(target_arch = "x86_64"))]
    fn whered_get_value();
    fn whered_vget_value();
}

/// A function that hands all its arguments, variable ones too, to a C function: a jump leaves
/// registers and stack as they are.
macro_rules! jump_to {
    ($target:ident) => {{
        #[cfg(target_arch = "x86_64")]
        naked_asm!("jmp {}", sym $target);
        #[cfg(target_arch = "aarch64")]
        naked_asm!("b {}", sym $target);
        #[cfg(target_arch = "riscv64")]
        naked_asm!("tail {}", sym $target);
    }};
}

/// `MMDB_get_value(start, entry_data, ...)`.
///
/// # Safety
///
/// As `MMDB_aget_value`; the path's names follow one by one, then a null pointer.
#[cfg(not(target_arch = "x86_64"))]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn MMDB_get_value() {
    jump_to!(whered_get_value)
}

/// `MMDB_get_value(start, entry_data, ...)`, without a copy of the path: the names in registers are
/// put below those on the stack, where together they are the array that `MMDB_aget_value` wants.
///
/// ```text
/// before  | return | name 5 | name 6 | ... | 0
/// then    | return | unused | name 1 | name 2 | name 3 | name 4 | name 5 | name 6 | ... | 0
/// ```
///
/// # Safety
///
/// As `MMDB_aget_value`; the path's names follow one by one, then a null pointer.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn MMDB_get_value() {
    naked_asm!(
        "pop r11",
        "push r9",
        "push r8",
        "push rcx",
        "push rdx",
        "mov rdx, rsp",
        "sub rsp, 8",
        "push r11",
        "call {}",
        "pop r11",
        "add rsp, 40",
        "push r11",
        "ret",
        sym MMDB_aget_value,
    )
}

/// `MMDB_vget_value(start, entry_data, va_list)`.
///
/// # Safety
///
/// As `MMDB_get_value`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn MMDB_vget_value() {
    jump_to!(whered_vget_value)
}
