//! Every mistake of a configuration gives its exact line, and a right one is read as it stands.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use whered_engine::store::SyncPolicy;
use whered_engine::{
    AccessMode, BlocklistSource, DatabaseSource, DatabaseTxtSource, PolicyStep, ReloadMode,
    ReversedSource, TxtField, WhenAllDown,
};

use super::Config;
use crate::health::{Check, Target};
use crate::resp::NameKind;

const WHOLE: &str = r#"
data_dir = "data"
[resp]
listen = ["127.0.0.1:6380", "[::1]:6380"]
password = "secret"
threads = 2
max_clients = 100
output_buffer_limit_bytes = 1_048_576
query_buffer_limit_bytes = 65536
[http]
listen = ["0.0.0.0:8080"]
token = "t0ken"
[dns]
listen = ["0.0.0.0:53"]
database = "city"
udp_size = 1400
[journal]
sync = "everysec"
segment_size_bytes = 0x1000000
[[database]]
name = "city"
path = "GeoLite2-City.mmdb"
[[database]]
name = "asn"
path = "/var/lib/asn.mmdb"
[[zone]]
name = "example.com"
path = "zones/example.com.zone"
[[pool]]
name = "www"
owners = ["www.example.com", "WWW2.Example.Com."]
policy = ["healthy", "nearest"]
answers = 1
ttl_seconds = 10
when_all_down = "none"
[[pool.site]]
name = "fra"
at = { longitude = 8.68, latitude = 50 }
addresses = ["192.0.2.10", "2001:db8::10"]
[[pool.site]]
name = "nyc"
at = { longitude = -74.0, latitude = 40.7 }
addresses = ["192.0.2.20"]
[[pool]]
name = "plain"
owners = []
[[pool.site]]
name = "fra"
at = { longitude = 8.68, latitude = 50.11 }
addresses = ["192.0.2.30"]
"#;

fn message(text: &str) -> String {
    Config::from_toml(text, Path::new("conf/edge.toml")).expect_err(text).to_string()
}

/// Asserts the whole line that a mistake gives.
#[track_caller]
fn refuses(text: &str, line: &str) {
    let message = message(text);
    assert_eq!(message, format!("conf/edge.toml:{line}"));
    assert!(!message.contains('\n'));
}

#[test]
fn a_whole_configuration_is_read_with_paths_beside_the_file() {
    let config = Config::from_toml(WHOLE, Path::new("conf/edge.toml")).unwrap();
    assert_eq!(config.data_dir, Some(PathBuf::from("conf/data")));
    assert_eq!(config.resp.listen.len(), 2);
    assert_eq!(config.resp.password.as_deref(), Some("secret"));
    assert_eq!((config.resp.threads, config.resp.max_clients), (Some(2), 100));
    assert_eq!(config.resp.output_buffer_limit_bytes, 1 << 20);
    assert_eq!(config.resp.query_buffer_limit_bytes, 1 << 16);
    assert_eq!(config.http.token.as_deref(), Some("t0ken"));
    assert_eq!((config.dns.udp_size, config.dns.database.as_deref()), (1400, Some("city")));
    assert_eq!(config.journal.sync, SyncPolicy::EverySecond);
    assert_eq!(config.journal.segment_size_bytes, Some(1 << 24));
    let setup = config.to_setup();
    assert_eq!(setup.place_database.as_deref(), Some("city"));
    let paths: Vec<_> = setup.databases.iter().map(|source| source.path.as_path()).collect();
    assert_eq!(paths, [Path::new("conf/GeoLite2-City.mmdb"), Path::new("/var/lib/asn.mmdb")]);
    assert_eq!(setup.zones[0].path, Path::new("conf/zones/example.com.zone"));
}

#[test]
fn pools_are_read_with_their_sites_and_defaults() {
    let config = Config::from_toml(WHOLE, Path::new("edge.toml")).unwrap();
    let [www, plain] = &config.pools[..] else { panic!("two pools") };
    assert_eq!((www.ttl_seconds, www.when_all_down), (10, WhenAllDown::None));
    assert_eq!(www.sites[0].place.unwrap().latitude_degrees, 50.0);
    assert_eq!(www.sites[0].addresses.len(), 2);
    assert_eq!(www.sites[1].name, "nyc");
    assert!(www.sites.iter().all(|site| site.healthy));
    assert_eq!(plain.policy, [PolicyStep::Healthy, PolicyStep::Nearest]);
    assert_eq!((plain.ttl_seconds, plain.when_all_down), (30, WhenAllDown::All));
}

#[test]
fn empty_sections_give_the_defaults_on_loopback() {
    let config = Config::from_toml("[resp]\n[http]\n[dns]\n", Path::new("edge.toml")).unwrap();
    assert_eq!(config.data_dir, None);
    let listen = [&config.resp.listen, &config.http.listen, &config.dns.listen];
    let shown: Vec<_> = listen.iter().map(|listen| listen[0].to_string()).collect();
    assert_eq!(shown, ["127.0.0.1:6380", "127.0.0.1:8080", "127.0.0.1:5300"]);
    assert_eq!(config.unguarded_listener(), None);
    assert_eq!(config.journal.sync, SyncPolicy::Always);
}

#[test]
fn an_empty_list_of_addresses_closes_a_door() {
    let config = Config::from_toml("[http]\nlisten = []\n", Path::new("edge.toml")).unwrap();
    assert!(config.http.listen.is_empty());
}

