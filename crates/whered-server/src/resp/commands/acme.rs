//! Tokens for certificates: `ACME.DEL ACME.LIST ACME.SET`.
//!
//! A certificate authority that is asked for a certificate by dns-01 looks for a token at
//! `_acme-challenge.NAME`; an ACME client's hook puts it there by `ACME.SET`. DNS answers with it from
//! the next question on.

use super::cidr::expiry;
use super::{
    Action, Channels, Command, Effect, Flag, InTransaction, Members, NameKind, NameSpec, Outcome,
    SYNTAX_ERROR, WhenFull, name, named, wrong_arity,
};
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const ACME: Command = Command {
    name: "",
    arity: -2,
    flags: &[Flag::Write, Flag::Fast],
    group: "zone",
    keys: &[],
    names: &[NameSpec::Domain(1)],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Frees,
    in_transaction: InTransaction::Queued,
    syntax: "",
    summary: "",
    cost: "O(N) with N tokens",
    since: "0.1.0",
    action: Action::Subcommands(&[]),
};

/// How long a token lasts when nothing is said: authorities look within seconds.
const USUAL_MILLIS: u64 = 600_000;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "acme.del",
        syntax: "name [token]",
        summary: "Removes a token of a name, or all of them; returns how many",
        action: Action::Run(remove),
        ..ACME
    },
    Command {
        name: "acme.list",
        arity: 1,
        names: &[NameSpec::Shown(NameKind::Zone)],
        when_full: WhenFull::Runs,
        flags: &[Flag::ReadOnly, Flag::Fast],
        summary: "Returns owner, token and seconds left of each",
        action: Action::Run(list),
        ..ACME
    },
    Command {
        name: "acme.set",
        arity: -3,
        flags: &[Flag::Write, Flag::Fast],
        when_full: WhenFull::Refused,
        syntax: "name token [EX seconds]",
        summary: "Answers TXT of _acme-challenge.NAME with a token, in addition to others of that name, \
                  for 600 seconds; returns 1 when it is new",
        action: Action::Run(set),
        ..ACME
    },
];

fn set(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = session.engine();
    let expires_at_millis = match args.len() {
        3 => engine.now_millis().saturating_add(USUAL_MILLIS),
        5 if args.is(3, "ex") => expiry(session, args.at(4), "acme.set")?,
        _ => return Err(SYNTAX_ERROR),
    };
    let written =
        session.engine().set_challenge(name(args.at(1))?, name(args.at(2))?, expires_at_millis)?;
    reply.hold(written.ticket);
    reply.count(usize::from(written.value));
    // One that was there may have got another end.
    Ok(Effect::Changed)
}

fn remove(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() > 3 {
        return Err(wrong_arity("acme.del"));
    }
    let token = args.get(2).map(name).transpose()?;
    let written = session.engine().remove_challenge(name(args.at(1))?, token)?;
    reply.hold(written.ticket);
    reply.count(written.value);
    Ok(Effect::changed_if(written.value > 0))
}

fn list(session: &mut Session, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let now_millis = session.engine().now_millis();
    let challenges = session.engine().challenges().unwrap_or_default();
    let may_see = |owner: &str| {
        session.user.may_all()
            || session.user.may_name(NameKind::Zone, named::zone_of(session, owner).as_bytes())
    };
    let left: Vec<_> = challenges
        .iter()
        .filter(|(owner, _, end)| *end > now_millis && may_see(&owner.to_string()))
        .collect();
    reply.array(left.len());
    for (owner, token, expires_at_millis) in left {
        reply.array(3);
        reply.bulk(owner.to_string().as_bytes());
        reply.bulk(token.as_bytes());
        reply.count((expires_at_millis - now_millis).div_ceil(1000) as usize);
    }
    Ok(Effect::Unchanged)
}
