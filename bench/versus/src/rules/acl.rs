//! rte_acl through `c/acl.c`: tables, packets in its layout, answers.
//!
//! Not for: deciding what is measured. One thread only, as DPDK is started here.
#![allow(unsafe_code, reason = "DPDK is a C library")]

use whered_bench::rules::FiveTuple;

/// A rule as the C side has it.
#[repr(C)]
struct Tuple {
    source: u32,
    destination: u32,
    source_ports: [u16; 2],
    destination_ports: [u16; 2],
    source_length: u8,
    destination_length: u8,
    protocol: u8,
    protocol_mask: u8,
}

#[repr(C)]
struct Context([u8; 0]);

unsafe extern "C" {
    fn acl_start(pages: i32, megabytes: i32) -> i32;
    fn acl_version() -> *const std::ffi::c_char;
    fn acl_build(tuples: *const Tuple, count: u32, most_bytes: u64) -> *mut Context;
    fn acl_choose(context: *mut Context, algorithm: i32) -> i32;
    fn acl_classify(
        context: *const Context,
        packets: *const *const u8,
        results: *mut u32,
        count: u32,
        batch: u32,
    );
    fn acl_end(context: *mut Context);
}

/// A packet in the layout that rte_acl is told about.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub(crate) struct AclPacket([u8; 16]);

impl AclPacket {
    /// A packet's five fields.
    pub(crate) fn new(fields: [u32; 5]) -> AclPacket {
        let [source, destination, source_port, destination_port, protocol] = fields;
        let mut bytes = [0; 16];
        bytes[0] = protocol as u8;
        bytes[4..8].copy_from_slice(&source.to_be_bytes());
        bytes[8..12].copy_from_slice(&destination.to_be_bytes());
        bytes[12..14].copy_from_slice(&(source_port as u16).to_be_bytes());
        bytes[14..16].copy_from_slice(&(destination_port as u16).to_be_bytes());
        AclPacket(bytes)
    }
}

/// Which pages DPDK's memory is in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// 4 KiB.
    Small,
    /// Offered to the kernel for huge pages, as ours is.
    Advised,
    /// Reserved ones of hugetlbfs.
    Huge,
}

impl Pages {
    /// The pages of that name.
    pub(crate) fn named(name: &str) -> Result<Pages, String> {
        match name {
            "small" => Ok(Pages::Small),
            "advised" => Ok(Pages::Advised),
            "huge" => Ok(Pages::Huge),
            _ => Err(format!("--pages {name}; allowed: small, advised, huge")),
        }
    }

    /// For the record.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Pages::Small => "4 KiB",
            Pages::Advised => "madvise(MADV_HUGEPAGE), as ours",
            Pages::Huge => "hugetlbfs",
        }
    }
}

/// Starts DPDK, once in a process.
pub(crate) fn start(pages: Pages) -> Result<(), String> {
    // SAFETY: called once, before anything else of DPDK.
    let code = unsafe { acl_start(pages as i32, 3000) };
    if code < 0 { Err("DPDK does not start".to_owned()) } else { Ok(()) }
}

/// DPDK's own name and version.
pub(crate) fn version() -> String {
    // SAFETY: a constant text of the library's.
    let text = unsafe { std::ffi::CStr::from_ptr(acl_version()) };
    text.to_string_lossy().into_owned()
}

/// rte_acl's tables.
pub(crate) struct Acl(*mut Context);

impl Acl {
    /// Builds the rules with at most `most_bytes` of memory; zero sets no limit.
    pub(crate) fn build(rules: &[FiveTuple], most_bytes: u64) -> Option<Acl> {
        let tuples: Vec<Tuple> = rules
            .iter()
            .map(|rule| Tuple {
                source: rule.source,
                destination: rule.destination,
                source_ports: [rule.source_ports.0, rule.source_ports.1],
                destination_ports: [rule.destination_ports.0, rule.destination_ports.1],
                source_length: rule.source_length,
                destination_length: rule.destination_length,
                protocol: rule.protocol.unwrap_or(0),
                protocol_mask: if rule.protocol.is_some() { 0xff } else { 0 },
            })
            .collect();
        // SAFETY: the pointer and the count are those of a slice with the C side's layout.
        let context = unsafe { acl_build(tuples.as_ptr(), tuples.len() as u32, most_bytes) };
        (!context.is_null()).then_some(Acl(context))
    }

    /// Chooses one of its ways: 1 scalar, 2 SSE, 3 AVX2, 6 and 7 AVX-512 with 16 or 32 packets.
    pub(crate) fn choose(&mut self, algorithm: i32) -> bool {
        // SAFETY: the context is alive.
        unsafe { acl_choose(self.0, algorithm) == 0 }
    }

    /// The place plus one of each packet's rule, or zero.
    pub(crate) fn classify(&self, packets: &[*const u8], results: &mut [u32], batch: usize) {
        assert_eq!(packets.len(), results.len());
        // SAFETY: every pointer leads to an `AclPacket` of the caller's, of 16 bytes, which is what
        // the fields' definitions reach; results has room for all.
        unsafe {
            acl_classify(
                self.0,
                packets.as_ptr(),
                results.as_mut_ptr(),
                packets.len() as u32,
                batch as u32,
            );
        }
    }
}

impl Drop for Acl {
    fn drop(&mut self) {
        // SAFETY: the context is alive and not used afterwards.
        unsafe { acl_end(self.0) }
    }
}
