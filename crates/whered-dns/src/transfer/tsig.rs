//! Transaction signatures (RFC 8945): HMAC over messages with a key that two servers share.
//!
//! For: signing and verifying a query, an answer, and the messages of a transfer. Not for: sockets,
//! clocks (`now_seconds` is an argument), which key may do what.
//!
//! ```text
//! message  [ header | question | ... | TSIG ]       TSIG is the last record of the message
//! query    MAC over    message without TSIG | variables of TSIG
//! answer   MAC over    MAC of the query | message | variables
//! later    MAC over    MAC before | messages since then | time and fudge
//! ```
//!
//! Invariants: MACs are compared in constant time. A MAC must be whole: one that is shorter, but
//! long enough for RFC 8945 (half, and 10 bytes), is BADTRUNC; a shorter one is FORMERR. Of the
//! messages of a transfer, the first and the last are signed, and of 100 in a row one.
#![deny(clippy::indexing_slicing)]

use std::fmt;

use domain::utils::base64;
use ring::hmac;

use super::queries::reply_to;
use super::wire::{Header, WireReader, push_name_lower};
use crate::code::{Rcode, RecordType};
use crate::name::Name;

/// For how many seconds two clocks may differ.
pub const FUDGE_SECONDS: u16 = 300;
/// How many messages in a row may lack a signature (RFC 8945, 5.3.1).
const UNSIGNED_MAX: usize = 99;
const CLASS_ANY: u16 = 255;
/// The shortest secret: 128 bits.
const SECRET_SIZE_MIN: usize = 16;

/// The hash of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TsigAlgorithm {
    /// hmac-sha256.
    HmacSha256,
    /// hmac-sha384.
    HmacSha384,
    /// hmac-sha512.
    HmacSha512,
}

impl TsigAlgorithm {
    /// All of them.
    pub const ALL: [TsigAlgorithm; 3] =
        [TsigAlgorithm::HmacSha256, TsigAlgorithm::HmacSha384, TsigAlgorithm::HmacSha512];

    /// The algorithm of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<TsigAlgorithm> {
        TsigAlgorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TsigAlgorithm::HmacSha256 => "hmac-sha256",
            TsigAlgorithm::HmacSha384 => "hmac-sha384",
            TsigAlgorithm::HmacSha512 => "hmac-sha512",
        }
    }

    fn wire(self) -> &'static [u8] {
        match self {
            TsigAlgorithm::HmacSha256 => b"\x0bhmac-sha256\x00",
            TsigAlgorithm::HmacSha384 => b"\x0bhmac-sha384\x00",
            TsigAlgorithm::HmacSha512 => b"\x0bhmac-sha512\x00",
        }
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            TsigAlgorithm::HmacSha256 => hmac::HMAC_SHA256,
            TsigAlgorithm::HmacSha384 => hmac::HMAC_SHA384,
            TsigAlgorithm::HmacSha512 => hmac::HMAC_SHA512,
        }
    }

    fn mac_size(self) -> usize {
        self.hmac().digest_algorithm().output_len()
    }
}

/// A key that two servers share. Its secret is never shown.
///
/// ```
/// use whered_dns::transfer::{TsigAlgorithm, TsigKey};
/// let key = TsigKey::new("transfer".parse()?, TsigAlgorithm::HmacSha256, &[7; 32])?;
/// assert_eq!(format!("{key:?}"), "TsigKey(transfer. hmac-sha256)");
/// assert!(TsigKey::new("transfer".parse()?, TsigAlgorithm::HmacSha256, b"short").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TsigKey {
    name: Name,
    algorithm: TsigAlgorithm,
    secret: Box<[u8]>,
    key: hmac::Key,
}

impl TsigKey {
    /// A key of this name.
    ///
    /// # Errors
    ///
    /// The secret has fewer than 16 bytes.
    pub fn new(name: Name, algorithm: TsigAlgorithm, secret: &[u8]) -> Result<TsigKey, String> {
        if secret.len() < SECRET_SIZE_MIN {
            let found = secret.len();
            return Err(format!("a secret of {found} bytes"));
        }
        let key = hmac::Key::new(algorithm.hmac(), secret);
        Ok(TsigKey { name, algorithm, secret: secret.into(), key })
    }

