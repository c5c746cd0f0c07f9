//! DNS cookies (RFC 7873) as RFC 9018 makes them, so that servers of several makes behind one
//! address can share a secret.
//!
//! Not for: where secrets come from and how often they change; what a client without a cookie may
//! not do (the rate limit's matter).
//!
//! ```text
//! option 10: client cookie 8 | server cookie 16 = version 1, 0 0 0, time u32, hash u64
//! hash = SipHash-2-4 with the secret over: client cookie | version | 0 0 0 | time | address
//! ```
//!
//! A cookie is good for an hour, and five minutes before its time; one older than half an hour is
//! made anew. A bad one is answered with a good one, as if there had been none.
#![deny(clippy::indexing_slicing)]

use std::net::IpAddr;

/// The option's code.
pub(crate) const OPTION_COOKIE: u16 = 10;
const CLIENT_COOKIE_SIZE: usize = 8;
const AGE_SECONDS_MAX: i32 = 3600;
const AGE_SECONDS_FRESH: i32 = 1800;
const AHEAD_SECONDS_MAX: i32 = 300;

/// The option in a reply, whole: code, length, both cookies.
pub(crate) const OPTION_SIZE: usize = 4 + 24;

/// The secrets that cookies are made and checked with.
///
/// ```
/// use whered_dns::CookieSecrets;
/// let old = [1; 16];
/// // The current one first; one that was current an hour ago is still taken.
/// let secrets = CookieSecrets::new([2; 16]).with_previous(old);
/// ```
#[derive(Debug, Clone)]
pub struct CookieSecrets {
    current: [u64; 2],
    previous: Option<[u64; 2]>,
}

impl CookieSecrets {
    /// Makes and takes cookies with one secret of 128 bits.
    #[must_use]
    pub fn new(secret: [u8; 16]) -> CookieSecrets {
        CookieSecrets { current: words(secret), previous: None }
    }

    /// Takes cookies that were made with an older secret as well (RFC 9018, 5).
    #[must_use]
    pub fn with_previous(mut self, secret: [u8; 16]) -> CookieSecrets {
        self.previous = Some(words(secret));
        self
    }

    /// Judges a query's cookie option. Gives whether its server cookie is good, and the option
    /// for the reply.
    pub(crate) fn answer(
        &self,
        option: &[u8],
        source: IpAddr,
        now_seconds: u32,
    ) -> (bool, [u8; OPTION_SIZE]) {
        let client = option.first_chunk::<CLIENT_COOKIE_SIZE>().copied().unwrap_or_default();
        let server = option.get(CLIENT_COOKIE_SIZE..).unwrap_or_default();
        let made = self.made_at(client, server, source);
        let age = made.map(|made| now_seconds.wrapping_sub(made) as i32);
        let good = age.is_some_and(|age| (-AHEAD_SECONDS_MAX..=AGE_SECONDS_MAX).contains(&age));
        let fresh = good && age.is_some_and(|age| age <= AGE_SECONDS_FRESH);
        let time = made.filter(|_| fresh).unwrap_or(now_seconds);
        let [t0, t1, t2, t3] = time.to_be_bytes();
        let head = [1, 0, 0, 0, t0, t1, t2, t3];
        let server = server_cookie(self.current, client, head, source);
        let mut reply = [0; OPTION_SIZE];
        let [c0, c1] = OPTION_COOKIE.to_be_bytes();
        let bytes = [c0, c1, 0, 24].into_iter().chain(client).chain(server);
        for (place, byte) in reply.iter_mut().zip(bytes) {
            *place = byte;
        }
        (good, reply)
    }

    /// When a server cookie was made, if it was made with one of the secrets.
    fn made_at(&self, client: [u8; 8], server: &[u8], source: IpAddr) -> Option<u32> {
        let server: &[u8; 16] = server.try_into().ok()?;
        let [1, r0, r1, r2, t0, t1, t2, t3, ..] = *server else {
            return None;
        };
        let time = u32::from_be_bytes([t0, t1, t2, t3]);
        let head = [1, r0, r1, r2, t0, t1, t2, t3];
        let made_with = |secret: [u64; 2]| server_cookie(secret, client, head, source) == *server;
        let good = made_with(self.current) || self.previous.is_some_and(made_with);
        good.then_some(time)
    }
}

fn words(secret: [u8; 16]) -> [u64; 2] {
    let both = u128::from_le_bytes(secret);
    [both as u64, (both >> 64) as u64]
}

