//! Which zones the catalogs that are followed give, and from which of them each one comes.
//!
//! For: a choice from what the catalogs say, a pure function. Not for: reading catalogs
//! (`whered_dns::catalog`), serving their members (`catalogs`).
//!
//! ```text
//! zone of the configuration, or above a pool's name ─> not taken, remark
//! in one catalog ─> taken
//! in several     ─> where it was; another only by 'coo' (RFC 9432, 4.3.1), or when it has left
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};

use whered_dns::Name;
use whered_dns::catalog::CatalogMember;
use whered_engine::CatalogMembership;

/// What a catalog says.
pub(super) struct CatalogEntries<'a> {
    pub(super) catalog: &'a Name,
    pub(super) members: &'a [CatalogMember],
}

/// What decides beside the catalogs.
pub(super) struct ChoiceContext<'a> {
    /// The members so far.
    pub(super) before: &'a HashMap<Name, CatalogMembership>,
    /// The zones and catalogs of the configuration.
    pub(super) configured: &'a HashSet<Name>,
    /// Names that a zone may not have: names of pools would be in it.
    pub(super) above_pools: &'a HashMap<Name, String>,
    /// Whether there is a copy of a member; asked at a start alone.
    pub(super) has_copy: &'a dyn Fn(&Name, &CatalogMembership) -> bool,
}

/// A zone that is to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChosenMember {
    pub(super) zone: Name,
    pub(super) membership: CatalogMembership,
    pub(super) groups: Vec<Vec<u8>>,
    /// It was a member of another catalog, which gave it over.
    pub(super) moved_from: Option<CatalogMembership>,
}

/// Chooses the members; gives a line for each that is not taken.
pub(super) fn choose(
    catalogs: &[CatalogEntries<'_>],
    known: &ChoiceContext<'_>,
) -> (Vec<ChosenMember>, Vec<String>) {
    let mut listings: BTreeMap<Vec<u8>, Vec<Listing<'_>>> = BTreeMap::new();
    for listed in catalogs {
        for member in listed.members {
            let key = member.zone.as_wire().to_ascii_lowercase();
            let listing = Listing { catalog: listed.catalog, member };
            listings.entry(key).or_default().push(listing);
        }
    }
    let (mut chosen, mut remarks) = (Vec::new(), Vec::new());
    for listings in listings.into_values() {
        match choose_one(&listings, known, &mut remarks) {
            Ok(member) => chosen.push(member),
            Err(remark) => remarks.push(remark),
        }
    }
    (chosen, remarks)
}

/// One entry of a catalog.
#[derive(Clone, Copy)]
struct Listing<'a> {
    catalog: &'a Name,
    member: &'a CatalogMember,
}

impl Listing<'_> {
    fn membership(&self) -> CatalogMembership {
        CatalogMembership { catalog: self.catalog.clone(), id: self.member.id.clone() }
    }
}

