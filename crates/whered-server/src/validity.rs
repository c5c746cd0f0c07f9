//! The validity of a certificate: two times of its DER.
//!
//! For: remarks on certificates that have expired. Not for: whether anybody may trust it (`rustls`
//! says that). Any bytes have a validity or none; nothing is read behind their end.

/// When a certificate is valid, as `YYYYMMDDHHMMSS` of UTC: from, to. `None` when it is none.
pub(crate) fn validity(certificate: &[u8]) -> Option<(String, String)> {
    const SEQUENCE: u8 = 0x30;
    const VERSION: u8 = 0xa0;
    let of = |tag: u8, bytes| element(bytes).filter(|(found, ..)| *found == tag);
    let (_, signed, _) = of(SEQUENCE, certificate)?;
    let (_, body, _) = of(SEQUENCE, signed)?;
    let (first, _, behind) = element(body)?;
    // The version is absent from those of version 1; then come number, algorithm and issuer.
    let serial = if first == VERSION { behind } else { body };
    let (_, _, algorithm) = element(serial)?;
    let (_, _, issuer) = element(algorithm)?;
    let (_, _, validity) = element(issuer)?;
    let (_, times, _) = of(SEQUENCE, validity)?;
    let (from_tag, from, behind) = element(times)?;
    let (to_tag, to, _) = element(behind)?;
    Some((time(from_tag, from)?, time(to_tag, to)?))
}

/// Tag, content and rest of an element of DER.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // A certificate has no element of more than two bytes' length.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// A UTCTime or GeneralizedTime with fourteen digits (RFC 5280 section 4.1.2.5).
fn time(tag: u8, content: &[u8]) -> Option<String> {
    const UTC_TIME: u8 = 0x17;
    const GENERALIZED_TIME: u8 = 0x18;
    let digits = content.strip_suffix(b"Z").filter(|it| it.iter().all(u8::is_ascii_digit))?;
    let digits = std::str::from_utf8(digits).ok()?;
    match (tag, digits.len()) {
        (UTC_TIME, 12) => Some(format!("{}{digits}", if digits < "5" { "20" } else { "19" })),
        (GENERALIZED_TIME, 14) => Some(digits.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(from_year: i32, to_year: i32) -> Vec<u8> {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(from_year, 1, 2);
        parameters.not_after = rcgen::date_time_ymd(to_year, 3, 4);
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn the_validity_of_a_certificate_is_read_before_and_after_2050() {
        for (from, to) in [(1960, 2001), (1999, 2049), (2001, 2050), (2050, 2200)] {
            let expected = (format!("{from}0102000000"), format!("{to}0304000000"));
            assert_eq!(validity(&certificate(from, to)), Some(expected));
        }
    }

    #[test]
    fn a_certificate_cut_or_changed_at_any_byte_has_a_validity_or_none() {
        let whole = certificate(2001, 2050);
        for end in 0..whole.len() {
            assert_eq!(validity(&whole[..end]), None);
            for bits in [0x01, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[end] ^= bits;
                let _ = validity(&changed);
            }
        }
    }
}
