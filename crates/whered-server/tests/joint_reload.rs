//! Database, ruleset and zones replaced together under load: whoever asks meets one generation
//! whole.
//!
//! An answer of one generation alone: the zone has an alias whose TTL is the generation's number,
//! and it leads into a zone that answers from the database, whose record is that number, too. The
//! ruleset decides by a rule that stands as far down as the number says.
//!
//! `WHERED_SWAPS` says how often all are replaced (20 times without it).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "one who looks often leaves room for others")]
#![allow(clippy::print_stdout, reason = "the long form tells what it did")]

mod world;

use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use whered_dns::message::{Message, Query};
use whered_dns::{Choice, Context, RecordType, Synthesise, Transport, answer};
use whered_engine::mmdb::{Value, Writer, WriterOptions};
use whered_engine::rules::{Packet, Verdict};
use whered_engine::{Engine, Generation};
use whered_server::{Config, Server};

/// The most rules that stand before the one that decides.
const RULES_BEFORE: u64 = 50;

fn write_files(folder: &Path, number: u64) {
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    let record = Value::Map(vec![("version".to_owned(), Value::Uint32(number as u32))]);
    writer.insert("16.0.0.0/8".parse().unwrap(), record).unwrap();
    fs::write(folder.join("v.mmdb"), writer.finish().unwrap()).unwrap();
    let head = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nns A 127.0.0.1\n";
    let alias = format!("{head}q {} CNAME 1.0.0.16.origin.test.\n", number + 1);
    fs::write(folder.join("example.zone"), alias).unwrap();
    fs::write(folder.join("origin.zone"), head).unwrap();
    let mut rules = "chain input policy drop {\n".to_owned();
    for _ in 0..number % RULES_BEFORE {
        rules.push_str("    proto tcp dport 1 drop\n");
    }
    writeln!(rules, "    proto udp dport 53 accept\n}}").unwrap();
    fs::write(folder.join("edge.rules"), rules).unwrap();
}

fn config(folder: &Path) -> Config {
    let text = "[resp]\nlisten = []\n[http]\nlisten = []\n[dns]\nlisten = [\"127.0.0.1:0\"]\n\
        threads = 2\n[[database]]\nname = \"v\"\npath = \"v.mmdb\"\nreload = \"off\"\n\
        [[ruleset]]\nname = \"edge\"\npath = \"edge.rules\"\nreload = \"off\"\n\
        [[zone]]\nname = \"example.com\"\npath = \"example.zone\"\nreload = \"off\"\n\
        [[zone]]\nname = \"origin.test\"\npath = \"origin.zone\"\nreload = \"off\"\n\
        database_txt = { database = \"v\", fields = [\"version\"] }\n";
    Config::from_toml(text, &folder.join("whered.toml")).unwrap()
}

fn query() -> Vec<u8> {
    Query::new(&"q.example.com".parse().unwrap(), RecordType::TXT).build()
}

/// The number of the generation that a reply is from.
fn number_of(reply: &[u8]) -> u64 {
    let message = Message::read(reply).unwrap();
    let [alias, text] = &message.answers[..] else {
        panic!("an alias and a text, not {:?}", message.answers);
    };
    let from_zone = u64::from(alias.ttl_seconds) - 1;
    let from_database = String::from_utf8_lossy(&text.data[1..]).parse::<u64>().unwrap();
    assert_eq!(from_zone, from_database, "an answer of two generations");
    from_zone
}

/// What a generation says by itself: its zones, its database and its ruleset.
fn look_inside(engine: &Engine, generation: &Generation) -> u64 {
    let live = engine.live_zones(generation);
    let context = Context {
        synthesise: live.as_ref().map(|live| live as &dyn Synthesise),
        ..Context::new(Transport::Udp, [127, 0, 0, 1].into())
    };
    let mut choose = |_, _: &_| Choice::of(None, 0);
    let mut reply = Vec::new();
    answer(generation.zones(), &query(), &context, &mut choose, &mut reply);
    let number = number_of(&reply);
    let packet = Packet { protocol: 17, destination_port: 53, ..Packet::default() };
    let edge = generation.ruleset("edge").unwrap();
    let decision = edge.find(&packet, 0, engine.prefix_sets());
    let rules = edge.edition().rules() as u64;
    assert_eq!((decision.verdict, rules), (Verdict::Accept, number % RULES_BEFORE + 1));
    number
}

/// Asks one question after the other; gives how many were answered and how many were not.
fn ask(server: SocketAddr, stop: &AtomicBool) -> (u64, u64) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let (mut answered, mut lost, mut last, mut bytes) = (0, 0, 0, [0; 1500]);
    while !stop.load(Ordering::Relaxed) {
        socket.send(&query()).unwrap();
        match socket.recv(&mut bytes) {
            Ok(size) => {
                let number = number_of(&bytes[..size]);
                assert!(number >= last, "an answer of an older generation");
                (answered, last) = (answered + 1, number);
            }
            Err(_) => lost += 1,
        }
    }
    (answered, lost)
}

#[test]
fn every_answer_is_of_one_generation() {
    let swaps = std::env::var("WHERED_SWAPS").map_or(20, |text| text.parse::<u64>().unwrap());
    let folder = world::folder("joint_reload");
    write_files(&folder, 0);
    let config = config(&folder);
    let server = Server::start(config.clone()).unwrap();
    let (stop, inside) = (AtomicBool::new(false), AtomicU64::new(0));
    let (answered, lost) = thread::scope(|scope| {
        let asking = [(); 2].map(|()| scope.spawn(|| ask(server.dns_addresses()[0], &stop)));
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                look_inside(server.engine(), &server.engine().generation());
                inside.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_micros(200));
            }
        });
        for number in 1..=swaps {
            write_files(&folder, number);
            server.reload(config.clone()).unwrap();
            assert_eq!(look_inside(server.engine(), &server.engine().generation()), number);
        }
        stop.store(true, Ordering::Relaxed);
        let totals = asking.map(|thread| thread.join().unwrap());
        totals.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    });
    println!(
        "{swaps} generations, {answered} answers by UDP, {lost} lost, {} looks inside",
        inside.load(Ordering::Relaxed)
    );
    assert!(answered > 0 && lost == 0, "{answered} answered, {lost} lost");
    server.stop().unwrap();
}
