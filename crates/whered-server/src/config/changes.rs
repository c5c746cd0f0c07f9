//! Which keys of a configuration only a restart can change.
//!
//! For: the line of a reload. Not for: what a reload takes by itself: databases, zones, rulesets,
//! pools, passwords, tokens, users, certificates and the level of the log.
//!
//! Values are compared, not texts: a key that is written out with its default has not changed.
//! Invariant: what is compared here by no key of its own is told as its whole section.

use super::Config;
use crate::dns::DnsOptions;
use crate::feeds::FeedConfig;
use crate::http::HttpOptions;
use crate::resp::{RespOptions, TlsOptions};

/// Names `section.key` for each field that differs, and makes the fields equal.
macro_rules! differing {
    ($keys:ident, $section:literal, $old:expr, $new:expr, $($($field:ident).+ => $key:literal),+ $(,)?) => {
        $(
            if $old.$($field).+ != $new.$($field).+ {
                $keys.push(concat!($section, ".", $key).to_owned());
                $old.$($field).+.clone_from(&$new.$($field).+);
            }
        )+
    };
}

impl Config {
    /// The keys that differ and that only a restart can change, as `section.key`.
    pub(crate) fn keys_for_restart(&self, next: &Config) -> Vec<String> {
        let (mut keys, mut old) = (Vec::new(), self.clone());
        if old.data_dir != next.data_dir {
            keys.push("data_dir".to_owned());
        }
        differing!(keys, "log", old.log, next.log, format => "format");
        differing!(keys, "server", old.server, next.server, user => "user", group => "group");
        resp(&mut keys, &mut old.resp, &next.resp);
        http(&mut keys, &mut old.http, &next.http);
        dns(&mut keys, &mut old.dns, &next.dns);
        differing!(keys, "journal", old.journal, next.journal,
            sync => "sync",
            segment_size_bytes => "segment_size_bytes",
            group_size_bytes => "group_size_bytes",
            group_delay => "group_delay_micros",
        );
        differing!(keys, "snapshot", old.snapshot, next.snapshot,
            journal_size_bytes => "journal_size_bytes",
            interval => "interval_seconds",
        );
        differing!(keys, "feeds", old, next, feed_sync => "sync");
        differing!(keys, "feeds", old.hot, next.hot,
            memory_budget_bytes => "memory_budget",
            turn => "turn_millis",
        );
        if old.hot != next.hot {
            keys.push("feeds".to_owned());
        }
        feeds(&mut keys, &old.feeds, &next.feeds);
        if old.replicas != next.replicas {
            keys.push("replica".to_owned());
        }
        keys
    }
}

fn resp(keys: &mut Vec<String>, old: &mut RespOptions, next: &RespOptions) {
    // These a reload takes.
    old.password.clone_from(&next.password);
    old.password_sha256 = next.password_sha256;
    old.users.clone_from(&next.users);
    old.plain_passwords.clone_from(&next.plain_passwords);
    keys.extend(tls("resp", &old.tls, &next.tls));
    old.tls.clone_from(&next.tls);
    differing!(keys, "resp", old, next,
        listen => "listen",
        unix_socket => "unix_socket",
        threads => "threads",
        max_clients => "max_clients",
        idle_timeout_seconds => "idle_timeout_seconds",
        tcp_keepalive_seconds => "tcp_keepalive_seconds",
        output_buffer_limit_bytes => "output_buffer_limit_bytes",
        pubsub_buffer_limit_bytes => "pubsub_buffer_limit_bytes",
        query_buffer_limit_bytes => "query_buffer_limit_bytes",
        client_buffers_limit_bytes => "client_buffers_limit_bytes",
        max_memory_bytes => "max_memory_bytes",
        slowlog_threshold_micros => "slowlog_threshold_micros",
        slowlog_max_len => "slowlog_max_len",
    );
    if old != next {
        keys.push("resp".to_owned());
    }
}

/// Certificates a reload takes; addresses it does not.
fn tls(section: &str, old: &Option<TlsOptions>, next: &Option<TlsOptions>) -> Option<String> {
    match (old, next) {
        (Some(one), Some(other)) if one.listen != other.listen => {
            Some(format!("{section}.tls.listen"))
        }
        (Some(_), None) | (None, Some(_)) => Some(format!("{section}.tls")),
        _ => None,
    }
}

fn http(keys: &mut Vec<String>, old: &mut HttpOptions, next: &HttpOptions) {
    old.token.clone_from(&next.token);
    keys.extend(tls("http", &old.tls, &next.tls));
    old.tls.clone_from(&next.tls);
    differing!(keys, "http", old, next,
        listen => "listen",
        hosts => "hosts",
        origins => "origins",
        max_connections => "max_connections",
        console => "console",
    );
    if old != next {
        keys.push("http".to_owned());
    }
}

