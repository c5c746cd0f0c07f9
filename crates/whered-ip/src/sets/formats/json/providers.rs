//! Where providers publish their addresses, and where in these texts the addresses are.
//!
//! Not for: fetching them. Each provider has a name, paths, and names of members that no other
//! provider's text has; the guess goes by those.

use std::collections::HashSet;

use super::path::{Check, Layout};
use super::{Json, JsonPaths, SetTextError};

/// A provider of addresses whose JSON is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Provider {
    /// `ip-ranges.json` of Amazon Web Services; the service is the value.
    Aws,
    /// `cloud.json` and `goog.json` of Google; the scope is the value.
    Gcp,
    /// `ServiceTags_Public_*.json` of Microsoft Azure; the tag is the value.
    Azure,
    /// `https://api.cloudflare.com/client/v4/ips`.
    Cloudflare,
    /// `https://api.github.com/meta`; the name of the list is the value.
    Github,
    /// `https://api.fastly.com/public-ip-list`.
    Fastly,
    /// `public_ip_ranges.json` of Oracle Cloud; the region is the value.
    Oracle,
    /// `drop_v4.json` and `drop_v6.json` of Spamhaus; the SBL number is the value.
    SpamhausDrop,
    /// Decisions of CrowdSec: `cscli decisions list -o json`, or the answer of its local API to
    /// `/v1/decisions` and `/v1/decisions/stream?startup=true`; the scenario is the value.
    Crowdsec,
}

impl Provider {
    pub(in super::super) const ALL: [Provider; 9] = [
        Provider::Aws,
        Provider::Gcp,
        Provider::Azure,
        Provider::Cloudflare,
        Provider::Github,
        Provider::Fastly,
        Provider::Oracle,
        Provider::SpamhausDrop,
        Provider::Crowdsec,
    ];

    /// Whether a text with this outermost value is this provider's.
    fn is_of(self, root: &Root) -> bool {
        let has = |names: &[&str]| names.iter().all(|name| root.names.contains(*name));
        match self {
            Provider::Aws => has(&["syncToken", "createDate", "prefixes"]),
            Provider::Gcp => has(&["syncToken", "creationTime", "prefixes"]),
            Provider::Azure => has(&["changeNumber", "cloud", "values"]),
            Provider::Cloudflare => has(&["result", "success", "errors"]),
            Provider::Github => has(&["verifiable_password_authentication", "hooks"]),
            Provider::Fastly => has(&["addresses", "ipv6_addresses"]),
            Provider::Oracle => has(&["last_updated_timestamp", "regions"]),
            Provider::SpamhausDrop => !root.is_array && has(&["cidr", "sblid"]),
            Provider::Crowdsec if root.is_array => {
                has(&["decisions"]) || has(&["duration", "scope", "value"])
            }
            Provider::Crowdsec => root.names.len() == 2 && has(&["new", "deleted"]),
        }
    }

    /// What is where in this provider's texts.
    pub(in super::super) fn layout(self, values: Option<JsonPaths>) -> Layout {
        let (blocks, own_values) = match self {
            Provider::Aws => (
                "prefixes[].ip_prefix,ipv6_prefixes[].ipv6_prefix",
                "prefixes[].service,ipv6_prefixes[].service",
            ),
            Provider::Gcp => ("prefixes[].ipv4Prefix?,prefixes[].ipv6Prefix?", "prefixes[].scope"),
            Provider::Azure => ("values[].properties.addressPrefixes[]", "values[].name"),
            Provider::Cloudflare => ("result.ipv4_cidrs[],result.ipv6_cidrs[]", ""),
            Provider::Github => ("*[]", ""),
            Provider::Fastly => ("addresses[],ipv6_addresses[]", ""),
            Provider::Oracle => ("regions[].cidrs[].cidr", "regions[].region"),
            Provider::SpamhausDrop => ("cidr", "sblid"),
            Provider::Crowdsec => (
                "[].decisions[].value?,[].value?,new[].value?",
                "[].decisions[].scenario,[].scenario,new[].scenario",
            ),
        };
        let own_values = (!own_values.is_empty()).then(|| paths(own_values));
        let mut layout = Layout::new(paths(blocks), values.or(own_values), false);
        match self {
            Provider::Github => {
                layout.takes_names = true;
                layout.other_names = &["ssh_keys", "ssh_key_fingerprints", "domains"];
            }
            Provider::SpamhausDrop => (layout.is_lines, layout.has_count) = (true, true),
            Provider::Crowdsec => {
                layout.null_is_empty = true;
                layout.durations =
                    Some(paths("[].decisions[].duration,[].duration,new[].duration"));
                layout.checks = vec![
                    Check {
                        paths: paths("[].decisions[].scope,[].scope,new[].scope"),
                        allowed: &["ip", "range"],
                        message: "the scope Ip or Range: other decisions have no addresses",
                    },
                    Check {
                        paths: paths("[].decisions[].simulated,[].simulated,new[].simulated"),
                        allowed: &["false"],
                        message: "false: simulated decisions are in no force (cscli decisions \
                                  list --no-simu)",
                    },
                ];
            }
            _ => {}
        }
        layout
    }
}

/// Paths that are written here; a test reads all of them.
fn paths(text: &'static str) -> JsonPaths {
    text.parse().unwrap_or(JsonPaths::none())
}

/// What the outermost value of a text looks like.
pub(in super::super) struct Root {
    pub(in super::super) is_array: bool,
    /// The names of an object's members, or of those of an array's first element.
    names: HashSet<String>,
    /// Whether there is more text behind the value.
    pub(in super::super) is_many: bool,
    /// Whether it is an array without elements, or its first element is a text.
    pub(in super::super) is_plain: bool,
}

impl Root {
    pub(in super::super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub(in super::super) fn providers(&self) -> Vec<Provider> {
        Provider::ALL.into_iter().filter(|provider| provider.is_of(self)).collect()
    }
}

/// Reads the outermost value that begins at `start`, an object or an array.
pub(in super::super) fn root_of(text: &[u8], start: usize) -> Result<Root, SetTextError> {
    let mut json = Json::at(text, start);
    let is_array = json.peek() == Some(b'[');
    let (mut names, mut is_first, mut is_plain) = (HashSet::new(), true, is_array);
    let mut name = |key: &[u8]| {
        names.insert(String::from_utf8_lossy(key).into_owned());
    };
    if is_array {
        json.array(|json| {
            let is_object = json.peek() == Some(b'{');
            if !std::mem::take(&mut is_first) || !is_object {
                return json.skip();
            }
            is_plain = false;
            json.object(|json, key| {
                name(key);
                json.skip()
            })
        })?;
    } else {
        json.object(|json, key| {
            name(key);
            json.skip()
        })?;
    }
    let is_many = json.peek().is_some();
    Ok(Root { is_array, names, is_many, is_plain })
}
