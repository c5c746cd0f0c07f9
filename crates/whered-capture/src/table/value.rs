//! Values of columns as texts: numbers, protocols, flags, classes, times.
//!
//! Not for: empty values, which columns know. Every function gives `None` for a text that is no
//! such value; the one who asks knows what is allowed.

use crate::ip::protocol;

/// A number in decimal, or in hexadecimal behind `0x`.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if is_plain(digits) => u64::from_str_radix(digits, 16).ok(),
        None if is_plain(text) => text.parse().ok(),
        _ => None,
    }
}

/// A protocol as a text has it: the ICMP of a family is known when the addresses are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    Number(u8),
    /// `icmp`, which is ICMPv6 between IPv6 addresses, as Zeek writes it.
    Icmp,
}

/// A protocol's number or name.
pub(crate) fn protocol(text: &[u8]) -> Option<Protocol> {
    const NAMES: &[(&str, u8)] = &[
        ("tcp", protocol::TCP),
        ("udp", protocol::UDP),
        ("icmpv6", protocol::ICMPV6),
        ("icmp6", protocol::ICMPV6),
        ("ipv6-icmp", protocol::ICMPV6),
        ("sctp", protocol::SCTP),
        ("dccp", protocol::DCCP),
        ("udplite", protocol::UDP_LITE),
        ("udp-lite", protocol::UDP_LITE),
        ("igmp", 2),
        ("ipip", 4),
        ("ipv6", 41),
        ("gre", 47),
        ("esp", 50),
        ("ah", 51),
        ("ospf", 89),
        ("pim", 103),
        ("vrrp", 112),
    ];
    if text.eq_ignore_ascii_case(b"icmp") {
        return Some(Protocol::Icmp);
    }
    let named = NAMES.iter().find(|(name, _)| text.eq_ignore_ascii_case(name.as_bytes()));
    let number = || u8::try_from(number(text)?).ok();
    named.map(|(_, number)| *number).or_else(number).map(Protocol::Number)
}

/// TCP flags: a number, or names between `|`, `,`, `+` or blanks.
pub(crate) fn tcp_flags(text: &[u8]) -> Option<u8> {
    const NAMES: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
    if let Some(number) = number(text) {
        return u8::try_from(number).ok();
    }
    let mut flags = 0;
    for word in text.split(|byte| b"|,+ ".contains(byte)) {
        let bit = NAMES.iter().position(|name| word.eq_ignore_ascii_case(name.as_bytes()))?;
        flags |= 1 << bit;
    }
    Some(flags)
}

/// A DSCP class: a number, or `csN`, `afXY`, `ef`.
pub(crate) fn dscp(text: &[u8]) -> Option<u8> {
    let lower = text.to_ascii_lowercase();
    match lower.as_slice() {
        b"ef" => Some(46),
        [b'c', b's', class @ b'0'..=b'7'] => Some((class - b'0') * 8),
        [b'a', b'f', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => {
            Some((class - b'0') * 8 + (drop - b'0') * 2)
        }
        _ => number(text).filter(|&number| number < 64).and_then(|number| number.try_into().ok()),
    }
}

/// A time in nanoseconds since 1970: seconds with a fraction, or `YYYY-MM-DDTHH:MM:SS[.fraction]`
/// in UTC, with or without a `Z`.
pub(crate) fn time(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    match text.split_once(['T', ' ']) {
        Some((date, clock)) => calendar_time(date, clock.strip_suffix('Z').unwrap_or(clock)),
        None => {
            let (text, sign) = text.strip_prefix('-').map_or((text, 1), |text| (text, -1));
            Some(seconds(text)? * sign)
        }
    }
}

/// `SECONDS[.FRACTION]`; digits beyond the ninth are cut off.
fn seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| -> Option<i64> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { text.parse().ok() } else { None }
    };
    let kept = fraction.get(..9).unwrap_or(fraction);
    // What is cut off must be digits too.
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let scale = 10i64.pow(u32::try_from(9 - kept.len()).ok()?);
    digits(whole)?.checked_mul(1_000_000_000)?.checked_add(digits(kept)? * scale)
}

fn calendar_time(date: &str, clock: &str) -> Option<i64> {
    let mut date = date.split('-').map(|part| part.parse::<u16>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (hours, rest) = clock.split_once(':')?;
    let (minutes, in_minute) = rest.split_once(':')?;
    let (hours, minutes) = (hours.parse::<u8>().ok()?, minutes.parse::<u8>().ok()?);
    let in_minute = seconds(in_minute)?;
    let is_date = date.next().is_none() && (1..=12).contains(&month) && (1..=31).contains(&day);
    let is_clock = hours < 24 && minutes < 60 && (0..61_000_000_000).contains(&in_minute);
    if !is_date || !is_clock || !(1970..=2261).contains(&year) {
        return None;
    }
    // Days by counting years from March, so that the leap day is a year's last.
    let (year, month) = (i64::from(year), i64::from(month));
    let march_year = if month > 2 { year } else { year - 1 };
    let march_month = (month + 9) % 12;
    let leap_days = march_year / 4 - march_year / 100 + march_year / 400;
    let day_of_year = (153 * march_month + 2) / 5 + i64::from(day) - 1;
    const DAYS_BEFORE_1970: i64 = 719_468;
    let days = march_year * 365 + leap_days + day_of_year - DAYS_BEFORE_1970;
    let minutes = (days * 24 + i64::from(hours)) * 60 + i64::from(minutes);
    minutes.checked_mul(60_000_000_000)?.checked_add(in_minute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_nanoseconds_since_1970() {
        let cases: &[(&str, Option<i64>)] = &[
            ("0", Some(0)),
            ("1258531221.486539", Some(1_258_531_221_486_539_000)),
            ("1258531221.4865391234", Some(1_258_531_221_486_539_123)),
            ("-1.5", Some(-1_500_000_000)),
            ("2009-11-18T08:00:21.486539Z", Some(1_258_531_221_486_539_000)),
            ("1970-01-01 00:00:00", Some(0)),
            ("2000-02-29T00:00:00Z", Some(951_782_400_000_000_000)),
            ("2024-12-31T23:59:60Z", Some(1_735_689_600_000_000_000)),
            ("99999999999999", None),
            ("1.", None),
            (".5", None),
            ("1.x", None),
            ("1.123456789x", None),
            ("--1", None),
            ("+1", None),
            ("2009-13-01T00:00:00Z", None),
            ("2009-11-18T24:00:00Z", None),
            ("2009-11-18", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(time(text.as_bytes()), *expected, "{text}");
        }
    }

    #[test]
    fn names_and_numbers_of_values() {
        assert_eq!(protocol(b"TCP"), Some(Protocol::Number(6)));
        assert_eq!(protocol(b"0x84"), Some(Protocol::Number(132)));
        assert_eq!(protocol(b"icmp"), Some(Protocol::Icmp));
        assert_eq!((protocol(b"256"), protocol(b""), protocol(b"-1")), (None, None, None));
        assert_eq!(tcp_flags(b"SYN|ack"), Some(0x12));
        assert_eq!(tcp_flags(b"0x12"), Some(0x12));
        assert_eq!((tcp_flags(b"SYN||ACK"), tcp_flags(b"256")), (None, None));
        assert_eq!((dscp(b"EF"), dscp(b"cs6"), dscp(b"af41")), (Some(46), Some(48), Some(34)));
        assert_eq!((dscp(b"63"), dscp(b"64"), dscp(b"af44")), (Some(63), None, None));
        assert_eq!((number(b"+1"), number(b"0x"), number(b"0x+1")), (None, None, None));
    }
}
