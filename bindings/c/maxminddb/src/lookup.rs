//! From an address to an entry: `MMDB_lookup_string`, `MMDB_lookup_sockaddr`, `MMDB_read_node`.
//!
//! Not for what an entry holds. A lookup goes through the [`Index`] that the database was opened
//! with, by default the file's own tree, walked as `whered_mmdb` walks it.
//!
//! Cost: the tree takes one dependent read for each bit of the address up to the answer; nothing
//! is allocated, nothing is locked. `MMDB_lookup_string` reads plain addresses itself and asks
//! `getaddrinfo` for every other text, whose answer decides.

use crate::abi::{
    Int, MMDB_entry_s, MMDB_lookup_result_s, MMDB_s, MMDB_search_node_s, RECORD_TYPE_DATA,
    RECORD_TYPE_EMPTY, RECORD_TYPE_INVALID, RECORD_TYPE_SEARCH_NODE,
};
use crate::mapping::Mapping;
use crate::status::{Failure, code, guarded};
use std::ffi::{CStr, c_char};
use std::net::IpAddr;
use std::ptr::{null, null_mut};
use whered_mmdb::{Branch, DatabaseIndex, Found};

/// What answers lookups. An index gives the very branch that the tree gives.
#[derive(Debug)]
pub(crate) enum Index {
    /// The file's own tree.
    Tree,
    /// The tree compiled, without columns.
    Compiled(Box<DatabaseIndex>),
}

impl Index {
    /// The compiled tree, if there is one.
    #[inline(always)]
    pub(crate) fn compiled(&self) -> Option<&DatabaseIndex> {
        match self {
            Index::Tree => None,
            Index::Compiled(index) => Some(index),
        }
    }
}

/// The bytes between the tree and the data section, which record numbers count too.
const SEPARATOR_BYTES: u64 = 16;

/// An address as a lookup wants it: its first bit is the highest.
struct Address {
    bits: u128,
    is_ipv4: bool,
}

impl Address {
    /// The address; `None` for a family other than AF_INET and AF_INET6, of which nothing but the
    /// family is read.
    ///
    /// # Safety
    ///
    /// `sockaddr` is a whole `sockaddr_in` or `sockaddr_in6` if its family says so.
    #[inline]
    unsafe fn read(sockaddr: *const libc::sockaddr) -> Option<Address> {
        // SAFETY: the caller's promise; unaligned, since some callers build them in byte buffers.
        unsafe {
            if let Some(number) = Address::read4(sockaddr) {
                return Some(Address { bits: u128::from(number) << 96, is_ipv4: true });
            }
            if family(sockaddr) != libc::AF_INET6 {
                return None;
            }
            let address = sockaddr.cast::<libc::sockaddr_in6>();
            let bytes = (&raw const (*address).sin6_addr.s6_addr).read_unaligned();
            Some(Address { bits: u128::from_be_bytes(bytes), is_ipv4: false })
        }
    }

    /// The address as a number, if it is one of IPv4.
    ///
    /// # Safety
    ///
    /// As [`read`](Address::read).
    #[inline(always)]
    unsafe fn read4(sockaddr: *const libc::sockaddr) -> Option<u32> {
        // SAFETY: the caller's promise.
        unsafe {
            if family(sockaddr) != libc::AF_INET {
                return None;
            }
            let address = sockaddr.cast::<libc::sockaddr_in>();
            Some(u32::from_be((&raw const (*address).sin_addr.s_addr).read_unaligned()))
        }
    }

    fn parse(text: &CStr) -> Option<Address> {
        Some(match text.to_str().ok()?.parse().ok()? {
            IpAddr::V4(ip) => Address { bits: u128::from(ip.to_bits()) << 96, is_ipv4: true },
            IpAddr::V6(ip) => Address { bits: ip.to_bits(), is_ipv4: false },
        })
    }
}

/// # Safety
///
/// A family can be read at `sockaddr`.
#[inline(always)]
unsafe fn family(sockaddr: *const libc::sockaddr) -> Int {
    // SAFETY: the caller's promise.
    unsafe { i32::from((&raw const (*sockaddr).sa_family).read_unaligned()) }
}

/// The record of an address.
///
/// # Safety
///
/// `mmdb` is an open database or one that is not open any more, and there is a place for the
/// status.
unsafe fn find(mmdb: *const MMDB_s, address: &Address, status: *mut Int) -> Told {
    // SAFETY: the caller's promise.
    let (opened, mapping) = unsafe { (&*mmdb, Mapping::of_open((*mmdb).file_content)) };
    let Some(mapping) = mapping else {
        let failure = match opened.metadata.ip_version {
            4 if !address.is_ipv4 => Failure::Ipv6LookupInIpv4Database,
            _ => not_open(opened),
        };
        // SAFETY: as above.
        unsafe { status.write(code(Err(failure))) };
        return Told::nothing(mmdb);
    };
    let Some(index) = mapping.index.compiled() else {
        // SAFETY: as above.
        return unsafe { walk(mmdb, mapping, address, status) };
    };
    let (found, above) = match address.is_ipv4 {
        true => (index.lookup4((address.bits >> 96) as u32), opened.ipv4_start_node.netmask),
        // SAFETY: as above.
        false if opened.depth == 32 => return unsafe { walk(mmdb, mapping, address, status) },
        false => (index.lookup6(address.bits), 0),
    };
    // SAFETY: as above.
    unsafe { status.write(0) };
    Told::found(mmdb, mapping, index, found, above)
}

