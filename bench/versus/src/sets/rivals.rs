//! The C rivals of prefix sets: the binary tree of 2007 and DPDK's tables.
//!
//! Not for the loops (`c/seed_tree.c`, `c/dpdk.c`). DPDK is there with the feature `dpdk`.

use super::rounds::Engine;
#[cfg(feature = "dpdk")]
pub(crate) use dpdk::*;
use whered_bench::sets::Prefix4;

#[repr(C)]
struct SeedTree {
    _private: [u8; 0],
}

#[allow(unsafe_code, reason = "the C side of this package")]
unsafe extern "C" {
    fn seed_tree_new() -> *mut SeedTree;
    fn seed_tree_add(tree: *mut SeedTree, address: u32, length_bits: i32) -> i32;
    fn seed_tree_bytes(tree: *const SeedTree) -> usize;
    fn seed_tree_run(
        tree: *const SeedTree,
        expression: i32,
        addresses: *const u32,
        count: usize,
    ) -> u64;
    fn seed_tree_free(tree: *mut SeedTree);
}

/// A tree that goes with its last engine.
struct OwnedTree(*mut SeedTree);

#[allow(unsafe_code, reason = "the C side of this package")]
impl Drop for OwnedTree {
    fn drop(&mut self) {
        // SAFETY: made by `seed_tree_new`, freed once.
        unsafe { seed_tree_free(self.0) }
    }
}

/// The tree of these prefixes with each of its three expressions.
#[allow(unsafe_code, reason = "the C side of this package")]
pub(crate) fn seed_trees(prefixes: &[Prefix4]) -> Vec<Engine<u32>> {
    // SAFETY: no arguments.
    let tree = std::rc::Rc::new(OwnedTree(unsafe { seed_tree_new() }));
    assert!(!tree.0.is_null(), "there is memory for a root");
    // In no order, as a list of rules is: sorted ones would lie side by side in memory.
    let mut prefixes = prefixes.to_vec();
    let mut random = whered_bench::Random::new(7);
    for place in (1..prefixes.len()).rev() {
        prefixes.swap(place, random.below(place as u64 + 1) as usize);
    }
    for (address, length_bits) in &prefixes {
        // SAFETY: the tree was made just now.
        let code = unsafe { seed_tree_add(tree.0, *address, i32::from(*length_bits)) };
        assert_eq!(code, 0, "there is memory for the nodes");
    }
    let names = [(0, "seed-tree mask"), (1, "seed-tree index"), (2, "seed-tree sign")];
    names
        .into_iter()
        .map(|(expression, name)| {
            let tree = tree.clone();
            // SAFETY: the tree lives as long as the engine.
            let bytes = unsafe { seed_tree_bytes(tree.0) };
            Engine::new(name, bytes, move |addresses: &[u32]| {
                // SAFETY: as above; the addresses are a slice.
                unsafe { seed_tree_run(tree.0, expression, addresses.as_ptr(), addresses.len()) }
            })
        })
        .collect()
}

#[cfg(feature = "dpdk")]
#[allow(unsafe_code, reason = "the C side of this package")]
mod dpdk {
    use super::Engine;
    use std::collections::HashSet;
    use std::ffi::{CString, c_char, c_void};
    use std::rc::Rc;
    use whered_bench::sets::{Prefix4, Prefix6, masked6};

    unsafe extern "C" {
        fn dpdk_start(huge: i32, megabytes: i32) -> i32;
        fn dpdk_version() -> *const c_char;
        fn dpdk_fib_new(n: *const c_char, routes: i32, w: i32, groups: u32, v: i32) -> *mut c_void;
        fn dpdk_fib_add(fib: *mut c_void, address: u32, length_bits: u8, hop: u64) -> i32;
        fn dpdk_fib_run(fib: *mut c_void, addresses: *const u32, count: usize) -> u64;
        fn dpdk_fib_free(fib: *mut c_void);
        fn dpdk_fib6_new(n: *const c_char, routes: i32, w: i32, groups: u32, v: i32)
        -> *mut c_void;
        fn dpdk_fib6_add(fib: *mut c_void, address: *const u8, length_bits: u8, hop: u64) -> i32;
        fn dpdk_fib6_run(fib: *mut c_void, addresses: *const [u8; 16], count: usize) -> u64;
        fn dpdk_fib6_free(fib: *mut c_void);
        fn dpdk_lpm_new(name: *const c_char, rules: u32, groups: u32) -> *mut c_void;
        fn dpdk_lpm_add(lpm: *mut c_void, address: u32, length_bits: u8, hop: u32) -> i32;
        fn dpdk_lpm_run(lpm: *const c_void, addresses: *const u32, count: usize) -> u64;
        fn dpdk_lpm_free(lpm: *mut c_void);
    }

    /// A table that goes with its engine.
    struct Owned(*mut c_void, unsafe extern "C" fn(*mut c_void));

    impl Drop for Owned {
        fn drop(&mut self) {
            // SAFETY: made by the function that belongs to this one, freed once.
            unsafe { (self.1)(self.0) }
        }
    }

    /// Starts DPDK's environment, once a process.
    pub(crate) fn start(huge: bool, megabytes: i32) -> Result<String, String> {
        // SAFETY: called once, before anything else of DPDK.
        if unsafe { dpdk_start(i32::from(huge), megabytes) } != 0 {
            return Err("DPDK's environment does not start".to_owned());
        }
        // SAFETY: a constant text.
        let version = unsafe { std::ffi::CStr::from_ptr(dpdk_version()) };
        Ok(version.to_string_lossy().into_owned())
    }

