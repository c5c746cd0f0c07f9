//! ACME challenges: tokens that a certificate authority looks for in our zones.
//!
//! For: which challenges are answered now, and whether a zone of ours would answer with one. Not
//! for: keeping them (`engine/challenges.rs`), and what is answered (`whered-dns`).
//!
//! At the same time: readers take a pointer. Cost: a change copies all challenges; they are few.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use whered_dns::message::{Message, Query};
use whered_dns::{Challenges, Choice, Context, Name, RecordType, Transport, Zones, answer};

use crate::error::WriteError;

/// What is answered with now; nothing when there are no challenges.
#[derive(Default)]
pub(crate) struct LiveChallenges(ArcSwapOption<Challenges>);

impl LiveChallenges {
    /// What questions are answered with; `None` when there are no challenges.
    pub(crate) fn load(&self) -> Option<Arc<Challenges>> {
        self.0.load_full()
    }

    /// Answers with these from now on.
    pub(crate) fn show(&self, challenges: &Challenges) {
        let shown = (!challenges.is_empty()).then(|| Arc::new(challenges.clone()));
        self.0.store(shown);
    }
}

/// The name that a challenge of this name is at, with or without `_acme-challenge.` before it.
pub(crate) fn owner(name: &str) -> Result<Name, WriteError> {
    let wrong =
        |error: whered_dns::NameError| WriteError::Refused(format!("the name '{name}' {error}"));
    Challenges::owner(&name.parse::<Name>().map_err(wrong)?).map_err(wrong)
}

/// Whether a question for the token would be answered with it: that is not so outside the zones,
/// below a delegation, and where the zone has an alias.
pub(crate) fn is_answered(zones: &Zones, owner: &Name, token: &str) -> bool {
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
