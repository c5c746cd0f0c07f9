//! The reader: from the magic to the checksum, one event after the other.
//!
//! Invariant: after an error every further call gives an error, and nothing more is read.

use std::io::Read;

use super::blob::{Head, skip_string, string};
use super::error::RdbError;
use super::kind::Kind;
use super::packed::{Entry, Form, PackedList};
use super::skip::{Family, skip_key_metadata, skip_module_data, skip_value};
use super::source::Source;
use super::{REDIS_VERSION_MAX, SLOTS, VALKEY_VERSIONS};

/// The longest text of a score.
const SCORE_BYTES_MAX: u64 = 255;
/// The longest remark (AUX) that is handed out.
const NOTE_BYTES_MAX: u64 = 64 << 10;
/// From this version on a dump ends with a checksum.
const FIRST_VERSION_WITH_SUM: u32 = 5;
/// Version and checksum behind a payload of DUMP.
const FOOTER_BYTES: usize = 10;

/// How long strings may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Keys and members: a longer one is an error.
    pub name_bytes_max: u64,
    /// Values of strings: a longer one is skipped, as [`Kind::LongString`].
    pub value_bytes_max: u64,
}

impl Default for Limits {
    /// 512 MiB for both, as Redis has it.
    fn default() -> Limits {
        Limits { name_bytes_max: 512 << 20, value_bytes_max: 512 << 20 }
    }
}

/// A key of the dump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key<'a> {
    /// Its numbered database.
    pub database: u64,
    /// Its name.
    pub name: &'a [u8],
    /// When its time is over, in milliseconds since 1970.
    pub expires_at_millis: Option<i64>,
}

/// One step through a dump.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event<'a> {
    /// A remark of the writer, such as `redis-ver` or `repl-stream-db`.
    Note {
        /// Its name.
        name: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// Slots that the writer, a Valkey, was taking over from another server. Keys of them are in
    /// the dump; the writer shows them to nobody until all of them have come.
    SlotImport {
        /// The name of the migration.
        name: &'a [u8],
        /// The first and the last slot of each range.
        ranges: &'a [(u16, u16)],
    },
    /// A key with a string.
    Text {
        /// The key.
        key: Key<'a>,
        /// The string.
        value: &'a [u8],
    },
    /// A key with a sorted set, whose members follow.
    SortedSet {
        /// The key.
        key: Key<'a>,
        /// How many members follow, if the dump says so.
        members: Option<u64>,
    },
    /// A member of the sorted set.
    Member {
        /// The member.
        member: &'a [u8],
        /// Its score, which is a number or infinite.
        score: f64,
    },
    /// The sorted set is whole.
    SortedSetEnd,
    /// A key with a value that was passed over.
    Skipped {
        /// The key.
        key: Key<'a>,
        /// The type of the value.
        kind: Kind,
    },
}

/// Where the reader is.
enum State {
    /// Before the type of a payload's value.
    Payload,
    Between,
    /// In a sorted set of plain members, whose scores are eight bytes or texts.
    Members {
        left: u64,
        as_text: bool,
    },
    Packed(Box<PackedList>),
    Ended,
    Failed,
}

/// A dump that is being read.
pub struct Reader<R> {
    source: Source<R>,
    family: Family,
    version: u32,
    limits: Limits,
    state: State,
    is_payload: bool,
    database: u64,
    expires_at_millis: Option<i64>,
    /// The key, or the name of a remark.
    key: Vec<u8>,
    /// The value, the member, or the text of a remark.
    value: Vec<u8>,
    score: Vec<u8>,
    /// The slots of an import.
    ranges: Vec<(u16, u16)>,
}

/// What an event is made of, before it borrows.
#[derive(Clone, Copy)]
enum Step {
    Note,
    SlotImport,
    Text,
    SortedSet(Option<u64>),
    Member(f64),
    SortedSetEnd,
    Skipped(Kind),
    End,
}

