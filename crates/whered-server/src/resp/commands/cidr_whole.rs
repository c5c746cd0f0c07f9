//! Whole prefix sets: `CIDR.LOAD CIDR.EXPORT CIDR.SCAN CIDR.INFO CIDR.UNION CIDR.INTER CIDR.DIFF
//! CIDR.COMPLEMENT CIDR.SUMMARISE`.
//!
//! For: sets from and to texts, sets made of sets, what a set consists of.
//! Not for: single members (`cidr`), formats (`whered-ip`), the files' rules (the engine).
//!
//! ```text
//! LOAD     text ─> all members, or line and column of the first mistake ─> the set, in one step
//! EXPORT   version held ─> counted once ─> $length ─> written part by part as the client takes it
//! ```
//!
//! Cost: a long load reads and compiles on a thread of its own, some 0.2 us a line, and only its client
//! waits; what is added to a set, not put in its place, is merged by the worker. An export takes that
//! long once, and little memory.

use std::io::IoSlice;
use std::sync::Arc;

use whered_engine::ip::{Block, LayeredSet, SetFormat, SetOption, SetWriter};
use whered_engine::{LoadOptions, ReadyMembers, SetOperation};

use super::cidr::{CIDR, block, expiry, remark, write_match};
use super::{
    Action, Command, Effect, Failure, Flag, NameKind, NameSpec, Outcome, SYNTAX_ERROR, WhenFull,
    cut, integer, name, no_such,
};
use crate::resp::background;
use crate::resp::protocol::Args;
use crate::resp::reply::{Reply, Rest};
use crate::resp::session::Session;

/// A text up to this is read at once: a thread would cost more.
const SHORT_TEXT_BYTES: usize = 64 << 10;

const STORE: Command = Command {
    names: &[NameSpec::Args(NameKind::Set, 1, -1)],
    when_full: WhenFull::Refused,
    flags: &[Flag::Write],
    syntax: "destination set [set ...]",
    cost: "O(N) with N members",
    ..CIDR
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "cidr.complement",
        summary: "Stores the addresses that the sets lack, in the families that they have, as the \
                  fewest ranges; returns how many",
        action: Action::Run(|session, args, reply| {
            store(session, args, reply, SetOperation::Complement)
        }),
        ..STORE
    },
    Command {
        name: "cidr.diff",
        summary: "Stores the addresses of the first set that the others lack, as the fewest \
                  ranges; returns how many",
        action: Action::Run(|session, args, reply| {
            store(session, args, reply, SetOperation::Difference)
        }),
        ..STORE
    },
    Command {
        name: "cidr.export",
        arity: -2,
        flags: &[Flag::ReadOnly],
        syntax: "set [FORMAT plain|ipset|nft|json]",
        summary: "Returns a set in a format that `CIDR.LOAD` and other programs read",
        cost: "O(N) with N members",
        action: Action::Run(export),
        ..CIDR
    },
    Command {
        name: "cidr.info",
        arity: 2,
        flags: &[Flag::ReadOnly],
        syntax: "set",
        summary: "Returns the members of a set by kind, and how they are compiled and why",
        cost: "O(N) with N changes that are not compiled yet",
        action: Action::Run(info),
        ..CIDR
    },
    Command {
        name: "cidr.inter",
        summary: "Stores the addresses that all sets have, as the fewest ranges; returns how many",
        action: Action::Run(|session, args, reply| {
            store(session, args, reply, SetOperation::Intersection)
        }),
        ..STORE
    },
    Command {
        name: "cidr.load",
        arity: -4,
        flags: &[Flag::Write],
        when_full: WhenFull::Refused,
        syntax: "set FILE name|BULK text [REPLACE [ALLOWEMPTY] [MAXSHRINK percent]] \
                 [FORMAT format] [SET name] [PATH path] [VALUEPATH path] [COLUMN column] \
                 [VALUECOLUMN column] [DELIMITER sign] [VALUE value] [EX seconds]",
        summary: "Adds the members of a list, or with `REPLACE` replaces all members, in one step; \
                  returns how many the list has. Without `FORMAT` the text says what it is; `SET` \
                  names one set of a dump of several; `PATH` and `VALUEPATH` say where JSON has \
                  them, `COLUMN`, `VALUECOLUMN` and `DELIMITER` where a table has them. Files are \
                  in `directory` of `[sets]`, plain or packed with gzip, zstd, xz, bzip2 or LZ4",
        cost: "O(N log N) with N members",
        action: Action::Run(load),
        ..CIDR
    },
    Command {
        name: "cidr.scan",
        arity: -3,
        flags: &[Flag::ReadOnly],
        syntax: "set cursor [COUNT count] [WITHVALUES]",
        summary: "Iterates over the members in their order: begins and ends with the cursor 0",
        cost: "O(1) for a call, O(N) for all members",
        action: Action::Run(scan),
        ..CIDR
    },
    Command {
        name: "cidr.summarise",
        summary: "Stores the fewest prefixes that have the addresses of the sets; returns how many",
        action: Action::Run(|session, args, reply| {
            store(session, args, reply, SetOperation::Summary)
        }),
        ..STORE
    },
    Command {
        name: "cidr.union",
        summary: "Stores the members of all sets with their values and expiries; returns how many",
        action: Action::Run(|session, args, reply| {
            store(session, args, reply, SetOperation::Union)
        }),
        ..STORE
    },
];

