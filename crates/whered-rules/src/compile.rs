//! A ruleset compiled for matching: from a packet to the rule that decides, and why.
//!
//! For: putting the normal form and the classifier together. Not for: either's own work, reading
//! files, threads and clocks: the time is an argument.
//!
//! ```text
//! Ruleset ──normal──► entries for IPv4 ──► classify::Planner ─┐
//!                     entries for IPv6 ──► classify::Planner ─┼─► Matcher
//! Packet + live sets ──► one cache line of numbers ───────────┘──► Outcome, as naive gives it
//! ```
//!
//! Invariants: [`Matcher::find`] equals [`crate::naive::evaluate`] for every packet, and
//! [`Matcher::find_batch`] equals it one by one. A matcher is immutable but for
//! [`Matcher::plan_more`]. Cost: a packet's numbers take a hash lookup for each interface name that
//! rules ask for, a lookup in a compiled prefix set for each side with places (batches look them up
//! together), and a question for each live set; the rest is the classifier's.

use std::sync::Arc;
use std::time::Duration;

use crate::classify::lazy::{self, LazyFields};
use crate::classify::plan::{Budget, Planner};
use crate::classify::{self, AnyPacket, Condition, Matched, NO_RULE, Rule, Rules};
use crate::error::RulesError;
use crate::layout::{Layout, PlacesAre};
use crate::model::Ruleset;
use crate::naive::{Outcome, Sets};
use crate::normal::{Conjunction, Effect, NormalForm, NormalRule, Options, Places};
use crate::packet::{Family, Packet};
pub use crate::packets::BATCH;
use crate::packets::{Classifier, classify_all, classify_one};

/// A compiled ruleset for packets of both families.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
/// use whered_rules::classify::plan::Budget;
/// use whered_rules::compile::Matcher;
/// use whered_rules::{Packet, Verdict, naive, normal, text};
///
/// let rules = "chain input policy drop {\n    proto tcp dport {22 80-89} accept\n}\n";
/// let ruleset = text::read("edge.rules", rules)?;
/// let start = Instant::now();
/// let budget = Budget { time: Duration::from_millis(20), ..Budget::default() };
/// let matcher = Matcher::build(&ruleset, &normal::NoPlaces, budget, &|| start.elapsed())?;
/// let packet = Packet { protocol: 6, destination_port: 80, ..Packet::default() };
/// assert_eq!(matcher.find(&packet, &naive::NoSets).verdict, Verdict::Accept);
/// # Ok::<(), whered_rules::RulesError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Matcher {
    pub(crate) families: [OfFamily; 2],
}

/// Up to this many questions about places a packet, places are lazy fields: each costs some
/// nanoseconds, the first one of a packet a lookup, which all packets need otherwise.
const FEW_QUESTIONS: f64 = 1.0;
/// How many rules are looked at to count them.
const ASKED_STEPS: usize = 4 << 20;

#[derive(Clone, Debug)]
pub(crate) struct OfFamily {
    pub(crate) form: Arc<NormalForm>,
    pub(crate) planner: Planner,
}

impl Matcher {
    /// Flattens and compiles a ruleset.
    ///
    /// # Errors
    ///
    /// Those of [`NormalForm::build`].
    pub fn build(
        ruleset: &Ruleset,
        places: &dyn Places,
        budget: Budget,
        clock: &dyn Fn() -> Duration,
    ) -> Result<Matcher, RulesError> {
        Matcher::build_asking(ruleset, places, budget, clock, FEW_QUESTIONS)
    }

    /// Builds it with places as lazy fields where that is up to this many questions a packet.
    fn build_asking(
        ruleset: &Ruleset,
        places: &dyn Places,
        budget: Budget,
        clock: &dyn Fn() -> Duration,
        few: f64,
    ) -> Result<Matcher, RulesError> {
        let of_family = |family| {
            let mut form = NormalForm::build(ruleset, family, places, Options::default())?;
            let mut rules = lowered_rules(&form);
            if form.has_places() {
                let samples = (ASKED_STEPS / form.rules.len().max(1)).clamp(64, 1024);
                let asked = lazy::asked(&rules, samples);
                if asked.questions > few {
                    form.layout = Layout::of(&form.rules, form.bits.len(), PlacesAre::Words);
                    rules = lowered_rules(&form);
                }
            }
            Ok(OfFamily { form: Arc::new(form), planner: Planner::new(rules, budget, clock) })
        };
        let [v4, v6] = Family::BOTH;
        Ok(Matcher { families: [of_family(v4)?, of_family(v6)?] })
    }

