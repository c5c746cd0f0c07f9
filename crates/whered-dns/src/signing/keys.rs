//! One key that signs: made, read from the two texts that BIND's tools write, and its DS.
//!
//! Not for: where the texts are kept (the engine), when a key is used (`rollover.rs`).
//!
//! ```text
//! Kexample.com.+013+12345.key      example.com. IN DNSKEY 257 3 13 base64
//! Kexample.com.+013+12345.private  Private-key-format: v1.2, Algorithm, PrivateKey
//! ```
//!
//! Algorithms: ECDSA P-256 with SHA-256 (13) and Ed25519 (15), which every validator knows and
//! whose signatures are short. The `domain` crate reads private keys and signs, by `ring`.
//! Concurrency: shared freely. Cost: some 20 to 40 us a signature.
#![deny(clippy::indexing_slicing)]

use std::fmt;
use std::str::FromStr;

use domain::base::iana::SecurityAlgorithm;
use domain::crypto::sign::{GenerateParams, KeyPair, SecretKeyBytes, SignRaw, generate};
use domain::rdata::Dnskey;
use ring::digest;

use super::key_tag;
use crate::code::RecordType;
use crate::name::Name;
use crate::record::record_data;
use crate::zone::mnemonics::time;

/// The flags of a zone's key, without and with the bit of a secure entry point (RFC 4034, 2.1.1).
const ZONE_KEY: u16 = 256;
const ENTRY_POINT: u16 = 257;
const DNSSEC_PROTOCOL: u8 = 3;
/// The digest of a DS: SHA-256.
const DS_SHA256: u8 = 2;
/// The bytes of `YYYYMMDDHHMMSS`.
const TIME_LENGTH: usize = 14;

/// How a key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyAlgorithm {
    /// ECDSA P-256 with SHA-256, number 13 (RFC 6605).
    EcdsaP256Sha256,
    /// Ed25519, number 15 (RFC 8080).
    Ed25519,
}

impl KeyAlgorithm {
    /// The number in IANA's list.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            KeyAlgorithm::EcdsaP256Sha256 => 13,
            KeyAlgorithm::Ed25519 => 15,
        }
    }

    /// The algorithm with a number.
    #[must_use]
    pub const fn of_number(number: u8) -> Option<KeyAlgorithm> {
        match number {
            13 => Some(KeyAlgorithm::EcdsaP256Sha256),
            15 => Some(KeyAlgorithm::Ed25519),
            _ => None,
        }
    }

    /// The mnemonic in IANA's list.
    #[must_use]
    pub const fn mnemonic(self) -> &'static str {
        match self {
            KeyAlgorithm::EcdsaP256Sha256 => "ECDSAP256SHA256",
            KeyAlgorithm::Ed25519 => "ED25519",
        }
    }
}

/// By the mnemonic, in any case.
impl FromStr for KeyAlgorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<KeyAlgorithm, String> {
        let all = [KeyAlgorithm::EcdsaP256Sha256, KeyAlgorithm::Ed25519];
        let found = all.into_iter().find(|one| one.mnemonic().eq_ignore_ascii_case(text));
        found.ok_or_else(|| "'ecdsap256sha256' or 'ed25519'".to_owned())
    }
}

/// Why the texts of a key make no key: one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyError(String);

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for KeyError {}

fn wrong(found: impl fmt::Display, allowed: &str) -> KeyError {
    KeyError(format!("found {found}; allowed: {allowed}"))
}

/// A key with its private part.
pub struct SigningKey {
    algorithm: KeyAlgorithm,
    tag: u16,
    is_entry_point: bool,
    /// When it may be used, by the times that BIND's tools write.
    times: KeyTimes,
    /// The data of its DNSKEY.
    data: Box<[u8]>,
    pair: KeyPair,
}

/// Nothing of the private part.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({}/{})", self.algorithm.number(), self.tag)
    }
}

/// The times of a key, in seconds since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct KeyTimes {
    /// It is not used before.
    begin: Option<u32>,
    /// It is not used from then on.
    end: Option<u32>,
}

impl KeyTimes {
    /// Of a private text: `Activate: 20260101000000`, and the same for Publish, Inactive, Delete
    /// and Revoke.
    fn read(private_text: &str) -> Result<KeyTimes, KeyError> {
        let mut times = KeyTimes::default();
        for line in private_text.lines() {
            let Some((field, value)) = line.split_once(':') else { continue };
            let is_begin = matches!(field, "Publish" | "Activate");
            if !is_begin && !matches!(field, "Inactive" | "Delete" | "Revoke") {
                continue;
            }
            let value = value.trim();
            let time = time(value)
                .filter(|_| value.len() == TIME_LENGTH)
                .ok_or_else(|| wrong(format_args!("'{field}' with no time"), "YYYYMMDDHHMMSS"))?;
            if is_begin {
                times.begin = Some(times.begin.map_or(time, |known| known.max(time)));
            } else {
                times.end = Some(times.end.map_or(time, |known| known.min(time)));
            }
        }
        Ok(times)
    }
}

