//! Zones of reversed addresses: blocklists against a search by hand and against Debian's rbldnsd,
//! databases as TXT. Without rbldnsd that part is skipped, unless `WHERED_REQUIRE` contains
//! `peers`.

mod support;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use support::{Folder, database, open, place_database};
use whered_dns::message::{Message, Query};
use whered_dns::{Choice, Context, Rcode, RecordType, Synthesise, Transport};
use whered_engine::ip::Prefix;
use whered_engine::{
    BlocklistSource, DatabaseTxtSource, Engine, ReversedSource, Setup, TxtField, ZoneSource,
};

const APEX: &[u8] = b"$TTL 3000\n@ SOA ns.example.net. hm.example.net. 1 600 300 86400 200\n\
                      @ NS ns.example.net.\n";
const ORIGIN: &str = "bl.example.com";
const LISTED: &str = "Listed: http://example.com/?$ costs $$5";

fn zone(folder: &Folder, reversed: ReversedSource) -> ZoneSource {
    let path = folder.file("apex.zone", APEX);
    ZoneSource {
        name: ORIGIN.to_owned(),
        path,
        reversed: Some(reversed),
        dnssec: whered_dns::Dnssec::Refuse,
        sign: None,
        is_secondary: false,
        member: None,
        follows_file: true,
    }
}

fn blocklist(folder: &Folder) -> Arc<Engine> {
    let source = BlocklistSource {
        set: "bad".to_owned(),
        address: Ipv4Addr::new(127, 0, 0, 2),
        text: Some(LISTED.to_owned()),
        ttl_seconds: 300,
    };
    let zones = vec![zone(folder, ReversedSource::Blocklist(source))];
    open(&folder.path().join("data"), Setup { zones, ..Setup::default() })
}

/// The name of an address below the origin.
fn reversed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.{ORIGIN}")
        }
        IpAddr::V6(v6) => {
            let digits = format!("{:032x}", v6.to_bits());
            let labels: Vec<String> = digits.chars().rev().map(String::from).collect();
            format!("{}.{ORIGIN}", labels.join("."))
        }
    }
}

fn query(name: &str, record_type: RecordType) -> Vec<u8> {
    Query::new(&name.parse().expect("a name"), record_type).build()
}

fn ask(engine: &Engine, query: &[u8]) -> Message {
    let generation = engine.generation();
    let live = engine.live_zones(&generation);
    let context = Context {
        synthesise: live.as_ref().map(|live| live as &dyn Synthesise),
        ..Context::new(Transport::Udp, Ipv4Addr::LOCALHOST.into())
    };
    let mut choose = |_, _: &_| Choice::of(None, 0);
    let mut reply = Vec::new();
    whered_dns::answer(generation.zones(), query, &context, &mut choose, &mut reply);
    Message::read(&reply).expect("a reply")
}

/// The one text of a reply, its strings joined.
fn text(message: &Message) -> Option<String> {
    let record = message.answers.first()?;
    let (mut text, mut rest) = (Vec::new(), &record.data[..]);
    while let Some((&length, after)) = rest.split_first() {
        text.extend_from_slice(&after[..length.into()]);
        rest = &after[length.into()..];
    }
    Some(String::from_utf8(text).expect("text"))
}

#[test]
fn members_are_listed_as_soon_as_they_are_added_and_no_longer_when_they_are_gone() {
    let folder = Folder::new();
    let engine = blocklist(&folder);
    let address = "192.0.2.77".parse().expect("an address");
    let a = query(&reversed(address), RecordType::A);
    let txt = query(&reversed(address), RecordType::TXT);
    assert_eq!(ask(&engine, &a).rcode(), Rcode::NXDOMAIN, "there is no such set yet");
    let wide: [Prefix; 1] = ["192.0.2.0/24".parse().expect("a prefix")];
    let narrow: [Prefix; 1] = ["192.0.2.77/32".parse().expect("a prefix")];
    let sets = engine.prefix_sets();
    sets.add("bad", &wide, None, None).expect("it is written");
    let found = ask(&engine, &a);
    assert_eq!(
        (found.answers[0].ttl_seconds, &found.answers[0].data[..]),
        (300, &[127, 0, 0, 2][..])
    );
    let expected = "Listed: http://example.com/?192.0.2.77 costs $5";
    assert_eq!(text(&ask(&engine, &txt)).as_deref(), Some(expected));
    sets.add("bad", &narrow, Some(b"127.0.0.9:worse"), None).expect("it is written");
    assert_eq!(ask(&engine, &a).answers[0].data, [127, 0, 0, 9]);
    assert_eq!(text(&ask(&engine, &txt)).as_deref(), Some("worse"));
    sets.add("bad", &narrow, Some(b"127.0.0.9:"), Some(1)).expect("it is written");
    assert_eq!(ask(&engine, &a).answers[0].data, [127, 0, 0, 2], "an expired one hides nothing");
    sets.remove("bad", &wide).expect("it is written");
    let gone = ask(&engine, &a);
    assert_eq!((gone.rcode(), gone.answers.len()), (Rcode::NXDOMAIN, 0));
    assert_eq!(
        (gone.authorities[0].record_type, gone.authorities[0].ttl_seconds),
        (RecordType::SOA, 200)
    );
}

