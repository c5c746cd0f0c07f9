//! The reasons for an answer, in one JSON form for all doors (`docs/guide/explain.md`).
//!
//! Every explanation has every key; what was not consulted is `null`. Explanations are made by
//! asking the same functions that answer, never by a second implementation of the choice.

use std::net::IpAddr;

use serde_json::{Map, Value, json};
use whered_dns::Client;
use whered_geo::{Hit, Place, Search, Shape};
use whered_mmdb::Lookup;

use crate::databases::NamedDatabase;
use crate::engine::Engine;
use crate::error::ExplainError;
use crate::generation::Generation;
use crate::steering::pool::Site;
use crate::steering::{Outcome, Reason};

/// Every key of an explanation, in the order that it is shown in.
const KEYS: [&str; 11] = [
    "question",
    "generation",
    "database",
    "prefix",
    "record",
    "set_entry",
    "rule",
    "map",
    "candidates",
    "choice",
    "scope_length_bits",
];

impl Engine {
    /// Why a database answers what it answers for an address.
    ///
    /// # Errors
    /// [`ExplainError`] for an unknown database or one that cannot be read there.
    pub fn explain_ip(&self, database: &str, address: IpAddr) -> Result<Value, ExplainError> {
        let generation = self.generation();
        let named = generation
            .database(database)
            .ok_or_else(|| ExplainError::NoSuch { what: "database", name: database.to_owned() })?;
        let question = json!({ "job": "ip", "database": database, "address": address.to_string() });
        let mut reasons = Reasons::new(question, Some(&generation));
        reasons.record(named, named.answer(address))?;
        Ok(reasons.finish())
    }

    /// Which entry of a prefix set an address meets.
    ///
    /// # Errors
    /// [`ExplainError`] for an unknown set.
    pub fn explain_match(&self, set: &str, address: IpAddr) -> Result<Value, ExplainError> {
        let now = self.now_millis();
        let question = json!({ "job": "match", "set": set, "address": address.to_string() });
        let mut reasons = Reasons::new(question, None);
        let entry = self.prefix_sets().read(set, |members| {
            members.longest_match(address, now).map(|found| {
                let value = found.value.map(|value| String::from_utf8_lossy(value).into_owned());
                let prefix = found.block.to_string();
                (
                    prefix.clone(),
                    json!({
                        "set": set,
                        "prefix": prefix,
                        "value": value,
                        "expires_at_millis": found.expires_at_millis,
                    }),
                )
            })
        });
        let entry = entry
            .ok_or_else(|| ExplainError::NoSuch { what: "prefix set", name: set.to_owned() })?;
        if let Some((prefix, entry)) = entry {
            reasons.set("prefix", json!(prefix));
            reasons.set("choice", json!(prefix));
            reasons.set("set_entry", entry);
        }
        Ok(reasons.finish())
    }

    /// The members that a search finds, with their distances. `choice` holds their names.
    pub fn explain_near(&self, number: usize, key: &[u8], search: &Search) -> Value {
        let shape = match &search.shape {
            Shape::Circle { radius_meters } => json!({ "radius_meters": radius_meters }),
            Shape::Box { width_meters, height_meters } => {
                json!({ "width_meters": width_meters, "height_meters": height_meters })
            }
            Shape::Polygon(polygon) => {
                let pair = |place: &Place| [place.longitude_degrees, place.latitude_degrees];
                json!({ "polygon": polygon.vertices().iter().map(pair).collect::<Vec<_>>() })
            }
        };
        let mut question = json!({
            "job": "near",
            "collection": String::from_utf8_lossy(key),
            "longitude_degrees": search.center.longitude_degrees,
            "latitude_degrees": search.center.latitude_degrees,
            "shape": shape,
            "count": search.count,
        });
        // The data may be a moment newer than this.
        if let Some(position) = self.keyspace().position_of(number, key) {
            question["followed"] = json!({
                "name": position.name,
                "replication_id": position.stream.replication_id.as_str(),
                "offset": position.stream.offset,
            });
        }
        let mut reasons = Reasons::new(question, None);
        self.keyspace().read(number, key, |value| {
            let mut hits = Vec::new();
            // A key that holds other scores than cells is no collection: nothing is near it.
            if let Some(points) = value.and_then(|value| value.points()) {
                points.search(search, &mut hits);
            }
            let name = |hit: &Hit<'_>| String::from_utf8_lossy(hit.member).into_owned();
            let candidate = |hit: &Hit<'_>| {
                candidate(&name(hit), Some(hit.place), Some(hit.distance_meters), None)
            };
            reasons.set("candidates", hits.iter().map(candidate).collect());
            reasons.set("choice", hits.iter().map(name).collect());
        });
        reasons.finish()
    }

    /// Why a pool sends a client where it does.
    ///
    /// # Errors
    /// [`ExplainError`] for an unknown pool, or a database that cannot be read there.
    pub fn explain_steer(&self, pool: &str, client: &Client) -> Result<Value, ExplainError> {
        let generation = self.generation();
        let index = generation
            .pool_called(pool)
            .ok_or_else(|| ExplainError::NoSuch { what: "pool", name: pool.to_owned() })?;
        let question = json!({
            "job": "steer",
            "pool": generation.pools()[index].name,
            "address": client.address.to_string(),
            "prefix_length_bits": client.prefix_length_bits,
            "from_client_subnet": client.from_ecs,
        });
        let mut reasons = Reasons::new(question, Some(&generation));
        let (steering, live) = (generation.steering(index), self.live());
        if let Some(source) = steering.source() {
            // To steering an address whose family the database does not have is at no known place.
            match source.database().root(client.address.is_ipv4()) {
                Some(_) => drop(reasons.record(source, source.lookup(client.address))?),
                None => reasons.database(source),
            }
        }
        let reason = steering.explain(client.address, &live);
        reasons.steering(reason, &generation.pools()[index].sites);
        Ok(reasons.finish())
    }

    /// Why a pool sends somebody at a place where it does, of whom no address is known. The
    /// question says what was left out for that.
    ///
    /// # Errors
    /// [`ExplainError`] for an unknown pool.
    pub fn explain_steer_at(&self, pool: &str, place: Place) -> Result<Value, ExplainError> {
        let generation = self.generation();
        let index = generation
            .pool_called(pool)
            .ok_or_else(|| ExplainError::NoSuch { what: "pool", name: pool.to_owned() })?;
        let steering = generation.steering(index);
        let question = json!({
            "job": "steer",
            "pool": generation.pools()[index].name,
            "longitude_degrees": place.longitude_degrees,
            "latitude_degrees": place.latitude_degrees,
            "left_out": steering.left_out(),
        });
        let mut reasons = Reasons::new(question, Some(&generation));
        let reason = steering.explain_at(place, &self.live());
        reasons.steering(reason, &generation.pools()[index].sites);
        Ok(reasons.finish())
    }
}

