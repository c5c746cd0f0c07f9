//! Zone files of gdnsd as master files of ours: what is dynamic goes out, the rest stays line by
//! line.
//!
//! ```text
//! www 300/60 DYNA geoip!prod   ->  ; www 300/60 DYNA geoip!prod       and an owner of a pool
//! foo.@Z, @Z, @F               ->  names with their zone
//! $INCLUDE file origin         ->  the file's lines, with $ORIGIN and $TTL set back behind them
//! ```
//! Not for: what records mean; our own reader judges what comes out.

use std::fs;
use std::path::Path;
use std::rc::Rc;

use whered_dns::{Name, Zone};

use super::vscf::{Data, Fault, Place, Value};

const INCLUDES_MAX: usize = 32;

/// A name that a plugin answers for.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) name: String,
    pub(super) plugin: String,
    pub(super) resource: String,
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

/// Converts the file of the zone `name`.
pub(super) fn convert(path: &Path, name: &str, ttl_seconds: u64) -> Result<Master, Vec<Fault>> {
    let start = Place { file: path.into(), line: 1, column: 1 };
    let zone: Name = name.parse().map_err(|error| {
        vec![Fault { place: start.clone(), message: format!("zone '{name}': {error}") }]
    })?;
    let mut writer = Writer {
        zone: zone.clone(),
        lines: vec![(format!("$TTL {ttl_seconds}"), start.clone())],
        owners: Vec::new(),
        faults: Vec::new(),
    };
    writer.file(path, &zone, ttl_seconds, &start, 0);
    if !writer.faults.is_empty() {
        return Err(writer.faults);
    }
    let mut text = String::new();
    writer.lines.iter().for_each(|(line, _)| {
        text.push_str(line);
        text.push('\n');
    });
    let none = &mut |file: &str| Err(format!("'{file}' is included still"));
    if let Err(error) = Zone::from_master_file(&zone, text.as_bytes(), none) {
        let line = error.line().saturating_sub(1);
        let place = writer.lines.get(line).map_or(start, |(_, place)| place.clone());
        let message = format!("found {}; allowed: {}", error.found(), error.allowed());
        return Err(vec![Fault { place: Place { column: error.column(), ..place }, message }]);
    }
    Ok(Master { name: name.to_owned(), text, owners: writer.owners })
}

struct Writer {
    zone: Name,
    /// Each with the line that it was.
    lines: Vec<(String, Place)>,
    owners: Vec<Owner>,
    faults: Vec<Fault>,
}

/// A word of a line and the column where it begins.
struct Word {
    text: String,
    column: usize,
    is_quoted: bool,
}

