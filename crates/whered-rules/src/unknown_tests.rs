//! What is said of partly known packets holds for every packet that they may be.

use super::*;
use crate::model::Verdict;
use crate::naive::{NoSets, Outcome, evaluate, evaluate_partly};
use crate::packet::State;
use crate::random::{self, Random, Shape, World};
use crate::text;

/// A packet with the fields of another one where they are unknown.
fn completed<'p>(packet: &Packet<'p>, unknown: Fields, other: &Packet<'p>) -> Packet<'p> {
    let mut whole = *packet;
    for field in unknown.iter() {
        match field {
            PacketField::Destination => whole.destination = other.destination,
            PacketField::Protocol => whole.protocol = other.protocol,
            PacketField::SourcePort => whole.source_port = other.source_port,
            PacketField::DestinationPort => whole.destination_port = other.destination_port,
            PacketField::Icmp => {
                (whole.icmp_type, whole.icmp_code) = (other.icmp_type, other.icmp_code);
            }
            PacketField::TcpFlags => whole.tcp_flags = other.tcp_flags,
            PacketField::State => whole.state = other.state,
            PacketField::Input => whole.input = other.input,
            PacketField::Output => whole.output = other.output,
            PacketField::Dscp => whole.dscp = other.dscp,
            PacketField::Mark => whole.mark = other.mark,
        }
    }
    whole
}

fn is_allowed(partly: &Outcome, whole: &Outcome) -> bool {
    let all = |outcome: &Outcome| -> Vec<(Verdict, Option<crate::RuleId>)> {
        match outcome.possible.is_empty() {
            true => vec![(outcome.verdict.clone(), outcome.rule)],
            false => outcome.possible.iter().map(|one| (one.verdict.clone(), one.rule)).collect(),
        }
    };
    if partly.possible.is_empty() {
        return all(whole).iter().all(|(verdict, _)| *verdict == partly.verdict);
    }
    let allowed = all(partly);
    // A whole packet whose possible verdicts are all one has no list of rules.
    all(whole).iter().all(|one| allowed.contains(one))
        || whole.possible.is_empty() && allowed.iter().any(|(verdict, _)| *verdict == whole.verdict)
}

#[test]
fn what_is_said_of_a_partly_known_packet_holds_for_every_packet_that_it_may_be() {
    let (mut sure, mut open) = (0, 0);
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let shape = if seed % 2 == 0 { Shape::FULL } else { Shape::OPEN };
        let ruleset = random::ruleset(&mut random, shape);
        let world = World::new(&mut random);
        for _ in 0..20 {
            let packet = random::packet(&mut random, shape);
            let chosen = seed.wrapping_mul(0x9e37_79b9).wrapping_add(sure + open);
            let mut unknown = Fields((chosen & u64::from(Fields::ALL.0)) as u16);
            let has_port =
                !unknown.has(PacketField::SourcePort) || !unknown.has(PacketField::DestinationPort);
            if has_port && !packet.has_ports() {
                // A known port says that the protocol has ports.
                unknown = unknown.with(PacketField::SourcePort).with(PacketField::DestinationPort);
            }
            let partly = evaluate_partly(&ruleset, &packet, unknown, &world);
            *if partly.possible.is_empty() { &mut sure } else { &mut open } += 1;
            for _ in 0..20 {
                let other = random::packet(&mut random, shape);
                let whole = completed(&packet, unknown, &other);
                let is_possible =
                    other.family() == packet.family() && (!has_port || whole.has_ports());
                if !is_possible {
                    continue;
                }
                let found = evaluate(&ruleset, &whole, &world);
                assert!(
                    is_allowed(&partly, &found),
                    "seed {seed} {unknown:?}\n{whole:?}\n{partly:?}\n{found:?}\n{}",
                    text::write(&ruleset)
                );
            }
        }
    }
    assert!(sure > 500 && open > 500, "{sure} {open}");
}

fn outcome(rules: &str, unknown: Fields) -> String {
    let ruleset = text::read("r", rules).expect("good rules");
    let packet = Packet { source: "192.0.2.1".parse().expect("an address"), ..Packet::default() };
    let outcome = evaluate_partly(&ruleset, &packet, unknown, &NoSets);
    let possible = outcome.possible.iter().map(|one| one.verdict.to_string());
    [outcome.verdict.to_string()].into_iter().chain(possible).collect::<Vec<_>>().join(" ")
}

#[test]
fn only_what_may_happen_is_possible() {
    for (rules, expected) in [
        ("src 192.0.2.1 drop\n proto tcp accept", "drop"),
        ("proto tcp accept", "maybe accept drop"),
        ("proto tcp dport 22 drop", "drop"),
        ("proto tcp accept\n not proto tcp accept", "accept"),
        ("proto tcp jump other\n proto udp accept", "maybe reject accept drop"),
        ("proto udp jump other\n proto tcp accept", "maybe accept drop"),
        ("state {new established} accept\n state {invalid related untracked} accept", "accept"),
        ("dst 10.0.0.0/8 accept\n dst 10.1.0.0/16 reject", "maybe accept drop"),
        ("not dst 10.0.0.0/8 accept\n dst 10.0.0.0/8 accept", "accept"),
        ("icmpv6 echo-request accept", "drop"),
        ("in eth0 accept\n not in eth0 accept", "maybe accept accept drop"),
        ("mark 1 accept", "maybe accept drop"),
        ("port 22 accept\n dport 22 reject", "maybe accept reject drop"),
        ("not port 22 accept", "maybe accept drop"),
        (
            "flags {syn} of {syn ack} accept\n proto tcp flags {syn} of {syn ack} reject",
            "maybe accept reject drop",
        ),
    ] {
        let rules = format!(
            "chain input policy drop {{\n{rules}\n}}\nchain other {{\n proto tcp dport 0-65535 reject\n}}\n"
        );
        assert_eq!(outcome(&rules, Fields::ALL), expected, "{rules}");
    }
    let unknown = Fields::ALL.without(PacketField::SourcePort);
    let rules = "chain input policy drop {\n proto icmp reject\n proto {tcp udp} accept\n}\n";
    assert_eq!(outcome(rules, unknown), "maybe accept drop");
    assert_eq!(State::ALL.len(), 5);
}

#[test]
fn a_port_test_and_its_negation_are_both_open_for_a_later_fragment() {
    let rules = "chain input policy accept {
        proto udp dport 53 drop
        proto udp not dport 53 reject
        proto gre drop
    }";
    let ruleset = text::read("r", rules).expect("rules");
    let later = [(Detail::named(Detail::FRAGMENT).expect("a name"), 1)];
    let packet = |protocol, details| Packet { protocol, details, ..Packet::default() };
    let of = |packet: &Packet<'_>| {
        let outcome = evaluate(&ruleset, packet, &NoSets);
        let possible: Vec<Verdict> =
            outcome.possible.iter().map(|one| one.verdict.clone()).collect();
        (outcome.verdict, possible)
    };
    let (verdict, possible) = of(&packet(17, &later));
    assert_eq!(verdict, Verdict::Maybe);
    assert_eq!(possible, [Verdict::Drop, Verdict::Reject { with: None }, Verdict::Accept]);
    assert_eq!(of(&packet(17, &[])).0, Verdict::Reject { with: None }, "port 0 of a whole packet");
    assert_eq!(of(&packet(47, &later)), (Verdict::Drop, Vec::new()), "no port is asked for");
}
