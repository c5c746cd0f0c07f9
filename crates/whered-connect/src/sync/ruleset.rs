//! The ruleset of a running server, as text.
//!
//! For: the rules and the addresses of their places, read when the server has a new version. Not
//! for: what is done with them.
//!
//! Invariant: a version is asked for before the rules, so that a change between the two is read
//! again. Cost: an answer of some words at each look; the whole ruleset at each change.

use redis::Value;

use super::source::gather;
use crate::error::ConnectError;
use crate::{Server, ServerAddress};

/// A ruleset of the server at an address.
pub struct RulesetSource {
    address: ServerAddress,
    ruleset: String,
    server: Option<Server>,
    seen: Option<String>,
}

impl RulesetSource {
    /// A ruleset by its name; the server is connected to when it is read.
    #[must_use]
    pub fn new(address: ServerAddress, ruleset: &str) -> RulesetSource {
        RulesetSource { address, ruleset: ruleset.to_owned(), server: None, seen: None }
    }

    /// What it is, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} of {}", self.ruleset, self.address.shown())
    }

    /// The rules in the own format, places as sets; nothing if they are those of the last reading.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or has no such ruleset.
    pub fn read(&mut self) -> Result<Option<String>, ConnectError> {
        let read = self.read_new();
        if read.is_err() {
            self.server = None;
            self.seen = None;
        }
        read
    }

    /// Reads the rules at the next look, whatever their version.
    pub fn forget(&mut self) {
        self.seen = None;
    }

    fn read_new(&mut self) -> Result<Option<String>, ConnectError> {
        let server = match &mut self.server {
            Some(server) => server,
            None => self.server.insert(Server::connect(&self.address)?),
        };
        let info = server.query::<Value>(redis::cmd("RULES.INFO").arg(&self.ruleset))?;
        let Some(version) = version_of(info) else {
            let name = self.name();
            return Err(ConnectError::new(format!("{name}: the server gives it no version")));
        };
        if self.seen.as_ref() == Some(&version) {
            return Ok(None);
        }
        let command = redis::cmd("RULES.GET").arg(&self.ruleset).arg("PLACES").to_owned();
        let rules = server.query::<Value>(&command)?;
        let mut text = Vec::new();
        gather(rules, &mut text);
        let text = String::from_utf8(text)
            .map_err(|_| ConnectError::new(format!("{}: the rules are no text", self.name())))?;
        self.seen = Some(version);
        Ok(Some(text))
    }
}

/// The version among fields and values.
fn version_of(info: Value) -> Option<String> {
    let pairs: Vec<(Value, Value)> = match info {
        Value::Map(pairs) => pairs,
        Value::Array(words) => {
            let mut words = words.into_iter();
            std::iter::from_fn(|| words.next().zip(words.next())).collect()
        }
        _ => return None,
    };
    let text = |value: Value| {
        let mut text = Vec::new();
        gather(value, &mut text);
        String::from_utf8(text).ok()
    };
    let mut found =
        pairs.into_iter().filter(|(field, _)| text(field.clone()).as_deref() == Some("version"));
    found.next().and_then(|(_, value)| text(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_a_map_and_in_a_list_of_pairs() {
        let word = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let list = ["rules", "3", "version", "17"].map(word).to_vec();
        assert_eq!(version_of(Value::Array(list)).as_deref(), Some("17"));
        let map = vec![(word("version"), word("18"))];
        assert_eq!(version_of(Value::Map(map)).as_deref(), Some("18"));
        assert_eq!(version_of(Value::Array(vec![word("rules"), word("version")])), None);
        assert_eq!(version_of(Value::Okay), None);
    }
}
