//! Milliseconds since 1970 as a date and a time of day, UTC.
//!
//! Not for: time zones, leap seconds, reading. Cost: some divisions, no allocation.
//!
//! The calendar is counted in eras of 400 years (146,097 days) from 1 March of the year 0, so that
//! a leap day is the last of its year.

/// Writes `YYYY-MM-DD HH:MM:SS.mmm`; years outside 0 to 9999 with more digits or a sign.
pub(crate) fn write(millis: i64, into: &mut Vec<u8>) {
    let (days, millis_of_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    let days_from_march = days + 719_468;
    let (era, day_of_era) =
        (days_from_march.div_euclid(146_097), days_from_march.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    if (0..=9_999).contains(&year) {
        digits(year, 4, into);
    } else {
        into.extend_from_slice(year.to_string().as_bytes());
    }
    let seconds = millis_of_day / 1_000;
    for (mark, number, count) in [
        (b'-', month, 2),
        (b'-', day, 2),
        (b' ', seconds / 3_600, 2),
        (b':', seconds / 60 % 60, 2),
        (b':', seconds % 60, 2),
        (b'.', millis_of_day % 1_000, 3),
    ] {
        into.push(mark);
        digits(number, count, into);
    }
}

/// The last `count` digits of a number that is not negative.
fn digits(number: i64, count: u32, into: &mut Vec<u8>) {
    for place in (0..count).rev() {
        let digit = number / 10_i64.pow(place) % 10;
        into.push(b'0' + u8::try_from(digit).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_written_as_everybody_writes_them() {
        for (millis, text) in [
            (0, "1970-01-01 00:00:00.000"),
            (-1, "1969-12-31 23:59:59.999"),
            (951_782_400_000, "2000-02-29 00:00:00.000"),
            (1_709_251_199_001, "2024-02-29 23:59:59.001"),
            (4_107_542_400_000, "2100-03-01 00:00:00.000"),
            (-30_610_224_000_000, "1000-01-01 00:00:00.000"),
            (253_402_300_799_999, "9999-12-31 23:59:59.999"),
            (253_402_300_800_000, "10000-01-01 00:00:00.000"),
        ] {
            let mut written = Vec::new();
            write(millis, &mut written);
            assert_eq!(String::from_utf8_lossy(&written), text, "{millis}");
        }
    }
}
