//! UPDATE (RFC 2136): who may change what, and names of ACME challenges, whose texts are tokens.
//!
//! Not for: TSIG (`answer`), threads (`updating`), the rules of UPDATE (`whered_dns::update`),
//! keeping what is changed (the engine).
//!
//! ```text
//! UPDATE ─ no key, no policy ─> REFUSED, at once
//!        ├ TXT at _acme-challenge names alone ─> tokens, as of ACME.SET
//!        └ else ─> Engine::update_zone: over the file, in the journal; not in secondary zones
//! ```
//!
//! The answer is sent when the change is on the disk, as far as `fsync` says so.

use std::net::IpAddr;
use std::sync::Arc;

use whered_dns::transfer::reply_to;
use whered_dns::update::{Update, UpdateStep};
use whered_dns::{Challenges, Name, Rcode, RecordType, ZoneRecord, text_data};
use whered_engine::{Ticket, UpdateError, WriteError};

use super::answer::{Reply, ServerMessage};
use super::times::now_millis;
use super::updating::{PendingUpdate, UpdateMessage};
use super::{Transfers, add};

/// For how long a token is kept that nobody removes: certificates are issued within minutes.
const TOKEN_MILLIS: u64 = 3_600_000;

impl Transfers {
    /// Answers an UPDATE at once if it is refused for its key, else when it is made.
    pub(super) fn take_update(
        self: &Arc<Transfers>,
        incoming: ServerMessage<'_>,
        message: &[u8],
        size_max: usize,
    ) -> Reply {
        let (source, zone) = (incoming.source, &incoming.request.name);
        let refused = match (incoming.key, incoming.signer) {
            (Some(key), Some(signer)) => match self.may_update(key, zone) {
                Ok(()) => {
                    let key = key.clone();
                    let update =
                        UpdateMessage { source, key, message: message.to_vec(), signer, size_max };
                    return match PendingUpdate::new(self, update) {
                        Some(pending) => Reply::Later(Box::new(pending)),
                        None => Reply::One(reply_to(message, Rcode::SERVFAIL, false)),
                    };
                }
                Err(refused) => refused,
            },
            _ => (Rcode::REFUSED, "it has no key".to_owned()),
        };
        Reply::One(self.refused_update(source, incoming.key, message, refused))
    }

    /// Makes an update. Gives the answer, which is not signed yet.
    pub(super) fn made_update(&self, update: &UpdateMessage) -> Vec<u8> {
        let UpdateMessage { source, key, message, .. } = update;
        match self.update(*source, key, message) {
            Ok(()) => {
                add(&self.counts.updates);
                reply_to(message, Rcode::NOERROR, false)
            }
            Err(refused) => self.refused_update(*source, Some(key), message, refused),
        }
    }

    fn refused_update(
        &self,
        source: IpAddr,
        key: Option<&Name>,
        message: &[u8],
        (rcode, line): (Rcode, String),
    ) -> Vec<u8> {
        add(&self.counts.updates_refused);
        log_refusal(source, key, rcode, &line);
        reply_to(message, rcode, false)
    }

    /// Whether a key may change anything of a zone.
    fn may_update(&self, key: &Name, origin: &Name) -> Result<(), (Rcode, String)> {
        let configured = self.configured();
        let policies = configured.zones.get(origin).map_or(&[][..], |zone| &zone.updates);
        if policies.iter().any(|policy| policy.key == *key) {
            return Ok(());
        }
        if self.engine.generation().zones().zone(origin).is_none() {
            return Err((Rcode::NOTAUTH, format!("{origin} is not served here")));
        }
        Err((Rcode::REFUSED, format!("the key may change nothing of {origin}")))
    }

    fn update(&self, source: IpAddr, key: &Name, message: &[u8]) -> Result<(), (Rcode, String)> {
        let update = Update::read(message).map_err(|rcode| (rcode, "its form".to_owned()))?;
        let configured = self.configured();
        let (generation, origin) = (self.engine.generation(), update.zone());
        let Some(zone) = generation.zones().zone(origin) else {
            return Err((Rcode::NOTAUTH, format!("{origin} is not served here")));
        };
        let policies = configured.zones.get(origin).map_or(&[][..], |zone| &zone.updates);
        let own = policies.iter().filter(|policy| policy.key == *key);
        // A reload may have come between.
        self.may_update(key, origin)?;
        // Where the zone has records, only a key for tokens alone means tokens.
        let has_records = |step: &TokenStep<'_>| !zone.records_at(step.owner).is_empty();
        let is_for_tokens = own.clone().all(|policy| policy.acme);
        let tokens =
            token_steps(&update).filter(|steps| is_for_tokens || !steps.iter().any(has_records));
        let is_allowed =
            |step: &UpdateStep| own.clone().any(|policy| policy.allows(step, tokens.is_some()));
        if let Some(step) = update.steps().iter().find(|step| !is_allowed(step)) {
            let of = step.record_type().map_or("all".to_owned(), |of| of.to_string());
            let line = format!("{of} of {} is not this key's", step.owner());
            return Err((Rcode::REFUSED, line));
        }
        if let Some(tokens) = tokens {
            return self.change_tokens(&update, &tokens);
        }
        if configured.secondaries.contains_key(origin) {
            return Err((Rcode::REFUSED, format!("{origin} comes from its primaries")));
        }
        let written = self.engine.update_zone(&update).map_err(|error| match error {
            UpdateError::Refused(rcode, line) => (rcode, line),
            UpdateError::Write(error) => (Rcode::SERVFAIL, error.to_string()),
        })?;
        self.wait(written.ticket)?;
        let serial = written.value;
        tracing::info!(
            "the zone {origin} was updated by {source} with the key {key}: serial {serial}"
        );
        Ok(())
    }

