//! Texts by slot into a record: the one place where texts get their meaning, whichever scanner
//! found them.
//!
//! For: both the quick scanners and the libraries' path, so that they can only differ in which
//! texts they find. Not for: finding them.
//!
//! Rules: the member and the place that a mapping has must be there, in every record; time, fields
//! and items may be absent, and an empty text is an absent number or time. Texts are UTF-8 already.
//! Cost: no allocation but the first few records'; a reason is written only for a record that is
//! refused.

use std::borrow::Cow;

use whered_geo::{Place, PlaceError};

use crate::event::{Events, Item, Record, Totals, Value};
use crate::mapping::{Field, Mapping, PlaceRoles, TimeRole};
use crate::role::Role;
use crate::source::FieldKind;
use crate::time::{TimeFault, TimeReader};
use crate::upload::{ITEM_COUNT_MAX, TEXT_SIZE_MAX_BYTES, shown};
use crate::value::{integer, number, time_millis, whole_decimal};

/// Why a record is refused: two words, which a function gives in registers. A larger one would lie
/// in memory, and what may stand in its place, too; and what is written there in parts and read as
/// a whole waits for all stores before it, those to memory that another processor has had.
type Reason = Box<str>;

/// The texts of an item: its key and its count.
pub(crate) type ItemTexts<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// The texts of one record.
#[derive(Debug, Default)]
pub(crate) struct Texts<'a> {
    /// One for each slot of the mapping.
    pub(crate) slots: Vec<Option<&'a [u8]>>,
    /// Key and count of each item.
    pub(crate) items: Vec<ItemTexts<'a>>,
    /// The number of the shape that wrote last: it writes all of its slots again, and the others
    /// hold what records have in common.
    pub(crate) shape: Option<u32>,
}

impl<'a> Texts<'a> {
    pub(crate) fn new(slot_count: usize) -> Texts<'a> {
        Texts { slots: vec![None; slot_count], ..Texts::default() }
    }
}

/// The memory that records borrow while they are handed out.
#[derive(Debug)]
pub(crate) struct Assembler<'m, 'a> {
    mapping: &'m Mapping,
    values: Vec<Value<'a>>,
    items: Vec<Item<'a>>,
    last_zone: usize,
}

impl<'m, 'a> Assembler<'m, 'a> {
    pub(crate) fn new(mapping: &'m Mapping) -> Assembler<'m, 'a> {
        Assembler { mapping, values: Vec::new(), items: Vec::new(), last_zone: 0 }
    }

    /// Hands the record out, or says why not.
    #[inline]
    pub(crate) fn hand_out<E: Events>(
        &mut self,
        offset: usize,
        texts: &Texts<'a>,
        totals: &mut Totals,
        events: &mut E,
    ) {
        if !self.mapping.slots.joins.is_empty() {
            return hand_out_joined(self.mapping, offset, texts, totals, events);
        }
        self.hand_out_whole(offset, texts, totals, events);
    }

    /// As [`hand_out`](Assembler::hand_out), with all slots filled.
    #[inline]
    fn hand_out_whole<E: Events>(
        &mut self,
        offset: usize,
        texts: &Texts<'a>,
        totals: &mut Totals,
        events: &mut E,
    ) {
        match self.record(offset, texts) {
            Ok(record) => {
                totals.records += 1;
                totals.items += record.items.len() as u64;
                events.record(&record);
            }
            Err(reason) => reject(offset, &reason, totals, events),
        }
    }