/// A key that was just made, with the texts of its two files.
pub struct NewKey {
    /// The key.
    pub key: SigningKey,
    /// The text of the `.key` file.
    pub public_text: String,
    /// The text of the `.private` file.
    pub private_text: String,
}

/// Nothing of the private text.
impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

impl SigningKey {
    /// Makes a key of a zone that signs all of it.
    ///
    /// ```
    /// use whered_dns::{KeyAlgorithm, SigningKey};
    /// let zone = "example.com".parse()?;
    /// let made = SigningKey::generate(&zone, KeyAlgorithm::EcdsaP256Sha256)?;
    /// let read = SigningKey::read(&zone, &made.public_text, &made.private_text)?;
    /// assert_eq!(read.tag(), made.key.tag());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate(zone: &Name, algorithm: KeyAlgorithm) -> Result<NewKey, KeyError> {
        let parameters = match algorithm {
            KeyAlgorithm::EcdsaP256Sha256 => GenerateParams::EcdsaP256Sha256,
            KeyAlgorithm::Ed25519 => GenerateParams::Ed25519,
        };
        let failed = |error: &dyn fmt::Display| KeyError(format!("no key could be made: {error}"));
        let (secret, public) =
            generate(&parameters, ENTRY_POINT).map_err(|error| failed(&error))?;
        let key = SigningKey::of_parts(&secret, &public)?;
        let base64 = domain::utils::base64::encode_string(public.public_key());
        let (number, zone) = (algorithm.number(), zone.to_string().to_ascii_lowercase());
        let public_text = format!(
            "; The key {} of {zone}: it signs all of the zone.\n\
             {zone} IN DNSKEY {ENTRY_POINT} {DNSSEC_PROTOCOL} {number} {base64}\n",
            key.tag
        );
        let private_text = secret.display_as_bind().to_string();
        Ok(NewKey { key, public_text, private_text })
    }

    /// Reads a key of a zone from the texts of its `.key` and `.private` files.
    ///
    /// # Errors
    /// A text that is none of a key, a key of another zone or algorithm, texts of two keys: one
    /// line that quotes nothing of the private text.
    pub fn read(
        zone: &Name,
        public_text: &str,
        private_text: &str,
    ) -> Result<SigningKey, KeyError> {
        let data = dnskey_data(zone, public_text)?;
        let (&[f0, f1, protocol, number], public) =
            data.split_first_chunk().ok_or_else(|| wrong("a short DNSKEY", "a key"))?;
        let flags = u16::from_be_bytes([f0, f1]);
        if protocol != DNSSEC_PROTOCOL || !matches!(flags, ZONE_KEY | ENTRY_POINT) {
            let found = format!("a DNSKEY with the flags {flags} and the protocol {protocol}");
            return Err(wrong(found, "the flags 256 or 257 and the protocol 3"));
        }
        if KeyAlgorithm::of_number(number).is_none() {
            let allowed = "13 (ECDSAP256SHA256) or 15 (ED25519)";
            return Err(wrong(format_args!("a key of the algorithm {number}"), allowed));
        }
        let secret = SecretKeyBytes::parse_from_bind(private_text).map_err(|error| {
            wrong(
                format_args!("no private key: {error}"),
                "Private-key-format: v1.2 or v1.3 with a PrivateKey of 32 bytes",
            )
        })?;
        let algorithm = SecurityAlgorithm::from_int(number);
        let public = Dnskey::new(flags, protocol, algorithm, public.to_vec())
            .map_err(|_| wrong("a long DNSKEY", "a key of 32 or 64 bytes"))?;
        let key = SigningKey::of_parts(&secret, &public)?;
        Ok(SigningKey { times: KeyTimes::read(private_text)?, ..key })
    }

    fn of_parts(secret: &SecretKeyBytes, public: &Dnskey<Vec<u8>>) -> Result<SigningKey, KeyError> {
        let number = public.algorithm().to_int();
        let is_same = secret.algorithm() == public.algorithm();
        let algorithm = KeyAlgorithm::of_number(number).filter(|_| is_same);
        let pair = KeyPair::from_bytes(secret, public).ok();
        let (Some(algorithm), Some(pair)) = (algorithm, pair) else {
            return Err(wrong(
                "a private key that is not of this DNSKEY",
                "the two files of one key",
            ));
        };
        let [f0, f1] = public.flags().to_be_bytes();
        let data = [&[f0, f1, DNSSEC_PROTOCOL, number], public.public_key().as_slice()].concat();
        let (tag, is_entry_point) = (key_tag(&data), public.flags() == ENTRY_POINT);
        let times = KeyTimes::default();
        Ok(SigningKey { algorithm, tag, is_entry_point, times, data: data.into(), pair })
    }

    /// Its tag, which need not be unique.
    #[must_use]
    pub fn tag(&self) -> u16 {
        self.tag
    }

    /// How it signs.
    #[must_use]
    pub fn algorithm(&self) -> KeyAlgorithm {
        self.algorithm
    }

    /// Whether the parent zone's DS may be of it: the SEP bit.
    #[must_use]
    pub fn is_entry_point(&self) -> bool {
        self.is_entry_point
    }

    /// Why it may not be used at a time in seconds since 1970; nothing if it may.
    pub(super) fn time_fault(&self, now_seconds: u64) -> Option<&'static str> {
        let KeyTimes { begin, end } = self.times;
        if end.is_some_and(|end| now_seconds >= u64::from(end)) {
            return Some("has expired");
        }
        begin.filter(|begin| now_seconds < u64::from(*begin)).map(|_| "is not active yet")
    }

    /// The data of its DNSKEY.
    #[must_use]
    pub fn dnskey(&self) -> &[u8] {
        &self.data
    }

    /// The data of its DS, with SHA-256 (RFC 4509).
    #[must_use]
    pub fn ds(&self, zone: &Name) -> Vec<u8> {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&zone.as_wire().to_ascii_lowercase());
        context.update(&self.data);
        let [t0, t1] = self.tag.to_be_bytes();
        [&[t0, t1, self.algorithm.number(), DS_SHA256], context.finish().as_ref()].concat()
    }

    /// The name of its files without `.key` and `.private`.
    #[must_use]
    pub fn file_stem(&self, zone: &Name) -> String {
        let (zone, number) = (zone_in_file_names(zone), self.algorithm.number());
        format!("K{zone}+{number:03}+{:05}", self.tag)
    }

    /// The signature of a message; none when the system has no random numbers.
    pub(super) fn sign(&self, message: &[u8]) -> Option<impl AsRef<[u8]> + use<>> {
        self.pair.sign_raw(message).ok()
    }
}