#[test]
fn unknown_keys_are_refused_with_the_allowed_ones() {
    refuses(
        "[resp]\n  lisen = []\n",
        "2:3: unknown key 'lisen' in [resp]; allowed: listen, tls, unix_socket, \
         unix_socket_permissions, password, password_file, password_sha256, user, threads, max_clients, \
         idle_timeout_seconds, tcp_keepalive_seconds, output_buffer_limit_bytes, \
         pubsub_buffer_limit_bytes, query_buffer_limit_bytes, client_buffers_limit_bytes, \
         max_memory_bytes, slowlog_threshold_micros, slowlog_max_len",
    );
    refuses(
        "datadir = 1\n",
        "1:1: unknown key 'datadir' in the top level; allowed: data_dir, log, server, resp, http, dns, \
         journal, snapshot, backup, sets, rules, database, ruleset, tsig_key, zone, catalog, map, pool, feed, feeds, replica",
    );
    refuses(
        "[[database]]\nname = 'a'\npath = 'b'\nüber = 1\n",
        "4:1: invalid unquoted key, expected letters, numbers, `-`, `_`",
    );
    refuses(
        "[[pool]]\n[[pool.site]]\nat = { longitude = 1, lat = 2 }\nname = 'a'\n",
        "1:1: no 'name' in [[pool]]; its keys: name, owners, policy, map, overrides, \
         sites_from, answers, ttl_seconds, when_all_down, site",
    );
}

#[test]
fn the_first_unknown_key_of_the_file_is_named() {
    let text = "[dns]\nzzz = 1\naaa = 2\n";
    assert!(message(text).starts_with("conf/edge.toml:2:1: unknown key 'zzz' in [dns]"));
}

#[test]
fn a_database_has_a_mode_a_reload_and_fields() {
    let read = |keys: &str| {
        let text = format!("[[database]]\nname = 'a'\npath = 'b'\n{keys}");
        Config::from_toml(&text, Path::new("edge.toml")).unwrap().databases.remove(0)
    };
    let default = read("");
    assert_eq!(default, DatabaseSource::new("a", "b"));
    assert_eq!((default.mode, default.reload), (AccessMode::Indexed, ReloadMode::Notify));
    let fields: Vec<String> = default.fields.iter().map(ToString::to_string).collect();
    assert_eq!(fields.len(), 5);
    assert_eq!(fields[1], "city.names.en");
    for mode in AccessMode::ALL {
        assert_eq!(read(&format!("mode = '{mode}'")).mode, mode);
    }
    for reload in ReloadMode::ALL {
        assert_eq!(read(&format!("reload = '{reload}'")).reload, reload);
    }
    assert_eq!(read("fields = []").fields, []);
    assert_eq!(read("fields = ['a.b']").fields, ["a.b".parse().unwrap()]);
}

#[test]
fn a_wrong_mode_reload_or_field_is_refused_with_what_is_allowed() {
    for (keys, line) in [
        (
            "mode = 'ram'",
            "4:8: 'mode' in [[database]] is 'ram'; allowed: stream, tree, mmap, memory, indexed",
        ),
        ("mode = 1", "4:8: 'mode' in [[database]] is a whole number; allowed: a string"),
        ("reload = ''", "4:10: 'reload' in [[database]] is ''; allowed: notify, poll, off"),
        (
            "fields = ['a..b']",
            "4:11: 'fields' in [[database]] has 'a..b'; allowed: names between single dots",
        ),
        (
            "fields = ['']",
            "4:11: 'fields' in [[database]] has ''; allowed: names between single dots",
        ),
        (
            "fields = ['a', 'a']",
            "4:16: 'fields' in [[database]] repeats 'a'; allowed: every field once",
        ),
        (
            "fields = 'a'",
            "4:10: 'fields' in [[database]] is a string; allowed: an array of field paths such as \"country.iso_code\"",
        ),
    ] {
        refuses(&format!("[[database]]\nname = 'a'\npath = 'b'\n{keys}\n"), line);
    }
}

#[test]
fn keys_of_later_versions_are_told_apart_from_unknown_ones() {
    let top = "data_dir, log, server, resp, http, dns, journal, snapshot, backup, sets, rules, database, \
               ruleset, tsig_key, zone, catalog, map, pool, feed, feeds, replica";
    refuses(
        "[[capture]]\nname = 'a'\n",
        &format!("1:3: key 'capture' in the top level is not in this version; allowed: {top}"),
    );
    refuses(
        &WHOLE.replace("addresses = [\"192.0.2.20\"]", "tags = []"),
        "43:1: unknown key 'tags' in [[pool.site]]; allowed: name, at, group, \
         addresses, cname, https, svcb, txt, reflect, weight, capacity, check",
    );
}

