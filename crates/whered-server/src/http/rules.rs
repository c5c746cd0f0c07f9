//! `GET /v1/rules`, `GET /v1/rules/{name}` and `POST /v1/rules/{name}/match`.
//!
//! The first gives every ruleset's description, the second one description with what each rule has
//! counted. The third takes one packet as an object, or an array of up to [`PACKETS_MAX`]:
//!
//! ```text
//! {"source": "10.0.0.1", "destination": "192.0.2.1", "protocol": "tcp", "destination_port": 80}
//!   ──> {"verdict": "accept", "rule": 3, "at": "edge.rules:4", "met": [1]}
//! ```
//!
//! What is not said of a packet is 0, no interface, untracked. `with` is an object of details, such
//! as `{"ttl": 64}`: those that are not said are unknown. Rules are set and changed by RESP: HTTP
//! changes no data.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use whered_engine::rules::live::Decision;
use whered_engine::rules::{Counters, Detail, Packet, State as Connection, names};
use whered_engine::{Edition, Generation, NamedRuleset};

use super::answers;
use super::body;
use super::error::{ErrorBody, ErrorCode, HttpError};
use super::names::{OldNames, renamed};
use super::pages::{self, Page};
use super::query::Parameters;
use super::state::{HttpState, json_response};
use crate::rules;

/// The most packets of one request.
const PACKETS_MAX: usize = 10_000;
/// The members of a packet; the first three are needed.
const MEMBERS: [&str; 14] = [
    "source",
    "destination",
    "protocol",
    "source_port",
    "destination_port",
    "icmp",
    "flags",
    "state",
    "in",
    "out",
    "dscp",
    "mark",
    "length",
    "with",
];

type Name = Result<Path<String>, PathRejection>;