/// The server cookie that begins with `head`.
fn server_cookie(secret: [u64; 2], client: [u8; 8], head: [u8; 8], source: IpAddr) -> [u8; 16] {
    let mut text = [0_u8; 32];
    let address = match source.to_canonical() {
        IpAddr::V4(address) => (widen(address.octets()), 4),
        IpAddr::V6(address) => (address.octets(), 16),
    };
    let bytes = client.into_iter().chain(head).chain(address.0.into_iter().take(address.1));
    for (place, byte) in text.iter_mut().zip(bytes) {
        *place = byte;
    }
    let hash = siphash(secret, text.get(..16 + address.1).unwrap_or_default());
    let mut cookie = [0; 16];
    for (place, byte) in cookie.iter_mut().zip(head.into_iter().chain(hash.to_le_bytes())) {
        *place = byte;
    }
    cookie
}

/// Four bytes at the front of sixteen.
fn widen([a, b, c, d]: [u8; 4]) -> [u8; 16] {
    [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

/// SipHash-2-4 (Aumasson and Bernstein, 2012).
fn siphash([k0, k1]: [u64; 2], text: &[u8]) -> u64 {
    let mut state = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let (words, tail) = text.as_chunks::<8>();
    let mut last = [0; 8];
    for (place, byte) in last.iter_mut().zip(tail) {
        *place = *byte;
    }
    let last = u64::from_le_bytes(last) | (text.len() as u64) << 56;
    for word in words.iter().map(|word| u64::from_le_bytes(*word)).chain([last]) {
        let [_, _, _, v3] = &mut state;
        *v3 ^= word;
        round(&mut state);
        round(&mut state);
        let [v0, ..] = &mut state;
        *v0 ^= word;
    }
    let [_, _, v2, _] = &mut state;
    *v2 ^= 0xff;
    for _ in 0..4 {
        round(&mut state);
    }
    state.into_iter().fold(0, |all, word| all ^ word)
}

fn round([v0, v1, v2, v3]: &mut [u64; 4]) {
    *v0 = v0.wrapping_add(*v1);
    *v1 = v1.rotate_left(13) ^ *v0;
    *v0 = v0.rotate_left(32);
    *v2 = v2.wrapping_add(*v3);
    *v3 = v3.rotate_left(16) ^ *v2;
    *v0 = v0.wrapping_add(*v3);
    *v3 = v3.rotate_left(21) ^ *v0;
    *v2 = v2.wrapping_add(*v1);
    *v1 = v1.rotate_left(17) ^ *v2;
    *v2 = v2.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(hexadecimal: &str) -> [u8; N] {
        let byte = |at: usize| u8::from_str_radix(&hexadecimal[2 * at..2 * at + 2], 16).unwrap();
        std::array::from_fn(byte)
    }

    #[test]
    fn siphash_gives_the_value_of_its_paper() {
        let key = words(std::array::from_fn(|at| at as u8));
        let text: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(key, &text), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn cookies_are_those_of_rfc_9018_appendix_a() {
        let secrets = CookieSecrets::new(bytes("e5e973e5a6b2a43f48e7dc849e37bfcf"));
        let source = "198.51.100.100".parse().unwrap();
        let client: [u8; 8] = bytes("2464c4abcf10c957");
        // A.1: a client without a server cookie.
        let (good, option) = secrets.answer(&client, source, 1_559_731_985);
        let expected: [u8; 24] = bytes("2464c4abcf10c957010000005cf79f111f8130c3eee29480");
        assert!(!good && option[4..] == expected);
        // A.2: the same client forty minutes later; its cookie is taken and renewed.
        let (good, option) = secrets.answer(&option[4..], source, 1_559_734_385);
        let expected: [u8; 24] = bytes("2464c4abcf10c957010000005cf7a871d4a564a1442aca77");
        assert!(good && option[4..] == expected);
        // A.3: the reserved bytes of a cookie count in its hash.
        let sent: [u8; 24] = bytes("fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5");
        let source = "203.0.113.203".parse().unwrap();
        assert!(secrets.answer(&sent, source, 1_559_727_985).0);
    }

    #[test]
    fn a_cookie_is_good_for_an_hour_and_with_the_secret_before() {
        let source = "2001:db8::1".parse().unwrap();
        let old = CookieSecrets::new([7; 16]);
        let new = CookieSecrets::new([8; 16]).with_previous([7; 16]);
        let (good, option) = old.answer(&[1; 8], source, 10_000);
        assert!(!good);
        let cookie = &option[4..];
        for (secrets, now, expected) in [
            (&old, 10_000, true),
            (&old, 13_600, true),
            (&old, 13_601, false),
            (&old, 9_700, true),
            (&old, 9_699, false),
            (&new, 10_001, true),
            (&CookieSecrets::new([8; 16]), 10_001, false),
        ] {
            assert_eq!(secrets.answer(cookie, source, now).0, expected, "{now}");
        }
        let other = "2001:db8::2".parse().unwrap();
        assert!(!old.answer(cookie, other, 10_000).0, "another address");
    }
}
