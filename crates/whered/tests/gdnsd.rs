//! A configuration of gdnsd, converted, beside gdnsd itself: thousands of clients, equal answers.
//!
//! Not for: what cannot be converted (the unit tests of `zone/gdnsd`). It is skipped where `gdnsd`
//! is missing, unless `WHERED_REQUIRE` contains `peers`. Places come from MaxMind's test files
//! where they are, else from a database that the test writes.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]
#![allow(clippy::disallowed_methods, reason = "other programs tell nobody that they are ready")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use whered_dns::RecordType;
use whered_dns::message::{Message, Query};
use whered_mmdb::{Value, Writer, WriterOptions};

const WAIT: Duration = Duration::from_secs(20);

const ZONE: &str = "\
@ SOA ns1 hm 1 7200 30M 900 900
@ NS ns1
ns1 A 192.0.2.250
plain A 192.0.2.251
www 600/60 DYNA geoip!www
   MX 10 plain
near 600 DYNA geoip!near
cdn 60 DYNC geoip!cdn
all 300 DYNA multifo!all
pair DYNA simplefo!pair
w 300 DYNA weighted!w
eq 300 DYNA weighted!eq
m 300 DYNA metafo!m
s 1h DYNA static!s
www-eu 600 DYNA geoip!www/eu
@ 600 DYNA geoip!near
$ORIGIN sub
deep 600 DYNA geoip!www
alias CNAME www.@Z
";

const PLUGINS: &str = "
plugins => {
  geoip => {
    maps => {
      prod => {
        geoip2_db => city.mmdb,
        datacenters => [us, eu, as],
        map => {
          EU => { default => [eu, us], GB => [us], SE => { E => [as], default => [eu] } }
          AS => [as, eu, us],
          NA => { US => { WA => [eu, as], default => [us] } }
        }
        nets => { 10.0.0.0/8 => [as, us], 10.9.0.0/16 => [eu], 192.0.2.128/25 => eu,
                  2001:DB8::/32 => [us, eu] }
      }
      auto => {
        geoip2_db => city.mmdb,
        datacenters => [us, eu, as],
        auto_dc_coords => { us => [38.9, -77], eu => [50.1, 8.7], as => [35.7, 139.7] }
        nets => { 10.1.0.0/16 => as }
      }
    }
    resources => {
      www => { map => prod, dcmap => {
        us => 192.0.2.1, eu => [192.0.2.2, 192.0.2.3],
        as => { plugin => multifo, addrs_v4 => [192.0.2.4], addrs_v6 => [2001:db8::4] } } }
      near => { map => auto, dcmap => {
        us => 192.0.2.11, eu => { addrs_v4 => 192.0.2.12, addrs_v6 => [2001:db8::12] },
        as => 192.0.2.13 } }
      cdn => { map => prod, dcmap => {
        us => us.cdn.test., eu => eu.cdn.test., as => as.cdn.test. } }
    }
  }
  multifo => { all => { a => 192.0.2.31, b => 192.0.2.32, c => 192.0.2.33 } }
  simplefo => { pair => { primary => 192.0.2.41, secondary => 192.0.2.42 } }
  weighted => { w => { a => [192.0.2.51, 10], b => [192.0.2.52, 30] },
                eq => { multi => true, a => [192.0.2.53, 5], b => [192.0.2.54, 5] } }
  metafo => { resources => { m => { datacenters => [x, y], dcmap => {
    x => [192.0.2.61, 192.0.2.62], y => %multifo!all } } } }
  static => { s => 192.0.2.71 }
}
";

/// Names, and whether each answer must be the other's.
const NAMES: [(&str, bool); 14] = [
    ("www", true),
    ("near", true),
    ("cdn", true),
    ("all", true),
    ("pair", true),
    ("w", false),
    ("eq", true),
    ("m", true),
    ("s", true),
    ("www-eu", true),
    ("", true),
    ("deep.sub", true),
    ("plain", true),
    ("nobody", true),
];

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _told = Command::new("kill").arg(self.0.id().to_string()).status();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(5) {
            if matches!(self.0.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// gdnsd's program, or the reason for doing without is told.
fn gdnsd() -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin"];
    let found = folders.iter().map(|folder| Path::new(folder).join("gdnsd")).find(|p| p.exists());
    if found.is_none() {
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|what| what == "peers"), "gdnsd is missing");
        eprintln!("skipped: gdnsd is missing");
    }
    found
}

