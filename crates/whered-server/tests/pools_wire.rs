//! Pools, sites and catchment areas by HTTP.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use serde_json::{Value, json};
use whered_engine::HealthOverride;
use whered_engine::ip::Prefix;
use whered_server::Server;
use world::http::{Reply, get, send};

fn post(server: &Server, path: &str, body: &str) -> Reply {
    let length = body.len();
    let text = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    send(server.http_addresses()[0], &text)
}

fn down(server: &Server, site: &str) {
    server.engine().override_site("www", site, HealthOverride::Down).unwrap();
}

#[test]
fn pools_and_sites_are_described() {
    let server = world::start("http_pools");
    let pools = get(&server, "/v1/pools").json();
    let pool = &pools["pools"][0];
    assert_eq!(pool["name"], "www");
    assert_eq!(pool["owners"], json!(["www.example.com"]));
    assert_eq!(pool["policy"], json!(["healthy", "nearest"]));
    assert_eq!(pool["sites"], json!(["fra", "nyc", "gru", "nrt"]));
    assert_eq!((&pool["healthy"], &pool["when_all_down"]), (&json!(4), &json!("all")));
    assert_eq!(get(&server, "/v1/pools/www").json(), *pool);
    assert_eq!(get(&server, "/v1/pools/www.example.com").json(), *pool, "by a name it answers at");
    down(&server, "nyc");
    let sites = get(&server, "/v1/sites").json();
    assert_eq!(sites["generation"], json!(server.engine().generation().number()));
    assert_eq!(sites["next"], Value::Null);
    let list = sites["sites"].as_array().unwrap();
    assert_eq!(list.len(), 4);
    let expected = json!({
        "pool": "www", "site": "nyc", "longitude": -74.0, "latitude": 40.71, "healthy": false,
        "state": "unchecked", "override": "down", "addresses": ["203.0.113.2"],
    });
    assert_eq!(list[1], expected);
    let page = get(&server, "/v1/sites?pool=www&count=3&cursor=0").json();
    assert_eq!((page["sites"].as_array().unwrap().len(), &page["next"]), (3, &json!("3")));
    let page = get(&server, "/v1/sites?pool=www&count=3&cursor=3").json();
    assert_eq!((page["sites"].as_array().unwrap().len(), &page["next"]), (1, &Value::Null));
    for path in ["/v1/pools/no", "/v1/sites?pool=no", "/v1/pools/no/choose?address=192.0.2.1"] {
        let reply = get(&server, path);
        assert_eq!(
            (reply.status, &reply.json()["error"]["field"]),
            (404, &json!("pool")),
            "{path}"
        );
    }
    server.stop().unwrap();
}

#[test]
fn a_client_or_a_place_is_sent_to_its_nearest_site_with_reasons() {
    let server = world::start("http_choose");
    let choose = |query: &str| get(&server, &format!("/v1/pools/www/choose?{query}"));
    let expected = json!({
        "pool": "www", "address": "192.0.2.5", "sites": ["fra"], "verdict": "answer",
        "scope_length_bits": 25,
    });
    assert_eq!(choose("address=192.0.2.5").json(), expected);
    let place = choose("longitude=135.5&latitude=34.7").json();
    assert_eq!((&place["sites"], &place["longitude"]), (&json!(["nrt"]), &json!(135.5)));
    let reasons = choose("address=192.0.2.5&explain=1").json();
    assert_eq!((&reasons["choice"], &reasons["question"]["job"]), (&json!("fra"), &json!("steer")));
    let reasons = choose("longitude=135.5&latitude=34.7&explain=1").json();
    assert_eq!(reasons["choice"], "nrt");
    assert_eq!(reasons["question"]["longitude_degrees"], 135.5);
    assert_eq!(reasons["candidates"].as_array().unwrap().len(), 4);
    down(&server, "fra");
    assert_eq!(choose("address=192.0.2.5").json()["sites"], json!(["nyc"]));
    let wrong = [
        ("", "address"),
        ("address=x", "address"),
        ("address=192.0.2.1&latitude=1", "address"),
        ("longitude=1", "latitude"),
        ("longitude=1&latitude=91", "latitude"),
        ("longitude=181&latitude=1", "longitude"),
        ("longitude=nan&latitude=1", "longitude"),
    ];
    for (query, field) in wrong {
        let reply = choose(query);
        assert_eq!(
            (reply.status, &reply.json()["error"]["field"]),
            (400, &json!(field)),
            "{query}"
        );
    }
    server.stop().unwrap();
}