#[test]
fn a_database_tells_of_addresses_in_txt() {
    let folder = Folder::new();
    let rows = [
        ("10.1.0.0/16", Some((8.5, 50.25))),
        ("10.2.0.0/16", None),
        ("2001:db8::/32", Some((1.5, 2.5))),
    ];
    let source = DatabaseTxtSource {
        database: "city".to_owned(),
        fields: vec![
            TxtField::Path("location.longitude".parse().expect("a path")),
            TxtField::Network,
            TxtField::Path("location.latitude".parse().expect("a path")),
        ],
        ttl_seconds: 60,
    };
    let zones = vec![zone(&folder, ReversedSource::DatabaseTxt(source))];
    let mut setup = Setup { zones, ..Setup::default() };
    let refused =
        Engine::open(whered_engine::EngineOptions { setup: setup.clone(), ..Default::default() });
    let refused = refused.err().expect("the database is missing").to_string();
    assert_eq!(refused, "zone 'bl.example.com': no such database 'city'");
    setup.databases = vec![database("city", folder.file("city.mmdb", &place_database(&rows)))];
    let engine = open(&folder.path().join("data"), setup);
    let tell = |address: &str| {
        let address: IpAddr = address.parse().expect("an address");
        ask(&engine, &query(&reversed(address), RecordType::TXT))
    };
    assert_eq!(text(&tell("10.1.2.3")).as_deref(), Some("8.5 | 10.1.0.0/16 | 50.25"));
    assert_eq!(text(&tell("10.2.2.3")).as_deref(), Some(" | 10.2.0.0/16 | "));
    assert_eq!(text(&tell("2001:db8::1")).as_deref(), Some("1.5 | 2001:db8::/32 | 2.5"));
    assert_eq!(tell("10.30.2.3").rcode(), Rcode::NXDOMAIN);
    let a = ask(&engine, &query("3.2.1.10.bl.example.com", RecordType::A));
    assert_eq!((a.rcode(), a.answers.len(), a.authorities.len()), (Rcode::NOERROR, 0, 1));
}

/// A sequence that is the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

/// Values, and how rbldnsd's files write them.
const VALUES: [(Option<&str>, &str); 8] = [
    (None, ""),
    (Some(":4"), ":4"),
    (Some("127.0.0.5"), ":127.0.0.5"),
    (Some("127.1.2.6:six $ and $$"), ":127.1.2.6:six $ and $$"),
    (Some(":7:"), ":7:"),
    (Some("::only a text"), "only a text"),
    (Some("plain, for $"), "plain, for $"),
    (Some(":8: http://example.com/$?x=y:z"), ":8: http://example.com/$?x=y:z"),
];

/// Members around few addresses, so that many lie in each other.
fn members(numbers: &mut Numbers) -> BTreeMap<Prefix, usize> {
    let mut members = BTreeMap::new();
    while members.len() < 3000 {
        let value = numbers.below(VALUES.len() as u64) as usize;
        let address = some_address(numbers);
        let length = match (address, numbers.below(40)) {
            (IpAddr::V4(_), 0) => 20 + numbers.below(6),
            (IpAddr::V4(_), _) => 26 + numbers.below(7),
            (IpAddr::V6(_), 0) => 61 + numbers.below(6),
            (IpAddr::V6(_), _) => 126 + numbers.below(3),
        } as u8;
        members.insert(Prefix::new(address, length).expect("a length"), value);
    }
    members
}

