//! Zone files of gdnsd as master files of ours: what is dynamic goes out, the rest stays line by
//! line.
//!
//! ```text
//! www 300/60 DYNA geoip!prod   ->  ; www 300/60 DYNA geoip!prod       and an owner of a pool
//! foo.@Z, @Z, @F               ->  names with their zone
//! $INCLUDE file origin         ->  the file's lines, with $ORIGIN and $TTL set back behind them
//! TTLs, the SOA's too          ->  within the limits of gdnsd's options
//! ```
//! Not for: what records mean; our own reader judges what comes out.

use std::path::Path;
use std::rc::Rc;

use whered_dns::{Name, Zone};

use super::options::{Options, TtlLimits};
use super::vscf::{Data, Fault, Place, ReadBudget, Value};

const INCLUDES_MAX: usize = 32;
/// How many mistakes of one zone are looked for.
const MISTAKES_MAX: usize = 100;

/// A name that a plugin answers for.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) name: String,
    pub(super) plugin: String,
    pub(super) resource: String,
    /// DYNC, which may be answered with a CNAME.
    pub(super) is_alias: bool,
    pub(super) ttl_max_seconds: u64,
    pub(super) ttl_min_seconds: u64,
    /// Where it stands.
    pub(super) value: Value,
}

/// A zone without its dynamic names.
#[derive(Debug)]
pub(super) struct Master {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) owners: Vec<Owner>,
}

/// Converts the file of the zone `name`. All of its mistakes are added to `faults`, up to a number.
pub(super) fn convert(
    path: &Path,
    name: &str,
    options: &Options,
    budget: &mut ReadBudget,
    notes: &mut Vec<Fault>,
    faults: &mut Vec<Fault>,
) -> Option<Master> {
    let start = Place { file: path.into(), line: 1, column: 1 };
    let zone: Name = match name.parse() {
        Ok(zone) => zone,
        Err(error) => {
            faults.push(Fault { place: start, message: format!("zone '{name}': {error}") });
            return None;
        }
    };
    let ttl_seconds = options.limits.limit(options.ttl_seconds);
    let text = format!("$TTL {ttl_seconds}");
    let first = Line { text, edits: Vec::new(), place: start.clone(), record: 0, inherits: None };
    let mut writer = Writer {
        zone: zone.clone(),
        limits: options.limits,
        budget,
        lines: vec![first],
        record: 0,
        owners: Vec::new(),
        faults: Vec::new(),
        notes,
        limited: Vec::new(),
    };
    writer.file(path, &zone, ttl_seconds, &start, 0);
    writer.note_limited();
    let Writer { mut lines, owners, faults: mut own, .. } = writer;
    let text = read_back(&mut lines, &zone, &start, &mut own);
    faults.append(&mut own);
    Some(Master { name: name.to_owned(), text, owners })
}

/// Has our own reader judge the lines; takes out each record that it refuses, to find more.
fn read_back(lines: &mut [Line], zone: &Name, start: &Place, faults: &mut Vec<Fault>) -> String {
    let mut text = String::new();
    let mut are_more = faults.is_empty();
    for _ in 0..MISTAKES_MAX {
        text.clear();
        lines.iter().for_each(|line| {
            text.push_str(&line.written());
            text.push('\n');
        });
        let none = &mut |file: &str| Err(format!("'{file}' is included still"));
        let Err(error) = Zone::from_master_file(zone, text.as_bytes(), none) else { break };
        let line = lines.get(error.line().saturating_sub(1)).filter(|line| line.record > 0);
        let record = line.map(|line| line.record);
        // What a zone lacks as a whole may follow from what was taken out.
        if record.is_some() || are_more {
            let place = line.map_or(start, |line| &line.place).clone();
            let message = format!("found {}; allowed: {}", error.found(), error.allowed());
            faults.push(Fault { place: Place { column: error.column(), ..place }, message });
        }
        are_more = false;
        let Some(record) = record else { break };
        take_out(lines, record);
    }
    text
}

/// Empties a record; the next one is given its owner if it has none of its own.
fn take_out(lines: &mut [Line], record: usize) {
    for line in lines.iter_mut() {
        if line.record == record {
            (line.text, line.edits, line.record) = (String::new(), Vec::new(), 0);
        } else if line.record > record {
            if let Some(owner) = line.inherits.take() {
                line.edits.push(Edit { column: 1, length: 0, text: owner });
            }
            return;
        }
    }
}

