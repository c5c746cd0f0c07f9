//! The searches: `GEOSEARCH GEOSEARCHSTORE GEORADIUS GEORADIUSBYMEMBER` and their `_RO` forms.
//!
//! Not for: their options (`geo_area`), which points are found and in which order (`whered-geo`), what is done under
//! the lock and what after it (`geo_later`). Here are the forms of the reply, and results that go to a key.
//!
//! A stored result is what was found at one moment, put at a later one; in a transaction there is
//! nothing between the two.

use whered_engine::geo::{self, FoundHit, Search, Tree};
use whered_engine::{Data, Found, SortedSet, Value};

use super::found;
use super::geo_area::{Form, Reader, SearchOptions, Start, StoreMode};
use super::geo_later::{self, DeferredSearch, StartedSearch};
use super::{
    Access, Action, Channels, Command, Effect, Failure, Flag, InTransaction, KeySpec, Members,
    NameSpec, Outcome, WRONG_KIND, WhenFull, isolated,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const SEARCH: Command = Command {
    name: "",
    arity: -7,
    flags: &[Flag::ReadOnly],
    group: "geo",
    keys: &[KeySpec::at(1, Access::Read)],
    names: &[],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "",
    summary: "",
    cost: "O(N+log(M)) with N points near the shape and M members of the collection",
    since: "3.2.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "georadius",
        arity: -6,
        flags: &[Flag::Write],
        keys: &[KeySpec::at(1, Access::Read), KeySpec::stored(6)],
        when_full: WhenFull::Refused,
        syntax: "key longitude latitude radius M|KM|FT|MI [WITHCOORD] [WITHDIST] [WITHHASH] \
                 [COUNT count [ANY]] [ASC|DESC] [STORE key|STOREDIST key]",
        summary: "Returns the members inside a circle around a place, or stores them",
        action: Action::Run(|session, args, reply| {
            let form =
                Form { start: Start::Place, options: 6, storing: StoreMode::Optional, ..FORM };
            run(session, args, reply, form)
        }),
        ..SEARCH
    },
    Command {
        name: "georadius_ro",
        arity: -6,
        syntax: "key longitude latitude radius M|KM|FT|MI [WITHCOORD] [WITHDIST] [WITHHASH] \
                 [COUNT count [ANY]] [ASC|DESC]",
        summary: "Returns the members inside a circle around a place",
        since: "3.2.10",
        action: Action::Run(|session, args, reply| {
            let form = Form { start: Start::Place, options: 6, ..FORM };
            run(session, args, reply, form)
        }),
        ..SEARCH
    },
    Command {
        name: "georadiusbymember",
        arity: -5,
        flags: &[Flag::Write],
        keys: &[KeySpec::at(1, Access::Read), KeySpec::stored(5)],
        when_full: WhenFull::Refused,
        syntax: "key member radius M|KM|FT|MI [WITHCOORD] [WITHDIST] [WITHHASH] \
                 [COUNT count [ANY]] [ASC|DESC] [STORE key|STOREDIST key]",
        summary: "Returns the members inside a circle around a member, or stores them",
        action: Action::Run(|session, args, reply| {
            let form =
                Form { start: Start::Member, options: 5, storing: StoreMode::Optional, ..FORM };
            run(session, args, reply, form)
        }),
        ..SEARCH
    },
    Command {
        name: "georadiusbymember_ro",
        arity: -5,
        syntax: "key member radius M|KM|FT|MI [WITHCOORD] [WITHDIST] [WITHHASH] \
                 [COUNT count [ANY]] [ASC|DESC]",
        summary: "Returns the members inside a circle around a member",
        since: "3.2.10",
        action: Action::Run(|session, args, reply| {
            let form = Form { start: Start::Member, options: 5, ..FORM };
            run(session, args, reply, form)
        }),
        ..SEARCH
    },
    Command {
        name: "geosearch",
        names: &[NameSpec::FromIp(2)],
        syntax: "key FROMMEMBER member|FROMLONLAT longitude latitude|FROMIP database address \
                 BYRADIUS radius M|KM|FT|MI|BYBOX width height M|KM|FT|MI [ASC|DESC] \
                 [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH] [EXPLAIN]; \
                 or BYPOLYGON vertices longitude latitude [longitude latitude ...] without FROM",
        summary: "Returns the members inside a circle, a box, or a polygon of up to 10000 vertices, \
                  which has its own centre; FROMIP measures from where a database says that an \
                  address is",
        since: "6.2.0",
        action: Action::Run(|session, args, reply| run(session, args, reply, FORM)),
        ..SEARCH
    },
    Command {
        name: "geosearchstore",
        names: &[NameSpec::FromIp(3)],
        when_full: WhenFull::Refused,
        arity: -8,
        flags: &[Flag::Write],
        keys: &[KeySpec::at(1, Access::Overwrite), KeySpec::at(2, Access::Read)],
        syntax: "destination source FROMMEMBER member|FROMLONLAT longitude latitude|FROMIP \
                 database address BYRADIUS radius M|KM|FT|MI|BYBOX width height M|KM|FT|MI \
                 [ASC|DESC] [COUNT count [ANY]] [STOREDIST]; or BYPOLYGON vertices longitude \
                 latitude [longitude latitude ...] without FROM",
        summary: "Stores the members inside a circle, a box or a polygon, or their distances",
        since: "6.2.0",
        action: Action::Run(|session, args, reply| {
            let form = Form { source: 2, options: 3, storing: StoreMode::Always, ..FORM };
            run(session, args, reply, form)
        }),
        ..SEARCH
    },
];