/// An address that nobody has at this moment, among those that no other peer is given.
fn free_address() -> SocketAddr {
    (5500..5550)
        .map(|port| SocketAddr::from(([127, 0, 0, 1], port)))
        .find(|address| {
            UdpSocket::bind(address).is_ok() && std::net::TcpListener::bind(address).is_ok()
        })
        .expect("one of fifty ports is free")
}

/// MaxMind's test file, or one of our own.
fn city_database() -> Vec<u8> {
    let shared = std::env::var_os("WHERED_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let file = shared.join("data/maxmind-db/test-data/GeoIP2-City-Test.mmdb");
    fs::read(file).unwrap_or_else(|_| own_database())
}

fn own_database() -> Vec<u8> {
    let options =
        WriterOptions { database_type: "GeoIP2-City".to_owned(), ..WriterOptions::default() };
    let mut writer = Writer::new(options).expect("right options");
    let text = |text: &str| Value::String(text.to_owned());
    let code = |key: &str, code: &str| Value::Map(vec![(key.to_owned(), text(code))]);
    for (network, continent, country, part, longitude, latitude) in [
        ("81.2.69.0/24", "EU", "GB", "ENG", -0.1, 51.5),
        ("89.160.20.112/28", "EU", "SE", "E", 15.6, 58.4),
        ("89.160.21.0/24", "EU", "SE", "AB", 18.0, 59.3),
        ("216.160.83.56/29", "NA", "US", "WA", -122.3, 47.3),
        ("216.161.0.0/16", "NA", "US", "CA", -118.2, 34.0),
        ("175.16.199.0/24", "AS", "CN", "22", 125.3, 43.9),
        ("2001:218::/32", "AS", "JP", "13", 139.7, 35.7),
        ("2a02:cf40::/29", "EU", "NO", "03", 10.7, 59.9),
    ] {
        let place = Value::Map(vec![
            ("latitude".to_owned(), Value::Double(latitude)),
            ("longitude".to_owned(), Value::Double(longitude)),
        ]);
        let record = Value::Map(vec![
            ("continent".to_owned(), code("code", continent)),
            ("country".to_owned(), code("iso_code", country)),
            ("location".to_owned(), place),
            ("subdivisions".to_owned(), Value::Array(vec![code("iso_code", part)])),
        ]);
        writer.insert(network.parse().expect("a network"), record).expect("a record");
    }
    writer.finish().expect("a database")
}

/// Both servers over the same data.
struct Both {
    gdnsd: SocketAddr,
    whered: SocketAddr,
    resp: SocketAddr,
    _running: [Running; 2],
    folder: PathBuf,
}

impl Drop for Both {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.folder);
    }
}

impl Both {
    /// gdnsd with a configuration, and whered with what the converter makes of it.
    fn start(name: &str, plugins: &str, zone: &str, admin_state: &str) -> Option<Both> {
        let program = gdnsd()?;
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _old = fs::remove_dir_all(&folder);
        for part in ["zones", "geoip", "run", "state"] {
            fs::create_dir_all(folder.join(part)).expect("a folder");
        }
        let address = free_address();
        let shown = folder.display();
        let options = format!(
            "options => {{ listen => [ {address} ], run_dir => {shown}/run, state_dir => \
             {shown}/state, udp_threads => 1, tcp_threads => 1 }}\n"
        );
        fs::write(folder.join("config"), format!("{options}{plugins}")).expect("a file");
        fs::write(folder.join("zones/example.test"), zone).expect("a file");
        fs::write(folder.join("geoip/city.mmdb"), city_database()).expect("a file");
        fs::write(folder.join("state/admin_state"), admin_state).expect("a file");
        let log = fs::File::create(folder.join("log")).expect("a file");
        let mut command = Command::new(program);
        command.arg("-c").arg(&folder).arg("start").stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a descriptor")).stderr(log);
        let peer = Running(command.spawn().expect("gdnsd starts"));
        let (ours, whered, resp) = start_converted(&folder);
        let both = Both { gdnsd: address, whered, resp, _running: [peer, ours], folder };
        let query =
            Query::new(&"plain.example.test".parse().expect("a name"), RecordType::A).build();
        let begun = Instant::now();
        while ask_one(both.gdnsd, &query).is_none() || ask_one(both.whered, &query).is_none() {
            let log = || fs::read_to_string(both.folder.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < WAIT, "no answer:\n{}", log());
        }
        Some(both)
    }
}