#[test]
fn wrong_types_are_refused_with_what_was_found() {
    refuses(
        "[resp]\nlisten = \"127.0.0.1:6380\"\n",
        "2:10: 'listen' in [resp] is a string; allowed: an array of addresses with ports such as \
         \"127.0.0.1:6380\" or \"[::1]:6380\"",
    );
    refuses(
        "[http]\nlisten = [8080]\n",
        "2:11: 'listen' in [http] holds a whole number; allowed: an array of addresses with ports \
         such as \"127.0.0.1:6380\" or \"[::1]:6380\"",
    );
    refuses(
        "resp = 3\n",
        "1:8: 'resp' in the top level is a whole number; allowed: a table, [resp]",
    );
    refuses(
        "[database]\nname = 'a'\n",
        "1:1: 'database' in the top level is a table; allowed: tables, each headed [[database]]",
    );
    refuses(
        "zone = [1]\n",
        "1:9: 'zone' in the top level holds a whole number; allowed: tables, each headed [[zone]]",
    );
    refuses(
        "data_dir = true\n",
        "1:12: 'data_dir' in the top level is true or false; allowed: a string",
    );
    refuses(
        "[dns]\nudp_size = 1.5\n",
        "2:12: 'udp_size' in [dns] is a number with a fraction; allowed: a whole number, 512 to 4096",
    );
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    refuses("[dns]\nudp_size = 511\n", "2:12: 'udp_size' in [dns] is 511; allowed: 512 to 4096");
    refuses("[resp]\nthreads = 0\n", "2:11: 'threads' in [resp] is 0; allowed: 1 to 256");
    refuses("[resp]\nthreads = -1\n", "2:11: 'threads' in [resp] is -1; allowed: 1 to 256");
    refuses(
        "[journal]\nsync = \"sometimes\"\n",
        "2:8: 'sync' in [journal] is 'sometimes'; allowed: always, everysec, off",
    );
    refuses(
        "data_dir = \"\"\n",
        "1:12: 'data_dir' in the top level is empty; allowed: a string of at least one character",
    );
    refuses(
        "[http]\ntoken = 'a b'\n",
        "2:9: 'token' in [http] cannot stand in a header; allowed: visible ASCII characters \
         without spaces",
    );
}

#[test]
fn bad_addresses_are_refused() {
    let addresses = "addresses with ports such as \"127.0.0.1:6380\" or \"[::1]:6380\"";
    refuses(
        "[dns]\nlisten = [\"127.0.0.1:53\", \"localhost:53\"]\n",
        &format!("2:27: 'listen' in [dns] holds 'localhost:53'; allowed: {addresses}"),
    );
    refuses(
        "[dns]\nlisten = [\"127.0.0.1:53\", \"127.0.0.1:53\"]\n",
        "2:27: 'listen' in [dns] holds 127.0.0.1:53 twice; allowed: every address once",
    );
    let what = "1 to 64 IP addresses such as \"192.0.2.10\" or \"2001:db8::10\"";
    refuses(
        &WHOLE.replace("[\"192.0.2.20\"]", "[\"192.0.2.256\"]"),
        &format!("43:14: 'addresses' in [[pool.site]] holds '192.0.2.256'; allowed: {what}"),
    );
    refuses(
        &WHOLE.replace("[\"192.0.2.20\"]", "[]"),
        &format!("43:13: 'addresses' in [[pool.site]] holds 0; allowed: {what}"),
    );
}

#[test]
fn a_door_that_others_can_reach_needs_its_secret() {
    refuses(
        "[resp]\nlisten = [\"0.0.0.0:6380\"]\n",
        "2:11: 'listen' in [resp] holds 0.0.0.0:6380, which others can reach, without a \
         'password'; allowed: a loopback address, or any with 'password' set",
    );
    refuses(
        "[http]\nlisten = [\"127.0.0.1:1\", \"[2001:db8::1]:8080\"]\n",
        "2:26: 'listen' in [http] holds [2001:db8::1]:8080, which others can reach, without a \
         'token'; allowed: a loopback address, or any with 'token' set",
    );
    let dns = "[dns]\nlisten = [\"0.0.0.0:53\"]\n";
    assert!(Config::from_toml(dns, Path::new("edge.toml")).is_ok());
}

#[test]
fn a_configuration_changed_by_flags_is_asked_the_same() {
    let mut config = Config::default();
    config.resp.listen = vec!["192.0.2.1:6380".parse().unwrap()];
    assert_eq!(
        config.unguarded_listener().unwrap(),
        "RESP does not listen on 192.0.2.1:6380, which others can reach, without a 'password' in \
         [resp]; allowed: a loopback address, or any with 'password' set"
    );
    config.resp.password = Some("secret".to_owned());
    assert_eq!(config.unguarded_listener(), None);
}

#[test]
fn duplicate_names_are_refused_with_the_line_of_the_first() {
    refuses(
        &WHOLE.replace("\"asn\"", "\"city\""),
        "24:8: 'name' in [[database]] repeats the database 'city' of line 21; allowed: every \
         name once",
    );
    refuses(
        &WHOLE.replace("\"nyc\"", "\"fra\""),
        "41:8: 'name' in [[pool.site]] repeats the site 'fra' of line 37; allowed: every name once",
    );
    refuses(
        &WHOLE.replace("owners = []", "owners = [\"Www.example.com.\"]"),
        "46:11: 'owners' in [[pool]] repeats the owner 'Www.example.com.' of line 31; allowed: \
         every name once",
    );
    refuses(
        &WHOLE.replace("\"plain\"", "\"www\""),
        "45:8: 'name' in [[pool]] repeats the pool 'www' of line 30; allowed: every name once",
    );
}

