//! Addresses that are written with something around them, as logs have them.
//!
//! Not for plain addresses: `whered_ip::text` reads those in batches, and only what it refuses
//! comes here.

use std::net::IpAddr;

use whered_ip::text;

/// The address in a text with blanks around it, brackets, a port behind it or a zone:
/// `[2001:db8::1]:443`, `192.0.2.1:80`, `fe80::1%eth0`.
pub(crate) fn in_disguise(text: &[u8]) -> Option<IpAddr> {
    let text = text.trim_ascii();
    if let Some(rest) = text.strip_prefix(b"[") {
        let end = rest.iter().position(|&byte| byte == b']')?;
        let (inside, behind) = (rest.get(..end)?, rest.get(end + 1..)?);
        return if is_port(behind) { text::parse(without_zone(inside)) } else { None };
    }
    text::parse(without_zone(text)).or_else(|| {
        let colon = text.iter().position(|&byte| byte == b':')?;
        let (address, behind) = text.split_at_checked(colon)?;
        let address = text::parse4(address)?;
        is_port(behind).then(|| IpAddr::V4(address.into()))
    })
}

/// Whether a text is empty or a colon and up to five digits.
fn is_port(text: &[u8]) -> bool {
    match text.split_first() {
        None => true,
        Some((b':', digits)) => {
            (1..=5).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
        }
        Some(_) => false,
    }
}

fn without_zone(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|&byte| byte == b'%').unwrap_or(text.len());
    match text.split_at_checked(end) {
        Some((address, zone)) if zone.len() != 1 && text::parse6(address).is_some() => address,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_around_an_address_is_taken_off_and_nothing_else() {
        for (text, address) in [
            (" 192.0.2.1 ", "192.0.2.1"),
            ("192.0.2.1:80", "192.0.2.1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:65535", "2001:db8::1"),
            ("[192.0.2.1]:1", "192.0.2.1"),
            ("fe80::1%eth0", "fe80::1"),
            ("[fe80::1%2]:80", "fe80::1"),
        ] {
            assert_eq!(in_disguise(text.as_bytes()), address.parse().ok(), "{text}");
        }
        for text in [
            "",
            "-",
            "[",
            "[]",
            "[::1",
            "[::1]x",
            "[::1]:",
            "192.0.2.1:",
            "192.0.2.1:123456",
            "192.0.2.1%1",
            "::1%",
            "192.0.2.1 x",
            "1.2.3",
            "localhost:80",
            "192.0.2.1:8a",
        ] {
            assert_eq!(in_disguise(text.as_bytes()), None, "{text}");
        }
    }
}
