//! Aliases beside other records, such as at an apex: a name that has the addresses of another.
//!
//! For: which names those are, the addresses that were found last, and their records. Not for:
//! looking addresses up (the server), how an answer is signed (`whered-dns`).
//!
//! ```text
//! AliasSource ─ the server looks its target up ─► AliasAddresses ─► a pool of one answer, behind
//!                                                                   the configured pools
//! ```
//!
//! Invariants: an alias whose addresses are not known is answered by SERVFAIL; the zone has no
//! address and no CNAME at its name. Cost: changed addresses make the index of zones anew.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use whered_dns::{Answer, Choice, ChoiceVerdict, Name, Pool, RecordType, Zone};

use crate::error::{EngineError, Subject};

/// A name that has the addresses of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasSource {
    /// The zone as the configuration names it.
    pub zone: String,
    /// The name in the zone, or the zone itself.
    pub owner: Name,
    /// Whose addresses it has.
    pub target: Name,
    /// The TTL of the addresses, and the most seconds until they are looked up again.
    pub ttl_seconds: u32,
}

/// The addresses found for an alias's target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AliasAddresses {
    /// For A, in order.
    pub ipv4: Vec<Ipv4Addr>,
    /// For AAAA, in order.
    pub ipv6: Vec<Ipv6Addr>,
}

/// An alias of a generation.
#[derive(Clone, Debug)]
pub(crate) struct ServedAlias {
    pub(crate) source: AliasSource,
    /// None: they are not known.
    pub(crate) addresses: Option<Arc<AliasAddresses>>,
}

impl ServedAlias {
    /// The pool that answers for it; `zones` are those that are served.
    ///
    /// # Errors
    /// The zone has an address or a CNAME at its name.
    pub(crate) fn to_pool(&self, zones: &HashMap<&Name, &Arc<Zone>>) -> Result<Pool, EngineError> {
        let AliasSource { zone, owner, ttl_seconds, .. } = &self.source;
        let above = std::iter::successors(Some(owner.clone()), Name::parent);
        let deepest = above.into_iter().find_map(|name| zones.get(&name));
        let records = deepest.map(|zone| zone.records_at(owner)).unwrap_or_default();
        let is_conflict =
            |of: RecordType| matches!(of, RecordType::A | RecordType::AAAA | RecordType::CNAME);
        if let Some(record) = records.iter().find(|record| is_conflict(record.record_type)) {
            let message = format!(
                "zone '{zone}': found {} at {owner}, which [[zone.alias]] gives its addresses; \
                 allowed: a name without A, AAAA and CNAME of its own",
                record.record_type
            );
            return Err(EngineError::new(message).about(Subject::Zone(zone.clone())));
        }
        let known = self.addresses.as_deref().cloned().unwrap_or_default();
        let answer = Answer { ipv4: known.ipv4, ipv6: known.ipv6, ..Answer::default() };
        Ok(Pool {
            name: self.pool_name(),
            owners: vec![owner.clone()],
            ttl_seconds: *ttl_seconds,
            answers: vec![answer],
        })
    }

    /// The name of its pool, for errors.
    pub(crate) fn pool_name(&self) -> String {
        format!("alias {}", self.source.owner)
    }

    /// What a client gets.
    pub(crate) fn choice(&self) -> Choice {
        match &self.addresses {
            Some(_) => Choice::of(Some(0), 0),
            None => Choice::verdict(ChoiceVerdict::Fail, 0),
        }
    }
}
