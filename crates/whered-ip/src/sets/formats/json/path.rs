//! Blocks at a path of a JSON text.
//!
//! For: whatever shape a provider's list has. Not for which paths those are (`providers`).
//!
//! ```text
//! prefixes[].ip_prefix     the member ip_prefix of each element of the array prefixes
//! *[]                      each element of each array of the outermost object
//! a[].b?                   need not be there
//! ```
//!
//! A value path belongs to all blocks within the element that it shares with their path: the value
//! of `regions[].region` is that of each block of `regions[].cidrs[].cidr` within one region.
//!
//! Invariants: each element of an array on a path has a block or another array of the path in it,
//! and each path is met: a name with a slip in it is a mistake, never a shorter set.
//! Memory: blocks that wait for a value, and nothing else; without value paths none wait.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::super::lines::{lines, trimmed};
use super::super::named::Groups;
use super::{Json, SetEntry, SetTextError};

/// How many paths one text may be read by.
const PATHS_MAX: usize = 16;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    Key(String),
    AnyKey,
    Each,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct JsonPath {
    text: String,
    steps: Vec<Step>,
    is_optional: bool,
}

impl JsonPath {
    fn array_count(&self) -> usize {
        self.steps.iter().filter(|step| **step == Step::Each).count()
    }

    /// The steps up to the last array.
    fn container(&self) -> &[Step] {
        let end = self.steps.iter().rposition(|step| *step == Step::Each).map_or(0, |end| end + 1);
        &self.steps[..end]
    }
}

/// Paths to blocks, or to values, of a JSON text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JsonPaths(Vec<JsonPath>);

impl FromStr for JsonPaths {
    type Err = String;

    /// Reads paths with commas between them.
    ///
    /// ```
    /// use whered_ip::JsonPaths;
    ///
    /// assert!("prefixes[].ip_prefix, ipv6_prefixes[].ipv6_prefix".parse::<JsonPaths>().is_ok());
    /// assert!("prefixes[0]".parse::<JsonPaths>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<JsonPaths, String> {
        let paths = text.split(',').map(|path| parse_path(path.trim()));
        let paths = paths.collect::<Result<Vec<_>, _>>()?;
        if paths.len() > PATHS_MAX {
            return Err(format!("{} paths: allowed are {PATHS_MAX}", paths.len()));
        }
        Ok(JsonPaths(paths))
    }
}

impl JsonPaths {
    pub(super) fn none() -> JsonPaths {
        JsonPaths(Vec::new())
    }
}

impl fmt::Display for JsonPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<&str> = self.0.iter().map(|path| path.text.as_str()).collect();
        f.write_str(&texts.join(","))
    }
}

fn parse_path(text: &str) -> Result<JsonPath, String> {
    let wrong = || {
        format!(
            "{text:?} is no path: allowed are names with dots between them, * for any name, [] \
             behind a name for each element of its array, and ? at the end"
        )
    };
    let (path, is_optional) = text.strip_suffix('?').map_or((text, false), |path| (path, true));
    let path = path.strip_prefix('$').unwrap_or(path);
    let path = path.strip_prefix('.').unwrap_or(path);
    let mut steps = Vec::new();
    for (number, part) in path.split('.').enumerate() {
        let name = part.trim_end_matches("[]");
        let is_name = !name.is_empty() && !name.contains(['[', ']', '?', '"', '\\']);
        match name {
            "*" => steps.push(Step::AnyKey),
            // Only the outermost value has no name.
            "" if number == 0 && !part.is_empty() => {}
            name if is_name => steps.push(Step::Key(name.to_owned())),
            _ => return Err(wrong()),
        }
        steps.extend(std::iter::repeat_n(Step::Each, (part.len() - name.len()) / 2));
    }
    let is_short = (1..=super::DEPTH_MAX).contains(&steps.len());
    if is_short { Ok(JsonPath { text: text.to_owned(), steps, is_optional }) } else { Err(wrong()) }
}

