//! Tables of feeds: `TABLE.GET TABLE.SCAN TABLE.TOP TABLE.LIST TABLE.INFO`.
//!
//! For: rows by key, in pages, and by the size of a column. Not for: changing them, which only their
//! feeds do.
//!
//! A row is an array of its cells, those of the key first, as `TABLE.INFO` names them: whole numbers
//! and times (milliseconds since 1970) as integers, other numbers as the shortest text that reads back,
//! texts as they are, and null where there is none.

use std::sync::Arc;

use whered_engine::tables::{Cell, Table, TableError};

use super::{
    Action, Channels, Command, Effect, Failure, Flag, InTransaction, Members, NameKind, NameSpec,
    Outcome, SYNTAX_ERROR, WhenFull, integer, name, named, no_such,
};
use crate::cells;
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const TABLE: Command = Command {
    name: "",
    arity: 2,
    flags: &[Flag::ReadOnly],
    group: "table",
    keys: &[],
    names: &[NameSpec::Args(NameKind::Table, 1, 1)],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "table",
    summary: "",
    cost: "O(1)",
    since: "0.1.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "table.get",
        arity: -3,
        flags: &[Flag::ReadOnly, Flag::Fast],
        syntax: "table key [key ...]",
        summary: "Returns the row of a key, or null. The key has one argument for each of its \
                  columns; an empty argument is an absent cell, except in columns of text",
        action: Action::Run(get),
        ..TABLE
    },
    Command {
        name: "table.info",
        summary: "Returns a table's feed, rows, memory and columns",
        action: Action::Run(info),
        ..TABLE
    },
    Command {
        name: "table.list",
        arity: 1,
        names: &[NameSpec::Shown(NameKind::Table)],
        flags: &[Flag::ReadOnly, Flag::Fast],
        syntax: "",
        summary: "Returns the names of the tables",
        cost: "O(N) with N tables",
        action: Action::Run(list),
        ..TABLE
    },
    Command {
        name: "table.scan",
        arity: -3,
        syntax: "table cursor [COUNT count]",
        summary: "Iterates over the rows: begins and ends with the cursor 0",
        cost: "O(1) for a row, O(N) for all of N rows",
        action: Action::Run(scan),
        ..TABLE
    },
    Command {
        name: "table.top",
        arity: -4,
        syntax: "table column count [ASC|DESC]",
        summary: "Returns the rows with the largest values of a column of numbers or times, or the smallest",
        cost: "O(N) with N rows",
        action: Action::Run(top),
        ..TABLE
    },
];

/// How many rows a step of `TABLE.SCAN` gives when nothing is said, and rows of one reply at most.
const SCAN_COUNT: usize = 10;
const COUNT_MAX: usize = 10_000;

fn table(session: &Session, text: &[u8]) -> Result<Arc<Table>, Failure> {
    let name = name(text)?;
    session.engine().feeds().table(name).ok_or_else(|| no_such("table", name))
}

fn count(text: &[u8]) -> Result<usize, Failure> {
    let wanted = usize::try_from(integer(text)?).ok().filter(|count| *count > 0);
    Ok(wanted.ok_or(SYNTAX_ERROR)?.min(COUNT_MAX))
}

fn unanswered(error: TableError) -> Failure {
    let (TableError::NoOrder(line) | TableError::Unreadable(line)) = error;
    Failure::made(format!("ERR {line}"))
}

fn get(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let table = table(session, args.at(1))?;
    let parts: Vec<&[u8]> = args.from(2).collect();
    let key = cells::read_key(table.schema(), &parts)
        .map_err(|message| Failure::made(format!("ERR {message}")))?;
    match table.get(&key).map_err(unanswered)? {
        None => reply.null_array(),
        Some(row) => write_row(reply, width(&table), cells::of_owned(&row)),
    }
    Ok(Effect::Unchanged)
}

fn scan(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let table = table(session, args.at(1))?;
    let cursor = u64::try_from(integer(args.at(2))?).map_err(|_| SYNTAX_ERROR)?;
    let count = match args.len() {
        3 => SCAN_COUNT,
        5 if args.is(3, "count") => count(args.at(4))?,
        _ => return Err(SYNTAX_ERROR),
    };
    let (schema, width) = (table.schema(), width(&table));
    let mut found = 0;
    let mut rows = Reply::new();
    let next = table.scan(cursor, count, &mut |row| {
        found += 1;
        write_row(&mut rows, width, cells::of(row, schema));
    });
    let next = next.map_err(unanswered)?;
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(found);
    reply.out.append(&mut rows.out);
    Ok(Effect::Unchanged)
}

fn top(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let table = table(session, args.at(1))?;
    let column = name(args.at(2))?;
    let count = count(args.at(3))?;
    let descending = match args.len() {
        4 => true,
        5 if args.is(4, "desc") => true,
        5 if args.is(4, "asc") => false,
        _ => return Err(SYNTAX_ERROR),
    };
    let rows = table.top(column, count, descending).map_err(unanswered)?;
    reply.array(rows.len());
    rows.iter().for_each(|row| write_row(reply, width(&table), cells::of_owned(row)));
    Ok(Effect::Unchanged)
}

fn list(session: &mut Session, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let tables = session.engine().feeds().tables();
    named::write_shown(session, NameKind::Table, tables.iter().map(|table| table.name()), reply);
    Ok(Effect::Unchanged)
}

fn info(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let table = table(session, args.at(1))?;
    let schema = table.schema();
    reply.map(5);
    for (field, text) in [("name", table.name()), ("feed", table.feed())] {
        reply.bulk(field.as_bytes());
        reply.bulk(text.as_bytes());
    }
    for (field, number) in [("rows", table.len()), ("memory_bytes", table.memory_bytes())] {
        reply.bulk(field.as_bytes());
        reply.count(number);
    }
    reply.bulk(b"columns");
    reply.array(width(&table));
    let parts = [(&schema.key, "key"), (&schema.columns, "value")];
    for (column, part) in parts
        .into_iter()
        .flat_map(|(columns, part)| columns.iter().map(move |column| (column, part)))
    {
        reply.array(3);
        reply.bulk(column.name.as_bytes());
        reply.bulk(column.kind.name().as_bytes());
        reply.bulk(part.as_bytes());
    }
    Ok(Effect::Unchanged)
}

fn width(table: &Table) -> usize {
    table.schema().key.len() + table.schema().columns.len()
}

fn write_row<'a>(reply: &mut Reply, width: usize, cells: impl Iterator<Item = Cell<'a>>) {
    reply.array(width);
    for cell in cells {
        match cell {
            Cell::Absent => reply.null(),
            Cell::Integer(value) | Cell::Time(value) => reply.integer(value),
            Cell::Number(value) => reply.bulk(value.to_string().as_bytes()),
            Cell::Text(text) => reply.bulk(text),
        }
    }
}
