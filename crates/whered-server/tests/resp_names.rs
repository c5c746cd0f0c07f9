//! Users' rights on what commands name beside keys: databases, sets, rulesets, pools, zones, feeds,
//! tables.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;
mod world;

use support::client::Client;
use whered_server::Server;

const USERS: &str = r#"
[[feed]]
name = "ids"
format = "ndjson"
member = "id"
into = { table = "seen" }
[[resp.user]]
name = "keys-only"
password = "secret"
commands = ["+@all"]
keys = ["b:*"]
[[resp.user]]
name = "everything"
password = "secret"
commands = ["+@all"]
keys = ["*"]
[[resp.user]]
name = "some"
password = "secret"
commands = ["+@all"]
keys = ["*"]
databases = ["city"]
sets = ["b*"]
rules = ["edge"]
pools = ["www"]
zones = ["example.com"]
feeds = ["ids"]
tables = ["seen"]
[[resp.user]]
name = "others"
password = "secret"
commands = ["+@all"]
keys = ["*"]
databases = ["x*"]
sets = ["x*"]
rules = ["x*"]
pools = ["x*"]
zones = ["x*"]
feeds = ["x*"]
tables = ["x*"]
"#;

/// Requests, and the kind of what they name.
const REQUESTS: [(&str, &str); 44] = [
    ("IP.GET city 192.0.2.1", "databases"),
    ("IP.INFO city", "databases"),
    ("IP.MGET city 192.0.2.1", "databases"),
    ("IP.NET city 192.0.2.1", "databases"),
    ("IP.WITHIN city 192.0.2.0/24", "databases"),
    ("GEOSEARCH b:k FROMIP city 192.0.2.1 BYRADIUS 1 km", "databases"),
    ("GEOSEARCHSTORE b:k b:k FROMIP city 192.0.2.1 BYRADIUS 1 km", "databases"),
    ("CIDR.MATCH blocked 10.0.0.1", "sets"),
    ("CIDR.MMATCH blocked 10.0.0.1", "sets"),
    ("CIDR.ISMEMBER blocked 10.0.0.0/8", "sets"),
    ("CIDR.COUNT blocked", "sets"),
    ("CIDR.CARD blocked", "sets"),
    ("CIDR.INFO blocked", "sets"),
    ("CIDR.EXPORT blocked", "sets"),
    ("CIDR.SCAN blocked 0", "sets"),
    ("CIDR.ADD blocked 10.1.0.0/16", "sets"),
    ("CIDR.REM blocked 10.1.0.0/16", "sets"),
    ("CIDR.LOAD blocked BULK 10.1.0.0/16", "sets"),
    ("CIDR.UNION b2 blocked", "sets"),
    ("CIDR.INTER b2 blocked", "sets"),
    ("CIDR.DIFF b2 blocked", "sets"),
    ("CIDR.COMPLEMENT b2 blocked", "sets"),
    ("CIDR.SUMMARISE b2 blocked", "sets"),
    ("RULES.GET edge", "rules"),
    ("RULES.INFO edge", "rules"),
    ("RULES.COUNTERS edge", "rules"),
    ("RULES.MATCH edge SRC 10.0.0.1 DST 10.0.0.2 PROTO tcp", "rules"),
    ("RULES.MMATCH edge SRC 10.0.0.1 DST 10.0.0.2 PROTO tcp", "rules"),
    ("RULES.EXPLAIN edge SRC 10.0.0.1 DST 10.0.0.2 PROTO tcp", "rules"),
    ("RULES.RELOAD edge", "rules"),
    ("STEER www 192.0.2.1", "pools"),
    ("STEER www.example.com 192.0.2.1", "pools"),
    ("SITE.LIST www", "pools"),
    ("SITE.DOWN www fra", "pools"),
    ("SITE.UP www fra", "pools"),
    ("SITE.AUTO www fra", "pools"),
    ("ZONE.CHECK example.com", "zones"),
    ("ACME.DEL www.example.com", "zones"),
    ("FEED.INFO ids", "feeds"),
    ("FEED.STATUS ids 1", "feeds"),
    ("FEED.PUSH ids {\"id\":1}", "feeds"),
    ("TABLE.INFO seen", "tables"),
    ("TABLE.SCAN seen 0", "tables"),
    ("TABLE.GET seen 1", "tables"),
];

fn start(name: &str) -> Server {
    let folder = world::folder(name);
    let mut config = world::config(&folder, USERS);
    config.data_dir = Some(folder.join("data"));
    let server = Server::start(config).unwrap();
    let blocks: Vec<whered_engine::ip::Block> = vec!["10.0.0.0/8".parse().unwrap()];
    for set in ["blocked", "secret"] {
        server.engine().prefix_sets().add(set, &blocks, None, None).unwrap();
    }
    let rules = "chain input policy drop {\n    proto tcp dport 80 accept\n}\n";
    server.engine().set_rules("edge", None, rules).unwrap();
    server
}