#[test]
fn many_clients_are_answered_at_once_and_a_wrong_one_costs_its_own_answer() {
    let server = world::start("http_choose_many");
    let path = "/v1/pools/www/choose";
    let body = r#"{"addresses": ["192.0.2.5", "nonsense", "198.51.100.1"]}"#;
    let answers = post(&server, path, body).json();
    let choices = answers["answers"].as_array().unwrap();
    assert_eq!(choices[0]["sites"], json!(["fra"]));
    assert_eq!(choices[1]["address"], "nonsense");
    assert_eq!(choices[1]["error"]["field"], "address");
    assert_eq!(choices[2]["sites"], json!(["gru"]));
    let many = vec!["\"192.0.2.1\""; 10_001].join(",");
    let too_many = format!("{{\"addresses\":[{many}]}}");
    for body in ["", "[]", "{}", r#"{"addresses":[1]}"#, r#"{"addresses":[],"x":1}"#, &too_many] {
        let reply = post(&server, path, body);
        assert_eq!((reply.status, &reply.json()["error"]["field"]), (400, &json!("body")));
    }
    server.stop().unwrap();
}

#[test]
fn catchment_areas_are_those_of_the_sites_and_follow_one_that_goes_down() {
    let server = world::start("http_catchment");
    let draw = |query: &str| get(&server, &format!("/v1/pools/www/catchment{query}"));
    let drawn = draw("").json();
    assert_eq!(drawn["sites"], json!(["fra", "nyc", "gru", "nrt"]));
    assert_eq!((&drawn["database"], &drawn["pool"]), (&json!("city"), &json!("www")));
    assert!(drawn["took_microseconds"].is_u64());
    // A /25 and a /32 of IPv6 in Frankfurt, and one network in each of the other places.
    let mut expected = vec![
        json!([-47.0, -24.0, 2, 256, 1]),
        json!([139.0, 35.0, 3, 1 << 24, 1]),
        json!([-74.0, 40.0, 1, 128, 1]),
        json!([8.0, 50.0, 0, 128, 2]),
    ];
    let close = |drawn: &Value, expected: &[Value]| {
        let numbers = |cells: &[Value]| -> Vec<Vec<f64>> {
            let cell = |cell: &Value| {
                cell.as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect()
            };
            cells.iter().map(cell).collect()
        };
        assert_eq!(numbers(drawn["cells"].as_array().unwrap()), numbers(expected));
    };
    close(&drawn, &expected);
    down(&server, "fra");
    expected[3][2] = json!(1);
    let after = draw("?database=city&cell_degrees=1").json();
    close(&after, &expected);
    assert!(after["generation"].as_u64() > drawn["generation"].as_u64());
    let coarse = draw("?cell_degrees=90").json();
    let cells = coarse["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4, "a quarter of the globe each");
    for query in ["?cell_degrees=0", "?cell_degrees=0.1", "?cell_degrees=x", "?cell_degrees=-1"] {
        let reply = draw(query);
        let field = &reply.json()["error"]["field"];
        assert_eq!((reply.status, field), (400, &json!("cell_degrees")), "{query}");
    }
    let reply = draw("?database=no");
    assert_eq!((reply.status, &reply.json()["error"]["field"]), (404, &json!("database")));
    server.stop().unwrap();
}

#[test]
fn everything_about_an_address_is_told_at_once() {
    let folder = world::folder("http_explain");
    std::fs::write(
        folder.join("edge.rules"),
        "chain input policy drop {\n  src 192.0.2.0/24 proto tcp dport 443 accept\n}\n",
    )
    .unwrap();
    let extra = "[[ruleset]]\nname = \"edge\"\npath = \"edge.rules\"\n";
    let server = Server::start(world::config(&folder, extra)).unwrap();
    let prefix: Prefix = "192.0.2.0/28".parse().unwrap();
    server.engine().prefix_sets().add("bad", &[prefix], Some(b"abuse"), None).unwrap();
    let other: Prefix = "203.0.113.0/24".parse().unwrap();
    server.engine().prefix_sets().add("other", &[other], None, None).unwrap();
    let told = get(&server, "/v1/explain?address=192.0.2.5").json();
    assert_eq!(told["address"], "192.0.2.5");
    assert_eq!(told["databases"][0]["database"], "city");
    assert_eq!(told["databases"][0]["prefix"], "192.0.2.0/25");
    assert_eq!(told["databases"][0]["record"]["country"]["iso_code"], "DE");
    let set = json!({
        "set": "bad", "prefix": "192.0.2.0/28", "value": "abuse", "expires_at_millis": null,
    });
    assert_eq!(told["sets"], json!([set]), "only those that hold it");
    assert_eq!(told["rules"][0], json!({ "ruleset": "edge", "verdict": "drop", "rule": null }));
    assert_eq!(told["packet"]["destination_port"], 53);
    let pool = &told["pools"][0];
    assert_eq!((&pool["question"]["pool"], &pool["choice"]), (&json!("www"), &json!("fra")));
    let query = "address=192.0.2.5&destination=198.51.100.1&protocol=tcp&destination_port=443";
    let told = get(&server, &format!("/v1/explain?{query}")).json();
    let rule = &told["rules"][0];
    assert_eq!((&rule["verdict"], &rule["rule"]["number"]), (&json!("accept"), &json!(1)));
    assert!(rule["rule"]["origin"].as_str().unwrap().ends_with("edge.rules:2"));
    assert!(rule["rule"]["text"].as_str().unwrap().contains("443"));
    // Asking counts nothing.
    let counters = get(&server, "/v1/rules/edge").json()["counters"].clone();
    assert_eq!(counters["policy"]["packets"], 0);
    // Nothing is known of this one, which is an answer.
    let told = get(&server, "/v1/explain?address=203.0.114.1").json();
    assert_eq!((&told["databases"][0]["record"], &told["sets"]), (&Value::Null, &json!([])));
    let wrong = [
        ("", "address"),
        ("address=x", "address"),
        ("address=192.0.2.5&destination=2001:db8::1", "destination"),
        ("address=192.0.2.5&protocol=x", "protocol"),
        ("address=192.0.2.5&protocol=256", "protocol"),
        ("address=192.0.2.5&destination_port=65536", "destination_port"),
    ];
    for (query, field) in wrong {
        let reply = get(&server, &format!("/v1/explain?{query}"));
        assert_eq!(
            (reply.status, &reply.json()["error"]["field"]),
            (400, &json!(field)),
            "{query}"
        );
    }
    server.stop().unwrap();
}

#[test]
fn zones_and_the_status_are_described() {
    let server = world::start("http_status");
    let zones = get(&server, "/v1/zones").json();
    let zone = &zones["zones"][0];
    assert_eq!((&zone["serial"], &zone["dnssec"]), (&json!(1), &json!("serve")));
    assert!(zone["name"].as_str().unwrap().starts_with("example.com"));
    assert!(zone["path"].as_str().unwrap().ends_with("example.com.zone"));
    for name in ["example.com", "EXAMPLE.com."] {
        assert_eq!(get(&server, &format!("/v1/zones/{name}")).json(), *zone, "{name}");
    }
    let reply = get(&server, "/v1/zones/example.org");
    assert_eq!((reply.status, &reply.json()["error"]["field"]), (404, &json!("zone")));
    let status = get(&server, "/v1/status").json();
    assert_eq!((&status["ready"], &status["generation"]), (&json!(true), &json!(1)));
    assert_eq!(status["pid"], std::process::id());
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    let counts = &status["counts"];
    assert_eq!(
        (&counts["databases"], &counts["pools"], &counts["zones"]),
        (&json!(1), &json!(1), &json!(1))
    );
    let http = server.http_addresses()[0].to_string();
    assert_eq!(status["listeners"]["http"], json!([http]));
    assert_eq!(status["listeners"]["resp"].as_array().unwrap().len(), 1);
    assert_eq!(status["disk"], Value::Null, "without a data directory");
    server.stop().unwrap();
}
