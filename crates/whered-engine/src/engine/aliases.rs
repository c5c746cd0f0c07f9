//! Addresses of aliases, as the server finds them.
//!
//! Not for: what is served of them (`zones/aliases.rs`). At the same time: changes exclude each
//! other and reloads by `control`.

use std::sync::Arc;

use super::Engine;
use crate::error::EngineError;
use crate::zones::aliases::{AliasAddresses, AliasSource};

impl Engine {
    /// The aliases of the configuration, in its order.
    pub fn alias_sources(&self) -> Vec<AliasSource> {
        self.control().setup.aliases.clone()
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
        let mut changes = control.changes.clone();
        let mut is_changed = false;
        for (source, addresses) in found {
            let key = (source.owner.clone(), source.target.clone());
            let addresses = addresses.map(Arc::new);
            let is_known = control.setup.aliases.contains(&source);
            if !is_known || changes.aliases.get(&key) == addresses.as_ref() {
                continue;
            }
            is_changed = true;
            match addresses {
                Some(addresses) => changes.aliases.insert(key, addresses),
                None => changes.aliases.remove(&key),
            };
        }
        if is_changed {
            let next = self.generation().with_aliases(&changes)?;
            control.changes = changes;
            self.serve(next);
        }
        Ok(())
    }
}
