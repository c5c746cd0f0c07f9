//! Records of addresses: `IP.GET IP.MGET IP.NET IP.LIST IP.INFO IP.WITHIN`.
//!
//! Not for: which file a database comes from (the configuration). Each command takes one
//! generation and answers from it to the end. A field is given as text: a string without quotes,
//! a map or array as JSON.

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;
use whered_engine::ip::Prefix;
use whered_engine::mmdb::{FieldPath, MmdbError, RecordId};
use whered_engine::{Generation, NamedDatabase};

use super::{
    Action, Channels, Command, Effect, Failure, Flag, InTransaction, Members, NOT_AN_INTEGER,
    NameKind, NameSpec, Outcome, SYNTAX_ERROR, WhenFull, address, explained, name, named, no_such,
    number, wrong_arity,
};
use crate::databases::{self, PAGE_NETWORKS, PAGE_NETWORKS_MAX};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const IP: Command = Command {
    name: "",
    arity: 3,
    flags: &[Flag::ReadOnly, Flag::Fast],
    group: "ip",
    keys: &[],
    names: &[NameSpec::Args(NameKind::Database, 1, 1)],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "",
    summary: "",
    cost: "O(1)",
    since: "0.1.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "ip.get",
        arity: -3,
        syntax: "database address [path ...] [EXPLAIN]",
        summary: "Returns the record of an address as JSON, or some of its fields",
        action: Action::Run(get),
        ..IP
    },
    Command {
        name: "ip.info",
        arity: 2,
        syntax: "database",
        summary: "Describes a database: its file, mode, memory and last reload",
        action: Action::Run(info),
        ..IP
    },
    Command {
        name: "ip.list",
        arity: 1,
        names: &[NameSpec::Shown(NameKind::Database)],
        summary: "Returns the names of the databases",
        action: Action::Run(|session, _, reply| {
            let generation = session.engine().generation();
            let names = generation.databases().iter().map(|named| &*named.name);
            named::write_shown(session, NameKind::Database, names, reply);
            Ok(Effect::Unchanged)
        }),
        ..IP
    },
    Command {
        name: "ip.mget",
        arity: -3,
        syntax: "database [FIELDS n path ...] address [address ...]",
        summary: "Returns for each address what IP.GET returns, or an error in its position",
        cost: "O(N) with N addresses",
        action: Action::Run(get_many),
        ..IP
    },
    Command {
        name: "ip.net",
        syntax: "database address",
        summary: "Returns the network of the database that holds an address",
        action: Action::Run(network),
        ..IP
    },
    Command {
        name: "ip.within",
        arity: -3,
        flags: &[Flag::ReadOnly],
        syntax: "database prefix [CURSOR cursor] [COUNT count] [path ...]",
        summary: "Returns a page of the networks inside a prefix: the cursor of the next page (0: \
                  none), then each network with what IP.GET returns. A page has 100 networks or \
                  `COUNT`, up to 1000, and ends at 1 MiB",
        cost: "O(N) with N networks given",
        action: Action::Run(within),
        ..IP
    },
];

fn database<'a>(generation: &'a Generation, text: &[u8]) -> Result<&'a NamedDatabase, Failure> {
    let wanted = name(text)?;
    let found = generation.database(wanted);
    found.map(Arc::as_ref).ok_or_else(|| no_such("database", wanted))
}

fn unreadable(database: &NamedDatabase, error: &MmdbError) -> Failure {
    Failure::made(format!("ERR database '{}': {error}", database.name))
}

fn path(text: &[u8]) -> Result<FieldPath, Failure> {
    name(text)?.parse().map_err(|error| Failure::made(format!("ERR wrong path: {error}")))
}

fn get(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (args, explain) = explained(args, 3);
    let generation = session.generation();
    let named = database(&generation, args.at(1))?;
    let address = address(args.at(2))?;
    if explain {
        let reasons = session.engine().explain_ip(&named.name, address);
        let reasons = reasons.map_err(|error| Failure::made(format!("ERR {error}")))?;
        reply.bulk(reasons.to_string().as_bytes());
        return Ok(Effect::Unchanged);
    }
    let paths: Vec<FieldPath> = args.from(3).map(path).collect::<Result<_, _>>()?;
    write_record(named, address, &paths, reply)
}

fn get_many(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let generation = session.generation();
    let named = database(&generation, args.at(1))?;
    let mut paths = Vec::new();
    let mut first = 2;
    if args.is(2, "fields") && args.len() > 3 {
        let count = number::integer(args.at(3)).and_then(|count| usize::try_from(count).ok());
        let count = count.ok_or(NOT_AN_INTEGER)?;
        if count == 0 || count > args.len() - 4 {
            return Err(SYNTAX_ERROR);
        }
        paths = args.from(4).take(count).map(path).collect::<Result<_, _>>()?;
        first = 4 + count;
    }
    if args.len() == first {
        return Err(wrong_arity("ip.mget"));
    }
    reply.array(args.len() - first);
    for text in args.from(first) {
        let start = reply.out.len();
        let written = address(text).and_then(|one| write_record(named, one, &paths, reply));
        if let Err(failure) = written {
            // The others have their answers all the same.
            reply.out.truncate(start);
            reply.error(&failure);
        }
    }
    Ok(Effect::Unchanged)
}