impl<R: Read> Reader<R> {
    /// Reads the magic.
    ///
    /// # Errors
    ///
    /// An input that is no dump, or of a version that is not known.
    pub fn new(input: R, limits: Limits) -> Result<Reader<R>, RdbError> {
        let mut source = Source::new(input);
        let magic: [u8; 9] = source.array()?;
        let (family, version) = format_of(&magic).ok_or_else(|| {
            let found = magic.escape_ascii();
            let what = format!(
                "'{found}' begins no dump that is known; allowed: REDIS0001 to REDIS0013, \
                 VALKEY080 to VALKEY099"
            );
            RdbError::new(0, what)
        })?;
        Ok(Reader::over(source, family, version, limits))
    }

    fn over(source: Source<R>, family: Family, version: u32, limits: Limits) -> Reader<R> {
        Reader {
            source,
            family,
            version,
            limits,
            state: State::Between,
            is_payload: false,
            database: 0,
            expires_at_millis: None,
            key: Vec::new(),
            value: Vec::new(),
            score: Vec::new(),
            ranges: Vec::new(),
        }
    }

    /// The next event; `None` behind the checksum.
    ///
    /// # Errors
    ///
    /// A dump that is damaged, ends too early, has a type that is not known, a score that is no
    /// number, or a name beyond the limits; and the errors of the input.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, RdbError> {
        match self.step() {
            Ok(step) => Ok(self.event(step)),
            Err(error) => {
                self.state = State::Failed;
                Err(error)
            }
        }
    }

    /// How many bytes of the dump were read.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// The input, for instance to change how long it may wait.
    pub fn input_mut(&mut self) -> &mut R {
        self.source.inner_mut()
    }

    /// The input, and the bytes that were read of it beyond the dump.
    #[must_use]
    pub fn into_parts(self) -> (R, Vec<u8>) {
        self.source.into_parts()
    }

    fn event(&self, step: Step) -> Option<Event<'_>> {
        let key = Key {
            database: self.database,
            name: &self.key,
            expires_at_millis: self.expires_at_millis,
        };
        Some(match step {
            Step::Note => Event::Note { name: &self.key, value: &self.value },
            Step::SlotImport => Event::SlotImport { name: &self.key, ranges: &self.ranges },
            Step::Text => Event::Text { key, value: &self.value },
            Step::SortedSet(members) => Event::SortedSet { key, members },
            Step::Member(score) => Event::Member { member: &self.value, score },
            Step::SortedSetEnd => Event::SortedSetEnd,
            Step::Skipped(kind) => Event::Skipped { key, kind },
            Step::End => return None,
        })
    }

    fn step(&mut self) -> Result<Step, RdbError> {
        match &mut self.state {
            State::Payload => {
                self.state = State::Between;
                let value_type = self.source.byte()?;
                if !is_value_type(value_type, self.family) {
                    return Err(not_known(0, value_type));
                }
                self.value_of(0, value_type)
            }
            State::Between if self.is_payload => self.payload_end(),
            State::Between => self.between(),
            State::Members { left: 0, .. } => {
                self.state = State::Between;
                Ok(Step::SortedSetEnd)
            }
            State::Members { left, as_text } => {
                *left -= 1;
                let as_text = *as_text;
                self.member(as_text)
            }
            State::Packed(_) => self.packed_member(),
            State::Ended => Ok(Step::End),
            State::Failed => self.source.wrong("reading stopped at an error before"),
        }
    }

    /// Opcodes up to a key or the end.
    fn between(&mut self) -> Result<Step, RdbError> {
        self.expires_at_millis = None;
        loop {
            match self.source.byte()? {
                243 if self.family == Family::Valkey => {
                    self.slot_import()?;
                    return Ok(Step::SlotImport);
                }
                243 => skip_key_metadata(&mut self.source)?,
                244 => {
                    for _ in 0..3 {
                        self.source.length()?;
                    }
                }
                245 => skip_string(&mut self.source)?,
                247 => {
                    for _ in 0..3 {
                        self.source.length()?;
                    }
                    skip_module_data(&mut self.source)?;
                }
                248 => drop(self.source.length()?),
                249 => drop(self.source.byte()?),
                250 => {
                    string(&mut self.source, &mut self.key, NOTE_BYTES_MAX)?;
                    let value = Head::read(&mut self.source)?;
                    if value.bytes() <= NOTE_BYTES_MAX {
                        value.whole(&mut self.source, &mut self.value, NOTE_BYTES_MAX)?;
                        return Ok(Step::Note);
                    }
                    value.skip(&mut self.source)?;
                }
                251 => {
                    for _ in 0..2 {
                        self.source.length()?;
                    }
                }
                252 => {
                    self.expires_at_millis = Some(i64::from_le_bytes(self.source.array()?));
                }
                253 => {
                    let seconds = i32::from_le_bytes(self.source.array()?);
                    self.expires_at_millis = Some(i64::from(seconds) * 1000);
                }
                254 => self.database = self.source.length()?,
                255 => return self.end(),
                value_type => {
                    let at = self.source.offset() - 1;
                    let limit = self.limits.name_bytes_max;
                    if !is_value_type(value_type, self.family) {
                        return Err(not_known(at, value_type));
                    }
                    string(&mut self.source, &mut self.key, limit)?;
                    return self.value_of(at, value_type);
                }
            }
        }
    }

    /// The name and the slots of an import.
    fn slot_import(&mut self) -> Result<(), RdbError> {
        string(&mut self.source, &mut self.key, NOTE_BYTES_MAX)?;
        self.ranges.clear();
        for _ in 0..self.source.length()? {
            let (first, last) = (self.source.length()?, self.source.length()?);
            if first > last || last >= SLOTS || self.ranges.len() as u64 == SLOTS {
                let what = format!("the slots {first} to {last} are imported; allowed: 0 to 16383");
                return self.source.wrong(what);
            }
            self.ranges.push((first as u16, last as u16));
        }
        Ok(())
    }

    /// The value of a key, or its beginning.
    fn value_of(&mut self, at: u64, value_type: u8) -> Result<Step, RdbError> {
        let source = &mut self.source;
        match value_type {
            0 => {
                let head = Head::read(source)?;
                if head.bytes() > self.limits.value_bytes_max {
                    head.skip(source)?;
                    return Ok(Step::Skipped(Kind::LongString));
                }
                head.whole(source, &mut self.value, self.limits.value_bytes_max)?;
                Ok(Step::Text)
            }
            3 | 5 => {
                let left = source.length()?;
                self.state = State::Members { left, as_text: value_type == 3 };
                Ok(Step::SortedSet(Some(left)))
            }
            12 | 17 => {
                let form = if value_type == 12 { Form::ZipList } else { Form::ListPack };
                let list = PackedList::begin(source, form)?;
                let claimed = list.claimed();
                if claimed.is_some_and(|entries| entries % 2 == 1) {
                    return source.wrong("a packed sorted set has a member without a score");
                }
                self.state = State::Packed(Box::new(list));
                Ok(Step::SortedSet(claimed.map(|entries| entries / 2)))
            }
            _ => match skip_value(source, self.family, value_type)? {
                Some(kind) => Ok(Step::Skipped(kind)),
                None => Err(not_known(at, value_type)),
            },
        }
    }

    /// A member and its score.
    fn member(&mut self, as_text: bool) -> Result<Step, RdbError> {
        string(&mut self.source, &mut self.value, self.limits.name_bytes_max)?;
        let score = match as_text {
            false => f64::from_le_bytes(self.source.array()?),
            true => match self.source.byte()? {
                255 => f64::NEG_INFINITY,
                254 => f64::INFINITY,
                253 => f64::NAN,
                bytes => {
                    self.score.clear();
                    self.source.append(u64::from(bytes), &mut self.score)?;
                    self.score_of_text()?
                }
            },
        };
        self.scored(score)
    }

    fn packed_member(&mut self) -> Result<Step, RdbError> {
        let State::Packed(list) = &mut self.state else {
            return self.source.wrong("reading stopped at an error before");
        };
        let limit = self.limits.name_bytes_max;
        let Some(member) = list.next(&mut self.source, &mut self.value, limit)? else {
            self.state = State::Between;
            return Ok(Step::SortedSetEnd);
        };
        if let Entry::Integer(number) = member {
            self.value.extend_from_slice(number.to_string().as_bytes());
        }
        let score = match list.next(&mut self.source, &mut self.score, SCORE_BYTES_MAX)? {
            Some(Entry::Integer(number)) => number as f64,
            Some(Entry::Text) => self.score_of_text()?,
            None => return self.source.wrong("a packed sorted set has a member without a score"),
        };
        self.scored(score)
    }

    fn score_of_text(&self) -> Result<f64, RdbError> {
        let score = std::str::from_utf8(&self.score).ok().and_then(|text| text.parse().ok());
        match score {
            Some(score) => Ok(score),
            None => self.source.wrong(format!("'{}' is no score", self.score.escape_ascii())),
        }
    }

    fn scored(&self, score: f64) -> Result<Step, RdbError> {
        if score.is_nan() {
            return self.source.wrong("a score is not a number; allowed: numbers, inf, -inf");
        }
        Ok(Step::Member(score))
    }

    /// The checksum behind the last key.
    fn end(&mut self) -> Result<Step, RdbError> {
        self.state = State::Ended;
        if self.version < FIRST_VERSION_WITH_SUM {
            return Ok(Step::End);
        }
        let (at, sum) = (self.source.offset(), self.source.sum());
        let stated = u64::from_le_bytes(self.source.array()?);
        if stated != 0 && stated != sum {
            let what = format!("the checksum is {stated:016x}, that of the bytes is {sum:016x}");
            return Err(RdbError::new(at, what));
        }
        Ok(Step::End)
    }

    fn payload_end(&mut self) -> Result<Step, RdbError> {
        self.state = State::Ended;
        match self.source.is_at_end()? {
            true => Ok(Step::End),
            false => self.source.wrong("bytes follow the value"),
        }
    }
}