#[test]
fn names_that_nothing_defines_are_refused_with_the_defined_ones() {
    refuses(
        &WHOLE.replace("database = \"city\"", "database = \"town\""),
        "15:12: 'database' in [dns] names 'town', which no [[database]] defines; allowed: city, asn",
    );
    refuses(
        "[dns]\ndatabase = \"city\"\n",
        "2:12: 'database' in [dns] names 'city', which no [[database]] defines; allowed: nothing, \
         as none is defined",
    );
    refuses(
        &WHOLE.replace("\"www.example.com\"", "\"www.notexample.com\""),
        "31:11: 'owners' in [[pool]] names 'www.notexample.com', which lies in no [[zone]]; \
         allowed: names in example.com",
    );
}

#[test]
fn policies_answers_and_places_are_checked() {
    refuses(
        &WHOLE.replace("\"healthy\", \"nearest\"", "\"fastest\""),
        "32:11: 'policy' in [[pool]] has the unknown step 'fastest'; allowed: rules:NAME, \
         map, map:NAME, healthy, nearest, failover, failover:SHARE, weighted, weighted:sticky",
    );
    refuses(
        &WHOLE.replace("\"healthy\", \"nearest\"", "\"nearest\", \"nearest\""),
        "32:22: 'policy' in [[pool]] has the step 'nearest' twice; allowed: every step once",
    );
    refuses(
        &WHOLE.replace("answers = 1", "answers = 17"),
        "33:11: 'answers' in [[pool]] is 17; allowed: 1 to 16",
    );
    refuses(
        &WHOLE.replace("when_all_down = \"none\"", "when_all_down = \"some\""),
        "35:17: 'when_all_down' in [[pool]] is 'some'; allowed: all, none",
    );
    refuses(
        &WHOLE.replace("longitude = -74.0", "longitude = -180.5"),
        "42:20: 'longitude' in at of [[pool.site]] is -180.5; allowed: -180 to 180",
    );
    refuses(
        &WHOLE.replace("latitude = 40.7", "latitude = nan"),
        "42:38: 'latitude' in at of [[pool.site]] is nan; allowed: -90 to 90",
    );
    refuses(
        &WHOLE.replace("latitude = 40.7", "latitude = 'north'"),
        "42:38: 'latitude' in at of [[pool.site]] is a string; allowed: a number, -90 to 90",
    );
    refuses(
        &WHOLE.replace(", latitude = 40.7", ""),
        "42:6: no 'latitude' in at of [[pool.site]]; its keys: longitude, latitude",
    );
}

#[test]
fn a_pool_needs_owners_and_sites() {
    let zone = "[[zone]]\nname = 'example.com'\npath = 'z'\n";
    let keys = "name, owners, policy, map, overrides, sites_from, answers, ttl_seconds, \
                when_all_down, site";
    refuses(
        &format!("{zone}[[pool]]\nname = 'www'\n"),
        &format!("4:1: no 'owners' in [[pool]]; its keys: {keys}"),
    );
    refuses(
        &format!("{zone}[[pool]]\nname = 'www'\nowners = ['example.com']\n"),
        "4:1: no [[pool.site]] in [[pool]]; at least one is needed",
    );
    refuses(
        "[[zone]]\nname = 'example.com'\n",
        "1:1: no 'path' in [[zone]]; its keys: name, path, primaries, blocklist, database_txt, reload, unsigned, sign, \
         keys, denial, allow_transfer, notify, transfer, transfer_size_max, update, catalog, catalog_group, alias",
    );
}

#[test]
fn a_zone_may_be_a_blocklist_or_tell_of_a_database() {
    let zone = "[[zone]]\nname = 'bl.example.com'\npath = 'z'\n";
    let database = "[[database]]\nname = 'asn'\npath = 'a'\n";
    let read = |text: &str| Config::from_toml(text, Path::new("whered.toml")).unwrap().zones;
    let zones = read(&format!("{zone}blocklist = {{ set = 'bad' }}\n"));
    let blocklist = BlocklistSource {
        set: "bad".to_owned(),
        address: Ipv4Addr::new(127, 0, 0, 2),
        text: None,
        ttl_seconds: 300,
    };
    assert_eq!(zones[0].reversed, Some(ReversedSource::Blocklist(blocklist)));
    let lookup =
        "database_txt = { database = 'asn', fields = ['@network', 'a.b'], ttl_seconds = 5 }";
    let zones = read(&format!("{database}{zone}{lookup}\n"));
    let lookup = DatabaseTxtSource {
        database: "asn".to_owned(),
        fields: vec![TxtField::Network, TxtField::Path("a.b".parse().unwrap())],
        ttl_seconds: 5,
    };
    assert_eq!(zones[0].reversed, Some(ReversedSource::DatabaseTxt(lookup)));
    for (line, expected) in [
        (
            "blocklist = {}",
            "4:13: no 'set' in blocklist of [[zone]]; its keys: set, address, text, ttl_seconds",
        ),
        (
            "blocklist = { set = 'bad', address = '192.0.2.1' }",
            "4:38: 'address' in blocklist of [[zone]] is '192.0.2.1'; allowed: an address in 127.0.0.0/8",
        ),
        (
            "database_txt = { database = 'asn', fields = [] }",
            "4:29: 'database' in database_txt of [[zone]] names 'asn', which no [[database]] defines; \
             allowed: nothing, as none is defined",
        ),
    ] {
        refuses(&format!("{zone}{line}\n"), expected);
    }
    let wrong =
        |fields: &str| format!("{database}{zone}database_txt = {{ database = 'asn', {fields} }}\n");
    let title = "database_txt of [[zone]]";
    refuses(
        &wrong("fields = []"),
        &format!("7:45: 'fields' in {title} has 0 fields; allowed: 1 to 64"),
    );
    refuses(
        &wrong("fields = ['a..b']"),
        &format!(
            "7:46: 'fields' in {title} has 'a..b'; allowed: @network, or names between single dots"
        ),
    );
}

