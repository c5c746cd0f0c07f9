//! The options of the searches: where, which area, which order, how many, what beside the member.
//!
//! For: `GEOSEARCH GEOSEARCHSTORE GEORADIUS GEORADIUSBYMEMBER` and their kin, with the errors of
//! Redis 7.0.15 in its order: a request with two mistakes gets the error of the first one found.
//! Not for: the searches themselves and their replies (`geosearch`).
//!
//! Reading needs the key, because a member that it does not hold is an error in the middle of the
//! options.

use whered_engine::geo::{Order, Place, Polygon, Search, Shape};
use whered_engine::{Engine, Ordered};

use super::found::ReplyFields;
use super::geo::{place, unit_meters};
use super::{Failure, SYNTAX_ERROR, address, cut, integer, name, number};
use crate::resp::protocol::Args;

/// Edges that go from end to end of a polygon and lie close to each other everywhere leave no whole
/// cell, and then every point is tested against every edge: with that many edges and a
/// million points it takes more than a second. Of a coast's edges few lie near a point.
const MOST_VERTICES: usize = 10_000;

/// Which of the commands it is: where its arguments stand and what it may do.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) start: Start,
    /// The index of the searched key.
    pub(super) source: usize,
    /// The index of the first option.
    pub(super) options: usize,
    pub(super) storing: StoreMode,
}

/// Where a command has its centre and its area.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// Among the options.
    Options,
    /// Longitude, latitude and radius come first.
    Place,
    /// A member and a radius come first.
    Member,
}

/// What a command does with its result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreMode {
    /// It is the reply.
    Never,
    /// It goes to a key if `STORE` or `STOREDIST` names one.
    Optional,
    /// It goes to the key that is the first argument.
    Always,
}

/// The options as they are read; errors that depend on all of them come at the end.
#[derive(Default)]
pub(super) struct SearchOptions<'a> {
    from_member: bool,
    from_place: bool,
    /// Missing with `from_member` when there is no key.
    center: Option<Place>,
    area: Option<Shape>,
    pub(super) beside: ReplyFields,
    order: Order,
    count: usize,
    any: bool,
    pub(super) explain: bool,
    pub(super) store: Option<&'a [u8]>,
    /// What is stored are the distances.
    pub(super) store_distance: bool,
}

/// What the options are read from.
pub(super) struct Reader<'a, 'o> {
    pub(super) form: Form,
    pub(super) args: Args<'a>,
    /// The searched key, if it exists.
    pub(super) members: Option<Ordered<'o>>,
    pub(super) engine: &'o Engine,
}