/// What the original says of a tree without a file: one that was closed ends before its first node,
/// and one that was never opened has no record size.
#[cold]
fn not_open(opened: &MMDB_s) -> Failure {
    match opened.full_record_byte_size {
        0 => Failure::UnknownDatabaseFormat,
        _ => Failure::CorruptSearchTree,
    }
}

/// Looks an address up in the file's tree. Not inlined, so that a lookup in an index has little to
/// save and restore.
///
/// # Safety
///
/// As [`find`].
#[inline(never)]
unsafe fn walk(
    mmdb: *const MMDB_s,
    mapping: &Mapping,
    address: &Address,
    status: *mut Int,
) -> Told {
    // SAFETY: the caller's promise.
    let opened = unsafe { &*mmdb };
    let (start, bits) = match address.is_ipv4 {
        true => (opened.ipv4_start_node.node_value, 32),
        false => (0, 128),
    };
    let walked = match !address.is_ipv4 && opened.depth == 32 {
        true => Err(Failure::Ipv6LookupInIpv4Database),
        false => guarded(
            || Err(Failure::CorruptSearchTree),
            || mapping.tree.walk(start, address.bits, bits).map_err(Failure::from),
        ),
    };
    // SAFETY: as above.
    unsafe { status.write(code(walked.map(|_| ()))) };
    let Ok(Branch { record, depth_bits }) = walked else { return Told::nothing(mmdb) };
    // In a tree of version 6 an IPv4 address begins below ::/96.
    let above = if address.is_ipv4 { opened.ipv4_start_node.netmask } else { 0 };
    Told {
        found_entry: u64::from(record.is_some()),
        mmdb,
        offset: record.map_or(0, |id| u64::from(id.to_u32())),
        netmask: u64::from(above + u16::from(depth_bits)),
    }
}

/// [`MMDB_lookup_result_s`] in words of 64 bits, which processors hand on from a store to a load of
/// any part of it without waiting. Beside the offset, in octets that the structure does not use,
/// stands the row of an index, for `answers.rs`.
#[repr(C)]
pub(crate) struct Told {
    found_entry: u64,
    mmdb: *const MMDB_s,
    offset: u64,
    netmask: u64,
}

const _: () = {
    use std::mem::offset_of;
    assert!(cfg!(target_endian = "little"));
    assert!(size_of::<Told>() == size_of::<MMDB_lookup_result_s>());
    assert!(align_of::<Told>() == align_of::<MMDB_lookup_result_s>());
    assert!(offset_of!(MMDB_lookup_result_s, found_entry) == 0);
    assert!(offset_of!(MMDB_lookup_result_s, entry.mmdb) == 8);
    assert!(offset_of!(MMDB_lookup_result_s, entry.offset) == 16);
    assert!(offset_of!(MMDB_lookup_result_s, netmask) == 24);
};

impl Told {
    /// What an index tells of an address whose network begins `above` bits below the root, and asks
    /// for the answers of its record.
    #[inline(always)]
    fn found(
        mmdb: *const MMDB_s,
        mapping: &Mapping,
        index: &DatabaseIndex,
        found: Found,
        above: u16,
    ) -> Told {
        if let Some(answers) = mapping.answers() {
            answers.prefetch(found.row);
        }
        Told {
            found_entry: u64::from(found.is_record()),
            mmdb,
            offset: u64::from(found.row) << 32 | u64::from(index.offset_or_zero(found)),
            netmask: u64::from(above + u16::from(found.length_bits)),
        }
    }

    fn nothing(mmdb: *const MMDB_s) -> Told {
        Told { found_entry: 0, mmdb, offset: 0, netmask: 0 }
    }
}

/// Looks up a socket address; its port does not count.
///
/// # Safety
///
/// As the header says: an open database, a socket address of its family's size, a place for the
/// status.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MMDB_lookup_sockaddr(
    mmdb: *const MMDB_s,
    sockaddr: *const libc::sockaddr,
    mmdb_error: *mut Int,
) -> Told {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        // The usual case by itself, as short as it can be.
        if let Some(mapping) = Mapping::of_open((*mmdb).file_content)
            && let Some(index) = mapping.index.compiled()
            && let Some(address) = Address::read4(sockaddr)
        {
            // Before the lookup, so that the place need not be kept.
            mmdb_error.write(0);
            let found = index.lookup4(address);
            return Told::found(mmdb, mapping, index, found, (*mmdb).ipv4_start_node.netmask);
        }
        lookup_any_sockaddr(mmdb, sockaddr, mmdb_error)
    }
}

