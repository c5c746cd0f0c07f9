//! `GET /v1/rules`, `GET /v1/rules/{name}` and `POST /v1/rules/{name}/match`.
//!
//! The first gives every ruleset's description, the second one description with what each rule has
//! counted. The third takes one packet as an object, or an array of up to [`PACKETS_MAX`]:
//!
//! ```text
//! {"src": "10.0.0.1", "dst": "192.0.2.1", "proto": "tcp", "dport": 80, "state": "new", "length": 60}
//!   ──> {"verdict": "accept", "rule": 3, "at": "edge.rules:4", "met": [1]}
//! ```
//!
//! `proto` is a name or a number, `icmp` is `"TYPE/CODE"`, `flags` are names with commas; what is
//! not said is 0, no interface, untracked. `with` is an object of details, such as `{"ttl": 64}`:
//! those that are not said are unknown. Rules are set and changed by RESP: HTTP changes no data.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use serde_json::{Map, Value, json};
use whered_engine::rules::live::Decision;
use whered_engine::rules::{Counters, Detail, Packet, State as Connection, names};
use whered_engine::{Edition, Generation, NamedRuleset};

use super::error::{ErrorBody, ErrorCode, HttpError};
use super::query::Parameters;
use super::state::{HttpState, json_response};
use crate::rules;

/// The most packets of one request.
const PACKETS_MAX: usize = 10_000;

type Name = Result<Path<String>, PathRejection>;

/// Descriptions of all rulesets.
#[utoipa::path(
    get,
    path = "/v1/rules",
    operation_id = "list_rulesets",
    tag = "rules",
    responses((status = 200, description = "the answer"))
)]
pub(crate) async fn list(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    Parameters::read(&uri, &[])?;
    let generation = state.engine.generation();
    let all: Vec<Value> =
        generation.rulesets().iter().map(|named| Value::Object(description(named))).collect();
    let body = json!({ "generation": generation.number(), "rulesets": all });
    Ok(json_response(body.to_string().into_bytes()))
}

/// The description of a ruleset with its counters.
#[utoipa::path(
    get,
    path = "/v1/rules/{name}",
    operation_id = "get_ruleset",
    tag = "rules",
    params(
        ("name" = String, Path, description = "the ruleset"),
    ),
    responses((status = 200, description = "the answer"))
)]
pub(crate) async fn one(
    State(state): State<Arc<HttpState>>,
    name: Name,
    uri: Uri,
) -> Result<Response, HttpError> {
    let Path(name) = name.map_err(|error| HttpError::bad_request("name", error.body_text()))?;
    Parameters::read(&uri, &[])?;
    let generation = state.engine.generation();
    let named = found(&generation, &name)?;
    let (rules, policy) = named.counts(false);
    let shown = |count: Counters| json!({ "packets": count.packets, "bytes": count.bytes });
    let of_rule = |(number, Counters { packets, bytes }): (u32, Counters)| json!({ "rule": number, "packets": packets, "bytes": bytes });
    let rules: Vec<Value> = rules.into_iter().map(of_rule).collect();
    let mut body = description(named);
    body.insert("counters".to_owned(), json!({ "policy": shown(policy), "rules": rules }));
    Ok(json_response(Value::Object(body).to_string().into_bytes()))
}

/// The verdicts of packets.
#[utoipa::path(
    post,
    path = "/v1/rules/{name}/match",
    operation_id = "match_packets",
    tag = "rules",
    params(
        ("name" = String, Path, description = "the ruleset"),
    ),
    request_body(content = serde_json::Value, description = "a packet, or an array of up to 10000"),
    responses((status = 200, description = "the answer"))
)]
pub(crate) async fn find(
    State(state): State<Arc<HttpState>>,
    name: Name,
    uri: Uri,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, HttpError> {
    let Path(name) = name.map_err(|error| HttpError::bad_request("name", error.body_text()))?;
    Parameters::read(&uri, &[])?;
    let body = body.map_err(|error| {
        HttpError::new(ErrorCode::BodyTooLarge, Some("body"), error.body_text())
    })?;
    let asked: Value =
        serde_json::from_slice(&body).map_err(|error| wrong(format!("it is no JSON: {error}")))?;
    let generation = state.engine.generation();
    let edition = found(&generation, &name)?.edition();
    let sets = state.engine.prefix_sets();
    let answer: Value = match &asked {
        Value::Array(list) if list.len() > PACKETS_MAX => {
            return Err(wrong(format!("more than {PACKETS_MAX} packets")));
        }
        Value::Array(list) => {
            let read: Vec<_> = list.iter().map(read_packet).collect();
            let good = || read.iter().filter_map(|one| one.as_ref().ok());
            let packets: Vec<_> = good().map(GivenPacket::packet).collect();
            let lengths: Vec<_> = good().map(|given| given.bytes).collect();
            let decisions = edition.find_batch(&packets, &lengths, sets);
            let mut decisions = decisions.iter().map(|decision| shown(&edition, decision));
            // A wrong packet costs its own answer only.
            let answer = |(place, one): (usize, &Result<_, String>)| match one {
                Ok(_) => decisions.next().unwrap_or_default(),
                Err(error) => {
                    let message = format!("packet {place}: {error}");
                    json!(ErrorBody::new(ErrorCode::InvalidBody, Some("body"), message))
                }
            };
            read.iter().enumerate().map(answer).collect()
        }
        one => {
            let given = read_packet(one).map_err(wrong)?;
            shown(&edition, &edition.find(&given.packet(), given.bytes, sets))
        }
    };
    Ok(json_response(answer.to_string().into_bytes()))
}

fn wrong(message: impl Into<String>) -> HttpError {
    HttpError::bad_body(message)
}

fn description(named: &NamedRuleset) -> Map<String, Value> {
    rules::describe(named).into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn found<'a>(generation: &'a Generation, name: &str) -> Result<&'a NamedRuleset, HttpError> {
    generation.ruleset(name).map(|named| &**named).ok_or_else(|| {
        let message = match generation.resting(name) {
            Some(reason) => format!("ruleset '{name}' rests: {reason}"),
            None => format!("no such ruleset '{name}'"),
        };
        HttpError::not_found("name", message)
    })
}