fn last_of(prefix: &Prefix) -> IpAddr {
    let left = u32::from(prefix.length_bits());
    match prefix.address() {
        IpAddr::V4(v4) => {
            let ones = u32::MAX.checked_shr(left).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() | ones).into()
        }
        IpAddr::V6(v6) => {
            let ones = u128::MAX.checked_shr(left).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() | ones).into()
        }
    }
}

fn some_address(numbers: &mut Numbers) -> IpAddr {
    let low = numbers.below(1 << 16);
    if numbers.below(3) > 0 {
        let [high, middle] = [numbers.below(2) as u8, numbers.below(20) as u8];
        let [third, last] = (low as u16).to_be_bytes();
        return Ipv4Addr::new(10 - 7 * high, middle, third & 31, last & 63).into();
    }
    let high = 0x2001_0db8 << 96 | u128::from(numbers.below(16)) << 92;
    Ipv6Addr::from_bits(high | u128::from(low & 15) << 64 | u128::from(low >> 12)).into()
}

#[test]
fn the_smallest_member_answers_as_a_search_by_hand_finds_it() {
    let folder = Folder::new();
    let engine = blocklist(&folder);
    let mut numbers = Numbers(7);
    let members = members(&mut numbers);
    fill(&engine, &members);
    let mut listed = 0;
    for _ in 0..5000 {
        let address = some_address(&mut numbers);
        let around = members.iter().filter(|(prefix, _)| prefix.contains(address));
        let smallest = around.max_by_key(|(prefix, _)| prefix.length_bits());
        let expected = smallest.map(|(_, value)| match value {
            1 => [127, 0, 0, 4],
            2 => [127, 0, 0, 5],
            3 => [127, 1, 2, 6],
            4 => [127, 0, 0, 7],
            7 => [127, 0, 0, 8],
            _ => [127, 0, 0, 2],
        });
        let found = ask(&engine, &query(&reversed(address), RecordType::A));
        let data = found.answers.first().map(|record| &record.data[..]);
        assert_eq!(data, expected.as_ref().map(|data| &data[..]), "{address}");
        listed += usize::from(data.is_some());
    }
    assert!((500..4900).contains(&listed), "{listed}");
}

fn fill(engine: &Engine, members: &BTreeMap<Prefix, usize>) {
    for (prefix, value) in members {
        let value = VALUES[*value].0.map(str::as_bytes);
        engine.prefix_sets().add("bad", &[*prefix], value, None).expect("it is written");
    }
}

/// rbldnsd as a process of this test, ended with it.
struct Rbldnsd {
    child: Child,
    socket: UdpSocket,
}

impl Rbldnsd {
    fn start(folder: &Folder, members: &BTreeMap<Prefix, usize>) -> Option<Rbldnsd> {
        let places = ["/usr/sbin/rbldnsd", "/usr/local/sbin/rbldnsd", "/usr/bin/rbldnsd"];
        let program = places.into_iter().find(|path| Path::new(path).exists())?;
        let head = format!(
            "$SOA 3000 ns.example.net hm.example.net 1 600 300 86400 200\n\
             $NS 3000 ns.example.net\n$TTL 300\n:127.0.0.2:{LISTED}\n"
        );
        let (mut ipv4, mut ipv6) = (head.clone(), head);
        for (prefix, value) in members {
            let file = if prefix.address().is_ipv4() { &mut ipv4 } else { &mut ipv6 };
            writeln!(file, "{prefix} {}", VALUES[*value].1).expect("memory takes everything");
        }
        folder.file("ipv4", ipv4.as_bytes());
        folder.file("ipv6", ipv6.as_bytes());
        let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let address: SocketAddr = free.expect("a free address");
        let log = std::fs::File::create(folder.path().join("log")).expect("a file");
        let child = Command::new(program)
            .args(["-n", "-b", &format!("127.0.0.1/{}", address.port()), "-w"])
            .arg(folder.path())
            .args([format!("{ORIGIN}:ip4trie:ipv4"), format!("{ORIGIN}:ip6trie:ipv6")])
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("rbldnsd starts");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(address).expect("an address");
        let rbldnsd = Rbldnsd { child, socket };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !is_served(address) {
            let log = || std::fs::read_to_string(folder.path().join("log"));
            assert!(Instant::now() < deadline, "no answer: {:?}", log());
        }
        Some(rbldnsd)
    }

