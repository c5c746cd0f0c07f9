//! What a policy comes to for a client, told apart by small numbers, and the choice for one query.
//!
//! ```text
//! candidates [2 0 5] ──intern──> number 7 ──(each query)──> choice: the first ones, or at random
//! ```
//!
//! Invariants: two outcomes have the same number exactly when they are equal; a number is never
//! given to another outcome. At the same time: any number of threads; a reader never waits.
//! Cost: a choice of one site in order is a copy; one by weight a walk over the candidates.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use whered_dns::{ANSWERS_MAX, Choice, ChoiceVerdict};

use crate::steering::pool::Site;
use crate::sync;

/// What is to be done for all clients that a policy comes to the same for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// Sites in order, of which the first ones are answered, or some at random by weight.
    Sites(Box<[u16]>),
    /// The query is refused.
    Refuse,
    /// The query is dropped.
    Drop,
}

/// Chunks of twice the size of the one before: what was read stays where it is.
const FIRST_CHUNK: usize = 64;
const CHUNKS: usize = 26;

/// The outcomes of one view, by number.
pub(super) struct Outcomes {
    numbers: Mutex<HashMap<Outcome, u32>>,
    chunks: [OnceLock<Box<[OnceLock<KnownOutcome>]>>; CHUNKS],
}

/// An outcome, ready to be chosen from.
pub(super) struct KnownOutcome {
    outcome: Outcome,
    /// For weighted choices: the weights of the sites, and their sum.
    weights: Box<[u32]>,
    /// Of the same sites a hash of each name.
    names: Box<[u64]>,
}

