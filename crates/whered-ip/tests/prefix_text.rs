//! Reading and writing prefixes as text, and what a prefix holds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use whered_ip::{Prefix, PrefixErrorKind};

fn prefix(text: &str) -> Prefix {
    text.parse().expect("a fixed text")
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("a fixed text")
}

#[test]
fn good_text_is_read_and_written_with_its_length_and_without_host_bits() {
    for (text, written) in [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.255.1.2/8", "10.0.0.0/8"),
        ("1.2.3.4", "1.2.3.4/32"),
        ("1.2.3.4/32", "1.2.3.4/32"),
        ("1.2.3.5/31", "1.2.3.4/31"),
        ("255.255.255.255/0", "0.0.0.0/0"),
        ("2001:db8::/32", "2001:db8::/32"),
        ("2001:DB8:0:0::1/32", "2001:db8::/32"),
        ("2001:0db8::0001", "2001:db8::1/128"),
        ("ffff::/0", "::/0"),
        ("::", "::/128"),
        ("::ffff:1.2.3.4", "::ffff:1.2.3.4/128"),
        ("::ffff:1.2.3.4/104", "::ffff:1.0.0.0/104"),
        ("64:ff9b::192.0.2.33/96", "64:ff9b::/96"),
    ] {
        assert_eq!(prefix(text).to_string(), written, "{text}");
        assert_eq!(prefix(written), prefix(text), "{text}");
    }
}

#[test]
fn bad_text_says_where_and_what_is_allowed() {
    let no_address = PrefixErrorKind::Address;
    let no_length = |longest| PrefixErrorKind::Length { longest };
    let too_long = |longest| PrefixErrorKind::LengthTooLong { longest };
    for (text, offset, found, kind) in [
        ("", 0, "", no_address),
        ("/", 0, "", no_address),
        ("/8", 0, "", no_address),
        ("10", 0, "10", no_address),
        ("10/8", 0, "10", no_address),
        ("10.0.0/24", 0, "10.0.0", no_address),
        ("10.0.0.0.0", 0, "10.0.0.0.0", no_address),
        ("010.0.0.0/8", 0, "010.0.0.0", no_address),
        ("10.00.0.0/8", 0, "10.00.0.0", no_address),
        ("256.0.0.0/8", 0, "256.0.0.0", no_address),
        ("-1.0.0.0", 0, "-1.0.0.0", no_address),
        ("0x0a.0.0.0", 0, "0x0a.0.0.0", no_address),
        (" 10.0.0.0/8", 0, " 10.0.0.0", no_address),
        ("10.0.0.0 /8", 0, "10.0.0.0 ", no_address),
        ("10.0.0.0\n", 0, "10.0.0.0\n", no_address),
        ("[::1]/128", 0, "[::1]", no_address),
        ("fe80::1%eth0", 0, "fe80::1%eth0", no_address),
        ("1::2::3", 0, "1::2::3", no_address),
        ("12345::", 0, "12345::", no_address),
        ("1:2:3:4:5:6:7", 0, "1:2:3:4:5:6:7", no_address),
        ("1.2.3.4:80", 0, "1.2.3.4:80", no_address),
        ("host.example/8", 0, "host.example", no_address),
        ("١.٢.٣.٤", 0, "١.٢.٣.٤", no_address),
        ("10.0.0.0/", 9, "", no_length(32)),
        ("10.0.0.0/08", 9, "08", no_length(32)),
        ("10.0.0.0/00", 9, "00", no_length(32)),
        ("10.0.0.0/+8", 9, "+8", no_length(32)),
        ("10.0.0.0/-8", 9, "-8", no_length(32)),
        ("10.0.0.0/ 8", 9, " 8", no_length(32)),
        ("10.0.0.0/8 ", 9, "8 ", no_length(32)),
        ("10.0.0.0/8/8", 9, "8/8", no_length(32)),
        ("10.0.0.0/255.0.0.0", 9, "255.0.0.0", no_length(32)),
        ("10.0.0.0/٨", 9, "٨", no_length(32)),
        ("10.0.0.0/99999", 9, "99999", no_length(32)),
        ("::/x", 3, "x", no_length(128)),
        ("10.0.0.0/33", 9, "33", too_long(32)),
        ("10.0.0.0/256", 9, "256", too_long(32)),
        ("10.0.0.0/264", 9, "264", too_long(32)),
        ("10.0.0.0/999", 9, "999", too_long(32)),
        ("::/129", 3, "129", too_long(128)),
        ("::ffff:1.2.3.4/129", 15, "129", too_long(128)),
    ] {
        let error = text.parse::<Prefix>().expect_err(text);
        assert_eq!((error.kind(), error.offset(), error.found()), (kind, Some(offset), found));
        let line = error.to_string();
        assert!(!line.contains('\n') && line.contains("allowed is"), "{line}");
    }
}

