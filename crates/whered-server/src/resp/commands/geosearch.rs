//! `GEOSEARCH`: the points of a collection inside a circle or a box.
//!
//! Not for: which points those are and in which order (`whered-geo`). Here are the options with
//! the errors of Redis 7.0.15 in its order, and the form of the reply.

use whered_engine::geo::{Hit, Order, Place, Points, Search, Shape};

use super::geo::{place, unit_meters, write_place};
use super::{Action, Command, Failure, Flag, Members, Outcome, SYNTAX_ERROR, integer, number};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "geosearch",
    arity: -7,
    flags: &[Flag::ReadOnly],
    group: "geo",
    keys: (1, 1, 1),
    members: Members::None,
    syntax: "key FROMMEMBER member|FROMLONLAT longitude latitude \
             BYRADIUS radius M|KM|FT|MI|BYBOX width height M|KM|FT|MI [ASC|DESC] \
             [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH] [EXPLAIN]",
    summary: "Gives the members inside a circle or a box",
    cost: "O(N+log(M)) with N points near the shape and M members of the collection",
    since: "6.2.0",
    action: Action::Run(search),
}];

/// The options as they are read; errors that depend on all of them come at the end.
#[derive(Default)]
struct Options<'a> {
    from_member: Option<&'a [u8]>,
    from_place: Option<Place>,
    shape: Option<Shape>,
    unit_meters: f64,
    order: Order,
    count: usize,
    any: bool,
    with_distance: bool,
    with_hash: bool,
    with_place: bool,
    explain: bool,
}

fn search(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let keyspace = session.engine().keyspace();
    let (options, search) = keyspace.read(session.number, args.at(1), |points| {
        let options = read_options(args, points)?;
        let search = options.search(points);
        match &search {
            Some(search) if !options.explain => write_found(&options, points, search, reply),
            None if !options.explain => reply.array(0),
            _ => {}
        }
        Ok::<_, Failure>((options, search))
    })?;
    if options.explain {
        // Without the key a member has no place, and there is nothing to explain.
        let search = search.ok_or(Failure::text("ERR could not decode requested zset member"))?;
        let reasons = session.engine().explain_near(session.number, args.at(1), &search);
        reply.bulk(reasons.to_string().as_bytes());
    }
    Ok(())
}

fn read_options<'a>(args: Args<'a>, points: Option<&Points>) -> Result<Options<'a>, Failure> {
    let mut options = Options::default();
    let mut at = 2;
    while at < args.len() {
        let used = read_flag(&mut options, args, at);
        at += match used {
            0 => read_option(&mut options, args, at, points)?,
            used => used,
        };
    }
    check(&options, args)?;
    Ok(options)
}

/// Reads an option without values; gives how many arguments it took.
fn read_flag(options: &mut Options<'_>, args: Args<'_>, at: usize) -> usize {
    match () {
        () if args.is(at, "withdist") => options.with_distance = true,
        () if args.is(at, "withhash") => options.with_hash = true,
        () if args.is(at, "withcoord") => options.with_place = true,
        () if args.is(at, "any") => options.any = true,
        () if args.is(at, "asc") => options.order = Order::Ascending,
        () if args.is(at, "desc") => options.order = Order::Descending,
        () if args.is(at, "explain") && at + 1 == args.len() => options.explain = true,
        () => return 0,
    }
    1
}

