//! Points by name: `GEOADD GEOPOS GEODIST GEOHASH`.
//!
//! Not for: searches (`geosearch`). The order of the checks is that of Redis 7.0.15, because a
//! request with two mistakes gets the error of the first one found.

use whered_engine::geo::{Cell, Place};
use whered_engine::{AddCondition, Added};

use super::look_up::look_up;
use super::{
    Access, Action, Channels, Command, Effect, Failure, Flag, InTransaction, KeySpec, Members,
    Outcome, SYNTAX_ERROR, WhenFull, float,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const GEO: Command = Command {
    name: "",
    arity: -2,
    flags: &[Flag::ReadOnly],
    group: "geo",
    keys: &[KeySpec::at(1, Access::Read)],
    names: &[],
    channels: Channels::None,
    members: Members::Asked(None),
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "key [member [member ...]]",
    summary: "",
    cost: "O(N) with N members",
    since: "3.2.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "geoadd",
        arity: -5,
        flags: &[Flag::Write, Flag::Short],
        keys: &[KeySpec::at(1, Access::Update)],
        members: Members::Points,
        when_full: WhenFull::Refused,
        syntax: "key [NX|XX] [CH] longitude latitude member [longitude latitude member ...]",
        summary: "Adds points to a collection, or moves them",
        cost: "O(log(M)) a point with M members of the collection",
        action: Action::Run(add),
        ..GEO
    },
    Command {
        name: "geodist",
        arity: -4,
        members: Members::Asked(Some(2)),
        syntax: "key member1 member2 [M|KM|FT|MI]",
        summary: "Returns the distance between two members",
        cost: "O(1)",
        action: Action::Run(distance),
        ..GEO
    },
    Command {
        name: "geohash",
        flags: &[Flag::ReadOnly, Flag::Short],
        summary: "Returns members' places as standard geohash strings",
        action: Action::Run(geohash),
        ..GEO
    },
    Command {
        name: "geopos",
        flags: &[Flag::ReadOnly, Flag::Short],
        summary: "Returns members' longitudes and latitudes",
        action: Action::Run(positions),
        ..GEO
    },
];

fn add(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let at = leading_options(args);
    let has = |word| (2..at).any(|index| args.is(index, word));
    let (only_new, only_existing, count_moved) = (has("nx"), has("xx"), has("ch"));
    let points = args.skip(at);
    if !points.len().is_multiple_of(3) || (only_new && only_existing) {
        return Err(SYNTAX_ERROR);
    }
    let condition = match (only_new, only_existing) {
        (true, _) => AddCondition::OnlyNew,
        (_, true) => AddCondition::OnlyExisting,
        _ => AddCondition::Always,
    };
    let point = |index: usize| -> Result<(&[u8], Cell), Failure> {
        let place = place(points, 3 * index)?;
        Ok((points.at(3 * index + 2), Cell::from_place(place)))
    };
    let keyspace = session.engine().keyspace();
    let written = match points.len() / 3 {
        0 => return Err(SYNTAX_ERROR),
        // The ordinary request needs no vector.
        1 => keyspace.add_points(session.number, args.at(1), &[point(0)?], condition)?,
        count => {
            let points: Vec<_> = (0..count).map(point).collect::<Result<_, _>>()?;
            keyspace.add_points(session.number, args.at(1), &points, condition)?
        }
    };
    reply.hold(written.ticket);
    let Added { added, moved } = written.value;
    reply.count(added + if count_moved { moved } else { 0 });
    Ok(Effect::changed_if(added + moved > 0))
}

/// The index behind the options of `GEOADD`, where its points begin.
pub(super) fn leading_options(args: Args<'_>) -> usize {
    let is_option = |index| ["nx", "xx", "ch"].iter().any(|word| args.is(index, word));
    (2..args.len()).find(|index| !is_option(*index)).unwrap_or(args.len())
}

/// Longitude and latitude at an index.
pub(super) fn place(args: Args<'_>, at: usize) -> Result<Place, Failure> {
    let longitude = float(args.at(at))?;
    let latitude = float(args.at(at + 1))?;
    Place::new(longitude, latitude).map_err(|_| {
        Failure::made(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"))
    })
}

/// How many meters a unit has.
pub(super) fn unit_meters(text: &[u8]) -> Result<f64, Failure> {
    let units: [(&[u8], f64); 4] =
        [(b"m", 1.0), (b"km", 1000.0), (b"ft", 0.3048), (b"mi", 1609.34)];
    let found = units.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
    found
        .map(|(_, meters)| *meters)
        .ok_or(Failure::text("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

fn distance(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let unit_meters = match args.len() {
        4 => 1.0,
        5 => unit_meters(args.at(4))?,
        _ => return Err(SYNTAX_ERROR),
    };
    let found = look_up(session, args, 2)?;
    let meters = found[0].zip(found[1]).map(|(a, b)| a.place().distance_meters(b.place()));
    match meters {
        Some(meters) => reply.distance(meters / unit_meters),
        None => reply.null(),
    }
    Ok(Effect::Unchanged)
}

fn geohash(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let found = look_up(session, args, args.len() - 2)?;
    reply.array(found.len());
    for standing in found {
        match standing {
            Some(standing) => reply.bulk(&standing.geohash()),
            None => reply.null(),
        }
    }
    Ok(Effect::Unchanged)
}

fn positions(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let found = look_up(session, args, args.len() - 2)?;
    reply.array(found.len());
    for standing in found {
        match standing {
            Some(standing) => write_place(reply, standing.place()),
            None => reply.null_array(),
        }
    }
    Ok(Effect::Unchanged)
}

/// A place as an array of longitude and latitude.
pub(super) fn write_place(reply: &mut Reply, place: Place) {
    reply.array(2);
    reply.coordinate(place.longitude_degrees);
    reply.coordinate(place.latitude_degrees);
}