impl<'p> Reader<&'p [u8]> {
    /// Reads one value as `DUMP` gives it and `RESTORE` takes it. Its key has no name.
    ///
    /// # Errors
    ///
    /// A payload that is too short, of a later version, or whose checksum is wrong.
    pub fn of_payload(payload: &'p [u8], limits: Limits) -> Result<Reader<&'p [u8]>, RdbError> {
        let wrong = || RdbError::new(0, "a payload with a wrong version or checksum");
        let body = payload.len().checked_sub(FOOTER_BYTES).ok_or_else(wrong)?;
        let (body, footer) = payload.split_at(body);
        let version = u32::from(u16::from_le_bytes([footer[0], footer[1]]));
        let mut stated = [0; 8];
        stated.copy_from_slice(&footer[2..]);
        let stated = u64::from_le_bytes(stated);
        let summed = &payload[..payload.len() - 8];
        if stated != crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Redis, summed) {
            return Err(wrong());
        }
        let family = match version {
            1..=REDIS_VERSION_MAX => Family::Redis,
            version if VALKEY_VERSIONS.contains(&version) => Family::Valkey,
            _ => return Err(wrong()),
        };
        let reader = Reader::over(Source::new(body), family, version, limits);
        Ok(Reader { is_payload: true, state: State::Payload, ..reader })
    }
}