/// Chooses among the entries of one zone, of which there is at least one.
fn choose_one(
    listings: &[Listing<'_>],
    known: &ChoiceContext<'_>,
    remarks: &mut Vec<String>,
) -> Result<ChosenMember, String> {
    let first = listings[0];
    let zone = &first.member.zone;
    if known.configured.contains(zone) {
        let catalog = first.catalog;
        return Err(format!("the member {zone} of {catalog} stays as the configuration has it"));
    }
    if let Some(pool) = known.above_pools.get(zone) {
        let catalog = first.catalog;
        return Err(format!(
            "the member {zone} of {catalog} is not taken: it has names of the pool '{pool}'"
        ));
    }
    let before = known.before.get(zone);
    let in_catalog = |catalog: &Name, id: Option<&[u8]>| {
        let own = listings.iter().filter(move |listing| listing.catalog == catalog);
        let same = own.clone().find(|listing| Some(&*listing.member.id) == id);
        same.or_else(|| own.into_iter().next()).copied()
    };
    let mut current = before
        .and_then(|before| in_catalog(&before.catalog, Some(&before.id)))
        .or_else(|| {
            let copied = |listing: &&Listing<'_>| (known.has_copy)(zone, &listing.membership());
            listings.iter().find(copied).filter(|_| before.is_none()).copied()
        })
        .unwrap_or(first);
    let mut moved_from = None;
    let mut seen = HashSet::new();
    while let Some(owner) = &current.member.new_owner
        && owner != current.catalog
        && seen.insert(current.catalog)
        && let Some(next) = in_catalog(owner, Some(&current.member.id))
    {
        let was = current.membership();
        if next.member.id == was.id && before == Some(&was) {
            moved_from = Some(was);
        }
        current = next;
    }
    for other in listings {
        let is_current = other.catalog == current.catalog && other.member.id == current.member.id;
        let is_given_over = other.member.new_owner.as_ref() == Some(current.catalog);
        if !is_current && !is_given_over {
            let (id, catalog) = (other.member.id.escape_ascii(), other.catalog);
            let owner = current.catalog;
            remarks.push(format!(
                "the member {zone} of {catalog} (id {id}) is not taken: it is a member of {owner}"
            ));
        }
    }
    Ok(ChosenMember {
        zone: zone.clone(),
        membership: current.membership(),
        groups: current.member.groups.clone(),
        moved_from,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn member(zone: &str, id: &str, new_owner: Option<&str>) -> CatalogMember {
        let new_owner = new_owner.map(name);
        CatalogMember { zone: name(zone), id: id.as_bytes().into(), groups: Vec::new(), new_owner }
    }

    fn of(catalog: &str, id: &str) -> CatalogMembership {
        CatalogMembership { catalog: name(catalog), id: id.as_bytes().into() }
    }

    /// What is chosen of these catalogs, `ZONE CATALOG ID` with `moved` for one that moved, and the
    /// remarks.
    fn chosen(
        catalogs: &[(&str, Vec<CatalogMember>)],
        before: &[(&str, CatalogMembership)],
    ) -> (Vec<String>, Vec<String>) {
        let names: Vec<Name> = catalogs.iter().map(|(catalog, _)| name(catalog)).collect();
        let listed = names.iter().zip(catalogs);
        let listed: Vec<CatalogEntries<'_>> =
            listed.map(|(catalog, (_, members))| CatalogEntries { catalog, members }).collect();
        let before = before.iter().map(|(zone, of)| (name(zone), of.clone())).collect();
        let mut configured: HashSet<Name> = names.iter().cloned().collect();
        configured.insert(name("own.example"));
        let above_pools = HashMap::from([(name("www.own.example"), "www".to_owned())]);
        let copy = of("b", "copied");
        let known = ChoiceContext {
            before: &before,
            configured: &configured,
            above_pools: &above_pools,
            has_copy: &|_, membership| *membership == copy,
        };
        let (chosen, remarks) = choose(&listed, &known);
        let shown = chosen.iter().map(|member| {
            let id = member.membership.id.escape_ascii();
            let moved = if member.moved_from.is_some() { " moved" } else { "" };
            format!("{} {} {id}{moved}", member.zone, member.membership.catalog)
        });
        (shown.collect(), remarks)
    }

    #[test]
    fn zones_of_the_configuration_and_above_pools_and_catalogs_themselves_are_not_taken() {
        let members = vec![
            member("own.example", "1", None),
            member("www.OWN.example", "2", None),
            member("a", "3", None),
            member("x.example", "4", None),
        ];
        let (chosen, remarks) = chosen(&[("a", members)], &[]);
        assert_eq!(chosen, ["x.example. a. 4"]);
        assert_eq!(remarks.len(), 3, "{remarks:?}");
        assert!(remarks.iter().any(|line| line.contains("names of the pool 'www'")), "{remarks:?}");
    }

    #[test]
    fn a_zone_stays_in_its_catalog_whatever_others_say() {
        let catalogs = [
            ("a", vec![member("x.example", "1", None)]),
            ("b", vec![member("x.example", "2", None)]),
        ];
        let (fresh, remarks) = chosen(&catalogs, &[]);
        assert_eq!(fresh, ["x.example. a. 1"]);
        assert!(
            remarks[0].contains("of b. (id 2) is not taken: it is a member of a."),
            "{remarks:?}"
        );
        let (second, remarks) = chosen(&catalogs, &[("x.example", of("b", "2"))]);
        assert_eq!((&*second[0], remarks.len()), ("x.example. b. 2", 1));
        let alone = [("a", vec![member("x.example", "1", None)]), ("b", vec![])];
        let (left, remarks) = chosen(&alone, &[("x.example", of("b", "2"))]);
        assert_eq!((&*left[0], remarks.len()), ("x.example. a. 1", 0));
    }

    #[test]
    fn at_a_start_a_copy_tells_whose_member_a_zone_was() {
        let catalogs = [
            ("a", vec![member("x.example", "1", None)]),
            ("b", vec![member("x.example", "copied", None)]),
        ];
        assert_eq!(chosen(&catalogs, &[]).0, ["x.example. b. copied"]);
    }

    #[test]
    fn a_zone_goes_to_the_new_owner_that_its_catalog_names_once_that_lists_it() {
        let before = [("x.example", of("a", "1"))];
        let giving = vec![member("x.example", "1", Some("b"))];
        let waiting = [("a", giving.clone()), ("b", vec![])];
        assert_eq!(chosen(&waiting, &before), (vec!["x.example. a. 1".to_owned()], vec![]));
        let same = [("a", giving.clone()), ("b", vec![member("x.example", "1", None)])];
        assert_eq!(chosen(&same, &before), (vec!["x.example. b. 1 moved".to_owned()], vec![]));
        let other = [("a", giving), ("b", vec![member("x.example", "2", None)])];
        assert_eq!(chosen(&other, &before), (vec!["x.example. b. 2".to_owned()], vec![]));
        // It has moved, and the old entry is still there.
        let moved = [("x.example", of("b", "1"))];
        assert_eq!(chosen(&same, &moved), (vec!["x.example. b. 1".to_owned()], vec![]));
        let both = [
            ("a", vec![member("x.example", "1", Some("b"))]),
            ("b", vec![member("x.example", "1", Some("a"))]),
        ];
        assert_eq!(chosen(&both, &before).0.len(), 1, "a circle ends");
    }

    #[test]
    fn of_two_entries_in_one_catalog_the_one_that_was_there_stays() {
        let twice = [("a", vec![member("x.example", "1", None), member("X.example", "2", None)])];
        assert_eq!(chosen(&twice, &[]).0, ["x.example. a. 1"]);
        let (chosen, remarks) = chosen(&twice, &[("x.example", of("a", "2"))]);
        assert_eq!((&*chosen[0], remarks.len()), ("x.example. a. 2", 1));
    }
}
