//! Signatures that hold, and every way in which they do not.

use super::*;
use crate::message::{Message, Query};
use crate::transfer::reply_to;

const NOW: u64 = 1_800_000_000;

fn key(name: &str, algorithm: TsigAlgorithm) -> TsigKey {
    TsigKey::new(name.parse().unwrap(), algorithm, &[42; 32]).unwrap()
}

fn query() -> Vec<u8> {
    Query::new(&"example.com".parse().unwrap(), RecordType::SOA).id(77).edns(1232).build()
}

fn error_of(message: &[u8], keys: &[TsigKey], now: u64) -> RefusedQuery {
    verify_query(message, keys, now).unwrap_err()
}

#[test]
fn a_signed_query_and_its_answers_verify_in_every_algorithm() {
    for algorithm in TsigAlgorithm::ALL {
        let key = key("Transfer.Example", algorithm);
        let mut message = query();
        let size = message.len();
        let mac = key.sign_query(&mut message, NOW);
        assert_eq!(message.len(), size + key.signature_size());
        let keys = [self::key("other", algorithm), key.clone()];
        let found = verify_query(&message, &keys, NOW + 299).unwrap().unwrap();
        assert_eq!((found.key, &found.message), (&key, &query()));
        let mut signer = found.signer;
        let mut verifier = AnswerVerifier::new(key, mac);
        for number in 0..3 {
            let mut answer = reply_to(&query(), Rcode(number), true);
            let plain = answer.clone();
            signer.sign(&mut answer, NOW);
            assert_eq!(verifier.verify(&answer, NOW).unwrap(), plain);
            assert!(verifier.is_settled());
        }
    }
}

#[test]
fn the_signature_is_that_of_dnspython() {
    // dns.message.make_query("example.com.", "SOA", id=77), signed at 1_800_000_000 with a key of
    // 32 bytes 42 named transfer.example., hmac-sha256, fudge 300.
    let mut message =
        Query::new(&"example.com".parse().unwrap(), RecordType::SOA).id(77).flags(0x100).build();
    let mac = key("transfer.example", TsigAlgorithm::HmacSha256).sign_query(&mut message, NOW);
    let hex: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "38d3b734a3b487ac9b14a8fbad9fd45084904d2c0077500baa9e3fa6858fcd1c");
}

#[test]
fn a_changed_or_cut_query_never_verifies() {
    let key = key("transfer", TsigAlgorithm::HmacSha256);
    let mut message = query();
    key.sign_query(&mut message, NOW);
    let keys = [key];
    for size in 0..message.len() {
        let found = verify_query(&message[..size], &keys, NOW);
        assert!(!matches!(found, Ok(Some(_))), "cut at {size}");
    }
    for at in 0..message.len() {
        let mut changed = message.clone();
        changed[at] ^= 0x41;
        // The id of the header may differ from that which was signed.
        let is_id = at < 2;
        let found = verify_query(&changed, &keys, NOW);
        assert_eq!(matches!(found, Ok(Some(_))), is_id, "byte {at}: {found:?}");
    }
    let behind = [&message[..], &[0]].concat();
    assert_eq!(error_of(&behind, &keys, NOW).error, TsigError::Malformed);
}

#[test]
fn an_unknown_key_or_algorithm_is_badkey_without_a_signature() {
    let mut message = query();
    key("transfer", TsigAlgorithm::HmacSha256).sign_query(&mut message, NOW);
    for keys in [vec![], vec![key("transfer", TsigAlgorithm::HmacSha512)]] {
        let refused = error_of(&message, &keys, NOW);
        assert_eq!(refused.error, TsigError::BadKey);
        assert_eq!(Message::read(&refused.reply).unwrap().rcode(), Rcode::NOTAUTH);
        let mut verifier =
            AnswerVerifier::new(key("transfer", TsigAlgorithm::HmacSha256), vec![1; 32]);
        let found = verifier.verify(&refused.reply, NOW);
        assert_eq!(found, Err(TsigError::Refused(17)));
    }
}

#[test]
fn another_secret_is_badsig_without_a_signature() {
    let mut message = query();
    let mine = key("transfer", TsigAlgorithm::HmacSha256);
    let mac = mine.sign_query(&mut message, NOW);
    let other = TsigKey::new(mine.name().clone(), mine.algorithm(), &[1; 32]).unwrap();
    let refused = error_of(&message, &[other], NOW);
    assert_eq!(refused.error, TsigError::BadSig);
    let found = AnswerVerifier::new(mine, mac).verify(&refused.reply, NOW);
    assert_eq!(found, Err(TsigError::Refused(16)));
}