/// How many members a step of `CIDR.SCAN` gives when nothing is said, and at most.
const SCAN_COUNT: usize = 10;
const SCAN_COUNT_MAX: usize = 10_000;
/// Shorter texts are written at once.
const EXPORTED_AT_ONCE_BYTES: usize = 64 * 1024;

fn store(
    session: &mut Session,
    args: Args<'_>,
    reply: &mut Reply,
    operation: SetOperation,
) -> Outcome {
    let set = name(args.at(1))?;
    let sources = args.from(2).map(name).collect::<Result<Vec<_>, _>>()?;
    let written = session.engine().prefix_sets().store(set, operation, &sources)?;
    reply.hold(written.ticket);
    reply.count(written.value);
    Ok(Effect::Changed)
}

fn format(text: &[u8]) -> Result<SetFormat, Failure> {
    let word = String::from_utf8_lossy(cut(text, 64)).to_ascii_lowercase();
    word.parse().map_err(|error: String| Failure::made(format!("ERR {error}")))
}

fn load(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let set = name(args.at(1))?;
    let source = args.at(3);
    let how = load_options(session, args)?;
    if args.is(2, "bulk") && source.len() <= SHORT_TEXT_BYTES {
        let ready = ReadyMembers::of_text(source, &how)?;
        remark_on(set, &ready);
        let written = session.engine().prefix_sets().put(set, ready)?;
        reply.hold(written.ticket);
        reply.count(written.value);
        return Ok(Effect::Changed);
    }
    let source = match () {
        () if args.is(2, "bulk") => Source::Text(source.to_vec()),
        () if args.is(2, "file") => Source::File(name(source)?.to_owned()),
        () => return Err(SYNTAX_ERROR),
    };
    let (set, value) = (set.to_owned(), how.value.map(<[u8]>::to_vec));
    let plain = LoadOptions { value: None, ..how };
    let engine = Arc::clone(&session.shared.engine);
    // Reading and compiling go on elsewhere; the set is changed by this worker, as by any write.
    background::begin(session, reply, move |reader| {
        let how = LoadOptions { value: value.as_deref(), ..plain };
        let ready = match &source {
            Source::Text(text) => ReadyMembers::of_text(text, &how),
            Source::File(file) => reader.read_set_file(file, &how),
        };
        Box::new(move |reply| {
            let ready = ready?;
            remark_on(&set, &ready);
            let written = engine.prefix_sets().put(&set, ready)?;
            reply.hold(written.ticket);
            reply.count(written.value);
            Ok(Effect::Changed)
        })
    })
}

/// Logs what is doubtful about a list.
fn remark_on(set: &str, ready: &ReadyMembers) {
    if let Some(doubt) = ready.remark() {
        remark(&format!("CIDR.LOAD {}: {doubt}", set.escape_debug()));
    }
}

/// The words for how a text is read.
const READING: [(&str, SetOption); 7] = [
    ("format", SetOption::Format),
    ("set", SetOption::Set),
    ("path", SetOption::Path),
    ("valuepath", SetOption::ValuePath),
    ("column", SetOption::Column),
    ("valuecolumn", SetOption::ValueColumn),
    ("delimiter", SetOption::Delimiter),
];

