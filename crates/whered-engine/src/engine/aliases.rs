//! Addresses of aliases, as the server finds them.
//!
//! Not for: what is served of them (`zones/aliases.rs`). At the same time: changes exclude each
//! other and reloads by `control`.

use std::collections::HashSet;
use std::sync::Arc;

use super::Engine;
use crate::error::EngineError;
use crate::zones::aliases::{AliasAddresses, AliasSource};

impl Engine {
    /// The aliases of the configuration, in its order.
    pub fn alias_sources(&self) -> Vec<AliasSource> {
        self.control().setup.aliases.clone()
    }

    /// The addresses that serve for an alias; none while they are not known.
    pub fn alias_addresses(&self, source: &AliasSource) -> Option<AliasAddresses> {
        let key = (source.owner.clone(), source.target.clone());
        self.control().changes.aliases.get(&key).map(|known| (**known).clone())
    }

    /// Serves these addresses for aliases from now on; none: SERVFAIL. What the configuration does
    /// not have any more is left out.
    ///
    /// # Errors
    /// Pools and zones that do not go together.
    pub fn set_alias_addresses(
        &self,
        found: Vec<(AliasSource, Option<AliasAddresses>)>,
    ) -> Result<(), EngineError> {
        let mut control = self.control();
        let key_of = |source: &AliasSource| (source.owner.clone(), source.target.clone());
        let changed: Vec<_> = found
            .into_iter()
            .filter(|(source, addresses)| {
                let known = control.changes.aliases.get(&key_of(source)).map(|known| &**known);
                known != addresses.as_ref() && control.setup.aliases.contains(source)
            })
            .collect();
        if changed.is_empty() {
            return Ok(());
        }
        let listed: HashSet<_> = control.setup.aliases.iter().map(key_of).collect();
        let mut aliases = control.changes.aliases.clone();
        aliases.retain(|key, _| listed.contains(key));
        for (source, addresses) in changed {
            match addresses {
                Some(addresses) => aliases.insert(key_of(&source), Arc::new(addresses)),
                None => aliases.remove(&key_of(&source)),
            };
        }
        let before = std::mem::replace(&mut control.changes.aliases, aliases);
        match self.generation().with_aliases(&control.changes) {
            Ok(next) => self.serve(next),
            Err(error) => {
                control.changes.aliases = before;
                return Err(error);
            }
        }
        Ok(())
    }
}
