//! Random addresses and prefixes that crowd together, so that they meet, nest and part late.

use std::net::IpAddr;

use proptest::prelude::*;
use whered_ip::Prefix;

/// An octet from a handful of neighbours and extremes.
fn octet() -> impl Strategy<Value = u8> {
    prop_oneof![
        6 => prop::sample::select(vec![0u8, 1, 2, 127, 128, 129, 254, 255]),
        1 => any::<u8>(),
    ]
}

/// An address whose octets are mostly zero: a short head, a run and a tail.
pub(crate) fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        prop::array::uniform4(octet()).prop_map(|[a, b, c, d]| IpAddr::from([a & 1, b & 1, c, d])),
        prop::array::uniform4(octet()).prop_map(IpAddr::from),
        (prop::array::uniform4(octet()), 0..=14usize).prop_map(|([a, b, c, d], place)| {
            let mut octets = [0u8; 16];
            octets[0] = a & 1;
            octets[place] |= b & 1;
            octets[place + 1] = c;
            octets[15] = d;
            IpAddr::from(octets)
        }),
        // IPv4-mapped: must stay with IPv6.
        prop::array::uniform2(octet()).prop_map(|[c, d]| {
            IpAddr::from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, c, d])
        }),
    ]
}

/// A prefix of such an address; whole octets, their neighbours and the extremes most often.
pub(crate) fn prefix() -> impl Strategy<Value = Prefix> {
    let length = prop_oneof![
        Just(0u8),
        Just(32),
        Just(128),
        (0..=16u8).prop_map(|octets| octets * 8),
        (0..=16u8).prop_map(|octets| octets * 8 + 1),
        (1..=16u8).prop_map(|octets| octets * 8 - 1),
        any::<u8>(),
    ];
    (address(), length).prop_map(|(address, length)| {
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length_bits = if length > most { length % (most + 1) } else { length };
        Prefix::new(address, length_bits).expect("the length was cut to the family")
    })
}
