//! Scores as texts: what C's `%.17g` prints.
//!
//! For: the scores of sorted sets. Not for: coordinates and distances, which have a fixed number
//! of decimals (`reply`).
//!
//! Seventeen digits tell all doubles apart. They are cut of trailing zeros, and stand in plain
//! notation while the exponent is between -5 and 17.
//! Cost: whole numbers below 10^17, as cells are, are printed as integers; others are formatted
//! by the standard library first.

/// How many digits are printed at most.
const DIGITS: i32 = 17;

/// The text of a score.
pub(crate) fn print(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if value.abs() < 1e17 && value.trunc() == value && !(value == 0.0 && value.is_sign_negative()) {
        return (value as i64).to_string();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    // One digit, a point, sixteen digits, `e` and the exponent.
    let scientific = format!("{:.16e}", value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    if !(-4..DIGITS).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let point = joined(first, rest);
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{point}e{exponent_sign}{:02}", exponent.abs());
    }
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        return format!("{sign}{}", joined("0", &(zeros + &digits)));
    }
    let (whole, fraction) = digits.split_at(exponent as usize + 1);
    format!("{sign}{}", joined(whole, fraction))
}

/// Both sides of a point; trailing zeros are cut, and a point without a fraction.
fn joined(whole: &str, fraction: &str) -> String {
    match fraction.trim_end_matches('0') {
        "" => whole.to_owned(),
        fraction => format!("{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_the_c_library_prints_them() {
        // From `printf "%.17g"`.
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-17.0, "-17"),
            (0.1, "0.10000000000000001"),
            (0.5, "0.5"),
            (-2.5, "-2.5"),
            (1.0 / 3.0, "0.33333333333333331"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (1e16, "10000000000000000"),
            (99999999999999984.0, "99999999999999984"),
            (1e17, "1e+17"),
            (123456789012345680000.0, "1.2345678901234568e+20"),
            (1e300, "1.0000000000000001e+300"),
            (1.5e-300, "1.5000000000000001e-300"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (190.44242984775784, "190.44242984775784"),
            (12345678.9, "12345678.9"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, text) in cases {
            assert_eq!(print(value), text);
        }
    }
}