/// Converts, and serves that on free ports; gives the addresses of DNS and RESP.
fn start_converted(folder: &Path) -> (Running, SocketAddr, SocketAddr) {
    let program = env!("CARGO_BIN_EXE_whered");
    let out = folder.join("converted");
    let made = Command::new(program)
        .args(["zone", "convert-gdnsd"])
        .arg(folder)
        .arg("-o")
        .arg(&out)
        .output();
    let made = made.expect("the program runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut command = Command::new(program);
    command.args([
        "serve",
        "--dns",
        "127.0.0.1:0",
        "--resp",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
    ]);
    command.arg("--config").arg(out.join("whered.toml")).stdin(Stdio::null());
    let log = fs::File::create(folder.join("whered.log")).expect("a file");
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let running = Running(child);
    let mut addresses = BTreeMap::new();
    for line in lines.map_while(Result::ok).take_while(|line| line != "ready") {
        if let Some((door, address)) = line.split_once(' ') {
            addresses.extend(address.parse::<SocketAddr>().ok().map(|a| (door.to_owned(), a)));
        }
    }
    match (addresses.get("dns"), addresses.get("resp")) {
        (Some(dns), Some(resp)) => (running, *dns, *resp),
        _ => panic!("{}", fs::read_to_string(folder.join("whered.log")).unwrap_or_default()),
    }
}

fn ask_one(server: SocketAddr, query: &[u8]) -> Option<Message> {
    ask(server, &[query.to_vec()]).pop().flatten()
}

/// Asks many at once, again where a datagram was lost.
fn ask(server: SocketAddr, queries: &[Vec<u8>]) -> Vec<Option<Message>> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(server).expect("loopback is there");
    socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    let mut replies: Vec<Option<Message>> = (0..queries.len()).map(|_| None).collect();
    for _ in 0..5 {
        let waiting: Vec<usize> = (0..queries.len()).filter(|at| replies[*at].is_none()).collect();
        for chunk in waiting.chunks(64) {
            for at in chunk {
                let mut query = queries[*at].clone();
                query[..2].copy_from_slice(&((*at % 65_536) as u16).to_be_bytes());
                let _lost = socket.send(&query);
            }
            let mut bytes = [0; 4096];
            for _ in chunk {
                let Ok(size) = socket.recv(&mut bytes) else { break };
                let message = Message::read(&bytes[..size]).expect("a message");
                let found = chunk.iter().find(|at| **at % 65_536 == usize::from(message.id));
                if let Some(at) = found {
                    replies[*at] = Some(message);
                }
            }
        }
    }
    replies
}

/// What of a reply must be equal: the code, and the records in any order.
fn seen(message: &Message, with_ttl: bool) -> (String, BTreeSet<String>) {
    let records = message.answers.iter().map(|record| {
        let (owner, kind) = (record.owner.to_string().to_lowercase(), record.record_type.0);
        let ttl_seconds = if with_ttl { record.ttl_seconds } else { 0 };
        format!("{owner} {ttl_seconds} {kind} {:?}", record.data)
    });
    (message.rcode().to_string(), records.collect())
}