/// The longest path or column.
const OPTION_BYTES_MAX: usize = 4096;

fn read_option(how: &mut LoadOptions<'_>, option: SetOption, text: &[u8]) -> Result<(), Failure> {
    if option == SetOption::Format {
        how.reading.format = Some(format(text)?);
        return Ok(());
    }
    let text = match std::str::from_utf8(text) {
        Ok(text) if text.len() <= OPTION_BYTES_MAX => text,
        _ => return Err(Failure::text("ERR a path or a column is UTF-8 of at most 4096 bytes")),
    };
    let set = how.reading.set_option(option, text);
    set.map_err(|what| Failure::made(format!("ERR {what}")))
}

/// What stands behind the text of `CIDR.LOAD`.
fn load_options<'a>(session: &Session, args: Args<'a>) -> Result<LoadOptions<'a>, Failure> {
    let is_strict = session.engine().sets_are_strict();
    let mut how = LoadOptions { is_strict, ..LoadOptions::default() };
    let mut has_limit = false;
    let mut at = 4;
    while at < args.len() {
        let value = || args.get(at + 1).ok_or(SYNTAX_ERROR);
        at += match () {
            () if args.is(at, "replace") => {
                how.replaces = true;
                1
            }
            () if args.is(at, "allowempty") => {
                (how.limit.allows_empty, has_limit) = (true, true);
                1
            }
            () if args.is(at, "maxshrink") => {
                let percent = u8::try_from(integer(value()?)?).ok();
                let percent = percent.filter(|percent| (1..=100).contains(percent));
                how.limit.percent =
                    percent.ok_or(Failure::text("ERR MAXSHRINK must be from 1 to 100"))?;
                has_limit = true;
                2
            }
            () if args.is(at, "value") => {
                how.value = Some(value()?);
                2
            }
            () if args.is(at, "ex") => {
                how.expires_at_millis = Some(expiry(session, value()?, "cidr.load")?);
                2
            }
            () => {
                let known = READING.iter().find(|(word, _)| args.is(at, word));
                let (_, option) = known.ok_or(SYNTAX_ERROR)?;
                read_option(&mut how, *option, value()?)?;
                2
            }
        };
    }
    how.reading.check().map_err(|what| Failure::made(format!("ERR {what}")))?;
    // What is added makes no set smaller.
    if has_limit && !how.replaces { Err(SYNTAX_ERROR) } else { Ok(how) }
}

/// Where a long list comes from.
enum Source {
    Text(Vec<u8>),
    File(String),
}

fn export(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let set = name(args.at(1))?;
    let format = match args.len() {
        2 => SetFormat::Plain,
        4 if args.is(2, "format") => format(args.at(3))?,
        _ => return Err(SYNTAX_ERROR),
    };
    let engine = session.engine();
    let version = engine.prefix_sets().version(set).ok_or_else(|| no_such("prefix set", set))?;
    let now_millis = engine.now_millis();
    let writer = || {
        let refusal =
            Failure::text("ERR this format is only read: allowed is plain, ipset, nft, json");
        SetWriter::new(format, set, version.len(), now_millis).ok_or(refusal)
    };
    let mut counting = SetExport::new(writer()?, Arc::clone(&version), now_millis);
    let mut text = Vec::new();
    counting.append(&mut text, EXPORTED_AT_ONCE_BYTES);
    if counting.is_finished() {
        reply.bulk(text.strip_suffix(b"\r\n").unwrap_or(&text));
        return Ok(Effect::Unchanged);
    }
    let mut length_bytes = text.len();
    while !counting.is_finished() {
        text.clear();
        counting.append(&mut text, EXPORTED_AT_ONCE_BYTES);
        length_bytes += text.len();
    }
    // The last part has the line's end that is no part of a bulk.
    reply.out.extend_from_slice(format!("${}\r\n", length_bytes - 2).as_bytes());
    reply.rest = Some(Box::new(SetExport::new(writer()?, version, now_millis)));
    Ok(Effect::Unchanged)
}

/// The rest of an export, at the end of which its line ends.
struct SetExport {
    writer: SetWriter,
    version: Arc<LayeredSet>,
    now_millis: u64,
    after: Option<Block>,
    is_finished: bool,
}