#[test]
fn syntax_errors_are_one_line_with_their_place() {
    for text in ["[resp\n", "a = \n", "a = 1\na = 2\n", "a = \"x", "[resp]\n[resp]\n", "=", "\u{0}"]
    {
        let message = message(text);
        assert!(!message.contains('\n'), "{message:?}");
        let place = message.strip_prefix("conf/edge.toml:").unwrap();
        assert!(place.starts_with(|c: char| c.is_ascii_digit()), "{message}");
    }
}

const HASH: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

#[test]
fn the_resp_door_has_tls_a_unix_socket_and_users() {
    let text = format!(
        "[resp]\npassword_sha256 = \"{HASH}\"\nunix_socket = \"run/w.sock\"\n\
         unix_socket_permissions = \"770\"\nmax_memory_bytes = 1000000\n\
         [resp.tls]\nlisten = [\"0.0.0.0:6381\"]\ncertificate = \"s.pem\"\nkey = \"s.key\"\n\
         client_ca = \"ca.pem\"\nclient_certificate = \"optional\"\n\
         [[resp.user]]\nname = \"ann\"\npassword = \"secret\"\ncommands = [\"+@read\"]\nkeys = [\"*\"]\n"
    );
    let resp = Config::from_toml(&text, Path::new("/etc/w/edge.toml")).unwrap().resp;
    assert!(resp.has_password() && resp.password.is_none());
    let socket = resp.unix_socket.unwrap();
    assert_eq!((socket.path.to_str(), socket.permissions), (Some("/etc/w/run/w.sock"), 0o770));
    let tls = resp.tls.unwrap();
    assert_eq!(tls.certificate, Path::new("/etc/w/s.pem"));
    assert!(tls.client_certificate_is_optional && !tls.is_guarded());
    assert_eq!(resp.users.len(), 1);
    assert_eq!(resp.users[0].password, resp.password_sha256, "both are the hash of 'secret'");
    assert_eq!(resp.plain_passwords, ["ann"]);
    assert_eq!(resp.max_memory_bytes, 1_000_000);
}

#[test]
fn what_is_wrong_about_tls_sockets_and_users_is_named() {
    refuses(
        "[resp.tls]\nlisten = [\"127.0.0.1:1\"]\ncertificate = \"c\"\n",
        "1:1: no 'key' in [resp.tls]; its keys: listen, certificate, key, client_ca, \
         client_certificate",
    );
    refuses(
        "[resp.tls]\nlisten = [\"0.0.0.0:1\"]\ncertificate = \"c\"\nkey = \"k\"\n",
        "2:11: 'listen' in [resp.tls] holds 0.0.0.0:1, which others can reach, without a \
         'password'; allowed: a loopback address, or any with 'password' set",
    );
    refuses(
        "[resp]\npassword_sha256 = \"abc\"\n",
        "2:19: 'password_sha256' in [resp] is no hash; allowed: the SHA-256 of a password as 64 \
         hexadecimal digits",
    );
    refuses(
        "[resp]\nunix_socket = \"s\"\nunix_socket_permissions = \"999\"\n",
        "3:27: 'unix_socket_permissions' in [resp] is '999'; allowed: \"000\" to \"777\"",
    );
    refuses(
        "[[resp.user]]\nname = \"ann\"\npassword = \"x\"\ncommands = [\"+nosuch\"]\n",
        "1:1: the user 'ann' has the rule '+nosuch', which names no command; allowed: \
         +@category, -@category, +command, -command, +container|subcommand",
    );
    refuses(
        "[[resp.user]]\nname = \"default\"\npassword = \"x\"\n",
        "2:8: 'name' in [[resp.user]] is 'default'; allowed: every name once, without blanks; \
         'default' has its password in [resp]",
    );
}

#[test]
fn columns_count_characters() {
    let text = "data_dir = \"é\u{1f30d}\" = 1\n";
    let error = Config::from_toml(text, Path::new("edge.toml")).unwrap_err();
    assert_eq!((error.line(), error.column()), (Some(1), Some(17)), "{error}");
}

#[test]
fn no_cut_or_changed_configuration_makes_the_reader_panic() {
    for end in 0..WHOLE.len() {
        let _ = Config::from_toml(&WHOLE[..end], Path::new("edge.toml"));
        for replacement in ["", "[", "\"", "=", "1", "\n", "{", "é"] {
            let text = [&WHOLE[..end], replacement, &WHOLE[end + 1..]].concat();
            let _ = Config::from_toml(&text, Path::new("edge.toml"));
        }
    }
}

#[test]
fn every_key_stands_in_the_documentation() {
    let page = include_str!("../../../../docs/reference/configuration.md");
    for (title, keys) in super::all_keys() {
        for key in keys {
            let documented = page.contains(&format!("| `{key}` |"))
                || page.contains(&format!("`[{key}]`"))
                || page.contains(&format!("`[[{key}]]`"));
            assert!(documented, "'{key}' of {title}");
        }
    }
}

