//! Reads a master file (RFC 1035, 5; RFC 2308, 4 for `$TTL`) into records.
//!
//! Not for: whether the records make a zone (`build.rs`).
//!
//! Entries and their places come from `lexer.rs`; record data are read by `plain.rs` or else by
//! `data.rs`; the fields in front and the directives are read here, so that every mistake has its
//! column and so that TTLs may have units (`1h30m`). `$INCLUDE` asks the caller for the bytes:
//! at most [`INCLUDE_DEPTH_MAX`] deep and [`INCLUDE_COUNT_MAX`] in all, so that a file that
//! includes itself ends in an error. Cost: linear; memory about that of the text.

use domain::base::iana::Class;

use super::Dnssec;
use super::data;
use super::error::{Place, ZoneError};
use super::generate::{self, GENERATED_COUNT_MAX, Range};
use super::lexer::{LexError, Lexer, Token};
use super::parsed_zone::ParsedZone;
use super::plain;
use super::rdata;
use crate::code::RecordType;
use crate::name::{Name, append_text};

const INCLUDE_DEPTH_MAX: usize = 8;
const INCLUDE_COUNT_MAX: usize = 1024;
/// The largest TTL (RFC 2181, 8).
pub(crate) const TTL_SECONDS_MAX: u32 = 0x7fff_ffff;

/// The callback that gives the bytes of an included file.
pub(crate) type Include<'a> = &'a mut dyn FnMut(&str) -> Result<Vec<u8>, String>;

/// The state that is carried from entry to entry.
struct Reader<'a> {
    include: Include<'a>,
    dnssec: Dnssec,
    include_count: usize,
    generated_count: u64,
    parsed: ParsedZone,
    default_ttl_seconds: Option<u32>,
    last_ttl_seconds: Option<u32>,
    /// An owner or data in wire form; used again and again.
    wire: Vec<u8>,
}

/// The state that `$INCLUDE` does not change in the including file.
struct Scope {
    file: u16,
    file_name: Option<std::sync::Arc<str>>,
    origin: Name,
    owner: Option<Owner>,
}

/// The owner of a record.
#[derive(Clone, Copy)]
enum Owner {
    /// The number of one in the zone.
    Within(u32),
    /// A name outside of the zone, whose records are left out.
    Outside,
}

/// Reads all records of a master file and of what it includes, and the place of the text's end.
pub(super) fn read(
    origin: &Name,
    text: &[u8],
    dnssec: Dnssec,
    include: Include<'_>,
) -> Result<(ParsedZone, Place), ZoneError> {
    let mut reader = Reader {
        include,
        dnssec,
        include_count: 0,
        generated_count: 0,
        parsed: ParsedZone::new(origin),
        default_ttl_seconds: None,
        last_ttl_seconds: None,
        wire: Vec::new(),
    };
    let end = reader.file(0, origin.clone(), text, 0)?;
    if reader.parsed.left_out_count > 0 {
        reader.parsed.forget_bare_owners();
    }
    Ok((reader.parsed, end))
}

