//! Zones of the configuration: `ZONE.CHECK ZONE.DISCARD ZONE.LIST ZONE.REFRESH ZONE.RELOAD
//! ZONE.RETRANSFER`.
//!
//! Not for: making zones, which the configuration does. Files are read on a thread of their own: a
//! zone of a million names takes a second, in which the worker serves its other clients.

use whered_engine::{Engine, EngineError, ZoneReport};

use super::{
    Action, Channels, Command, Effect, Failure, Flag, InTransaction, Members, NameKind, NameSpec,
    Outcome, WhenFull, name, named,
};
use crate::resp::background;
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const ZONE: Command = Command {
    name: "",
    arity: 2,
    flags: &[Flag::Admin],
    group: "zone",
    keys: &[],
    names: &[NameSpec::Args(NameKind::Zone, 1, 1)],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Runs,
    in_transaction: InTransaction::Queued,
    syntax: "zone",
    summary: "",
    cost: "O(N) with N records of the zone",
    since: "0.1.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "zone.check",
        summary: "Checks a zone's file without serving it; returns its serial number and records",
        action: Action::Run(|session, args, reply| read(session, args, reply, Engine::check_zone)),
        ..ZONE
    },
    Command {
        name: "zone.discard",
        flags: &[Flag::Admin, Flag::Write],
        when_full: WhenFull::Frees,
        summary: "Drops what updates (RFC 2136) have changed in a zone; returns how many records they \
                  had added and removed",
        action: Action::Run(discard),
        ..ZONE
    },
    Command {
        name: "zone.list",
        arity: 1,
        names: &[NameSpec::Shown(NameKind::Zone)],
        flags: &[Flag::ReadOnly, Flag::Fast],
        syntax: "",
        summary: "Returns the names of the zones",
        cost: "O(N) with N zones",
        action: Action::Run(list),
        ..ZONE
    },
    Command {
        name: "zone.refresh",
        flags: &[Flag::Admin, Flag::Fast],
        summary: "Asks the primaries of a secondary zone now whether they have a newer one",
        cost: "O(1); the zone is asked for in the background",
        action: Action::Run(|session, args, reply| refresh(session, args, reply, false)),
        ..ZONE
    },
    Command {
        name: "zone.retransfer",
        flags: &[Flag::Admin, Flag::Fast],
        summary: "Takes a secondary zone whole from its primaries, whatever its serial",
        cost: "O(1); the zone is asked for in the background",
        action: Action::Run(|session, args, reply| refresh(session, args, reply, true)),
        ..ZONE
    },
    Command {
        name: "zone.reload",
        summary: "Rereads a zone's file and serves it; returns its serial number and records",
        action: Action::Run(|session, args, reply| read(session, args, reply, Engine::reload_zone)),
        ..ZONE
    },
];

fn read(
    session: &mut Session,
    args: Args<'_>,
    reply: &mut Reply,
    read: fn(&Engine, &str) -> Result<ZoneReport, EngineError>,
) -> Outcome {
    let zone = name(args.at(1))?.to_owned();
    background::begin(session, reply, move |engine| {
        let report = read(engine, &zone);
        Box::new(|reply| {
            let report = report.map_err(|error| Failure::made(format!("ERR {error}")))?;
            reply.array(2);
            reply.integer(report.serial.into());
            reply.count(report.records);
            Ok(Effect::Unchanged)
        })
    })
}

fn refresh(session: &mut Session, args: Args<'_>, reply: &mut Reply, whole: bool) -> Outcome {
    let zone = name(args.at(1))?;
    let refresh = session.shared.context.refresh_zone.as_ref();
    let refresh = refresh.ok_or_else(|| Failure::text("ERR no zone comes from primaries"))?;
    let asked = (refresh.0)(zone, whole);
    asked.map_err(|error| Failure::made(format!("ERR {error}")))?;
    reply.ok();
    Ok(Effect::Unchanged)
}

fn discard(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let written = session.engine().discard_zone_updates(name(args.at(1))?)?;
    let (added, removed) = written.value;
    reply.hold(written.ticket);
    reply.array(2);
    reply.count(added);
    reply.count(removed);
    Ok(Effect::Changed)
}

fn list(session: &mut Session, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let sources = session.engine().zone_sources();
    named::write_shown(session, NameKind::Zone, sources.iter().map(|source| &*source.name), reply);
    Ok(Effect::Unchanged)
}
