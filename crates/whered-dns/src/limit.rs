//! How many alike answers a client network gets in a second (response rate limiting), so that this
//! server is no use for flooding somebody whose address was forged.
//!
//! Not for: clocks; queries (they cost us, not others).
//!
//! ```text
//! table: [ key u32 | tokens u16 | slips u16 | time u64 ]  by hash of (network, kind, name)
//! ```
//!
//! A bucket belongs to whom its key says; another one that hashes there takes it over and begins
//! anew. So memory is fixed, and a client can only lose a limit by this, not gain one.
//! At the same time: one limiter for each thread; each limits what its thread sends.
//! Cost: one cache line for each answer.
#![deny(clippy::indexing_slicing)]

use std::fmt;
use std::net::IpAddr;

use crate::answer::Outcome;

const TABLE_SIZE: usize = 1 << 16;

/// The message lists the allowed words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Alike answers a second to one network; bursts of as many again pass. At least 1.
    pub answers_per_second: u16,
    /// Errors and NXDOMAIN of one zone a second to one network. At least 1.
    pub errors_per_second: u16,
    /// Every how manieth answer above the limit is sent truncated instead of dropped, so that a
    /// client whose address is forged can still ask by TCP: 0 for none, 1 for all.
    pub slip: u16,
    /// The length of an IPv4 network, usually 24.
    pub ipv4_prefix_length_bits: u8,
    /// The length of an IPv6 network, usually 56.
    pub ipv6_prefix_length_bits: u8,
}

impl Default for RateLimit {
    fn default() -> Self {
        RateLimit {
            answers_per_second: 200,
            errors_per_second: 200,
            slip: 2,
            ipv4_prefix_length_bits: 24,
            ipv6_prefix_length_bits: 56,
        }
    }
}

/// The verdict on an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Send,
    /// Send it without its records and with TC set.
    Slip,
    Drop,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    key: u32,
    /// Thousandths of an answer that may still be sent.
    tokens: u32,
    slips: u16,
    used: bool,
    millis: u64,
}

/// Says whether signatures may be made for a client. An answer that needs one more than that is
/// truncated by UDP and REFUSED by TCP.
pub trait SignatureLimit: fmt::Debug {
    /// Whether one more signature may be made for a client at this moment. `is_proven` says that
    /// its address is its own: it asks by TCP or has a cookie.
    fn permits(&self, source: IpAddr, is_proven: bool) -> bool;
}

/// How many signatures are made for a client network (/24 or /56) in a second. Clients that may
/// have forged their addresses share a second limit of [`SHARED_NETWORKS`] networks.
#[derive(Debug)]
pub struct SignatureLimiter {
    limiter: RateLimiter,
    rate: u16,
    shared: Bucket,
}

/// As many signatures as for this many networks are made in all for clients that ask by UDP without
/// a cookie.
const SHARED_NETWORKS: u32 = 16;
const NETWORK_TABLE_SIZE: usize = 1 << 12;

impl SignatureLimiter {
    /// Permits N signatures a second and network; bursts of as many again pass.
    #[must_use]
    pub fn new(signatures_per_second: u16) -> SignatureLimiter {
        let limiter = RateLimiter::with_table(RateLimit::default(), NETWORK_TABLE_SIZE);
        SignatureLimiter { limiter, rate: signatures_per_second, shared: Bucket::default() }
    }

    /// Whether one more may be made; `now_millis` is any monotonic clock.
    pub fn permits(&mut self, source: IpAddr, is_proven: bool, now_millis: u64) -> bool {
        let hash = mix(self.limiter.network(source), u64::from(is_proven));
        let is_permitted = self.limiter.bucket(hash).is_some_and(|bucket| {
            bucket.begin((hash >> 32) as u32, self.rate.into(), now_millis);
            bucket.take(self.rate.into(), now_millis)
        });
        if !is_permitted || is_proven {
            return is_permitted;
        }
        let rate = u32::from(self.rate) * SHARED_NETWORKS;
        self.shared.begin(0, rate, now_millis);
        self.shared.take(rate, now_millis)
    }
}

impl Bucket {
    /// Begins anew if it was another one's.
    fn begin(&mut self, key: u32, rate: u32, now_millis: u64) {
        if !self.used || self.key != key {
            *self = Bucket { key, tokens: rate * 2000, slips: 0, used: true, millis: now_millis };
        }
    }

    /// Takes one of what has come together at this rate; false when there is none.
    fn take(&mut self, rate: u32, now_millis: u64) -> bool {
        let passed = now_millis.saturating_sub(self.millis).min(2000) as u32;
        self.tokens = (self.tokens + passed * rate).min(rate * 2000);
        self.millis = now_millis;
        let is_there = self.tokens >= 1000;
        self.tokens -= if is_there { 1000 } else { 0 };
        is_there
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    limit: RateLimit,
    buckets: Box<[Bucket]>,
}

impl RateLimiter {
    pub(crate) fn new(limit: RateLimit) -> RateLimiter {
        RateLimiter::with_table(limit, TABLE_SIZE)
    }

