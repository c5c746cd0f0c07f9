//! Who may change what in a zone by UPDATE.
//!
//! Not for: making updates (`update`), reading the configuration (`config`).

use whered_dns::update::UpdateStep;
use whered_dns::{Name, RecordType};

/// Who may change what in a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdatePolicy {
    /// The TSIG key.
    pub key: Name,
    /// The names that it may change; none: all of the zone.
    pub names: Vec<NamePattern>,
    /// The types; none: all.
    pub types: Vec<RecordType>,
    /// It may set and remove tokens at names of ACME challenges, and nothing else.
    pub acme: bool,
}

/// Names of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamePattern {
    /// This one.
    Exact(Name),
    /// All below this one.
    Below(Name),
}

impl NamePattern {
    fn matches(&self, name: &Name) -> bool {
        match self {
            NamePattern::Exact(own) => own == name,
            NamePattern::Below(above) => name != above && name.is_within(above),
        }
    }
}

impl UpdatePolicy {
    /// Whether it allows a step; `is_token`: the update is about tokens of challenges alone.
    pub(super) fn allows(&self, step: &UpdateStep, is_token: bool) -> bool {
        let (owner, record_type) = (step.owner(), step.record_type());
        let is_of_name =
            self.names.is_empty() || self.names.iter().any(|pattern| pattern.matches(owner));
        // Who may remove all of a name may change all types.
        let is_of_type = self.types.is_empty()
            || record_type.is_some_and(|record_type| self.types.contains(&record_type));
        is_of_name && is_of_type && (is_token || !self.acme)
    }
}