    /// Sets and removes tokens of ACME challenges.
    fn change_tokens(
        &self,
        update: &Update,
        steps: &[TokenStep<'_>],
    ) -> Result<(), (Rcode, String)> {
        let generation = self.engine.generation();
        let origin = update.zone();
        // A zone below has its own policies.
        let is_below = |owner: &Name| {
            let mut below = generation.zones().zones().map(|zone| zone.origin());
            below.any(|other| other != origin && other.is_within(origin) && owner.is_within(other))
        };
        if let Some(step) = steps.iter().find(|step| is_below(step.owner)) {
            let line = format!("{} is in another zone than {origin}", step.owner);
            return Err((Rcode::REFUSED, line));
        }
        let zone = generation.zones().zone(origin);
        let records = |owner: &Name| {
            let mut records = zone.map(|zone| zone.records_at(owner)).unwrap_or_default();
            let challenges = self.engine.challenges().unwrap_or_default();
            for token in challenges.tokens(owner, now_millis()) {
                let data = text_data(token).unwrap_or_default().into();
                let (owner, record_type) = (owner.clone(), RecordType::TXT);
                records.push(ZoneRecord { owner, record_type, ttl_seconds: 0, data });
            }
            records
        };
        let held = |rcode| (rcode, format!("a prerequisite of an update of {}", update.zone()));
        update.check(&records).map_err(held)?;
        let refused = |error: WriteError| match error {
            WriteError::Refused(line) => (Rcode::REFUSED, line),
            other => (Rcode::SERVFAIL, other.to_string()),
        };
        let mut ticket = None;
        for step in steps {
            let name = step.owner.to_string();
            ticket = Some(match (step.adds, step.token) {
                (true, Some(token)) => {
                    let end = now_millis().saturating_add(TOKEN_MILLIS);
                    self.engine.set_challenge(&name, token, end).map_err(refused)?.ticket
                }
                (_, token) => self.engine.remove_challenge(&name, token).map_err(refused)?.ticket,
            });
        }
        ticket.map_or(Ok(()), |ticket| self.wait(ticket))
    }

    fn wait(&self, ticket: Ticket) -> Result<(), (Rcode, String)> {
        self.engine.wait_durable(ticket).map_err(|error| (Rcode::SERVFAIL, error.to_string()))
    }
}

/// A token that comes or goes; no token: all of a name go.
struct TokenStep<'u> {
    owner: &'u Name,
    token: Option<&'u str>,
    adds: bool,
}

/// The steps of an update that is about tokens alone.
fn token_steps(update: &Update) -> Option<Vec<TokenStep<'_>>> {
    let is_of_challenges = |step: &&UpdateStep| Challenges::is_owner(step.owner());
    let steps = update.steps().iter();
    if !steps.clone().all(|step| is_of_challenges(&step)) {
        return None;
    }
    let steps: Vec<TokenStep<'_>> = steps.map(TokenStep::of).collect::<Option<_>>()?;
    (!steps.is_empty()).then_some(steps)
}

impl<'u> TokenStep<'u> {
    /// A step at a challenge's name; none if it is about anything but tokens.
    fn of(step: &'u UpdateStep) -> Option<TokenStep<'u>> {
        let owner = step.owner();
        match step {
            UpdateStep::Add(record) | UpdateStep::Remove(record) => {
                let token = Some(token_of(record)?);
                Some(TokenStep { owner, token, adds: matches!(step, UpdateStep::Add(_)) })
            }
            UpdateStep::RemoveRrset(_, RecordType::TXT) | UpdateStep::RemoveName(_) => {
                Some(TokenStep { owner, token: None, adds: false })
            }
            UpdateStep::RemoveRrset(..) => None,
        }
    }
}

/// The token that a TXT record of one string is.
fn token_of(record: &ZoneRecord) -> Option<&str> {
    let (length, text) = record.data.split_first()?;
    let text = std::str::from_utf8(text).ok()?;
    let is_token = usize::from(*length) == text.len() && Challenges::is_token(text);
    (record.record_type == RecordType::TXT && is_token).then_some(text)
}

/// Says why; of strangers, who can send as many as they like, only where that is asked for.
fn log_refusal(source: IpAddr, key: Option<&Name>, rcode: Rcode, line: &str) {
    match key {
        Some(key) => tracing::warn!(
            "an update of {source} with the key {key} is answered with {rcode}: {line}"
        ),
        None => tracing::debug!("an update of {source} is answered with {rcode}: {line}"),
    }
}
