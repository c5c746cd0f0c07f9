//! How many signatures are made for questions: a limit for each client network, and what is counted
//! of it.
//!
//! Not for: what is signed (`whered-dns`).
//!
//! At the same time: all threads share one limiter under a lock, which costs little beside a
//! signature. Cost: nothing for answers that are signed beforehand or kept.

use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use whered_dns::{SignatureLimit, SignatureLimiter};
use whered_engine::sync;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct SignatureBudget {
    /// None: without limit.
    limiter: Option<Mutex<SignatureLimiter>>,
    started: Instant,
    made: AtomicU64,
    refused: AtomicU64,
}

impl SignatureBudget {
    /// So many a second for each network; 0: without limit.
    pub(super) fn new(signatures_per_second: u16) -> SignatureBudget {
        let limiter = (signatures_per_second > 0)
            .then(|| Mutex::new(SignatureLimiter::new(signatures_per_second)));
        let (made, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        SignatureBudget { limiter, started: Instant::now(), made, refused }
    }

    /// How many were made.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// How many were not made because of the limit.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl SignatureLimit for SignatureBudget {
    fn permits(&self, source: IpAddr, is_proven: bool) -> bool {
        let is_permitted = self.limiter.as_ref().is_none_or(|limiter| {
            let now_millis = self.started.elapsed().as_millis() as u64;
            sync::lock(limiter).permits(source, is_proven, now_millis)
        });
        let count = if is_permitted { &self.made } else { &self.refused };
        count.fetch_add(1, Ordering::Relaxed);
        is_permitted
    }
}
