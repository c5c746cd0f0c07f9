//! Packets as the classifier takes them, one by one and sixty-four at a time.
//!
//! For: from a packet's fields to one cache line of numbers, and batches of one family out of
//! packets of both. Not for: numbering interfaces and places (`normal`), nor what becomes of a
//! packet.
//!
//! ```text
//! packets, both families ──► 64 of one family ──► places of all ──► numbers of each ──► slots
//!                                            or places of those that a rule asks for ──┘
//! ```
//!
//! An ICMP message has no ports, so its type and code stand where the source port of others does;
//! conditions on either hold only for their own protocols, so that nobody can mistake them.
//!
//! Concurrency: plain functions. Cost: some 60 instructions a packet, and what `compile` says;
//! nothing allocates.

use std::cell::Cell;

use crate::classify::lazy::{LazyFields, LazyValues};
use crate::classify::{self, AnyPacket, Matched, NO_RULE};
use crate::naive::Sets;
use crate::normal::{Key, NormalForm, Place};
use crate::packet::{Family, Packet};

/// How many packets are answered together.
pub const BATCH: usize = 64;

/// Protocols whose messages have a type and a code.
const ICMP_PROTOCOLS: [u8; 2] = [1, 58];

/// Finds the slots of packets that are numbers.
pub(crate) trait Classifier {
    /// The counters that number the packets of a family.
    fn form(&self, family: Family) -> &NormalForm;
    /// The slot of a packet, or [`NO_RULE`]; those matched before are appended to `matched`.
    fn find_packet<A: AnyPacket>(
        &self,
        family: Family,
        packet: &A,
        lazy: impl LazyFields,
        matched: &mut Vec<u32>,
    ) -> u32;
    /// The slot of each packet, or [`NO_RULE`], and those matched before; `matched` loses its old
    /// contents.
    fn find_packets<A: AnyPacket>(
        &self,
        family: Family,
        packets: &[A],
        lazy: impl LazyFields,
        slots: &mut [u32],
        matched: &mut Matched,
    );
}

/// The slot of one packet, or [`NO_RULE`]; those matched before are appended to `matched`.
#[inline]
pub(crate) fn classify_one(
    classifier: &impl Classifier,
    packet: &Packet<'_>,
    sets: &dyn Sets,
    matched: &mut Vec<u32>,
) -> u32 {
    let family = packet.family();
    let form = classifier.form(family);
    let places = if form.layout.is_lazy() {
        form.prefetch_places(packet);
        Default::default()
    } else {
        form.places_of_one(packet)
    };
    let key = form.key_at(packet, sets, places);
    let known = Cell::new(None);
    let lazy = |_| lazy_values(form, packet, &known);
    match family {
        Family::Ipv4 => {
            let mut numbers = classify::Packet::new(0, 0);
            fill4(form, &mut numbers, &key);
            classifier.find_packet(family, &numbers, lazy, matched)
        }
        Family::Ipv6 => {
            let mut numbers = classify::Packet6::new(0, 0);
            fill6(form, &mut numbers, &key);
            classifier.find_packet(family, &numbers, lazy, matched)
        }
    }
}

/// The lazy fields of a packet, in the order of `Layout::field`, each looked up once.
#[inline]
fn lazy_values(
    form: &NormalForm,
    packet: &Packet<'_>,
    known: &Cell<Option<LazyValues>>,
) -> LazyValues {
    known.get().unwrap_or_else(|| {
        let [source, destination] = form.places_of_one(packet);
        let numbers = [source[0], source[1], destination[0], destination[1]];
        known.set(Some(numbers));
        numbers
    })
}

