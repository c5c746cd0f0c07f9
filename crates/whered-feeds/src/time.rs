//! Texts into times: numbers since 1970, ISO 8601, RFC 2822, and formats of the configuration.
//!
//! For: every time that is no plain whole number, which `value.rs` reads. Not for: clocks, or texts
//! that are absent.
//!
//! ```text
//! 1.7e9  1700000000.5  2024-03-10T08:00+01  Sun, 10 Mar 2024 08:00:00 +0100     have an offset
//! 2024-03-10 08:00     10.03.2024 by "%d.%m.%Y"                                 need a zone
//! ```
//!
//! Invariants: a local time without a zone is refused; so is one that the zone's clocks skip, and
//! one that they show twice, unless the configuration says which one is meant. Fractions beyond
//! milliseconds are cut off.
//! Cost: some hundred nanoseconds with a format, less without.

use jiff::civil::DateTime;
use jiff::fmt::rfc2822;
use jiff::fmt::strtime::{self, BrokenDownTime};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};

use crate::error::MappingError;
use crate::value::{integer, trim};

/// The first moment that is too late: 2200-01-01T00:00:00Z, in milliseconds since 1970.
pub(crate) const END_MILLIS: i64 = 7_258_118_400_000;
/// Numbers below this are seconds (the year 5138), others at least milliseconds (1973).
pub(crate) const MILLIS_FROM: i64 = 100_000_000_000;
/// Numbers from here on are microseconds (1973).
pub(crate) const MICROS_FROM: i64 = 100_000_000_000_000;
/// Numbers from here on are nanoseconds (1973).
const NANOS_FROM: i64 = 100_000_000_000_000_000;

/// The unit of numbers since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EpochScale {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

impl EpochScale {
    /// Every unit with the name that configurations use.
    pub const ALL: [(&'static str, EpochScale); 4] = [
        ("s", EpochScale::Seconds),
        ("ms", EpochScale::Millis),
        ("us", EpochScale::Micros),
        ("ns", EpochScale::Nanos),
    ];

    /// The unit of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<EpochScale> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, unit)| *unit)
    }

    fn of_magnitude(whole: u64) -> EpochScale {
        match whole {
            0..MILLIS_FROM_U64 => EpochScale::Seconds,
            MILLIS_FROM_U64..MICROS_FROM_U64 => EpochScale::Millis,
            MICROS_FROM_U64..NANOS_FROM_U64 => EpochScale::Micros,
            _ => EpochScale::Nanos,
        }
    }
}

const MILLIS_FROM_U64: u64 = MILLIS_FROM as u64;
const MICROS_FROM_U64: u64 = MICROS_FROM as u64;
const NANOS_FROM_U64: u64 = NANOS_FROM as u64;

/// Which time a local time means that the clocks of its zone show twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TwiceShown {
    /// Neither: the record is refused.
    #[default]
    Refused,
    /// The first one.
    Earlier,
    /// The second one.
    Later,
}

impl TwiceShown {
    /// Every choice with the name that configurations use.
    pub const ALL: [(&'static str, TwiceShown); 3] = [
        ("refused", TwiceShown::Refused),
        ("earlier", TwiceShown::Earlier),
        ("later", TwiceShown::Later),
    ];

    /// The choice of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<TwiceShown> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, choice)| *choice)
    }
}

/// How the text of a time is read, as a configuration says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeSource {
    /// A format as `strptime` has it, such as `%d.%m.%Y %H:%M`.
    pub format: Option<String>,
    /// The zone of local times: a name of the IANA database, or an offset such as `+02:00`.
    pub zone: Option<String>,
    /// The unit of numbers; without one their size tells it.
    pub unit: Option<EpochScale>,
    /// Local times that are shown twice.
    pub twice_shown: TwiceShown,
}

/// Why a text is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeFault {
    /// In no form that is read.
    NoTime,
    /// Not in the format of the configuration.
    NoFormat,
    /// Before 1970 or after 2199.
    OutOfRange,
    /// A local time, and the mapping has no zone.
    NoZone,
    /// The clocks of the zone skip it.
    Skipped,
    /// The clocks of the zone show it twice.
    Twice,
}