/// [`MMDB_lookup_sockaddr`] of any database and any family.
///
/// # Safety
///
/// As there.
#[inline(never)]
unsafe extern "C" fn lookup_any_sockaddr(
    mmdb: *const MMDB_s,
    sockaddr: *const libc::sockaddr,
    mmdb_error: *mut Int,
) -> Told {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(address) = Address::read(sockaddr) else {
            mmdb_error.write(code(Err(Failure::InvalidNetworkAddress)));
            return Told::nothing(mmdb);
        };
        find(mmdb, &address, mmdb_error)
    }
}

/// Looks up an address in text form.
///
/// # Safety
///
/// As the header says: an open database, a C string, places for both statuses. As with the
/// original, `mmdb_error` is success if the text is no address.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MMDB_lookup_string(
    mmdb: *const MMDB_s,
    ipstr: *const c_char,
    gai_error: *mut Int,
    mmdb_error: *mut Int,
) -> Told {
    // SAFETY: the caller keeps the contract above.
    unsafe {
        let plain = if ipstr.is_null() { None } else { Address::parse(CStr::from_ptr(ipstr)) };
        gai_error.write(0);
        if let Some(address) = plain {
            return find(mmdb, &address, mmdb_error);
        }
        let mut addresses = null_mut();
        let status = resolve(ipstr, &mut addresses);
        gai_error.write(status);
        if status != 0 {
            mmdb_error.write(0);
            return Told::nothing(mmdb);
        }
        let result = MMDB_lookup_sockaddr(mmdb, (*addresses).ai_addr, mmdb_error);
        libc::freeaddrinfo(addresses);
        result
    }
}

/// Asks the C library what a text means as a numeric address: it knows octal, short and scoped
/// forms, and its error code is part of our interface.
///
/// # Safety
///
/// `text` is a C string or null.
unsafe fn resolve(text: *const c_char, addresses: &mut *mut libc::addrinfo) -> Int {
    // SAFETY: all zero is what the hints of getaddrinfo begin with.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_family = libc::AF_UNSPEC;
    hints.ai_flags = libc::AI_NUMERICHOST;
    // With a socket type there is one answer, not one for each type.
    hints.ai_socktype = libc::SOCK_STREAM;
    // SAFETY: the caller's promise, and places of our own.
    unsafe { libc::getaddrinfo(text, null(), &raw const hints, addresses) }
}

/// Reads one node of the tree.
///
/// # Safety
///
/// As the header says: an open database and a place for the answer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn MMDB_read_node(
    mmdb: *const MMDB_s,
    node_number: u32,
    node: *mut MMDB_search_node_s,
) -> Int {
    let read = guarded(
        || Err(Failure::CorruptSearchTree),
        // SAFETY: the caller keeps the contract above.
        || unsafe { read_node(mmdb, node_number) },
    );
    code(read.and_then(|read| {
        let types = [read.left_record_type, read.right_record_type];
        // SAFETY: as above. The original, too, fills in the records of a node that it calls
        // corrupt.
        unsafe { node.write(read) };
        if types.contains(&RECORD_TYPE_INVALID) { Err(Failure::CorruptSearchTree) } else { Ok(()) }
    }))
}

unsafe fn read_node(mmdb: *const MMDB_s, number: u32) -> Result<MMDB_search_node_s, Failure> {
    // SAFETY: a database that is open, or is not any more.
    let (opened, mapping) = unsafe { (&*mmdb, Mapping::of_open((*mmdb).file_content)) };
    let nodes = opened.metadata.node_count;
    if opened.full_record_byte_size == 0 {
        return Err(Failure::UnknownDatabaseFormat);
    }
    if number >= nodes {
        return Err(Failure::InvalidNodeNumber);
    }
    let tree = &mapping.ok_or_else(|| not_open(opened))?.tree;
    let record = |right| tree.record_number(number, right);
    let (Some(left), Some(right)) = (record(false), record(true)) else {
        return Err(Failure::CorruptSearchTree);
    };
    let entry = |record: u32| {
        let offset = record.wrapping_sub(nodes).wrapping_sub(SEPARATOR_BYTES as u32);
        MMDB_entry_s { mmdb, offset }
    };
    let kind = |record| record_type(record, nodes, u64::from(opened.data_section_size));
    Ok(MMDB_search_node_s {
        left_record: u64::from(left),
        right_record: u64::from(right),
        left_record_type: kind(left),
        right_record_type: kind(right),
        left_record_entry: entry(left),
        right_record_entry: entry(right),
    })
}

fn record_type(record: u32, nodes: u32, data_bytes: u64) -> u8 {
    // No branch leads back to the root.
    if record == 0 {
        return RECORD_TYPE_INVALID;
    }
    match u64::from(record).checked_sub(u64::from(nodes)) {
        None => RECORD_TYPE_SEARCH_NODE,
        Some(0) => RECORD_TYPE_EMPTY,
        Some(beyond) if (SEPARATOR_BYTES..SEPARATOR_BYTES + data_bytes).contains(&beyond) => {
            RECORD_TYPE_DATA
        }
        Some(_) => RECORD_TYPE_INVALID,
    }
}