/// Classifies packets; `report` gets each one's family, index and slot, and the slots matched
/// before.
pub(crate) fn classify_all(
    classifier: &impl Classifier,
    packets: &[Packet<'_>],
    sets: &dyn Sets,
    mut report: impl FnMut(Family, usize, u32, &[u32]),
) {
    let Some(first) = packets.first() else { return };
    for family in Family::BOTH {
        let mut chunk = Chunk { family, packets: [first; BATCH], places: [0; BATCH], count: 0 };
        for (place, packet) in packets.iter().enumerate() {
            if packet.family() != family {
                continue;
            }
            (chunk.packets[chunk.count], chunk.places[chunk.count]) = (packet, place);
            chunk.count += 1;
            if chunk.count == BATCH {
                chunk.classify(classifier, sets, &mut report);
                chunk.count = 0;
            }
        }
        if chunk.count > 0 {
            chunk.classify(classifier, sets, &mut report);
        }
    }
}

/// The next packets of one family, and where they stand among all.
struct Chunk<'a, 'p> {
    family: Family,
    packets: [&'a Packet<'p>; BATCH],
    places: [usize; BATCH],
    count: usize,
}

impl Chunk<'_, '_> {
    fn classify(
        &self,
        classifier: &impl Classifier,
        sets: &dyn Sets,
        report: &mut impl FnMut(Family, usize, u32, &[u32]),
    ) {
        let form = classifier.form(self.family);
        let packets = &self.packets[..self.count];
        let mut places = [[Place::default(); 2]; BATCH];
        if form.layout.is_lazy() {
            packets.iter().for_each(|packet| form.prefetch_places(packet));
        } else {
            form.places_of(packets, &mut places[..self.count]);
        }
        let known = [const { Cell::new(None) }; BATCH];
        let lazy = |place: usize| lazy_values(form, packets[place], &known[place]);
        let keys = packets.iter().zip(&places).map(|(packet, at)| form.key_at(packet, sets, *at));
        let (mut slots, mut matched) = ([NO_RULE; BATCH], Matched::default());
        let slots = &mut slots[..self.count];
        match self.family {
            Family::Ipv4 => {
                let mut numbers = [classify::Packet::new(0, 0); BATCH];
                numbers.iter_mut().zip(keys).for_each(|(to, key)| fill4(form, to, &key));
                classifier.find_packets(
                    self.family,
                    &numbers[..self.count],
                    lazy,
                    slots,
                    &mut matched,
                );
            }
            Family::Ipv6 => {
                let mut numbers = [classify::Packet6::new(0, 0); BATCH];
                numbers.iter_mut().zip(keys).for_each(|(to, key)| fill6(form, to, &key));
                classifier.find_packets(
                    self.family,
                    &numbers[..self.count],
                    lazy,
                    slots,
                    &mut matched,
                );
            }
        }
        let mut pairs = matched.pairs.into_iter().peekable();
        let mut of_packet = Vec::new();
        for ((turn, slot), place) in (0..).zip(slots).zip(self.places) {
            of_packet.clear();
            while let Some((_, slot)) = pairs.next_if(|pair| pair.0 == turn) {
                of_packet.push(slot);
            }
            report(self.family, place, *slot, &of_packet);
        }
    }
}

/// The fields beside the addresses.
#[inline(always)]
fn fill(form: &NormalForm, packet: &mut classify::Packet, key: &Key) {
    use classify::Field as To;
    let is_icmp = ICMP_PROTOCOLS.contains(&key.protocol);
    let first = if is_icmp { key.icmp } else { key.source_port };
    packet.set(To::SourcePort, first.into());
    packet.set(To::DestinationPort, key.destination_port.into());
    packet.set(To::Protocol, key.protocol.into());
    form.layout.fill(packet, key);
}

/// Writes the numbers where they are to stand: what is written in words and then copied as a whole
/// waits for the last of them.
#[inline(always)]
fn fill4(form: &NormalForm, packet: &mut classify::Packet, key: &Key) {
    packet.set(classify::Field::Source, key.source as u32);
    packet.set(classify::Field::Destination, key.destination as u32);
    fill(form, packet, key);
}

#[inline(always)]
fn fill6(form: &NormalForm, packet: &mut classify::Packet6, key: &Key) {
    (packet.source, packet.destination) = (key.source, key.destination);
    fill(form, &mut packet.fields, key);
}