struct Writer<'a> {
    zone: Name,
    limits: TtlLimits,
    budget: &'a mut ReadBudget,
    lines: Vec<Line>,
    /// The number of the last record.
    record: usize,
    owners: Vec<Owner>,
    faults: Vec<Fault>,
    notes: &'a mut Vec<Fault>,
    /// Where TTLs are written as gdnsd's limits make them.
    limited: Vec<Place>,
}

/// A line of the zone's file, with what is to be changed in it.
struct Line {
    text: String,
    edits: Vec<Edit>,
    place: Place,
    /// The number of its record from 1; 0 for what is none.
    record: usize,
    /// The owner of a record that has none of its own.
    inherits: Option<String>,
}

/// Characters of a line that are replaced; the column counts from 1.
struct Edit {
    column: usize,
    length: usize,
    text: String,
}

impl Line {
    fn written(&self) -> String {
        if self.edits.is_empty() {
            return self.text.clone();
        }
        let mut chars: Vec<char> = self.text.chars().collect();
        let mut edits: Vec<&Edit> = self.edits.iter().collect();
        edits.sort_by_key(|edit| edit.column);
        // From the end, so that columns stay right.
        for edit in edits.into_iter().rev() {
            let start = (edit.column - 1).min(chars.len());
            let end = (start + edit.length).min(chars.len());
            chars.splice(start..end, edit.text.chars());
        }
        chars.into_iter().collect()
    }
}

/// A word of a line and the column where it begins.
struct Word {
    text: String,
    column: usize,
    is_quoted: bool,
}