    #[inline]
    fn record(&mut self, offset: usize, texts: &Texts<'a>) -> Result<Record<'_>, Reason> {
        let mapping = self.mapping;
        let member = mapping.roles.member.text(texts).ok_or_else(|| missing("member"))?;
        if member.is_empty() {
            return Err("member is empty".into());
        }
        check_size("member", member)?;
        let place = self.place(texts)?;
        let time_millis = match &mapping.roles.time {
            Some(TimeRole { role, reader }) => time(role.text(texts), reader.as_deref())?,
            None => None,
        };
        self.values.clear();
        for field in &mapping.fields {
            let text = field.role.text(texts);
            let value = value(mapping, field, text).map_err(|why| of_field(&field.name, &why))?;
            self.values.push(value);
        }
        self.items.clear();
        for (key, count) in &texts.items {
            self.items.push(item(*key, *count)?);
        }
        if self.items.len() > ITEM_COUNT_MAX {
            return Err(too_many(self.items.len()));
        }
        let offset_bytes = offset as u64;
        let (fields, items) = (&self.values[..], &self.items[..]);
        Ok(Record { offset_bytes, member, place, time_millis, fields, items })
    }

    #[inline]
    fn place(&mut self, texts: &Texts<'a>) -> Result<Option<Place>, Reason> {
        match &self.mapping.roles.place {
            PlaceRoles::None => Ok(None),
            PlaceRoles::Degrees { longitude, latitude } => {
                let longitude = self.coordinate("longitude", longitude, texts)?;
                let latitude = self.coordinate("latitude", latitude, texts)?;
                match Place::new(longitude, latitude) {
                    Ok(place) => Ok(Some(place)),
                    Err(error) => self.polar(longitude, latitude, &error).map(Some),
                }
            }
            PlaceRoles::Zone { zone, x, y } => {
                let name = zone.text(texts).ok_or_else(|| missing("zone"))?;
                let (x, y) = (self.coordinate("x", x, texts)?, self.coordinate("y", y, texts)?);
                let zones = &self.mapping.zones;
                // Records come from one map after the other, so the last one is likely.
                if zones.get(self.last_zone).is_none_or(|zone| zone.name.as_bytes() != name) {
                    self.last_zone = zones
                        .iter()
                        .position(|zone| zone.name.as_bytes() == name)
                        .ok_or_else(|| unknown(name))?;
                }
                let place = zones[self.last_zone].place(x, y);
                place.map(Some).ok_or_else(|| outside_zone(x, y, name))
            }
        }
    }

    #[inline]
    fn coordinate(&self, name: &str, role: &Role, texts: &Texts<'_>) -> Result<f64, Reason> {
        match role.text(texts) {
            Some(text) => match number(text) {
                Some(number) => Ok(number),
                None => self.mapping.comma_number(text).ok_or_else(|| no_number(name, text)),
            },
            None => Err(missing(name)),
        }
    }

    /// A place beyond the latitudes of collections, where the mapping allows it.
    #[cold]
    #[inline(never)]
    fn polar(&self, longitude: f64, latitude: f64, error: &PlaceError) -> Result<Place, Reason> {
        if self.mapping.to_the_poles {
            Place::new_geographic(longitude, latitude).map_err(|error| outside(&error))
        } else {
            Err(outside(error))
        }
    }
}

impl Mapping {
    /// A number with a comma before its fraction, where the mapping allows it.
    #[cold]
    #[inline(never)]
    fn comma_number(&self, text: &[u8]) -> Option<f64> {
        let comma = text.iter().position(|byte| *byte == b',').filter(|_| self.decimal_comma)?;
        let mut text = text.to_owned();
        text[comma] = b'.';
        number(&text)
    }
}

/// Fills the slots that are made of others, and hands the record out.
#[inline(never)]
fn hand_out_joined<E: Events>(
    mapping: &Mapping,
    offset: usize,
    texts: &Texts<'_>,
    totals: &mut Totals,
    events: &mut E,
) {
    let first_join = mapping.slots.first_join();
    let mut memory: Vec<Option<Vec<u8>>> = Vec::with_capacity(mapping.slots.joins.len());
    for join in &mapping.slots.joins {
        let mut text = Vec::new();
        let known = with_joined(texts, first_join, &memory);
        let is_there = join.append(&known, &mut text);
        memory.push(is_there.then_some(text));
    }
    let whole = with_joined(texts, first_join, &memory);
    Assembler::new(mapping).hand_out_whole(offset, &whole, totals, events);
}

/// The texts with those that were joined so far.
fn with_joined<'a>(
    texts: &Texts<'a>,
    first_join: usize,
    memory: &'a [Option<Vec<u8>>],
) -> Texts<'a> {
    let mut slots = texts.slots.clone();
    for (slot, text) in slots[first_join..].iter_mut().zip(memory) {
        *slot = text.as_deref();
    }
    Texts { slots, items: texts.items.clone(), shape: None }
}

/// Counts a record that is refused and says so.
#[cold]
pub(crate) fn reject<E: Events>(offset: usize, reason: &str, totals: &mut Totals, events: &mut E) {
    totals.rejected += 1;
    events.reject(offset as u64, &one_line(reason));
}

/// A library's words may have a piece of the upload in them.
pub(crate) fn one_line(reason: &str) -> Cow<'_, str> {
    if !reason.contains(char::is_control) {
        return reason.into();
    }
    let mut line = String::new();
    for letter in reason.chars() {
        if letter.is_control() {
            line.extend(letter.escape_debug());
        } else {
            line.push(letter);
        }
    }
    line.into()
}

#[inline]
fn check_size(name: &str, text: &[u8]) -> Result<(), Reason> {
    if text.len() > TEXT_SIZE_MAX_BYTES { Err(too_long(name, text)) } else { Ok(()) }
}

