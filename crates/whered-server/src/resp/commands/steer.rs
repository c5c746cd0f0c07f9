//! Pools and their sites: `STEER SITE.LIST SITE.ADD SITE.MOVE SITE.DOWN SITE.UP SITE.AUTO SITE.REM`.
//!
//! Not for: making pools, which the configuration does. `STEER` gives the site that DNS would
//! answer with for the same client.

use std::net::IpAddr;

use whered_dns::Client;
use whered_engine::geo::Place;
use whered_engine::{HealthOverride, Site, Ticket};

use super::{
    Action, Channels, Command, Effect, Failure, Flag, InTransaction, Members, NameKind, NameSpec,
    Outcome, WhenFull, address, explained, float, name, no_such, wrong_arity,
};
use crate::health::SiteReport;
use crate::resp::protocol::Args;
use crate::resp::reply::Reply;
use crate::resp::session::Session;

const SITE: Command = Command {
    name: "",
    arity: 3,
    flags: &[Flag::Write, Flag::Fast],
    group: "steer",
    keys: &[],
    names: &[NameSpec::Args(NameKind::Pool, 1, 1)],
    channels: Channels::None,
    members: Members::None,
    when_full: WhenFull::Frees,
    in_transaction: InTransaction::Queued,
    syntax: "pool site",
    summary: "",
    cost: "O(N) with N sites of the pool",
    since: "0.1.0",
    action: Action::Subcommands(&[]),
};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "site.add",
        arity: -6,
        when_full: WhenFull::Refused,
        syntax: "pool site longitude latitude address [address ...]",
        summary: "Adds a site to a pool or replaces it; returns 1 when it is new",
        action: Action::Run(add),
        ..SITE
    },
    Command {
        name: "site.auto",
        when_full: WhenFull::Refused,
        summary: "Removes the override: a site's checks decide again",
        action: Action::Run(|s, args, reply| set_health(s, args, reply, HealthOverride::Auto)),
        ..SITE
    },
    Command {
        name: "site.down",
        summary: "Marks a site as down, whatever its checks say",
        action: Action::Run(|s, args, reply| set_health(s, args, reply, HealthOverride::Down)),
        ..SITE
    },
    Command {
        name: "site.list",
        arity: 2,
        flags: &[Flag::ReadOnly, Flag::Fast],
        when_full: WhenFull::Runs,
        syntax: "pool",
        summary: "Describes the sites of a pool",
        action: Action::Run(list),
        ..SITE
    },
    Command {
        name: "site.move",
        arity: 5,
        syntax: "pool site longitude latitude",
        summary: "Moves a site",
        action: Action::Run(|session, args, reply| {
            let (pool, site) = (name(args.at(1))?, name(args.at(2))?);
            let written = session.engine().move_site(pool, site, place(args, 3)?)?;
            finish(reply, written.ticket)
        }),
        ..SITE
    },
    Command {
        name: "site.rem",
        summary: "Removes a site added by SITE.ADD",
        action: Action::Run(|session, args, reply| {
            let written = session.engine().remove_site(name(args.at(1))?, name(args.at(2))?)?;
            finish(reply, written.ticket)
        }),
        ..SITE
    },
    Command {
        name: "site.up",
        summary: "Marks a site as up, whatever its checks say",
        action: Action::Run(|s, args, reply| set_health(s, args, reply, HealthOverride::Up)),
        ..SITE
    },
    Command {
        name: "steer",
        arity: -3,
        names: &[NameSpec::PoolOrOwner(1)],
        when_full: WhenFull::Runs,
        flags: &[Flag::ReadOnly, Flag::Fast],
        syntax: "pool address [EXPLAIN]",
        summary: "Returns the site that a pool, or a name that it answers, chooses for a client",
        action: Action::Run(steer),
        ..SITE
    },
];

fn finish(reply: &mut Reply, ticket: Ticket) -> Outcome {
    reply.hold(ticket);
    reply.ok();
    Ok(Effect::Changed)
}

/// A site may stand anywhere on the globe, the poles included.
fn place(args: Args<'_>, at: usize) -> Result<Place, Failure> {
    let (longitude, latitude) = (float(args.at(at))?, float(args.at(at + 1))?);
    Place::new_geographic(longitude, latitude)
        .map_err(|error| Failure::made(format!("ERR {error}")))
}

fn add(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let addresses = args.from(5).map(site_address).collect::<Result<Vec<IpAddr>, _>>()?;
    let site = Site::new(name(args.at(2))?, Some(place(args, 3)?), addresses);
    let written = session.engine().put_site(name(args.at(1))?, site)?;
    reply.hold(written.ticket);
    reply.count(usize::from(written.value));
    Ok(Effect::Changed)
}

