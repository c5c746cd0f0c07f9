//! What the tests of answers share: the zones of `tests/data`, one call, and sections as text.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part")]

use std::net::IpAddr;

use whered_dns::message::{Message, Query, Record};
use whered_dns::{
    Answer, Choice, Client, Context, Name, Outcome, Pool, RecordType, Transport, Zone, Zones,
    answer,
};

pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub fn zone(origin: &str, text: &str) -> Zone {
    let mut include = |path: &str| Err(format!("no file {path}"));
    Zone::from_master_file(&name(origin), text.as_bytes(), &mut include)
        .unwrap_or_else(|error| panic!("{error}"))
}

pub fn pool(pool_name: &str, owners: &[&str]) -> Pool {
    let answers = vec![
        Answer { ipv4: vec!["198.51.100.1".parse().unwrap()], ..Answer::default() },
        Answer {
            ipv4: vec!["198.51.100.2".parse().unwrap(), "198.51.100.3".parse().unwrap()],
            ipv6: vec!["2001:db8:2::1".parse().unwrap()],
            ..Answer::default()
        },
    ];
    let owners = owners.iter().map(|owner| name(owner)).collect();
    Pool { name: pool_name.into(), owners, ttl_seconds: 30, answers }
}

/// example.com, its served child kid.example.com, example.net, and one pool.
pub fn zones() -> Zones {
    let net = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nwww A 192.0.2.80\n\
               back CNAME www.example.com.\n";
    Zones::builder()
        .add_zone(zone("example.com", include_str!("../data/example.com.zone")))
        .add_zone(zone("example.net", net))
        .add_pool(pool("www", &["pool.example.com", "new.ent2.example.com", "*.wpool.example.com"]))
        .build()
        .unwrap()
}

pub struct Asked {
    pub outcome: Outcome,
    pub message: Message,
    pub bytes: Vec<u8>,
    pub client: Option<Client>,
}

/// Asks with a chooser that takes answer 1 with scope 20.
pub fn ask(zones: &Zones, query: &[u8], transport: Transport) -> Asked {
    ask_choosing(zones, query, transport, Choice::of(Some(1), 20))
}

pub fn ask_choosing(zones: &Zones, query: &[u8], transport: Transport, choice: Choice) -> Asked {
    let source: IpAddr = "203.0.113.77".parse().unwrap();
    let context = Context::new(transport, source);
    let (mut bytes, mut client) = (vec![1, 2, 3], None);
    let mut choose = |_: usize, told: &Client| {
        assert!(client.replace(*told).is_none(), "asked twice");
        choice
    };
    let outcome = answer(zones, query, &context, &mut choose, &mut bytes);
    let message = Message::read(&bytes).unwrap_or_else(|error| panic!("{error}: {bytes:?}"));
    Asked { outcome, message, bytes, client }
}

pub fn query(owner: &str, record_type: RecordType) -> Query {
    Query::new(&name(owner), record_type)
}

/// A section as sorted lines `owner TTL type data`, data of names and addresses readable.
pub fn lines(section: &[Record]) -> Vec<String> {
    let mut lines: Vec<String> = section
        .iter()
        .map(|record| {
            let data = match (record.record_type, record.data.as_slice()) {
                (RecordType::A, data) => {
                    std::net::Ipv4Addr::from(<[u8; 4]>::try_from(data).unwrap()).to_string()
                }
                (RecordType::AAAA, data) => {
                    std::net::Ipv6Addr::from(<[u8; 16]>::try_from(data).unwrap()).to_string()
                }
                (RecordType::NS | RecordType::CNAME | RecordType::PTR, data) => {
                    Name::from_wire(data).unwrap().to_string()
                }
                (RecordType::MX, data) => Name::from_wire(&data[2..]).unwrap().to_string(),
                (RecordType::SRV, data) => Name::from_wire(&data[6..]).unwrap().to_string(),
                (RecordType::SOA, _) => "...".to_owned(),
                (_, data) => data.escape_ascii().to_string(),
            };
            format!("{} {} {} {data}", record.owner, record.ttl_seconds, record.record_type)
        })
        .collect();
    lines.sort();
    lines
}