fn login(server: &Server, user: &str) -> Client {
    let mut client = Client::connect(server.resp_addresses()[0]);
    assert_eq!(client.ask(&["AUTH", user, "secret"]), "+OK\r\n");
    client
}

fn ask(client: &mut Client, request: &str) -> String {
    client.ask(&request.split(' ').collect::<Vec<_>>())
}

fn denied(kind: &str) -> String {
    format!(
        "-NOPERM this user has no permissions to access one of the {kind} used as arguments\r\n"
    )
}

#[test]
fn every_named_thing_is_checked_against_the_patterns_of_its_kind() {
    let server = start("names_checked");
    let [mut keys_only, mut everything, mut some, mut others] =
        ["keys-only", "everything", "some", "others"].map(|user| login(&server, user));
    for (request, kind) in REQUESTS {
        assert_eq!(ask(&mut keys_only, request), denied(kind), "{request}");
        assert_eq!(ask(&mut others, request), denied(kind), "{request}");
        for client in [&mut everything, &mut some] {
            let reply = ask(client, request);
            assert!(!reply.starts_with("-NOPERM"), "{request}: {reply}");
        }
    }
    // One of several is enough, in a transaction too, and a set of another name.
    assert_eq!(ask(&mut some, "CIDR.UNION b2 blocked secret"), denied("sets"));
    assert_eq!(ask(&mut some, "CIDR.UNION secret blocked"), denied("sets"));
    assert_eq!(ask(&mut some, "MULTI"), "+OK\r\n");
    assert_eq!(ask(&mut some, "CIDR.EXPORT secret"), denied("sets"));
    assert!(ask(&mut some, "EXEC").starts_with("-EXECABORT"));
    assert_eq!(server.engine().prefix_sets().names(), ["b2", "blocked", "secret"]);
    server.stop().unwrap();
}

#[test]
fn lists_of_names_show_what_the_user_may_touch() {
    let server = start("names_listed");
    let [mut keys_only, mut everything, mut some] =
        ["keys-only", "everything", "some"].map(|user| login(&server, user));
    for (request, all, part) in [
        ("IP.LIST", "*1\r\n$4\r\ncity\r\n", "*1\r\n$4\r\ncity\r\n"),
        ("CIDR.LIST", "*2\r\n$7\r\nblocked\r\n$6\r\nsecret\r\n", "*1\r\n$7\r\nblocked\r\n"),
        ("RULES.LIST", "*1\r\n$4\r\nedge\r\n", "*1\r\n$4\r\nedge\r\n"),
        ("ZONE.LIST", "*1\r\n$11\r\nexample.com\r\n", "*1\r\n$11\r\nexample.com\r\n"),
        ("FEED.LIST", "*1\r\n$3\r\nids\r\n", "*1\r\n$3\r\nids\r\n"),
        ("TABLE.LIST", "*1\r\n$4\r\nseen\r\n", "*1\r\n$4\r\nseen\r\n"),
    ] {
        assert_eq!(ask(&mut everything, request), all);
        assert_eq!(ask(&mut some, request), part);
        assert_eq!(ask(&mut keys_only, request), "*0\r\n");
    }
    for section in ["INFO", "INFO feeds", "INFO sites", "INFO everything"] {
        let info = ask(&mut keys_only, section);
        assert!(!info.contains("feed_ids") && !info.contains("pool_www"), "{info}");
    }
    let info = ask(&mut some, "INFO");
    assert!(info.contains("feed_ids") && info.contains("pool_www"), "{info}");
    let token = "x".repeat(43);
    let set = format!("ACME.SET plain.example.com {token}");
    assert_eq!(ask(&mut keys_only, &set), denied("zones"));
    assert_eq!(ask(&mut some, &set), ":1\r\n");
    assert!(ask(&mut some, "ACME.LIST").contains(&token));
    assert_eq!(ask(&mut keys_only, "ACME.LIST"), "*0\r\n");
    server.stop().unwrap();
}

