//! The exported functions: C's pointers in, statuses out.
//!
//! Not for answers (`answer.rs`). Each function checks its pointers for null, as the only check
//! that C allows, and says in its `Safety` what else the caller promises; `include/whered.h` says
//! it to the caller.

use crate::abi::{
    MODE_INDEX, MODE_TREE, NOT_FOUND, OK, whered_address, whered_answer, whered_options,
    whered_value,
};
use crate::fault::{BAD_ARGUMENT, Fault, status};
use crate::generation::whered_database;
use std::ffi::{CStr, OsStr, c_char};
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use whered_mmdb::FieldPath;

fn null(what: &str) -> Fault {
    Fault::new(BAD_ARGUMENT, format!("{what} is a null pointer"))
}

/// # Safety
///
/// Null or a C string.
unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a CStr, Fault> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

/// # Safety
///
/// Null, or options as the header describes them.
unsafe fn read_options(options: *const whered_options) -> Result<(bool, Vec<FieldPath>), Fault> {
    // SAFETY: the caller's promise.
    let Some(options) = (unsafe { options.as_ref() }) else {
        return Ok((false, Vec::new()));
    };
    let is_indexed = match options.mode {
        MODE_TREE => false,
        MODE_INDEX => true,
        other => {
            let text = format!("mode {other}; allowed: WHERED_MODE_TREE, WHERED_MODE_INDEX");
            return Err(Fault::new(BAD_ARGUMENT, text));
        }
    };
    if options.fields.is_null() && options.field_count > 0 {
        return Err(null("options.fields"));
    }
    let mut fields = Vec::new();
    for position in 0..options.field_count {
        // SAFETY: the caller's promise: as many C strings as are said.
        let field = unsafe { text(*options.fields.add(position), "a field's path")? };
        let field = field
            .to_str()
            .map_err(|_| Fault::new(BAD_ARGUMENT, "a field's path that is no UTF-8"))?;
        fields.push(field.parse::<FieldPath>()?);
    }
    Ok((is_indexed, fields))
}

/// Opens a database.
///
/// # Safety
///
/// C strings, options with as many fields as they say, a place for the database.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn whered_open(
    path: *const c_char,
    options: *const whered_options,
    database: *mut *mut whered_database,
) -> i32 {
    status(|| {
        if database.is_null() {
            return Err(null("database"));
        }
        // SAFETY: the caller keeps the contract above.
        unsafe {
            database.write(std::ptr::null_mut());
            let path = PathBuf::from(OsStr::from_bytes(text(path, "path")?.to_bytes()));
            let (is_indexed, fields) = read_options(options)?;
            let opened = whered_database::open(path, is_indexed, fields)?;
            database.write(Box::into_raw(Box::new(opened)));
        }
        Ok(OK)
    })
}

/// Reads the file again.
///
/// # Safety
///
/// An open database.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn whered_reload(database: *mut whered_database) -> i32 {
    status(|| {
        // SAFETY: the caller keeps the contract above.
        unsafe { database.as_ref() }.ok_or_else(|| null("database"))?.reload()?;
        Ok(OK)
    })
}

/// Closes a database.
///
/// # Safety
///
/// Null or an open database, which nobody uses any more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn whered_close(database: *mut whered_database) {
    status(|| {
        if !database.is_null() {
            // SAFETY: the caller keeps the contract above; it came from `whered_open`.
            let database = unsafe { Box::from_raw(database) };
            database.forget();
        }
        Ok(OK)
    });
}

/// Reads an address.
///
/// # Safety
///
/// A C string and a place for the address.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn whered_parse(
    source: *const c_char,
    address: *mut whered_address,
) -> i32 {
    status(|| {
        // SAFETY: the caller keeps the contract above.
        let text = unsafe { text(source, "text")? }.to_string_lossy();
        let parsed = text.parse::<IpAddr>().map_err(|_| {
            Fault::new(BAD_ARGUMENT, format!("{text:?} is no IPv4 or IPv6 address"))
        })?;
        let mut bytes = [0; 16];
        match parsed {
            IpAddr::V4(ip) => bytes.iter_mut().zip(ip.octets()).for_each(|(to, from)| *to = from),
            IpAddr::V6(ip) => bytes = ip.octets(),
        }
        if address.is_null() {
            return Err(null("address"));
        }
        // SAFETY: as above.
        unsafe { address.write(whered_address { bytes, is_ipv6: u8::from(parsed.is_ipv6()) }) };
        Ok(OK)
    })
}

/// Looks up one address.
///
/// # Safety
///
/// An open database, an address, places for the answer and for a value of each field.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn whered_lookup(
    database: *const whered_database,
    address: *const whered_address,
    answer: *mut whered_answer,
    values: *mut whered_value,
) -> i32 {
    // SAFETY: the caller keeps the contract above.
    let told = unsafe { whered_lookup_batch(database, address, 1, answer, values) };
    // SAFETY: after success the answer was written.
    if told == OK { unsafe { (*answer).status } } else { told }
}

/// Looks up many addresses.
///
/// # Safety
///
/// An open database, `count` addresses, places for `count` answers and for as many values of each
/// field.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn whered_lookup_batch(
    database: *const whered_database,
    addresses: *const whered_address,
    count: usize,
    answers: *mut whered_answer,
    values: *mut whered_value,
) -> i32 {
    status(|| {
        // SAFETY: the caller keeps the contract above.
        let database = unsafe { database.as_ref() }.ok_or_else(|| null("database"))?;
        let field_count = database.fields.len();
        if count == 0 {
            return Ok(OK);
        }
        if addresses.is_null() || answers.is_null() || (values.is_null() && field_count > 0) {
            return Err(null("addresses, answers or values"));
        }
        // SAFETY: as above. Without fields the values may be null, and none are looked at.
        let (addresses, answers, values) = unsafe {
            let values = match field_count {
                0 => &mut [][..],
                _ => std::slice::from_raw_parts_mut(values, count.saturating_mul(field_count)),
            };
            let answers = std::slice::from_raw_parts_mut(answers, count);
            (std::slice::from_raw_parts(addresses, count), answers, values)
        };
        database.ask(|generation| {
            generation.answer_many(addresses, &database.fields, answers, values);
        });
        let failed = answers.iter().map(|answer| answer.status).find(|&told| told > NOT_FOUND);
        Ok(failed.unwrap_or(OK))
    })
}

/// How many fields an answer has.
///
/// # Safety
///
/// Null or an open database.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn whered_field_count(database: *const whered_database) -> usize {
    // SAFETY: the caller keeps the contract above.
    unsafe { database.as_ref() }.map_or(0, |database| database.fields.len())
}

/// The library's version.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn whered_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