/// Reads an option with values; gives how many arguments it took.
fn read_option<'a>(
    options: &mut Options<'a>,
    args: Args<'a>,
    at: usize,
    points: Option<&Points>,
) -> Result<usize, Failure> {
    let left = args.len() - 1 - at;
    if args.is(at, "count") && left >= 1 {
        let count = integer(args.at(at + 1))?;
        if count <= 0 {
            return Err(Failure::text("ERR COUNT must be > 0"));
        }
        options.count = count as usize;
        return Ok(2);
    }
    if args.is(at, "frommember") && left >= 1 && options.from_place.is_none() {
        let member = args.at(at + 1);
        if points.is_some_and(|points| points.cell(member).is_none()) {
            return Err(Failure::text("ERR could not decode requested zset member"));
        }
        options.from_member = Some(member);
        return Ok(2);
    }
    if args.is(at, "fromlonlat") && left >= 2 && options.from_member.is_none() {
        options.from_place = Some(place(args, at + 1)?);
        return Ok(3);
    }
    if args.is(at, "byradius") && left >= 2 && !matches!(options.shape, Some(Shape::Box { .. })) {
        options.read_circle(args, at + 1)?;
        return Ok(3);
    }
    if args.is(at, "bybox") && left >= 3 && !matches!(options.shape, Some(Shape::Circle { .. })) {
        options.read_box(args, at + 1)?;
        return Ok(4);
    }
    Err(SYNTAX_ERROR)
}

fn check(options: &Options<'_>, args: Args<'_>) -> Outcome {
    let missing = if options.from_member.is_none() && options.from_place.is_none() {
        "exactly one of FROMMEMBER or FROMLONLAT can be specified for "
    } else if options.shape.is_none() {
        "exactly one of BYRADIUS and BYBOX can be specified for "
    } else if options.any && options.count == 0 {
        return Err(Failure::text("ERR the ANY argument requires COUNT argument"));
    } else {
        return Ok(());
    };
    // The command is named as the client has written it.
    let mut text = [b"ERR ", missing.as_bytes()].concat();
    text.extend_from_slice(args.at(0));
    Err(Failure::made(text))
}

impl Options<'_> {
    fn read_circle(&mut self, args: Args<'_>, at: usize) -> Outcome {
        let need = Failure::text("ERR need numeric radius");
        let radius = number::float(args.at(at)).ok_or(need)?;
        if radius < 0.0 {
            return Err(Failure::text("ERR radius cannot be negative"));
        }
        self.unit_meters = unit_meters(args.at(at + 1))?;
        self.shape = Some(Shape::Circle { radius_meters: radius * self.unit_meters });
        Ok(())
    }

    fn read_box(&mut self, args: Args<'_>, at: usize) -> Outcome {
        let need = Failure::text("ERR need numeric width");
        let width = number::float(args.at(at)).ok_or(need)?;
        let need = Failure::text("ERR need numeric height");
        let height = number::float(args.at(at + 1)).ok_or(need)?;
        if height < 0.0 || width < 0.0 {
            return Err(Failure::text("ERR height or width cannot be negative"));
        }
        self.unit_meters = unit_meters(args.at(at + 2))?;
        self.shape = Some(Shape::Box {
            width_meters: width * self.unit_meters,
            height_meters: height * self.unit_meters,
        });
        Ok(())
    }

    /// The search that the options describe; `None` when it starts from a member of a key that
    /// does not exist.
    fn search(&self, points: Option<&Points>) -> Option<Search> {
        let center = match (self.from_place, self.from_member) {
            (Some(place), _) => place,
            (None, member) => points?.cell(member?)?.place(),
        };
        Some(Search {
            center,
            shape: self.shape.clone()?,
            order: self.order,
            count: (self.count > 0).then_some(self.count),
            any: self.any,
        })
    }
}

fn write_found(options: &Options<'_>, points: Option<&Points>, search: &Search, reply: &mut Reply) {
    let mut hits: Vec<Hit<'_>> = Vec::new();
    if let Some(points) = points {
        points.search(search, &mut hits);
    }
    reply.array(hits.len());
    let extras = [options.with_distance, options.with_hash, options.with_place];
    let extras = extras.iter().filter(|with| **with).count();
    for hit in &hits {
        if extras > 0 {
            reply.array(1 + extras);
        }
        reply.bulk(hit.member);
        if options.with_distance {
            reply.distance(hit.distance_meters / options.unit_meters);
        }
        if options.with_hash {
            reply.integer(hit.cell.bits() as i64);
        }
        if options.with_place {
            write_place(reply, hit.place);
        }
    }
}