    /// A key whose secret is in base 64, as other servers' configurations have it.
    ///
    /// # Errors
    ///
    /// The text is no base 64, or the secret has fewer than 16 bytes.
    pub fn from_base64(
        name: Name,
        algorithm: TsigAlgorithm,
        secret: &str,
    ) -> Result<TsigKey, String> {
        let bytes: Vec<u8> =
            base64::decode(secret).map_err(|_| "a secret that is no base 64".to_owned())?;
        TsigKey::new(name, algorithm, &bytes)
    }

    /// Its name, which both servers give it.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Its hash.
    #[must_use]
    pub fn algorithm(&self) -> TsigAlgorithm {
        self.algorithm
    }

    /// How many bytes a signature adds to a message; 6 more where it tells the time.
    #[must_use]
    pub fn signature_size(&self) -> usize {
        let fixed = 10 + 6 + 2 + 2 + 2 + 2 + 2;
        self.name.as_wire().len() + fixed + self.algorithm.wire().len() + self.algorithm.mac_size()
    }

    /// Signs a query. Gives its MAC, which the answer's is made with.
    pub fn sign_query(&self, message: &mut Vec<u8>, now_seconds: u64) -> Vec<u8> {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(message);
        let variables = Variables::new(now_seconds);
        variables.digest(self, &mut context);
        let mac = context.sign().as_ref().to_vec();
        variables.append(self, &mac, message);
        mac
    }
}

impl PartialEq for TsigKey {
    fn eq(&self, other: &TsigKey) -> bool {
        let is_same = self.name == other.name && self.algorithm == other.algorithm;
        is_same && are_equal(&self.secret, &other.secret)
    }
}

impl Eq for TsigKey {}

impl fmt::Debug for TsigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TsigKey({} {})", self.name, self.algorithm.name())
    }
}

/// Why a signature counts for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TsigError {
    /// TSIG is not one whole record at the message's end.
    Malformed,
    /// The MAC is not that of the message.
    BadSig,
    /// No key has this name and algorithm.
    BadKey,
    /// The message was signed too long ago, or the clocks differ.
    BadTime,
    /// The MAC is shortened.
    BadTrunc,
    /// An answer, or too many messages of a transfer in a row, have no signature.
    Missing,
    /// The other server has refused our signature, with this code of TSIG.
    Refused(u16),
}

impl TsigError {
    /// The code in an answer's TSIG record; none where such an answer has none.
    fn code(self) -> u16 {
        match self {
            TsigError::BadSig => 16,
            TsigError::BadKey => 17,
            TsigError::BadTime => 18,
            TsigError::BadTrunc => 22,
            TsigError::Refused(code) => code,
            TsigError::Malformed | TsigError::Missing => 0,
        }
    }
}

impl fmt::Display for TsigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TsigError::Malformed => {
                "a TSIG record that is malformed or not the last; one is allowed"
            }
            TsigError::BadSig => "a TSIG signature that is not the message's (BADSIG)",
            TsigError::BadKey => "a TSIG key or algorithm that is not configured (BADKEY)",
            TsigError::BadTime => {
                "a TSIG time that differs from this clock by more than its fudge (BADTIME)"
            }
            TsigError::BadTrunc => "a shortened TSIG signature; allowed: a whole one (BADTRUNC)",
            TsigError::Missing => "a message without the TSIG signature that it must have",
            TsigError::Refused(16) => "the answer BADSIG: the other server's secret differs",
            TsigError::Refused(17) => "the answer BADKEY: the other server has no such key",
            TsigError::Refused(18) => "the answer BADTIME: the other server's clock differs",
            TsigError::Refused(22) => {
                "the answer BADTRUNC: the other server wants other signatures"
            }
            TsigError::Refused(_) => "an answer with a TSIG error that has no name here",
        })
    }
}

impl std::error::Error for TsigError {}

/// A query whose signature holds.
#[derive(Debug, Clone)]
pub struct SignedQuery<'k> {
    /// The key.
    pub key: &'k TsigKey,
    /// The message without its TSIG record.
    pub message: Vec<u8>,
    /// What signs the answer.
    pub signer: AnswerSigner,
}

/// A query whose signature does not hold, and the answer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedQuery {
    /// What is wrong.
    pub error: TsigError,
    /// The answer: FORMERR, or NOTAUTH with a TSIG record that tells why.
    pub reply: Vec<u8>,
}