    /// Looks for better forms for so long; gives whether one was found.
    pub fn plan_more(&mut self, time: Duration, clock: &dyn Fn() -> Duration) -> bool {
        // Most rulesets are about one family; the other one's plan is perfect at once.
        let [v4, v6] = &mut self.families;
        let found = v4.planner.plan_more(time, clock);
        v6.planner.plan_more(time, clock) || found
    }

    /// The plan of a family: which form, why, bytes, nanoseconds.
    pub fn info(&self, family: Family) -> &classify::plan::Info {
        self.of(family).planner.info()
    }

    /// Whether nothing is left to be tried.
    pub fn is_planned(&self) -> bool {
        self.families.iter().all(|one| one.planner.is_done())
    }

    /// Whether the slowest form stands for a family because those that would be faster do not fit.
    pub fn is_short_of_memory(&self, family: Family) -> bool {
        self.of(family).planner.is_short_of_memory()
    }

    /// The bytes that the compiled forms take.
    pub fn memory_bytes(&self) -> usize {
        self.families.iter().map(|one| one.planner.compiled().memory_bytes()).sum()
    }

    /// The fate of one packet.
    pub fn find(&self, packet: &Packet<'_>, sets: &dyn Sets) -> Outcome {
        let mut matched = Vec::new();
        let decided = classify_one(self, packet, sets, &mut matched);
        self.of(packet.family()).outcome(decided, &matched, packet)
    }

    /// The fates of packets, in order.
    pub fn find_batch(&self, packets: &[Packet<'_>], sets: &dyn Sets) -> Vec<Outcome> {
        let mut outcomes: Vec<Option<Outcome>> = vec![None; packets.len()];
        classify_all(self, packets, sets, |family, place, decided, matched| {
            outcomes[place] = Some(self.of(family).outcome(decided, matched, &packets[place]));
        });
        outcomes.into_iter().flatten().collect()
    }

    pub(crate) fn of(&self, family: Family) -> &OfFamily {
        match family {
            Family::Ipv4 => &self.families[0],
            Family::Ipv6 => &self.families[1],
        }
    }
}

impl Classifier for Matcher {
    fn form(&self, family: Family) -> &NormalForm {
        &self.of(family).form
    }

    #[inline]
    fn find_packet<A: AnyPacket>(
        &self,
        family: Family,
        packet: &A,
        lazy: impl LazyFields,
        matched: &mut Vec<u32>,
    ) -> u32 {
        let compiled = self.of(family).planner.compiled();
        compiled.find_lazy(packet, lazy, matched).unwrap_or(NO_RULE)
    }