#[inline]
fn time(text: Option<&[u8]>, reader: Option<&TimeReader>) -> Result<Option<i64>, Reason> {
    let Some(text) = text else { return Ok(None) };
    let millis = match reader {
        None => time_millis(text),
        Some(reader) => reader.read(text),
    };
    match millis {
        Ok(millis) => Ok(Some(millis)),
        Err(fault) => absent_or_wrong(text, fault),
    }
}

// Reasons are written out of line: records that are right do not pay for them.

#[cold]
#[inline(never)]
fn missing(name: &str) -> Reason {
    format!("{name} is missing").into()
}

#[cold]
#[inline(never)]
fn too_long(name: &str, text: &[u8]) -> Reason {
    format!("{name} of {} bytes; allowed: {TEXT_SIZE_MAX_BYTES}", text.len()).into()
}

#[cold]
#[inline(never)]
fn too_many(items: usize) -> Reason {
    format!("{items} items; allowed: {ITEM_COUNT_MAX}").into()
}

#[cold]
#[inline(never)]
fn of_field(name: &str, why: &str) -> Reason {
    format!("{name}: {why}").into()
}

#[cold]
#[inline(never)]
fn unknown(zone: &[u8]) -> Reason {
    format!("zone {} is not known", shown(zone)).into()
}

#[cold]
#[inline(never)]
fn outside_zone(x: f64, y: f64, zone: &[u8]) -> Reason {
    format!("{x} {y} is outside zone {}", shown(zone)).into()
}

#[cold]
#[inline(never)]
fn no_whole_number(what: &str, text: &[u8], rest: &str) -> Reason {
    format!("{what}{} is not a whole number{rest}", shown(text)).into()
}

#[cold]
#[inline(never)]
fn no_number(name: &str, text: &[u8]) -> Reason {
    if text.trim_ascii().is_empty() {
        return missing(name);
    }
    format!("{name} {} is not a number", shown(text)).into()
}

#[cold]
#[inline(never)]
fn outside(error: &PlaceError) -> Reason {
    error.to_string().into()
}

#[cold]
#[inline(never)]
fn absent_or_wrong(text: &[u8], fault: TimeFault) -> Result<Option<i64>, Reason> {
    if text.trim_ascii().is_empty() {
        return Ok(None);
    }
    let why = match fault {
        TimeFault::OutOfRange => "is not in 1970 to 2199",
        TimeFault::NoTime => {
            "is not a time; allowed: a number since 1970, ISO 8601, RFC 2822, or a 'format' of the \
             feed"
        }
        TimeFault::NoFormat => "is not in the 'format' of the feed",
        TimeFault::NoZone => {
            "has no offset, and the feed no 'zone'; allowed: time = { path = ..., zone = ... }"
        }
        TimeFault::Skipped => "is skipped by the clocks of the feed's 'zone'",
        TimeFault::Twice => {
            "is shown twice by the clocks of the feed's 'zone'; allowed: twice_shown = \"earlier\" \
             or \"later\""
        }
    };
    Err(format!("time {} {why}", shown(text)).into())
}

#[inline]
fn value<'a>(
    mapping: &Mapping,
    field: &Field,
    text: Option<&'a [u8]>,
) -> Result<Value<'a>, Reason> {
    let Some(text) = text else { return Ok(Value::Absent) };
    let value = match field.kind {
        FieldKind::Text => {
            check_size("text", text)?;
            return Ok(Value::Text(text));
        }
        FieldKind::Integer => integer(text).or_else(|| whole_decimal(text)).map(Value::Integer),
        FieldKind::Number => number(text).or_else(|| mapping.comma_number(text)).map(Value::Number),
        FieldKind::Time => {
            let millis = time(Some(text), field.reader.as_deref())?;
            return Ok(millis.map_or(Value::Absent, Value::Integer));
        }
    };
    match value {
        Some(value) => Ok(value),
        None if text.trim_ascii().is_empty() => Ok(Value::Absent),
        None if field.kind == FieldKind::Integer => Err(no_whole_number("", text, " of 64 bits")),
        None => Err(format!("{} is not a number", shown(text)).into()),
    }
}

#[inline]
fn item<'a>(key: Option<&'a [u8]>, count: Option<&'a [u8]>) -> Result<Item<'a>, Reason> {
    let key = key.filter(|key| !key.is_empty()).ok_or_else(|| missing("an item's key"))?;
    check_size("an item's key", key)?;
    let count = match count {
        None => 1,
        Some(text) => match integer(text).or_else(|| whole_decimal(text)) {
            Some(count) => count,
            None if text.trim_ascii().is_empty() => 1,
            None => return Err(no_whole_number("item count ", text, "")),
        },
    };
    Ok(Item { key, count })
}