impl Writer {
    fn file(&mut self, path: &Path, origin: &Name, ttl: u64, from: &Place, depth: usize) {
        let file: Rc<Path> = path.into();
        let failed = |message: String| Fault { place: from.clone(), message };
        if depth > INCLUDES_MAX {
            self.faults.push(failed(format!("more than {INCLUDES_MAX} files include each other")));
            return;
        }
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
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
        };
        let mut depth_of_brackets = 0_usize;
        for (index, line) in text.lines().enumerate() {
            let place = Place { file: Rc::clone(&file), line: index + 1, column: 1 };
            let is_record = depth_of_brackets == 0;
            let words = words(line, &mut depth_of_brackets);
            let written = self.line(line, &words, is_record, &mut state, &place, depth);
            match written {
                Ok(Some(line)) => self.lines.push((line, place)),
                Ok(None) => {}
                Err(fault) => self.faults.push(fault),
            }
        }
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
    ) -> Result<Option<String>, Fault> {
        let at = |word: &Word| Place { column: word.column, ..place.clone() };
        let Some(first) = words.first().filter(|_| begins) else {
            return Ok(Some(self.renamed(line, words, state)));
        };
        let directive = first.text.to_ascii_uppercase();
        if directive.starts_with('$') {
            let wrong = |message: &str| Fault { place: at(first), message: message.to_owned() };
            let value = words.get(1).ok_or_else(|| wrong("a directive without its value"))?;
            match directive.as_str() {
                "$TTL" => {
                    state.ttl = seconds(&value.text).ok_or_else(|| wrong("a wrong TTL"))?;
                    return Ok(Some(format!("$TTL {}", state.ttl)));
                }
                "$ORIGIN" => {
                    state.origin = self.absolute(&value.text, state, &at(value))?;
                    return Ok(Some(format!("$ORIGIN {}", dotted(&state.origin))));
                }
                "$INCLUDE" => {
                    let origin = match words.get(2) {
                        Some(word) => self.absolute(&word.text, state, &at(word))?,
                        None => state.origin.clone(),
                    };
                    self.include(&value.text, &origin, state, place, depth);
                    return Ok(None);
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
        let is_dynamic = |word: &&Word| {
            !word.is_quoted && matches!(&*word.text.to_ascii_uppercase(), "DYNA" | "DYNC")
        };
        // Before the type stand a TTL and a class at most.
        let Some(kind) = fields.iter().take(3).position(|word| is_dynamic(&word)) else {
            return Ok(Some(self.record(line, words, state)));
        };
        let is_named = fields[..kind].iter().all(|word| {
            word.text.eq_ignore_ascii_case("IN")
                || word.text.starts_with(|c: char| c.is_ascii_digit())
        });
        if !is_named {
            return Ok(Some(self.record(line, words, state)));
        }
        state.is_owner_out |= has_owner;
        let owner = self.dynamic(&fields[..kind], fields, kind, state, place)?;
        self.owners.push(owner);
        Ok(Some(format!("; {line}")))
    }

    /// A record that stays, with its owner where that stood in a line that went out.
    fn record(&self, line: &str, words: &[Word], state: &mut State) -> String {
        let text = self.renamed(line, words, state);
        match &state.owner {
            Some(owner) if std::mem::take(&mut state.is_owner_out) => {
                format!("{}{text}", dotted(owner))
            }
            _ => text,
        }
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
        let (plugin, resource) =
            target.text.split_once('!').ok_or_else(|| wrong("no plugin!resource"))?;
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
        Ok(Owner {
            name: owner.to_string().trim_end_matches('.').to_owned(),
            plugin: plugin.to_owned(),
            resource: resource.to_owned(),
            ttl_max_seconds: maximum,
            ttl_min_seconds: minimum.unwrap_or(maximum / 2),
            value: Value { place: Place { column: target.column, ..at.clone() }, data },
        })
    }

    fn include(&mut self, file: &str, origin: &Name, state: &State, place: &Place, depth: usize) {
        let path = place.file.parent().unwrap_or(Path::new("")).join(file);
        self.lines.push((format!("$ORIGIN {}", dotted(origin)), place.clone()));
        self.file(&path, origin, state.ttl, place, depth + 1);
        self.lines.push((format!("$ORIGIN {}", dotted(&state.origin)), place.clone()));
        self.lines.push((format!("$TTL {}", state.ttl), place.clone()));
    }

    /// The line with `@Z` and `@F` written out.
    fn renamed(&self, line: &str, words: &[Word], state: &State) -> String {
        let mut text = line.to_owned();
        let ours = words.iter().filter(|word| !word.is_quoted);
        // From the end, so that columns stay right.
        for word in ours.collect::<Vec<_>>().into_iter().rev() {
            let Some(full) = self.special(&word.text, state) else { continue };
            let start = line.char_indices().nth(word.column - 1).map_or(line.len(), |(at, _)| at);
            text.replace_range(start..start + word.text.len(), &full);
        }
        text
    }

    /// A name that ends in `@Z` or `@F`, written out.
    fn special(&self, word: &str, state: &State) -> Option<String> {
        let (rest, base) = match (word.strip_suffix("@Z"), word.strip_suffix("@F")) {
            (Some(rest), _) => (rest, &self.zone),
            (None, Some(rest)) => (rest, &state.first),
            (None, None) => return None,
        };
        (rest.is_empty() || rest.ends_with('.')).then(|| format!("{rest}{}", dotted(base)))
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