impl Writer<'_> {
    fn file(&mut self, path: &Path, origin: &Name, ttl: u64, from: &Place, depth: usize) {
        let file: Rc<Path> = path.into();
        let failed = |message: String| Fault { place: from.clone(), message };
        if depth > INCLUDES_MAX {
            self.faults.push(failed(format!("more than {INCLUDES_MAX} files include each other")));
            return;
        }
        let text = match self.budget.read(path) {
            Ok(bytes) => text_of(&bytes),
            Err(error) => {
                self.faults.push(failed(format!("{}: {error}", path.display())));
                return;
            }
        };
        let mut state = State {
            first: origin.clone(),
            origin: origin.clone(),
            ttl,
            owner: None,
            is_owner_out: false,
            soa: None,
        };
        let mut depth_of_brackets = 0_usize;
        for (index, line) in text.lines().enumerate() {
            let place = Place { file: Rc::clone(&file), line: index + 1, column: 1 };
            let begins = depth_of_brackets == 0;
            let words = words(line, &mut depth_of_brackets);
            if begins && !words.is_empty() {
                self.record += 1;
                state.soa = None;
            }
            match self.line(line, &words, begins, &mut state, &place, depth) {
                Ok(Some(line)) => self.push(line, &words, begins, &mut state),
                Ok(None) => {}
                Err(fault) => self.faults.push(fault),
            }
        }
    }

    /// Adds a line; at the end of an SOA its TTLs are those that gdnsd answers.
    fn push(&mut self, line: Line, words: &[Word], begins: bool, state: &mut State) {
        self.lines.push(line);
        let Some(soa) = &mut state.soa else { return };
        let data = if begins { &words[soa.data.min(words.len())..] } else { words };
        let before = soa.seen;
        soa.seen += data.len();
        let Some(minimum) = 6_usize.checked_sub(before).and_then(|at| data.get(at)) else { return };
        let Some(given) = seconds(&minimum.text) else { return };
        let negative = self.limits.negative(soa.ttl, given);
        if negative != soa.ttl {
            let text = if soa.length == 0 { format!("{negative} ") } else { negative.to_string() };
            let edit = Edit { column: soa.column, length: soa.length, text };
            self.lines[soa.line].edits.push(edit);
        }
        if let Some(line) = self.lines.last_mut().filter(|_| negative != given) {
            let length = minimum.text.chars().count();
            let text = negative.to_string();
            line.edits.push(Edit { column: minimum.column, length, text });
            let least = given.min(soa.ttl);
            if negative != least {
                self.limited.push(Place { column: minimum.column, ..line.place.clone() });
            }
        }
    }

    /// One remark a zone on TTLs beyond gdnsd's limits.
    fn note_limited(&mut self) {
        let Some(first) = self.limited.first() else { return };
        let TtlLimits { min, max, negative_max, acme } = self.limits;
        self.notes.push(Fault {
            place: first.clone(),
            message: format!(
                "{} TTLs of this zone are written as gdnsd answers them: min_ttl {min}, max_ttl \
                 {max}, max_ncache_ttl {negative_max}, acme_challenge_dns_ttl {acme}",
                self.limited.len()
            ),
        });
    }

    /// One line as it is to be, or `None` when its lines were written already.
    fn line(
        &mut self,
        line: &str,
        words: &[Word],
        begins: bool,
        state: &mut State,
        place: &Place,
        depth: usize,
    ) -> Result<Option<Line>, Fault> {
        let at = |word: &Word| Place { column: word.column, ..place.clone() };
        let record = if words.is_empty() && begins { 0 } else { self.record };
        let as_is = |text: String| Line {
            text,
            edits: Vec::new(),
            place: place.clone(),
            record,
            inherits: None,
        };
        let Some(first) = words.first().filter(|_| begins) else {
            let edits = self.renamed(words, state);
            return Ok(Some(Line { edits, ..as_is(line.to_owned()) }));
        };
        let directive = first.text.to_ascii_uppercase();
        if directive.starts_with('$') {
            let wrong = |message: &str| Fault { place: at(first), message: message.to_owned() };
            let value = words.get(1).ok_or_else(|| wrong("a directive without its value"))?;
            match directive.as_str() {
                "$TTL" => {
                    let ttl = seconds(&value.text).ok_or_else(|| wrong("a wrong TTL"))?;
                    state.ttl = self.limits.limit(ttl);
                    if state.ttl != ttl {
                        self.limited.push(at(value));
                    }
                    return Ok(Some(as_is(format!("$TTL {}", state.ttl))));
                }
                "$ORIGIN" => {
                    state.origin = self.absolute(&value.text, state, &at(value))?;
                    return Ok(Some(as_is(format!("$ORIGIN {}", dotted(&state.origin)))));
                }
                "$INCLUDE" => {
                    let origin = match words.get(2) {
                        Some(word) => self.absolute(&word.text, state, &at(word))?,
                        None => state.origin.clone(),
                    };
                    self.include(&unquoted(value), &origin, state, place, depth);
                    return Ok(None);
                }
                "$ADDR_LIMIT_V4" | "$ADDR_LIMIT_V6" => {
                    self.notes.push(wrong(
                        "it limited the addresses of an answer; here all of them are answered",
                    ));
                    return Ok(Some(as_is(format!("; {line}"))));
                }
                _ => return Err(wrong("an unknown directive; allowed: $TTL, $ORIGIN, $INCLUDE")),
            }
        }
        let has_owner = !line.starts_with([' ', '\t']);
        if has_owner {
            state.owner = Some(self.absolute(&first.text, state, &at(first))?);
            state.is_owner_out = false;
        }
        let fields = if has_owner { &words[1..] } else { words };
        let (ttl, kind) = before_type(fields);
        if let Some(kind) = kind.filter(|kind| is_dynamic(&fields[*kind])) {
            state.is_owner_out |= has_owner;
            let owner = self.dynamic(&fields[..kind], fields, kind, state, place)?;
            self.owners.push(owner);
            return Ok(Some(Line { record: 0, ..as_is(format!("; {line}")) }));
        }
        let inherits = state.owner.as_ref().filter(|_| !has_owner).map(dotted);
        let edits = self.record(words, fields, ttl, kind, state, place);
        let inherits = inherits.filter(|_| !edits.iter().any(|edit| edit.column == 1));
        Ok(Some(Line { edits, inherits, ..as_is(line.to_owned()) }))
    }

    /// A record that stays: with its owner where that was in a line that went out, and the TTL that
    /// gdnsd answers.
    fn record(
        &mut self,
        words: &[Word],
        fields: &[Word],
        ttl: Option<usize>,
        kind: Option<usize>,
        state: &mut State,
        place: &Place,
    ) -> Vec<Edit> {
        let mut edits = self.renamed(words, state);
        if let Some(owner) = &state.owner
            && std::mem::take(&mut state.is_owner_out)
        {
            edits.push(Edit { column: 1, length: 0, text: dotted(owner) });
        }
        let Some(kind) = kind else { return edits };
        let given = ttl.and_then(|ttl| seconds(&fields[ttl].text)).unwrap_or(state.ttl);
        let word = ttl.map_or(&fields[kind], |ttl| &fields[ttl]);
        let length = ttl.map_or(0, |_| word.text.chars().count());
        if fields[kind].text.eq_ignore_ascii_case("SOA") {
            let data = words.len() - fields.len() + kind + 1;
            let (line, column) = (self.lines.len(), word.column);
            state.soa = Some(Soa { line, ttl: given, column, length, data, seen: 0 });
            return edits;
        }
        let label = state.owner.as_ref().map(|owner| owner.to_string().to_ascii_lowercase());
        let is_acme = label.is_some_and(|label| label.starts_with("_acme-challenge."));
        let wanted = if is_acme { self.limits.acme } else { self.limits.limit(given) };
        if wanted != given {
            let text = if length == 0 { format!("{wanted} ") } else { wanted.to_string() };
            edits.push(Edit { column: word.column, length, text });
            self.limited.push(Place { column: word.column, ..place.clone() });
        }
        edits
    }

    fn dynamic(
        &self,
        before: &[Word],
        fields: &[Word],
        kind: usize,
        state: &State,
        place: &Place,
    ) -> Result<Owner, Fault> {
        let at = Place { column: fields[kind].column, ..place.clone() };
        let wrong = |message: &str| Fault { place: at.clone(), message: message.to_owned() };
        let target = fields.get(kind + 1).ok_or_else(|| wrong("no plugin!resource"))?;
        let (plugin, resource) = match target.text.split_once('!') {
            Some(parts) => parts,
            None if matches!(&*target.text, "null" | "reflect") => (&*target.text, ""),
            None => return Err(wrong("no plugin!resource")),
        };
        let owner = state.owner.as_ref().ok_or_else(|| wrong("a record without an owner"))?;
        let ttl = before.iter().find(|word| word.text.starts_with(|c: char| c.is_ascii_digit()));
        let (maximum, minimum) = match ttl {
            None => (state.ttl, None),
            Some(word) => {
                let (maximum, minimum) = match word.text.split_once('/') {
                    Some((maximum, minimum)) => (maximum, Some(minimum)),
                    None => (&*word.text, None),
                };
                let minimum = minimum.map(|text| seconds(text).ok_or_else(|| wrong("a wrong TTL")));
                (seconds(maximum).ok_or_else(|| wrong("a wrong TTL"))?, minimum.transpose()?)
            }
        };
        let data = Data::Text(target.text.clone());
        let name = owner.to_string();
        let name = name.strip_suffix('.').filter(|name| !name.is_empty()).unwrap_or(&name);
        let maximum = self.limits.limit(maximum);
        Ok(Owner {
            name: name.to_owned(),
            plugin: plugin.to_owned(),
            resource: resource.to_owned(),
            is_alias: fields[kind].text.eq_ignore_ascii_case("DYNC"),
            ttl_max_seconds: maximum,
            ttl_min_seconds: self.limits.limit(minimum.unwrap_or(maximum / 2)),
            value: Value { place: Place { column: target.column, ..at.clone() }, data },
        })
    }

    fn include(&mut self, file: &str, origin: &Name, state: &State, place: &Place, depth: usize) {
        let path = place.file.parent().unwrap_or(Path::new("")).join(file);
        self.directive(format!("$ORIGIN {}", dotted(origin)), place);
        self.file(&path, origin, state.ttl, place, depth + 1);
        self.directive(format!("$ORIGIN {}", dotted(&state.origin)), place);
        self.directive(format!("$TTL {}", state.ttl), place);
    }

    fn directive(&mut self, text: String, place: &Place) {
        let place = place.clone();
        self.lines.push(Line { text, edits: Vec::new(), place, record: 0, inherits: None });
    }

    /// `@Z` and `@F` of a line, written out.
    fn renamed(&self, words: &[Word], state: &State) -> Vec<Edit> {
        let ours = words.iter().filter(|word| !word.is_quoted);
        let edit = |word: &Word| {
            let text = self.special(&word.text, state)?;
            Some(Edit { column: word.column, length: word.text.chars().count(), text })
        };
        ours.filter_map(edit).collect()
    }

    /// A name that ends in `@Z` or `@F`, written out.
    fn special(&self, word: &str, state: &State) -> Option<String> {
        let (rest, base) = match (word.strip_suffix("@Z"), word.strip_suffix("@F")) {
            (Some(rest), _) => (rest, &self.zone),
            (None, Some(rest)) => (rest, &state.first),
            (None, None) => return None,
        };
        let base = dotted(base);
        let base = if rest.is_empty() { &*base } else { base.trim_start_matches('.') };
        (rest.is_empty() || rest.ends_with('.')).then(|| format!("{rest}{base}"))
    }

    fn absolute(&self, word: &str, state: &State, place: &Place) -> Result<Name, Fault> {
        let text = self.special(word, state).unwrap_or_else(|| word.to_owned());
        if text == "@" {
            return Ok(state.origin.clone());
        }
        Name::from_text(text.as_bytes(), Some(&state.origin))
            .map_err(|error| Fault { place: place.clone(), message: format!("'{word}': {error}") })
    }
}