/// A compiled [`TimeSource`].
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeReader {
    format: Option<String>,
    zone: Option<TimeZone>,
    unit: Option<EpochScale>,
    twice_shown: TwiceShown,
}

/// Reads times as they are without any configuration.
static PLAIN: TimeReader =
    TimeReader { format: None, zone: None, unit: None, twice_shown: TwiceShown::Refused };

/// Milliseconds since 1970 of a text in any form that needs no configuration.
#[cold]
pub(crate) fn read_plain(text: &[u8]) -> Result<i64, TimeFault> {
    PLAIN.read(text)
}

impl TimeReader {
    /// `None` where nothing differs from a reader without configuration.
    pub(crate) fn compile(
        key: &str,
        source: &TimeSource,
    ) -> Result<Option<TimeReader>, MappingError> {
        if *source == TimeSource::default() {
            return Ok(None);
        }
        let wrong = |found: String, allowed: &str| Err(MappingError::new(key, found, allowed));
        let zone = match &source.zone {
            None => None,
            Some(name) => match zone_of(name) {
                Some(zone) => Some(zone),
                None => {
                    let allowed = "a name of the IANA database such as Europe/Berlin, UTC, or an \
                                   offset such as +02:00";
                    return wrong(format!("the zone {name:?}"), allowed);
                }
            },
        };
        if zone.is_none() && source.twice_shown != TwiceShown::Refused {
            return wrong("twice_shown without a zone".to_owned(), "zone, or no twice_shown");
        }
        if let Some(format) = &source.format {
            if source.unit.is_some() {
                return wrong("format and unit".to_owned(), "one of the two");
            }
            let has_offset =
                check_format(format).map_err(|found| MappingError::new(key, found, FORMAT_HELP))?;
            if !has_offset && zone.is_none() {
                let found = format!("the format {format:?}, which has no offset");
                return wrong(found, "a zone next to it, or %z or %s in it");
            }
        }
        let (format, unit) = (source.format.clone(), source.unit);
        Ok(Some(TimeReader { format, zone, unit, twice_shown: source.twice_shown }))
    }

    /// Milliseconds since 1970.
    pub(crate) fn read(&self, text: &[u8]) -> Result<i64, TimeFault> {
        let text = trim(text);
        let millis = match &self.format {
            Some(format) => self.by_format(format, text)?,
            None => match epoch_millis(text, self.unit)? {
                Some(millis) => millis,
                None => self.by_standard(text)?,
            },
        };
        if (0..END_MILLIS).contains(&millis) { Ok(millis) } else { Err(TimeFault::OutOfRange) }
    }

    fn by_format(&self, format: &str, text: &[u8]) -> Result<i64, TimeFault> {
        let time = BrokenDownTime::parse(format, text).map_err(|_| TimeFault::NoFormat)?;
        if time.timestamp().is_some() || time.offset().is_some() {
            let timestamp = time.to_timestamp().map_err(|_| TimeFault::NoFormat)?;
            return Ok(timestamp.as_millisecond());
        }
        self.local_millis(time.to_datetime().map_err(|_| TimeFault::NoFormat)?)
    }

    fn by_standard(&self, text: &[u8]) -> Result<i64, TimeFault> {
        if let Some(iso) = IsoTime::parse(text) {
            let Some(offset_minutes) = iso.offset_minutes else {
                return self.local_millis(iso.local().ok_or(TimeFault::NoTime)?);
            };
            let local = iso.local().ok_or(TimeFault::NoTime)?;
            let utc = Offset::UTC.to_timestamp(local).map_err(|_| TimeFault::OutOfRange)?;
            // A leap second is counted as the second behind it.
            let seconds = i64::from(iso.is_leap_second) - offset_minutes * 60;
            return Ok(utc.as_millisecond() + seconds * 1000);
        }
        let parser = rfc2822::DateTimeParser::new().relaxed_weekday(true);
        let timestamp = parser.parse_timestamp(text).map_err(|_| TimeFault::NoTime)?;
        Ok(timestamp.as_millisecond())
    }