fn shown(edition: &Edition, decision: &Decision) -> Value {
    let at = decision.rule.and_then(|number| edition.rule(number));
    json!({
        "verdict": decision.verdict.to_string(),
        "rule": decision.rule,
        "at": at.map(|rule| rule.origin.to_string()),
        "met": decision.matched,
    })
}

/// A packet as a request gives it.
struct GivenPacket<'a> {
    /// Without its details.
    fields: Packet<'a>,
    details: Vec<(Detail, u64)>,
    /// What counters add.
    bytes: u64,
}

impl GivenPacket<'_> {
    fn packet(&self) -> Packet<'_> {
        Packet { details: &self.details, ..self.fields }
    }
}

fn read_packet(value: &Value) -> Result<GivenPacket<'_>, String> {
    let Value::Object(members) = value else {
        return Err("it is no object with src, dst and proto".to_owned());
    };
    let (mut packet, mut bytes, mut details) = (Packet::default(), 0, Vec::new());
    let mut has = [false; 3];
    for (key, value) in members {
        match key.as_str() {
            "src" => (packet.source, has[0]) = (address(key, value)?, true),
            "dst" => (packet.destination, has[1]) = (address(key, value)?, true),
            "proto" => (packet.protocol, has[2]) = (protocol(value)?, true),
            "sport" => packet.source_port = number(key, value, 65_535)? as u16,
            "dport" => packet.destination_port = number(key, value, 65_535)? as u16,
            "icmp" => (packet.icmp_type, packet.icmp_code) = icmp(value)?,
            "flags" => packet.tcp_flags = flags(word(key, value)?)?,
            "state" => {
                let name = word(key, value)?;
                packet.state = Connection::from_name(name).ok_or_else(|| {
                    let allowed = "invalid, new, established, related, untracked";
                    format!("'state' is '{name}'; allowed: {allowed}")
                })?;
            }
            "in" => packet.input = word(key, value)?,
            "out" => packet.output = word(key, value)?,
            "dscp" => packet.dscp = number(key, value, 63)? as u8,
            "mark" => packet.mark = number(key, value, u32::MAX.into())? as u32,
            "length" => bytes = number(key, value, u32::MAX.into())?,
            "with" => details = details_of(value)?,
            other => {
                let allowed = "src, dst, proto, sport, dport, icmp, flags, state, in, out, dscp, \
                               mark, length, with";
                return Err(format!("unknown member '{other}'; allowed: {allowed}"));
            }
        }
    }
    if has != [true; 3] {
        return Err("a packet needs src, dst and proto".to_owned());
    }
    if packet.source.is_ipv4() != packet.destination.is_ipv4() {
        return Err("src and dst are of different families".to_owned());
    }
    Ok(GivenPacket { fields: packet, details, bytes })
}

/// `{"ttl": 64, "source-mac": "00:16:3e:00:00:01"}`.
fn details_of(value: &Value) -> Result<Vec<(Detail, u64)>, String> {
    let Value::Object(members) = value else {
        return Err(format!("'with' is {value}; allowed: an object of details"));
    };
    let read = |(name, value): (&String, &Value)| {
        let detail = Detail::named(name);
        let number = detail.as_ref().and_then(|detail| match value {
            Value::String(text) => detail.parse(text),
            other => other.as_u64(),
        });
        detail.zip(number).ok_or_else(|| {
            let allowed = "a detail by name with a number or one of its words";
            format!("'with' has '{name}': {value}; allowed: {allowed}")
        })
    };
    members.iter().map(read).collect()
}

fn word<'a>(key: &str, value: &'a Value) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| format!("'{key}' is {value}; allowed: a string"))
}

fn number(key: &str, value: &Value, max: u64) -> Result<u64, String> {
    let found = value.as_u64().filter(|number| *number <= max);
    found.ok_or_else(|| format!("'{key}' is {value}; allowed: a number from 0 to {max}"))
}

fn address(key: &str, value: &Value) -> Result<IpAddr, String> {
    let read = value.as_str().and_then(|text| whered_engine::ip::text::read(text.as_bytes()));
    read.ok_or_else(|| format!("'{key}' is {value}; allowed: an IP address"))
}

fn protocol(value: &Value) -> Result<u8, String> {
    match value {
        Value::String(name) => names::protocol_number(name),
        other => other.as_u64().and_then(|number| u8::try_from(number).ok()),
    }
    .ok_or_else(|| format!("'proto' is {value}; allowed: a name such as \"tcp\", 0 to 255"))
}

fn icmp(value: &Value) -> Result<(u8, u8), String> {
    let read = || {
        let (kind, code) = value.as_str()?.split_once('/')?;
        Some((kind.parse().ok()?, code.parse().ok()?))
    };
    read().ok_or_else(|| format!("'icmp' is {value}; allowed: type and code such as \"8/0\""))
}

fn flags(list: &str) -> Result<u8, String> {
    let mut words = list.split(',').filter(|word| !word.is_empty());
    words.try_fold(0, |all, word| match names::tcp_flag(word) {
        Some(bit) => Ok(all | bit),
        None => {
            let allowed = "fin, syn, rst, psh, ack, urg, ece, cwr";
            Err(format!("'flags' has '{word}'; allowed: {allowed}"))
        }
    })
}
