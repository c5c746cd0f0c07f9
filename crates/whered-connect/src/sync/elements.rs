//! The elements of an nf_tables set, read back from the kernel.
//!
//! For: comparing a set with what was written. Not for: noticing single changes (`watch`).
//!
//! ```text
//! element 10.0.0.8, element 10.0.0.16 [end]  ──►  piece 10.0.0.8-10.0.0.15
//! element without an end behind it           ──►  piece up to the last address
//! ```
//!
//! Cost: the kernel begins at the start of its tree for each part of a list: some 0.2 s for 50,000
//! ranges, 18 s for 500,000. It has a socket of its own, so that changes go on meanwhile.

use super::netlink::{self, Fault, Messages, Netlink};
use super::nft::{
    DATA_VALUE, ELEMENT_FLAGS, ELEMENT_KEY, INTERVAL_END, LIST_ELEMENTS, LIST_SET, LIST_TABLE,
};
use super::{Content, Family, Piece, now_millis};

const GET_ELEMENTS: u16 = 13;
/// How long an element is still held, in milliseconds.
const ELEMENT_EXPIRATION: u16 = 5;

/// The set whose elements are wanted.
pub(super) struct SetQuery {
    pub(super) table_family: u8,
    pub(super) table: String,
    pub(super) set: String,
    pub(super) family: Family,
    pub(super) has_ranges: bool,
    pub(super) has_timeouts: bool,
}

/// One end of a range, or an address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Edge {
    number: u128,
    /// Ends come before starts at the same address.
    is_start: bool,
    until_millis: Option<u64>,
}

/// What the set holds. `None` if it was changed while it was read.
pub(super) fn read_back(questioned: &SetQuery) -> Result<Option<Content>, Fault> {
    let mut question = Messages::default();
    question.begin(GET_ELEMENTS, netlink::DUMP, questioned.table_family);
    question.text(LIST_TABLE, &questioned.table);
    question.text(LIST_SET, &questioned.set);
    let mut edges = Vec::new();
    let mut foreign = 0;
    let is_whole = Netlink::open()?.list(question, |part| {
        let now_millis = now_millis();
        let lists = netlink::attributes(part).filter(|(kind, _)| *kind == LIST_ELEMENTS);
        for (_, element) in lists.flat_map(|(_, list)| netlink::attributes(list)) {
            match edge(element, questioned.family, now_millis) {
                Some(edge) => edges.push(edge),
                None => foreign += 1,
            }
        }
    })?;
    let pieces = pieces(edges, questioned);
    let longest_millis = questioned.has_timeouts.then_some(u64::MAX);
    Ok(is_whole.then_some(Content { pieces, foreign, longest_millis }))
}

fn edge(element: &[u8], family: Family, now_millis: u64) -> Option<Edge> {
    let find = |wanted| {
        netlink::attributes(element).find(|(kind, _)| *kind == wanted).map(|(_, payload)| payload)
    };
    let (_, key) = netlink::attributes(find(ELEMENT_KEY)?).find(|(kind, _)| *kind == DATA_VALUE)?;
    if key.len() != family.bits() as usize / 8 {
        return None;
    }
    let number = key.iter().fold(0_u128, |number, octet| number << 8 | u128::from(*octet));
    let flags = find(ELEMENT_FLAGS).and_then(|octets| octets.try_into().ok());
    let is_end = flags.is_some_and(|octets| u32::from_be_bytes(octets) & INTERVAL_END != 0);
    let left = find(ELEMENT_EXPIRATION).and_then(|octets| octets.try_into().ok());
    let until_millis = left.map(|octets| now_millis.saturating_add(u64::from_be_bytes(octets)));
    Some(Edge { number, is_start: !is_end, until_millis })
}

fn pieces(mut edges: Vec<Edge>, questioned: &SetQuery) -> Vec<Piece> {
    edges.sort_unstable();
    let single = |edge: &Edge| Piece {
        first: edge.number,
        last: edge.number,
        until_millis: edge.until_millis,
    };
    if !questioned.has_ranges {
        return edges.iter().map(single).collect();
    }
    let mut pieces: Vec<Piece> = Vec::with_capacity(edges.len() / 2);
    // A range without an end goes up to the next range, or to the last address.
    let mut is_open = false;
    for edge in &edges {
        if let Some(open) = pieces.last_mut().filter(|_| is_open) {
            open.last = edge.number.saturating_sub(1);
        }
        if edge.is_start {
            pieces.push(Piece { last: questioned.family.highest(), ..single(edge) });
        }
        is_open = edge.is_start;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_close_ranges_and_the_last_one_may_be_open() {
        let questioned = SetQuery {
            table_family: 1,
            table: "t".to_owned(),
            set: "s".to_owned(),
            family: Family::Ipv4,
            has_ranges: true,
            has_timeouts: false,
        };
        let edge = |number, is_start| Edge { number, is_start, until_millis: None };
        // The kernel gives them in any order; nft writes an end at zero that closes nothing.
        let edges = vec![
            edge(16, false),
            edge(8, true),
            edge(0, false),
            edge(16, true),
            edge(17, false),
            edge(30, true),
        ];
        let found: Vec<_> =
            pieces(edges, &questioned).iter().map(|it| (it.first, it.last)).collect();
        assert_eq!(found, [(8, 15), (16, 16), (30, u128::from(u32::MAX))]);
        // What is no element is no range.
        assert_eq!(super::edge(&[1, 2, 3], Family::Ipv4, 0), None);
    }
}
