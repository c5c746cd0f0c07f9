//! `[[zone.alias]]`: addresses that BIND, NSD and Knot tell of a name, answered at an apex.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]

mod transfer_peers;

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use transfer_peers::{Kind, Ours, Peer, WAIT, folder, free_address, until};
use whered_dns::message::{Message, Query};
use whered_dns::{KeyAlgorithm, Name, Rcode, RecordType};
use whered_engine::KeyDirectory;
use whered_server::{Config, Server};

const ZONE: &str = "$TTL 60\n@ SOA ns hm 1 2 3 4 30\n@ NS ns\n@ MX 10 mail\nns A 192.0.2.1\n\
                    mail A 192.0.2.2\nwww TXT \"of the zone\"\n";
/// A zone of the other server.
const TARGETS: &str = "$TTL 300\n@ SOA ns.example.com. hm.example.com. 1 3600 600 86400 60\n\
                       @ NS ns.example.com.\nns A 127.0.0.1\nlb A 198.51.100.1\n\
                       lb A 198.51.100.2\nlb AAAA 2001:db8::1\nchain CNAME lb\n\
                       text TXT \"no address\"\n";

/// Our server of `alias.test`, which asks `resolver`.
fn start(folder: PathBuf, resolver: SocketAddr, more: &str) -> Ours {
    fs::write(folder.join("alias.zone"), ZONE).unwrap();
    let address = free_address();
    let text = format!(
        "data_dir = \"data\"\n[resp]\nlisten = []\n[http]\nlisten = [\"127.0.0.1:0\"]\n\
         [dns]\nlisten = [\"{address}\"]\nthreads = 1\nresolvers = [\"{resolver}\"]\n\
         [[zone]]\nname = \"alias.test\"\npath = \"alias.zone\"\n{more}"
    );
    let mut ours = Ours { server: None, address, folder, text };
    ours.open();
    ours
}

fn ask(ours: &Ours, owner: &str, record_type: RecordType) -> Message {
    let name: Name = owner.parse().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(WAIT)).unwrap();
    let query = Query::new(&name, record_type).dnssec_ok().build();
    socket.send_to(&query, ours.address).unwrap();
    let mut bytes = [0; 2000];
    let size = socket.recv(&mut bytes).unwrap();
    Message::read(&bytes[..size]).unwrap()
}

