//! What a request names beside keys and channels: databases, sets, rulesets, pools, zones, feeds, tables.
//!
//! For: permissions. Every command declares in the table what its arguments name, and a user's
//! patterns for that kind are compared with it before the command runs or is queued.
//! Not for: keys and channels (`key_spec`), the patterns themselves (`resp/users`).
//!
//! ```text
//! CIDR.UNION all blocked bogons        names: [Args(Set, 1, -1)]   user: sets = ["b*"]
//!            ^^^ no pattern fits  ──>  NOPERM ... one of the sets used as arguments
//! ```
//!
//! Cost: nothing for a user who may do everything.

use super::Command;
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;
use crate::resp::users::{NameKind, User};

/// A part of a request that names something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NameSpec {
    /// The arguments from the first to the last (negative: from the end).
    Args(NameKind, usize, i32),
    /// Everything of a kind: the user needs the pattern `*`.
    All(NameKind),
    /// The reply shows names of a kind; its handler leaves out what the user may not touch.
    Shown(NameKind),
    /// A domain name, which belongs to a zone.
    Domain(usize),
    /// A pool, or a name that a pool answers at.
    PoolOrOwner(usize),
    /// A database behind `FROMIP`; the options of the search begin at this index.
    FromIp(usize),
    /// The last argument is one rule of the ruleset, which names sets and databases.
    Rule,
    /// The last argument is a whole ruleset in the format that the argument at this index tells.
    Ruleset(usize),
}

impl NameSpec {
    /// The kinds that a user needs patterns of.
    pub(crate) fn kinds(self) -> &'static [NameKind] {
        match self {
            NameSpec::Args(kind, ..) | NameSpec::All(kind) | NameSpec::Shown(kind) => kind.alone(),
            NameSpec::Domain(_) => &[NameKind::Zone],
            NameSpec::PoolOrOwner(_) => &[NameKind::Pool],
            NameSpec::FromIp(_) => &[NameKind::Database],
            NameSpec::Rule | NameSpec::Ruleset(_) => &[NameKind::Set, NameKind::Database],
        }
    }

    /// Whether a user without any pattern of those kinds is refused whatever the arguments are.
    pub(crate) fn is_always_asked(self) -> bool {
        !matches!(
            self,
            NameSpec::Shown(_) | NameSpec::FromIp(_) | NameSpec::Rule | NameSpec::Ruleset(_)
        )
    }
}

/// The kind of the first thing in a request that a user may not touch.
pub(super) fn denied(
    session: &Session,
    user: &User,
    command: &Command,
    args: Args<'_>,
) -> Option<NameKind> {
    command.names.iter().find_map(|named| denied_part(session, user, *named, args))
}

fn denied_part(
    session: &Session,
    user: &User,
    named: NameSpec,
    args: Args<'_>,
) -> Option<NameKind> {
    let one = |kind: NameKind, name: &[u8]| (!user.may_name(kind, name)).then_some(kind);
    let at = |index: usize| args.get(index).unwrap_or_default();
    match named {
        NameSpec::Args(kind, first, last) => {
            let count = match usize::try_from(last) {
                Ok(last) => last + 1,
                Err(_) => args.len().saturating_sub(last.unsigned_abs() as usize - 1),
            };
            args.first(count).skip(first).find_map(|name| one(kind, name))
        }
        NameSpec::All(kind) => (!user.may_name_all(kind)).then_some(kind),
        NameSpec::Shown(_) => None,
        NameSpec::Domain(index) => {
            let domain = String::from_utf8_lossy(at(index));
            one(NameKind::Zone, zone_of(session, &domain).as_bytes())
        }
        NameSpec::PoolOrOwner(index) => {
            let generation = session.engine().generation();
            let called = std::str::from_utf8(at(index)).ok();
            let pool = called.and_then(|name| generation.pool_called(name));
            let pool = pool.and_then(|index| generation.pools().get(index));
            one(NameKind::Pool, pool.map_or(at(index), |pool| pool.name.as_bytes()))
        }
        NameSpec::FromIp(from) => databases(args, from).find_map(|it| one(NameKind::Database, it)),
        NameSpec::Rule => denied_in_rules(session, user, args, None),
        NameSpec::Ruleset(format) => denied_in_rules(session, user, args, Some(format)),
    }
}

