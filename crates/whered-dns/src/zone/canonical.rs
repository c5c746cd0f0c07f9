//! The canonical form of records: what a signature is over, and the order of names
//! (RFC 4034, 3.1.8.1 and 6).
//!
//! For: verifying signatures (`verify.rs`) and making them (`sign.rs`, `signing`).
//! Concurrency: none. Cost: linear in the data, and a sort of the records of one rrset.

use std::collections::BTreeSet;

use crate::code::RecordType;
use crate::name::wire_name_length;

/// The bytes of a signature's data before its signer.
pub(crate) const SIGNATURE_HEAD_SIZE: usize = 18;

/// An rrset without its TTL and its place.
#[derive(Clone, Copy)]
pub(crate) struct CanonicalRrset<'a> {
    /// The owner in wire form and lower case.
    pub(crate) owner: &'a [u8],
    pub(crate) record_type: RecordType,
    /// The TTL that the signature names.
    pub(crate) ttl: [u8; 4],
}

impl CanonicalRrset<'_> {
    /// Appends the records in their order, each once.
    pub(crate) fn append<'d>(&self, data: impl Iterator<Item = &'d [u8]>, message: &mut Vec<u8>) {
        let data: BTreeSet<Vec<u8>> = data.map(|data| canonical(self.record_type, data)).collect();
        for data in data {
            message.extend_from_slice(self.owner);
            message.extend_from_slice(&self.record_type.0.to_be_bytes());
            message.extend_from_slice(&[0, 1]);
            message.extend_from_slice(&self.ttl);
            message.extend_from_slice(&(data.len() as u16).to_be_bytes());
            message.extend_from_slice(&data);
        }
    }
}

/// Data with their names in lower case, in the types of RFC 4034, 6.2 and RFC 6840, 5.1.
pub(super) fn canonical(record_type: RecordType, data: &[u8]) -> Vec<u8> {
    let mut canonical = data.to_vec();
    // Bytes in front of the names, and how many names there are.
    let (front, names) = match record_type.0 {
        2..=5 | 7..=9 | 12 | 39 => (0, 1),
        6 | 14 | 17 => (0, 2),
        15 | 18 | 21 | 36 => (2, 1),
        24 | 46 => (SIGNATURE_HEAD_SIZE, 1),
        26 => (2, 2),
        33 => (6, 1),
        // NAPTR has three strings before its name.
        35 => {
            let mut at = 4;
            for _ in 0..3 {
                at += 1 + usize::from(data.get(at).copied().unwrap_or_default());
            }
            (at, 1)
        }
        _ => return canonical,
    };
    let mut at = front;
    for _ in 0..names {
        let Some(length) = data.get(at..).and_then(wire_name_length) else { return canonical };
        canonical[at..at + length].make_ascii_lowercase();
        at += length;
    }
    canonical
}

/// Bytes that compare as a name in lower case does among others (RFC 4034, 6.1): its labels from
/// the right, each ended by 0. The name may lack the root.
pub(crate) fn order_key(name: &[u8]) -> Vec<u8> {
    let mut labels = Vec::new();
    let mut rest = name;
    while let Some((&length, behind)) = rest.split_first().filter(|(length, _)| **length > 0) {
        let Some((label, behind)) = behind.split_at_checked(length.into()) else { break };
        labels.push(label);
        rest = behind;
    }
    let mut key = Vec::with_capacity(name.len() + 1);
    for label in labels.iter().rev() {
        append_label(label, &mut key);
    }
    key
}

/// Appends a label to the key of the name above it.
#[inline]
pub(crate) fn append_label(label: &[u8], key: &mut Vec<u8>) {
    if label.iter().all(|byte| *byte > 1) {
        key.extend_from_slice(label);
    } else {
        for &byte in label {
            match byte {
                0 | 1 => key.extend_from_slice(&[1, byte + 1]),
                _ => key.push(byte),
            }
        }
    }
    key.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;

    #[test]
    fn keys_are_in_the_order_of_rfc_4034() {
        let texts = [
            "example",
            "a.example",
            "yljkjljk.a.example",
            "Z.a.example",
            "zABC.a.EXAMPLE",
            "z.example",
            "\\000.z.example",
            "\\000\\000.z.example",
            "\\000\\001.z.example",
            "\\001.z.example",
            "\\001\\000.z.example",
            "\\002.z.example",
            "*.z.example",
            "\\200.z.example",
        ];
        let keys = texts.map(|text| {
            let name: Name = text.parse().expect(text);
            order_key(&name.as_wire().to_ascii_lowercase())
        });
        for (pair, texts) in keys.windows(2).zip(texts.windows(2)) {
            assert!(pair[0] < pair[1], "{texts:?}");
        }
    }

    #[test]
    fn records_stand_in_order_once_and_with_names_in_lower_case() {
        let rrset =
            CanonicalRrset { owner: b"\x01a\x00", record_type: RecordType::MX, ttl: [0; 4] };
        let mut message = Vec::new();
        let data = [&b"\x00\x02\x01B\x00"[..], b"\x00\x01\x01C\x00", b"\x00\x02\x01b\x00"];
        rrset.append(data.into_iter(), &mut message);
        let one =
            |data: &[u8]| [b"\x01a\x00\x00\x0f\x00\x01\x00\x00\x00\x00\x00\x05", data].concat();
        let expected = [one(b"\x00\x01\x01c\x00"), one(b"\x00\x02\x01b\x00")].concat();
        assert_eq!(message, expected);
    }
}
