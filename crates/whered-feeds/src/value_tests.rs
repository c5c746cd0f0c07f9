//! Numbers and times, beside the standard library and by hand.

use proptest::prelude::*;

use super::*;

fn by_library(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

fn bits(value: Option<f64>) -> Option<u64> {
    value.map(f64::to_bits)
}

#[test]
fn odd_numbers_are_read_as_the_standard_library_reads_them() {
    let texts = [
        "0",
        "-0",
        "0.0",
        "-0.0",
        "5.",
        ".5",
        "-.5",
        ".",
        "-",
        "",
        "+5",
        "1e5",
        "1E-5",
        "nan",
        "inf",
        "-inf",
        "infinity",
        "1e400",
        "9007199254740993",
        "9007199254740992.5",
        "0.1",
        "179.9999999",
        "12345678901234567890",
        "0.00000000000000000000001",
        "1.2.3",
        "1-2",
        "12a",
        "--1",
        "1_000",
        "0000000000000000000.1",
        "18446744073709551616",
        "9999999999999999999",
        "123.4560",
    ];
    for text in texts {
        assert_eq!(bits(number(text.as_bytes())), bits(by_library(text)), "{text:?}");
    }
    assert_eq!(number(b" 12.5\t"), Some(12.5));
    assert_eq!(number(b" 12.345678 "), Some(12.345678));
    assert_eq!(number(b" -12.345678"), Some(-12.345678));
}

#[test]
fn whole_numbers_have_sixty_four_bits() {
    assert_eq!(integer(b"9223372036854775807"), Some(i64::MAX));
    assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
    assert_eq!(integer(b"9223372036854775808"), None);
    assert_eq!(integer(b"007"), Some(7));
    assert_eq!(integer(b"+7"), Some(7));
    assert_eq!(integer(b" 7 "), Some(7));
    for text in ["", "-", "1.0", "1e3", "0x10", "7 8"] {
        assert_eq!(integer(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn times_are_told_apart_by_their_size() {
    assert_eq!(time_millis(b"1700000000"), Ok(1_700_000_000_000));
    assert_eq!(time_millis(b"1700000000123"), Ok(1_700_000_000_123));
    assert_eq!(time_millis(b" 1700000000\n"), Ok(1_700_000_000_000));
    assert_eq!(time_millis(b"1700000000.5"), Ok(1_700_000_000_500));
    assert_eq!(time_millis(b"0"), Ok(0));
    assert_eq!(time_millis(b"7258118399"), Ok(7_258_118_399_000));
}

#[test]
fn clock_nonsense_is_refused() {
    for text in [
        "-1",
        "7258118400",
        "7258118400000",
        "99999999999999999999999",
        "9223372036854775807",
        "-9223372036854775808",
        "1969-12-31T23:59:59Z",
        "2200-01-01T00:00:00Z",
    ] {
        assert_eq!(time_millis(text.as_bytes()), Err(TimeFault::OutOfRange), "{text}");
    }
    for text in [
        "",
        "yesterday",
        "1.",
        ".5",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-11-22T24:00:00Z",
        "2026-11-22T03:04:05+2:00",
        "2026-11-22T03:04:05.Z",
        "2026-11-22T03:04:05+24:00",
    ] {
        assert_eq!(time_millis(text.as_bytes()), Err(TimeFault::NoTime), "{text}");
    }
}

#[test]
fn dates_are_as_other_clocks_have_them() {
    // The right-hand sides are from `date -d ... +%s`.
    for (text, seconds) in [
        ("1970-01-01T00:00:00Z", 0),
        ("2000-02-29T12:00:00Z", 951_825_600),
        ("2026-11-22T03:04:05Z", 1_795_316_645),
        ("2026-11-22T03:04:05+02:30", 1_795_307_645),
        ("2026-11-22t03:04:05-01:00", 1_795_320_245),
        ("2100-03-01 00:00:00Z", 4_107_542_400),
        ("2199-12-31T23:59:59Z", 7_258_118_399),
    ] {
        assert_eq!(time_millis(text.as_bytes()), Ok(seconds * 1_000), "{text}");
    }
    assert_eq!(time_millis(b"1970-01-01T00:00:00.0789Z"), Ok(78));
}

proptest! {
    #[test]
    fn numbers_have_the_bits_of_the_standard_library(
        text in prop_oneof![
            "-?[0-9]{0,22}(\\.[0-9]{0,22})?",
            "-?[0-9]{1,3}\\.[0-9]{1,14}",
            "[-+0-9.eEinf]{0,12}",
        ],
    ) {
        prop_assert_eq!(bits(number(text.as_bytes())), bits(by_library(&text)));
    }

    #[test]
    fn whole_numbers_are_those_of_the_standard_library(text in "[-+]?[0-9]{0,21}[.e]?") {
        prop_assert_eq!(integer(text.as_bytes()), text.parse::<i64>().ok());
    }

    #[test]
    fn no_bytes_are_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let _ = (number(&bytes), integer(&bytes), time_millis(&bytes));
    }
}