    fn local_millis(&self, local: DateTime) -> Result<i64, TimeFault> {
        let zone = self.zone.as_ref().ok_or(TimeFault::NoZone)?;
        let offset = match (zone.to_ambiguous_timestamp(local).offset(), self.twice_shown) {
            (AmbiguousOffset::Unambiguous { offset }, _) => offset,
            (AmbiguousOffset::Gap { .. }, _) => return Err(TimeFault::Skipped),
            (AmbiguousOffset::Fold { .. }, TwiceShown::Refused) => return Err(TimeFault::Twice),
            (AmbiguousOffset::Fold { before, .. }, TwiceShown::Earlier) => before,
            (AmbiguousOffset::Fold { after, .. }, TwiceShown::Later) => after,
        };
        let timestamp = offset.to_timestamp(local).map_err(|_| TimeFault::OutOfRange)?;
        Ok(timestamp.as_millisecond())
    }
}

const FORMAT_HELP: &str = "a date and perhaps a time by %Y %m %d %H %M %S %f %b %p %j %y %z %s and \
                           the like, such as %d.%m.%Y %H:%M:%S";

fn zone_of(name: &str) -> Option<TimeZone> {
    if let Some(minutes) = offset_minutes(name.as_bytes()) {
        let seconds = i32::try_from(minutes * 60).ok()?;
        return Offset::from_seconds(seconds).ok().map(TimeZone::fixed);
    }
    TimeZoneDatabase::bundled().get(name).ok()
}

/// Whether a format has an offset; its fault, if no date can be read by it.
fn check_format(format: &str) -> Result<bool, String> {
    // The 14th of November 2023, 22:13:20 UTC: no two of its numbers are the same.
    let sample = jiff::Timestamp::from_second(1_700_000_000)
        .map_err(|error| error.to_string())?
        .to_zoned(TimeZone::UTC);
    let wrong = |error: jiff::Error| format!("the format {format:?} ({error})");
    let text = strtime::format(format, &sample).map_err(wrong)?;
    let time = BrokenDownTime::parse(format, &text).map_err(wrong)?;
    let has_offset = time.timestamp().is_some() || time.offset().is_some();
    if time.timestamp().is_none() {
        time.to_datetime().map_err(wrong)?;
    }
    Ok(has_offset)
}

/// A number since 1970; `None` if the text is no number.
fn epoch_millis(text: &[u8], unit: Option<EpochScale>) -> Result<Option<i64>, TimeFault> {
    let is_number = text.iter().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte));
    if !is_number || !text.iter().any(u8::is_ascii_digit) {
        return Ok(None);
    }
    if let Some(whole) = integer(text) {
        let unit = unit.unwrap_or_else(|| EpochScale::of_magnitude(whole.unsigned_abs()));
        return match unit {
            EpochScale::Seconds => whole.checked_mul(1_000).ok_or(TimeFault::OutOfRange),
            EpochScale::Millis => Ok(whole),
            EpochScale::Micros => Ok(whole.div_euclid(1_000)),
            EpochScale::Nanos => Ok(whole.div_euclid(1_000_000)),
        }
        .map(Some);
    }
    if text.iter().all(u8::is_ascii_digit) {
        return Err(TimeFault::OutOfRange);
    }
    if let Some(point) = text.iter().position(|byte| *byte == b'.')
        && text[..point].iter().all(u8::is_ascii_digit)
        && let Some(fraction) = thousandths(&text[point + 1..])
    {
        let whole = integer(&text[..point]).ok_or(TimeFault::NoTime)?;
        let unit = unit.unwrap_or_else(|| EpochScale::of_magnitude(whole.unsigned_abs()));
        return match unit {
            EpochScale::Seconds => {
                let millis = whole.checked_mul(1_000).and_then(|ms| ms.checked_add(fraction));
                millis.ok_or(TimeFault::OutOfRange)
            }
            // Nothing here is finer than a millisecond.
            EpochScale::Millis => Ok(whole),
            EpochScale::Micros => Ok(whole / 1_000),
            EpochScale::Nanos => Ok(whole / 1_000_000),
        }
        .map(Some);
    }
    // An exponent, or a dash that belongs to a date.
    if !text.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        return Ok(None);
    }
    let value: Option<f64> = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    let Some(value) = value.filter(|value: &f64| value.is_finite()) else { return Ok(None) };
    let unit = unit.unwrap_or_else(|| EpochScale::of_magnitude(value.abs() as u64));
    let millis = match unit {
        EpochScale::Seconds => value * 1e3,
        EpochScale::Millis => value,
        EpochScale::Micros => value / 1e3,
        EpochScale::Nanos => value / 1e6,
    };
    // What is beyond the numbers becomes the last one, which is out of range, too.
    Ok(Some(millis.floor() as i64))
}

