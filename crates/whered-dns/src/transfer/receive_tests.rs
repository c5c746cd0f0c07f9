//! Transfers in each form, and those of a server that errs or lies.

use std::sync::Arc;

use super::*;
use crate::transfer::wire::MessageWriter;
use crate::transfer::{Sender, TsigAlgorithm, TsigKey, query, verify_query};
use crate::{Dnssec, Zone};

fn origin() -> Name {
    "example.com".parse().unwrap()
}

fn zone(serial: u32, hosts: std::ops::Range<u32>) -> Zone {
    let mut text = format!(
        "$TTL 300\n@ SOA ns Host.Master {serial} 1d 2h 4w 5m\n@ NS ns\n@ MX 5 mail\n\
         ns A 192.0.2.1\n*.wild TXT \"a\" \"b\"\n_sip._tcp SRV 1 2 3 ns\nx CNAME y.example.net.\n"
    );
    for host in hosts {
        text.push_str(&format!("h{host} A 10.0.{}.{}\n", host / 256, host % 256));
    }
    Zone::from_master_file(&origin(), text.as_bytes(), &mut |_| Err("no".into())).unwrap()
}

fn request(serial: Option<u32>) -> Request {
    Request { origin: origin(), id: 7, serial, size_max_bytes: 1 << 24, verifier: None }
}

fn messages(mut sender: Sender<'_>) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| sender.next_message(None, 0).unwrap()).collect()
}

fn receive(serial: Option<u32>, messages: &[Vec<u8>]) -> Result<Progress, TransferError> {
    let mut receiver = Receiver::new(request(serial));
    let mut progress = Progress::More;
    for message in messages {
        progress = receiver.take(message, 0)?;
    }
    Ok(progress)
}

fn whole(serial: Option<u32>, messages: &[Vec<u8>]) -> Vec<ZoneRecord> {
    match receive(serial, messages) {
        Ok(Progress::Complete(Transfer::Whole(records))) => records,
        other => panic!("{other:?}"),
    }
}

/// A message of these records.
fn message(question: RecordType, records: &[ZoneRecord]) -> Vec<u8> {
    let header = Header {
        id: 7,
        flags: 0x8400,
        question_count: 1,
        answer_count: 0,
        authority_count: 0,
        additional_count: 0,
    };
    let mut writer = MessageWriter::new(header, &origin(), question, 65_535);
    for record in records {
        let ZoneRecord { owner, record_type, ttl_seconds, data } = record;
        assert!(writer.put(owner, *record_type, *ttl_seconds, data));
    }
    writer.finish()
}

fn soa(serial: u32) -> ZoneRecord {
    zone(serial, 0..0).records().next().unwrap()
}

fn host(name: &str) -> ZoneRecord {
    let data = Box::new([192, 0, 2, 9]);
    let owner = name.parse().unwrap();
    ZoneRecord { owner, record_type: RecordType::A, ttl_seconds: 9, data }
}

fn error(serial: Option<u32>, records: &[ZoneRecord]) -> String {
    let question = if serial.is_some() { RecordType::IXFR } else { RecordType::AXFR };
    receive(serial, &[message(question, records)]).unwrap_err().to_string()
}

#[test]
fn a_whole_zone_comes_as_it_was_in_messages_of_every_size() {
    let zone = zone(7, 0..3000);
    for size in [300, 700, 5000, 65_535] {
        let sender = Sender::whole(&origin(), 7, zone.records()).size_max(size);
        let messages = messages(sender);
        assert!(messages.iter().all(|message| message.len() <= size));
        let records = whole(None, &messages);
        assert!(zone.records().eq(records.iter().cloned()), "{size}");
        let copy = Zone::from_records(&origin(), "there", Dnssec::Serve, records).unwrap();
        assert!(copy.records().eq(zone.records()));
        let as_ixfr = Sender::whole(&origin(), 7, zone.records()).of_incremental().size_max(size);
        assert!(zone.records().eq(whole(Some(6), &self::messages(as_ixfr))));
    }
}