fn dns(keys: &mut Vec<String>, old: &mut DnsOptions, next: &DnsOptions) {
    old.database.clone_from(&next.database);
    differing!(keys, "dns", old, next,
        listen => "listen",
        udp_size => "udp_size",
        receiving.batch => "udp_batch",
        receiving.calls => "udp_calls",
        threads => "threads",
        max_tcp_connections => "max_tcp_connections",
        cookies => "cookies",
        cookie_secret => "cookie_secret",
        rate_limit => "rate_limit",
        rate_limit_slip => "rate_limit_slip",
        signature_limit => "signature_limit",
        resolvers => "resolvers",
        server_id => "server_id",
        version => "version",
        proxy_from => "proxy_from",
        dnstap => "dnstap",
    );
    let (log, next_log) = (old.query_log.take(), next.query_log.clone());
    let parts = |log: &Option<crate::dns::QueryLogOptions>| {
        log.as_ref().map(|log| (log.path.clone(), log.sample))
    };
    match (parts(&log), parts(&next_log)) {
        (Some((path, _)), Some((next_path, _))) if path == next_path && log != next_log => {
            keys.push("dns.query_log_sample".to_owned());
        }
        _ if log != next_log => keys.push("dns.query_log".to_owned()),
        _ => {}
    }
    old.query_log = next_log;
    if old != next {
        keys.push("dns".to_owned());
    }
}

