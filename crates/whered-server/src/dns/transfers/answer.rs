//! Messages of other servers: who they are from, what they may have, what they get.
//!
//! Not for: how transfers go out (`primary`), what NOTIFY leads to (`secondary`).
//!
//! ```text
//! message ─ TSIG wrong ─> NOTAUTH with the reason
//!         ├ query, signed ─> the ordinary answer, signed
//!         ├ NOTIFY ─> NOERROR          from a primary's address or with its key
//!         ├ AXFR, IXFR ─> the zone     for those whom allow_transfer names
//!         ├ UPDATE ─> later            for those whose key may change the zone
//!         └ all else ─> the ordinary answer: REFUSED, NOTIMP
//! ```

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::mpsc;
use whered_dns::transfer::{
    AnswerSigner, Operation, ServerRequest, SignedQuery, reply_to, verify_query,
};
use whered_dns::{Name, Rcode, Transport};

use super::secondary::Order;
use super::times::now_seconds;
use super::updating::PendingUpdate;
use super::{Transfers, add};

/// A message that the answering function has left to us.
pub(in crate::dns) struct DeferredMessage<'a> {
    pub(in crate::dns) bytes: &'a [u8],
    pub(in crate::dns) source: IpAddr,
    pub(in crate::dns) transport: Transport,
    /// The most bytes of a reply.
    pub(in crate::dns) size_max: usize,
}

/// What is sent.
pub(in crate::dns) enum Reply {
    /// One message; empty: none.
    One(Vec<u8>),
    /// Messages of a transfer, until the channel closes.
    Many(mpsc::Receiver<Vec<u8>>),
    /// One message, once an update is made.
    Later(Box<PendingUpdate>),
}

/// A message whose signature, if any, holds.
pub(super) struct ServerMessage<'a> {
    pub(super) request: ServerRequest,
    pub(super) source: IpAddr,
    pub(super) key: Option<&'a Name>,
    pub(super) transport: Transport,
    pub(super) size_max: usize,
    pub(super) signer: Option<AnswerSigner>,
}

impl Transfers {
    /// Answers a message; `ordinary` gives the answer of a server that knows no transfers. Gives
    /// also whether the message was signed with a key that is known here.
    pub(in crate::dns) fn answer(
        self: &Arc<Transfers>,
        message: &DeferredMessage<'_>,
        ordinary: &mut dyn FnMut(&[u8]) -> Vec<u8>,
    ) -> (Reply, bool) {
        let configured = self.configured();
        let verified = verify_query(message.bytes, &configured.options.keys, now_seconds());
        let signed = match verified {
            Ok(signed) => signed,
            Err(refused) => {
                add(&self.counts.signature_failures);
                tracing::debug!("a message of {} has {}", message.source, refused.error);
                return (Reply::One(refused.reply), false);
            }
        };
        let (key, plain, mut signer) = match signed {
            None => (None, message.bytes.to_vec(), None),
            Some(SignedQuery { key, message, signer }) => (Some(key.name()), message, Some(signer)),
        };
        let is_signed = key.is_some();
        let request = ServerRequest::read(&plain);
        let size_max = match (&request, message.transport) {
            (Some(request), Transport::Udp) => message.size_max.min(request.udp_size.into()),
            _ => message.size_max,
        };
        let reply = match request {
            None => ordinary(&plain),
            Some(request) => {
                let incoming = ServerMessage {
                    request,
                    source: message.source,
                    key,
                    transport: message.transport,
                    size_max: message.size_max,
                    signer: signer.clone(),
                };
                match incoming.request.operation {
                    Operation::Notify => self.take_notify(&incoming, &plain),
                    Operation::Update => match self.take_update(incoming, &plain, size_max) {
                        Reply::One(reply) => Some(reply),
                        later => return (later, is_signed),
                    },
                    Operation::Axfr | Operation::Ixfr(_) => match self.give(incoming, &plain) {
                        Some(Reply::One(reply)) => Some(reply),
                        Some(many) => return (many, is_signed),
                        None => None,
                    },
                    Operation::Query | Operation::Other => None,
                }
                .unwrap_or_else(|| ordinary(&plain))
            }
        };
        (Reply::One(signed_within(reply, signer.as_mut(), size_max, &plain)), is_signed)
    }

    /// Takes a NOTIFY of a secondary zone; none for other zones.
    fn take_notify(&self, incoming: &ServerMessage<'_>, message: &[u8]) -> Option<Vec<u8>> {
        let configured = self.configured();
        let zone = configured.secondaries.get(&incoming.request.name)?;
        if !zone.options.may_notify(incoming.source, incoming.key) {
            add(&self.counts.notifies_in_refused);
            tracing::debug!("NOTIFY of {} for {} is refused", incoming.source, zone.options.name);
            return Some(reply_to(message, Rcode::REFUSED, false));
        }
        add(&self.counts.notifies_in);
        zone.order(Order::Refresh);
        Some(reply_to(message, Rcode::NOERROR, true))
    }
}

/// The reply with its signature. One that has no room for it is cut short, so that the client asks
/// again by TCP.
pub(super) fn signed_within(
    mut reply: Vec<u8>,
    signer: Option<&mut AnswerSigner>,
    size_max: usize,
    query: &[u8],
) -> Vec<u8> {
    let Some(signer) = signer else { return reply };
    if reply.is_empty() {
        return reply;
    }
    if reply.len() + signer.signature_size() > size_max {
        let rcode = Rcode(u16::from(reply.get(3).map_or(0, |byte| byte & 15)));
        reply = reply_to(query, rcode, true);
        if let Some(flags) = reply.get_mut(2) {
            *flags |= 2;
        }
    }
    signer.sign(&mut reply, now_seconds());
    reply
}
