//! How one key replaces another without a moment at which a resolver finds a chain broken, and the
//! small text in which that is kept (RFC 6781, 4.1; RFC 7583, 3.3).
//!
//! Not for: files, clocks, and whether the parent zone has the new DS (the operator says so).
//!
//! ```text
//! step      DNSKEY    signed keys  signed data  CDS    lasts until
//! publish   old, new  old, new     old          old    no cache has DNSKEY without the new key
//! sign      old, new  old, new     old, new     new    the operator has seen the new DS
//! parent    old, new  old, new     old, new     new    no cache has the old DS, or data that the
//!                                                      old key alone has signed
//! (none)    new       new          new          new
//! ```
//!
//! Invariants: a wait begins when the zone is served that way, not when it was asked for. Two keys
//! of one algorithm; zones with a separate key for data are not rolled over here.
//! Concurrency: a value. Cost: nothing.
#![deny(clippy::indexing_slicing)]

use std::fmt;

use super::SigningKey;

/// Added to each wait: the time that secondaries may take to get a zone.
const MARGIN_SECONDS: u64 = 3600;
/// The most lines of a text.
const LINE_COUNT_MAX: usize = 1000;
/// The TTL of a parent zone's DS that is taken where the operator names none: a day.
pub const DS_TTL_SECONDS: u64 = 86_400;

/// The identity of a key in its zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyId {
    /// The algorithm's number.
    pub algorithm: u8,
    /// The tag.
    pub tag: u16,
}

impl KeyId {
    /// That of a key.
    #[must_use]
    pub fn of(key: &SigningKey) -> KeyId {
        KeyId { algorithm: key.algorithm().number(), tag: key.tag() }
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.algorithm, self.tag)
    }
}

/// The role of a key in its zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyUse {
    /// It signs DNSKEY, CDS and CDNSKEY.
    pub signs_keys: bool,
    /// It signs everything else.
    pub signs_data: bool,
    /// CDS and CDNSKEY are of it: the parent zone is to have its DS.
    pub is_for_parent: bool,
}

/// How far a rollover is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloverStep {
    /// The new key stands among DNSKEY.
    Publish,
    /// Both keys sign, CDS is of the new one.
    Sign,
    /// The parent zone has the new DS.
    Parent,
}

impl RolloverStep {
    /// Its word in the text.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            RolloverStep::Publish => "publish",
            RolloverStep::Sign => "sign",
            RolloverStep::Parent => "parent",
        }
    }
}

/// Since when a step is served, and the earliest end of it, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepTimes {
    /// When it was served first.
    pub since: u64,
    /// When caches have nothing that contradicts the next step.
    pub until: u64,
}

/// One key in the place of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rollover {
    /// The key that goes.
    pub old: KeyId,
    /// The key that stays.
    pub new: KeyId,
    /// How far it is.
    pub step: RolloverStep,
    /// The times of the step; none until the zone is served that way.
    pub times: Option<StepTimes>,
}

/// The states of a zone's keys: the rollover that is going on, and keys that are retired.
///
/// ```
/// use whered_dns::{KeyId, KeyStates, RolloverStep};
/// let [old, new] = [1, 2].map(|tag| KeyId { algorithm: 13, tag });
/// let mut states = KeyStates::default();
/// states.begin(old, new)?;
/// // Served since 1000; answers are kept for an hour, and an hour is added.
/// assert!(states.advance(1000, true, 3600));
/// assert!(!states.advance(8199, true, 3600));
/// assert!(states.advance(8200, true, 3600));
/// assert_eq!(states.rollover.map(|rollover| rollover.step), Some(RolloverStep::Sign));
/// assert_eq!(KeyStates::read(&states.to_string()), Ok(states));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyStates {
    /// The rollover that is going on.
    pub rollover: Option<Rollover>,
    /// Keys that are not used any more.
    pub retired: Vec<KeyId>,
}

