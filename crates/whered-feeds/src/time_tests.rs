//! Times of other programs, and the moments in which the clocks of a zone are changed.

use super::*;

fn reader(source: &TimeSource) -> TimeReader {
    TimeReader::compile("time", source).expect("it is right").unwrap_or_default()
}

fn by(format: Option<&str>, zone: Option<&str>) -> TimeReader {
    let (format, zone) = (format.map(str::to_owned), zone.map(str::to_owned));
    reader(&TimeSource { format, zone, ..TimeSource::default() })
}

#[track_caller]
fn reads(reader: &TimeReader, text: &str, millis: i64) {
    assert_eq!(reader.read(text.as_bytes()), Ok(millis), "{text}");
}

#[test]
fn times_with_an_offset_need_no_zone() {
    let plain = TimeReader::default();
    // The right-hand sides are from `date -d ... +%s`.
    for (text, seconds) in [
        ("2024-03-10T08:00:00+0000", 1_710_057_600),
        ("2024-03-10T08:00:00+01", 1_710_054_000),
        ("2024-03-10T08:00:00 +0100", 1_710_054_000),
        ("2024-03-10T08:00:00.000+00:00", 1_710_057_600),
        ("2024-03-10T08:00Z", 1_710_057_600),
        ("2024-03-10 08:00:00 UTC", 1_710_057_600),
        ("2024/03/10 08:00:00,5 GMT", 1_710_057_600),
        ("20240310T080000Z", 1_710_057_600),
        ("20240310T0800-0330", 1_710_070_200),
        ("Sun, 10 Mar 2024 08:00:00 +0100", 1_710_054_000),
        ("Sun, 10 Mar 2024 08:00:00 GMT", 1_710_057_600),
        ("10 Mar 2024 08:00 +0000", 1_710_057_600),
        ("2016-12-31T23:59:60Z", 1_483_228_800),
    ] {
        assert_eq!(plain.read(text.as_bytes()).map(|millis| millis / 1_000), Ok(seconds), "{text}");
    }
}

#[test]
fn local_times_and_dates_need_a_zone() {
    for text in ["2024-03-10T08:00:00", "2024-03-10 08:00", "2024-03-10", "20240310T080000"] {
        assert_eq!(read_plain(text.as_bytes()), Err(TimeFault::NoZone), "{text}");
    }
    let berlin = by(None, Some("Europe/Berlin"));
    reads(&berlin, "2024-03-10T08:00:00", 1_710_054_000_000);
    reads(&berlin, "2024-03-10 08:00", 1_710_054_000_000);
    reads(&berlin, "2024-03-10", 1_710_025_200_000);
    reads(&berlin, "2024-07-10 08:00", 1_720_591_200_000);
    // An offset in the text counts.
    reads(&berlin, "2024-07-10 08:00Z", 1_720_598_400_000);
    reads(&berlin, "1700000000", 1_700_000_000_000);
    reads(&by(None, Some("+02:30")), "2024-03-10 08:00", 1_710_048_600_000);
}

#[test]
fn local_times_that_are_skipped_or_shown_twice_are_refused_or_chosen() {
    let berlin = by(None, Some("Europe/Berlin"));
    assert_eq!(berlin.read(b"2024-03-31 02:30"), Err(TimeFault::Skipped));
    assert_eq!(berlin.read(b"2024-10-27 02:30"), Err(TimeFault::Twice));
    reads(&berlin, "2024-10-27 01:59:59", 1_729_987_199_000);
    reads(&berlin, "2024-10-27 03:00", 1_729_994_400_000);
    for (twice_shown, millis) in
        [(TwiceShown::Earlier, 1_729_989_000_000), (TwiceShown::Later, 1_729_992_600_000)]
    {
        let zone = Some("Europe/Berlin".to_owned());
        let chosen = reader(&TimeSource { zone, twice_shown, ..TimeSource::default() });
        reads(&chosen, "2024-10-27 02:30", millis);
        assert_eq!(chosen.read(b"2024-03-31 02:30"), Err(TimeFault::Skipped));
    }
    // A country that has moved over the date line skipped a whole day.
    let apia = by(None, Some("Pacific/Apia"));
    assert_eq!(apia.read(b"2011-12-30 12:00"), Err(TimeFault::Skipped));
}

