//! Aliases: CNAME and DNAME, and the names that they lead to.
//!
//! Not for: one name (`mod.rs`). A chain is followed inside the served zones, as the head of
//! `mod.rs` says. Concurrency: none inside. Cost: a target is copied to the stack and lowered; no
//! allocation.

use super::{CHAIN_LENGTH_MAX, Resolver, Spot, Step};
use crate::code::{Rcode, RecordType};
use crate::lower::LowerName;
use crate::name::NAME_SIZE_MAX;
use crate::reply::{Names, Section};
use crate::zone::layout::RECORD_HEAD_SIZE;
use crate::zone::{Node, Rrset};
use crate::zones::ZoneLocation;

/// Where an alias leads.
pub(super) struct Target {
    wire: [u8; NAME_SIZE_MAX],
    length: usize,
    /// Where it stands in the reply.
    at: usize,
    /// The zone whose origin ends it as a pointer, and where that stands.
    from: Option<(u32, usize)>,
}

impl<'a> Resolver<'a, '_> {
    #[cold]
    pub(super) fn follow(
        &mut self,
        name: &LowerName,
        target: Target,
        question_type: RecordType,
        target_name: &mut LowerName,
    ) -> Rcode {
        // Names that were met, by their hashes.
        let mut met = [name.hash_of(name.label_count()); CHAIN_LENGTH_MAX + 1];
        let mut target = target;
        for link in 1..=CHAIN_LENGTH_MAX {
            let wire = target.wire.get(..target.length).unwrap_or_default();
            if target_name.read(wire).is_none() {
                return Rcode::SERVFAIL;
            }
            let hash = target_name.hash_of(target_name.label_count());
            if met.iter().take(link).any(|met| *met == hash) {
                return Rcode::NOERROR;
            }
            if let Some(place) = met.get_mut(link) {
                *place = hash;
            }
            match self.next_step(target_name, question_type, &target) {
                Step::Done(rcode) => return rcode,
                Step::Referred => return Rcode::NOERROR,
                Step::Follow(next) => target = next,
            }
        }
        Rcode::NOERROR
    }

    #[cold]
    fn next_step(&mut self, name: &LowerName, question_type: RecordType, target: &Target) -> Step {
        let Some(located) = self.located(name, question_type) else {
            return Step::Done(Rcode::NOERROR);
        };
        if self.zones.zone_at(located.zone).is_unavailable() {
            return Step::Done(Rcode::SERVFAIL);
        }
        let spot = self.spot(target.at, name.as_wire().len(), &located, target.from);
        self.step(&located, name, spot, question_type)
    }

    /// Puts an alias and says where it leads. A question for ANY ends with it.
    #[cold]
    pub(super) fn alias(
        &mut self,
        rrset: &Rrset<'_>,
        names: Names,
        zone: u32,
        spot: Spot,
        question_type: RecordType,
    ) -> Step {
        let start = self.reply.put(Section::Answer, rrset, names);
        let (Some(start), true) =
            (start, !matches!(question_type, RecordType::ANY | RecordType::CNAME))
        else {
            return Step::Done(Rcode::NOERROR);
        };
        let mut target = Target {
            wire: [0; NAME_SIZE_MAX],
            length: 0,
            at: start + RECORD_HEAD_SIZE,
            from: Some((zone, spot.origin)),
        };
        // The target ends in the one pointer that there may be, to the zone's origin.
        let point = rrset.points().next();
        let end = point.unwrap_or(rrset.wire.len());
        let labels = rrset.wire.get(RECORD_HEAD_SIZE..end).unwrap_or_default();
        let origin: &[u8] = match point {
            Some(_) => self.zones.zone_at(zone).lower_origin(),
            None => &[],
        };
        target.append(labels);
        target.append(origin);
        if point == Some(RECORD_HEAD_SIZE) {
            // A target that is the origin itself is nothing but a pointer to it.
            target.at = spot.origin;
        }
        if point.is_none() {
            target.from = None;
        }
        Step::Follow(target)
    }

    /// Puts a DNAME and the CNAME that it makes of the name (RFC 6672, 3.1), which is what a
    /// question for CNAME asked for.
    #[cold]
    pub(super) fn redirect(
        &mut self,
        located: &ZoneLocation<'_>,
        node: &Node<'_>,
        name: &LowerName,
        spot: Spot,
        question_type: RecordType,
    ) -> Step {
        let Some(rrset) = node.rrset(RecordType::DNAME) else {
            return Step::Done(Rcode::SERVFAIL);
        };
        let origin_length = self.origin_length(located.zone);
        let prefix_length = name.start_of(located.labels);
        let owner_spot = Spot {
            name: if located.labels == 0 {
                spot.name + spot.name_length - 1
            } else {
                spot.name + prefix_length
            },
            ..spot
        };
        self.reply.put(Section::Answer, &rrset, owner_spot.names(node, origin_length));
        self.sign(Section::Answer, located.zone, node, RecordType::DNAME, owner_spot.name);
        let mut target = Target { wire: [0; NAME_SIZE_MAX], length: 0, at: 0, from: None };
        let prefix = name.as_wire().get(..prefix_length).unwrap_or_default();
        if prefix.len() + rrset.first_data().len() > NAME_SIZE_MAX {
            return Step::Done(Rcode::YXDOMAIN);
        }
        target.append(prefix);
        target.append(rrset.first_data());
        let wire = target.wire.get(..target.length).unwrap_or_default();
        let ttl_seconds = rrset.ttl_seconds();
        match self.reply.put_record(RecordType::CNAME, ttl_seconds, spot.name, wire) {
            Some(start) if question_type != RecordType::CNAME => {
                target.at = start + RECORD_HEAD_SIZE;
                Step::Follow(target)
            }
            _ => Step::Done(Rcode::NOERROR),
        }
    }
}

impl Target {
    fn append(&mut self, bytes: &[u8]) {
        if let Some(place) = self.wire.get_mut(self.length..self.length + bytes.len()) {
            place.copy_from_slice(bytes);
            self.length += bytes.len();
        }
    }
}