impl KeyStates {
    /// Begins to replace a key.
    ///
    /// # Errors
    /// A rollover is going on, or the keys are of two algorithms.
    pub fn begin(&mut self, old: KeyId, new: KeyId) -> Result<(), String> {
        if let Some(Rollover { old, new, .. }) = &self.rollover {
            return Err(format!(
                "the key {old} is being replaced by {new}; one rollover is allowed"
            ));
        }
        if old.algorithm != new.algorithm || old == new {
            return Err(format!(
                "{old} cannot be replaced by {new}; a new key of its algorithm is allowed"
            ));
        }
        self.rollover = Some(Rollover { old, new, step: RolloverStep::Publish, times: None });
        Ok(())
    }

    /// Takes the operator's word that all servers of the parent zone have the new DS, and not the
    /// old one, whose TTL this is.
    ///
    /// # Errors
    /// No rollover waits for it.
    pub fn parent_has_new(&mut self, now_seconds: u64, ds_ttl_seconds: u64) -> Result<(), String> {
        let Some(rollover) = &mut self.rollover else {
            return Err("no key is being replaced".to_owned());
        };
        let (RolloverStep::Sign, Some(times)) = (rollover.step, rollover.times) else {
            let step = rollover.step.word();
            return Err(format!("the rollover is at the step '{step}', which waits for no DS"));
        };
        let until = now_seconds.saturating_add(ds_ttl_seconds).saturating_add(MARGIN_SECONDS);
        rollover.step = RolloverStep::Parent;
        rollover.times = Some(StepTimes { since: now_seconds, until: until.max(times.until) });
        Ok(())
    }

    /// Goes on if it is time: whether anything has changed. `is_served` says whether the zone is
    /// served as the step wants it; answers of the zone are kept for `ttl_seconds` at most.
    pub fn advance(&mut self, now_seconds: u64, is_served: bool, ttl_seconds: u32) -> bool {
        let Some(rollover) = &mut self.rollover else { return false };
        match (rollover.times, rollover.step) {
            (None, _) if is_served => {
                let wait = u64::from(ttl_seconds) + MARGIN_SECONDS;
                let until = now_seconds.saturating_add(wait);
                rollover.times = Some(StepTimes { since: now_seconds, until });
                true
            }
            (Some(times), RolloverStep::Publish) if now_seconds >= times.until => {
                (rollover.step, rollover.times) = (RolloverStep::Sign, None);
                true
            }
            (Some(times), RolloverStep::Parent) if now_seconds >= times.until => {
                self.retired.push(rollover.old);
                self.rollover = None;
                true
            }
            _ => false,
        }
    }

    /// The role of a key; none for one that is retired. `has_data_key` says whether the zone has
    /// keys for data alone, without the bit of an entry point.
    #[must_use]
    pub fn key_use(&self, key: KeyId, is_entry_point: bool, has_data_key: bool) -> Option<KeyUse> {
        if self.retired.contains(&key) {
            return None;
        }
        let usual = KeyUse {
            signs_keys: is_entry_point,
            signs_data: !is_entry_point || !has_data_key,
            is_for_parent: is_entry_point,
        };
        let Some(rollover) = self.rollover else { return Some(usual) };
        let is_published = rollover.step == RolloverStep::Publish;
        Some(match key {
            key if key == rollover.new && is_published => {
                KeyUse { signs_data: false, is_for_parent: false, ..usual }
            }
            key if key == rollover.old && !is_published => KeyUse { is_for_parent: false, ..usual },
            _ => usual,
        })
    }

