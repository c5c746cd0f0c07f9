//! How many transfers come in at a time: in all, and from one address, so that servers that are
//! slow do not hold up those that are not.
//!
//! Not for: what a transfer may bring, and how long it may take (`client`).
//!
//! Concurrency: a slot of the address is taken first, then one of all. Cost: an entry for each
//! address that gives a transfer at the moment.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use whered_engine::sync;

/// How many transfers come in at a time.
const INCOMING_MAX: usize = 32;
/// How many of them from one address.
const INCOMING_OF_ONE_MAX: usize = 8;

/// See the head of this file.
pub(super) struct IncomingLimits {
    all: Arc<Semaphore>,
    by_address: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
}

/// The right to one transfer.
pub(super) struct IncomingSlot {
    _of_all: OwnedSemaphorePermit,
    _of_address: OwnedSemaphorePermit,
    _address: Arc<Semaphore>,
}

impl Default for IncomingLimits {
    fn default() -> IncomingLimits {
        IncomingLimits { all: Arc::new(Semaphore::new(INCOMING_MAX)), by_address: Mutex::default() }
    }
}

impl IncomingLimits {
    /// Waits for a slot; none only if the limits are gone.
    pub(super) async fn take(&self, address: IpAddr) -> Option<IncomingSlot> {
        let own = self.of(address);
        let of_address = Arc::clone(&own).acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(IncomingSlot { _of_all: of_all, _of_address: of_address, _address: own })
    }

    fn of(&self, address: IpAddr) -> Arc<Semaphore> {
        let mut all = sync::lock(&self.by_address);
        if let Some(own) = all.get(&address).and_then(Weak::upgrade) {
            return own;
        }
        all.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(INCOMING_OF_ONE_MAX));
        all.insert(address, Arc::downgrade(&own));
        own
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_slow_server_takes_its_own_slots_alone_and_gives_them_back() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let limits = IncomingLimits::default();
            let [slow, other] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
            let mut held = Vec::new();
            for _ in 0..INCOMING_OF_ONE_MAX {
                held.push(limits.take(slow).await);
            }
            let soon = Duration::from_millis(20);
            assert!(tokio::time::timeout(soon, limits.take(slow)).await.is_err());
            assert!(tokio::time::timeout(soon, limits.take(other)).await.is_ok());
            held.pop();
            assert!(tokio::time::timeout(soon, limits.take(slow)).await.is_ok());
            drop(held);
            assert!(limits.take(other).await.is_some());
            assert_eq!(sync::lock(&limits.by_address).len(), 1, "the idle ones are forgotten");
        });
    }
}