/// Addresses within and around what the configuration and the database tell apart.
fn clients() -> Vec<(IpAddr, u8)> {
    let mut state = 0x9e37_79b9_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let v4 = [
        "2.125.160.0",
        "67.43.156.0",
        "81.2.69.0",
        "89.160.20.0",
        "89.160.21.0",
        "216.160.83.0",
        "216.161.3.0",
        "175.16.199.0",
        "202.196.224.0",
        "10.9.3.0",
        "10.1.2.0",
        "10.200.0.0",
        "192.0.2.0",
        "111.235.160.0",
        "149.101.100.0",
    ];
    let v6 = ["2001:218::", "2001:db8::", "2001:db9::", "2a02:cf40::", "2a02:d280::", "2001:230::"];
    let mut clients = Vec::new();
    for _ in 0..120 {
        for base in v4 {
            let base: Ipv4Addr = base.parse().expect("an address");
            let address = Ipv4Addr::from(u32::from(base) | (random() & 0xff) as u32);
            clients.push((IpAddr::V4(address), 32));
        }
        for base in v6 {
            let base: Ipv6Addr = base.parse().expect("an address");
            let low = u128::from(random()) << 32;
            clients.push((IpAddr::V6(Ipv6Addr::from(u128::from(base) | low)), 128));
        }
        clients.push((IpAddr::V4(Ipv4Addr::from(random() as u32)), 32));
    }
    clients
}

/// Compares all names for all clients; gives how many answers were equal.
fn compare(both: &Both, with_ttl: bool) -> usize {
    let clients = clients();
    let mut equal = 0;
    let mut wrong = Vec::new();
    for (name, is_exact) in NAMES {
        let full = format!("{name}{}example.test", if name.is_empty() { "" } else { "." });
        let full = full.parse().expect("a name");
        for kind in [RecordType::A, RecordType::AAAA, RecordType::MX] {
            let queries: Vec<Vec<u8>> = clients
                .iter()
                .map(|(address, bits)| {
                    Query::new(&full, kind).client_subnet(*address, *bits).build()
                })
                .collect();
            let (theirs, ours) = (ask(both.gdnsd, &queries), ask(both.whered, &queries));
            let mut kinds: BTreeMap<bool, BTreeSet<_>> = BTreeMap::new();
            for ((client, theirs), ours) in clients.iter().zip(theirs).zip(ours) {
                let theirs = theirs.unwrap_or_else(|| panic!("gdnsd is silent to {client:?}"));
                let ours = ours.unwrap_or_else(|| panic!("whered is silent to {client:?}"));
                let (theirs, ours) = (seen(&theirs, with_ttl), seen(&ours, with_ttl));
                if !is_exact {
                    kinds.entry(true).or_default().insert(theirs);
                    kinds.entry(false).or_default().insert(ours);
                } else if theirs == ours {
                    equal += 1;
                } else {
                    wrong.push(format!(
                        "{name} {kind:?} {client:?}\n gdnsd  {theirs:?}\n whered {ours:?}"
                    ));
                }
            }
            assert_eq!(
                kinds.get(&true),
                kinds.get(&false),
                "{name}: by chance, but the same answers"
            );
        }
    }
    let first: Vec<_> = wrong.iter().take(10).cloned().collect();
    assert!(wrong.is_empty(), "{} differ, such as\n{}", wrong.len(), first.join("\n"));
    equal
}

/// One at a time: gdnsd shares its port with whoever asks for the same one, such as the other
/// test's.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn a_converted_configuration_answers_as_gdnsd_does() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(both) = Both::start("gdnsd-all-up", PLUGINS, ZONE, "") else { return };
    let equal = compare(&both, true);
    assert!(equal > 90_000, "{equal} answers were compared");
}

/// A command of RESP whose reply is `OK`.
fn command(server: SocketAddr, words: &[&str]) {
    let mut stream = TcpStream::connect(server).expect("whered accepts");
    stream.set_read_timeout(Some(WAIT)).expect("a timeout");
    let mut text = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| text.push_str(&format!("${}\r\n{word}\r\n", word.len())));
    stream.write_all(text.as_bytes()).expect("whered reads");
    let mut reply = [0; 5];
    stream.read_exact(&mut reply).expect("whered answers");
    assert_eq!(&reply, b"+OK\r\n", "{words:?}");
}