/// The address of a site alone. A port or a zone would not be answered to DNS clients.
fn site_address(text: &[u8]) -> Result<IpAddr, Failure> {
    address(text)?;
    whered_engine::ip::text::parse(text).map(|address| address.to_canonical()).ok_or_else(|| {
        let shown = text.escape_ascii();
        let allowed = "an address alone, such as 192.0.2.1 or 2001:db8::1";
        Failure::made(format!("ERR '{shown}' has more than an IP address; allowed: {allowed}"))
    })
}

fn set_health(
    session: &mut Session,
    args: Args<'_>,
    reply: &mut Reply,
    to: HealthOverride,
) -> Outcome {
    let (pool, site) = (name(args.at(1))?, name(args.at(2))?);
    let written = session.engine().override_site(pool, site, to)?;
    finish(reply, written.ticket)
}

fn list(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let generation = session.generation();
    let pool_name = name(args.at(1))?;
    let pool = generation.pool(pool_name).ok_or_else(|| no_such("pool", pool_name))?;
    reply.array(pool.sites.len());
    for site in &pool.sites {
        let report = session.shared.context.health.site(pool_name, &site.name);
        reply.map(8);
        reply.bulk(b"name");
        reply.bulk(site.name.as_bytes());
        reply.bulk(b"longitude");
        coordinate(reply, site.place.map(|place| place.longitude_degrees));
        reply.bulk(b"latitude");
        coordinate(reply, site.place.map(|place| place.latitude_degrees));
        reply.bulk(b"healthy");
        reply.count(usize::from(site.healthy));
        reply.bulk(b"override");
        reply.bulk(site.health.manual.name().as_bytes());
        reply.bulk(b"probed");
        reply.bulk(site.health.probed.name().as_bytes());
        reply.bulk(b"checks");
        checks(report.as_ref(), reply);
        reply.bulk(b"addresses");
        reply.array(site.addresses.len());
        site.addresses.iter().for_each(|address| reply.bulk(address.to_string().as_bytes()));
    }
    Ok(Effect::Unchanged)
}

/// Each check with what its last probe has found.
fn checks(report: Option<&SiteReport>, reply: &mut Reply) {
    let checks = report.map_or(&[][..], |report| &report.checks);
    reply.array(checks.len());
    for check in checks {
        reply.map(5);
        reply.bulk(b"target");
        reply.bulk(check.target.as_bytes());
        reply.bulk(b"state");
        reply.bulk(check.probed.name().as_bytes());
        reply.bulk(b"last");
        reply.bulk(check.last.as_bytes());
        reply.bulk(b"at_millis");
        reply.integer(i64::try_from(check.at_millis).unwrap_or(i64::MAX));
        reply.bulk(b"took_micros");
        reply.integer(i64::try_from(check.took.as_micros()).unwrap_or(i64::MAX));
    }
}

fn coordinate(reply: &mut Reply, degrees: Option<f64>) {
    match degrees {
        Some(degrees) => reply.coordinate(degrees),
        None => reply.null(),
    }
}

fn steer(session: &mut Session, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (args, explain) = explained(args, 3);
    if args.len() != 3 {
        return Err(wrong_arity("steer"));
    }
    let generation = session.generation();
    let pool_name = name(args.at(1))?;
    let index = generation.pool_called(pool_name);
    let index = index.ok_or_else(|| no_such("pool", pool_name))?;
    let address = address(args.at(2))?;
    let prefix_length_bits = if address.is_ipv4() { 32 } else { 128 };
    let client = Client { address, prefix_length_bits, from_ecs: false };
    if explain {
        let reasons = session.engine().explain_steer(pool_name, &client);
        let reasons = reasons.map_err(|error| Failure::made(format!("ERR {error}")))?;
        reply.bulk(reasons.to_string().as_bytes());
        return Ok(Effect::Unchanged);
    }
    let chosen = generation.steer(index, &client, &session.engine().live());
    let sites = &generation.pools()[index].sites;
    let names: Vec<&str> =
        chosen.answers().filter_map(|site| Some(sites.get(site)?.name.as_str())).collect();
    match names[..] {
        [] => reply.null(),
        [name] => reply.bulk(name.as_bytes()),
        // Only pools of several answers give several.
        ref names => {
            reply.array(names.len());
            names.iter().for_each(|name| reply.bulk(name.as_bytes()));
        }
    }
    Ok(Effect::Unchanged)
}
