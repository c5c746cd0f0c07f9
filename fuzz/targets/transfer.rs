//! Any messages as a transfer, signed or not, and as queries of another server: a zone, changes or
//! an error of one line, never a panic, and never more records than the limit. A zone is also read
//! as a catalog.
//!
//! For: a stream of messages behind two-byte lengths, as TCP has them. Not for: transfers that are
//! right; the tests have those.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whered_dns::transfer::{
    AnswerVerifier, Progress, Receiver, Request, ServerRequest, Transfer, TsigAlgorithm, TsigKey,
    is_notify_answer, read_soa_answer, reply_to, verify_query,
};
use whered_dns::{Dnssec, Name, Rcode, Zone, catalog};

const SIZE_MAX_BYTES: usize = 1 << 20;
const NOW_SECONDS: u64 = 1_800_000_000;

fuzz_target!(|bytes: &[u8]| {
    let origin: Name = "example.com".parse().expect("a name");
    let key = TsigKey::new("key".parse().expect("a name"), TsigAlgorithm::HmacSha256, &[7; 32]);
    let key = key.expect("a key");
    for (serial, is_signed) in [(None, false), (Some(1), false), (None, true)] {
        let verifier = is_signed.then(|| AnswerVerifier::new(key.clone(), vec![1; 32]));
        let request = Request {
            origin: origin.clone(),
            id: 7,
            serial,
            size_max_bytes: SIZE_MAX_BYTES,
            verifier,
        };
        receive(&origin, Receiver::new(request), bytes);
    }
    let _ = read_soa_answer(bytes, &origin, 7);
    let _ = is_notify_answer(bytes, 7);
    if ServerRequest::read(bytes).is_some() {
        let reply = reply_to(bytes, Rcode::REFUSED, false);
        assert!(reply.len() <= bytes.len() && reply.len() >= 12);
    }
    match verify_query(bytes, &[key], NOW_SECONDS) {
        Ok(Some(signed)) => assert!(signed.message.len() < bytes.len()),
        Ok(None) => {}
        Err(refused) => assert!(!refused.error.to_string().contains('\n')),
    }
});

fn receive(origin: &Name, mut receiver: Receiver, bytes: &[u8]) {
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let size = usize::from(u16::from_be_bytes(*length)).min(behind.len());
        let (message, behind) = behind.split_at(size);
        rest = behind;
        match receiver.take(message, NOW_SECONDS) {
            Ok(Progress::More) => {}
            Ok(Progress::Complete(Transfer::Whole(records))) => {
                assert!(records.len() * 64 <= SIZE_MAX_BYTES);
                let zone = Zone::from_records(origin, "fuzz", Dnssec::Serve, records);
                let line = match zone {
                    Ok(zone) => match catalog::members(&zone, 100) {
                        Ok(members) => return assert!(members.len() <= 100),
                        Err(error) => error.to_string(),
                    },
                    Err(error) => error.to_string(),
                };
                return assert!(!line.contains('\n'), "an error is one line");
            }
            Ok(Progress::Complete(_)) => return,
            Err(error) => {
                assert!(!error.to_string().contains('\n'), "an error is one line: {error:?}");
                return;
            }
        }
    }
}