impl SetExport {
    fn new(writer: SetWriter, version: Arc<LayeredSet>, now_millis: u64) -> SetExport {
        SetExport { writer, version, now_millis, after: None, is_finished: false }
    }
}

impl Rest for SetExport {
    fn append(&mut self, out: &mut Vec<u8>, wanted_bytes: usize) {
        let end = out.len().saturating_add(wanted_bytes.max(1));
        let mut members: Box<dyn Iterator<Item = _>> = match self.after {
            None => Box::new(self.version.iter(self.now_millis)),
            Some(after) => Box::new(self.version.iter_after(after, self.now_millis)),
        };
        while out.len() < end {
            let Some(member) = members.next() else {
                self.writer.end(out);
                out.extend_from_slice(b"\r\n");
                self.is_finished = true;
                return;
            };
            self.writer.member(&member, out);
            self.after = Some(member.block);
        }
    }

    fn has_pieces(&self) -> bool {
        false
    }

    fn pieces<'a>(&'a self, _: &mut Vec<IoSlice<'a>>, _: usize, _: usize) {}

    fn sent(&mut self, _: usize) {}

    fn is_finished(&self) -> bool {
        self.is_finished
    }

    fn size_bytes(&self) -> usize {
        // The version is nearly always the set's own.
        size_of::<SetExport>()
    }
}

fn scan(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let set = name(args.at(1))?;
    let after = match args.at(2) {
        b"0" => None,
        text => Some(block(text)?),
    };
    let (mut count, mut with_values) = (SCAN_COUNT, false);
    let mut at = 3;
    while at < args.len() {
        if args.is(at, "withvalues") {
            with_values = true;
            at += 1;
        } else if args.is(at, "count") && at + 1 < args.len() {
            let wanted = usize::try_from(integer(args.at(at + 1))?).ok().filter(|n| *n > 0);
            count = wanted.ok_or(SYNTAX_ERROR)?.min(SCAN_COUNT_MAX);
            at += 2;
        } else {
            return Err(SYNTAX_ERROR);
        }
    }
    let now = session.engine().now_millis();
    let found = session.engine().prefix_sets().read(set, |members| {
        let mut found: Vec<_> = match after {
            None => members.iter(now).take(count + 1).collect(),
            Some(after) => members.iter_after(after, now).take(count + 1).collect(),
        };
        let has_more = found.len() > count;
        found.truncate(count);
        reply.array(2);
        match found.last().filter(|_| has_more) {
            Some(last) => reply.bulk(last.block.to_string().as_bytes()),
            None => reply.bulk(b"0"),
        }
        reply.array(found.len());
        found.iter().for_each(|found| write_match(reply, found, with_values));
    });
    found.map(|()| Effect::Unchanged).ok_or_else(|| no_such("prefix set", set))
}

fn info(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let set = name(args.at(1))?;
    let info = session.engine().prefix_sets().info(set);
    let info = info.ok_or_else(|| no_such("prefix set", set))?;
    let (ago, took) = info.last_compaction.unzip();
    let seconds = |duration: Option<std::time::Duration>| {
        duration.map_or(String::new(), |duration| format!("{:.3}", duration.as_secs_f64()))
    };
    let at = |millis: Option<u64>| millis.map_or(String::new(), |millis| millis.to_string());
    let fields = [
        ("members", info.live.to_string()),
        ("ipv4", info.counts.ipv4.to_string()),
        ("ipv6", info.counts.ipv6.to_string()),
        ("ranges", info.counts.ranges.to_string()),
        ("expiring", info.counts.expiring.to_string()),
        ("expired", info.expired.to_string()),
        ("first_expiry_millis", at(info.expiry_bounds.map(|(first, _)| first))),
        ("last_expiry_millis", at(info.expiry_bounds.map(|(_, last)| last))),
        ("bytes", info.memory_bytes.to_string()),
        ("compiled_bytes", info.compiled_bytes.to_string()),
        ("form", info.form),
        ("pending", info.pending.to_string()),
        ("folds", info.folds.to_string()),
        ("last_fold_seconds_ago", seconds(ago)),
        ("last_fold_seconds", seconds(took)),
    ];
    reply.map(fields.len());
    for (field, value) in fields {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    Ok(Effect::Unchanged)
}