/// Descriptions of all rulesets.
#[utoipa::path(
    get,
    path = "/v1/rules",
    operation_id = "list_rulesets",
    tag = "rules",
    params(
        ("cursor" = Option<String>, Query, description = "next of the page before"),
        ("count" = Option<u64>, Query, description = "items of a page, 1 to 10000; absent: all"),
    ),
    responses((status = 200, description = "the answer", body = answers::Rulesets))
)]
pub(crate) async fn list(
    State(state): State<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let parameters = Parameters::read(&uri, &pages::PARAMETERS)?;
    let generation = state.engine.generation();
    let all = generation.rulesets();
    let names: Vec<&str> = all.iter().map(|named| &*named.name).collect();
    let page = Page::of(&parameters, &names)?;
    let shown: Vec<_> = all[page.items].iter().map(|named| description(named)).collect();
    let number = generation.number();
    let body = json!({ "generation": number, "rulesets": shown, "next": page.next });
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
    responses((status = 200, description = "the answer", body = answers::RulesetDescription))
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
        ("explain" = Option<String>, Query, description = "1 or true: each answer has its reasons"),
    ),
    request_body(content = PacketRequest),
    responses((status = 200, description = "the answer", body = answers::PacketAnswers))
)]
pub(crate) async fn find(
    State(state): State<Arc<HttpState>>,
    name: Name,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, HttpError> {
    let Path(name) = name.map_err(|error| HttpError::bad_request("name", error.body_text()))?;
    let explain = Parameters::read(&uri, &["explain"])?.switch("explain")?;
    let request: Value = body::read_json(&headers, body)?;
    let generation = state.engine.generation();
    let edition = found(&generation, &name)?.edition();
    let sets = state.engine.prefix_sets();
    let mut old_names = OldNames::default();
    let shown = |given: &GivenPacket<'_>, decision: &Decision| {
        let mut answer = shown(&edition, decision);
        if explain {
            let reasons = edition.explain(&given.packet(), sets);
            answer["explanation"] = reasons.lines().collect();
        }
        answer
    };
    let answer: Value = match &request {
        Value::Array(list) if list.len() > PACKETS_MAX => {
            return Err(HttpError::bad_body(format!("more than {PACKETS_MAX} packets")));
        }
        Value::Array(list) => {
            let read: Vec<_> = list.iter().map(|one| read_packet(one, &mut old_names)).collect();
            let good = || read.iter().filter_map(|one| one.as_ref().ok());
            let packets: Vec<_> = good().map(GivenPacket::packet).collect();
            let lengths: Vec<_> = good().map(|given| given.bytes).collect();
            let decisions = edition.find_batch(&packets, &lengths, sets);
            let mut decisions = decisions.iter();
            // A wrong packet costs its own answer only.
            let answer = |(index, one): (usize, &Result<GivenPacket<'_>, String>)| match one {
                Ok(given) => decisions.next().map(|decision| shown(given, decision)),
                Err(error) => {
                    let message = format!("packet {index}: {error}");
                    let code = ErrorCode::InvalidBody;
                    Some(json!(ErrorBody::new(code, Some("body"), message)))
                }
            };
            read.iter().enumerate().map(answer).collect()
        }
        one => {
            let given = read_packet(one, &mut old_names).map_err(HttpError::bad_body)?;
            shown(&given, &edition.find(&given.packet(), given.bytes, sets))
        }
    };
    let mut response = json_response(answer.to_string().into_bytes());
    response.extensions_mut().insert(old_names);
    Ok(response)
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

/// One packet, or an array of up to 10,000.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "a schema of the document; `read_packet` reads with better errors")]
enum PacketRequest {
    One(Box<PacketObject>),
    Many(Vec<PacketObject>),
}

/// A packet: `source`, `destination` and `protocol` are needed.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a schema of the document; `read_packet` reads with better errors")]
struct PacketObject {
    source: String,
    destination: String,
    /// A name, or a number from 0 to 255.
    protocol: ProtocolName,
    #[schema(maximum = 65535)]
    source_port: Option<u16>,
    #[schema(maximum = 65535)]
    destination_port: Option<u16>,
    /// `TYPE/CODE`.
    icmp: Option<String>,
    /// Names separated by commas.
    flags: Option<String>,
    /// `invalid`, `new`, `established`, `related` or `untracked`.
    state: Option<String>,
    /// The interface that it comes from.
    #[schema(rename = "in")]
    input: Option<String>,
    /// The interface that it leaves by.
    #[schema(rename = "out")]
    output: Option<String>,
    #[schema(maximum = 63)]
    dscp: Option<u8>,
    mark: Option<u32>,
    /// Counters of rules add it.
    length: Option<u32>,
    /// Details by name, such as `ttl`.
    with: Option<serde_json::Map<String, Value>>,
}

#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "a schema of the document; `read_packet` reads with better errors")]
enum ProtocolName {
    Name(String),
    Number(u8),
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

fn read_packet<'a>(value: &'a Value, old_names: &mut OldNames) -> Result<GivenPacket<'a>, String> {
    let Value::Object(members) = value else {
        return Err("it is no object with source, destination and protocol".to_owned());
    };
    let (mut packet, mut bytes, mut details) = (Packet::default(), 0, Vec::new());
    let mut seen: Vec<&str> = Vec::new();
    for (given, value) in members {
        let old = renamed(given).filter(|(_, new)| MEMBERS.contains(new));
        let key = old.map_or(given.as_str(), |(_, new)| new);
        old.into_iter().for_each(|name| old_names.note(name));
        if seen.contains(&key) {
            return Err(format!("'{key}' is there by its new and its old name"));
        }
        seen.push(key);
        match key {
            "source" => packet.source = address(given, value)?,
            "destination" => packet.destination = address(given, value)?,
            "protocol" => packet.protocol = protocol(given, value)?,
            "source_port" => packet.source_port = number(given, value, 65_535)? as u16,
            "destination_port" => packet.destination_port = number(given, value, 65_535)? as u16,
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
                return Err(format!("unknown member '{other}'; allowed: {}", MEMBERS.join(", ")));
            }
        }
    }
    if !MEMBERS[..3].iter().all(|needed| seen.contains(needed)) {
        return Err("a packet needs source, destination and protocol".to_owned());
    }
    if packet.source.is_ipv4() != packet.destination.is_ipv4() {
        return Err("source and destination are of different families".to_owned());
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

fn protocol(key: &str, value: &Value) -> Result<u8, String> {
    match value {
        Value::String(name) => names::protocol_number(name),
        other => other.as_u64().and_then(|number| u8::try_from(number).ok()),
    }
    .ok_or_else(|| format!("'{key}' is {value}; allowed: a name such as \"tcp\", 0 to 255"))
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