#[test]
fn changes_come_as_they_were_and_make_the_new_zone() {
    let zones = [zone(7, 0..90), zone(8, 5..95), zone(12, 0..40)];
    let changes: Vec<_> =
        zones.windows(2).map(|pair| Arc::new(pair[0].difference(&pair[1]))).collect();
    for size in [300, 65_535] {
        let sender = Sender::changes(&origin(), 7, changes.clone()).size_max(size);
        let Progress::Complete(Transfer::Changes(found)) =
            receive(Some(7), &messages(sender)).unwrap()
        else {
            panic!()
        };
        assert!(found.iter().eq(changes.iter().map(|change| &**change)));
        let patched = zones[0].patched("there", &found).unwrap();
        assert_eq!(patched.serial(), 12);
        let sorted = |zone: &Zone| {
            let mut lines: Vec<_> = zone.records().map(|record| format!("{record:?}")).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&patched), sorted(&zones[2]));
    }
}

#[test]
fn a_serial_that_is_no_newer_is_up_to_date() {
    for serial in [7, 8] {
        let sender = Sender::soa(&origin(), 7, soa(7));
        let found = receive(Some(serial), &messages(sender)).unwrap();
        assert_eq!(found, Progress::Complete(Transfer::UpToDate { serial: 7 }));
    }
    let newer = receive(Some(6), &messages(Sender::soa(&origin(), 7, soa(7)))).unwrap();
    assert_eq!(newer, Progress::More, "the records come in later messages");
}

#[test]
fn a_cut_transfer_is_never_complete_and_never_panics() {
    let zone = zone(7, 0..20);
    let bytes = messages(Sender::whole(&origin(), 7, zone.records())).remove(0);
    for size in 0..bytes.len() {
        assert_eq!(receive(None, &[bytes[..size].to_vec()]), Err(TransferError::NoMessage));
    }
    for at in 0..bytes.len() {
        for value in [0, 1, 0x40, 0xc0, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            let _ = receive(None, &[changed.clone()]);
            let _ = receive(Some(3), &[changed]);
        }
    }
    let parts = messages(Sender::whole(&origin(), 7, zone.records()).size_max(300));
    for count in 0..parts.len() {
        assert_eq!(receive(None, &parts[..count]), Ok(Progress::More));
    }
}

/// A part of the line, the serial that was asked with, and records.
type Lie<'a> = (&'a str, Option<u32>, Vec<ZoneRecord>);

/// What a server may say wrongly; `end` is the SOA with the serial 7.
fn lies(end: &ZoneRecord, one: &ZoneRecord) -> [Lie<'static>; 12] {
    let (end, one) = (|| end.clone(), || one.clone());
    [
        ("A of a.example.com. first; allowed: the zone's SOA first", None, vec![one(), end()]),
        (
            "outside of the zone; allowed: names at and",
            None,
            vec![end(), host("a.example.net"), end()],
        ),
        ("a closing SOA of serial 8, not 7; allowed: the", None, vec![end(), one(), soa(8)]),
        ("nothing but its SOA; allowed: a zone with NS", None, vec![end(), end()]),
        ("a message behind the end", None, vec![end(), one(), end(), one()]),
        ("changes of the serial 5 where 4 was reached", Some(4), vec![end(), soa(5)]),
        ("changes to a serial that is no newer", Some(7), vec![end(), soa(7)]),
        ("changes from the serial 4 to 4; allowed: serials", Some(4), vec![end(), soa(4), soa(4)]),
        ("changes from the serial 4 to 9; allowed: serials", Some(4), vec![end(), soa(4), soa(9)]),
        ("changes of the serial 4 where 5", Some(4), vec![end(), soa(4), soa(5), soa(4)]),
        ("a closing SOA of serial 5, not 7", Some(4), vec![end(), soa(4), end(), soa(5)]),
        ("a message without records; allowed: records", None, vec![]),
    ]
}

