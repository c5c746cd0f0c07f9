//! Records of addresses: `IP.GET IP.MGET IP.NET IP.LIST`.
//!
//! Not for: which file a database comes from (the configuration). Each command takes one
//! generation and answers from it to the end. A field is given as text: a string without quotes,
//! a map or array as JSON.

use std::net::IpAddr;
use std::sync::Arc;

use whered_engine::mmdb::{FieldPath, MmdbError, RecordId};
use whered_engine::{Generation, NamedDatabase};

use super::{
    Action, Command, Failure, Flag, NOT_AN_INTEGER, Outcome, SYNTAX_ERROR, address, explained,
    name, no_such, number, wrong_arity,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const IP: Command = Command {
    name: "",
    arity: 3,
    flags: &[Flag::ReadOnly, Flag::Fast],
    group: "ip",
    keys: (0, 0, 0),
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
        summary: "Gives the record of an address as JSON, or some of its fields",
        action: Action::Run(get),
        ..IP
    },
    Command {
        name: "ip.list",
        arity: 1,
        summary: "Gives the names of the databases",
        action: Action::Run(|session, _, reply| {
            let generation = session.engine().generation();
            reply.array(generation.databases().len());
            generation.databases().iter().for_each(|named| reply.bulk(named.name.as_bytes()));
            Ok(())
        }),
        ..IP
    },
    Command {
        name: "ip.mget",
        arity: -3,
        syntax: "database [FIELDS n path ...] address [address ...]",
        summary: "Gives for each address what IP.GET gives",
        cost: "O(N) with N addresses",
        action: Action::Run(get_many),
        ..IP
    },
    Command {
        name: "ip.net",
        syntax: "database address",
        summary: "Gives the network around an address that has one answer",
        action: Action::Run(network),
        ..IP
    },
];

fn database(generation: &Generation, text: &[u8]) -> Result<Arc<NamedDatabase>, Failure> {
    let wanted = name(text)?;
    let found = generation.database(wanted).map(Arc::clone);
    found.ok_or_else(|| no_such("database", wanted))
}

fn unreadable(database: &NamedDatabase, error: &MmdbError) -> Failure {
    Failure::made(format!("ERR database '{}': {error}", database.name))
}

fn path(text: &[u8]) -> Result<FieldPath, Failure> {
    name(text)?.parse().map_err(|error| Failure::made(format!("ERR wrong path: {error}")))
}

fn get(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (args, explain) = explained(args, 3);
    let generation = session.engine().generation();
    let named = database(&generation, args.at(1))?;
    let address = address(args.at(2))?;
    if explain {
        let reasons = session.engine().explain_ip(&named.name, address);
        let reasons = reasons.map_err(|error| Failure::made(format!("ERR {error}")))?;
        reply.bulk(reasons.to_string().as_bytes());
        return Ok(());
    }
    let paths: Vec<FieldPath> = args.from(3).map(path).collect::<Result<_, _>>()?;
    write_record(&named, address, &paths, reply)
}

fn get_many(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let generation = session.engine().generation();
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
    let addresses: Vec<IpAddr> = args.from(first).map(address).collect::<Result<_, _>>()?;
    let start = reply.out.len();
    reply.array(addresses.len());
    for address in addresses {
        if let Err(failure) = write_record(&named, address, &paths, reply) {
            // A fault in the file takes back what was written before it.
            reply.out.truncate(start);
            return Err(failure);
        }
    }
    Ok(())
}

fn network(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let generation = session.engine().generation();
    let named = database(&generation, args.at(1))?;
    let found = named.database.lookup(address(args.at(2))?);
    let found = found.map_err(|error| unreadable(&named, &error))?;
    reply.bulk(found.prefix.to_string().as_bytes());
    Ok(())
}

fn write_record(
    named: &NamedDatabase,
    address: IpAddr,
    paths: &[FieldPath],
    reply: &mut Reply,
) -> Outcome {
    let found = named.database.lookup(address).map_err(|error| unreadable(named, &error))?;
    match found.record {
        Some(record) if paths.is_empty() => {
            let mut json = Vec::new();
            let written = named.database.write_record_json(record, &mut json);
            written.map_err(|error| unreadable(named, &error))?;
            reply.bulk(&json);
        }
        None if paths.is_empty() => reply.null(),
        record => write_fields(named, record, paths, reply)?,
    }
    Ok(())
}

fn write_fields(
    named: &NamedDatabase,
    record: Option<RecordId>,
    paths: &[FieldPath],
    reply: &mut Reply,
) -> Outcome {
    let mut texts = Vec::with_capacity(paths.len());
    for path in paths {
        let value = record.map(|record| named.database.field(record, path)).transpose();
        let value = value.map_err(|error| unreadable(named, &error))?;
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
