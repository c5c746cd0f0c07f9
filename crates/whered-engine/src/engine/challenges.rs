//! Changes of ACME challenges by commands.
//!
//! For: `ACME.SET` and its like: checked, journaled, and answered at once. Not for: what is
//! answered (`zones/challenges.rs`, `whered-dns`).
//!
//! Invariants: what is answered is also in the journal, or on its way there; a token is only taken
//! where a zone of ours answers with it. At the same time: changes exclude each other and reloads
//! by `control`.

use std::sync::Arc;

use whered_dns::{CHALLENGES_MAX, Challenges};

use super::Engine;
use crate::error::WriteError;
use crate::journal::log::Written;
use crate::journal::operation::Operation;
use crate::zones::challenges::{is_answered, owner};

impl Engine {
    /// The challenges that questions are answered with; `None` when there are none.
    pub fn challenges(&self) -> Option<Arc<Challenges>> {
        self.live_challenges.load()
    }

    /// Adds a token to a name, with or without `_acme-challenge.` before it; whether it is new.
    ///
    /// # Errors
    /// One line: no token, no name, no zone of ours answers there, too many, or the journal
    /// refuses.
    pub fn set_challenge(
        &self,
        name: &str,
        token: &str,
        expires_at_millis: u64,
    ) -> Result<Written<bool>, WriteError> {
        let owner = owner(name)?;
        if !Challenges::is_token(token) {
            return Err(WriteError::Refused(format!(
                "'{}' is no token; allowed: 43 characters of base64url",
                token.escape_debug()
            )));
        }
        let owner_text = owner.to_string();
        let operation =
            Operation::SetChallenge { owner: owner_text.as_str().into(), token, expires_at_millis };
        let (_guard, room) = self.log.enter(operation.size_bytes())?;
        let mut control = self.control();
        control.changes.challenges.forget(self.now_millis());
        let mut next = control.changes.challenges.clone();
        let is_new = next.set(&owner, token, expires_at_millis);
        if next.len() > CHALLENGES_MAX {
            return Err(WriteError::Refused(format!(
                "there are {CHALLENGES_MAX} challenges; allowed: {CHALLENGES_MAX}"
            )));
        }
        if !is_answered(self.generation().zones(), &owner, token) {
            return Err(WriteError::Refused(format!(
                "no zone of this server answers at '{owner_text}' itself"
            )));
        }
        self.live_challenges.show(&next);
        control.changes.challenges = next;
        Ok(Written { value: is_new, ticket: room.append(&operation) })
    }

    /// Removes a token of a name, or all of them; gives how many.
    ///
    /// # Errors
    /// No name, or the journal refuses.
    pub fn remove_challenge(
        &self,
        name: &str,
        token: Option<&str>,
    ) -> Result<Written<usize>, WriteError> {
        let owner = owner(name)?;
        let owner_text = owner.to_string();
        let operation = Operation::RemoveChallenge { owner: owner_text.into(), token };
        let (_guard, room) = self.log.enter(operation.size_bytes())?;
        let mut control = self.control();
        control.changes.challenges.forget(self.now_millis());
        let removed = control.changes.challenges.remove(&owner, token);
        self.live_challenges.show(&control.changes.challenges);
        let ticket = if removed > 0 { room.append(&operation) } else { room.unused() };
        Ok(Written { value: removed, ticket })
    }

    /// Forgets challenges whose end has come, so that questions need not look at them.
    pub fn forget_challenges(&self) {
        if self.challenges().is_some() {
            let mut control = self.control();
            control.changes.challenges.forget(self.now_millis());
            self.live_challenges.show(&control.changes.challenges);
        }
    }
}