impl Reader<'_> {
    fn file(
        &mut self,
        file: u16,
        origin: Name,
        text: &[u8],
        depth: usize,
    ) -> Result<Place, ZoneError> {
        let file_name = self.parsed.file(file);
        let mut scope = Scope { file, file_name, origin, owner: None };
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::new();
        loop {
            match lexer.next_entry(&mut tokens) {
                Ok(true) => self.entry(&mut scope, &tokens, depth)?,
                Ok(false) => {
                    let (line, column) = lexer.place();
                    return Ok(Place { file: scope.file_name, line, column });
                }
                Err(LexError { line, column, found, allowed }) => {
                    let place = Place { file: scope.file_name, line, column };
                    return Err(ZoneError::new(&place, found, allowed));
                }
            }
        }
    }

    fn entry(
        &mut self,
        scope: &mut Scope,
        tokens: &[Token<'_>],
        depth: usize,
    ) -> Result<(), ZoneError> {
        let Some((first, rest)) = tokens.split_first() else {
            return Ok(());
        };
        if !first.spaced && !first.quoted && first.raw.starts_with(b"$") {
            return self.directive(scope, first, rest, depth);
        }
        self.record(scope, tokens)
    }

    /// Reads `[owner] [TTL] [class] type data`.
    fn record(&mut self, scope: &mut Scope, tokens: &[Token<'_>]) -> Result<(), ZoneError> {
        let Some((first, rest)) = tokens.split_first() else {
            return Ok(());
        };
        let (owner, rest) = if first.spaced {
            // The first record of a file may leave out the origin.
            let owner = match scope.owner {
                Some(owner) => owner,
                None => self.owner_of_wire(scope.origin.as_wire()),
            };
            (owner, tokens)
        } else {
            (self.owner(scope, first)?, rest)
        };
        scope.owner = Some(owner);
        let (ttl_seconds, record_type, data) = self.fields(scope, first, rest)?;
        if let Owner::Within(owner) = owner
            && self.dnssec == Dnssec::Refuse
            && record_type.is_of_signed_zones()
        {
            return Err(self.signed(scope, data.first().unwrap_or(first), record_type, owner));
        }
        self.data(scope, record_type, data)?;
        let ttl_seconds = self.effective_ttl(scope, first, ttl_seconds, record_type)?;
        let Owner::Within(owner) = owner else {
            let allowed = format!("names at and below {} (it is left out)", self.parsed.origin);
            self.parsed.remark(&scope.place(first), "a record outside of the zone", allowed);
            return Ok(());
        };
        if self.dnssec == Dnssec::Strip && is_stripped(record_type) {
            self.parsed.left_out_count += 1;
            return Ok(());
        }
        let place = (scope.file, first.line, first.column);
        let added = self.parsed.add(owner, (record_type, ttl_seconds), &self.wire, place);
        added.ok_or_else(|| {
            let allowed = "data and names of at most 4 GiB each, data of at most 65535 bytes";
            scope.error(first, "a record for which there is no room", allowed)
        })
    }

    /// A record of a signed zone, where nobody has asked for leaving such records out.
    #[cold]
    fn signed(
        &self,
        scope: &Scope,
        token: &Token<'_>,
        record_type: RecordType,
        owner: u32,
    ) -> ZoneError {
        let owner = self.parsed.full_name(owner);
        let found = format!("{record_type} in a zone that is to be unsigned");
        let allowed = format!(
            "an unsigned zone; or unsigned = \"serve\" ([[zone]], --unsigned of zone check), which \
             serves its signatures; or \"strip\", which leaves out {record_type} of {owner} and all of DNSSEC: before, take the DS of {origin} \
             out of its parent zone",
            origin = self.parsed.origin
        );
        scope.error(token, found, allowed)
    }

    fn owner(&mut self, scope: &Scope, token: &Token<'_>) -> Result<Owner, ZoneError> {
        let mut wire = std::mem::take(&mut self.wire);
        wire.clear();
        if token.raw == b"@" && !token.quoted {
            wire.extend_from_slice(scope.origin.as_wire());
        } else if !token.raw.is_ascii()
            || append_text(token.raw, scope.origin.as_wire(), &mut wire).is_err()
        {
            // Asked again for the words of the mistake.
            scope.name(token)?;
        }
        let owner = self.owner_of_wire(&wire);
        self.wire = wire;
        Ok(owner)
    }

    fn owner_of_wire(&mut self, wire: &[u8]) -> Owner {
        self.parsed.owner(wire).map_or(Owner::Outside, Owner::Within)
    }

    /// Reads `[TTL] [class] type` in either order. Gives the tokens from the type on.
    fn fields<'t, 'a>(
        &mut self,
        scope: &Scope,
        first: &Token<'a>,
        tokens: &'t [Token<'a>],
    ) -> Result<(Option<u32>, RecordType, &'t [Token<'a>]), ZoneError> {
        const ALLOWED: &str = "[TTL] [IN] type data";
        let (mut ttl_seconds, mut class) = (None, None);
        let mut last = first;
        for (index, token) in tokens.iter().enumerate() {
            last = token;
            if let Some(record_type) = frequent_type(token.raw) {
                return Ok((ttl_seconds, record_type, &tokens[index..]));
            }
            let text = token.text();
            if ttl_seconds.is_none() && text.starts_with(|c: char| c.is_ascii_digit()) {
                ttl_seconds = Some(self.ttl(scope, token)?);
            } else if let Some(record_type) = RecordType::from_text(&text) {
                if matches!(record_type.0, 0 | 41 | 128..=255) {
                    let found = format!("the type {record_type}, which is no data");
                    return Err(scope.error(token, found, "a type of data"));
                }
                return Ok((ttl_seconds, record_type, &tokens[index..]));
            } else if let Ok(found) = text.parse::<Class>() {
                if found != Class::IN || class.is_some() {
                    return Err(scope.error(token, format!("the class {text}"), "IN, once"));
                }
                class = Some(found);
            } else {
                let found = format!("\"{text}\" where a TTL, a class or a type is expected");
                return Err(scope.error(token, found, ALLOWED));
            }
        }
        Err(scope.error(last, "a record that ends before its type", ALLOWED))
    }

    /// Reads data into `self.wire`.
    fn data(
        &mut self,
        scope: &mut Scope,
        record_type: RecordType,
        tokens: &[Token<'_>],
    ) -> Result<(), ZoneError> {
        let (type_token, tokens) = tokens.split_first().expect("the type was read from here");
        self.wire.clear();
        let plain = plain::read(record_type, tokens, scope.origin.as_wire(), &mut self.wire);
        if plain.is_none() {
            self.wire.clear();
            let remark = scope.odd_data(record_type, type_token, tokens, &mut self.wire)?;
            if let Some((place, remark)) = remark {
                self.parsed.remark(&place, remark.found, remark.allowed);
            }
        }
        Ok(())
    }

    /// A TTL. One that is too large counts as 0 (RFC 2181, 8), with a remark.
    fn ttl(&mut self, scope: &Scope, token: &Token<'_>) -> Result<u32, ZoneError> {
        let seconds = seconds(token.raw).ok_or_else(|| {
            let allowed = format!("0 to {TTL_SECONDS_MAX} seconds, or 1w2d3h4m5s");
            scope.error(token, format!("\"{}\"", token.text()), allowed)
        })?;
        if seconds <= TTL_SECONDS_MAX {
            return Ok(seconds);
        }
        let allowed = format!("0 to {TTL_SECONDS_MAX} (it counts as 0; RFC 2181, 8)");
        self.parsed.remark(&scope.place(token), format!("the TTL {seconds}"), allowed);
        Ok(0)
    }

    /// The TTL of a record: its own, `$TTL`, the last one stated, or the SOA's minimum.
    fn effective_ttl(
        &mut self,
        scope: &Scope,
        first: &Token<'_>,
        own: Option<u32>,
        record_type: RecordType,
    ) -> Result<u32, ZoneError> {
        if own.is_some() {
            self.last_ttl_seconds = own;
        } else if record_type == RecordType::SOA && self.last_ttl_seconds.is_none() {
            let minimum = self.wire.last_chunk().map(|bytes| u32::from_be_bytes(*bytes));
            self.last_ttl_seconds = minimum.map(|minimum| minimum.min(TTL_SECONDS_MAX));
        }
        own.or(self.default_ttl_seconds).or(self.last_ttl_seconds).ok_or_else(|| {
            let allowed = "a TTL here, in a record before, or a $TTL line before";
            scope.error(first, "a record without a TTL", allowed)
        })
    }

    fn directive(
        &mut self,
        scope: &mut Scope,
        directive: &Token<'_>,
        tokens: &[Token<'_>],
        depth: usize,
    ) -> Result<(), ZoneError> {
        let name = directive.text();
        match (name.to_ascii_uppercase().as_str(), tokens) {
            ("$ORIGIN", [origin]) => {
                scope.origin = scope.name(origin)?;
                Ok(())
            }
            ("$TTL", [ttl]) => {
                self.default_ttl_seconds = Some(self.ttl(scope, ttl)?);
                Ok(())
            }
            ("$INCLUDE", [path]) => self.include(scope, path, scope.origin.clone(), depth),
            ("$INCLUDE", [path, origin]) => {
                let origin = scope.name(origin)?;
                self.include(scope, path, origin, depth)
            }
            ("$GENERATE", [range, line @ ..]) if line.len() >= 3 => {
                self.generate(scope, range, line)
            }
            ("$GENERATE", _) => {
                let allowed = "$GENERATE first-last[/step] owner [TTL] [IN] type data";
                Err(scope.error(directive, "$GENERATE", allowed))
            }
            ("$ORIGIN", _) => Err(scope.error(directive, "$ORIGIN", "$ORIGIN name")),
            ("$TTL", _) => Err(scope.error(directive, "$TTL", "$TTL seconds")),
            ("$INCLUDE", _) => {
                Err(scope.error(directive, "$INCLUDE", "$INCLUDE path [origin name]"))
            }
            _ => {
                let found = format!("the directive {name}");
                Err(scope.error(directive, found, "$ORIGIN, $TTL, $INCLUDE and $GENERATE"))
            }
        }
    }

    fn include(
        &mut self,
        scope: &Scope,
        path: &Token<'_>,
        origin: Name,
        depth: usize,
    ) -> Result<(), ZoneError> {
        self.include_count += 1;
        if depth >= INCLUDE_DEPTH_MAX || self.include_count > INCLUDE_COUNT_MAX {
            let allowed = format!("files {INCLUDE_DEPTH_MAX} deep and {INCLUDE_COUNT_MAX} in all");
            return Err(scope.error(path, "too many included files", allowed));
        }
        let file = path.unescaped();
        let text = (self.include)(&file).map_err(|reason| {
            scope.error(path, format!("\"{file}\": {reason}"), "a file that can be read")
        })?;
        let file = self.parsed.add_file(&file);
        self.file(file, origin, &text, depth + 1)?;
        Ok(())
    }

    fn generate(
        &mut self,
        scope: &mut Scope,
        range: &Token<'_>,
        line: &[Token<'_>],
    ) -> Result<(), ZoneError> {
        let parsed = Range::parse(&range.text()).ok_or_else(|| {
            let found = format!("the range \"{}\"", range.text());
            scope.error(range, found, "first-last or first-last/step, up to 2147483647")
        })?;
        self.generated_count += parsed.count();
        if self.generated_count > GENERATED_COUNT_MAX {
            let allowed = format!("{GENERATED_COUNT_MAX} lines in all");
            return Err(scope.error(range, "too many generated lines", allowed));
        }
        let mut texts: Vec<Vec<u8>> = vec![Vec::new(); line.len()];
        for number in parsed.numbers() {
            for (token, text) in line.iter().zip(&mut texts) {
                text.clear();
                generate::expand(token, number, text).ok_or_else(|| {
                    let found = format!("\"{}\"", token.text());
                    let allowed = "$ or ${offset[,width[,base]]}, base d, o, x, X, n or N, \
                                   and no number below 0";
                    scope.error(token, found, allowed)
                })?;
            }
            let tokens = line.iter().zip(&texts).map(|(token, raw)| Token { raw, ..*token });
            let mut tokens: Vec<Token<'_>> = tokens.collect();
            if let Some(owner) = tokens.first_mut() {
                owner.spaced = false;
            }
            self.record(scope, &tokens)?;
        }
        Ok(())
    }
}

/// What has no use in a zone that is served unsigned: besides what only signed zones have, DS,
/// which nobody may trust there, and a digest, which is that of the whole file.
pub(super) fn is_stripped(record_type: RecordType) -> bool {
    record_type.is_of_signed_zones() || matches!(record_type, RecordType::DS | RecordType::ZONEMD)
}

/// The types that most records have.
fn frequent_type(text: &[u8]) -> Option<RecordType> {
    Some(match text {
        b"A" => RecordType::A,
        b"NS" => RecordType::NS,
        b"AAAA" => RecordType::AAAA,
        b"CNAME" => RecordType::CNAME,
        b"PTR" => RecordType::PTR,
        b"MX" => RecordType::MX,
        b"TXT" => RecordType::TXT,
        b"DS" => RecordType::DS,
        b"SRV" => RecordType::SRV,
        _ => return None,
    })
}

impl Scope {
    fn place(&self, token: &Token<'_>) -> Place {
        Place { file: self.file_name.clone(), line: token.line, column: token.column }
    }

    /// Reads data that are not plain into `wire`.
    fn odd_data(
        &self,
        record_type: RecordType,
        type_token: &Token<'_>,
        tokens: &[Token<'_>],
        wire: &mut Vec<u8>,
    ) -> Result<Option<(Place, data::DataRemark)>, ZoneError> {
        let what = || format!("data of type {record_type}");
        let read = data::read(record_type, tokens, self.origin.as_wire(), wire);
        let remark = read.map_err(|error| match error.token {
            None => {
                let last = tokens.last().unwrap_or(type_token);
                self.error(last, format!("{} that end too early here", what()), what())
            }
            Some(index) => match tokens.get(index) {
                Some(token) => {
                    let found = format!("\"{}\": {}", token.text(), error.message);
                    self.error(token, found, what())
                }
                None => self.error(type_token, error.message, what()),
            },
        })?;
        rdata::check(record_type, wire).map_err(|allowed| {
            let token = tokens.first().unwrap_or(type_token);
            self.error(token, format!("{} of another form", what()), allowed)
        })?;
        Ok(remark.and_then(|remark| Some((self.place(tokens.get(remark.token)?), remark))))
    }

    fn error(
        &self,
        token: &Token<'_>,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> ZoneError {
        ZoneError::new(&self.place(token), found, allowed)
    }

    fn name(&self, token: &Token<'_>) -> Result<Name, ZoneError> {
        if token.raw == b"@" && !token.quoted {
            return Ok(self.origin.clone());
        }
        if !token.raw.is_ascii() {
            let allowed = "printable ASCII in names; other bytes are written \\DDD";
            return Err(self.error(token, format!("\"{}\"", token.text()), allowed));
        }
        Name::from_text(token.raw, Some(&self.origin)).map_err(|error| {
            let found = format!("\"{}\": {error}", token.text());
            self.error(token, found, "a domain name of at most 255 bytes")
        })
    }
}

impl Token<'_> {
    pub(super) fn utf8(&self) -> Option<&str> {
        std::str::from_utf8(self.raw).ok()
    }

    fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.raw)
    }

    /// The token's text with its escapes undone, for a path.
    fn unescaped(&self) -> String {
        String::from_utf8_lossy(&data::unescaped(self.raw)).into_owned()
    }
}

/// `3600` or `1h30m`, in seconds.
pub(super) fn seconds(text: &[u8]) -> Option<u32> {
    let (mut total, mut number, mut digits) = (0_u32, 0_u32, 0);
    for byte in text {
        let unit = match byte.to_ascii_lowercase() {
            digit @ b'0'..=b'9' => {
                number = number.checked_mul(10)?.checked_add(u32::from(digit - b'0'))?;
                digits += 1;
                continue;
            }
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 86_400,
            b'w' => 604_800,
            _ => return None,
        };
        if digits == 0 {
            return None;
        }
        total = total.checked_add(number.checked_mul(unit)?)?;
        (number, digits) = (0, 0);
    }
    if text.is_empty() { None } else { total.checked_add(number) }
}
