//! The invariant *room* under many open reservations, used and given back in any order.

use super::*;
use crate::journal::segment::SEGMENT_SIZE_BYTES_MIN;
use crate::journal::spare::SpareMaker;
use crate::storage::{BLOCK_BYTES, SimulatedDisk};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

/// The actions of a caller; numbers choose among the open reservations.
#[derive(Clone, Debug)]
enum Step {
    Reserve { payload_size_bytes: usize },
    Append { which: usize, used_percent: usize },
    Release { which: usize },
    Roll,
    Take,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![6 => 0..900_usize, 1 => 0..9000_usize];
    let step = prop_oneof![
        4 => size.prop_map(|payload_size_bytes| Step::Reserve { payload_size_bytes }),
        4 => (any::<usize>(), 0..=100_usize)
            .prop_map(|(which, used_percent)| Step::Append { which, used_percent }),
        1 => any::<usize>().prop_map(|which| Step::Release { which }),
        1 => Just(Step::Roll),
        2 => Just(Step::Take),
    ];
    proptest::collection::vec(step, 0..200)
}

/// Follows the groups as the writer would: where they lie and which sequences they hold.
struct Follower {
    left_bytes: u64,
    position_bytes: u64,
    next_sequence: u64,
}

impl Follower {
    fn take_all(&mut self, intake: &mut Intake) {
        while let Some(group) = intake.take() {
            if let Some(spare) = &group.segment {
                self.left_bytes = spare.capacity_bytes();
                self.position_bytes = HEADER_BYTES;
            }
            let in_block = self.position_bytes as usize % BLOCK_BYTES;
            assert_eq!(group.buffer.lead(), in_block, "the group lies where it will in the file");
            let size_bytes = group.buffer.group().len() as u64;
            assert!(size_bytes <= self.left_bytes, "the group leaves its segment");
            self.left_bytes -= size_bytes;
            self.position_bytes += size_bytes;
            assert_eq!(group.first_sequence, self.next_sequence);
            self.next_sequence = group.last_sequence + 1;
            intake.recycle(group.buffer.into_bytes());
        }
        assert_eq!(intake.buffered_bytes(), 0);
    }
}

fn extend(intake: &mut Intake, spares: &mut SpareMaker, wanted: u64) {
    let spare = spares.make(wanted).expect("the disk has no limit");
    if let Some(smaller) = intake.install_spare(spare) {
        spares.discard(smaller);
    }
}

fn reserve(intake: &mut Intake, spares: &mut SpareMaker, charge: u64) {
    while let Err(wanted) = intake.admit(charge) {
        extend(intake, spares, wanted);
    }
}

proptest! {
    #[test]
    fn every_reserved_append_finds_its_place_in_any_order(steps in steps(), free in 0..5000_u64) {
        let disk = Arc::new(SimulatedDisk::new(1));
        let mut spares = SpareMaker::new(disk, SEGMENT_SIZE_BYTES_MIN, Duration::ZERO);
        let position_bytes = HEADER_BYTES + 77;
        let mut intake = Intake::new(1, 1, position_bytes, free);
        let mut follower = Follower { left_bytes: free, position_bytes, next_sequence: 1 };
        let mut open: Vec<usize> = Vec::new();
        for step in steps {
            match step {
                Step::Reserve { payload_size_bytes } => {
                    reserve(&mut intake, &mut spares, charge_bytes(1, payload_size_bytes));
                    open.push(payload_size_bytes);
                }
                Step::Append { which, used_percent } if !open.is_empty() => {
                    let reserved = open.swap_remove(which % open.len());
                    let payload = vec![1; reserved * used_percent / 100];
                    let (head, body) = payload.split_at(payload.len() / 3);
                    let pieces = [head, body];
                    let frame = std::iter::once((1, &pieces[..]));
                    intake.append(charge_bytes(1, reserved), frame);
                }
                Step::Release { which } if !open.is_empty() => {
                    let reserved = open.swap_remove(which % open.len());
                    intake.release(charge_bytes(1, reserved));
                }
                Step::Roll => {
                    while let Err(wanted) = intake.roll() {
                        extend(&mut intake, &mut spares, wanted);
                    }
                }
                Step::Take => follower.take_all(&mut intake),
                Step::Append { .. } | Step::Release { .. } => {}
            }
            prop_assert_eq!(intake.reservations(), open.len() as u64);
        }
        follower.take_all(&mut intake);
        prop_assert_eq!(follower.next_sequence, intake.last_sequence() + 1);
    }
}