#[test]
fn a_long_wrong_text_makes_a_short_error() {
    let error = "ü".repeat(1 << 20).parse::<Prefix>().unwrap_err();
    assert_eq!(error.found().chars().count(), 49);
    let error = format!("::/{}", "1".repeat(1 << 20)).parse::<Prefix>().unwrap_err();
    assert!(error.to_string().len() < 200);
}

#[test]
fn a_length_past_the_address_is_refused() {
    let error = Prefix::new(address("1.2.3.4"), 33).unwrap_err();
    assert_eq!(error.kind(), PrefixErrorKind::LengthTooLong { longest: 32 });
    assert_eq!(error.offset(), None);
    assert_eq!(error.to_string(), "prefix length \"33\" is too long: allowed is 0 to 32 for IPv4");
    assert!(Prefix::new(address("::"), 129).is_err());
    assert!(Prefix::new(address("::"), 128).is_ok());
}

#[test]
fn families_never_meet_not_even_in_mapped_addresses() {
    let mapped = prefix("::ffff:10.0.0.0/104");
    assert!(!mapped.is_ipv4());
    assert!(mapped.contains(address("::ffff:10.1.2.3")));
    assert!(!mapped.contains(address("10.1.2.3")));
    assert!(!prefix("10.0.0.0/8").contains(address("::ffff:10.1.2.3")));
    assert!(!prefix("::/0").contains(address("10.1.2.3")));
    assert!(!prefix("0.0.0.0/0").covers(&prefix("::/0")));
}

#[test]
fn a_prefix_covers_itself_and_what_is_longer_inside_it() {
    let wide = prefix("10.0.0.0/8");
    assert!(wide.covers(&wide));
    assert!(wide.covers(&prefix("10.9.0.0/16")));
    assert!(!prefix("10.9.0.0/16").covers(&wide));
    assert!(!wide.covers(&prefix("11.0.0.0/16")));
    assert_eq!(Prefix::host(address("10.0.0.1")), prefix("10.0.0.1/32"));
    assert_eq!(Prefix::from(address("::1")), prefix("::1/128"));
}

#[test]
fn a_prefix_takes_eighteen_bytes() {
    assert_eq!([size_of::<Prefix>(), size_of::<Option<Prefix>>()], [18, 18]);
}

#[test]
fn the_order_is_family_then_address_then_length() {
    let sorted = ["0.0.0.0/0", "9.0.0.0/8", "10.0.0.0/8", "10.0.0.0/9", "::/0", "::/1", "8000::/1"];
    assert!(sorted.map(prefix).is_sorted());
}

fn any_prefix() -> impl Strategy<Value = Prefix> {
    prop_oneof![
        (any::<u32>(), 0..=32u8).prop_map(|(bits, length_bits)| {
            Prefix::new(Ipv4Addr::from_bits(bits).into(), length_bits).expect("within the family")
        }),
        (any::<u128>(), 0..=128u8).prop_map(|(bits, length_bits)| {
            Prefix::new(Ipv6Addr::from_bits(bits).into(), length_bits).expect("within the family")
        }),
    ]
}

proptest! {
    #[test]
    fn text_comes_back_as_the_same_prefix(prefix in any_prefix()) {
        prop_assert_eq!(prefix.to_string().parse::<Prefix>(), Ok(prefix));
    }

    #[test]
    fn any_text_is_read_or_refused_in_one_line(text in "[0-9a-f:./ x+%\\PC]{0,40}") {
        if let Err(error) = text.parse::<Prefix>() {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }

    #[test]
    fn one_wrong_character_never_panics(prefix in any_prefix(), place: prop::sample::Index, wrong: char) {
        let mut characters: Vec<char> = prefix.to_string().chars().collect();
        let place = place.index(characters.len());
        characters[place] = wrong;
        let text: String = characters.into_iter().collect();
        if let Ok(read) = text.parse::<Prefix>() {
            prop_assert_eq!(read.to_string().parse::<Prefix>(), Ok(read));
        }
    }

    #[test]
    fn a_prefix_holds_exactly_the_addresses_that_share_its_bits(
        prefix in any_prefix(),
        flipped in 0..128u8,
    ) {
        prop_assert!(prefix.contains(prefix.address()));
        let (other, flipped) = match prefix.address() {
            IpAddr::V4(v4) => {
                let flipped = flipped % 32;
                (IpAddr::from(Ipv4Addr::from_bits(v4.to_bits() ^ (1 << (31 - flipped)))), flipped)
            }
            IpAddr::V6(v6) => {
                (IpAddr::from(Ipv6Addr::from_bits(v6.to_bits() ^ (1 << (127 - flipped)))), flipped)
            }
        };
        prop_assert_eq!(prefix.contains(other), flipped >= prefix.length_bits());
    }
}
