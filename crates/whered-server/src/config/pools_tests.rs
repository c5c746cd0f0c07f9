//! Policies, maps and what sites answer, as they are read and refused.

use std::path::Path;
use std::time::Duration;

use whered_dns::RecordType;
use whered_engine::{PolicyStep, PoolSource};

use crate::config::Config;

const FILE: &str = r#"
[[database]]
name = "city"
path = "city.mmdb"
[[ruleset]]
name = "edge"
path = "edge.rules"
[[zone]]
name = "example.com"
path = "zone"
[[map]]
name = "regions"
database = "city"
default = ["nyc", "eu"]
continents = { eu = ["eu"] }
countries = { de = ["fra1"] }
subdivisions = { US-CA = ["nyc"] }
asns = { 64496 = ["nyc"], AS64497 = ["eu"] }
networks = { "198.51.100.0/24" = ["nyc"] }
[[pool]]
name = "www"
owners = ["example.com"]
policy = ["rules:edge", "map:regions", "failover:0.75", "healthy", "weighted"]
overrides = "pins"
sites_from = { collection = "fleet", refresh_seconds = 0.25 }
answers = 2
[[pool.site]]
name = "fra1"
group = "eu"
addresses = ["192.0.2.10"]
https = ["1 . alpn=h2"]
txt = ["fra"]
weight = 3
capacity = 0.5
[[pool.site]]
name = "nyc"
cname = "nyc.example.net"
"#;

fn read(text: &str) -> Result<PoolSource, String> {
    let config = Config::from_toml(text, Path::new("edge.toml"));
    config.map(|mut config| config.pools.remove(0)).map_err(|error| error.to_string())
}

fn refuses(from: &str, to: &str, line: &str) {
    assert!(FILE.contains(from), "{from}");
    let error = read(&FILE.replacen(from, to, 1)).unwrap_err();
    // That places are right is tested elsewhere.
    let (_, message) = error.split_once(": ").expect("a place");
    assert_eq!(message, line);
}

#[test]
fn a_policy_is_a_chain_of_steps() {
    let pool = read(FILE).unwrap();
    let [rules, map, failover, healthy, weighted] = &pool.policy[..] else { panic!("five steps") };
    assert_eq!(*rules, PolicyStep::Rules("edge".to_owned()));
    let PolicyStep::Map(map) = map else { panic!("a map") };
    let lists: Vec<String> = map.lists().map(|(what, _)| what).collect();
    let expected = [
        "198.51.100.0/24",
        "AS64496",
        "AS64497",
        "subdivision US-CA",
        "country DE",
        "continent EU",
        "the default",
    ];
    assert_eq!(lists, expected);
    assert_eq!(*failover, PolicyStep::Failover { threshold: 0.75 });
    assert_eq!(
        (healthy, weighted),
        (&PolicyStep::Healthy, &PolicyStep::Weighted { is_sticky: false })
    );
    assert_eq!((pool.overrides.as_deref(), pool.answers), (Some("pins"), 2));
    let from = pool.sites_from.unwrap();
    assert_eq!((from.collection.as_str(), from.refresh), ("fleet", Duration::from_millis(250)));
}

#[test]
fn a_site_answers_more_than_addresses() {
    let pool = read(FILE).unwrap();
    let [fra, nyc] = &pool.sites[..] else { panic!("two sites") };
    assert_eq!((fra.group(), nyc.group()), ("eu", "nyc"));
    assert_eq!((fra.details.weight, fra.details.capacity), (3, Some(0.5)));
    let types: Vec<_> = fra.details.records.iter().map(|record| record.0).collect();
    assert_eq!(types, [RecordType::HTTPS, RecordType::TXT]);
    assert_eq!(fra.details.records[1].1, b"\x03fra");
    assert_eq!(nyc.details.alias, Some("nyc.example.net".parse().unwrap()));
    assert!(fra.place.is_none(), "nobody asks for the nearest");
}