/// A member of an object whose value is one of a few.
pub(in super::super) struct Check {
    pub(super) paths: JsonPaths,
    /// In small letters.
    pub(super) allowed: &'static [&'static str],
    pub(super) message: &'static str,
}

/// What is where in a text.
pub(in super::super) struct Layout {
    /// Where the blocks are.
    pub(super) blocks: JsonPaths,
    /// Where their values are.
    pub(super) values: Option<JsonPaths>,
    /// Where the durations are after which they end; then each block has one.
    pub(super) durations: Option<JsonPaths>,
    pub(super) checks: Vec<Check>,
    /// The name that `*` stands for is the value.
    pub(super) takes_names: bool,
    /// Names that `*` does not stand for.
    pub(super) other_names: &'static [&'static str],
    /// `null` is an array without elements.
    pub(super) null_is_empty: bool,
    /// One text a line.
    pub(super) is_lines: bool,
    /// Whether a last line counts the others (`{"type": "metadata", "records": 9}`).
    pub(super) has_count: bool,
}

impl Layout {
    /// Blocks at paths, with values at paths.
    pub(in super::super) fn new(
        blocks: JsonPaths,
        values: Option<JsonPaths>,
        is_lines: bool,
    ) -> Layout {
        Layout {
            blocks,
            values,
            durations: None,
            checks: Vec::new(),
            takes_names: false,
            other_names: &[],
            null_is_empty: false,
            is_lines,
            has_count: false,
        }
    }

    #[cfg(test)]
    pub(in super::super) fn blocks_text(&self) -> String {
        self.blocks.to_string()
    }

    fn queries(&self) -> Vec<Query<'_>> {
        let blocks = self.blocks.0.iter().enumerate();
        let mut queries: Vec<Query<'_>> =
            blocks.map(|(number, path)| Query { role: Role::Block(number), path }).collect();
        let values = self.values.iter().flat_map(|paths| &paths.0);
        queries.extend(values.map(|path| Query { role: Role::Value, path }));
        let durations = self.durations.iter().flat_map(|paths| &paths.0);
        queries.extend(durations.map(|path| Query { role: Role::Duration, path }));
        for (number, check) in self.checks.iter().enumerate() {
            let paths = check.paths.0.iter();
            queries.extend(paths.map(|path| Query { role: Role::Check(number), path }));
        }
        queries
    }

    /// Refuses a value path that shares no element with a path of blocks.
    fn check(&self, text: &[u8]) -> Result<(), SetTextError> {
        let lonely = self.values.iter().flat_map(|values| &values.0).find(|value| {
            self.blocks.0.iter().all(|path| !path.steps.starts_with(value.container()))
        });
        match lonely {
            None => Ok(()),
            Some(value) => Err(SetTextError::at(
                text,
                0,
                1,
                format!(
                    "a value path within an element of {}: {} lies elsewhere",
                    self.blocks, value.text
                ),
            )),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Block(usize),
    Value,
    Duration,
    Check(usize),
}

/// One path and what it leads to.
struct Query<'o> {
    role: Role,
    path: &'o JsonPath,
}

/// Which of the queries lead into a value: a bit each. There are fewer than 64.
type Active = u64;

/// An element of an array on a path; the first is the whole text.
struct Frame<'a> {
    /// How many blocks waited when it began.
    waiting: usize,
    /// How many blocks and arrays of paths it had.
    found: usize,
    value: Option<Cow<'a, [u8]>>,
    ttl_seconds: Option<u64>,
}

/// How a path was met.
#[derive(Clone, Copy, Default)]
struct Hit {
    has_block: bool,
    has_array: bool,
    element_count: u64,
}

/// A block that waits for its value.
struct PendingBlock<'a> {
    entry: SetEntry<'a>,
    place: usize,
    length: usize,
}

struct Walk<'o, 'a, E> {
    layout: &'o Layout,
    queries: Vec<Query<'o>>,
    /// The frame at whose end blocks have their values; `None` if they have none.
    ends_at: Option<usize>,
    frames: Vec<Frame<'a>>,
    waiting: Vec<PendingBlock<'a>>,
    hits: Vec<Hit>,
    each: E,
}

