//! ACME challenges: tokens that a certificate authority looks for in our zones.
//!
//! For: `ACME.SET` and its like: checked, journaled, and answered at once. Not for: what is answered
//! (`whered-dns`).
//!
//! Invariants: what is answered is also in the journal, or on its way there; a token is only taken
//! where a zone of ours answers with it. At the same time: changes exclude each other and reloads;
//! readers take a pointer. Cost: a change copies all challenges, of which there are few.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use whered_dns::message::{Message, Query};
use whered_dns::{
    CHALLENGES_MAX, Challenges, Choice, Context, Name, RecordType, Transport, Zones, answer,
};

use crate::engine::Engine;
use crate::error::WriteError;
use crate::log::Written;
use crate::operation::Operation;

/// What is answered with now; nothing when there are no challenges.
#[derive(Default)]
pub(crate) struct LiveChallenges(ArcSwapOption<Challenges>);

impl LiveChallenges {
    /// Answers with these from now on.
    pub(crate) fn show(&self, challenges: &Challenges) {
        let shown = (!challenges.is_empty()).then(|| Arc::new(challenges.clone()));
        self.0.store(shown);
    }
}

impl Engine {
    /// The challenges that questions are answered with; `None` when there are none.
    pub fn challenges(&self) -> Option<Arc<Challenges>> {
        self.live_challenges.0.load_full()
    }

    /// Adds a token to a name, with or without `_acme-challenge.` before it; whether it is new.
    ///
    /// # Errors
    /// One line: no token, no name, no zone of ours answers there, too many, or the journal refuses.
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
        let (_passage, room) = self.log.enter(operation.size_bytes())?;
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
        let (_passage, room) = self.log.enter(operation.size_bytes())?;
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

fn owner(name: &str) -> Result<Name, WriteError> {
    let wrong =
        |error: whered_dns::NameError| WriteError::Refused(format!("the name '{name}' {error}"));
    Challenges::owner(&name.parse::<Name>().map_err(wrong)?).map_err(wrong)
}

/// Whether a question for the token would be answered with it: that is not so outside the zones,
/// below a delegation, and where the zone has an alias.
fn is_answered(zones: &Zones, owner: &Name, token: &str) -> bool {
    let mut challenges = Challenges::default();
    challenges.set(owner, token, u64::MAX);
    let nobody = std::net::IpAddr::from([127, 0, 0, 1]);
    let context = Context { challenges: Some(&challenges), ..Context::new(Transport::Tcp, nobody) };
    let query = Query::new(owner, RecordType::TXT).build();
    let mut reply = Vec::new();
    let mut choose = |_, _: &_| Choice::of(None, 0);
    answer(zones, &query, &context, &mut choose, &mut reply);
    let is_text = |message: Message| {
        let mut own = message.answers.iter().filter(|record| record.owner == *owner);
        own.any(|record| record.data.get(1..) == Some(token.as_bytes()))
    };
    Message::read(&reply).is_ok_and(is_text)
}
