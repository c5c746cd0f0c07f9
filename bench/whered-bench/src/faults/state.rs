//! Reads from a server what a lane keeps there.
//!
//! Not for judging it (`lane.rs`). Everything is asked through commands, as a client would.

use std::collections::BTreeMap;

use super::model::{KEYS, Kept, PREFIXES, Spot, State, address, pool_name};
use super::value::{Client, Value};

/// The site that the configuration gives to each pool.
pub(super) const CONFIGURED_SITE: &str = "base";
const SPOTS: i64 = 48;

/// Puts points at places and asks which cells they have got, so that the model knows their scores.
pub(super) fn spots(client: &mut Client) -> Result<Vec<Spot>, String> {
    let mut spots = Vec::new();
    for number in 0..SPOTS {
        let (longitude, latitude) = ((number * 7 - 170).to_string(), (number * 3 - 71).to_string());
        client.ask(&["GEOADD", "spots", &longitude, &latitude, "spot"])?;
        let score = client.ask(&["ZSCORE", "spots", "spot"])?;
        let cell = score.text().and_then(whole);
        let cell = cell.ok_or_else(|| format!("ZSCORE: found {score:?}"))?;
        spots.push(Spot { longitude, latitude, cell });
    }
    client.ask(&["DEL", "spots"])?;
    Ok(spots)
}

/// Everything of one lane.
pub(super) fn read(client: &mut Client, lane: usize) -> Result<State, String> {
    let mut state = State::default();
    for number in 0..KEYS {
        read_key(client, &mut state, format!("points:{lane}:{number}"))?;
        read_key(client, &mut state, format!("text:{lane}:{number}"))?;
    }
    for number in 0..2 * KEYS {
        read_key(client, &mut state, format!("brief:{lane}:{number}"))?;
    }
    let set = format!("set-{lane}");
    for number in 0..PREFIXES {
        let address = address(number);
        match client.ask(&["CIDR.MATCH", &set, &address, "WITHVALUE"])? {
            Value::Array(found) => {
                let value = found.get(1).and_then(Value::text).unwrap_or_default().to_owned();
                state.prefixes.insert(address, value);
            }
            Value::Null => {}
            Value::Error(text) if text.contains("no such prefix set") => break,
            other => return Err(format!("CIDR.MATCH: found {other:?}")),
        }
    }
    read_sites(client, &mut state, lane)?;
    Ok(state)
}

fn read_key(client: &mut Client, state: &mut State, key: String) -> Result<(), String> {
    let odd = |what: &str, value: &Value| format!("{what} {key}: found {value:?}");
    let kind = client.ask(&["TYPE", &key])?;
    let value = match kind.text() {
        Some("none") => return Ok(()),
        Some("zset") => {
            let found = client.ask(&["ZRANGE", &key, "0", "-1", "WITHSCORES"])?;
            let pairs = found.elements().ok_or_else(|| odd("ZRANGE", &found))?;
            let pairs = pairs.chunks(2).map(|pair| {
                let score = pair.get(1).and_then(Value::text).and_then(whole)?;
                Some((pair[0].text()?.to_owned(), score))
            });
            let scores = pairs.collect::<Option<BTreeMap<_, _>>>();
            Kept::Scores(scores.ok_or_else(|| odd("ZRANGE", &found))?)
        }
        Some("string") => match client.ask(&["GET", &key])? {
            Value::Bulk(text) => Kept::Text(text),
            // It has ended since its kind was asked for.
            Value::Null => return Ok(()),
            other => return Err(odd("GET", &other)),
        },
        _ => return Err(odd("TYPE", &kind)),
    };
    let ends = match client.ask(&["PEXPIRETIME", &key])? {
        Value::Integer(-1) => None,
        Value::Integer(-2) => return Ok(()),
        Value::Integer(ends) => Some(ends as u64),
        other => return Err(odd("PEXPIRETIME", &other)),
    };
    state.keys.insert(key, (value, ends));
    Ok(())
}

fn read_sites(client: &mut Client, state: &mut State, lane: usize) -> Result<(), String> {
    let found = client.ask(&["SITE.LIST", &pool_name(lane)])?;
    let odd = || format!("SITE.LIST: found {found:?}");
    for site in found.elements().ok_or_else(odd)? {
        let fields = site.elements().ok_or_else(odd)?;
        let field = |name: &str| {
            let at = fields.iter().position(|field| field.text() == Some(name))?;
            fields.get(at + 1)
        };
        let degrees = |name: &str| {
            let degrees = field(name)?.text()?.parse::<f64>().ok()?;
            Some(degrees.round() as i64)
        };
        let name = field("name").and_then(Value::text).ok_or_else(odd)?;
        let up = field("healthy") == Some(&Value::Integer(1));
        let at = (degrees("longitude").ok_or_else(odd)?, degrees("latitude").ok_or_else(odd)?);
        if name != CONFIGURED_SITE {
            state.sites.insert(name.to_owned(), (at.0, at.1, up));
        }
    }
    Ok(())
}

/// A score that is a whole number, as all of the model's are.
fn whole(text: &str) -> Option<i64> {
    let score = text.parse::<f64>().ok()?;
    (score.fract() == 0.0).then_some(score as i64)
}