    /// Whether `rte_fib` and `rte_fib6` have their AVX-512 lookups here.
    pub(crate) fn has_vectors() -> bool {
        #[cfg(target_arch = "x86_64")]
        return is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq");
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }

    fn owned(
        what: &str,
        table: *mut c_void,
        free: unsafe extern "C" fn(*mut c_void),
    ) -> Result<Rc<Owned>, String> {
        if table.is_null() {
            return Err(format!(
                "{what} is not made: too little memory, or no lookups of that kind"
            ));
        }
        Ok(Rc::new(Owned(table, free)))
    }

    /// `rte_fib` with next hops of `1 << width` bytes, room for `groups` of 256.
    pub(crate) fn fib(
        prefixes: &[(Prefix4, u32)],
        width: u32,
        vector: bool,
    ) -> Result<Engine<u32>, String> {
        let groups = groups4(prefixes.iter().map(|(prefix, _)| *prefix));
        let text = CString::new(format!("f{width}{vector}")).map_err(|error| error.to_string())?;
        let count = prefixes.len() as i32 * 2 + 16;
        // SAFETY: the name lives through the call.
        let made =
            unsafe { dpdk_fib_new(text.as_ptr(), count, width as i32, groups, i32::from(vector)) };
        let fib = owned("rte_fib", made, dpdk_fib_free)?;
        for ((address, length_bits), hop) in prefixes {
            // SAFETY: the table was made just now.
            let code = unsafe { dpdk_fib_add(fib.0, *address, *length_bits, u64::from(*hop)) };
            if code != 0 {
                return Err(format!("rte_fib does not take a route: {code}"));
            }
        }
        let bytes = ((1 << 24) + (groups as usize) * 256) << width;
        let kind = if vector { "AVX-512" } else { "default" };
        let name = format!("rte_fib {}B {kind}", 1 << width);
        Ok(Engine::new(&name, bytes, move |addresses: &[u32]| {
            // SAFETY: the table lives as long as the engine; the addresses are a slice.
            unsafe { dpdk_fib_run(fib.0, addresses.as_ptr(), addresses.len()) }
        }))
    }

    /// How many groups of 256 the /24 with longer prefixes need.
    fn groups4(prefixes: impl Iterator<Item = Prefix4>) -> u32 {
        let deep: HashSet<u32> =
            prefixes.filter(|(_, length)| *length > 24).map(|(address, _)| address >> 8).collect();
        deep.len() as u32 + 16
    }

    /// `rte_lpm`.
    pub(crate) fn lpm(prefixes: &[(Prefix4, u32)]) -> Result<Engine<u32>, String> {
        let groups = groups4(prefixes.iter().map(|(prefix, _)| *prefix));
        // SAFETY: a constant name.
        let made = unsafe { dpdk_lpm_new(c"lpm".as_ptr(), prefixes.len() as u32 + 16, groups) };
        let lpm = owned("rte_lpm", made, dpdk_lpm_free)?;
        for ((address, length_bits), hop) in prefixes {
            // SAFETY: the table was made just now.
            let code = unsafe { dpdk_lpm_add(lpm.0, *address, *length_bits, *hop) };
            if code != 0 {
                return Err(format!("rte_lpm does not take a route: {code}"));
            }
        }
        let bytes = ((1 << 24) + (groups as usize) * 256) * 4;
        Ok(Engine::new("rte_lpm", bytes, move |addresses: &[u32]| {
            // SAFETY: the table lives as long as the engine; the addresses are a slice.
            unsafe { dpdk_lpm_run(lpm.0, addresses.as_ptr(), addresses.len()) }
        }))
    }

    /// `rte_fib6`, asked for addresses as octets.
    pub(crate) fn fib6(
        prefixes: &[(Prefix6, u32)],
        width: u32,
        vector: bool,
    ) -> Result<Engine<[u8; 16]>, String> {
        let mut groups = HashSet::new();
        for ((address, length), _) in prefixes {
            for bits in (24..*length).step_by(8) {
                groups.insert((masked6(*address, bits), bits));
            }
        }
        let groups = groups.len() as u32 * 2 + 1024;
        let text = CString::new(format!("t{width}{vector}")).map_err(|error| error.to_string())?;
        let count = prefixes.len() as i32 * 2 + 16;
        // SAFETY: the name lives through the call.
        let made =
            unsafe { dpdk_fib6_new(text.as_ptr(), count, width as i32, groups, i32::from(vector)) };
        let fib = owned("rte_fib6", made, dpdk_fib6_free)?;
        for ((address, length_bits), hop) in prefixes {
            let octets = address.to_be_bytes();
            // SAFETY: the table was made just now; sixteen octets.
            let code =
                unsafe { dpdk_fib6_add(fib.0, octets.as_ptr(), *length_bits, u64::from(*hop)) };
            if code != 0 {
                return Err(format!("rte_fib6 does not take a route: {code}"));
            }
        }
        let bytes = ((1 << 24) + (groups as usize) * 256) << width;
        let kind = if vector { "AVX-512" } else { "default" };
        let name = format!("rte_fib6 {}B {kind}", 1 << width);
        Ok(Engine::new(&name, bytes, move |addresses: &[[u8; 16]]| {
            // SAFETY: the table lives as long as the engine; the addresses are a slice.
            unsafe { dpdk_fib6_run(fib.0, addresses.as_ptr(), addresses.len()) }
        }))
    }
}