    /// Reads the text that `Display` writes.
    ///
    /// # Errors
    /// The first line that is wrong: its number, what was found and what is allowed.
    pub fn read(text: &str) -> Result<KeyStates, String> {
        let mut states = KeyStates::default();
        let (mut old, mut new, mut step, mut times) = (None, None, None, None);
        for (line, number) in text.lines().zip(1_usize..) {
            let allowed = "retired, old and new with ALGORITHM TAG; step publish, sign or parent; \
                           served FROM UNTIL";
            let wrong = || {
                let found: String = line.chars().take(60).collect();
                format!("{number}: found '{}'; allowed: {allowed}", found.escape_debug())
            };
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_new = match words[..] {
                _ if number > LINE_COUNT_MAX => return Err(wrong()),
                [] => true,
                [word, ..] if word.starts_with(';') => true,
                ["retired", algorithm, tag] => {
                    states.retired.push(key_id(algorithm, tag).ok_or_else(wrong)?);
                    true
                }
                ["old", algorithm, tag] => {
                    old.replace(key_id(algorithm, tag).ok_or_else(wrong)?).is_none()
                }
                ["new", algorithm, tag] => {
                    new.replace(key_id(algorithm, tag).ok_or_else(wrong)?).is_none()
                }
                ["step", word] => {
                    let steps = [RolloverStep::Publish, RolloverStep::Sign, RolloverStep::Parent];
                    let found = steps.into_iter().find(|step| step.word() == word);
                    step.replace(found.ok_or_else(wrong)?).is_none()
                }
                ["served", since, until] => {
                    let (Ok(since), Ok(until)) = (since.parse(), until.parse()) else {
                        return Err(wrong());
                    };
                    times.replace(StepTimes { since, until }).is_none()
                }
                _ => return Err(wrong()),
            };
            if !is_new {
                return Err(wrong());
            }
        }
        states.rollover = match (old, new, step) {
            (Some(old), Some(new), Some(step)) => Some(Rollover { old, new, step, times }),
            (None, None, None) if times.is_none() => None,
            _ => return Err("1: found a part of a rollover; allowed: old, new and step".to_owned()),
        };
        // The end of the last step has no beginning that could be noted later.
        match states.rollover {
            Some(Rollover { step: RolloverStep::Parent, times: None, .. }) => {
                Err("1: found the step 'parent' without its times; allowed: served FROM UNTIL"
                    .to_owned())
            }
            _ => Ok(states),
        }
    }
}

fn key_id(algorithm: &str, tag: &str) -> Option<KeyId> {
    Some(KeyId { algorithm: algorithm.parse().ok()?, tag: tag.parse().ok()? })
}