/// Reads the blocks at the paths of a layout.
pub(in super::super) fn read_at<'a>(
    text: &'a [u8],
    layout: &Layout,
    groups: &mut Groups<'_>,
    each: &mut impl FnMut(SetEntry<'a>),
) -> Result<(), SetTextError> {
    layout.check(text)?;
    let queries = layout.queries();
    let of_values = queries.iter().filter(|it| matches!(it.role, Role::Value | Role::Duration));
    let first = of_values.map(|query| query.path.array_count()).min();
    let ends_at = if layout.takes_names { Some(0) } else { first };
    let each = |entry: SetEntry<'a>| {
        if groups.takes(entry.value.as_deref()) {
            each(entry);
        }
    };
    let hits = vec![Hit::default(); layout.blocks.0.len()];
    let frames = Vec::new();
    let mut walk = Walk { layout, queries, ends_at, frames, waiting: Vec::new(), hits, each };
    if layout.is_lines {
        walk.lines(text)?;
    } else {
        let mut json = Json::at(text, 0);
        walk.whole(&mut json)?;
    }
    walk.end(text)
}

impl<'a, E: FnMut(SetEntry<'a>)> Walk<'_, 'a, E> {
    fn lines(&mut self, text: &'a [u8]) -> Result<(), SetTextError> {
        let (mut count, mut counted, mut last) = (0_u64, None, 0);
        for (from, to) in lines(text) {
            let Some((from, to)) = trimmed(text, from, to) else { continue };
            let mut json = Json::at(&text[..to], from);
            if self.layout.has_count
                && let Some(records) = record_count(&mut json)?
            {
                if records != count {
                    let allowed = format!("as many records as lines before: {count}");
                    return Err(SetTextError::at(text, from, to - from, allowed));
                }
                (count, counted) = (0, Some(from));
                continue;
            }
            json = Json::at(&text[..to], from);
            self.whole(&mut json)?;
            (count, last) = (count + 1, to);
        }
        if self.layout.has_count && (count > 0 || counted.is_none()) {
            let allowed =
                "a line with \"type\":\"metadata\" at the end: without it the text is cut";
            return Err(SetTextError::at(text, last.max(counted.unwrap_or(0)), 0, allowed));
        }
        Ok(())
    }

    /// Walks one text of JSON.
    fn whole(&mut self, json: &mut Json<'a>) -> Result<(), SetTextError> {
        json.peek();
        let start = json.at;
        let all = Active::MAX >> (Active::BITS as usize - self.queries.len());
        self.enter();
        self.walk(json, 0, all)?;
        json.end()?;
        let found = self.leave(json.text)?;
        if found == 0 {
            let missing = format!("a value at {}", self.layout.blocks);
            let rest = &json.text[start..json.at];
            let length = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
            return Err(SetTextError::at(json.text, start, length, missing));
        }
        Ok(())
    }

    fn enter(&mut self) {
        let waiting = self.waiting.len();
        self.frames.push(Frame { waiting, found: 0, value: None, ttl_seconds: None });
    }

    /// Ends the innermost element; gives how much it had.
    fn leave(&mut self, text: &'a [u8]) -> Result<usize, SetTextError> {
        let Some(frame) = self.frames.pop() else { return Ok(0) };
        for waiting in &mut self.waiting[frame.waiting..] {
            let entry = &mut waiting.entry;
            if entry.value.is_none() {
                entry.value.clone_from(&frame.value);
            }
            entry.ttl_seconds = entry.ttl_seconds.or(frame.ttl_seconds);
        }
        if self.ends_at == Some(self.frames.len()) {
            for waiting in self.waiting.drain(..) {
                if self.layout.durations.is_some() && waiting.entry.ttl_seconds.is_none() {
                    let allowed = "a block with a duration";
                    return Err(SetTextError::at(text, waiting.place, waiting.length, allowed));
                }
                (self.each)(waiting.entry);
            }
        }
        Ok(frame.found)
    }