/// Verifies the signature of a query; gives none for a query without one.
///
/// # Errors
///
/// The signature does not hold, with the answer to send.
pub fn verify_query<'k>(
    message: &[u8],
    keys: &'k [TsigKey],
    now_seconds: u64,
) -> Result<Option<SignedQuery<'k>>, RefusedQuery> {
    let refuse =
        |error: TsigError| RefusedQuery { error, reply: reply_to(message, Rcode::FORMERR, false) };
    let Some(found) = SignatureRecord::read(message).map_err(refuse)? else { return Ok(None) };
    let is_it = |key: &&TsigKey| found.is_of(key);
    let Some(key) = keys.iter().find(is_it) else {
        return Err(found.refuse_unsigned(message, TsigError::BadKey));
    };
    let whole = key.algorithm.mac_size();
    if found.mac.len() > whole || found.mac.len() < (whole / 2).max(10) {
        return Err(refuse(TsigError::Malformed));
    }
    let stripped = found.stripped(message);
    let mut context = hmac::Context::with_key(&key.key);
    context.update(&stripped);
    found.variables.digest(key, &mut context);
    let mac = context.sign();
    let part = mac.as_ref().get(..found.mac.len()).unwrap_or_default();
    if !are_equal(part, found.mac) {
        return Err(found.refuse_unsigned(message, TsigError::BadSig));
    }
    let signer = AnswerSigner {
        key: key.clone(),
        previous: found.mac.to_vec(),
        is_first: true,
        variables: None,
    };
    if !found.variables.is_now(now_seconds) {
        let variables = Variables {
            error: TsigError::BadTime.code(),
            server_seconds: Some(now_seconds),
            ..found.variables
        };
        return Err(refused_signed(message, TsigError::BadTime, variables, signer));
    }
    if found.mac.len() < whole {
        let error = TsigError::BadTrunc.code();
        let variables = Variables { error, ..Variables::new(now_seconds) };
        return Err(refused_signed(message, TsigError::BadTrunc, variables, signer));
    }
    Ok(Some(SignedQuery { key, message: stripped, signer }))
}

fn refused_signed(
    message: &[u8],
    error: TsigError,
    variables: Variables,
    mut signer: AnswerSigner,
) -> RefusedQuery {
    let mut reply = reply_to(message, Rcode::NOTAUTH, false);
    signer.variables = Some(variables);
    signer.sign(&mut reply, variables.seconds);
    RefusedQuery { error, reply }
}

/// Signs the answers to one query, in their order.
#[derive(Debug, Clone)]
pub struct AnswerSigner {
    key: TsigKey,
    previous: Vec<u8>,
    is_first: bool,
    /// What the first signature says, if not the time alone.
    variables: Option<Variables>,
}

impl AnswerSigner {
    /// How many bytes of a message a signature takes.
    #[must_use]
    pub fn signature_size(&self) -> usize {
        self.key.signature_size()
    }

    /// Signs the next answer. A message must leave room for the signature.
    pub fn sign(&mut self, message: &mut Vec<u8>, now_seconds: u64) {
        let mut context = hmac::Context::with_key(&self.key.key);
        context.update(&(self.previous.len() as u16).to_be_bytes());
        context.update(&self.previous);
        context.update(message);
        let variables = self.variables.take().unwrap_or_else(|| Variables::new(now_seconds));
        match self.is_first {
            true => variables.digest(&self.key, &mut context),
            false => context.update(&variables.timers()),
        }
        let mac = context.sign().as_ref().to_vec();
        variables.append(&self.key, &mac, message);
        self.previous = mac;
        self.is_first = false;
    }
}

/// Verifies the answers to a signed query, in their order.
pub struct AnswerVerifier {
    key: TsigKey,
    previous: Vec<u8>,
    is_first: bool,
    context: Option<hmac::Context>,
    unsigned_count: usize,
}

impl AnswerVerifier {
    /// For the answers to a query with this MAC.
    #[must_use]
    pub fn new(key: TsigKey, query_mac: Vec<u8>) -> AnswerVerifier {
        let previous = query_mac;
        AnswerVerifier { key, previous, is_first: true, context: None, unsigned_count: 0 }
    }