/// The text for the file.
impl fmt::Display for KeyStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "; The states of a zone's keys, written by whered.")?;
        for key in &self.retired {
            writeln!(f, "retired {key}")?;
        }
        let Some(Rollover { old, new, step, times }) = &self.rollover else { return Ok(()) };
        writeln!(f, "old {old}\nnew {new}\nstep {}", step.word())?;
        match times {
            Some(StepTimes { since, until }) => writeln!(f, "served {since} {until}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: KeyId = KeyId { algorithm: 13, tag: 1 };
    const NEW: KeyId = KeyId { algorithm: 13, tag: 65_535 };

    /// The records of the zone and its parent at a moment: keys with their signers, signers of
    /// data, DS.
    #[derive(Clone)]
    struct Moment {
        keys: Vec<KeyId>,
        key_signers: Vec<KeyId>,
        data_signers: Vec<KeyId>,
        ds: KeyId,
    }

    fn moment(states: &KeyStates, ds: KeyId) -> Moment {
        let used = [OLD, NEW].map(|key| (key, states.key_use(key, true, false)));
        // Before the rollover the new key is not there.
        let is_there = |key: KeyId| key == OLD || *states != KeyStates::default();
        let those = |wanted: fn(&KeyUse) -> bool| -> Vec<KeyId> {
            let used = used.iter().filter(|(key, _)| is_there(*key));
            used.filter(|(_, used)| used.as_ref().is_some_and(wanted))
                .map(|(key, _)| *key)
                .collect()
        };
        Moment {
            keys: those(|_| true),
            key_signers: those(|used| used.signs_keys),
            data_signers: those(|used| used.signs_data),
            ds,
        }
    }

    /// Whether a resolver finds a chain that took DS, keys and data at these moments.
    fn is_valid(ds: &Moment, keys: &Moment, data: &Moment) -> bool {
        let is_entered = keys.keys.contains(&ds.ds) && keys.key_signers.contains(&ds.ds);
        is_entered && data.data_signers.iter().any(|key| keys.keys.contains(key))
    }

    #[test]
    fn every_cache_finds_a_chain_at_every_moment_of_a_rollover() {
        const TTL: u64 = 7200;
        const DS_TTL: u64 = DS_TTL_SECONDS;
        const DAY_SECONDS: u64 = 86_400;
        const MINUTES: u64 = 10;
        let mut states = KeyStates::default();
        let (mut ds, mut moments) = (OLD, Vec::new());
        let mut steps = Vec::new();
        for now in (0..4 * DAY_SECONDS).step_by(60 * MINUTES as usize) {
            if now == DAY_SECONDS / 2 {
                states.begin(OLD, NEW).expect("nothing else goes on");
            }
            let rollover = states.rollover;
            let is_signing = rollover.is_some_and(|at| at.step == RolloverStep::Sign);
            // The operator is as quick as can be.
            if is_signing && rollover.is_some_and(|at| at.times.is_some()) {
                ds = NEW;
                states.parent_has_new(now, DS_TTL).expect("it waits for that");
            }
            states.advance(now, true, TTL as u32);
            states = KeyStates::read(&states.to_string()).expect("its own text");
            steps.push(states.rollover.map(|rollover| rollover.step));
            moments.push(moment(&states, ds));
        }
        steps.dedup();
        let (publish, sign, parent) =
            (RolloverStep::Publish, RolloverStep::Sign, RolloverStep::Parent);
        assert_eq!(steps, [None, Some(publish), Some(sign), Some(parent), None]);
        let step = 60 * MINUTES as usize;
        let (kept, ds_kept) = (TTL as usize / step, DS_TTL as usize / step);
        for now in 0..moments.len() {
            // Each is of any moment that a cache may still have it from.
            for ds in &moments[now.saturating_sub(ds_kept)..=now] {
                for keys in &moments[now.saturating_sub(kept)..=now] {
                    for data in &moments[now.saturating_sub(kept)..=now] {
                        assert!(is_valid(ds, keys, data), "at {} minutes", now as u64 * MINUTES);
                    }
                }
            }
        }
        let last = moments.last().expect("some");
        assert_eq!((&last.keys[..], &last.data_signers[..]), (&[NEW][..], &[NEW][..]));
    }

    #[test]
    fn a_step_that_is_not_served_waits_and_the_parent_is_waited_for() {
        let mut states = KeyStates::default();
        assert!(states.parent_has_new(0, 0).is_err());
        states.begin(OLD, NEW).expect("nothing goes on");
        assert!(states.begin(OLD, NEW).is_err());
        assert!(!states.advance(u64::MAX, false, 60), "nobody serves it");
        assert!(states.advance(0, true, 60));
        assert!(states.parent_has_new(0, 0).is_err());
        assert!(states.advance(3660, true, 60));
        assert!(states.parent_has_new(3660, 0).is_err(), "the new CDS is not served yet");
        assert!(states.advance(3660, true, 60));
        assert!(!states.advance(u64::MAX, true, 60), "only the operator knows of the DS");
        let mut other = KeyStates::default();
        assert!(other.begin(OLD, KeyId { algorithm: 15, tag: 9 }).is_err());
        assert!(other.begin(OLD, OLD).is_err());
    }

    #[test]
    fn wrong_texts_are_refused_with_their_line_and_cut_ones_never_panic() {
        for (text, expected) in [
            ("old 13", "1: found 'old 13'"),
            ("; a comment\nold 13 65536", "2: found 'old 13 65536'"),
            ("old 13 1\nold 13 2", "2: found 'old 13 2'"),
            ("step done", "1: found 'step done'"),
            ("served 1", "1: found"),
            ("old 13 1\nnew 13 2", "a part of a rollover"),
            ("old 13 1\nnew 13 2\nstep parent", "without its times"),
        ] {
            let error = KeyStates::read(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
        let mut states =
            KeyStates { retired: vec![KeyId { algorithm: 15, tag: 7 }], ..KeyStates::default() };
        states.begin(OLD, NEW).expect("nothing goes on");
        states.advance(5, true, 60);
        let text = states.to_string();
        for end in 0..text.len() {
            let _read = KeyStates::read(&text[..end]);
        }
        assert_eq!(KeyStates::read(&text), Ok(states));
    }
}