impl Outcomes {
    pub(super) fn new() -> Outcomes {
        Outcomes { numbers: Mutex::default(), chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    /// The number of an outcome.
    pub(super) fn intern(&self, outcome: Outcome, sites: Option<&[Site]>) -> u32 {
        let mut numbers = sync::lock(&self.numbers);
        if let Some(number) = numbers.get(&outcome) {
            return *number;
        }
        let number = numbers.len() as u32;
        let (chunk, at) = place(number);
        let chunk = self.chunks[chunk]
            .get_or_init(|| (0..FIRST_CHUNK << chunk).map(|_| OnceLock::new()).collect());
        let known = KnownOutcome::new(outcome.clone(), sites);
        assert!(chunk[at].set(known).is_ok(), "numbers are given once, under the lock");
        numbers.insert(outcome, number);
        number
    }

    fn get(&self, number: u32) -> &KnownOutcome {
        let (chunk, at) = place(number);
        let known = self.chunks[chunk].get().and_then(|chunk| chunk[at].get());
        known.expect("a number was given only after its outcome was put")
    }

    /// What was interned.
    pub(super) fn outcome(&self, number: u32) -> &Outcome {
        &self.get(number).outcome
    }

    /// How often each site of a weighted outcome comes first.
    pub(super) fn shares(&self, number: u32) -> Vec<f64> {
        self.get(number).shares()
    }

    /// The choice for the clients of a network, which keep it; see [`KnownOutcome::keep`].
    pub(super) fn keep(
        &self,
        number: u32,
        answers: usize,
        scope_length_bits: u8,
        seed: u64,
    ) -> Choice {
        self.get(number).keep(answers, scope_length_bits, seed)
    }

    /// The choice for one query.
    #[inline]
    pub(super) fn choose(&self, number: u32, answers: usize, scope_length_bits: u8) -> Choice {
        self.get(number).choose(answers, scope_length_bits)
    }
}

impl KnownOutcome {
    /// How often each site comes first; none where the order decides.
    pub(super) fn shares(&self) -> Vec<f64> {
        let sum: f64 = self.weights.iter().map(|weight| f64::from(*weight)).sum();
        self.weights.iter().map(|weight| f64::from(*weight) / sum.max(1.0)).collect()
    }

    /// The outcome of a pool; `weighted` has its sites where it takes them by weight.
    pub(super) fn new(outcome: Outcome, weighted: Option<&[Site]>) -> KnownOutcome {
        let weights = match (&outcome, weighted) {
            (Outcome::Sites(list), Some(sites)) => weights(list, sites),
            _ => Box::default(),
        };
        let names = match (&outcome, weighted) {
            (Outcome::Sites(list), Some(sites)) => {
                list.iter().map(|site| text_hash(&sites[usize::from(*site)].name)).collect()
            }
            _ => Box::default(),
        };
        KnownOutcome { outcome, weights, names }
    }

    /// The choice for all clients with a seed: by weight among all seeds, and always the same for
    /// one. When a site comes or goes, no client moves between two others (weighted rendezvous
    /// hashing; Schindelhauer and Schomaker 2005).
    fn keep(&self, answers: usize, scope_length_bits: u8, seed: u64) -> Choice {
        let Outcome::Sites(list) = &self.outcome else {
            return self.choose(answers, scope_length_bits);
        };
        let score = |at: usize| {
            // Above 0 and up to 1.
            let drawn = (mixed(seed ^ self.names[at]) >> 11) as f64 + 1.0;
            let drawn = drawn / (1_u64 << 53) as f64;
            -drawn.ln() / f64::from(self.weights[at])
        };
        let mut scored: Vec<(f64, u16)> =
            list.iter().enumerate().map(|(at, site)| (score(at), *site)).collect();
        let count = answers.min(ANSWERS_MAX).min(scored.len());
        if count < scored.len() {
            scored.select_nth_unstable_by(count, |a, b| a.0.total_cmp(&b.0));
            scored.truncate(count);
        }
        scored.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut choice = Choice::of(None, scope_length_bits);
        scored.iter().for_each(|(_, site)| choice.push(usize::from(*site)));
        choice
    }

    /// The choice for one query.
    #[inline]
    pub(super) fn choose(&self, answers: usize, scope_length_bits: u8) -> Choice {
        let list = match &self.outcome {
            Outcome::Sites(list) => list,
            Outcome::Refuse => return Choice::verdict(ChoiceVerdict::Refuse, scope_length_bits),
            Outcome::Drop => return Choice::verdict(ChoiceVerdict::Drop, scope_length_bits),
        };
        let mut choice = Choice::of(None, scope_length_bits);
        if self.weights.is_empty() {
            list.iter().take(answers).for_each(|site| choice.push(usize::from(*site)));
            return choice;
        }
        draw(&self.weights, answers, &mut random, |at| choice.push(usize::from(list[at])));
        choice
    }
}

/// The hash of a text (FNV-1a), which is the same on every machine: servers of one pool agree.
pub(super) fn text_hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// A number all of whose bits depend on all bits of another (splitmix64).
pub(super) fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The chunk of a number and its place there.
fn place(number: u32) -> (usize, usize) {
    let number = number as usize + FIRST_CHUNK;
    let chunk = (number / FIRST_CHUNK).ilog2() as usize;
    (chunk, number - (FIRST_CHUNK << chunk))
}

/// Draws this many different places, each time by the weights of those that are left.
fn draw(
    weights: &[u32],
    count: usize,
    random: &mut impl FnMut() -> u64,
    mut each: impl FnMut(usize),
) {
    let mut drawn = [usize::MAX; ANSWERS_MAX];
    let mut total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    for turn in 0..count.min(ANSWERS_MAX).min(weights.len()) {
        // The remainder is uneven by 2^-20 at most: weights add up to less than 2^33.
        let mut left = if total > 0 { random() % total } else { 0 };
        let mut found = None;
        for (at, weight) in weights.iter().enumerate() {
            if drawn[..turn].contains(&at) {
                continue;
            }
            found = Some(at);
            match left.checked_sub(u64::from(*weight)) {
                Some(rest) if total > 0 => left = rest,
                _ => break,
            }
        }
        let Some(at) = found else { return };
        drawn[turn] = at;
        total -= u64::from(weights[at]);
        each(at);
    }
}

/// The weights of sites, so bent that no share is above its site's capacity while others have room.
fn weights(list: &[u16], sites: &[Site]) -> Box<[u32]> {
    const WHOLE: f64 = 1_048_576.0;
    let details = || list.iter().map(|site| &sites[usize::from(*site)].details);
    let own: Vec<u32> = details().map(|details| details.weight).collect();
    let sum: u64 = own.iter().map(|weight| u64::from(*weight)).sum();
    if sum == 0 {
        return vec![1; list.len()].into();
    }
    if details().all(|details| details.capacity.is_none()) {
        return own.into();
    }
    let most: Vec<f64> = details().map(|details| details.capacity.unwrap_or(1.0)).collect();
    let mut shares: Vec<Option<f64>> = vec![None; list.len()];
    let mut left = 1.0;
    loop {
        let open = |at: &usize| shares[*at].is_none();
        let weight: f64 = (0..list.len()).filter(open).map(|at| f64::from(own[at])).sum();
        let share = |at: usize| if weight > 0.0 { left * f64::from(own[at]) / weight } else { 0.0 };
        let over: Vec<usize> =
            (0..list.len()).filter(open).filter(|at| share(*at) > most[*at]).collect();
        if over.is_empty() {
            let rest: Vec<f64> = (0..list.len()).map(share).collect();
            let is_full = weight == 0.0;
            let shares =
                shares.iter().zip(rest).zip(&own).map(|((fixed, rest), own)| match fixed {
                    // Where everybody is at the limit, what is left goes by weight again.
                    Some(fixed) if is_full => fixed + left * f64::from(*own) / sum as f64,
                    Some(fixed) => *fixed,
                    None => rest,
                });
            return shares.map(|share| (share * WHOLE).round() as u32).collect();
        }
        for at in over {
            shares[at] = Some(most[at]);
            left -= most[at];
        }
        left = left.max(0.0);
    }
}

/// A number of this thread's own sequence (xorshift*); what is chosen by it is no secret.
fn random() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = const { Cell::new(0) };
    }
    STATE.with(|state| {
        let mut x = state.get();
        if x == 0 {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let nanos = since.map_or(1, |since| since.as_nanos() as u64);
            x = (nanos ^ (std::ptr::from_ref(state) as u64).rotate_left(32)) | 1;
        }
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        state.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steering::pool::SiteDetails;

    fn site(weight: u32, capacity: Option<f64>) -> Site {
        let details = SiteDetails { weight, capacity, ..SiteDetails::default() };
        Site { details, ..Site::new("s", None, vec![]) }
    }

    fn shares(sites: &[Site]) -> Vec<f64> {
        let list: Vec<u16> = (0..sites.len() as u16).collect();
        let weights = weights(&list, sites);
        let sum: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
        weights.iter().map(|weight| (f64::from(*weight) / sum * 1000.0).round() / 1000.0).collect()
    }

    #[test]
    fn capacities_bend_the_shares() {
        assert_eq!(shares(&[site(3, None), site(1, None)]), [0.75, 0.25]);
        assert_eq!(shares(&[site(0, None), site(0, None)]), [0.5, 0.5]);
        assert_eq!(shares(&[site(3, Some(0.5)), site(1, None)]), [0.5, 0.5]);
        let three = [site(8, Some(0.4)), site(1, None), site(1, Some(0.2))];
        assert_eq!(shares(&three), [0.4, 0.4, 0.2]);
        // Both at their limits: the rest goes by weight.
        assert_eq!(shares(&[site(3, Some(0.2)), site(1, Some(0.2))]), [0.65, 0.35]);
    }

    #[test]
    fn clients_that_keep_their_site_are_shared_by_weight_and_move_only_from_a_site_that_is_gone() {
        let names = ["fra", "nyc", "sin", "syd"];
        let sites: Vec<Site> = names
            .iter()
            .zip([5, 0, 3, 2])
            .map(|(name, weight)| Site { name: (*name).to_owned(), ..site(weight, None) })
            .collect();
        let chosen = |list: &[u16], seed: u64| {
            let known = KnownOutcome::new(Outcome::Sites(list.into()), Some(&sites));
            let choice = known.keep(1, 24, mixed(seed));
            choice.first().expect("a site")
        };
        let mut counts = [0; 4];
        for seed in 0..20_000 {
            let all = chosen(&[0, 1, 2, 3], seed);
            counts[all] += 1;
            assert_eq!(chosen(&[3, 2, 1, 0], seed), all, "the order of sites means nothing");
            let without = chosen(&[0, 1, 3], seed);
            assert!(all == 2 || without == all, "seed {seed} moved from {all} to {without}");
        }
        assert_eq!(counts[1], 0, "no weight, no client");
        for (count, share) in counts.iter().zip([0.5, 0.0, 0.3, 0.2]) {
            assert!((f64::from(*count) / 20_000.0 - share).abs() < 0.02, "{counts:?}");
        }
        let known = KnownOutcome::new(Outcome::Sites([0, 1, 2, 3].into()), Some(&sites));
        let all: Vec<usize> = known.keep(4, 24, 7).answers().collect();
        assert_eq!((all.len(), all[3]), (4, 1), "no weight comes last");
    }

    #[test]
    fn draws_follow_the_weights_and_never_repeat() {
        let mut seed = 9_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed >> 20
        };
        let weights = [5, 0, 3, 2];
        let mut counts = [0; 4];
        for _ in 0..10_000 {
            draw(&weights, 1, &mut random, |at| counts[at] += 1);
        }
        let expected = [5000, 0, 3000, 2000];
        assert!(counts.iter().zip(expected).all(|(a, b)| i32::abs(a - b) < 200), "{counts:?}");
        for _ in 0..1000 {
            let mut all = Vec::new();
            draw(&weights, 16, &mut random, |at| all.push(at));
            assert_eq!(all.pop(), Some(1), "no weight comes last");
            all.sort_unstable();
            assert_eq!(all, [0, 2, 3]);
        }
    }

    #[test]
    fn numbers_are_places() {
        let outcomes = Outcomes::new();
        for number in 0..1000_u16 {
            assert_eq!(outcomes.intern(Outcome::Sites([number].into()), None), u32::from(number));
        }
        for number in (0..1000_u16).rev() {
            let outcome = Outcome::Sites([number].into());
            assert_eq!(outcomes.intern(outcome.clone(), None), u32::from(number));
            assert_eq!(*outcomes.outcome(number.into()), outcome);
        }
    }
}