    /// Takes the next message. Gives it without its TSIG record; it counts once a later call, or
    /// [`AnswerVerifier::is_settled`], says that a signature covers it.
    ///
    /// # Errors
    ///
    /// The signature is wrong or missing, or the other server says that ours is.
    pub fn verify(&mut self, message: &[u8], now_seconds: u64) -> Result<Vec<u8>, TsigError> {
        let found = SignatureRecord::read(message)?;
        let mut context = self.context.take().unwrap_or_else(|| {
            let mut context = hmac::Context::with_key(&self.key.key);
            context.update(&(self.previous.len() as u16).to_be_bytes());
            context.update(&self.previous);
            context
        });
        let Some(found) = found else {
            if self.is_first || self.unsigned_count == UNSIGNED_MAX {
                return Err(TsigError::Missing);
            }
            self.unsigned_count += 1;
            context.update(message);
            self.context = Some(context);
            return Ok(message.to_vec());
        };
        // An answer to a signature that was refused is not signed itself.
        if found.mac.is_empty() && found.variables.error != 0 {
            return Err(TsigError::Refused(found.variables.error));
        }
        if !found.is_of(&self.key) {
            return Err(TsigError::BadKey);
        }
        if found.mac.len() != self.key.algorithm.mac_size() {
            return Err(TsigError::BadTrunc);
        }
        let stripped = found.stripped(message);
        context.update(&stripped);
        match self.is_first {
            true => found.variables.digest(&self.key, &mut context),
            false => context.update(&found.variables.timers()),
        }
        let mac = context.sign();
        if !are_equal(mac.as_ref(), found.mac) {
            return Err(TsigError::BadSig);
        }
        if found.variables.error != 0 {
            return Err(TsigError::Refused(found.variables.error));
        }
        if !found.variables.is_now(now_seconds) {
            return Err(TsigError::BadTime);
        }
        self.previous = found.mac.to_vec();
        self.is_first = false;
        self.unsigned_count = 0;
        Ok(stripped)
    }

    /// Whether every message so far is signed, by itself or by a later one.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.is_first && self.unsigned_count == 0
    }
}

impl fmt::Debug for AnswerVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerVerifier").field("key", &self.key).finish_non_exhaustive()
    }
}

/// What a signature says beside the MAC.
#[derive(Debug, Clone, Copy)]
struct Variables {
    seconds: u64,
    fudge: u16,
    error: u16,
    /// The clock of the server that refuses with BADTIME.
    server_seconds: Option<u64>,
}

impl Variables {
    fn new(now_seconds: u64) -> Variables {
        Variables { seconds: now_seconds, fudge: FUDGE_SECONDS, error: 0, server_seconds: None }
    }

    fn is_now(&self, now_seconds: u64) -> bool {
        self.seconds.abs_diff(now_seconds) <= u64::from(self.fudge)
    }

    fn timers(&self) -> [u8; 8] {
        let mut timers = [0; 8];
        let (seconds, fudge) = timers.split_at_mut(6);
        seconds.copy_from_slice(&seconds_48(self.seconds));
        fudge.copy_from_slice(&self.fudge.to_be_bytes());
        timers
    }

    /// Error, other data with their length.
    fn tail(&self) -> Vec<u8> {
        let mut tail = self.error.to_be_bytes().to_vec();
        match self.server_seconds {
            None => tail.extend_from_slice(&[0, 0]),
            Some(seconds) => {
                tail.extend_from_slice(&[0, 6]);
                tail.extend_from_slice(&seconds_48(seconds));
            }
        }
        tail
    }

    fn digest(&self, key: &TsigKey, context: &mut hmac::Context) {
        let mut bytes = Vec::with_capacity(64);
        push_name_lower(&mut bytes, &key.name);
        bytes.extend_from_slice(&CLASS_ANY.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(key.algorithm.wire());
        bytes.extend_from_slice(&self.timers());
        bytes.extend_from_slice(&self.tail());
        context.update(&bytes);
    }

    /// Appends the TSIG record.
    fn append(&self, key: &TsigKey, mac: &[u8], message: &mut Vec<u8>) {
        let names = (key.name.as_wire(), key.algorithm.wire());
        self.append_as(names, mac, message);
    }

    fn append_as(&self, (key, algorithm): (&[u8], &[u8]), mac: &[u8], message: &mut Vec<u8>) {
        let Some(header) = Header::read(message) else { return };
        let tail = self.tail();
        let size = algorithm.len() + 8 + 2 + mac.len() + 2 + tail.len();
        message.extend_from_slice(key);
        message.extend_from_slice(&RecordType::TSIG.0.to_be_bytes());
        message.extend_from_slice(&CLASS_ANY.to_be_bytes());
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(&(size as u16).to_be_bytes());
        message.extend_from_slice(algorithm);
        message.extend_from_slice(&self.timers());
        message.extend_from_slice(&(mac.len() as u16).to_be_bytes());
        message.extend_from_slice(mac);
        message.extend_from_slice(&header.id.to_be_bytes());
        message.extend_from_slice(&tail);
        let additional_count = header.additional_count.saturating_add(1);
        Header { additional_count, ..header }.write(message);
    }
}

/// Compares in a time that does not tell where bytes differ.
fn are_equal(one: &[u8], other: &[u8]) -> bool {
    let differing = one.iter().zip(other).fold(0, |differing, (a, b)| differing | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differing) == 0
}

fn seconds_48(seconds: u64) -> [u8; 6] {
    let [_, _, bytes @ ..] = seconds.to_be_bytes();
    bytes
}

/// The TSIG record of a message.
struct SignatureRecord<'m> {
    offset: usize,
    key: Name,
    algorithm: Name,
    variables: Variables,
    mac: &'m [u8],
    original_id: u16,
}