/// A zone's name as BIND's tools write it in names of files: in lower case, with a dot at its end,
/// what is no letter, digit, `-` or `_` as `%2F`.
#[must_use]
pub fn zone_in_file_names(zone: &Name) -> String {
    let mut text = String::new();
    for label in zone.labels().filter(|label| !label.is_empty()) {
        for byte in label.to_ascii_lowercase() {
            match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => text.push(byte.into()),
                _ => text.push_str(&format!("%{byte:02X}")),
            }
        }
        text.push('.');
    }
    if text.is_empty() { ".".to_owned() } else { text }
}

/// The data of the one DNSKEY of a `.key` file: `owner [TTL] [IN] DNSKEY ...`.
fn dnskey_data(zone: &Name, text: &str) -> Result<Vec<u8>, KeyError> {
    let allowed = "one line: ZONE IN DNSKEY FLAGS 3 ALGORITHM KEY";
    let is_record = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with(';');
    let mut lines = text.lines().filter(is_record);
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return Err(wrong("no line with a key, or several", allowed));
    };
    let mut words = line.split_whitespace();
    let owner: Option<Name> = words.next().and_then(|owner| owner.parse().ok());
    let is_plain = |word: &str| word.eq_ignore_ascii_case("IN") || word.parse::<u32>().is_ok();
    let kind = words.by_ref().find(|word| !is_plain(word)).unwrap_or_default();
    let data = words.collect::<Vec<_>>().join(" ");
    match owner {
        Some(owner) if owner != *zone => {
            return Err(wrong(format_args!("a key of {owner}"), &format!("a key of {zone}")));
        }
        Some(_) if kind.eq_ignore_ascii_case("DNSKEY") => {}
        _ => return Err(wrong("a line without DNSKEY", allowed)),
    }
    record_data(RecordType::DNSKEY, &data).map_err(|error| wrong(error, allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> Name {
        "example.com".parse().expect("a name")
    }

    #[test]
    fn the_key_and_ds_of_rfc_6605_are_read_and_computed() {
        // RFC 6605, 6.1; its private key is given in BIND's format.
        let public = "example.net. 3600 IN DNSKEY 257 3 13 (\n GojIhhXUN/u4v54ZQqGSnyhWJwaubCvTmeexv7bR6edb\n krSqQpF64cYbcB7wNcP+e+MAnLr+Wi9xMWyQLc8NAA== )\n";
        let public = public.replace("(\n", "").replace('\n', " ").replace(" )", "");
        let private = "Private-key-format: v1.2\nAlgorithm: 13 (ECDSAP256SHA256)\nPrivateKey: GU6SnQ/Ou+xC5RumuIUIuJZteXT2z0O/ok1s38Et6mQ=\n";
        let zone: Name = "example.net".parse().expect("a name");
        let key = SigningKey::read(&zone, &public, private).expect("a key");
        assert_eq!((key.tag(), key.algorithm()), (55_648, KeyAlgorithm::EcdsaP256Sha256));
        assert_eq!(key.file_stem(&zone), "Kexample.net.+013+55648");
        let classless: Name = "0/25.2.0.192.IN-addr.arpa".parse().expect("a name");
        assert_eq!(zone_in_file_names(&classless), "0%2F25.2.0.192.in-addr.arpa.");
        assert_eq!(zone_in_file_names(&Name::root()), ".");
        let expected = record_data(
            RecordType::DS,
            "55648 13 2 b4c8c1fe2e7477127b27115656ad6256f424625bf5c1e2770ce6d6e37df61d17",
        );
        assert_eq!(Ok(key.ds(&zone)), expected);
        assert_eq!(format!("{key:?}"), "SigningKey(13/55648)");
    }

    #[test]
    fn each_algorithm_makes_keys_that_are_read_again() {
        for algorithm in [KeyAlgorithm::EcdsaP256Sha256, KeyAlgorithm::Ed25519] {
            let made = SigningKey::generate(&zone(), algorithm).expect("a key");
            let read = SigningKey::read(&zone(), &made.public_text, &made.private_text);
            let read = read.expect("the same key");
            assert_eq!(read.dnskey(), made.key.dnskey());
            assert!(read.is_entry_point() && read.sign(b"text").is_some());
            assert!(!format!("{made:?}").contains("PrivateKey"));
        }
    }

    #[test]
    fn the_times_of_binds_tools_are_kept_to() {
        let made = SigningKey::generate(&zone(), KeyAlgorithm::Ed25519).expect("a key");
        let read = |lines: &str| {
            SigningKey::read(&zone(), &made.public_text, &format!("{}{lines}", made.private_text))
        };
        let day = 86_400;
        for (lines, now, expected) in [
            ("Created: 20300101000000\n", 0, None),
            ("Activate: 19700102000000\n", day - 1, Some("is not active yet")),
            ("Publish: 19700101000000\nActivate: 19700102000000\n", day, None),
            ("Inactive: 19700103000000\nDelete: 19700104000000\n", 2 * day - 1, None),
            ("Delete: 19700104000000\nInactive: 19700103000000\n", 2 * day, Some("has expired")),
        ] {
            assert_eq!(read(lines).expect("a key").time_fault(now), expected, "{lines}");
        }
        for line in ["Delete: 1970\n", "Inactive: 19701303000000\n", "Activate: \n"] {
            assert!(read(line).expect_err(line).to_string().contains("with no time"));
        }
        let key = read("Delete: 19700104000000\n").expect("a key");
        let states = super::super::KeyStates::default();
        let refused = super::super::SigningContext::new(vec![key], &states, 3 * day);
        let refused = refused.expect_err("it is over");
        assert!(refused.contains("which has expired"), "{refused}");
    }

    #[test]
    fn wrong_texts_are_refused_with_a_line_that_quotes_no_secret() {
        let made = SigningKey::generate(&zone(), KeyAlgorithm::EcdsaP256Sha256).expect("a key");
        let other = SigningKey::generate(&zone(), KeyAlgorithm::EcdsaP256Sha256).expect("a key");
        let secret = made.private_text.rsplit(' ').next().expect("the key").trim();
        let (public, private) = (&made.public_text, &made.private_text);
        let cases = [
            (
                public.replace("example.com. IN", "example.org. IN"),
                private.clone(),
                "a key of example.org.",
            ),
            (public.replace("257 3 13", "257 3 8"), private.clone(), "the algorithm 8"),
            (public.replace("257 3 13", "385 3 13"), private.clone(), "the flags 385"),
            (format!("{public}{public}"), private.clone(), "or several"),
            (public.clone(), String::new(), "no private key"),
            (
                public.clone(),
                private.replace("13 (ECDSAP256SHA256)", "15 (ED25519)"),
                "not of this DNSKEY",
            ),
            (public.clone(), other.private_text.clone(), "not of this DNSKEY"),
            (public.clone(), private.replace("v1.2", "v2.0"), "no private key"),
        ];
        for (public, private, expected) in cases {
            let error =
                SigningKey::read(&zone(), &public, &private).expect_err(expected).to_string();
            assert!(error.contains(expected) && !error.contains(secret), "{error}");
        }
        for end in 0..private.trim_end().len() {
            let _refused = SigningKey::read(&zone(), public, &private[..end]).expect_err("cut");
        }
        for end in 0..public.trim_end().len() {
            let _refused = SigningKey::read(&zone(), &public[..end], private).expect_err("cut");
        }
    }
}