    /// Those of the active queries whose next step is this one.
    fn next(&self, active: Active, depth: usize, is_it: impl Fn(&Step) -> bool) -> Active {
        let mut next = 0;
        for (number, query) in self.queries.iter().enumerate() {
            let is_next = query.path.steps.get(depth).is_some_and(&is_it);
            if active & 1 << number != 0 && is_next {
                next |= 1 << number;
            }
        }
        next
    }

    fn walk(
        &mut self,
        json: &mut Json<'a>,
        depth: usize,
        active: Active,
    ) -> Result<(), SetTextError> {
        let first = json.peek();
        let start = json.at;
        let mut is_read = false;
        for number in 0..self.queries.len() {
            if active & 1 << number != 0 && self.queries[number].path.steps.len() == depth {
                json.at = start;
                self.leaf(json, number)?;
                is_read = true;
            }
        }
        let goes_on = self.next(active, depth, |_| true);
        if goes_on == 0 {
            return if is_read { Ok(()) } else { json.skip() };
        }
        json.at = start;
        match first {
            Some(b'[') => self.array(json, depth, goes_on),
            Some(b'{') => json.object(|json, key| self.member(json, key, depth, goes_on)),
            _ => {
                if first == Some(b'n') && self.layout.null_is_empty {
                    self.reach(self.next(goes_on, depth, |step| *step == Step::Each), depth);
                }
                json.skip()
            }
        }
    }

    fn array(
        &mut self,
        json: &mut Json<'a>,
        depth: usize,
        active: Active,
    ) -> Result<(), SetTextError> {
        let next = self.next(active, depth, |step| *step == Step::Each);
        if next == 0 {
            return json.skip();
        }
        let leads_to_blocks = self.reach(next, depth);
        json.array(|json| {
            json.peek();
            let start = json.at;
            self.enter();
            for number in 0..self.queries.len() {
                if let (true, Role::Block(block)) =
                    (next & 1 << number != 0, self.queries[number].role)
                    && self.queries[number].path.container().len() == depth + 1
                {
                    self.hits[block].element_count += 1;
                }
            }
            self.walk(json, depth + 1, next)?;
            if self.leave(json.text)? == 0 && leads_to_blocks {
                let missing = format!("an element with a block at {}", self.layout.blocks);
                return Err(SetTextError::at(json.text, start, json.at - start, missing));
            }
            Ok(())
        })
    }

    /// An array on some paths was met; gives whether one of them leads to blocks.
    fn reach(&mut self, next: Active, depth: usize) -> bool {
        let mut leads_to_blocks = false;
        for (number, query) in self.queries.iter().enumerate() {
            if next & 1 << number != 0
                && let Role::Block(block) = query.role
            {
                leads_to_blocks = true;
                self.hits[block].has_array |= query.path.container().len() == depth + 1;
            }
        }
        if leads_to_blocks && let Some(frame) = self.frames.last_mut() {
            frame.found += 1;
        }
        leads_to_blocks
    }

    fn member(
        &mut self,
        json: &mut Json<'a>,
        key: &[u8],
        depth: usize,
        active: Active,
    ) -> Result<(), SetTextError> {
        let name = super::unescaped(key).unwrap_or(Cow::Borrowed(key));
        let is_other = self.layout.other_names.iter().any(|other| other.as_bytes() == &*name);
        let next = self.next(active, depth, |step| match step {
            Step::Key(key) => key.as_bytes() == &*name,
            Step::AnyKey => !is_other,
            Step::Each => false,
        });
        if next == 0 {
            return json.skip();
        }
        let waiting = self.waiting.len();
        self.walk(json, depth + 1, next)?;
        if self.layout.takes_names {
            for waiting in &mut self.waiting[waiting..] {
                waiting.entry.value.get_or_insert_with(|| Cow::Owned(name.to_vec()));
            }
        }
        Ok(())
    }

