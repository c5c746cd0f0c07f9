//! `weighted` of gdnsd: the answers that its draws can have, each a site with its probability.
//!
//! ```text
//! addresses           one of them, by weight
//! addresses, multi    each with the odds weight / largest weight
//! groups              one group by the sum of its weights, in it each address as above
//! groups, multi       each group with the odds sum / largest sum, in it one address by weight
//! ```
//! Not for: thresholds of datacenters (`meta`).

use super::resources::{
    ANSWERS_MAX, Choice, Content, PARAMETERS, Parameters, Resources, SiteBuilder, alias_of, needed,
    only_known, push_new,
};
use super::vscf::{Data, Fault, Hash, Value};

/// The most answers that one resource may have.
const OUTCOMES_MAX: usize = 256;
const WEIGHTS: std::ops::Range<u32> = 1..1 << 20;
/// The largest weight of a site here.
const WEIGHT_MAX: f64 = 1_000_000.0;

/// An address or a name with its weight.
struct Item {
    site: SiteBuilder,
    weight: u32,
}

/// What one address family of a resource has: groups of items, one group each where there are none.
struct Family {
    groups: Vec<Vec<Item>>,
    are_grouped: bool,
    is_multi: bool,
}

/// A possible answer: its probability, and the items of it by group and number.
type Outcome = (f64, Vec<(usize, usize)>);

impl Resources<'_> {
    pub(super) fn weighted(
        &self,
        name: &str,
        value: &Value,
        parameters: &Parameters,
    ) -> Result<Content, Fault> {
        let hash = value.hash("a resource of weighted")?;
        let own = parameters.inherit(hash)?;
        let parts: Vec<&Value> =
            ["addrs_v4", "addrs_v6"].iter().filter_map(|key| hash.get(key)).collect();
        if !parts.is_empty() {
            only_known(hash, &["addrs_v4", "addrs_v6"])?;
        }
        let mut content = Content::new(Choice::Weighted, own.up_thresh);
        let mut families = Vec::new();
        for part in if parts.is_empty() { vec![value] } else { parts } {
            families.push(self.family(part, &own, &mut content)?);
        }
        let is_watched = content.steady_seconds.is_some();
        if let [family] = &mut families[..]
            && family.take_one_kind(name, is_watched, &mut content)
        {
            return Ok(content);
        }
        combine(name, value, &families, &mut content)?;
        if is_watched {
            content.notes.push(value.fault(
                "an address that is down takes the combinations with it out; gdnsd draws from the \
                 other addresses, and from all with less weight up than 'up_thresh' asks for",
            ));
        }
        Ok(content)
    }

    /// Reads a family; what is down for ever is left out, or counts as up, as gdnsd has it.
    fn family(
        &self,
        value: &Value,
        outer: &Parameters,
        content: &mut Content,
    ) -> Result<Family, Fault> {
        let hash = value.hash("a family")?;
        let own = outer.inherit(hash)?;
        let mut family = Family { groups: Vec::new(), are_grouped: false, is_multi: own.multi };
        let is_entry = |key: &str| !PARAMETERS.contains(&key) && !key.starts_with("addrs_v");
        for entry in hash.entries.iter().filter(|entry| is_entry(&entry.key)) {
            let group = match &entry.value.data {
                Data::Hash(group) => {
                    family.are_grouped = true;
                    self.group(group, &own, content)
                }
                _ => vec![self.item(&entry.key, &entry.value, &own, content)],
            };
            let group: Result<Vec<Item>, Fault> = group.into_iter().collect();
            match group {
                Ok(group) => family.groups.push(group),
                Err(fault) => self.tell(fault),
            }
        }
        let is_single = |group: &Vec<Item>| group.len() == 1;
        if family.groups.iter().all(Vec::is_empty) {
            let nothing = "no entry; allowed: LABEL => [address or name, weight]";
            return Err(self.last_fault(value, nothing));
        }
        if !family.are_grouped && !family.groups.iter().all(is_single) {
            return Err(value.fault("found groups beside single entries; allowed: one of them"));
        }
        content.is_down |= family.apply_states(own.up_thresh);
        Ok(family)
    }

    fn group(
        &self,
        group: &Hash,
        own: &Parameters,
        content: &mut Content,
    ) -> Vec<Result<Item, Fault>> {
        let entries = group.entries.iter();
        entries.map(|entry| self.item(&entry.key, &entry.value, own, content)).collect()
    }

    fn item(
        &self,
        label: &str,
        value: &Value,
        own: &Parameters,
        content: &mut Content,
    ) -> Result<Item, Fault> {
        let [target, weight] = value.elements() else {
            return Err(value.fault("an entry is [address or name, weight]"));
        };
        let text = target.text("a target")?;
        let mut site = SiteBuilder::new(label, Vec::new());
        let weight_here: u32 = weight.number("a weight")?;
        if !WEIGHTS.contains(&weight_here) {
            let most = WEIGHTS.end - 1;
            return Err(weight.fault(format!("the weight {weight_here}; allowed: 1 to {most}")));
        }
        match text.parse() {
            Ok(address) => site.addresses.push(address),
            Err(_) => site.alias = Some(alias_of(text, target)?),
        }
        let steady = self.watch(&mut site, text.trim_end_matches('.'), &own.services, value)?;
        content.steady_seconds = content.steady_seconds.into_iter().chain(steady).min();
        Ok(Item { site, weight: weight_here })
    }
}

