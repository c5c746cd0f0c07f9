//! The reader of written addresses against a slow twin made of the standard library's parsers.
//!
//! Not for plain addresses; `text_tests` has those.

use super::*;
use proptest::prelude::*;

/// Parses the same language by cutting strings.
fn naive(text: &str) -> Option<IpAddr> {
    let text = text.trim_matches([' ', '\t', '\n', '\r', '\x0c']);
    let port = |text: &str| {
        text.len() <= 5 && text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok()
    };
    let with_zone = |text: &str| -> Option<IpAddr> {
        match text.split_once('%') {
            None => text.parse().ok(),
            Some((address, zone)) => {
                let is_zone = !zone.is_empty()
                    && zone.chars().all(|c| c.is_ascii_graphic() && !"%/[],".contains(c));
                is_zone.then(|| address.parse::<Ipv6Addr>().ok()).flatten().map(IpAddr::V6)
            }
        }
    };
    let found = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inside, "")) => with_zone(inside),
        Some((inside, behind)) => {
            behind.strip_prefix(':').filter(|text| port(text)).and_then(|_| with_zone(inside))
        }
        None => with_zone(text).or_else(|| {
            let (address, behind) = text.split_once(':')?;
            port(behind).then(|| address.parse::<Ipv4Addr>().ok().map(IpAddr::V4)).flatten()
        }),
    };
    found.map(|address| match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    })
}

#[test]
fn what_stands_around_an_address_is_taken_off_and_nothing_else() {
    for (text, address) in [
        ("192.0.2.1", "192.0.2.1"),
        (" 192.0.2.1 ", "192.0.2.1"),
        ("8.8.8.8:80", "8.8.8.8"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:65535", "2001:db8::1"),
        ("[192.0.2.1]:1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%2]:80", "fe80::1"),
        ("::ffff:81.2.69.142", "81.2.69.142"),
        ("[::ffff:81.2.69.142]:443", "81.2.69.142"),
        ("\t::ffff:5102:458e\r\n", "81.2.69.142"),
    ] {
        assert_eq!(read(text.as_bytes()), address.parse().ok(), "{text}");
        assert_eq!(naive(text), address.parse().ok(), "naive: {text}");
    }
    for text in [
        "",
        "-",
        "[",
        "[]",
        "[::1",
        "[::1]x",
        "[::1]:",
        "::1]",
        "192.0.2.1:",
        "192.0.2.1:65536",
        "192.0.2.1:000080",
        "192.0.2.1%1",
        "::1%",
        "::1%a/64",
        "::1%a b",
        "192.0.2.1 x",
        "1.2.3",
        "localhost:80",
        "192.0.2.1:8a",
        "192.0.2.1:+8",
    ] {
        assert_eq!(read(text.as_bytes()), None, "{text}");
        assert_eq!(naive(text), None, "naive: {text}");
    }
}

#[test]
fn a_list_gives_the_first_the_last_or_the_first_public_address() {
    let read = |text: &str, choice| read_list(text.as_bytes(), choice).map(|a| a.to_string());
    let all = |text: &str| {
        [ListChoice::First, ListChoice::Last, ListChoice::Public].map(|choice| read(text, choice))
    };
    let texts = |first: &str, last: &str, public: &str| {
        [first, last, public].map(|text| Some(text.to_owned()))
    };
    for (text, expected) in [
        ("81.2.69.142", texts("81.2.69.142", "81.2.69.142", "81.2.69.142")),
        ("10.0.0.1", texts("10.0.0.1", "10.0.0.1", "10.0.0.1")),
        // Empty elements are passed over: RFC 9110, section 5.6.1.
        ("81.2.69.142,", texts("81.2.69.142", "81.2.69.142", "81.2.69.142")),
        (", 10.0.0.1, , 8.8.8.8", texts("10.0.0.1", "8.8.8.8", "8.8.8.8")),
        ("10.0.0.1, 192.168.0.1", texts("10.0.0.1", "192.168.0.1", "10.0.0.1")),
        ("unknown, 10.0.0.1,81.2.69.142 , 8.8.8.8:53", texts("10.0.0.1", "8.8.8.8", "81.2.69.142")),
        (
            "\"[2001:4860:4860::8888]:443\", \"::ffff:10.1.1.1\", -",
            texts("2001:4860:4860::8888", "10.1.1.1", "2001:4860:4860::8888"),
        ),
    ] {
        assert_eq!(all(text), expected, "{text}");
    }
    for text in ["", ",", "unknown", "81.2.69.142, x", ", ,", "a, b"] {
        assert_eq!(all(text), [None, None, None], "{text}");
    }
}

#[test]
fn public_addresses_are_those_outside_of_every_special_block() {
    for text in ["8.8.8.8", "100.128.0.1", "172.32.0.1", "192.0.1.1", "2001:4860::1", "2002::1"] {
        assert!(is_public(text.parse().unwrap()), "{text}");
    }
    for text in [
        "0.1.2.3",
        "10.1.1.1",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.1.1",
        "172.16.0.1",
        "192.0.0.8",
        "192.0.2.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "2001:db8::1",
        "2001:2::1",
        "3fff:0fff::1",
        "::ffff:10.0.0.1",
    ] {
        assert!(!is_public(text.parse().unwrap()), "{text}");
    }
}

#[test]
fn a_choice_has_a_name() {
    for choice in [ListChoice::First, ListChoice::Last, ListChoice::Public] {
        assert_eq!(choice.name().parse(), Ok(choice));
    }
    assert_eq!("any".parse::<ListChoice>(), Err("first, last or public"));
}

proptest! {
    #[test]
    fn every_written_address_is_read_as_the_slow_twin_reads_it(
        bits in any::<u128>(),
        form in 0_usize..4,
        parts in proptest::collection::vec(
            prop_oneof![
                Just("@"), Just(" "), Just("["), Just("]"), Just(":"), Just("80"), Just("%"),
                Just("eth0"), Just("65536"), Just("\t"), Just(","), Just("."),
            ],
            0..7,
        ),
    ) {
        let address = match form {
            0 => Ipv4Addr::from_bits(bits as u32).to_string(),
            1 => Ipv6Addr::from_bits(bits).to_string(),
            2 => Ipv4Addr::from_bits(bits as u32).to_ipv6_mapped().to_string(),
            _ => Ipv6Addr::from_bits(bits >> 96).to_string(),
        };
        let text = parts.concat().replace('@', &address);
        prop_assert_eq!(read(text.as_bytes()), naive(&text), "{:?}", text);
        // A list of one element is that element, unless its comma makes it two.
        if !text.contains(',') {
            prop_assert_eq!(read_list(text.as_bytes(), ListChoice::Last), naive(&text));
        }
    }

    #[test]
    fn bytes_of_every_kind_give_an_address_or_nothing(text in proptest::collection::vec(any::<u8>(), 0..40)) {
        let found = read(&text);
        if let Ok(text) = std::str::from_utf8(&text) {
            prop_assert_eq!(found, naive(text));
        }
        let _ = read_list(&text, ListChoice::Public);
    }
}