    /// Reads the value that a path leads to.
    fn leaf(&mut self, json: &mut Json<'a>, number: usize) -> Result<(), SetTextError> {
        let query = &self.queries[number];
        let (role, frame) = (query.role, query.path.array_count());
        json.peek();
        let start = json.at;
        if json.text[start..].starts_with(b"null") {
            return json.skip();
        }
        match role {
            Role::Block(block) => {
                let entry = SetEntry::from(json.list_block()?);
                self.hits[block].has_block = true;
                if let Some(frame) = self.frames.last_mut() {
                    frame.found += 1;
                }
                match self.ends_at {
                    Some(_) => {
                        self.waiting.push(PendingBlock {
                            entry,
                            place: start,
                            length: json.at - start,
                        });
                    }
                    None => (self.each)(entry),
                }
            }
            Role::Value => {
                let value = json.value_text()?;
                if let Some(frame) = self.frames.get_mut(frame) {
                    frame.value.get_or_insert(value);
                }
            }
            Role::Duration => {
                let value = json.value_text()?;
                let seconds = duration_seconds(&value).ok_or_else(|| {
                    let allowed = "a duration such as 3h59m27.4s";
                    SetTextError::at(json.text, start, json.at - start, allowed)
                })?;
                if let Some(frame) = self.frames.get_mut(frame) {
                    frame.ttl_seconds = Some(seconds);
                }
            }
            Role::Check(check) => {
                let value = json.value_text()?.to_ascii_lowercase();
                let check = &self.layout.checks[check];
                if check.allowed.iter().all(|allowed| allowed.as_bytes() != value) {
                    let length = json.at - start;
                    return Err(SetTextError::at(json.text, start, length, check.message));
                }
            }
        }
        Ok(())
    }

    /// Whether each path was met.
    fn end(&self, text: &[u8]) -> Result<(), SetTextError> {
        for (path, hit) in self.layout.blocks.0.iter().zip(&self.hits) {
            let is_empty = hit.has_array && hit.element_count == 0;
            if !(hit.has_block || is_empty || path.is_optional) {
                let missing =
                    format!("a value at {0}, or the path {0}? if there may be none", path.text);
                return Err(SetTextError::at(text, text.len(), 0, missing));
            }
        }
        Ok(())
    }
}

/// The number of records of a line that counts the others.
fn record_count(json: &mut Json<'_>) -> Result<Option<u64>, SetTextError> {
    let (mut is_metadata, mut records) = (false, None);
    if json.peek() != Some(b'{') {
        return Ok(None);
    }
    json.object(|json, key| {
        match key {
            b"type" => is_metadata = &*json.value_text()? == b"metadata",
            b"records" => records = Some(json.number()?),
            _ => json.skip()?,
        }
        Ok(())
    })?;
    if !is_metadata {
        return Ok(None);
    }
    json.end()?;
    records.map(Some).ok_or_else(|| json.wrong("the number of records"))
}

/// The seconds of a duration as Go writes it, rounded up; 0 for one that is over.
pub(in super::super) fn duration_seconds(text: &[u8]) -> Option<u64> {
    const UNITS: [(&str, f64); 7] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("\u{b5}s", 1e-6),
        ("ms", 1e-3),
        ("h", 3600.0),
        ("m", 60.0),
        ("s", 1.0),
    ];
    let text = std::str::from_utf8(text).ok()?;
    if text == "0" {
        return Some(0);
    }
    let (text, is_over) = text.strip_prefix('-').map_or((text, false), |text| (text, true));
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let is_digit = |letter: char| letter.is_ascii_digit() || letter == '.';
        let end = rest.find(|letter| !is_digit(letter))?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let (unit, factor) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit))?;
        seconds += number * factor;
        rest = &rest[unit.len()..];
    }
    // Ten thousand years: beyond that it is a slip.
    let is_short = !text.is_empty() && seconds < 3.2e11;
    is_short.then(|| if is_over { 0 } else { seconds.ceil() as u64 })
}