#[test]
fn keys_of_others_are_neither_listed_nor_removed_all_together() {
    let server = start("names_keys");
    let [mut keys_only, mut everything] =
        ["keys-only", "everything"].map(|user| login(&server, user));
    assert_eq!(ask(&mut everything, "GEOADD other 1 1 m"), ":1\r\n");
    assert_eq!(ask(&mut keys_only, "GEOADD b:own 1 1 m"), ":1\r\n");
    assert_eq!(ask(&mut keys_only, "KEYS *"), "*1\r\n$5\r\nb:own\r\n");
    assert_eq!(ask(&mut keys_only, "SCAN 0"), "*2\r\n$1\r\n0\r\n*1\r\n$5\r\nb:own\r\n");
    for request in ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "RANDOMKEY"] {
        assert_eq!(ask(&mut keys_only, request), denied("keys"), "{request}");
    }
    assert_eq!(ask(&mut everything, "DBSIZE"), ":2\r\n");
    assert_eq!(ask(&mut everything, "FLUSHALL"), "+OK\r\n");
    server.stop().unwrap();
}

#[test]
fn rules_may_not_name_sets_and_databases_that_the_user_may_not_touch() {
    let server = start("names_rules");
    let mut some = login(&server, "some");
    let set = |rule: &str| format!("chain input policy drop {{\n    {rule} accept\n}}\n");
    for (rule, kind) in
        [("src @secret", "sets"), ("src.asn:autonomous_system_number = 5", "databases")]
    {
        // Of a rule that cannot be read nothing is said; these can.
        let text = set(rule);
        let reply = some.ask(&["RULES.SET", "edge", "OWN", &text]);
        assert_eq!(reply, denied(kind), "{rule}");
        let rule = format!("{rule} accept");
        let reply = some.ask(&["RULES.INSERT", "edge", "POSITION", "1", &rule]);
        assert_eq!(reply, denied(kind), "{rule}");
        assert_eq!(some.ask(&["RULES.REPLACE", "edge", "1", &rule]), denied(kind), "{rule}");
    }
    let allowed = set("src @blocked");
    assert_eq!(some.ask(&["RULES.SET", "edge", "OWN", &allowed]), ":1\r\n");
    let rule = "src @blocked dport 80 proto tcp drop";
    let reply = some.ask(&["RULES.INSERT", "edge", "POSITION", "1", rule]);
    assert!(reply.starts_with(':'), "{reply}");
    server.stop().unwrap();
}

#[test]
fn lists_of_names_are_shown_beside_those_of_redis() {
    let server = start("names_acl");
    let mut everything = login(&server, "everything");
    let list = ask(&mut everything, "ACL LIST");
    assert!(list.contains(" databases~city sets~b* rules~edge pools~www "), "{list}");
    let user = ask(&mut everything, "ACL GETUSER some");
    assert!(user.starts_with("*26\r\n") && user.contains("$4\r\nsets\r\n$3\r\n~b*\r\n"), "{user}");
    let user = ask(&mut everything, "ACL GETUSER keys-only");
    assert!(user.starts_with("*12\r\n") && !user.contains("sets"), "{user}");
    server.stop().unwrap();
}

#[test]
fn each_key_of_several_is_checked_wherever_the_command_has_it() {
    let server = start("names_several");
    let [mut keys_only, mut everything] =
        ["keys-only", "everything"].map(|user| login(&server, user));
    for request in [
        "ZUNION 2 b:a other",
        "ZINTERCARD 2 other b:a LIMIT 1",
        "ZUNIONSTORE other 1 b:a",
        "ZDIFFSTORE b:d 2 b:a other WITHSCORES",
        "ZMPOP 2 b:a other MIN",
        "BZMPOP 0 2 b:a other MIN",
        "BZPOPMIN b:a other 0",
        "MGET b:a other",
        "MSET b:a 1 other 2",
        "MSETNX b:a 1 other 2",
        "GETEX other",
        "INCR other",
        "ZREMRANGEBYLEX other - +",
    ] {
        assert_eq!(ask(&mut keys_only, request), denied("keys"), "{request}");
        // DRYRUN says the same, and runs nothing.
        let expected = "This user has no permissions to access the 'other' key";
        let told = ask(&mut everything, &format!("ACL DRYRUN keys-only {request}"));
        assert_eq!(told, format!("${}\r\n{expected}\r\n", expected.len()), "{request}");
        assert_eq!(ask(&mut everything, &format!("ACL DRYRUN everything {request}")), "+OK\r\n");
    }
    // Values between keys, options and timeouts are no keys.
    for request in ["MSET b:a other", "ZUNION 1 b:a WITHSCORES", "BZPOPMIN b:x 0.01", "MGET b:a"] {
        assert!(!ask(&mut keys_only, request).starts_with("-NOPERM"), "{request}");
    }
    assert_eq!(ask(&mut everything, "EXISTS other b:d"), ":0\r\n");
    let told = ask(&mut everything, "ACL DRYRUN keys-only IP.GET city 192.0.2.1");
    assert!(told.ends_with("This user has no permissions to access one of the databases\r\n"));
    server.stop().unwrap();
}
