//! `LATENCY`: how long commands take. There is no monitor of events, so that `LATEST` and
//! `HISTORY` are always empty; the histograms are those of `/metrics`.

use whered_engine::store::Histogram;

use super::{Action, Command, Effect, Entry, OPERATOR, Outcome};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;
use crate::resp::statistics::Totals;

const LATENCY: Command = Command { since: "2.8.13", ..OPERATOR };

pub(super) const COMMANDS: &[Command] = &[Command {
    name: "latency",
    arity: -2,
    flags: &[],
    syntax: "subcommand ...",
    summary: "A container for commands about latencies",
    cost: "Depends on the subcommand.",
    action: Action::Subcommands(SUBCOMMANDS),
    ..LATENCY
}];

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "latency|help",
        flags: &[],
        summary: "Shows what LATENCY can do",
        action: Action::Run(|_, _, reply| {
            super::introspection::help("LATENCY", SUBCOMMANDS, reply);
            Ok(Effect::Unchanged)
        }),
        ..LATENCY
    },
    Command {
        name: "latency|histogram",
        arity: -2,
        syntax: "[command [command ...]]",
        summary: "Returns how many calls of commands took up to 1, 2, 4, ... microseconds",
        cost: "O(N) with N commands",
        since: "7.0.0",
        action: Action::Run(histogram),
        ..LATENCY
    },
    Command {
        name: "latency|history",
        arity: 3,
        syntax: "event",
        summary: "Returns no event: none is monitored",
        action: Action::Run(|_, _, reply| {
            reply.array(0);
            Ok(Effect::Unchanged)
        }),
        ..LATENCY
    },
    Command {
        name: "latency|latest",
        summary: "Returns no event: none is monitored",
        action: Action::Run(|_, _, reply| {
            reply.array(0);
            Ok(Effect::Unchanged)
        }),
        ..LATENCY
    },
    Command {
        name: "latency|reset",
        arity: -2,
        syntax: "[event [event ...]]",
        summary: "Returns how many events were reset, which is none",
        action: Action::Run(|_, _, reply| {
            reply.count(0);
            Ok(Effect::Unchanged)
        }),
        ..LATENCY
    },
];

fn histogram(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let table = session.shared.commands;
    let mut wanted: Vec<&Entry> = Vec::new();
    for name in args.from(2) {
        // A container stands for its subcommands.
        if let Some(entry) = table.find_any(name) {
            wanted.push(entry);
            wanted.extend(table.subcommands(entry));
        }
    }
    if args.len() == 2 {
        wanted.extend(table.entries());
    }
    let called: Vec<(&Entry, Totals)> = wanted
        .into_iter()
        .map(|entry| (entry, session.shared.statistics.total(entry.number)))
        .filter(|(_, totals)| totals.calls > 0)
        .collect();
    reply.map(called.len());
    for (entry, totals) in called {
        reply.bulk(entry.command.name.as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.count(totals.calls as usize);
        reply.bulk(b"histogram_usec");
        let filled = || totals.micros.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        reply.map(filled().count());
        let mut sum = 0;
        for (bucket, count) in filled() {
            sum += count;
            reply.count(Histogram::bound(bucket) as usize);
            reply.count(sum as usize);
        }
    }
    Ok(Effect::Unchanged)
}