/// The first three digits of a fraction; the rest is cut off. At least one digit.
fn thousandths(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |index: usize| digits.get(index).map_or(0, |byte| i64::from(byte - b'0'));
    Some(digit(0) * 100 + digit(1) * 10 + digit(2))
}

/// A date and a time of ISO 8601, with what people write instead of it.
struct IsoTime {
    year: i16,
    month: i8,
    day: i8,
    hour: i8,
    minute: i8,
    second: i8,
    is_leap_second: bool,
    millis: i32,
    offset_minutes: Option<i64>,
}

/// What is left of a text.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// A number of exactly `count` digits.
    fn digits(&mut self, count: usize) -> Option<i16> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        let all = digits.iter().all(u8::is_ascii_digit).then(|| integer(digits)).flatten()?;
        self.0 = rest;
        i16::try_from(all).ok()
    }

    fn two(&mut self) -> Option<i8> {
        self.digits(2).and_then(|number| i8::try_from(number).ok())
    }

    /// Whether one of these bytes comes next; it is taken then.
    fn takes(&mut self, bytes: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        bytes.contains(first).then(|| {
            self.0 = rest;
            *first
        })
    }
}

impl IsoTime {
    /// `2026-11-22T03:04:05.678Z`, with a blank for `T`, slashes in the date, a comma before the
    /// fraction, without seconds or without a time, in the basic form, with or without an offset.
    fn parse(text: &[u8]) -> Option<IsoTime> {
        let mut rest = Rest(text);
        let year = rest.digits(4)?;
        let dash = rest.takes(b"-/");
        let month = rest.two()?;
        if let Some(dash) = dash {
            rest.takes(&[dash])?;
        }
        let day = rest.two()?;
        let mut time = IsoTime {
            year,
            month,
            day,
            hour: 0,
            minute: 0,
            second: 0,
            is_leap_second: false,
            millis: 0,
            offset_minutes: None,
        };
        // Eight digits alone are a number since 1970.
        if rest.0.is_empty() {
            return dash.is_some().then_some(time);
        }
        rest.takes(b"Tt ")?;
        time.hour = rest.two()?;
        let colon = rest.takes(b":");
        time.minute = rest.two()?;
        let has_seconds = match colon {
            Some(_) => rest.takes(b":").is_some(),
            None => rest.0.first().is_some_and(u8::is_ascii_digit),
        };
        if has_seconds {
            time.second = rest.two()?;
            if time.second == 60 {
                (time.second, time.is_leap_second) = (59, true);
            }
            if rest.takes(b".,").is_some() {
                let length = rest.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
                time.millis = i32::try_from(thousandths(&rest.0[..length])?).ok()?;
                rest.0 = &rest.0[length..];
            }
        }
        let offset = rest.0.trim_ascii_start();
        if !offset.is_empty() {
            time.offset_minutes = Some(offset_minutes(offset)?);
        }
        Some(time)
    }

    fn local(&self) -> Option<DateTime> {
        let nanos = self.millis * 1_000_000;
        DateTime::new(self.year, self.month, self.day, self.hour, self.minute, self.second, nanos)
            .ok()
    }
}

/// `Z`, `UTC`, `GMT`, `+01`, `+0100` or `+01:00`.
fn offset_minutes(text: &[u8]) -> Option<i64> {
    if [&b"z"[..], b"utc", b"gmt"].iter().any(|name| text.eq_ignore_ascii_case(name)) {
        return Some(0);
    }
    let mut rest = Rest(text);
    let sign = rest.takes(b"+-")?;
    let hours = i64::from(rest.two()?);
    let mut minutes = 0;
    if !rest.0.is_empty() {
        rest.takes(b":");
        minutes = i64::from(rest.two()?);
    }
    if !rest.0.is_empty() || hours > 23 || minutes > 59 {
        return None;
    }
    let all = hours * 60 + minutes;
    Some(if sign == b'-' { -all } else { all })
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
