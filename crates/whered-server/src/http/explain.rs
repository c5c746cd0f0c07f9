//! `GET /v1/explain`: what every job says of one address, with the reasons.
//!
//! Databases give their records, prefix sets the members that hold the address, rulesets the
//! verdict on a packet from it, pools the explanation of `STEER ... EXPLAIN`. The packet goes to
//! `destination`, with `protocol`, `source_port` and `destination_port`; what is not given is that
//! of a DNS query, as for the rules of pools. Packets are not counted.
//!
//! Cost: a lookup in every database and prefix set, an evaluation of every ruleset and pool.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde_json::{Value, json};
use whered_dns::Client;
use whered_engine::ip::text::read as read_address;
use whered_engine::mmdb::ErrorKind;
use whered_engine::rules::{Packet, names, text};
use whered_engine::{Engine, Generation, NamedDatabase, NamedRuleset};

use super::answers;
use super::error::{ErrorCode, HttpError};
use super::query::Parameters;
use super::searches::{self, Deadline};
use super::state::{HttpState, json_response};

const ALLOWED: [&str; 5] =
    ["address", "destination", "protocol", "source_port", "destination_port"];

/// UDP, and the port of DNS.
const PROTOCOL: u8 = 17;
const PORT: u16 = 53;

/// What every job says of an address.
#[utoipa::path(
    get,
    path = "/v1/explain",
    operation_id = "explain_address",
    tag = "addresses and databases",
    params(
        ("address" = String, Query, description = "an IP address"),
        ("destination" = Option<String>, Query, description = "for rules: where a packet goes; absent: the unspecified address"),
        ("protocol" = Option<String>, Query, description = "for rules: a name or a number; absent: udp"),
        ("source_port" = Option<u64>, Query, description = "for rules; absent: 0"),
        ("destination_port" = Option<u64>, Query, description = "for rules; absent: 53, or 0 with another protocol"),
    ),
    responses((status = 200, description = "the answer", body = answers::AddressReport))
)]
pub(crate) async fn explain(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let parameters = Parameters::read(&uri, &ALLOWED)?;
    let source = parameters.text("address").ok_or_else(|| HttpError::missing("address"))?;
    let source = read("address", source)?;
    let packet = read_packet(&parameters, source)?;
    let answer = searches::run(&state, move |engine, deadline| answer(engine, &packet, deadline));
    answer.await.map(|body| json_response(body.to_string().into_bytes()))
}

fn read(field: &'static str, text: &str) -> Result<IpAddr, HttpError> {
    read_address(text.as_bytes()).ok_or_else(|| {
        let allowed = "an IPv4 or IPv6 address such as 192.0.2.1 or 2001:db8::1";
        HttpError::bad_request(field, format!("'{text}' is no IP address; allowed: {allowed}"))
    })
}

fn read_packet(parameters: &Parameters, source: IpAddr) -> Result<Packet<'static>, HttpError> {
    let destination = match parameters.text("destination") {
        Some(text) => read("destination", text)?,
        None if source.is_ipv4() => Ipv4Addr::UNSPECIFIED.into(),
        None => Ipv6Addr::UNSPECIFIED.into(),
    };
    if destination.is_ipv4() != source.is_ipv4() {
        let message = "'address' and 'destination' are of different families";
        return Err(HttpError::bad_request("destination", message));
    }
    let protocol = match parameters.text("protocol") {
        None => PROTOCOL,
        Some(text) => {
            let number = text.parse().ok().or_else(|| names::protocol_number(text));
            number.ok_or_else(|| {
                let message =
                    format!("'protocol' is '{text}'; allowed: a name such as tcp, 0 to 255");
                HttpError::bad_request("protocol", message)
            })?
        }
    };
    let port = |name: &'static str, absent: u16| match parameters.text(name) {
        None => Ok(absent),
        Some(text) => text.parse().map_err(|_| {
            HttpError::bad_request(name, format!("'{name}' is '{text}'; allowed: 0 to 65535"))
        }),
    };
    let usual = if protocol == PROTOCOL { PORT } else { 0 };
    Ok(Packet {
        source,
        destination,
        protocol,
        source_port: port("source_port", 0)?,
        destination_port: port("destination_port", usual)?,
        ..Packet::default()
    })
}