impl<'a> Reader<'a, '_> {
    /// Reads all arguments.
    pub(super) fn read(&self) -> Result<SearchOptions<'a>, Failure> {
        let mut asked = SearchOptions::default();
        self.read_start(&mut asked)?;
        let mut at = self.form.options;
        while at < self.args.len() {
            at += match self.read_flag(&mut asked, at) {
                0 => self.read_option(&mut asked, at)?,
                used => used,
            };
        }
        self.check(&asked)?;
        Ok(asked)
    }

    fn read_start(&self, asked: &mut SearchOptions<'a>) -> Result<(), Failure> {
        match self.form.start {
            Start::Options if self.form.storing == StoreMode::Always => {
                asked.store = Some(self.args.at(1));
            }
            Start::Options => {}
            Start::Place => {
                asked.center = Some(place(self.args, 2)?);
                self.read_circle(asked, 4)?;
            }
            // Without the key not even the radius is looked at.
            Start::Member if self.members.is_none() => {}
            Start::Member => {
                asked.center = self.member_place(2)?;
                self.read_circle(asked, 3)?;
            }
        }
        Ok(())
    }

    /// The place of the member at an index; `None` without the key.
    fn member_place(&self, at: usize) -> Result<Option<Place>, Failure> {
        let Some(members) = self.members else {
            return Ok(None);
        };
        let place = members.place(self.args.at(at));
        place.map(Some).ok_or(Failure::text("ERR could not decode requested zset member"))
    }

    /// Reads an option without values; gives how many arguments it took.
    fn read_flag(&self, asked: &mut SearchOptions<'_>, at: usize) -> usize {
        let is = |word| self.args.is(at, word);
        let is_search = self.form.start == Start::Options;
        match () {
            () if is("withdist") => asked.beside.distance = true,
            () if is("withhash") => asked.beside.hash = true,
            () if is("withcoord") => asked.beside.place = true,
            () if is("any") => asked.any = true,
            () if is("asc") => asked.order = Order::Ascending,
            () if is("desc") => asked.order = Order::Descending,
            () if is("storedist") && is_search && asked.store.is_some() => {
                asked.store_distance = true;
            }
            () if is("explain")
                && is_search
                && asked.store.is_none()
                && at + 1 == self.args.len() =>
            {
                asked.explain = true;
            }
            () => return 0,
        }
        1
    }

    /// Reads an option with values; gives how many arguments it took.
    fn read_option(&self, asked: &mut SearchOptions<'a>, at: usize) -> Result<usize, Failure> {
        let left = self.args.len() - 1 - at;
        if self.args.is(at, "count") && left >= 1 {
            let count = integer(self.args.at(at + 1))?;
            if count <= 0 {
                return Err(Failure::text("ERR COUNT must be > 0"));
            }
            asked.count = usize::try_from(count).unwrap_or(usize::MAX);
            return Ok(2);
        }
        if self.form.storing == StoreMode::Optional && left >= 1 {
            let by_distance = self.args.is(at, "storedist");
            if by_distance || self.args.is(at, "store") {
                asked.store = Some(self.args.at(at + 1));
                asked.store_distance = by_distance;
                return Ok(2);
            }
        }
        if self.form.start == Start::Options {
            return match self.read_center(asked, at, left)? {
                0 => self.read_area(asked, at, left),
                used => Ok(used),
            };
        }
        Err(SYNTAX_ERROR)
    }

    fn read_center(
        &self,
        asked: &mut SearchOptions<'_>,
        at: usize,
        left: usize,
    ) -> Result<usize, Failure> {
        if matches!(asked.area, Some(Shape::Polygon(_))) {
            // A polygon has its own centre.
            return Ok(0);
        }
        if self.args.is(at, "frommember") && left >= 1 && !asked.from_place {
            asked.center = self.member_place(at + 1)?;
            asked.from_member = true;
            return Ok(2);
        }
        if self.args.is(at, "fromlonlat") && left >= 2 && !asked.from_member {
            asked.center = Some(place(self.args, at + 1)?);
            asked.from_place = true;
            return Ok(3);
        }
        if self.args.is(at, "fromip") && left >= 2 && !asked.from_member {
            asked.center = Some(self.address_place(at + 1)?);
            asked.from_place = true;
            return Ok(3);
        }
        Ok(0)
    }

    /// Where the database at an index says that the address behind it is.
    fn address_place(&self, at: usize) -> Result<Place, Failure> {
        let database = name(self.args.at(at))?;
        let address = address(self.args.at(at + 1))?;
        let place = self.engine.place_of_address(database, address);
        let place = place.map_err(|error| Failure::made(format!("ERR {error}")))?;
        place.ok_or_else(|| {
            Failure::made(format!("ERR database '{database}' has no place for {address}"))
        })
    }

    fn read_area(
        &self,
        asked: &mut SearchOptions<'_>,
        at: usize,
        left: usize,
    ) -> Result<usize, Failure> {
        let has_box = matches!(asked.area, Some(Shape::Box { .. }));
        let has_circle = matches!(asked.area, Some(Shape::Circle { .. }));
        let has_polygon = matches!(asked.area, Some(Shape::Polygon(_)));
        if self.args.is(at, "byradius") && left >= 2 && !has_box && !has_polygon {
            self.read_circle(asked, at + 1)?;
            return Ok(3);
        }
        if self.args.is(at, "bybox") && left >= 3 && !has_circle && !has_polygon {
            self.read_box(asked, at + 1)?;
            return Ok(4);
        }
        let has_center = asked.from_member || asked.from_place;
        // As with the other areas, of several the last one counts.
        let is_free = !has_box && !has_circle && !has_center;
        if self.args.is(at, "bypolygon") && left >= 2 && is_free {
            return self.read_polygon(asked, at + 1, left - 1);
        }
        Err(SYNTAX_ERROR)
    }

    fn read_circle(&self, asked: &mut SearchOptions<'_>, at: usize) -> Result<(), Failure> {
        let need = Failure::text("ERR need numeric radius");
        let radius = number::float(self.args.at(at)).ok_or(need)?;
        if radius < 0.0 {
            return Err(Failure::text("ERR radius cannot be negative"));
        }
        asked.beside.unit_meters = unit_meters(self.args.at(at + 1))?;
        asked.area = Some(Shape::Circle { radius_meters: radius * asked.beside.unit_meters });
        Ok(())
    }

    fn read_box(&self, asked: &mut SearchOptions<'_>, at: usize) -> Result<(), Failure> {
        let need = Failure::text("ERR need numeric width");
        let width = number::float(self.args.at(at)).ok_or(need)?;
        let need = Failure::text("ERR need numeric height");
        let height = number::float(self.args.at(at + 1)).ok_or(need)?;
        if height < 0.0 || width < 0.0 {
            return Err(Failure::text("ERR height or width cannot be negative"));
        }
        asked.beside.unit_meters = unit_meters(self.args.at(at + 2))?;
        asked.area = Some(Shape::Box {
            width_meters: width * asked.beside.unit_meters,
            height_meters: height * asked.beside.unit_meters,
        });
        Ok(())
    }

    /// Reads the number of vertices and as many places, with the errors of Valkey 9; gives how many
    /// arguments the option took.
    fn read_polygon(
        &self,
        asked: &mut SearchOptions<'_>,
        at: usize,
        left: usize,
    ) -> Result<usize, Failure> {
        let number = number::integer(self.args.at(at)).and_then(|count| i32::try_from(count).ok());
        let count = number.ok_or(Failure::text("ERR invalid number of vertices"))?;
        let too_few = Failure::text("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices");
        let Some(count) = usize::try_from(count).ok().filter(|count| *count <= left / 2) else {
            return Err(too_few);
        };
        if count > MOST_VERTICES {
            return Err(Failure::made(format!(
                "ERR a polygon of more than {MOST_VERTICES} vertices is not searched"
            )));
        }
        let vertex = |index: usize| place(self.args, at + 1 + 2 * index);
        let vertices: Vec<Place> = (0..count).map(vertex).collect::<Result<_, _>>()?;
        let polygon = Polygon::new(&vertices).ok_or(too_few)?;
        // A polygon has its own centre, and distances from it are in meters.
        asked.center = Some(polygon.center());
        asked.area = Some(Shape::Polygon(polygon));
        Ok(2 + 2 * count)
    }

    fn check(&self, asked: &SearchOptions<'_>) -> Result<(), Failure> {
        if asked.store.is_some()
            && (asked.beside.distance || asked.beside.hash || asked.beside.place)
        {
            let what = match self.form.storing {
                StoreMode::Always => "GEOSEARCHSTORE",
                _ => "STORE option in GEORADIUS",
            };
            return Err(Failure::made(format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        let is_search = self.form.start == Start::Options;
        let has_center =
            asked.from_member || asked.from_place || matches!(asked.area, Some(Shape::Polygon(_)));
        if is_search && !has_center {
            return Err(self.missing("FROMMEMBER or FROMLONLAT"));
        }
        if is_search && asked.area.is_none() {
            return Err(self.missing("BYRADIUS and BYBOX"));
        }
        if asked.any && asked.count == 0 {
            return Err(Failure::text("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }

    fn missing(&self, options: &str) -> Failure {
        // The command is named as the client has written it.
        let command = self.args.at(0);
        let start = format!("ERR exactly one of {options} can be specified for ");
        Failure::made([start.as_bytes(), cut(command, command.len())].concat())
    }
}

impl SearchOptions<'_> {
    /// The score that a member gets which is stored.
    pub(super) fn stored_score(&self, score: f64, distance_meters: impl Fn() -> f64) -> f64 {
        let distance = || distance_meters() / self.beside.unit_meters;
        if self.store_distance { distance() } else { score }
    }

    /// The search that the options describe; `None` when it starts from a member of a key that
    /// does not exist.
    pub(super) fn search(&self) -> Option<Search> {
        Some(Search {
            center: self.center?,
            shape: self.area.clone()?,
            order: self.order,
            count: (self.count > 0).then_some(self.count),
            any: self.any,
        })
    }
}
