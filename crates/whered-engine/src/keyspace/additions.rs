//! What additions do to a sorted set's value.
//!
//! For: the conditions of `GEOADD` and `ZADD`, and which members took effect: the journal keeps
//! these, not the conditions. Not for: locks, journal, replies (`members`).
//!
//! Cost: the value's own for each member.

use whered_geo::{Cell, Inserted, LookupHint, Points};

use super::value::Value;

/// How many points are prefetched at once, before the value is held for their addition.
pub(super) const PREFETCH_MAX: usize = 2 * Points::PREFETCH_BATCH;

/// Which members an addition may touch (`NX`, `XX`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AddCondition {
    /// New members are added, known ones are moved.
    #[default]
    Always,
    /// Known members stay where they are.
    OnlyNew,
    /// Unknown members are not added.
    OnlyExisting,
}

/// What an addition did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Added {
    /// Members that were not there before.
    pub added: usize,
    /// Members that were there and have another score now.
    pub moved: usize,
}

/// Which scores `ZADD` may give to which members.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScoreRules {
    /// `NX`, `XX`.
    pub condition: AddCondition,
    /// `GT`: a known member's score only grows.
    pub only_greater: bool,
    /// `LT`: a known member's score only shrinks.
    pub only_less: bool,
}

impl ScoreRules {
    /// Whether a member with this score, or none yet, may get that score.
    pub(super) fn allows(self, old: Option<f64>, new: f64) -> bool {
        match (self.condition, old) {
            (AddCondition::OnlyNew, Some(_)) | (AddCondition::OnlyExisting, None) => false,
            (_, Some(old)) => {
                let too_small = self.only_greater && new <= old;
                let too_large = self.only_less && new >= old;
                !too_small && !too_large
            }
            _ => true,
        }
    }
}

/// Applies additions with scores, and gives those that took effect.
pub(super) fn apply_scores<'a>(
    value: &mut Value,
    scores: &[(&'a [u8], f64)],
    rules: ScoreRules,
) -> (Added, Vec<(&'a [u8], f64)>) {
    let mut added = Added::default();
    let mut kept = Vec::new();
    for (member, score) in scores {
        let old = value.ordered().and_then(|ordered| ordered.score(member));
        if !rules.allows(old, *score) {
            continue;
        }
        match value.insert(member, *score) {
            Inserted::New => added.added += 1,
            Inserted::Moved => added.moved += 1,
            Inserted::Unchanged => continue,
        }
        kept.push((*member, *score));
    }
    (added, kept)
}

/// The points of an addition that took effect.
pub(super) type Kept<'a> = Vec<(&'a [u8], Cell)>;

/// Applies an addition and reports what became of each point. The caller has prefetched up to
/// [`PREFETCH_MAX`] points and passes their lookup hints; more are prefetched in groups here.
/// Returns the points that took effect, unless all did: the journal has effects, not conditions.
pub(super) fn apply_points<'a>(
    value: &mut Value,
    points: &[(&'a [u8], Cell)],
    condition: AddCondition,
    foreseen: &mut [LookupHint; PREFETCH_MAX],
    mut each: impl FnMut(Inserted),
) -> Option<Kept<'a>> {
    let mut kept: Option<Kept<'_>> = None;
    let are_near = points.len() <= PREFETCH_MAX;
    let together = if are_near { PREFETCH_MAX } else { Points::PREFETCH_BATCH };
    for (index, &(member, cell)) in points.iter().enumerate() {
        if !are_near && index.is_multiple_of(together) {
            let end = points.len().min(index + together);
            value.lookup_hints(&points[index..end], foreseen);
        }
        let knows = |value: &Value| value.ordered().is_some_and(|o| o.score(member).is_some());
        let allowed = match condition {
            AddCondition::Always => true,
            AddCondition::OnlyNew => !knows(value),
            AddCondition::OnlyExisting => knows(value),
        };
        let inserted = match allowed {
            true => value.insert_with_hint(member, cell, &foreseen[index % together]),
            false => Inserted::Unchanged,
        };
        if inserted == Inserted::Unchanged {
            kept.get_or_insert_with(|| points[..index].to_vec());
        } else if let Some(kept) = &mut kept {
            kept.push((member, cell));
        }
        each(inserted);
    }
    kept
}