/// The databases of a search: the argument behind each `FROMIP` that stands where an option may.
fn databases<'a>(args: Args<'a>, mut at: usize) -> impl Iterator<Item = &'a [u8]> {
    std::iter::from_fn(move || {
        while at < args.len() {
            let option = at;
            at += match () {
                () if args.is(at, "frommember") || args.is(at, "count") => 2,
                () if args.is(at, "fromlonlat") || args.is(at, "byradius") => 3,
                () if args.is(at, "fromip") => 3,
                () if args.is(at, "bybox") => 4,
                () => 1,
            };
            if args.is(option, "fromip") {
                return args.get(option + 1);
            }
        }
        None
    })
}

/// The name of the zone that a domain name belongs to, or the name itself where there is none.
pub(super) fn zone_of(session: &Session, domain: &str) -> String {
    let folded = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let domain = folded(domain);
    let sources = session.engine().zone_sources();
    let holds = |zone: &String| {
        let zone = folded(zone);
        let before = domain.strip_suffix(&zone);
        zone.is_empty() || before.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let names = sources.iter().map(|source| &source.name).filter(|zone| holds(zone));
    names.max_by_key(|zone| folded(zone).len()).cloned().unwrap_or(domain)
}

/// The kind of the first thing that rules name and the user may not touch. Text that cannot be read
/// names nothing: the command refuses it.
fn denied_in_rules(
    session: &Session,
    user: &User,
    args: Args<'_>,
    format: Option<usize>,
) -> Option<NameKind> {
    let text = |index: usize| args.get(index).and_then(|text| std::str::from_utf8(text).ok());
    let (ruleset, rules) = (text(1)?, text(args.len() - 1)?);
    let references = match format {
        Some(index) => {
            let format = super::rules::format(args.get(index)?).ok()?;
            session.engine().references_of_rules(format, rules).ok()?
        }
        None => session.engine().references_of_rule(ruleset, rules).ok()?,
    };
    let may_read = |database: &Option<String>| match database {
        Some(name) => user.may_name(NameKind::Database, name.as_bytes()),
        None => user.may_name_all(NameKind::Database),
    };
    if !references.sets.iter().all(|set| user.may_name(NameKind::Set, set.as_bytes())) {
        Some(NameKind::Set)
    } else if !references.databases.iter().all(may_read) {
        Some(NameKind::Database)
    } else {
        None
    }
}

/// Writes an array of the names that the session's user may touch.
pub(super) fn write_shown<'a>(
    session: &Session,
    kind: NameKind,
    names: impl Iterator<Item = &'a str>,
    reply: &mut Reply,
) {
    let may_see = |name: &&str| session.user.may_name(kind, name.as_bytes());
    let shown: Vec<&str> = names.filter(may_see).collect();
    reply.array(shown.len());
    shown.iter().for_each(|name| reply.bulk(name.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fromip_is_found_only_where_an_option_may_stand() {
        let found = |text: &str| {
            let (mut spans, mut start) = (Vec::new(), 0);
            for word in text.split(' ') {
                spans.push((start, start + word.len()));
                start += word.len() + 1;
            }
            let args = Args::new(text.as_bytes(), &spans);
            databases(args, 2)
                .map(|it| String::from_utf8_lossy(it).into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(found("geosearch k fromip city 8.8.8.8 byradius 1 km"), ["city"]);
        assert_eq!(found("geosearch k ASC byradius 1 km FROMIP city 8.8.8.8"), ["city"]);
        assert_eq!(found("geosearch k fromip a 8.8.8.8 fromip b 8.8.8.8"), ["a", "b"]);
        assert!(found("geosearch k frommember fromip byradius 1 km").is_empty());
        assert!(found("geosearch k fromip").is_empty());
    }
}