#[test]
fn each_lie_of_a_transfer_has_its_line() {
    let (end, one) = (soa(7), host("a.example.com"));
    for (line, serial, records) in lies(&end, &one) {
        let found = error(serial, &records);
        assert!(found.contains(line), "{found}: {line}");
    }
    let below = ZoneRecord { owner: "b.example.com".parse().unwrap(), ..soa(7) };
    assert_eq!(
        error(None, &[end.clone(), below]),
        "a SOA of b.example.com.; allowed: the SOA of the zone"
    );
    let bad = ZoneRecord { data: Box::new([1, 2, 3]), ..one };
    assert!(error(None, &[end, bad]).starts_with("A of a.example.com. with other data"));
}

#[test]
fn each_wrong_message_has_its_line() {
    let good = message(RecordType::AXFR, &[soa(7)]);
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        receive(None, &[bytes]).unwrap_err().to_string()
    };
    assert!(with(&|bytes| bytes[1] = 9).starts_with("a message with the id 9"));
    assert!(with(&|bytes| bytes[2] &= 0x7f).starts_with("a message that is no answer"));
    assert!(with(&|bytes| bytes[2] |= 2).starts_with("a message cut short"));
    assert_eq!(with(&|bytes| bytes[3] = 5), "the answer REFUSED");
    assert!(with(&|bytes| bytes[13] = b'f').starts_with("the question of another zone"));
    assert!(with(&|bytes| bytes[26] = 251).starts_with("the question IXFR of class 1"));
}

#[test]
fn more_than_the_limit_is_refused_however_it_is_packed() {
    let zone = zone(7, 0..1000);
    let mut receiver = Receiver::new(Request { size_max_bytes: 20_000, ..request(None) });
    let messages = messages(Sender::whole(&origin(), 7, zone.records()));
    assert_eq!(receiver.take(&messages[0], 0), Err(TransferError::TooLarge(20_000)));
}

#[test]
fn a_signed_transfer_is_whole_only_when_its_last_message_is_signed() {
    let key = TsigKey::new("k".parse().unwrap(), TsigAlgorithm::HmacSha256, &[3; 32]).unwrap();
    let zone = zone(7, 0..200);
    let mut asked = query(&origin(), 7, RecordType::AXFR, None);
    let mac = key.sign_query(&mut asked, 9);
    let keys = [key.clone()];
    for unsigned in [None, Some(1), Some(usize::MAX)] {
        let mut signer = verify_query(&asked, &keys, 9).unwrap().unwrap().signer;
        let verifier = Some(AnswerVerifier::new(key.clone(), mac.clone()));
        let mut receiver = Receiver::new(Request { verifier, ..request(None) });
        let mut sender = Sender::whole(&origin(), 7, zone.records()).size_max(1000);
        let mut last = Ok(Progress::More);
        let mut number = 0;
        while !sender.is_over() {
            let signed = sender.next_message(Some(&mut signer), 9).unwrap().unwrap();
            let is_stripped = unsigned == Some(number) || (unsigned.is_some() && sender.is_over());
            let message = match is_stripped {
                true => {
                    let mut plain = signed[..signed.len() - key.signature_size()].to_vec();
                    plain[11] -= 1;
                    plain
                }
                false => signed,
            };
            last = receiver.take(&message, 9);
            if last.is_err() {
                break;
            }
            number += 1;
        }
        match unsigned {
            None => assert!(matches!(last, Ok(Progress::Complete(Transfer::Whole(_))))),
            // What comes behind is not signed as if the message had had no signature.
            Some(1) => assert_eq!(last, Err(TransferError::Tsig(TsigError::BadSig))),
            Some(_) => assert_eq!(last, Err(TransferError::Tsig(TsigError::Missing))),
        }
    }
}

#[test]
fn serials_are_compared_round_the_circle() {
    assert!(is_newer(1, 0) && is_newer(0, u32::MAX) && is_newer(0x8000_0000, 1));
    assert!(!is_newer(0, 0) && !is_newer(0, 1) && !is_newer(0x8000_0000, 0));
    assert!(!is_newer(u32::MAX, 0));
}