impl Family {
    /// Takes what is down for ever out. With too little weight left all counts as up, and the
    /// family as down.
    fn apply_states(&mut self, up_thresh: f64) -> bool {
        let sum = |items: &mut dyn Iterator<Item = &Item>| -> u64 {
            items.map(|item| u64::from(item.weight)).sum()
        };
        let all = sum(&mut self.groups.iter().flatten());
        let left = sum(&mut self.groups.iter().flatten().filter(|item| !item.site.is_down));
        let fails = left < needed(up_thresh, all);
        for group in &mut self.groups {
            if fails {
                group.iter_mut().for_each(|item| item.site.checks.clear());
            } else {
                group.retain(|item| !item.site.is_down);
            }
        }
        self.groups.retain(|group| !group.is_empty());
        fails
    }

    fn is_grouped(&self) -> bool {
        self.are_grouped
    }

    /// One of several, or all always: a site for each entry. Says whether it is so.
    fn take_one_kind(&mut self, name: &str, is_watched: bool, content: &mut Content) -> bool {
        let items: Vec<&Item> = self.groups.iter().flatten().collect();
        let is_alias = items.iter().any(|item| item.site.alias.is_some());
        let are_equal = items.iter().all(|item| item.weight == items[0].weight);
        if self.is_grouped() || (self.is_multi && !is_alias && !are_equal) {
            return false;
        }
        if self.is_multi && !is_alias && items.len() > ANSWERS_MAX && is_watched {
            return false;
        }
        let most = items.iter().map(|item| item.weight).max().unwrap_or(1);
        let scale = (WEIGHT_MAX / f64::from(most)).min(1.0);
        let site = |item: &&Item| {
            let weight = (f64::from(item.weight) * scale).round() as u32;
            SiteBuilder { weight: Some(weight.max(1)), ..item.site.clone() }
        };
        content.sites = items.iter().map(site).collect();
        if self.is_multi && !is_alias {
            // With equal weights all are answered always.
            content.choice = Choice::All;
            content.needed = needed(content.up_thresh, content.sites.len() as u64) as usize;
            if content.sites.iter().all(|site| site.checks.is_empty()) {
                let mut whole = SiteBuilder::new(name, Vec::new());
                let addresses = content.sites.iter().flat_map(|site| site.addresses.clone());
                addresses.for_each(|address| push_new(&mut whole.addresses, address));
                content.sites = vec![whole];
            }
        }
        true
    }