/// Feeds are fixed at the start, but for their tokens.
fn feeds(keys: &mut Vec<String>, old: &[FeedConfig], next: &[FeedConfig]) {
    for feed in old {
        let Some(other) = next.iter().find(|other| other.name == feed.name) else {
            keys.push(format!("feed '{}' (removed)", feed.name));
            continue;
        };
        let parts = [
            ("drop_folder", feed.drop_folder == other.drop_folder),
            ("stream", feed.streams == other.streams),
            ("sink", feed.sinks == other.sinks),
        ];
        let name = &feed.name;
        let changed = parts.iter().filter(|(_, is_equal)| !is_equal);
        keys.extend(changed.map(|(part, _)| format!("feed '{name}'.{part}")));
        if feed.source != other.source {
            keys.push(format!("feed '{name}'"));
        }
    }
    let added = next.iter().filter(|feed| !old.iter().any(|other| other.name == feed.name));
    keys.extend(added.map(|feed| format!("feed '{}' (new)", feed.name)));
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// What a configuration has under each key that only a restart can change, twice.
    const PAIRS: [(&str, &str, &str); 46] = [
        ("data_dir", "data_dir = \"a\"", "data_dir = \"b\""),
        ("server.user", "[server]\nuser = \"a\"", "[server]\nuser = \"b\""),
        (
            "server.group",
            "[server]\nuser = \"a\"\ngroup = \"a\"",
            "[server]\nuser = \"a\"\ngroup = \"b\"",
        ),
        ("resp.listen", "[resp]", "[resp]\nlisten = [\"127.0.0.1:1\"]"),
        ("resp.unix_socket", "[resp]", "[resp]\nunix_socket = \"a\""),
        (
            "resp.tls",
            "[resp]",
            "[resp]\n[resp.tls]\nlisten = [\"127.0.0.1:1\"]\ncertificate = \"a\"\nkey = \"b\"",
        ),
        (
            "resp.tls.listen",
            "[resp.tls]\nlisten = [\"127.0.0.1:1\"]\ncertificate = \"a\"\nkey = \"b\"",
            "[resp.tls]\nlisten = [\"127.0.0.1:2\"]\ncertificate = \"a\"\nkey = \"b\"",
        ),
        ("resp.threads", "[resp]", "[resp]\nthreads = 3"),
        ("resp.max_clients", "[resp]", "[resp]\nmax_clients = 3"),
        ("resp.idle_timeout_seconds", "[resp]", "[resp]\nidle_timeout_seconds = 3"),
        ("resp.tcp_keepalive_seconds", "[resp]", "[resp]\ntcp_keepalive_seconds = 3"),
        ("resp.output_buffer_limit_bytes", "[resp]", "[resp]\noutput_buffer_limit_bytes = 99999"),
        ("resp.pubsub_buffer_limit_bytes", "[resp]", "[resp]\npubsub_buffer_limit_bytes = 99999"),
        ("resp.query_buffer_limit_bytes", "[resp]", "[resp]\nquery_buffer_limit_bytes = 99999"),
        ("resp.client_buffers_limit_bytes", "[resp]", "[resp]\nclient_buffers_limit_bytes = 9"),
        ("resp.max_memory_bytes", "[resp]", "[resp]\nmax_memory_bytes = 9"),
        ("resp.slowlog_threshold_micros", "[resp]", "[resp]\nslowlog_threshold_micros = 9"),
        ("resp.slowlog_max_len", "[resp]", "[resp]\nslowlog_max_len = 9"),
        ("http.listen", "[http]", "[http]\nlisten = [\"127.0.0.1:1\"]"),
        ("http.hosts", "[http]", "[http]\nhosts = [\"a.example\"]"),
        ("http.origins", "[http]", "[http]\norigins = [\"https://a.example\"]"),
        ("http.max_connections", "[http]", "[http]\nmax_connections = 3"),
        ("http.console", "[http]", "[http]\nconsole = false"),
        ("dns.listen", "[dns]", "[dns]\nlisten = [\"127.0.0.1:1\"]"),
        ("dns.udp_size", "[dns]", "[dns]\nudp_size = 600"),
        ("dns.udp_batch", "[dns]", "[dns]\nudp_batch = 3"),
        ("dns.udp_calls", "[dns]", "[dns]\nudp_calls = \"single\""),
        ("dns.threads", "[dns]", "[dns]\nthreads = 3"),
        ("dns.max_tcp_connections", "[dns]", "[dns]\nmax_tcp_connections = 3"),
        ("dns.cookies", "[dns]", "[dns]\ncookies = false"),
        (
            "dns.cookie_secret",
            "[dns]",
            "[dns]\ncookie_secret = \"00112233445566778899aabbccddeeff\"",
        ),
        ("dns.rate_limit", "[dns]", "[dns]\nrate_limit = 3"),
        ("dns.rate_limit_slip", "[dns]", "[dns]\nrate_limit_slip = 3"),
        ("dns.signature_limit", "[dns]", "[dns]\nsignature_limit = 3"),
        ("dns.resolvers", "[dns]", "[dns]\nresolvers = [\"192.0.2.1\"]"),
        ("dns.server_id", "[dns]", "[dns]\nserver_id = \"a\""),
        ("dns.version", "[dns]", "[dns]\nversion = \"a\""),
        ("dns.proxy_from", "[dns]", "[dns]\nproxy_from = [\"192.0.2.1\"]"),
        ("dns.dnstap", "[dns]", "[dns]\n[dns.dnstap]\nsocket = \"/run/a\""),
        ("dns.query_log", "[dns]", "[dns]\nquery_log = \"a\""),
        (
            "dns.query_log_sample",
            "[dns]\nquery_log = \"a\"",
            "[dns]\nquery_log = \"a\"\nquery_log_sample = 3",
        ),
        ("journal.sync", "[journal]", "[journal]\nsync = \"off\""),
        ("snapshot.interval_seconds", "[snapshot]", "[snapshot]\ninterval_seconds = 3"),
        ("feeds.sync", "[feeds]", "[feeds]\nsync = \"off\""),
        (
            "replica",
            "[[replica]]\nof = \"redis://a\"\nmatch = [\"b\"]",
            "[[replica]]\nof = \"redis://a\"\nmatch = [\"c\"]",
        ),
        ("feeds.turn_millis", "[feeds]", "[feeds]\nturn_millis = 3"),
    ];

    fn read(text: &str) -> Config {
        Config::from_toml(text, Path::new("edge.toml")).expect("it is right")
    }

    #[test]
    fn each_key_that_needs_a_restart_is_named_and_only_that() {
        for (key, one, other) in PAIRS {
            let (one, other) = (read(one), read(other));
            assert_eq!(one.keys_for_restart(&other), [key]);
            assert!(one.keys_for_restart(&one).is_empty(), "{key}");
        }
    }

    #[test]
    fn a_key_with_its_default_has_not_changed() {
        let other = "[resp]\nlisten = [\"127.0.0.1:6380\"]\nmax_clients = 10000\n\
                     [http]\nlisten = [\"127.0.0.1:8080\"]\n[dns]\nudp_size = 1232";
        let keys = read("[resp]\n[http]\n[dns]").keys_for_restart(&read(other));
        assert!(keys.is_empty(), "{keys:?}");
    }

    #[test]
    fn passwords_tokens_users_and_certificates_need_no_restart() {
        let text = |secret: &str| {
            format!(
                "data_dir = \"d\"\n[resp]\npassword = \"{secret}\"\n\
                 [[resp.user]]\nname = \"{secret}\"\npassword = \"{secret}\"\n\
                 [resp.tls]\nlisten = [\"127.0.0.1:1\"]\ncertificate = \"{secret}\"\nkey = \"k\"\n\
                 [http]\ntoken = \"{secret}\"\n[dns]\n\
                 [[feed]]\nname = \"a\"\nformat = \"ndjson\"\nmember = \"m\"\n\
                 into = {{ table = \"a\" }}\ntoken = \"{secret}\"\n"
            )
        };
        let keys = read(&text("one")).keys_for_restart(&read(&text("other")));
        assert!(keys.is_empty(), "{keys:?}");
    }

    #[test]
    fn a_feed_that_comes_goes_or_changes_is_named() {
        let feed = |name: &str, more: &str| {
            format!(
                "data_dir = \"d\"\n[[feed]]\nname = \"{name}\"\nformat = \"ndjson\"\n\
                 member = \"m\"\ninto = {{ table = \"t\" }}\n{more}\n"
            )
        };
        let one = read(&feed("a", ""));
        assert_eq!(one.keys_for_restart(&read("data_dir = \"d\"")), ["feed 'a' (removed)"]);
        let renamed = one.keys_for_restart(&read(&feed("b", "")));
        assert_eq!(renamed, ["feed 'a' (removed)", "feed 'b' (new)"]);
        let dropped = one.keys_for_restart(&read(&feed("a", "drop_folder = \"x\"")));
        assert_eq!(dropped, ["feed 'a'.drop_folder"]);
        let limited = one.keys_for_restart(&read(&feed("a", "resident = true")));
        assert_eq!(limited, ["feed 'a'"]);
    }
}