struct State {
    /// The origin that the file began with.
    first: Name,
    origin: Name,
    ttl: u64,
    owner: Option<Name>,
    /// The line that named the owner was that of a dynamic record.
    is_owner_out: bool,
    soa: Option<Soa>,
}

/// An SOA whose data is being read.
struct Soa {
    /// Its first line, and where the TTL is or would be there.
    line: usize,
    ttl: u64,
    column: usize,
    length: usize,
    /// The first word of the data in the first line.
    data: usize,
    /// How many words of the data were seen.
    seen: usize,
}

/// Where the TTL and the type of a record are among its fields.
fn before_type(fields: &[Word]) -> (Option<usize>, Option<usize>) {
    let mut ttl = None;
    for (at, word) in fields.iter().enumerate().take(3) {
        let begins_as_ttl = word.text.starts_with(|c: char| c.is_ascii_digit());
        if begins_as_ttl && ttl.is_none() && !word.is_quoted {
            ttl = Some(at);
        } else if !word.text.eq_ignore_ascii_case("IN") {
            return (ttl, Some(at));
        }
    }
    (ttl, None)
}

fn is_dynamic(word: &Word) -> bool {
    !word.is_quoted && matches!(&*word.text.to_ascii_uppercase(), "DYNA" | "DYNC")
}

