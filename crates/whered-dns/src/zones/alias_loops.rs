//! Aliases of pools that lead back to the pool: no address would ever be found.
//!
//! Not for: aliases among the zones' own records, which end where they meet a name again.
//!
//! ```text
//! pool "a" owns a.example, a site's alias is b.example     a -> b -> a: a loop
//! pool "b" owns b.example, a site's alias is a.example
//! ```
//!
//! A pool leads to another when an alias of any of its answers does, also by way of the zones'
//! aliases: whether a client meets the loop depends on what is chosen for it. Cost: linear in the
//! pools' aliases, and for a loop in the pools.

use std::fmt;

use super::{Pool, Zones};
use crate::code::RecordType;
use crate::lower::LowerName;
use crate::name::Name;
use crate::resolve::CHAIN_LENGTH_MAX;
use crate::zone::layout::{HAS_DNAME, RECORD_HEAD_SIZE};

/// An alias of a pool that leads back to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliasLoop {
    /// The pool's name.
    pub pool: String,
    /// Its alias.
    pub alias: Name,
    /// The other pools by which it comes back.
    pub through: Vec<String>,
}

impl fmt::Display for AliasLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AliasLoop { pool, alias, through } = self;
        write!(f, "pool \"{pool}\": its CNAME {alias} leads back to the pool")?;
        for (index, other) in through.iter().enumerate() {
            write!(f, "{} \"{other}\"", if index == 0 { " by the pool" } else { "," })?;
        }
        f.write_str("; a name is needed that leads to an end")
    }
}

/// A loop, if there is one.
pub(super) fn find(zones: &Zones, pools: &[Pool]) -> Option<AliasLoop> {
    // For each pool its aliases, each with the pool that it leads to.
    let mut edges: Vec<Vec<(&Name, usize)>> = Vec::with_capacity(pools.len());
    for pool in pools {
        let aliases = pool.answers.iter().filter_map(|answer| answer.alias.as_ref());
        edges.push(aliases.filter_map(|alias| Some((alias, pool_behind(zones, alias)?))).collect());
    }
    // A pool that leads nowhere is in no loop; without it others lead nowhere. What remains leads
    // on for ever.
    loop {
        let ends: Vec<bool> = edges.iter().map(Vec::is_empty).collect();
        let count_before: usize = edges.iter().map(Vec::len).sum();
        for own in &mut edges {
            own.retain(|(_, to)| ends.get(*to) == Some(&false));
        }
        if edges.iter().map(Vec::len).sum::<usize>() == count_before {
            break;
        }
    }
    let mut at = edges.iter().position(|own| !own.is_empty())?;
    let mut path = Vec::new();
    while !path.contains(&at) {
        path.push(at);
        at = edges.get(at)?.first()?.1;
    }
    let start = path.iter().position(|pool| *pool == at)?;
    let name_of = |pool: &usize| pools.get(*pool).map(|pool| pool.name.clone());
    Some(AliasLoop {
        pool: name_of(&at)?,
        alias: edges.get(at)?.first()?.0.clone(),
        through: path.iter().skip(start + 1).filter_map(name_of).collect(),
    })
}

/// The pool that answers where an alias leads to, by way of the zones' own aliases.
fn pool_behind(zones: &Zones, alias: &Name) -> Option<usize> {
    let mut name = alias.clone();
    for _ in 0..CHAIN_LENGTH_MAX {
        let lower = LowerName::of(&name);
        let located = zones.locate(&lower)?;
        if let Some(node) = located.place.node {
            if node.cut().is_some() {
                return None;
            }
            if node.has(HAS_DNAME) && !located.is_exact {
                let prefix = name.as_wire().get(..lower.start_of(located.labels))?;
                let target = node.rrset(RecordType::DNAME)?;
                name = Name::from_wire(&[prefix, target.first_data()].concat()).ok()?;
                continue;
            }
        }
        let place = match located.is_exact {
            true => located.place,
            false => zones.wildcard(&lower, &located)?,
        };
        if place.pool.is_some() {
            return place.pool;
        }
        let rrset = place.node?.rrset(RecordType::CNAME)?;
        // The target ends in the one pointer that there may be, to the zone's origin.
        let point = rrset.points().next();
        let labels = rrset.wire.get(RECORD_HEAD_SIZE..point.unwrap_or(rrset.wire.len()))?;
        let origin = point.map_or(&[][..], |_| zones.zone_at(located.zone).lower_origin());
        name = Name::from_wire(&[labels, origin].concat()).ok()?;
    }
    None
}
