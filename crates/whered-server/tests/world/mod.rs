//! A small world for wire tests: a database of four networks, a zone, a pool of four sites, and
//! a server over them on free ports of loopback.

#![allow(dead_code, reason = "each test file uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub(crate) mod http;
pub(crate) mod schema;

use std::fs;
use std::path::{Path, PathBuf};

use whered_engine::mmdb::{Value, Writer, WriterOptions};
use whered_server::{Config, Server};

/// Networks and where they are: near one of the sites each. Loopback is near Tokyo.
pub(crate) const NETWORKS: [(&str, &str, &str, f64, f64); 5] = [
    ("192.0.2.0/25", "DE", "Frankfurt", 8.68, 50.11),
    ("192.0.2.128/25", "US", "New York", -74.0, 40.71),
    ("198.51.100.0/24", "BR", "São Paulo", -46.63, -23.55),
    ("127.0.0.0/8", "JP", "Tokyo", 139.69, 35.69),
    ("2001:db8::/32", "DE", "Frankfurt", 8.68, 50.11),
];

const ZONE: &str = "\
$TTL 60
@     SOA ns hostmaster 1 3600 600 86400 60
@     NS  ns
ns    A   127.0.0.1
plain A   203.0.113.80
";

const CONFIG: &str = r#"
[resp]
listen = ["127.0.0.1:0"]
threads = 1
[http]
listen = ["127.0.0.1:0"]
[dns]
listen = ["127.0.0.1:0", "[::1]:0"]
threads = 2
[[database]]
name = "city"
path = "city.mmdb"
[[zone]]
name = "example.com"
path = "example.com.zone"
[[pool]]
name = "www"
owners = ["www.example.com"]
ttl_seconds = 30
[[pool.site]]
name = "fra"
at = { longitude = 8.68, latitude = 50.11 }
addresses = ["203.0.113.1", "2001:db8:1::1"]
[[pool.site]]
name = "nyc"
at = { longitude = -74.0, latitude = 40.71 }
addresses = ["203.0.113.2"]
[[pool.site]]
name = "gru"
at = { longitude = -46.63, latitude = -23.55 }
addresses = ["203.0.113.3"]
[[pool.site]]
name = "nrt"
at = { longitude = 139.69, latitude = 35.69 }
addresses = ["203.0.113.4"]
"#;

/// The folder of a test, empty.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes database and zone beside each other and gives the configuration over them; `extra` is
/// more text of the configuration file.
pub(crate) fn config(folder: &Path, extra: &str) -> Config {
    fs::write(folder.join("city.mmdb"), database()).unwrap();
    // More addresses than fit a datagram of 1232 bytes.
    let many: String = (0..120).map(|host| format!("many A 203.0.113.{host}\n")).collect();
    fs::write(folder.join("example.com.zone"), format!("{ZONE}{many}")).unwrap();
    let text = format!("{CONFIG}{extra}");
    Config::from_toml(&text, &folder.join("edge.toml")).unwrap()
}

/// A server over the small world.
pub(crate) fn start(name: &str) -> Server {
    Server::start(config(&folder(name), "")).unwrap()
}

fn database() -> Vec<u8> {
    let options = WriterOptions {
        database_type: "Test-City".to_owned(),
        build_epoch_seconds: 1_700_000_000,
        ..WriterOptions::default()
    };
    let mut writer = Writer::new(options).unwrap();
    for (prefix, country, city, longitude_degrees, latitude_degrees) in NETWORKS {
        let text = |text: &str| Value::String(text.to_owned());
        let map = |pairs: Vec<(&str, Value)>| {
            Value::Map(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
        };
        let record = map(vec![
            ("city", map(vec![("names", map(vec![("en", text(city))]))])),
            ("country", map(vec![("iso_code", text(country))])),
            (
                "location",
                map(vec![
                    ("latitude", Value::Double(latitude_degrees)),
                    ("longitude", Value::Double(longitude_degrees)),
                ]),
            ),
        ]);
        writer.insert(prefix.parse().unwrap(), record).unwrap();
    }
    writer.finish().unwrap()
}