/// The form of `GEOSEARCH`.
const FORM: Form = Form { start: Start::Options, source: 1, options: 2, storing: StoreMode::Never };

/// Members with the scores that a key gets.
type ScoredMembers = Vec<(Vec<u8>, f64)>;

fn run(session: &mut Session, args: Args<'_>, reply: &mut Reply, form: Form) -> Outcome {
    let names_a_key =
        |arg: &[u8]| arg.eq_ignore_ascii_case(b"store") || arg.eq_ignore_ascii_case(b"storedist");
    let may_store = match form.storing {
        StoreMode::Never => false,
        StoreMode::Optional => args.from(form.options).any(names_a_key),
        StoreMode::Always => true,
    };
    if may_store {
        return isolated(session, reply, |session, reply| search(session, args, reply, form));
    }
    search(session, args, reply, form)
}

fn search(session: &mut Session, args: Args<'_>, reply: &mut Reply, form: Form) -> Outcome {
    let engine = session.engine();
    let source = args.at(form.source);
    let (asked, at_once, later) = engine.keyspace().read(session.number, source, |value| {
        session.count_lookup(value.is_some());
        let members = value.map(|value| value.ordered().ok_or(WRONG_KIND)).transpose()?;
        let asked = Reader { form, args, members, engine }.read()?;
        let is_stored = asked.store.is_some();
        let (mut stored, mut later) = (ScoredMembers::new(), None);
        match (value.map(Value::data), asked.search()) {
            _ if asked.explain => {}
            (Some(Data::Collection(points)), Some(search)) => {
                match geo_later::begin(points, search, is_stored) {
                    StartedSearch::Finished(found) => {
                        reply.array(found.len());
                        found::write_all(asked.beside, points, &found, reply);
                    }
                    StartedSearch::Deferred(it) => later = Some(it),
                }
            }
            (Some(Data::SortedSet(set)), Some(search)) if is_stored => {
                stored = stored_of_set(&asked, set, &search);
            }
            (Some(Data::SortedSet(set)), Some(search)) => write_set(&asked, set, &search, reply),
            _ if is_stored => {}
            _ => reply.array(0),
        }
        Ok::<_, Failure>((asked, stored, later))
    })?;
    let later = later.map(DeferredSearch::finish);
    if let Some(destination) = asked.store {
        let of_points = later.map(|(view, found)| stored_of_points(&asked, &view, &found));
        return store(session, reply, destination, &of_points.unwrap_or(at_once));
    }
    if let Some((view, found)) = later {
        reply.array(found.len());
        found::write_in_parts(asked.beside, view, found, reply);
    }
    if asked.explain {
        // Without the key a member has no place, and there is nothing to explain.
        let missing = Failure::text("ERR could not decode requested zset member");
        let search = asked.search().ok_or(missing)?;
        let reasons = engine.explain_near(session.number, source, &search);
        reply.bulk(reasons.to_string().as_bytes());
    }
    Ok(Effect::Unchanged)
}

fn store(
    session: &Session,
    reply: &mut Reply,
    destination: &[u8],
    stored: &ScoredMembers,
) -> Outcome {
    let scores: Vec<(&[u8], f64)> =
        stored.iter().map(|(member, score)| (member.as_slice(), *score)).collect();
    let keyspace = session.engine().keyspace();
    let written = keyspace.store_scores(session.number, destination, &scores)?;
    reply.hold(written.ticket);
    reply.count(scores.len());
    Ok(Effect::changed_if(written.value))
}

/// What a key gets of what a search of points has found.
fn stored_of_points(asked: &SearchOptions<'_>, view: &Tree, found: &geo::Found) -> ScoredMembers {
    let hit = |hit: FoundHit<'_>| {
        let score = hit.cell().bits() as f64;
        (hit.member().to_vec(), asked.stored_score(score, || hit.distance_meters()))
    };
    found.hits(view).map(hit).collect()
}

/// The members and scores that a search of a plain sorted set stores in a key.
fn stored_of_set(asked: &SearchOptions<'_>, set: &SortedSet, search: &Search) -> ScoredMembers {
    let score = |hit: &Found<'_>| asked.stored_score(hit.score, || hit.distance_meters);
    set.search(search).iter().map(|hit| (hit.member.to_vec(), score(hit))).collect()
}

fn write_set(asked: &SearchOptions<'_>, set: &SortedSet, search: &Search, reply: &mut Reply) {
    let found = set.search(search);
    reply.array(found.len());
    for hit in &found {
        let member = |reply: &mut Reply| reply.bulk(hit.member);
        let hash = cut_to_integer(hit.score);
        let distance = |reply: &mut Reply, unit: f64| reply.distance(hit.distance_meters / unit);
        asked.beside.write(reply, member, distance, hash, || hit.place);
    }
}

/// A score as C on x86-64 cuts it to a signed integer: what does not fit is the smallest one.
fn cut_to_integer(score: f64) -> i64 {
    const TWO_63: f64 = 9_223_372_036_854_775_808.0;
    if (-TWO_63..TWO_63).contains(&score) { score as i64 } else { i64::MIN }
}