fn network(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let generation = session.generation();
    let named = database(&generation, args.at(1))?;
    let found = named.answer(address(args.at(2))?);
    let found = found.map_err(|error| unreadable(named, &error))?;
    reply.bulk(found.prefix.to_string().as_bytes());
    Ok(Effect::Unchanged)
}

fn write_record(
    named: &NamedDatabase,
    address: IpAddr,
    paths: &[FieldPath],
    reply: &mut Reply,
) -> Outcome {
    let found = named.answer(address).map_err(|error| unreadable(named, &error))?;
    write_found(named, found.record, paths, reply).map_err(|error| unreadable(named, &error))?;
    Ok(Effect::Unchanged)
}

/// A record as JSON, or its fields.
fn write_found(
    named: &NamedDatabase,
    record: Option<RecordId>,
    paths: &[FieldPath],
    reply: &mut Reply,
) -> Result<(), MmdbError> {
    match record {
        Some(record) if paths.is_empty() => {
            let mut json = Vec::new();
            named.write_record_json(record, &mut json)?;
            reply.bulk(&json);
        }
        None if paths.is_empty() => reply.null(),
        record => write_fields(named, record, paths, reply)?,
    }
    Ok(())
}

fn info(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let generation = session.generation();
    let named = database(&generation, args.at(1))?;
    let pairs = databases::describe(named);
    reply.map(pairs.len());
    for (key, value) in pairs {
        reply.bulk(key.as_bytes());
        match value {
            Value::Null => reply.null(),
            Value::Array(texts) => {
                reply.array(texts.len());
                texts.iter().for_each(|text| {
                    reply.bulk(text.as_str().unwrap_or_default().as_bytes());
                });
            }
            Value::String(text) => reply.bulk(text.as_bytes()),
            number => reply.integer(number.as_i64().unwrap_or(i64::MAX)),
        }
    }
    Ok(Effect::Unchanged)
}

/// Where a page begins: the address as it was given out, whatever range it is in.
fn cursor_address(text: &[u8]) -> Result<IpAddr, Failure> {
    whered_engine::ip::text::parse(text).map_or_else(|| address(text), Ok)
}

/// What `IP.WITHIN` asks for.
struct WithinOptions {
    prefix: Prefix,
    cursor: Option<IpAddr>,
    count: usize,
    paths: Vec<FieldPath>,
}

fn read_within(args: Args<'_>) -> Result<WithinOptions, Failure> {
    let text = name(args.at(2))?;
    let prefix = text.parse().map(Prefix::to_canonical);
    let prefix = prefix.map_err(|error| Failure::made(format!("ERR wrong prefix: {error}")))?;
    let (mut cursor, mut count, mut next) = (None, PAGE_NETWORKS, 3);
    while next + 1 < args.len() {
        let value = args.at(next + 1);
        if args.is(next, "cursor") {
            cursor = if value == b"0" { None } else { Some(cursor_address(value)?) };
        } else if args.is(next, "count") {
            let given = number::integer(value).and_then(|count| usize::try_from(count).ok());
            count =
                given.filter(|count| (1..=PAGE_NETWORKS_MAX).contains(count)).ok_or_else(|| {
                    Failure::made(format!("ERR COUNT must be 1 to {PAGE_NETWORKS_MAX}"))
                })?;
        } else {
            break;
        }
        next += 2;
    }
    let paths = args.from(next).map(path).collect::<Result<_, _>>()?;
    Ok(WithinOptions { prefix, cursor, count, paths })
}

fn within(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let generation = session.generation();
    let named = database(&generation, args.at(1))?;
    let WithinOptions { prefix, cursor, count, paths } = read_within(args)?;
    // The cursor stands before the networks, and is known only after them.
    let mut networks = reply.beside();
    let mut given = 0;
    let next = databases::page(named, prefix, cursor, count, |network, record| {
        networks.array(2);
        networks.bulk(network.to_string().as_bytes());
        write_found(named, Some(record), &paths, &mut networks)?;
        given += 1;
        Ok(networks.out.len())
    });
    let next = next.map_err(|error| unreadable(named, &error))?;
    reply.array(2);
    match next {
        Some(next) => reply.bulk(next.to_string().as_bytes()),
        None => reply.bulk(b"0"),
    }
    reply.array(given);
    reply.out.extend_from_slice(&networks.out);
    Ok(Effect::Unchanged)
}

fn write_fields(
    named: &NamedDatabase,
    record: Option<RecordId>,
    paths: &[FieldPath],
    reply: &mut Reply,
) -> Result<(), MmdbError> {
    let mut texts = Vec::with_capacity(paths.len());
    for path in paths {
        let value = record.map(|record| named.field(record, path)).transpose()?;
        texts.push(value.flatten().map(|value| {
            let mut text = Vec::new();
            value.write_text(&mut text);
            text
        }));
    }
    reply.array(texts.len());
    for text in texts {
        match text {
            Some(text) => reply.bulk(&text),
            None => reply.null(),
        }
    }
    Ok(())
}