#[test]
fn a_pool_may_have_a_map_of_its_own() {
    let text = FILE.replace("map:regions", "map");
    let own = "[pool.map]\ndefault = [\"nyc\"]\n[[pool.site]]\nname = \"fra1\"";
    let pool = read(&text.replacen("[[pool.site]]\nname = \"fra1\"", own, 1)).unwrap();
    let PolicyStep::Map(map) = &pool.policy[1] else { panic!("a map") };
    assert_eq!(map.default.as_deref(), Some(&["nyc".to_owned()][..]));
    let error = read(&text).unwrap_err();
    assert!(error.contains("has the step 'map', but the pool has no map"), "{error}");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    refuses(
        "rules:edge",
        "rules:edgy",
        "'policy' in [[pool]] names the ruleset 'edgy', which is no [[ruleset]]; allowed: edge",
    );
    refuses(
        "map:regions",
        "map:region",
        "'policy' in [[pool]] names the map 'region', which is no [[map]]; allowed: regions",
    );
    refuses(
        "\"healthy\", \"weighted\"",
        "\"weighted\", \"healthy\"",
        "'policy' in [[pool]] has the step 'healthy' after 'weighted'; allowed: 'weighted' as \
         the last step",
    );
    refuses(
        "failover:0.75",
        "failover:2",
        "'policy' in [[pool]] has the share '2'; allowed: a share above 0, up to 1",
    );
    refuses(
        "de = [\"fra1\"]",
        "de = [\"fra\"]",
        "the map 'regions' lists 'fra' for country DE, which pool 'www' does not have; \
         allowed: fra1, nyc, and their groups",
    );
    refuses(
        "de = [\"fra1\"]",
        "de = [\"fra1\"], DE = [\"nyc\"]",
        "'countries' in [[map]] repeats 'de'; allowed: every key once",
    );
    refuses(
        "eu = [\"eu\"] }",
        "xx = [\"eu\"] }",
        "'continents' in [[map]] has the key 'xx'; allowed: AF, AN, AS, EU, NA, OC, SA",
    );
    refuses(
        "database = \"city\"",
        "database = \"town\"",
        "'database' in [[map]] is 'town', which is no [[database]]; allowed: city",
    );
    refuses(
        "cname = \"nyc.example.net\"",
        "cname = \"nyc.example.net\"\ntxt = [\"x\"]",
        "'cname' in [[pool.site]] stands beside others; allowed: a site without addresses and \
         other records",
    );
    refuses(
        "capacity = 0.5",
        "capacity = 1.5",
        "'capacity' in [[pool.site]] is 1.5; allowed: a share above 0, up to 1",
    );
    let nearest = FILE.replace("\"healthy\", \"weighted\"", "\"nearest\"");
    let fixed = nearest.replace("sites_from", "# sites_from");
    assert!(read(&nearest).is_ok(), "the collection has the places");
    assert!(read(&fixed).unwrap_err().contains("no 'at' in [[pool.site]]"));
    let https = read(&FILE.replace("1 . alpn=h2", "one")).unwrap_err();
    assert!(
        https.starts_with("edge.toml:31:10: 'https' in [[pool.site]] holds 'one' ("),
        "{https}"
    );
}

#[test]
fn the_examples_of_the_guide_are_read() {
    let around = FILE.split("[[map]]").next().unwrap();
    let page = include_str!("../../../../docs/guide/steering.md");
    let mut count = 0;
    for block in page.split("```toml\n").skip(1) {
        let example = block.split("```").next().unwrap();
        let text = if example.contains("[[zone]]") {
            example.to_owned()
        } else {
            format!("{around}{example}")
        };
        Config::from_toml(&text, Path::new("edge.toml")).unwrap_or_else(|error| panic!("{error}"));
        count += 1;
    }
    assert_eq!(count, 4);
}

#[test]
fn countries_that_do_not_exist_are_refused() {
    for unknown in ["uk", "ZX"] {
        refuses(
            "de = [\"fra1\"]",
            &format!("{unknown} = [\"fra1\"]"),
            &format!(
                "'countries' in [[map]] has the key '{unknown}'; allowed: codes of ISO 3166-1 such \
                 as DE or GB"
            ),
        );
    }
}
