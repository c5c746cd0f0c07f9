//! What commands have changed about things that generations are built from.
//!
//! For: keeping it through restarts: operations are recorded here when they are made or replayed,
//! and written out again for snapshots. Not for: applying it (`steering`, `rulesets`, `zones`).
//! Cost: a copy costs a pointer for each ruleset and a token for each challenge.

use std::collections::BTreeMap;
use std::sync::Arc;

use whered_dns::update::ZoneOverlay;
use whered_dns::{Challenges, Name};

use crate::journal::operation::Operation;
use crate::rulesets::command_rules::CommandRules;
use crate::steering::site_changes::SiteChanges;
use crate::zones::aliases::{AliasAddresses, AliasSource, ServedAlias};

/// What updates have made of zones, by their origins.
pub(crate) type Overlays = BTreeMap<Name, Arc<ZoneOverlay>>;

/// Changes of sites, rulesets, challenges and zones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) sites: SiteChanges,
    pub(crate) rules: CommandRules,
    pub(crate) challenges: Challenges,
    pub(crate) overlays: Overlays,
    /// The addresses that were found last of the targets of aliases, by owner and target. No
    /// journal has them.
    pub(crate) aliases: BTreeMap<(Name, Name), Arc<AliasAddresses>>,
}

impl Changes {
    /// Records an operation; gives `false` when it is about none of these.
    ///
    /// # Errors
    /// A change that cannot be made: one line.
    pub(crate) fn record(&mut self, operation: &Operation<'_>) -> Result<bool, String> {
        Ok(self.sites.record(operation)
            || self.rules.record(operation)?
            || self.record_challenge(operation)?
            || self.record_zone(operation)?)
    }

    /// An alias with its addresses, as far as they are known.
    pub(crate) fn alias(&self, source: &AliasSource) -> ServedAlias {
        let key = (source.owner.clone(), source.target.clone());
        ServedAlias { source: source.clone(), addresses: self.aliases.get(&key).cloned() }
    }

    /// Whether commands have changed nothing that a generation is built from.
    pub(crate) fn is_empty(&self) -> bool {
        let mut built_from = self.sites.operations().chain(self.rules.operations());
        built_from.next().is_none() && self.overlays.is_empty()
    }

    /// Operations that record all of this again.
    pub(crate) fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        let challenges = self.challenges.iter().map(|(owner, token, expires_at_millis)| {
            let owner = owner.to_string().into();
            Operation::SetChallenge { owner, token, expires_at_millis }
        });
        let zones = self.overlays.iter().flat_map(|(origin, overlay)| {
            overlay.parts().map(move |parts| {
                let zone = origin.to_string().into();
                Operation::ChangeZone { zone, parts: parts.into() }
            })
        });
        self.sites.operations().chain(self.rules.operations()).chain(challenges).chain(zones)
    }

    fn record_zone(&mut self, operation: &Operation<'_>) -> Result<bool, String> {
        let origin = |zone: &str| {
            zone.parse::<Name>().map_err(|error| format!("changes of the zone '{zone}': {error}"))
        };
        match operation {
            Operation::ChangeZone { zone, parts } => {
                let origin = origin(zone)?;
                let overlay = self.overlays.entry(origin.clone()).or_default();
                Arc::make_mut(overlay).take_parts(parts).map_err(|error| error.to_string())?;
                if overlay.is_empty() {
                    self.overlays.remove(&origin);
                }
            }
            Operation::DiscardZone { zone } => {
                if let Some(overlay) = self.overlays.get_mut(&origin(zone)?) {
                    Arc::make_mut(overlay).discard();
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn record_challenge(&mut self, operation: &Operation<'_>) -> Result<bool, String> {
        let read = |owner: &str| {
            owner.parse::<Name>().map_err(|error| format!("the challenge of '{owner}': {error}"))
        };
        match operation {
            Operation::SetChallenge { owner, token, expires_at_millis } => {
                self.challenges.set(&read(owner)?, token, *expires_at_millis);
            }
            Operation::RemoveChallenge { owner, token } => {
                self.challenges.remove(&read(owner)?, *token);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}