fn unquoted(word: &Word) -> String {
    word.text.trim_matches('"').to_owned()
}

/// Text of a file; bytes that are no UTF-8 are escaped, as zone files may have any.
fn text_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\{byte:03}")));
    }
    text
}

fn dotted(name: &Name) -> String {
    format!("{}.", name.to_string().trim_end_matches('.'))
}

/// The words of a line without its comment; counts brackets that are open behind it.
fn words(line: &str, brackets: &mut usize) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut chars = line.chars().enumerate().peekable();
    while let Some((at, next)) = chars.next() {
        match next {
            ';' => break,
            '(' => *brackets += 1,
            ')' => *brackets = brackets.saturating_sub(1),
            next if next.is_whitespace() => {}
            _ => {
                let is_quoted = next == '"';
                let mut text = String::from(next);
                let mut is_escaped = next == '\\';
                while let Some((_, next)) = chars.peek().copied() {
                    let ends = match is_quoted {
                        true => next == '"' && !is_escaped,
                        false => !is_escaped && (next.is_whitespace() || ";()\"".contains(next)),
                    };
                    if ends && !is_quoted {
                        break;
                    }
                    is_escaped = next == '\\' && !is_escaped;
                    text.push(next);
                    chars.next();
                    if ends {
                        break;
                    }
                }
                words.push(Word { text, column: at + 1, is_quoted });
            }
        }
    }
    words
}

/// `300`, `5m`, `1h30m`.
fn seconds(text: &str) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let (mut total, mut number, mut has_digits) = (0_u64, 0_u64, false);
    for next in text.chars() {
        if let Some(digit) = next.to_digit(10) {
            number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
            has_digits = true;
            continue;
        }
        let unit = match next.to_ascii_lowercase() {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        if !std::mem::take(&mut has_digits) {
            return None;
        }
        total = total.checked_add(number.checked_mul(unit)?)?;
        number = 0;
    }
    total.checked_add(number).filter(|total| *total <= 0x7fff_ffff)
}