fn answer(engine: &Engine, packet: &Packet<'_>, deadline: Deadline) -> Result<Value, HttpError> {
    let generation = engine.generation();
    let address = packet.source;
    let mut databases = Vec::new();
    for named in generation.databases() {
        check(deadline)?;
        databases.push(of_database(named, address));
    }
    let mut rules = Vec::new();
    for named in generation.rulesets() {
        check(deadline)?;
        rules.push(of_ruleset(engine, named, packet));
    }
    Ok(json!({
        "address": address,
        "generation": generation.number(),
        "databases": databases,
        "sets": of_sets(engine, address, deadline)?,
        "packet": {
            "source": address,
            "destination": packet.destination,
            "protocol": packet.protocol,
            "source_port": packet.source_port,
            "destination_port": packet.destination_port,
        },
        "rules": rules,
        "pools": of_pools(engine, &generation, address, deadline)?,
    }))
}

fn check(deadline: Deadline) -> Result<(), HttpError> {
    match deadline.is_over() {
        true => Err(HttpError::new(ErrorCode::TimedOut, None, "the answer takes too long")),
        false => Ok(()),
    }
}

fn of_database(named: &NamedDatabase, address: IpAddr) -> Value {
    let read = || {
        let found = named.answer(address)?;
        let mut text = Vec::new();
        if let Some(record) = found.record {
            named.write_record_json(record, &mut text)?;
        }
        let record: Value = serde_json::from_slice(&text).unwrap_or_default();
        Ok((Some(found.prefix.to_string()), record))
    };
    let found: Result<_, whered_engine::mmdb::MmdbError> = read();
    let name = &named.name;
    match found {
        Ok((prefix, record)) => json!({ "database": name, "prefix": prefix, "record": record }),
        Err(error) => {
            // A database of the other family has nothing to say.
            let code = match error.kind() {
                ErrorKind::AddressFamily => ErrorCode::FamilyNotCovered,
                _ => ErrorCode::Internal,
            };
            let error = HttpError::new(code, Some("database"), error.to_string());
            let error = error.detail();
            json!({ "database": name, "prefix": null, "record": null, "error": error })
        }
    }
}

fn of_sets(engine: &Engine, address: IpAddr, deadline: Deadline) -> Result<Vec<Value>, HttpError> {
    let now_millis = engine.now_millis();
    let mut sets = Vec::new();
    for name in engine.prefix_sets().names() {
        check(deadline)?;
        let found = engine.prefix_sets().read(&name, |set| {
            let found = set.longest_match(address, now_millis)?;
            Some(json!({
                "set": name,
                "prefix": found.block.to_string(),
                "value": found.value.map(String::from_utf8_lossy),
                "expires_at_millis": found.expires_at_millis,
            }))
        });
        sets.extend(found.flatten());
    }
    Ok(sets)
}

fn of_ruleset(engine: &Engine, named: &NamedRuleset, packet: &Packet<'_>) -> Value {
    let edition = named.edition();
    let decision = edition.decide(packet, engine.prefix_sets());
    let rule = decision.rule.and_then(|number| Some((number, edition.rule(number)?)));
    let rule = rule.map(|(number, rule)| {
        json!({
            "number": number,
            "origin": rule.origin.to_string(),
            "text": text::rule_text(edition.compiled_ruleset(), rule),
        })
    });
    let verdict = decision.verdict.to_string();
    json!({ "ruleset": named.name, "verdict": verdict, "rule": rule })
}

fn of_pools(
    engine: &Engine,
    generation: &Generation,
    address: IpAddr,
    deadline: Deadline,
) -> Result<Vec<Value>, HttpError> {
    let prefix_length_bits = if address.is_ipv4() { 32 } else { 128 };
    let client = Client { address, prefix_length_bits, from_ecs: false };
    let mut pools = Vec::new();
    for pool in generation.pools() {
        check(deadline)?;
        let reasons = engine.explain_steer(&pool.name, &client);
        pools.push(reasons.unwrap_or_else(|error| {
            let error = HttpError::new(ErrorCode::Internal, Some("pool"), error.to_string());
            let question = json!({ "job": "steer", "pool": pool.name });
            json!({ "question": question, "error": error.detail() })
        }));
    }
    Ok(pools)
}
