//! Combinations of sorted sets: the scores of Redis, and a naive twin.

use std::collections::BTreeMap;

use whered_random::Random;

use super::*;

type Twin = BTreeMap<Vec<u8>, f64>;

fn value(members: &Twin) -> Value {
    Value::of_scores(members.iter().map(|(member, score)| (&member[..], *score)))
}

fn combination(
    operation: CombineOperation,
    weights: &[f64],
    aggregate: Aggregate,
) -> Combination<'static> {
    Combination { operation, keys: Vec::new(), weights: weights.to_vec(), aggregate }
}

fn combined(of: &Combination<'_>, sources: &[Option<Twin>]) -> Vec<(Vec<u8>, f64)> {
    let values: Vec<Option<Value>> =
        sources.iter().map(|source| source.as_ref().map(value)).collect();
    let sets: Vec<_> = values.iter().map(|value| value.as_ref().and_then(Value::ordered)).collect();
    of.of(&sets).into_iter().map(|(member, score)| (member.to_vec(), score)).collect()
}

fn set(members: &[(&str, f64)]) -> Option<Twin> {
    Some(members.iter().map(|(member, score)| (member.as_bytes().to_vec(), *score)).collect())
}

fn named(members: &[(&str, f64)]) -> Vec<(Vec<u8>, f64)> {
    members.iter().map(|(member, score)| (member.as_bytes().to_vec(), *score)).collect()
}

#[test]
fn infinities_and_weights_give_no_score_that_is_no_number() {
    let (inf, neg) = (f64::INFINITY, f64::NEG_INFINITY);
    let sources =
        [set(&[("a", inf), ("b", 0.0), ("c", inf)]), set(&[("a", neg), ("b", 1.0), ("c", 0.0)])];
    let sum = combination(CombineOperation::Union, &[], Aggregate::Sum);
    assert_eq!(combined(&sum, &sources), named(&[("a", 0.0), ("b", 1.0), ("c", inf)]));
    // Infinity times zero is 0 in a union and in the first source of an intersection.
    let weighted = combination(CombineOperation::Union, &[0.0, 1.0], Aggregate::Sum);
    assert_eq!(combined(&weighted, &sources), named(&[("a", neg), ("c", 0.0), ("b", 1.0)]));
    // In a later source it is no number: a sum becomes 0, and neither the lowest nor the highest.
    let common = [set(&[("m", 5.0)]), set(&[("m", inf), ("z", 1.0)])];
    for (aggregate, expected) in
        [(Aggregate::Sum, 0.0), (Aggregate::Lowest, 5.0), (Aggregate::Highest, 5.0)]
    {
        let inter = combination(CombineOperation::Intersection, &[1.0, 0.0], aggregate);
        assert_eq!(combined(&inter, &common), named(&[("m", expected)]));
    }
}

#[test]
fn a_missing_source_is_an_empty_one() {
    let sources = [set(&[("a", 1.5)]), None];
    let of = |operation| combined(&combination(operation, &[], Aggregate::Sum), &sources);
    assert_eq!(of(CombineOperation::Union), named(&[("a", 1.5)]));
    assert_eq!(of(CombineOperation::Difference), named(&[("a", 1.5)]));
    assert!(of(CombineOperation::Intersection).is_empty());
    let reversed = [None, set(&[("a", 1.5)])];
    let difference = combination(CombineOperation::Difference, &[], Aggregate::Sum);
    assert!(combined(&difference, &reversed).is_empty());
}

/// The same by membership tests alone.
fn naive(of: &Combination<'_>, sources: &[Option<Twin>]) -> Vec<(Vec<u8>, f64)> {
    let empty = Twin::new();
    let mut weighted: Vec<(&Twin, f64)> = sources
        .iter()
        .enumerate()
        .map(|(index, it)| {
            (it.as_ref().unwrap_or(&empty), of.weights.get(index).copied().unwrap_or(1.0))
        })
        .collect();
    let first = weighted[0].0;
    let members: std::collections::BTreeSet<&Vec<u8>> =
        weighted.iter().flat_map(|(source, _)| source.keys()).collect();
    if of.operation != CombineOperation::Difference {
        weighted.sort_by_key(|(source, _)| source.len());
    }
    let mut result = Vec::new();
    for member in members {
        let scores: Vec<f64> = weighted
            .iter()
            .filter_map(|(source, weight)| source.get(member).map(|score| score * weight))
            .collect();
        let is_in = match of.operation {
            CombineOperation::Union => true,
            CombineOperation::Intersection => scores.len() == sources.len(),
            CombineOperation::Difference => first.contains_key(member) && scores.len() == 1,
        };
        let total = scores.iter().copied().reduce(|one, other| match of.aggregate {
            Aggregate::Sum => one + other,
            Aggregate::Lowest => one.min(other),
            Aggregate::Highest => one.max(other),
        });
        result.extend(total.filter(|_| is_in).map(|total| (member.clone(), total)));
    }
    result.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    result
}

#[test]
fn combinations_are_those_of_membership_tests() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let mut source = |most: u64| -> Option<Twin> {
            let member = |random: &mut Random| format!("m{}", random.below(60)).into_bytes();
            let len = random.below(most);
            (len > 0).then(|| {
                (0..len).map(|_| (member(&mut random), random.below(4000) as f64 / 8.0)).collect()
            })
        };
        let sources: Vec<Option<Twin>> = [80, 8, 40, 200].map(&mut source).to_vec();
        let weights = [1.0, 2.0, 0.5, 3.0];
        for operation in
            [CombineOperation::Union, CombineOperation::Intersection, CombineOperation::Difference]
        {
            for aggregate in [Aggregate::Sum, Aggregate::Lowest, Aggregate::Highest] {
                for count in 1..=sources.len() {
                    let is_difference = operation == CombineOperation::Difference;
                    let weights = if is_difference { &[][..] } else { &weights[..count] };
                    let of = combination(operation, weights, aggregate);
                    assert_eq!(combined(&of, &sources[..count]), naive(&of, &sources[..count]));
                }
            }
        }
        let values: Vec<Option<Value>> = sources.iter().map(|it| it.as_ref().map(value)).collect();
        let sets: Vec<_> = values.iter().map(|it| it.as_ref().and_then(Value::ordered)).collect();
        let all = combination(CombineOperation::Intersection, &[], Aggregate::Sum).of(&sets).len();
        assert_eq!(Combination::count_common(&sets, usize::MAX), all);
        assert_eq!(Combination::count_common(&sets, 1), all.min(1));
    }
}