/// The addresses of a name, without signatures, in order.
fn addresses(ours: &Ours, owner: &str) -> Vec<String> {
    let mut found = Vec::new();
    for record_type in [RecordType::A, RecordType::AAAA] {
        let message = ask(ours, owner, record_type);
        assert_eq!(message.rcode(), Rcode::NOERROR, "{owner} {record_type}");
        for record in message.answers {
            if let Ok(octets) = <[u8; 4]>::try_from(record.data.as_slice()) {
                found.push(Ipv4Addr::from(octets).to_string());
            } else if let Ok(octets) = <[u8; 16]>::try_from(record.data.as_slice()) {
                found.push(Ipv6Addr::from(octets).to_string());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn an_apex_has_the_addresses_of_its_target_beside_its_own_records() {
    for kind in Kind::ALL {
        let at = folder(&format!("alias-{kind:?}"));
        let Some(peer) = Peer::primary(kind, &at, free_address(), TARGETS) else { return };
        let more = "[[zone.alias]]\ntarget = \"lb.example.com\"\nttl_seconds = 5\n\
                    [[zone.alias]]\nname = \"www.alias.test\"\ntarget = \"chain.example.com\"\n\
                    ttl_seconds = 5\n\
                    [[zone.alias]]\nname = \"none.alias.test\"\ntarget = \"text.example.com\"\n";
        let mut ours = start(at, peer.address, more);
        let all = ["198.51.100.1", "198.51.100.2", "2001:db8::1"];
        // Another server may come up later than ours.
        let answers = || ask(&ours, "alias.test", RecordType::A).rcode() == Rcode::NOERROR;
        until("the target is found", answers);
        assert_eq!(addresses(&ours, "alias.test"), all, "{kind:?}");
        until("the second target is found", || {
            ask(&ours, "www.alias.test", RecordType::A).rcode() == Rcode::NOERROR
        });
        assert_eq!(addresses(&ours, "www.alias.test"), all, "{kind:?}, by way of a CNAME");
        for (record_type, count) in [(RecordType::SOA, 1), (RecordType::NS, 1), (RecordType::MX, 1)]
        {
            let message = ask(&ours, "alias.test", record_type);
            assert_eq!(message.answers.len(), count, "{record_type}");
        }
        assert_eq!(ask(&ours, "www.alias.test", RecordType::TXT).answers.len(), 1);
        let without = ask(&ours, "none.alias.test", RecordType::A);
        assert_eq!(without.rcode(), Rcode::SERVFAIL);
        assert_eq!(without.edns.unwrap().options, [(15, vec![0, 22])]);
        // Other addresses come after the TTL, and one family may go.
        let serial_2 = TARGETS.replace(" 1 3600", " 2 3600").replace("lb AAAA 2001:db8::1\n", "");
        peer.reload(&serial_2.replace("198.51.100.2", "198.51.100.3"));
        until("the changed addresses are served", || {
            addresses(&ours, "alias.test") == ["198.51.100.1", "198.51.100.3"]
        });
        let denied = ask(&ours, "alias.test", RecordType::AAAA);
        assert_eq!((denied.rcode(), denied.authorities.len()), (Rcode::NOERROR, 1));
        // A restart waits for the first lookup, and a resolver that is gone takes nothing away.
        ours.close();
        ours.open();
        assert_eq!(addresses(&ours, "alias.test"), ["198.51.100.1", "198.51.100.3"]);
        drop(peer);
        until("the failure is seen", || {
            ours.metrics().contains("whered_zone_alias_up{alias=\"alias.test.\"} 0\n")
        });
        assert_eq!(addresses(&ours, "alias.test"), ["198.51.100.1", "198.51.100.3"]);
    }
}

/// A resolver that answers A with an address and AAAA with SERVFAIL, after answers that somebody
/// else could have sent.
fn half_resolver(socket: &UdpSocket) {
    let mut bytes = [0; 1500];
    while let Ok((size, client)) = socket.recv_from(&mut bytes) {
        let Ok(query) = Message::read(&bytes[..size]) else { return };
        // The question is of one name, and OPT comes behind it.
        let end = 12 + query.questions[0].name.as_wire().len() + 4;
        let answer = |id: u16, last: u8| {
            let is_ipv4 = query.questions[0].record_type == RecordType::A;
            let rcode = if is_ipv4 { 0 } else { 2 };
            let head = [0x81, 0x80 | rcode, 0, 1, 0, u8::from(is_ipv4), 0, 0, 0, 0];
            let mut reply = [&id.to_be_bytes()[..], &head, &bytes[12..end]].concat();
            if is_ipv4 {
                let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 198, 51, 100, last];
                reply.extend_from_slice(&record);
            }
            reply
        };
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        stranger.send_to(&answer(query.id, 66), client).unwrap();
        socket.send_to(&answer(query.id.wrapping_add(1), 67), client).unwrap();
        let mut other_name = answer(query.id, 68);
        other_name[13] ^= 1;
        socket.send_to(&other_name, client).unwrap();
        socket.send_to(&answer(query.id, 1), client).unwrap();
    }
}

#[test]
fn one_family_serves_while_the_other_fails_and_answers_of_others_do_not_count() {
    let resolver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = resolver.local_addr().unwrap();
    let resolving = std::thread::spawn(move || half_resolver(&resolver));
    let more = "[[zone.alias]]\ntarget = \"lb.example.com\"\nttl_seconds = 5\n";
    let ours = start(folder("alias-half"), address, more);
    until("A is served", || ask(&ours, "alias.test", RecordType::A).rcode() == Rcode::NOERROR);
    assert_eq!(addresses(&ours, "alias.test"), ["198.51.100.1"]);
    let metrics = ours.metrics();
    assert!(metrics.contains("whered_zone_alias_up{alias=\"alias.test.\"} 1\n"), "{metrics}");
    drop(ours);
    // Not a message: the resolver ends.
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"end", address).unwrap();
    resolving.join().unwrap();
}

#[test]
fn an_alias_of_a_zone_that_is_signed_here_has_signatures() {
    let at = folder("alias-signed");
    let Some(peer) = Peer::primary(Kind::Nsd, &at, free_address(), TARGETS) else { return };
    let origin: Name = "alias.test".parse().unwrap();
    fs::create_dir_all(at.join("data/keys")).unwrap();
    let keys = KeyDirectory::new(at.join("data/keys/alias.test"), origin);
    keys.create(KeyAlgorithm::EcdsaP256Sha256, None).unwrap();
    let more = "sign = true\n[[zone.alias]]\ntarget = \"lb.example.com\"\nttl_seconds = 5\n";
    let ours = start(at, peer.address, more);
    until("the target is found", || {
        ask(&ours, "alias.test", RecordType::A).rcode() == Rcode::NOERROR
    });
    for (record_type, addresses) in [(RecordType::A, 2), (RecordType::AAAA, 1)] {
        let message = ask(&ours, "alias.test", record_type);
        let covers = |record: &&whered_dns::message::Record| {
            record.record_type == RecordType::RRSIG
                && record.data[..2] == record_type.0.to_be_bytes()
        };
        assert_eq!(message.answers.len(), addresses + 1, "{record_type}");
        assert_eq!(message.answers.iter().filter(covers).count(), 1, "{record_type}");
    }
}

#[test]
fn a_name_with_an_address_or_a_cname_of_its_own_is_refused() {
    let at = folder("alias-conflict");
    fs::write(at.join("alias.zone"), format!("{ZONE}c CNAME www\n")).unwrap();
    for (owner, found) in
        [("mail", "found A at mail.alias.test."), ("c", "found CNAME at c.alias.test.")]
    {
        let text = format!(
            "[dns]\nlisten = [\"127.0.0.1:0\"]\n[[zone]]\nname = \"alias.test\"\n\
             path = \"alias.zone\"\n[[zone.alias]]\nname = \"{owner}.alias.test\"\n\
             target = \"lb.example.com\"\n"
        );
        let config = Config::from_toml(&text, &at.join("whered.toml")).unwrap();
        let error = Server::start(config).map(drop).unwrap_err().to_string();
        assert!(error.contains(found) && error.contains("whered.toml:"), "{error}");
    }
}