/// The checks of the one site that has this line.
fn checks_of(line: &str) -> Result<Vec<Check>, String> {
    let text = WHOLE
        .replace("addresses = [\"192.0.2.20\"]", &format!("addresses = [\"192.0.2.20\"]\n{line}"));
    let config = Config::from_toml(&text, Path::new("conf/edge.toml"));
    let mut config = config.map_err(|error| error.to_string())?;
    assert_eq!(config.checks.len(), 1);
    let site = config.checks.remove(0);
    assert_eq!((&*site.pool, &*site.site), ("www", "nyc"));
    Ok(site.checks)
}

#[test]
fn checks_are_read_as_text_as_tables_and_several_of_them() {
    let checks = checks_of("check = \"tcp://192.0.2.20:443\"").unwrap();
    assert_eq!(checks, [Check::new(Target::parse("tcp://192.0.2.20:443").unwrap())]);
    let checks = checks_of(
        "check = [\"exec:/bin/true\", { url = \"https://192.0.2.20/x\", name = \"www.example.com\", \
         status = [200, 301], body = \"ok\", ca = \"ca.pem\", interval_seconds = 0.5, \
         timeout_seconds = 2, up_after = 4, down_after = 1 }]",
    );
    let [command, web] = &checks.unwrap()[..] else { panic!("two checks") };
    assert_eq!(command.target.to_string(), "exec:/bin/true");
    let Target::Http(http) = &web.target else { panic!("HTTP") };
    assert_eq!(http.statuses, [200, 301]);
    assert_eq!(http.ca.as_deref(), Some(Path::new("conf/ca.pem")));
    assert_eq!((http.name.as_deref(), http.body.as_deref()), (Some("www.example.com"), Some("ok")));
    assert_eq!((web.interval.as_millis(), web.timeout.as_secs()), (500, 2));
    assert_eq!((web.up_after, web.down_after), (4, 1));
}

#[test]
fn checks_that_ask_nothing_are_refused_with_their_place() {
    for (line, wrong) in [
        (
            "check = 'tcp://192.0.2.20'",
            "'check' in [[pool.site]] is 'tcp://192.0.2.20', which has no port",
        ),
        ("check = 3", "'check' in [[pool.site]] is neither text nor table"),
        ("check = []", "'check' in [[pool.site]] holds 0; allowed: 1 to 16 checks"),
        ("check = {}", "no 'url' in check of [[pool.site]]"),
        (
            "check = { url = 'http://h/', every = 3 }",
            "unknown key 'every' in check of [[pool.site]]",
        ),
        (
            "check = { url = 'http://h/', status = [] }",
            "'status' in check of [[pool.site]] is an array",
        ),
        ("check = { url = 'http://h/', status = 99 }", "'status' in check of [[pool.site]] is 99"),
        (
            "check = { url = 'http://h/', ca = 'x' }",
            "'ca' in check of [[pool.site]] stands beside plain HTTP",
        ),
        (
            "check = { url = 'http://h/', args = ['x'] }",
            "'args' in check of [[pool.site]] stands beside a URL",
        ),
        (
            "check = { url = 'http://h/', name = 'a b' }",
            "'name' in check of [[pool.site]] is 'a b'",
        ),
        (
            "check = { url = 'tcp://h:1', body = 'x' }",
            "'body' in check of [[pool.site]] stands beside a check",
        ),
        (
            "check = { url = 'tcp://h:1', interval_seconds = 0 }",
            "'interval_seconds' in check of [[pool.site]] is 0",
        ),
        (
            "check = { url = 'tcp://h:1', up_after = 0 }",
            "'up_after' in check of [[pool.site]] is 0",
        ),
    ] {
        let error = checks_of(line).unwrap_err();
        assert!(error.contains(wrong), "{line}: {error}");
        assert!(error.starts_with("conf/edge.toml:4"), "{error}");
    }
}

#[test]
fn a_user_has_lists_of_names_by_kind_and_a_remark_for_each_that_his_commands_need() {
    let text = "[[resp.user]]\nname = \"ann\"\npassword = \"secret\"\n\
                commands = [\"+@cidr\", \"+table.scan\"]\nsets = [\"b*\", \"c\"]\nfeeds = []\n";
    let config = Config::from_toml(text, Path::new("edge.toml")).unwrap();
    let names = &config.resp.users[0].names;
    assert_eq!(names[&NameKind::Set], ["b*", "c"]);
    assert!(names[&NameKind::Feed].is_empty() && names.len() == 2);
    let lacking = "edge.toml:1:1: remark: the user 'ann' may give TABLE.SCAN, but has no 'tables': \
                   they are refused";
    assert_eq!(config.remarks(), [lacking]);
    let all = text.replace("sets = [\"b*\", \"c\"]\nfeeds = []\n", "keys = [\"*\"]\n");
    assert!(Config::from_toml(&all, Path::new("edge.toml")).unwrap().remarks().is_empty());
    let none = text.replace("sets = [\"b*\", \"c\"]\nfeeds = []\n", "keys = [\"b:*\"]\n");
    let remarks = Config::from_toml(&none, Path::new("edge.toml")).unwrap().remarks();
    assert_eq!(remarks.len(), 2, "{remarks:?}");
    assert!(remarks[0].contains(" more, but has no 'sets'"), "{remarks:?}");
    refuses(
        "[[resp.user]]\nname = \"ann\"\npassword = \"secret\"\nsets = \"b*\"\n",
        "4:8: 'sets' in [[resp.user]] is a string; allowed: an array of patterns of names such as \"edge*\"",
    );
}