    fn ask(&self, query: &[u8], patience: Duration) -> Option<Message> {
        self.socket.set_read_timeout(Some(patience)).expect("a time");
        self.socket.send(query).ok()?;
        let mut bytes = [0; 4096];
        let size = self.socket.recv(&mut bytes).ok()?;
        Some(Message::read(&bytes[..size]).expect("a reply"))
    }
}

/// Whether an answer comes in time, to a socket of its own: a late one is for nobody. It is not
/// connected, so that a port without a server is silence too, and waited for.
fn is_served(address: SocketAddr) -> bool {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a time");
    socket.send_to(&query(ORIGIN, RecordType::SOA), address).expect("it is sent");
    socket.recv(&mut [0; 512]).is_ok()
}

impl Drop for Rbldnsd {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// What a reply says, in a line. Of the authority only the SOA counts: rbldnsd tells the zone's NS
/// beside positive answers, and ours are minimal.
fn said(message: &Message) -> String {
    let mut said = format!("{} aa {}", message.rcode(), message.is_authoritative());
    let soa = message.authorities.iter().filter(|record| record.record_type == RecordType::SOA);
    for record in message.answers.iter().chain(soa) {
        let (owner, ttl) = (record.owner.to_string().to_lowercase(), record.ttl_seconds);
        let data = record.data.escape_ascii();
        write!(said, ", {owner} {ttl} {} {data}", record.record_type).expect("memory");
    }
    said
}

/// Whether addresses may be below a name: rbldnsd says NXDOMAIN there, which denies those too
/// (RFC 8020); we say that there is nothing of the type.
fn may_have_names_below(name: &str) -> bool {
    let labels: Vec<&str> = name[..name.len() - ORIGIN.len() - 1].split('.').collect();
    let are_digits =
        labels.iter().all(|l| l.len() == 1 && l.chars().all(|c| c.is_ascii_hexdigit()));
    let are_octets = labels.iter().all(|label| label.parse::<u8>().is_ok());
    (are_digits && labels.len() < 32) || (are_octets && labels.len() < 4)
}

#[test]
fn a_blocklist_answers_as_rbldnsd_does() {
    let folder = Folder::new();
    let mut numbers = Numbers(11);
    let members = members(&mut numbers);
    let Some(rbldnsd) = Rbldnsd::start(&folder, &members) else {
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        let reason = "rbldnsd is not installed (package rbldnsd)";
        assert!(!required.split(',').any(|word| word == "peers"), "{reason}");
        println!("skipped: {reason}");
        return;
    };
    let engine = blocklist(&folder);
    fill(&engine, &members);
    let mut names: Vec<String> = (0..4000).map(|_| reversed(some_address(&mut numbers))).collect();
    for prefix in members.keys().take(2000) {
        names.push(reversed(prefix.address()));
        names.push(reversed(last_of(prefix)));
    }
    for odd in [
        "x",
        "3",
        "3.10",
        "01.2.3.10",
        "1.2.3.256",
        "4.1.2.3.10",
        "8.b.d.0.1.0.0.2",
        "*",
        "-1.2.3.10",
    ] {
        names.push(format!("{odd}.{ORIGIN}"));
    }
    let (mut below, mut differing) = (0, Vec::new());
    for name in &names {
        for record_type in [RecordType::A, RecordType::TXT, RecordType::AAAA, RecordType::MX] {
            let query = query(name, record_type);
            let ours = said(&ask(&engine, &query));
            let reply = rbldnsd.ask(&query, Duration::from_secs(5)).expect("rbldnsd answers");
            let theirs = said(&reply);
            if ours == theirs {
                continue;
            }
            if reply.rcode() == Rcode::NXDOMAIN && may_have_names_below(name) {
                assert_eq!(ours, theirs.replacen("NXDOMAIN", "NOERROR", 1), "{name}");
                below += 1;
                continue;
            }
            differing.push(format!("{name} {record_type}\n  whered  {ours}\n  rbldnsd {theirs}"));
        }
    }
    println!("{} names, {below} questions where names may be below", names.len());
    let count = differing.len();
    differing.truncate(20);
    assert!(differing.is_empty(), "{count} differ:\n{}", differing.join("\n"));
}
