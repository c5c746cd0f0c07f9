//! Channels: who listens to what, and publishing.
//!
//! For: `SUBSCRIBE PSUBSCRIBE PUBLISH PUBSUB` across all threads of the listener.
//! Not for: the rules of a connection that listens (`commands/pubsub`), nor for how a message gets
//! to its connection (`clients`, `worker`).
//!
//! ```text
//! channels: name    ──> { client id -> Client }      publish: one probe, then every pattern
//! patterns: pattern ──> { client id -> Client }
//! ```
//!
//! Invariants: nothing is kept for a name without listeners; a client stands under a name at most
//! once; messages of one publisher arrive in order.
//! At the same time: publishers share the registry, a client that comes or goes has it alone.
//! Cost of publishing: O(listeners + patterns), one copy of the message for all listeners.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use whered_engine::sync;

use super::clients::{Client, Message};
use whered_engine::glob;

/// The registry of the listener.
#[derive(Default)]
pub(crate) struct PubSub {
    registry: RwLock<[Listeners; 2]>,
}

type Listeners = BTreeMap<Box<[u8]>, BTreeMap<u64, Arc<Client>>>;

/// How a subscription names what it wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SubscriptionKind {
    /// One channel by its name.
    Channel,
    /// All channels that a pattern fits.
    Pattern,
}

impl PubSub {
    /// A client wants to hear; doing it twice changes nothing.
    pub(crate) fn subscribe(&self, by: SubscriptionKind, name: &[u8], client: &Arc<Client>) {
        let mut registry = self.exclusive();
        let listeners = registry[by as usize].entry(name.into()).or_default();
        listeners.insert(client.id, Arc::clone(client));
    }

    /// A client wants to hear no more.
    pub(crate) fn unsubscribe(&self, by: SubscriptionKind, name: &[u8], client: &Client) {
        let mut registry = self.exclusive();
        if let Some(listeners) = registry[by as usize].get_mut(name) {
            listeners.remove(&client.id);
            if listeners.is_empty() {
                registry[by as usize].remove(name);
            }
        }
    }

    /// Sends a message to its listeners and gives how many times it was sent.
    pub(crate) fn publish(&self, channel: &[u8], message: &[u8], limit_bytes: usize) -> usize {
        let registry = self.shared();
        let [channels, patterns] = &*registry;
        let mut count = 0;
        if let Some(listeners) = channels.get(channel) {
            let message = encode(&[b"message", channel, message]);
            count += deliver_to_all(listeners, &message, limit_bytes);
        }
        for (pattern, listeners) in patterns {
            if glob::matches(pattern, channel) {
                let message = encode(&[b"pmessage", pattern, channel, message]);
                count += deliver_to_all(listeners, &message, limit_bytes);
            }
        }
        count
    }

    /// The channels that somebody listens to by name and that a pattern fits.
    pub(crate) fn channels(&self, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        let fits = |name: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name));
        let registry = self.shared();
        registry[SubscriptionKind::Channel as usize]
            .keys()
            .filter(|name| fits(name))
            .cloned()
            .collect()
    }

    /// How many listen to a channel by its name.
    pub(crate) fn listener_count(&self, channel: &[u8]) -> usize {
        self.shared()[SubscriptionKind::Channel as usize].get(channel).map_or(0, BTreeMap::len)
    }

    /// How many different patterns there are.
    pub(crate) fn pattern_count(&self) -> usize {
        self.shared()[SubscriptionKind::Pattern as usize].len()
    }

    /// How many channels are listened to.
    pub(crate) fn channel_count(&self) -> usize {
        self.shared()[SubscriptionKind::Channel as usize].len()
    }

    fn shared(&self) -> RwLockReadGuard<'_, [Listeners; 2]> {
        sync::read(&self.registry)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, [Listeners; 2]> {
        sync::write(&self.registry)
    }
}

fn deliver_to_all(
    listeners: &BTreeMap<u64, Arc<Client>>,
    message: &Message,
    limit_bytes: usize,
) -> usize {
    listeners.values().for_each(|client| client.deliver(message, limit_bytes));
    listeners.len()
}

/// Bulk strings behind a count, without the byte before it.
fn encode(parts: &[&[u8]]) -> Message {
    let mut bytes = format!("{}\r\n", parts.len()).into_bytes();
    for part in parts {
        bytes.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        bytes.extend_from_slice(part);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.into()
}