#[test]
fn a_listener_opens_only_with_its_section() {
    let open = |text: &str| {
        let config = Config::from_toml(text, Path::new("edge.toml")).unwrap();
        [&config.resp.listen, &config.http.listen, &config.dns.listen].map(|it| !it.is_empty())
    };
    assert_eq!(open(""), [false, false, false]);
    assert_eq!(open("[resp]\n"), [true, false, false]);
    assert_eq!(open("[[resp.user]]\nname = 'a'\npassword = 'b'\n"), [true, false, false]);
    assert_eq!(open("[http]\nmax_connections = 5\n"), [false, true, false]);
    assert_eq!(open("[dns]\n"), [false, false, true]);
    assert_eq!(open("[dns]\nlisten = []\n[resp]\n[http]\n"), [true, true, false]);
    let mut all = Config::from_toml("[dns]\nlisten = []\n", Path::new("edge.toml")).unwrap();
    all.open_absent();
    assert_eq!(all.resp.listen, Config::default().resp.listen);
    assert_eq!(all.http.listen, Config::default().http.listen);
    assert!(all.dns.listen.is_empty(), "an empty list is no absent section");
    assert!(Config::closed().remarks()[0].starts_with("nothing listens; "));
    let zones = "[resp]\n[[zone]]\nname = 'a'\npath = 'a'\n";
    let remarks = Config::from_toml(zones, Path::new("edge.toml")).unwrap().remarks();
    let closed = "edge.toml:2:1: remark: zones are defined and DNS is closed: there is no [dns]";
    assert_eq!(remarks, [closed]);
}

#[test]
fn a_database_has_one_path_or_a_file_for_each_family() {
    let config = Config::from_toml(
        "[[database]]\nname = \"x\"\npaths = [\"4.mmdb\", \"6.mmdb\"]\n",
        Path::new("conf/edge.toml"),
    )
    .unwrap();
    let paths: Vec<_> = config.databases[0].paths().cloned().collect();
    assert_eq!(paths, [PathBuf::from("conf/4.mmdb"), PathBuf::from("conf/6.mmdb")]);
    for (keys, found) in [
        ("paths = [\"a\", \"b\"]\npath = \"a\"", "stands beside 'paths'"),
        ("paths = [\"a\", \"a\"]", "'paths' in [[database]] repeats 'a'"),
        ("paths = []", "has 0 files"),
        ("paths = [\"a\", \"b\", \"c\"]", "has 3 files"),
        ("paths = [\"a\", \"b\"]\nmode = \"stream\"", "is 'stream' with several 'paths'"),
    ] {
        let message = message(&format!("[[database]]\nname = \"x\"\n{keys}\n"));
        assert!(message.contains(found), "{keys}: {message}");
    }
}

const TRANSFERS: &str = r#"data_dir = "data"
[[tsig_key]]
name = "k"
secret = "c2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXMgaGVyZSE="
[[zone]]
name = "example.com"
"#;

#[test]
fn servers_of_a_zone_are_read_with_ports_and_keys() {
    let more = "primaries = [\"192.0.2.1\", \"[2001:db8::1]:5353 key k\"]\n\
                allow_transfer = [\"192.0.2.0/24\", \"key:K.\"]\ntransfer = \"site fra\"\n";
    let config = Config::from_toml(&format!("{TRANSFERS}{more}"), Path::new("x.toml")).unwrap();
    let zone = &config.transfers.zones[0];
    assert_eq!(zone.primaries[0].address, "192.0.2.1:53".parse().unwrap());
    assert_eq!(zone.primaries[1].address, "[2001:db8::1]:5353".parse().unwrap());
    assert!(zone.primaries[0].key.is_none() && zone.primaries[1].key.is_some());
    assert_eq!(zone.allow.len(), 2);
    assert_eq!(zone.pools, crate::dns::PoolsInTransfer::Site("fra".to_owned()));
    let setup = config.to_setup();
    assert!(setup.zones[0].is_secondary);
    assert_eq!(setup.zones[0].path, Path::new("data/zones/example.com.zone"));
    assert!(!format!("{config:?}").contains("c2VjcmV0"), "no secret is shown");
}

#[test]
fn each_mistake_about_other_servers_has_its_line() {
    let cases = [
        ("primaries = []", "7:13: 'primaries' in [[zone]] is empty; allowed: one server or more"),
        (
            "primaries = [\"ns1\"]",
            "7:14: 'primaries' in [[zone]] holds 'ns1'; allowed: servers such",
        ),
        ("primaries = [\"192.0.2.1:0\"]", "7:14: 'primaries' in [[zone]] holds '192.0.2.1:0'"),
        (
            "primaries = [\"192.0.2.1 key x\"]",
            "7:14: 'primaries' in [[zone]] names the key 'x', which no [[tsig_key]] defines; allowed: k.",
        ),
        (
            "path = \"a\"\nallow_transfer = [\"any\"]",
            "8:19: 'allow_transfer' in [[zone]] holds 'any'; allowed: prefixes and keys such as",
        ),
        (
            "path = \"a\"\nprimaries = [\"192.0.2.1\"]",
            "7:8: 'path' in [[zone]] stands beside 'primaries'; allowed: one of both",
        ),
        (
            "path = \"a\"\ntransfer_size_max = \"1mb\"",
            "8:21: 'transfer_size_max' in [[zone]] stands without 'primaries'; allowed: both",
        ),
        (
            "path = \"a\"\ntransfer = \"some\"",
            "8:12: 'transfer' in [[zone]] is 'some'; allowed: \"refuse\", \"all\" or \"site NAME\"",
        ),
        (
            "path = \"a\"\n[[tsig_key]]\nname = \"k2\"\nalgorithm = \"hmac-md5\"\nsecret = \"a\"",
            "10:13: 'algorithm' in [[tsig_key]] is 'hmac-md5'; allowed: hmac-sha256, hmac-sha384, hmac-sha512",
        ),
        (
            "path = \"a\"\n[[tsig_key]]\nname = \"k2\"\nsecret = \"YQ==\"",
            "10:10: 'secret' in [[tsig_key]] is a secret of 1 bytes; allowed: base 64 of 16 bytes",
        ),
    ];
    for (more, line) in cases {
        let found = message(&format!("{TRANSFERS}{more}\n"));
        assert!(found.starts_with(&format!("conf/edge.toml:{line}")), "{found}\n{line}");
        assert!(!found.contains('\n'));
    }
}