#[test]
fn another_time_is_badtime_signed_and_tells_the_servers_clock() {
    let mut message = query();
    let key = key("transfer", TsigAlgorithm::HmacSha384);
    let mac = key.sign_query(&mut message, NOW);
    for now in [NOW + 301, NOW - 301, 0, u64::from(u32::MAX) * 9] {
        let refused = error_of(&message, std::slice::from_ref(&key), now);
        assert_eq!(refused.error, TsigError::BadTime);
        assert!(refused.reply.ends_with(&[&[0, 18, 0, 6][..], &seconds_48(now)].concat()));
        let mut verifier = AnswerVerifier::new(key.clone(), mac.clone());
        assert_eq!(verifier.verify(&refused.reply, NOW), Err(TsigError::Refused(18)));
    }
}

/// The query with a MAC of its first bytes only.
fn truncated(size: usize) -> (TsigKey, Vec<u8>) {
    let key = key("transfer", TsigAlgorithm::HmacSha256);
    let mut signed = query();
    let mac = key.sign_query(&mut signed, NOW);
    let mut message = query();
    Variables::new(NOW).append(&key, &mac[..size], &mut message);
    (key, message)
}

#[test]
fn a_shortened_signature_is_badtrunc_and_one_below_half_is_formerr() {
    for size in [16, 31] {
        let (key, message) = truncated(size);
        let refused = error_of(&message, &[key], NOW);
        assert_eq!(refused.error, TsigError::BadTrunc);
        let reply = Message::read(&refused.reply).unwrap();
        assert_eq!((reply.rcode(), reply.additionals.len()), (Rcode::NOTAUTH, 1));
    }
    for size in [0, 9, 15] {
        let (key, message) = truncated(size);
        let refused = error_of(&message, &[key], NOW);
        assert_eq!(refused.error, TsigError::Malformed);
        assert_eq!(Message::read(&refused.reply).unwrap().rcode(), Rcode::FORMERR);
    }
}

#[test]
fn of_a_hundred_messages_in_a_row_one_is_signed() {
    let key = key("transfer", TsigAlgorithm::HmacSha256);
    for (between, is_right) in [(99, true), (100, false)] {
        let mut message = query();
        let mac = key.sign_query(&mut message, NOW);
        let mut verifier = AnswerVerifier::new(key.clone(), mac.clone());
        let mut signer =
            verify_query(&message, std::slice::from_ref(&key), NOW).unwrap().unwrap().signer;
        let plain = reply_to(&query(), Rcode::NOERROR, true);
        let mut first = plain.clone();
        signer.sign(&mut first, NOW);
        verifier.verify(&first, NOW).unwrap();
        let unsigned = (0..between).map(|_| verifier.verify(&plain, NOW));
        let last = unsigned.last().unwrap();
        assert_eq!(last.is_ok(), is_right);
        assert!(!verifier.is_settled());
        if !is_right {
            assert_eq!(last, Err(TsigError::Missing));
            continue;
        }
        // The signature of the last covers all since the first.
        let mut context = hmac::Context::with_key(&key.key);
        context.update(&(signer.previous.len() as u16).to_be_bytes());
        context.update(&signer.previous);
        (0..=between).for_each(|_| context.update(&plain));
        let variables = Variables::new(NOW);
        context.update(&variables.timers());
        let mut last = plain.clone();
        variables.append(&key, context.sign().as_ref(), &mut last);
        assert_eq!(verifier.verify(&last, NOW), Ok(plain));
        assert!(verifier.is_settled());
    }
}

#[test]
fn an_answer_without_a_signature_or_with_that_of_another_counts_for_nothing() {
    let key = key("transfer", TsigAlgorithm::HmacSha256);
    let mut message = query();
    let mac = key.sign_query(&mut message, NOW);
    let plain = reply_to(&query(), Rcode::NOERROR, true);
    let verify = |answer: &[u8]| AnswerVerifier::new(key.clone(), mac.clone()).verify(answer, NOW);
    assert_eq!(verify(&plain), Err(TsigError::Missing));
    let mut other = plain.clone();
    self::key("other", TsigAlgorithm::HmacSha256).sign_query(&mut other, NOW);
    assert_eq!(verify(&other), Err(TsigError::BadKey));
    let mut as_query = plain.clone();
    key.sign_query(&mut as_query, NOW);
    assert_eq!(verify(&as_query), Err(TsigError::BadSig), "the query's MAC belongs to it");
}

#[test]
fn a_record_that_is_not_the_last_or_twice_there_is_malformed() {
    let key = key("transfer", TsigAlgorithm::HmacSha256);
    let mut twice = query();
    key.sign_query(&mut twice, NOW);
    key.sign_query(&mut twice, NOW);
    assert_eq!(error_of(&twice, &[key], NOW).error, TsigError::Malformed);
}