    fn find_packets<A: AnyPacket>(
        &self,
        family: Family,
        packets: &[A],
        lazy: impl LazyFields,
        slots: &mut [u32],
        matched: &mut Matched,
    ) {
        self.of(family).planner.compiled().find_batch_lazy(packets, lazy, slots, matched);
    }
}

impl OfFamily {
    /// The outcome of a packet with these entries: that which decided, or [`classify::NO_RULE`],
    /// and those matched before.
    fn outcome(&self, decided: u32, matched: &[u32], packet: &Packet<'_>) -> Outcome {
        let numbers = matched.iter().chain([&decided]);
        let entries = numbers.filter_map(|&number| self.form.rules.get(number as usize));
        self.form.outcome(entries, packet)
    }
}

fn family_of(family: Family) -> classify::Family {
    match family {
        Family::Ipv4 => classify::Family::V4,
        Family::Ipv6 => classify::Family::V6,
    }
}

/// The entries of a form as the classifier takes them.
fn lowered_rules(form: &NormalForm) -> Rules {
    let rules = form.rules.iter().map(|entry| lowered(form, entry)).collect();
    Rules::new(family_of(form.family), rules)
        .expect("conditions of the normal form are sorted, disjoint and within fields")
}

/// An entry of the normal form as the classifier takes it.
fn lowered(form: &NormalForm, entry: &NormalRule) -> Rule {
    let rule = classified(form, &entry.conditions, &entry.effect);
    let rule = rule.expect("what an entry asks for has a word");
    // What may not match does not end the search.
    Rule { terminal: rule.terminal && entry.guards.is_none(), ..rule }
}

/// Conditions and what happens then, as the classifier takes them; `None` when they ask for what
/// has no word since no entry of the form asks for it.
pub(crate) fn classified(
    form: &NormalForm,
    conditions: &Conjunction,
    effect: &Effect,
) -> Option<Rule> {
    let conditions = conditions.iter().map(|(field, ranges)| {
        let to = form.layout.field(*field)?;
        let mut ranges = ranges.as_slice().to_vec();
        // Beyond a word's largest number there is nothing to tell apart.
        if let (classify::Field::Word(_) | classify::Field::Lazy(_), Some(last)) =
            (to, ranges.last_mut())
            && last.1 == form.domain.largest(*field)
        {
            last.1 = u32::MAX.into();
        }
        Some(Condition { field: to, ranges })
    });
    let terminal = matches!(effect, Effect::Decide(_) | Effect::Policy);
    Some(Rule { conditions: conditions.collect::<Option<_>>()?, terminal, verdict: 0 })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::naive;
    use crate::random::{self, Random, Shape, World};
    use crate::text;

    #[test]
    fn compiled_rulesets_decide_as_the_walk_through_their_chains_does() {
        let start = Instant::now();
        let budget = Budget { time: Duration::from_millis(2), ..Budget::default() };
        let (mut matched, mut lazy, mut in_words, mut open) = (0, 0, 0, 0);
        for seed in 0..220 {
            let mut random = Random::new(seed);
            let shape = if seed < 150 { Shape::FULL } else { Shape::OPEN };
            let ruleset = random::ruleset(&mut random, shape);
            let world = World::new(&mut random);
            let few = if seed % 2 == 0 { FEW_QUESTIONS } else { -1.0 };
            let clock = || start.elapsed();
            let matcher = Matcher::build_asking(&ruleset, &world, budget, &clock, few)
                .expect("no marks are set");
            for form in
                matcher.families.iter().map(|one| &one.form).filter(|form| form.has_places())
            {
                *if form.layout.is_lazy() { &mut lazy } else { &mut in_words } += 1;
            }
            let packets: Vec<_> = (0..150).map(|_| random::packet(&mut random, shape)).collect();
            let found = matcher.find_batch(&packets, &world);
            for (packet, outcome) in packets.iter().zip(found) {
                // What is only passed through is not compiled: nobody decides by it.
                let walked = naive::evaluate(&ruleset, packet, &world);
                let expected = Outcome { passed: Vec::new(), ..walked };
                let text = || format!("seed {seed} {packet:?}\n{}", text::write(&ruleset));
                assert_eq!(outcome, expected, "{}", text());
                assert_eq!(matcher.find(packet, &world), expected, "{}", text());
                matched += outcome.matched.len();
                open += usize::from(outcome.verdict == crate::Verdict::Maybe);
            }
        }
        assert!(matched > 1000 && open > 1000, "{matched} {open}");
        assert!(lazy > 10 && in_words > 10, "{lazy} {in_words}");
    }

    #[test]
    fn more_sets_than_a_packet_has_room_for_are_refused_with_their_number() {
        let tests: Vec<String> =
            (0..40).map(|number| format!("    src @s{number} drop\n")).collect();
        let rules = format!("chain input policy accept {{\n{}}}\n", tests.concat());
        let Ok(ruleset) = text::read("a.rules", &rules) else { panic!("{rules}") };
        let start = Instant::now();
        let built = Matcher::build(&ruleset, &crate::normal::NoPlaces, Budget::default(), &|| {
            start.elapsed()
        });
        let message = built.expect_err("40 sets do not fit").to_string();
        assert!(message.contains("found 40 different sets") && message.contains("32"), "{message}");
    }
}