impl<'m> SignatureRecord<'m> {
    /// Finds the record; none in a message without one, or that is no message.
    fn read(message: &'m [u8]) -> Result<Option<SignatureRecord<'m>>, TsigError> {
        let Some(header) = Header::read(message) else { return Ok(None) };
        let mut reader = WireReader::new(message);
        for _ in 0..header.question_count {
            if reader.question().is_none() {
                return Ok(None);
            }
        }
        let count = header.record_count();
        let mut found = None;
        for index in 0..count {
            let offset = reader.offset();
            let Some(record) = reader.raw_record() else {
                return if found.is_some() { Err(TsigError::Malformed) } else { Ok(None) };
            };
            if record.record_type != RecordType::TSIG {
                continue;
            }
            let is_last = index + 1 == count && header.additional_count > 0;
            if !is_last || record.class != CLASS_ANY || record.ttl_seconds != 0 {
                return Err(TsigError::Malformed);
            }
            found = Some((offset, record));
        }
        let Some((offset, record)) = found else { return Ok(None) };
        if !reader.is_at_end() {
            return Err(TsigError::Malformed);
        }
        let data = record.data;
        let read = || {
            let mut reader = WireReader::new(data);
            let algorithm = reader.plain_name()?;
            let (high, low, fudge) = (reader.u16()?, reader.u32()?, reader.u16()?);
            let size = reader.u16()?;
            let mac = reader.bytes(size.into())?;
            let (original_id, error) = (reader.u16()?, reader.u16()?);
            let other_size = reader.u16()?;
            let other = reader.bytes(other_size.into())?;
            let server_seconds = match other {
                [] => None,
                &[a, b, c, d, e, f] => Some(u64::from_be_bytes([0, 0, a, b, c, d, e, f])),
                _ => return None,
            };
            let seconds = u64::from(high) << 32 | u64::from(low);
            let variables = Variables { seconds, fudge, error, server_seconds };
            reader.is_at_end().then_some((algorithm, mac, original_id, variables))
        };
        let (algorithm, mac, original_id, variables) = read().ok_or(TsigError::Malformed)?;
        let key = record.owner;
        Ok(Some(SignatureRecord { offset, key, algorithm, variables, mac, original_id }))
    }

    fn is_of(&self, key: &TsigKey) -> bool {
        self.key == key.name && self.algorithm.as_wire().eq_ignore_ascii_case(key.algorithm.wire())
    }

    /// The message as it was signed: without the record, with the id of then.
    fn stripped(&self, message: &[u8]) -> Vec<u8> {
        let mut stripped = message.get(..self.offset).unwrap_or_default().to_vec();
        if let Some(header) = Header::read(message) {
            let additional_count = header.additional_count.saturating_sub(1);
            Header { id: self.original_id, additional_count, ..header }.write(&mut stripped);
        }
        stripped
    }

    /// The answer to a signature that is not known to be anybody's.
    fn refuse_unsigned(&self, message: &[u8], error: TsigError) -> RefusedQuery {
        let mut reply = reply_to(message, Rcode::NOTAUTH, false);
        let variables = Variables { error: error.code(), server_seconds: None, ..self.variables };
        variables.append_as((self.key.as_wire(), self.algorithm.as_wire()), &[], &mut reply);
        RefusedQuery { error, reply }
    }
}

#[cfg(test)]
#[path = "tsig_tests.rs"]
mod tests;
