//! The rivals of rules and sets as engines: rte_acl, and the tree of 2007 in C.
//!
//! Not for timing, nor for rte_fib (`whered-versus-sets`).
#![allow(unsafe_code, reason = "the tree is C")]

use super::acl::{Acl, AclPacket};
use std::rc::Rc;
use whered_bench::measure::{thread_cpu_nanoseconds, weighed_group};
use whered_bench::rules::FiveTuple;
use whered_bench::rules::bench::{Engine, Rivals};
use whered_bench::sets::Prefix4;
use whered_rules::classify::{Field, Packet};

/// Packets of a batch, as on our side.
const BATCH: usize = 64;
/// rte_acl's vector ways: SSE, AVX2, AVX-512 with 16 and with 32 packets.
const WAYS: [(i32, &str); 4] = [(2, "SSE"), (3, "AVX2"), (6, "AVX-512x16"), (7, "AVX-512x32")];

#[repr(C)]
struct SeedTree {
    _private: [u8; 0],
}

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

impl Drop for OwnedTree {
    fn drop(&mut self) {
        // SAFETY: made by `seed_tree_new`, freed once.
        unsafe { seed_tree_free(self.0) }
    }
}

/// rte_acl and the tree.
pub(crate) struct Dpdk;

impl Rivals for Dpdk {
    fn of_prefixes<'a>(
        &self,
        prefixes: &[Prefix4],
        addresses: &'a [u32],
    ) -> Result<Vec<Engine<'a>>, String> {
        // SAFETY: no arguments.
        let tree = Rc::new(OwnedTree(unsafe { seed_tree_new() }));
        if tree.0.is_null() {
            return Err("no memory for the tree".to_owned());
        }
        for (address, length_bits) in prefixes {
            // SAFETY: the tree was made just now.
            if unsafe { seed_tree_add(tree.0, *address, i32::from(*length_bits)) } != 0 {
                return Err("no memory for the tree".to_owned());
            }
        }
        let engine = |(expression, name): (i32, &str)| {
            let tree = Rc::clone(&tree);
            // SAFETY: the tree lives as long as the engine.
            let bytes = unsafe { seed_tree_bytes(tree.0) };
            Engine::new(format!("seed-tree {name}"), bytes, move |part| {
                let addresses = &addresses[part];
                // SAFETY: as above; the addresses are a slice.
                unsafe { seed_tree_run(tree.0, expression, addresses.as_ptr(), addresses.len()) }
            })
        };
        Ok([(0, "mask"), (1, "index"), (2, "sign")].map(engine).into())
    }

    fn of_rules<'a>(
        &self,
        rules: &[FiveTuple],
        packets: &'a [Packet],
    ) -> Result<Vec<Engine<'a>>, String> {
        let packets: Rc<[AclPacket]> = packets.iter().map(their_packet).collect();
        let mut acl = Acl::build(rules, 0).ok_or("rte_acl does not build")?;
        let way = fastest(&mut acl, &packets)?;
        let pointers = pointers(&packets);
        let mut results = vec![0; packets.len()];
        // What its tables take it does not say.
        let engine =
            Engine::new(format!("rte_acl {way}"), 0, move |part: std::ops::Range<usize>| {
                // The pointers lead there.
                let _packets = &packets;
                let results = &mut results[..part.len()];
                acl.classify(&pointers[part], results, BATCH);
                weighed_group(0, 0, results)
            });
        Ok(vec![engine])
    }
}

/// Chooses the fastest of rte_acl's ways here.
fn fastest(acl: &mut Acl, packets: &[AclPacket]) -> Result<&'static str, String> {
    let pointers = pointers(packets);
    let mut results = vec![0; packets.len()];
    let mut best = (u64::MAX, WAYS[0]);
    let now = || thread_cpu_nanoseconds().map_err(|error| error.to_string());
    for way in WAYS {
        if !acl.choose(way.0) {
            continue;
        }
        for _ in 0..3 {
            let start = now()?;
            acl.classify(&pointers, &mut results, BATCH);
            best = best.min((now()? - start, way));
        }
    }
    acl.choose(best.1.0);
    Ok(best.1.1)
}

fn pointers(packets: &[AclPacket]) -> Vec<*const u8> {
    packets.iter().map(|one| std::ptr::from_ref(one).cast()).collect()
}

/// Converts a packet for rte_acl.
fn their_packet(packet: &Packet) -> AclPacket {
    let fields = [
        Field::Source,
        Field::Destination,
        Field::SourcePort,
        Field::DestinationPort,
        Field::Protocol,
    ];
    AclPacket::new(fields.map(|field| packet.get(field)))
}
