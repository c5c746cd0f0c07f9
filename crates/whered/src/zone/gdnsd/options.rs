//! `options` of gdnsd: each one is translated, or a remark says what it did and what is here.
//!
//! Not for: plugins, service types.

use super::text::quoted;
use super::vscf::{Data, Fault, Value};

/// What gdnsd 3 does where the options say nothing.
const TTL_SECONDS: u64 = 86_400;
const UDP_SIZES: std::ops::RangeInclusive<u64> = 512..=4096;

/// Between which seconds gdnsd holds TTLs.
#[derive(Clone, Copy, Debug)]
pub(super) struct TtlLimits {
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) negative_max: u64,
    /// The TTL of `_acme-challenge` names.
    pub(super) acme: u64,
}

impl TtlLimits {
    pub(super) fn limit(&self, seconds: u64) -> u64 {
        seconds.max(self.min).min(self.max)
    }

    /// The TTL of an SOA, which is also that of negative answers.
    pub(super) fn negative(&self, ttl: u64, minimum: u64) -> u64 {
        self.limit(ttl).min(minimum.min(self.negative_max).max(self.min))
    }
}

/// What the options become.
#[derive(Debug)]
pub(super) struct Options {
    /// The TTL of records without one.
    pub(super) ttl_seconds: u64,
    pub(super) limits: TtlLimits,
    /// Lines of `[dns]`.
    pub(super) dns: String,
    /// Where client subnets are turned off.
    pub(super) ignores_subnets: Option<Value>,
}

impl Default for Options {
    fn default() -> Options {
        let limits = TtlLimits { min: 5, max: 3_600_000, negative_max: 10_800, acme: 0 };
        Options { ttl_seconds: TTL_SECONDS, limits, dns: String::new(), ignores_subnets: None }
    }
}

/// Options that have no key of the same meaning here: names, what they did, what is here instead.
const REMARKS: &[(&[&str], &str, &str)] = &[
    (
        &["udp_threads", "tcp_threads"],
        "was the number of threads",
        "[dns] threads is, and by default one a core",
    ),
    (
        &["tcp_clients_per_thread", "tcp_clients_per_socket"],
        "limited TCP connections a thread",
        "[dns] max_tcp_connections limits all together",
    ),
    (
        &["tcp_timeout", "tcp_backlog", "tcp_fastopen", "disable_tcp_dso", "tcp_pad", "tcp_proxy"],
        "tuned TCP",
        "nothing is; for balancers with a PROXY header see [dns] proxy_from",
    ),
    (
        &["udp_rcvbuf", "udp_sndbuf", "udp_recv_width", "late_bind_secs"],
        "tuned sockets",
        "[dns] udp_batch does, and the server asks for 4 MB of buffer itself",
    ),
    (
        &["max_edns_response_v6"],
        "limited answers by UDP over IPv6",
        "[dns] udp_size limits both families",
    ),
    (
        &["max_response", "max_cname_depth", "max_addtl_rrsets", "include_optional_ns"],
        "shaped answers of gdnsd 2",
        "answers are minimal",
    ),
    (
        &["experimental_no_chain"],
        "left out what a CNAME of the zone leads to",
        "answers contain it, as RFC 1034 says",
    ),
    (
        &["max_nocookie_response"],
        "cut answers to clients without a cookie",
        "[dns] rate_limit and rate_limit_slip limit such clients",
    ),
    (
        &["cookie_key_file"],
        "was the secret of cookies",
        "[dns] cookie_secret_file is, with 32 hexadecimal digits",
    ),
    (
        &["acme_challenge_ttl"],
        "was how long challenges are kept",
        "ACME.SET has its time as an argument",
    ),
    (
        &["tcp_control", "run_dir", "state_dir", "pidfile", "username", "chroot", "daemonize"],
        "said where and as whom gdnsd runs",
        "[server], [resp] and data_dir do; states by hand are SITE.DOWN and SITE.UP",
    ),
    (
        &["lock_mem", "priority", "realtime_stats", "debug", "weaker_security"],
        "was about the process of gdnsd",
        "the service manager sets such things",
    ),
    (
        &["http_listen", "http_port", "http_timeout", "max_http_clients", "log_stats"],
        "was about statistics",
        "[http] serves /metrics",
    ),
    (
        &["zones_strict_data", "zones_strict_startup", "zones_rfc1035_threads"],
        "was about the loading of zones",
        "each zone is checked, and the last good one is served while a new one is wrong",
    ),
    (
        &[
            "zones_rfc1035_auto",
            "zones_rfc1035_auto_interval",
            "zones_rfc1035_quiesce",
            "zones_rfc1035_min_quiesce",
        ],
        "was about the reloading of zones",
        "[[zone]] reload is",
    ),
    (&["any_mitigation"], "shortened answers to ANY", "they are short always"),
    (&["plugin_search_path"], "named folders of plugins", "there are no plugins to load"),
];

/// Reads the options; what is wrong with single ones is added to `faults`.
pub(super) fn read(
    all: Option<&Value>,
    notes: &mut Vec<Fault>,
    faults: &mut Vec<Fault>,
) -> Result<Options, Fault> {
    let mut options = Options::default();
    let Some(all) = all else { return Ok(options) };
    let hash = all.hash("options")?;
    if let (Some(_), Some(second)) = (hash.get("nsid"), hash.get("nsid_ascii")) {
        faults.push(second.fault("found 'nsid' and 'nsid_ascii'; allowed: one of them"));
    }
    for entry in &hash.entries {
        let read = options.read_one(&entry.key, &entry.value, all, notes);
        if let Err(fault) = read {
            faults.push(fault);
        }
    }
    let TtlLimits { min, max, negative_max, .. } = options.limits;
    if min > max || min > negative_max {
        faults.push(all.fault(format!(
            "'min_ttl' is {min}; allowed: up to 'max_ttl' ({max}) and 'max_ncache_ttl' \
             ({negative_max})"
        )));
    }
    Ok(options)
}