#[test]
fn what_is_taken_down_by_hand_is_left_out_alike() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let admin_state = "geoip/prod/eu => DOWN\ngeoip/auto/eu => DOWN\nmetafo/m/x => DOWN\n\
                       192.0.2.41/up => DOWN\n";
    let Some(both) = Both::start("gdnsd-some-down", PLUGINS, ZONE, admin_state) else { return };
    for (pool, site) in [
        ("geoip-www", "eu"),
        ("geoip-near", "eu"),
        ("geoip-cdn", "eu"),
        ("metafo-m", "x"),
        ("simplefo-pair", "primary"),
    ] {
        command(both.resp, &["SITE.DOWN", pool, site]);
    }
    // gdnsd cuts TTLs of what is down in ways of its own.
    let equal = compare(&both, false);
    assert!(equal > 90_000, "{equal} answers were compared");
}

/// The tree of `tests/data/gdnsd`, which has everything that is converted.
const TREE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/gdnsd");
/// Names of the tree whose answers are drawn: the same answers, by chance.
const DRAWN: [&str; 6] =
    ["one.weights", "odds.weights", "racks.weights", "rows.weights", "both.weights", "names"];

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a file");
        }
    }
}

/// The tree with a database, in a folder of the test's own.
fn tree(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _old = fs::remove_dir_all(&folder);
    copy_tree(Path::new(TREE), &folder);
    fs::write(folder.join("geoip/city.mmdb"), city_database()).expect("a file");
    folder
}

fn convert(folder: &Path, out: &Path) -> std::process::Output {
    let program = env!("CARGO_BIN_EXE_whered");
    let mut command = Command::new(program);
    command.args(["zone", "convert-gdnsd"]).arg(folder).arg("-o").arg(out);
    command.output().expect("the program runs")
}

#[test]
fn what_is_made_of_a_whole_tree_passes_check() {
    let folder = tree("gdnsd-tree-check");
    let out = folder.join("made/here");
    let made = convert(&folder, &out);
    let told = String::from_utf8_lossy(&made.stderr).into_owned();
    assert_eq!(made.status.code(), Some(0), "{told}");
    for option in [
        "listen",
        "chaos_response",
        "udp_threads",
        "tcp_threads",
        "tcp_timeout",
        "ok_thresh",
        "down_thresh",
        "max_proc",
        "extfile",
        "helper_failure_action",
        "zones_strict_data",
    ] {
        assert!(told.lines().any(|line| line.contains(option)), "{option} is not in\n{told}");
    }
    let checked = Command::new(env!("CARGO_BIN_EXE_whered"))
        .arg("check")
        .arg(out.join("whered.toml"))
        .output()
        .expect("the program runs");
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stderr));
    let again = convert(&folder, &out);
    assert_eq!(again.status.code(), Some(2), "existing files are not replaced");
    let names: Vec<_> = fs::read_dir(folder.join("made")).expect("a folder").collect();
    assert_eq!(names.len(), 1, "nothing else is left: {names:?}");
    let _removed = fs::remove_dir_all(&folder);
}

