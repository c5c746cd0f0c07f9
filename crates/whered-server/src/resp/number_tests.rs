//! Numbers are read and printed as Redis 7.0.15 does.

use super::*;

#[test]
fn integers_are_read_strictly() {
    let good: [(&[u8], i64); 6] = [
        (b"0", 0),
        (b"-1", -1),
        (b"42", 42),
        (b"9223372036854775807", i64::MAX),
        (b"-9223372036854775808", i64::MIN),
        (b"1000000", 1_000_000),
    ];
    for (text, value) in good {
        assert_eq!(integer(text), Some(value), "{}", text.escape_ascii());
    }
    let bad: [&[u8]; 12] = [
        b"",
        b"-",
        b"-0",
        b"+1",
        b"01",
        b" 1",
        b"1 ",
        b"1.0",
        b"9223372036854775808",
        b"-9223372036854775809",
        b"99999999999999999999",
        b"1\0",
    ];
    for text in bad {
        assert_eq!(integer(text), None, "{}", text.escape_ascii());
    }
}

#[test]
fn floats_are_what_the_c_library_takes() {
    let good: [(&[u8], f64); 14] = [
        (b"1", 1.0),
        (b"-1.5", -1.5),
        (b"+.5e1", 5.0),
        (b"5.", 5.0),
        (b"1e5", 100_000.0),
        (b"inf", f64::INFINITY),
        (b"-Infinity", f64::NEG_INFINITY),
        (b"0x1p3", 8.0),
        (b"0x1.8", 1.5),
        (b"-0X.8p-1", -0.25),
        (b"0xffffffffffffffffff", 4_722_366_482_869_645_213_695.0),
        (b"1e-310", 1e-310),
        (b"0x1p-1074", 5e-324),
        (b"0e999", 0.0),
    ];
    for (text, value) in good {
        assert_eq!(float(text), Some(value), "{}", text.escape_ascii());
    }
    let bad: [&[u8]; 16] = [
        b"",
        b" 1",
        b"1 ",
        b"nan",
        b"-nan",
        b"1e400",
        b"-1e400",
        b"1e-400",
        b"0x",
        b"1e",
        b".",
        b"e5",
        b"1,5",
        b"1\0",
        b"0x1p99999",
        b"0x1p-1080",
    ];
    for text in bad {
        assert_eq!(float(text), None, "{}", text.escape_ascii());
    }
}

#[test]
fn plain_decimals_are_the_nearest_floats() {
    let mut state = 1u64;
    let mut random = |limit: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    for _ in 0..200_000 {
        let sign = ["", "-", "+"][random(3) as usize];
        let mut digits = |most: u64| -> String {
            (0..random(most)).map(|_| char::from(b'0' + random(10) as u8)).collect()
        };
        let (whole, fraction) = (digits(20), digits(26));
        for text in [format!("{sign}{whole}.{fraction}"), format!("{sign}{whole}{fraction}")] {
            let expected = scan_float(text.as_bytes()).map(|scanned| scanned.value.to_bits());
            assert_eq!(float(text.as_bytes()).map(f64::to_bits), expected, "{text}");
        }
    }
    // Just beyond what a float holds exactly, and a sign that is kept.
    for text in ["9007199254740993", "-9007199254740993.0", "0.9007199254740993", "-0.0"] {
        let expected = text.parse::<f64>().unwrap().to_bits();
        assert_eq!(float(text.as_bytes()).map(f64::to_bits), Some(expected), "{text}");
    }
    for text in [".", "-", "+", "+-1", "1.2.3", "1-", "--1"] {
        assert_eq!(float(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn a_hexadecimal_half_is_rounded_to_even() {
    // 2^53 + 1 lies between two numbers.
    assert_eq!(float(b"0x20000000000001"), Some(9_007_199_254_740_992.0));
    assert_eq!(float(b"0x20000000000003"), Some(9_007_199_254_740_996.0));
    // Half of the smallest number goes to zero, a little more goes to the smallest.
    assert_eq!(float(b"0x1p-1075"), None);
    assert_eq!(float(b"0x1.8p-1075"), Some(5e-324));
}

#[test]
fn limits_of_ranges_are_read_loosely() {
    let good: [(&[u8], f64); 7] = [
        (b"", 0.0),
        (b" 1", 1.0),
        (b"1e400", f64::INFINITY),
        (b"1e-400", 0.0),
        (b"+inf", f64::INFINITY),
        (b"1\0x", 1.0),
        (b"\0", 0.0),
    ];
    for (text, value) in good {
        assert_eq!(score_limit(text), Some(value), "{}", text.escape_ascii());
    }
    for text in [&b"nan"[..], b"1x", b" ", b"x", b"1 "] {
        assert_eq!(score_limit(text), None, "{}", text.escape_ascii());
    }
}

#[test]
fn cursors_are_read_as_strtoul_does() {
    assert_eq!(cursor(b""), Some(0));
    assert_eq!(cursor(b"-1"), Some(u64::MAX));
    assert_eq!(cursor(b"+17"), Some(17));
    assert_eq!(cursor(b"18446744073709551615"), Some(u64::MAX));
    assert_eq!(cursor(b"18446744073709551616"), None);
    assert_eq!(cursor(b"x"), None);
    assert_eq!(cursor(b"-"), None);
}