    /// Every answer with its probability; `None`: too many.
    fn outcomes(&self) -> Option<Vec<Outcome>> {
        let weight = |item: &Item| f64::from(item.weight);
        let groups: Vec<Vec<f64>> =
            self.groups.iter().map(|group| group.iter().map(weight).collect()).collect();
        let sums: Vec<f64> = groups.iter().map(|group| group.iter().sum()).collect();
        let total: f64 = sums.iter().sum();
        let inner = |group: usize, is_multi: bool| -> Option<Vec<Outcome>> {
            let items: Vec<Vec<Outcome>> =
                (0..groups[group].len()).map(|at| vec![(1.0, vec![(group, at)])]).collect();
            if is_multi {
                return each_by_odds(&groups[group], items);
            }
            let one =
                |(weight, item): (&f64, Vec<Outcome>)| (weight / sums[group], item[0].1.clone());
            Some(groups[group].iter().zip(items).map(one).collect())
        };
        let numbers = 0..groups.len();
        if self.is_multi {
            let chosen: Option<Vec<_>> = numbers.map(|group| inner(group, false)).collect();
            return each_by_odds(&sums, chosen?);
        }
        let mut outcomes = Vec::new();
        for group in numbers {
            let share = sums[group] / total;
            outcomes
                .extend(inner(group, true)?.into_iter().map(|(odds, items)| (odds * share, items)));
        }
        (outcomes.len() <= OUTCOMES_MAX).then_some(outcomes)
    }
}

/// Each part is in the answer with the odds of its weight by the largest one.
fn each_by_odds(weights: &[f64], parts: Vec<Vec<Outcome>>) -> Option<Vec<Outcome>> {
    let most = weights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut outcomes: Vec<Outcome> = vec![(1.0, Vec::new())];
    for (weight, part) in weights.iter().zip(parts) {
        let odds = weight / most;
        let mut next = Vec::new();
        for (before, items) in &outcomes {
            if odds < 1.0 {
                next.push((before * (1.0 - odds), items.clone()));
            }
            for (inner, more) in &part {
                next.push((before * odds * inner, [&items[..], &more[..]].concat()));
            }
        }
        if next.len() > OUTCOMES_MAX {
            return None;
        }
        outcomes = next;
    }
    Some(outcomes)
}

/// A site for each combination of what the families answer.
fn combine(
    name: &str,
    value: &Value,
    families: &[Family],
    content: &mut Content,
) -> Result<(), Fault> {
    let too_many = || {
        value.fault(format!(
            "found more than {OUTCOMES_MAX} different answers; allowed: fewer or equal weights"
        ))
    };
    let mut combined: Vec<(f64, SiteBuilder)> = vec![(1.0, SiteBuilder::new(name, Vec::new()))];
    for family in families {
        let outcomes = family.outcomes().ok_or_else(too_many)?;
        let mut next = Vec::new();
        for (before, site) in &combined {
            for (odds, items) in &outcomes {
                let mut site = site.clone();
                for (group, at) in items {
                    let item = &family.groups[*group][*at].site;
                    item.addresses.iter().for_each(|a| push_new(&mut site.addresses, *a));
                    item.checks.iter().for_each(|c| push_new(&mut site.checks, c.clone()));
                    if let Some(alias) = &item.alias {
                        site.alias = Some(alias.clone());
                    }
                }
                next.push((before * odds, site));
            }
        }
        if next.len() > OUTCOMES_MAX {
            return Err(too_many());
        }
        combined = next;
    }
    let most = combined.iter().map(|(odds, _)| *odds).fold(f64::MIN_POSITIVE, f64::max);
    let weight = |odds: f64| ((odds / most * WEIGHT_MAX).round() as u32).max(1);
    let count = combined.len();
    let sites = combined.into_iter().enumerate().map(|(at, (odds, site))| SiteBuilder {
        name: if count == 1 { name.to_owned() } else { format!("{name}-{}", at + 1) },
        weight: Some(weight(odds)),
        ..site
    });
    content.sites = sites.collect();
    if let [family] = families
        && content.steady_seconds.is_some()
    {
        // Each address alone, if no combination is left.
        let items = family.groups.iter().flatten().enumerate();
        content.sites.extend(items.map(|(at, item)| SiteBuilder {
            name: format!("{name}-last-{}", at + 1),
            weight: Some(0),
            ..item.site.clone()
        }));
    }
    Ok(())
}