#[test]
fn a_tree_with_mistakes_is_told_them_and_leaves_nothing() {
    let folder = tree("gdnsd-tree-mistakes");
    let lines: String = (0..150).map(|number| format!("bad{number} A 1.2.{number}\n")).collect();
    let zone = fs::read_to_string(folder.join("zones/watched.test")).expect("a file");
    fs::write(folder.join("zones/watched.test"), format!("{zone}{lines}")).expect("a file");
    fs::write(folder.join("service.d/wrong.cfg"), "x => { plugin => tcp_connect }")
        .expect("a file");
    let out = folder.join("made");
    let made = convert(&folder, &out);
    let told = String::from_utf8_lossy(&made.stderr).into_owned();
    assert_eq!(made.status.code(), Some(1), "{told}");
    assert!(told.contains("service.d/wrong.cfg:1:6: tcp_connect without 'port'"), "{told}");
    assert!(told.contains("zones/watched.test:5:8: "), "{told}");
    assert!(told.contains("more mistakes") && told.lines().count() <= 103, "{told}");
    assert!(told.trim_end().ends_with("nothing was written"), "{told}");
    let left: Vec<_> = fs::read_dir(&folder)
        .expect("a folder")
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("made"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let _removed = fs::remove_dir_all(&folder);
}

#[test]
fn a_signal_leaves_the_whole_folder_or_none() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("gdnsd-signal");
    let _old = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("from/zones")).expect("a folder");
    let zone = "@ SOA ns hm 1 7200 900 1209600 900\n@ NS ns\nns A 192.0.2.1\n";
    for number in 0..400 {
        fs::write(folder.join(format!("from/zones/z{number}.test")), zone).expect("a file");
    }
    let (mut whole, mut none) = (0, 0);
    for round in 0..24_u64 {
        let out = folder.join("to");
        let mut child = Command::new(env!("CARGO_BIN_EXE_whered"))
            .args(["zone", "convert-gdnsd"])
            .arg(folder.join("from"))
            .arg("-o")
            .arg(&out)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        std::thread::sleep(Duration::from_millis(round * 8));
        let signal = if round % 2 == 0 { "-TERM" } else { "-INT" };
        let _told = Command::new("kill").args([signal, &child.id().to_string()]).status();
        let _status = child.wait().expect("it ends");
        let names: Vec<_> = fs::read_dir(&folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .filter(|name| name != "from")
            .collect();
        if names.is_empty() {
            none += 1;
            continue;
        }
        assert_eq!(names, ["to"], "no part is left");
        let zones = fs::read_dir(out.join("zones")).expect("a folder").count();
        assert!(zones == 400 && out.join("whered.toml").exists(), "{zones} zones");
        whole += 1;
        fs::remove_dir_all(&out).expect("it is ours");
    }
    assert_eq!(whole + none, 24);
    assert!(none > 0, "at least the first signal comes early");
    let _removed = fs::remove_dir_all(&folder);
}

/// Every owner of a zone of the tree, and some that it lacks.
fn names_of_tree() -> Vec<String> {
    let zone = fs::read_to_string(Path::new(TREE).join("zones/example.test")).expect("a file");
    let weights = fs::read_to_string(Path::new(TREE).join("zones/parts/weights")).expect("a file");
    let owner = |line: &str| {
        let word = line.split_whitespace().next()?;
        let is_owner = !line.starts_with([' ', '$', ';']);
        is_owner.then(|| word.replace("*.wild", "any.wild"))
    };
    let mut names: BTreeSet<String> = zone.lines().filter_map(owner).collect();
    let weights = weights.lines().filter_map(owner);
    names.extend(weights.map(|name| match &*name {
        "names.@Z" => "names".to_owned(),
        "here" => "here.deeper.weights".to_owned(),
        name => format!("{}.weights", name.trim_end_matches(".@F")),
    }));
    names.extend(["nobody", "weights", "below.www", "wild"].map(str::to_owned));
    names.into_iter().filter(|name| name != "1").collect()
}