impl Options {
    fn read_one(
        &mut self,
        key: &str,
        value: &Value,
        all: &Value,
        notes: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        match key {
            "zones_default_ttl" => self.ttl_seconds = number(key, value, 1..=0x7fff_ffff)?,
            "max_ttl" => self.limits.max = number(key, value, 3600..=268_435_455)?,
            "min_ttl" => self.limits.min = number(key, value, 0..=86_400)?,
            "max_ncache_ttl" => self.limits.negative_max = number(key, value, 10..=86_400)?,
            "acme_challenge_dns_ttl" => self.limits.acme = number(key, value, 0..=3600)?,
            "nsid_ascii" => {
                let text = value.text(key)?;
                let is_plain = |byte: u8| (b' '..=b'~').contains(&byte);
                if !(1..=128).contains(&text.len()) || !text.bytes().all(is_plain) {
                    return Err(value.fault(format!(
                        "'{key}' is '{text}'; allowed: 1 to 128 printable ASCII characters"
                    )));
                }
                self.set("server_id", &quoted(text));
            }
            "nsid" => self.read_nsid(value, notes)?,
            "chaos_response" => {
                self.set("version", &quoted(value.text(key)?));
                notes.push(value.fault(
                    "'chaos_response' answered every CH query; here [dns] version answers \
                     version.bind and version.server, other names are refused",
                ));
            }
            "max_edns_response" => {
                let size = number(key, value, 512..=16_384)?;
                let here = size.clamp(*UDP_SIZES.start(), *UDP_SIZES.end());
                self.set("udp_size", &here.to_string());
                if here != size {
                    notes.push(value.fault(format!(
                        "'{key}' was {size}; here udp_size is {here}, the largest allowed"
                    )));
                }
            }
            "disable_cookies" => {
                if value.flag(key)? {
                    self.set("cookies", "false");
                }
            }
            "disable_text_autosplit" => {
                if value.flag(key)? {
                    notes.push(value.fault(
                        "'disable_text_autosplit' refused strings above 255 bytes; here they are \
                         split with a remark",
                    ));
                }
            }
            "edns_client_subnet" => {
                self.ignores_subnets = (!value.flag(key)?).then(|| value.clone());
            }
            "listen" | "dns_port" => notes.extend(listening(key, value, all)),
            key => {
                let known = REMARKS.iter().find(|(names, ..)| names.contains(&key));
                let (_, did, here) = known.ok_or_else(|| {
                    value
                        .fault(format!("the option '{key}' is not known; allowed: gdnsd's options"))
                })?;
                notes.push(value.fault(format!("the option '{key}' {did}; here {here}")));
            }
        }
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str) {
        self.dns.push_str(&format!("{key} = {value}\n"));
    }

    /// Bytes that are no text cannot be a server id here.
    fn read_nsid(&mut self, value: &Value, notes: &mut Vec<Fault>) -> Result<(), Fault> {
        let text = value.text("nsid")?;
        let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex || !(2..=256).contains(&text.len()) || text.len() % 2 != 0 {
            return Err(value.fault(format!(
                "'nsid' is '{text}'; allowed: 2 to 256 hexadecimal digits, an even number of them"
            )));
        }
        let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap_or_default();
        let bytes: Vec<u8> = (0..text.len()).step_by(2).map(byte).collect();
        let is_plain = bytes.iter().all(|byte| (b' '..=b'~').contains(byte));
        if is_plain {
            self.set("server_id", &quoted(&String::from_utf8_lossy(&bytes)));
        } else {
            self.set("server_id", &quoted(text));
            notes.push(value.fault(
                "'nsid' was bytes that are no text; here server_id is their hexadecimal digits",
            ));
        }
        Ok(())
    }
}

/// A number within limits, which gdnsd refuses beyond them.
fn number(key: &str, value: &Value, allowed: std::ops::RangeInclusive<u64>) -> Result<u64, Fault> {
    let number: u64 = value.number(key)?;
    let (least, most) = (allowed.start(), allowed.end());
    allowed
        .contains(&number)
        .then_some(number)
        .ok_or_else(|| value.fault(format!("'{key}' is {number}; allowed: {least} to {most}")))
}

/// The addresses are not taken over: gdnsd has them while both run.
fn listening(key: &str, value: &Value, all: &Value) -> Option<Fault> {
    let hash = all.hash("options").ok()?;
    if key == "dns_port" && hash.get("listen").is_some() {
        return None;
    }
    let port = hash.get("dns_port").and_then(|port| port.text("dns_port").ok()).unwrap_or("53");
    let listen = hash.get("listen").unwrap_or(value);
    let addresses: Vec<String> = match (key, &listen.data) {
        ("dns_port", _) => vec!["any".to_owned()],
        (_, Data::Hash(hash)) => hash.entries.iter().map(|entry| entry.key.clone()).collect(),
        _ => listen.texts(key).ok()?,
    };
    let shown = addresses.iter().flat_map(|address| match address.as_str() {
        "any" => vec![quoted(&format!("0.0.0.0:{port}")), quoted(&format!("[::]:{port}"))],
        address => vec![quoted(&with_port(address, port))],
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    Some(value.fault(format!(
        "'{key}' is not taken over, so that both can run; for the same addresses: [dns] listen = \
         [{shown}]"
    )))
}

fn with_port(address: &str, port: &str) -> String {
    match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V6(address)) => format!("[{address}]:{port}"),
        Ok(address) => format!("{address}:{port}"),
        Err(_) => address.to_owned(),
    }
}