#[test]
fn a_format_is_followed_to_the_letter() {
    let german = by(Some("%d.%m.%Y %H:%M:%S"), Some("Europe/Berlin"));
    reads(&german, "10.03.2024 08:00:00", 1_710_054_000_000);
    reads(&german, " 10.03.2024 08:00:00\n", 1_710_054_000_000);
    for text in ["2024-03-10 08:00:00", "10.03.2024", "31.02.2024 08:00:00", "1700000000", ""] {
        assert_eq!(german.read(text.as_bytes()), Err(TimeFault::NoFormat), "{text:?}");
    }
    reads(&by(Some("%Y%m%d"), Some("UTC")), "20240310", 1_710_028_800_000);
    reads(&by(Some("%m/%d/%Y %I:%M %p"), Some("UTC")), "03/10/2024 08:00 PM", 1_710_100_800_000);
    reads(
        &by(Some("%Y-%m-%d %H:%M:%S%.f"), Some("UTC")),
        "2024-03-10 08:00:00.25",
        1_710_057_600_250,
    );
    reads(&by(Some("%d/%b/%Y:%H:%M:%S %z"), None), "10/Mar/2024:08:00:00 +0100", 1_710_054_000_000);
    reads(&by(Some("t%s"), None), "t1710054000", 1_710_054_000_000);
    assert_eq!(by(Some("%d.%m.%Y"), Some("UTC")).read(b"31.12.1969"), Err(TimeFault::OutOfRange));
}

#[test]
fn numbers_are_told_apart_by_their_size_or_by_a_unit() {
    let plain = TimeReader::default();
    for text in [
        "1700000000",
        "1700000000.0",
        "1.7e9",
        "1700000000000",
        "1.7E12",
        "1700000000000000",
        "1700000000000000000",
        "1700000000000.5",
        "+1700000000",
    ] {
        reads(&plain, text, 1_700_000_000_000);
    }
    reads(&plain, "1700000000.1239", 1_700_000_000_123);
    let unit = |unit| reader(&TimeSource { unit: Some(unit), ..TimeSource::default() });
    reads(&unit(EpochScale::Millis), "86400000", 86_400_000);
    reads(&unit(EpochScale::Micros), "86400000", 86_400);
    reads(&unit(EpochScale::Nanos), "86400000", 86);
    reads(&unit(EpochScale::Seconds), "5.25", 5_250);
    assert_eq!(unit(EpochScale::Seconds).read(b"1700000000000"), Err(TimeFault::OutOfRange));
    assert_eq!(unit(EpochScale::Seconds).read(b"9223372036854775807"), Err(TimeFault::OutOfRange));
    for text in ["1e400", "e5", "--5", "1.2.3", "5-5", ".", "-.e"] {
        assert_eq!(plain.read(text.as_bytes()), Err(TimeFault::NoTime), "{text}");
    }
    assert_eq!(plain.read(b"1e300"), Err(TimeFault::OutOfRange));
}

#[test]
fn a_configuration_that_can_read_nothing_is_refused() {
    let refused =
        |source: TimeSource| TimeReader::compile("time", &source).unwrap_err().to_string();
    let format = |format: &str| Some(format.to_owned());
    for (source, message) in [
        (TimeSource { zone: format("Europe/Berln"), ..TimeSource::default() }, "the zone"),
        (TimeSource { format: format("%d.%m.%Y"), ..TimeSource::default() }, "has no offset"),
        (
            TimeSource { format: format("%H:%M"), zone: format("UTC"), ..TimeSource::default() },
            "%H:%M",
        ),
        (
            TimeSource { format: format("%Y %!"), zone: format("UTC"), ..TimeSource::default() },
            "%!",
        ),
        (
            TimeSource {
                format: format("%s"),
                unit: Some(EpochScale::Nanos),
                ..TimeSource::default()
            },
            "format and unit",
        ),
        (TimeSource { twice_shown: TwiceShown::Later, ..TimeSource::default() }, "without a zone"),
    ] {
        let found = refused(source);
        assert!(found.contains(message) && found.contains("; allowed: "), "{found}");
    }
}

#[test]
fn every_day_until_2200_is_one_after_the_day_before() {
    let mut date = jiff::civil::date(1970, 1, 1);
    let mut expected = 0;
    while date.year() < 2200 {
        assert_eq!(read_plain(format!("{date}T00:00:00Z").as_bytes()), Ok(expected), "{date}");
        expected += 86_400_000;
        date = date.tomorrow().expect("it is far from the end");
    }
    assert_eq!(expected, END_MILLIS);
}