    fn with_table(limit: RateLimit, size: usize) -> RateLimiter {
        RateLimiter { limit, buckets: vec![Bucket::default(); size].into_boxed_slice() }
    }

    fn bucket(&mut self, hash: u64) -> Option<&mut Bucket> {
        let index = hash as usize % self.buckets.len();
        self.buckets.get_mut(index)
    }

    /// Judges an answer; `alike` tells what it is about.
    pub(crate) fn judge(
        &mut self,
        source: IpAddr,
        alike: u64,
        outcome: &Outcome,
        now_millis: u64,
    ) -> Verdict {
        let Outcome::Answered { rcode, has_cookie: false, .. } = outcome else {
            // A cookie shows that the address is the sender's own.
            return Verdict::Send;
        };
        let rate = match rcode.0 {
            0 => self.limit.answers_per_second,
            _ => self.limit.errors_per_second,
        };
        let rate = u32::from(rate.max(1));
        let hash = mix(mix(self.network(source), alike), rcode.0.into());
        let slip = self.limit.slip;
        let Some(bucket) = self.bucket(hash) else {
            return Verdict::Send;
        };
        bucket.begin((hash >> 32) as u32, rate, now_millis);
        if bucket.take(rate, now_millis) {
            return Verdict::Send;
        }
        bucket.slips = bucket.slips.wrapping_add(1);
        match slip {
            0 => Verdict::Drop,
            slip if bucket.slips % slip == 0 => Verdict::Slip,
            _ => Verdict::Drop,
        }
    }

    fn network(&self, source: IpAddr) -> u64 {
        match source.to_canonical() {
            IpAddr::V4(address) => {
                let spare = 32 - u32::from(self.limit.ipv4_prefix_length_bits.min(32));
                u64::from(u32::from(address).checked_shr(spare).unwrap_or(0)) << 1
            }
            IpAddr::V6(address) => {
                let spare = 128 - u32::from(self.limit.ipv6_prefix_length_bits.min(128));
                let network = u128::from(address).checked_shr(spare).unwrap_or(0);
                mix(network as u64, (network >> 64) as u64) | 1
            }
        }
    }
}

fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xd6e8_feb8_6659_fd93);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Rcode;

    fn outcome(rcode: Rcode, has_cookie: bool) -> Outcome {
        Outcome::Answered { rcode, question_type: None, pool: None, zone: None, has_cookie }
    }

    fn limiter(slip: u16) -> RateLimiter {
        RateLimiter::new(RateLimit {
            answers_per_second: 10,
            errors_per_second: 5,
            slip,
            ..RateLimit::default()
        })
    }

    #[test]
    fn a_network_gets_its_rate_and_no_more() {
        let mut limiter = limiter(0);
        let mut sent = |source: &str, alike, millis| {
            let source = source.parse().unwrap();
            limiter.judge(source, alike, &outcome(Rcode::NOERROR, false), millis) == Verdict::Send
        };
        let first = (0..100).filter(|_| sent("192.0.2.1", 7, 0)).count();
        assert_eq!(first, 20, "a burst of two seconds' worth");
        assert!(!sent("192.0.2.200", 7, 0), "the same network");
        assert!(sent("192.0.3.1", 7, 0), "another network");
        assert!(sent("192.0.2.1", 8, 0), "another name");
        let later: usize = (1..=50).map(|step| usize::from(sent("192.0.2.1", 7, step * 20))).sum();
        assert_eq!(later, 10, "ten in a second");
        assert!(sent("2001:db8::1", 7, 0) && sent("2001:db8:0:100::1", 7, 0));
    }

    #[test]
    fn some_slip_and_cookies_pass() {
        let mut limiter = limiter(2);
        let source = "192.0.2.1".parse().unwrap();
        let verdicts: Vec<_> = (0..14)
            .map(|_| limiter.judge(source, 1, &outcome(Rcode::NXDOMAIN, false), 0))
            .collect();
        let (sent, over) = verdicts.split_at(10);
        assert!(sent.iter().all(|verdict| *verdict == Verdict::Send));
        assert_eq!(over, [Verdict::Drop, Verdict::Slip, Verdict::Drop, Verdict::Slip]);
        let with_cookie = outcome(Rcode::NXDOMAIN, true);
        assert_eq!(limiter.judge(source, 1, &with_cookie, 0), Verdict::Send);
        assert_eq!(limiter.judge(source, 1, &outcome(Rcode::NOERROR, false), 0), Verdict::Send);
    }
}