/// `REDIS` and four digits, or `VALKEY` and three.
fn format_of(magic: &[u8; 9]) -> Option<(Family, u32)> {
    let number = |digits: &[u8]| {
        let all_digits = digits.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(digits).ok().filter(|_| all_digits)?;
        text.parse::<u32>().ok()
    };
    if let Some(digits) = magic.strip_prefix(b"REDIS") {
        let version = number(digits)?;
        return (1..=REDIS_VERSION_MAX).contains(&version).then_some((Family::Redis, version));
    }
    let version = number(magic.strip_prefix(b"VALKEY")?)?;
    VALKEY_VERSIONS.contains(&version).then_some((Family::Valkey, version))
}

/// Whether a type is known, before its key is read.
fn is_value_type(value_type: u8, family: Family) -> bool {
    match family {
        Family::Redis => matches!(value_type, 0..=5 | 7 | 9..=25),
        Family::Valkey => matches!(value_type, 0..=5 | 7 | 9..=22),
    }
}

fn not_known(at: u64, value_type: u8) -> RdbError {
    let what = match value_type {
        6 => "a module's value of before Redis 4.0 cannot be skipped".to_owned(),
        246 => "a function of a release candidate of Redis 7.0 cannot be skipped".to_owned(),
        other => format!("type {other} is not known; allowed: those of Redis 8.0 and Valkey 9"),
    };
    RdbError::new(at, what)
}