/// An explanation being filled in.
struct Reasons(Map<String, Value>);

impl Reasons {
    fn new(question: Value, generation: Option<&Generation>) -> Reasons {
        let mut reasons =
            Reasons(KEYS.iter().map(|key| ((*key).to_owned(), Value::Null)).collect());
        reasons.set("question", question);
        reasons.set("generation", json!(generation.map(Generation::number)));
        reasons
    }

    fn set(&mut self, key: &str, value: Value) {
        debug_assert!(KEYS.contains(&key), "the keys are listed once");
        self.0.insert(key.to_owned(), value);
    }

    /// Notes which database is asked.
    fn database(&mut self, named: &NamedDatabase) {
        let metadata = named.metadata();
        self.set(
            "database",
            json!({
                "name": named.name,
                "type": metadata.database_type,
                "build_epoch_seconds": metadata.build_epoch_seconds,
            }),
        );
    }

    /// Notes database, prefix and record of a lookup.
    fn record(
        &mut self,
        named: &NamedDatabase,
        found: Result<Lookup, whered_mmdb::MmdbError>,
    ) -> Result<Option<whered_mmdb::RecordId>, ExplainError> {
        let unreadable =
            |error: whered_mmdb::MmdbError| ExplainError::Unreadable(error.to_string());
        self.database(named);
        let found = found.map_err(unreadable)?;
        self.set("prefix", json!(found.prefix.to_string()));
        if let Some(record) = found.record {
            let mut text = Vec::new();
            named.write_record_json(record, &mut text).map_err(unreadable)?;
            let value = serde_json::from_slice(&text);
            self.set("record", value.map_err(|error| ExplainError::Unreadable(error.to_string()))?);
        }
        Ok(found.record)
    }

    /// Notes why a pool chooses among its sites.
    fn steering(&mut self, reason: Reason, sites: &[Site]) {
        if let Some((set, prefix, value)) = reason.trace.set_entry {
            self.set("set_entry", json!({ "set": set, "prefix": prefix, "value": value }));
        }
        let mut rules = reason.trace.rules.into_iter().map(|asked| {
            json!({
                "ruleset": asked.ruleset,
                "verdict": asked.verdict,
                "number": asked.number,
                "origin": asked.origin,
            })
        });
        self.set("rule", rules.next_back().unwrap_or_default());
        let map = reason.trace.maps.into_iter().next_back();
        let map = map.map(|(map, list)| json!({ "map": map, "list": list }));
        self.set("map", map.unwrap_or_default());
        let candidates = reason.candidates.iter().map(|found| {
            let site = &sites[found.site];
            let healthy = Some(site.is_up());
            let mut shown = candidate(&site.name, found.place, found.distance_meters, healthy);
            shown["eligible"] = json!(found.eligible);
            shown
        });
        self.set("candidates", candidates.collect());
        let names = |list: &[u16]| -> Vec<&str> {
            list.iter().map(|site| sites[usize::from(*site)].name.as_str()).collect()
        };
        let choice = match &reason.outcome {
            Outcome::Drop => json!({ "verdict": "drop" }),
            Outcome::Refuse => json!({ "verdict": "refuse" }),
            Outcome::Sites(list) if reason.is_weighted => {
                let shares = list.iter().zip(reason.shares);
                let shares = shares.map(|(site, share)| {
                    json!({ "name": sites[usize::from(*site)].name, "share": share })
                });
                shares.collect()
            }
            Outcome::Sites(list) => match names(list)[..] {
                [] => Value::Null,
                [name] => json!(name),
                ref names => json!(names),
            },
        };
        self.set("choice", choice);
        self.set("scope_length_bits", json!(reason.scope_length_bits));
    }

    fn finish(self) -> Value {
        Value::Object(self.0)
    }
}

fn candidate(
    name: &str,
    place: Option<Place>,
    distance_meters: Option<f64>,
    healthy: Option<bool>,
) -> Value {
    json!({
        "name": name,
        "longitude_degrees": place.map(|place| place.longitude_degrees),
        "latitude_degrees": place.map(|place| place.latitude_degrees),
        "distance_meters": distance_meters,
        "healthy": healthy,
    })
}