/// gdnsd with the tree, and whered with what is made of it.
fn start_tree() -> Option<Both> {
    let program = gdnsd()?;
    let folder = tree("gdnsd-tree-answers");
    let address = free_address();
    let shown = folder.display();
    let config = fs::read_to_string(folder.join("config")).expect("a file");
    let config = config.replace(
        "listen => [ 127.0.0.1, \"[::1]:5301\" ],",
        &format!("listen => [ {address} ], run_dir => {shown}/run, state_dir => {shown}/state,"),
    );
    fs::write(folder.join("config"), config).expect("a file");
    let log = fs::File::create(folder.join("log")).expect("a file");
    let mut command = Command::new(program);
    command.arg("-c").arg(&folder).arg("start").stdin(Stdio::null());
    command.stdout(log.try_clone().expect("a descriptor")).stderr(log);
    let peer = Running(command.spawn().expect("gdnsd starts"));
    let (ours, whered, resp) = start_converted(&folder);
    let both = Both { gdnsd: address, whered, resp, _running: [peer, ours], folder };
    let query = Query::new(&"plain.example.test".parse().expect("a name"), RecordType::A).build();
    let begun = Instant::now();
    while ask_one(both.gdnsd, &query).is_none() || ask_one(both.whered, &query).is_none() {
        let log = fs::read_to_string(both.folder.join("log")).unwrap_or_default();
        assert!(begun.elapsed() < WAIT, "no answer:\n{log}");
    }
    Some(both)
}

/// What both say to all clients.
fn answers(
    both: &Both,
    name: &str,
    kind: RecordType,
    clients: &[(IpAddr, u8)],
) -> Vec<[Answer; 2]> {
    let full = match name {
        "@" => "example.test".to_owned(),
        name => format!("{name}.example.test"),
    };
    let full = full.parse().expect("a name");
    let query = |(client, bits): &(IpAddr, u8)| {
        Query::new(&full, kind).client_subnet(*client, *bits).build()
    };
    let queries: Vec<Vec<u8>> = clients.iter().map(query).collect();
    let read = |message: Option<Message>| {
        own_answer(&message.unwrap_or_else(|| panic!("a server is silent to {name} {kind:?}")))
    };
    let (theirs, ours) = (ask(both.gdnsd, &queries), ask(both.whered, &queries));
    theirs.into_iter().zip(ours).map(|(theirs, ours)| [read(theirs), read(ours)]).collect()
}

#[test]
fn a_converted_tree_answers_as_gdnsd_does() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(both) = start_tree() else { return };
    let clients: Vec<_> = clients().into_iter().step_by(7).collect();
    let kinds = [
        RecordType::A,
        RecordType::AAAA,
        RecordType::CNAME,
        RecordType::MX,
        RecordType::NS,
        RecordType::SOA,
        RecordType::TXT,
        RecordType(65_300),
    ];
    let (mut equal, mut wrong) = (0, Vec::new());
    for name in names_of_tree() {
        for kind in kinds {
            let answers = answers(&both, &name, kind, &clients);
            if DRAWN.contains(&&*name) {
                let [theirs, ours] = [0, 1]
                    .map(|side| answers.iter().map(|pair| &pair[side]).collect::<BTreeSet<_>>());
                if theirs != ours {
                    wrong.push(format!("{name} {kind:?}\n gdnsd  {theirs:?}\n whered {ours:?}"));
                }
                continue;
            }
            let differing =
                clients.iter().zip(&answers).filter(|(_, [theirs, ours])| theirs != ours);
            equal += answers.len();
            wrong.extend(differing.map(|(client, [theirs, ours])| {
                format!("{name} {kind:?} {client:?}\n gdnsd  {theirs:?}\n whered {ours:?}")
            }));
        }
    }
    let mut seen = BTreeSet::new();
    let is_first = |text: &&String| {
        let words: Vec<&str> = text.split_whitespace().take(2).collect();
        seen.insert(words.join(" "))
    };
    let first: Vec<_> = wrong.iter().filter(is_first).cloned().collect();
    assert!(wrong.is_empty(), "{} differ, such as\n{}", wrong.len(), first.join("\n"));
    assert!(equal > 100_000, "{equal} answers were compared");
}

/// A code and records.
type Answer = (String, BTreeSet<String>);

/// The code, and the answers at the name itself: gdnsd does not follow names of its zones.
fn own_answer(message: &Message) -> Answer {
    let owner = message.answers.first().map(|record| record.owner.to_string());
    let own = message.answers.iter().filter(|record| Some(record.owner.to_string()) == owner);
    let records = own
        .map(|record| format!("{} {} {:?}", record.ttl_seconds, record.record_type.0, record.data));
    (message.rcode().to_string(), records.collect())
}