#[test]
fn catalogs_are_read_with_the_settings_of_their_members_and_groups() {
    use crate::dns::CatalogContent;

    let text = "data_dir = \"data\"\n[[catalog]]\nname = \"in.example\"\nprimaries = [\"192.0.2.1\"]\n\
                members_max = 7\n[catalog.members]\nallow_transfer = [\"192.0.2.0/24\"]\n\
                [[catalog.group]]\nname = \"far\"\nprimaries = [\"192.0.2.9\"]\n\
                [[catalog]]\nname = \"out.example\"\n\
                [[zone]]\nname = \"example.com\"\npath = \"z\"\ncatalog = \"Out.example.\"\n\
                catalog_group = \"g\"\n";
    let config = Config::from_toml(text, Path::new("x.toml")).unwrap();
    let [followed, made] = &config.transfers.catalogs[..] else { panic!("two catalogs") };
    let CatalogContent::Followed(followed) = &followed.content else { panic!("it is followed") };
    assert_eq!(followed.members_max, 7);
    assert_eq!(followed.members.primaries[0].address, "192.0.2.1:53".parse().unwrap());
    let (name, group) = &followed.groups[0];
    assert_eq!((&**name, group.allow.len()), ("far", 1), "what a group does not say is inherited");
    assert_eq!(group.primaries[0].address, "192.0.2.9:53".parse().unwrap());
    let member = ("example.com".parse().unwrap(), Some("g".to_owned()));
    assert_eq!(made.content, CatalogContent::Made(vec![member]));
    let setup = config.to_setup();
    let catalogs: Vec<_> = setup.zones.iter().filter(|zone| zone.is_secondary).collect();
    assert_eq!(catalogs.len(), 2);
    assert_eq!(catalogs[0].path, Path::new("data/zones/in.example.zone"));
}

#[test]
fn each_mistake_about_catalogs_has_its_line() {
    let long = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "x".repeat(20));
    let catalog = "[[catalog]]\nname = \"c\"\n";
    let zone = "[[zone]]\nname = \"z\"\npath = \"z\"\n";
    let cases = [
        (
            format!("{catalog}members_max = 3\n"),
            "3:15: 'members_max' in [[catalog]] stands without 'primaries'; allowed: both",
        ),
        (
            format!("{catalog}primaries = [\"192.0.2.1\"]\nmembers_max = 0\n"),
            "4:15: 'members_max' in [[catalog]] is 0; allowed: 1 to 10000000",
        ),
        (
            format!("{catalog}{catalog}"),
            "4:8: 'name' in [[catalog]] repeats the zone 'c' of line 2",
        ),
        (
            format!("{zone}[[catalog]]\nname = \"Z.\"\n"),
            "5:8: 'name' in [[catalog]] repeats the zone 'Z.' of line 2",
        ),
        (format!("[[catalog]]\nname = \"{long}\"\n"), "2:8: 'name' in [[catalog]] is '"),
        (
            format!("{zone}catalog = \"c\"\n"),
            "4:11: 'catalog' in [[zone]] is 'c', which no [[catalog]] without primaries is; allowed: nothing",
        ),
        (
            format!("{zone}catalog = \"c\"\n{catalog}primaries = [\"192.0.2.1\"]\n"),
            "4:11: 'catalog' in [[zone]] is 'c', which no [[catalog]] without primaries is; allowed: nothing",
        ),
        (
            format!("{zone}catalog_group = \"g\"\n"),
            "4:17: 'catalog_group' in [[zone]] stands without 'catalog'; allowed: both",
        ),
        (
            format!("{zone}catalog = \"c\"\ncatalog_group = \"{}\"\n{catalog}", "g".repeat(256)),
            "5:17: 'catalog_group' in [[zone]] has 256 bytes; allowed: up to 255",
        ),
        (
            format!(
                "{catalog}primaries = [\"192.0.2.1\"]\n[[catalog.group]]\nname = \"g\"\n\
                 [[catalog.group]]\nname = \"g\"\n"
            ),
            "7:8: 'name' in [[catalog.group]] repeats the group 'g' of line 5",
        ),
    ];
    for (text, line) in cases {
        let found = message(&text);
        assert!(found.starts_with(&format!("conf/edge.toml:{line}")), "{found}\n{line}");
        assert!(!found.contains('\n'));
    }
}
