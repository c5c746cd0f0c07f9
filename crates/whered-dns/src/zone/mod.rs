//! One zone: every owner with its rrsets in wire form, read from a master file and checked.
//!
//! Not for: finding the zone of a name, pools (`zones`), files (bytes are handed in).
//!
//! ```text
//! text ─ lexer ─ master ─> ParsedZone ─ build ─> arena: a block for each owner      (layout.rs)
//!                                           index: hash of the owner -> block  (index.rs)
//!   a.example.com      A AAAA        cut: none
//!   sub.example.com    NS            cut: itself          glue: the block of ns.sub
//!   ns.sub.example.com A             cut: sub             (never answered with authority)
//!   ent.example.com    -             an empty non-terminal: there is x.ent.example.com
//! ```
//!
//! Invariants: one SOA and at least one NS at the apex; every name between an owner and the apex is
//! an owner; a CNAME stands alone; nothing is below a DNAME; no two equal records; one TTL in an
//! rrset.
//! Concurrency: immutable once built, shared freely.
//! Cost: an owner that exists takes one search in the index and reads one block. Nothing is kept
//! for a record beside its wire; a zone of a million delegations and hosts takes some 60 bytes a
//! record (`bench/own`, `dns load`).

mod build;
pub(crate) mod canonical;
mod compile;
pub(crate) mod data;
mod difference;
mod error;
mod forms;
mod generate;
mod index;
pub(crate) mod layout;
pub(crate) mod lexer;
mod master;
mod master_text;
pub(crate) mod mnemonics;
mod odd_parts;
pub(crate) mod ordered_names;
mod parsed_zone;
mod plain;
pub(crate) mod rdata;
mod records;
mod service_parameters;
pub(crate) mod sign;
pub(crate) mod signed;
mod verify;

pub(crate) use compile::{CompressionContext, compile};
pub use difference::Difference;
pub use error::ZoneError;
use index::NameIndex;
use layout::{Arena, HAS_CHILDREN};
pub(crate) use layout::{Node, NodeRef, OwnedRrset, Rrset};
pub(crate) use master::TTL_SECONDS_MAX;
use master::is_stripped;
pub use records::ZoneRecord;
pub(crate) use signed::SignedZone;

use crate::lower::{LowerName, hash_of_wildcard};
use crate::name::Name;
use crate::signing::{KeyStates, SigningContext, ZoneSigner};

/// How many remarks about a zone are kept.
const REMARK_COUNT_MAX: usize = 100;

/// One zone, immutable: its owners and their rrsets, precompiled for replies.
///
/// ```
/// use whered_dns::{Name, Zone};
/// let text = b"$TTL 1h\n@ IN SOA ns hostmaster 7 1d 2h 4w 5m\n@ NS ns\nns A 192.0.2.1\n";
/// let zone = Zone::from_master_file(&"example.com".parse()?, text, &mut |path| {
///     Err(format!("{path} is not here"))
/// })?;
/// assert_eq!((zone.serial(), zone.record_count()), (7, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Zone {
    origin: Name,
    serial: u32,
    record_count: usize,
    name_count: usize,
    left_out_count: usize,
    /// Names below a DNAME were left out.
    has_occluded: bool,
    lower_origin: Box<[u8]>,
    parts: Parts,
    negative_soa: OwnedRrset,
    /// What proves that something is not there; none in an unsigned zone.
    signed: Option<Box<SignedZone>>,
    warnings: Vec<ZoneError>,
    /// Nothing of it is served: it was not transferred yet, or it has expired.
    is_unavailable: bool,
}

/// The treatment of a signed zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dnssec {
    /// Its signatures and proofs are served to who asks for them (RFC 4035 and 5155).
    #[default]
    Serve,
    /// A record that only signed zones have is an error: RRSIG, NSEC, NSEC3, NSEC3PARAM, DNSKEY,
    /// CDS, CDNSKEY.
    Refuse,
    /// These, DS and ZONEMD are left out, with the names that have nothing else. Nobody is misled
    /// as long as no parent has a DS of the zone.
    Strip,
}

/// The parts that lookups read.
#[derive(Debug)]
struct Parts {
    arena: Arena,
    index: NameIndex,
    apex: NodeRef,
    /// How many labels below the apex most owners are.
    common_depth: u8,
    /// The bytes of blocks that nobody finds.
    dead_bytes: usize,
}

impl Zone {
    /// Reads a zone from a master file (RFC 1035, 5): `$ORIGIN`, `$TTL`, `$GENERATE`, `$INCLUDE`
    /// through the callback, TTLs with units, every type of IANA's registry that has a text form,
    /// others as `\#` data (RFC 3597). Class IN only.
    ///
    /// Duplicate records are dropped and an rrset with several TTLs gets the lowest one;
    /// [`Zone::warnings`] tells of both.
    ///
    /// # Errors
    ///
    /// The first mistake with its place: syntax, an owner outside the zone, no SOA or more than
    /// one, no NS at the apex, a CNAME beside other data, NS, DNAME or SOA where they cannot be,
    /// more records of one owner and type than a message holds; a signed zone
    /// that lacks what proofs need.
    pub fn from_master_file(
        origin: &Name,
        text: &[u8],
        include: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Zone, ZoneError> {
        Zone::from_any_master_file(origin, text, Dnssec::Serve, include)
    }

    /// Reads a zone that may be a signed one.
    ///
    /// ```
    /// use whered_dns::{Dnssec, Name, Zone};
    /// let text = b"$TTL 1h\n@ IN SOA ns hostmaster 7 1d 2h 4w 5m\n@ NS ns\nns A 192.0.2.1\n\
    ///              @ DNSKEY 257 3 13 AAAA\n";
    /// let origin: Name = "example.com".parse()?;
    /// let read = |dnssec| {
    ///     Zone::from_any_master_file(&origin, text, dnssec, &mut |_| Err("no".into()))
    /// };
    /// assert_eq!(read(Dnssec::Refuse).unwrap_err().line(), 5);
    /// assert_eq!(read(Dnssec::Strip)?.left_out_count(), 1);
    /// assert_eq!(read(Dnssec::Serve)?.first_expiry_seconds(0), None, "no record is signed");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Zone::from_master_file`], but for what `dnssec` allows.
    pub fn from_any_master_file(
        origin: &Name,
        text: &[u8],
        dnssec: Dnssec,
        include: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Zone, ZoneError> {
        let (parsed, end) = master::read(origin, text, dnssec, include)?;
        build::build(parsed, &end)
    }

    /// A zone of which nothing is known, or nothing that may still be served. Every question about
    /// it is answered with SERVFAIL.
    ///
    /// ```
    /// use whered_dns::Zone;
    /// let zone = Zone::unavailable(&"example.com".parse()?);
    /// assert!(zone.is_unavailable());
    /// # Ok::<(), whered_dns::NameError>(())
    /// ```
    #[must_use]
    pub fn unavailable(origin: &Name) -> Zone {
        let text = b"@ 0 IN SOA . . 0 0 0 0 0\n@ 0 IN NS .\n";
        let zone = Zone::from_master_file(origin, text, &mut |_| Err(String::new()));
        Zone { is_unavailable: true, ..zone.expect("a SOA and a NS are a zone") }
    }

    /// Whether it is [`Zone::unavailable`].
    #[must_use]
    #[inline]
    pub fn is_unavailable(&self) -> bool {
        self.is_unavailable
    }

    /// Reads an unsigned zone and signs it.
    ///
    /// ```
    /// use whered_dns::{KeyAlgorithm, KeyStates, Name, SigningContext, SigningKey, Zone};
    /// let text = b"$TTL 1h\n@ IN SOA ns hostmaster 7 1d 2h 4w 5m\n@ NS ns\nns A 192.0.2.1\n";
    /// let origin: Name = "example.com".parse()?;
    /// let key = SigningKey::generate(&origin, KeyAlgorithm::Ed25519)?.key;
    /// let signing = SigningContext::new(vec![key], &KeyStates::default(), 1_764_230_400)?;
    /// let zone = Zone::sign_master_file(&origin, text, &signing, &mut |_| Err("none".into()))?;
    /// let end = zone.first_expiry_seconds(1_764_230_400);
    /// let days = end.map(|end| (end - 1_764_230_400) / 86_400);
    /// assert!(days.is_some_and(|days| (11..14).contains(&days)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Zone::from_master_file`]; a record that only signed zones have.
    pub fn sign_master_file(
        origin: &Name,
        text: &[u8],
        signing: &SigningContext,
        include: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Zone, ZoneError> {
        let (parsed, end) = master::read(origin, text, Dnssec::Serve, include)?;
        sign::build_signed(parsed, &end, signing)
    }

    /// Whether the zone is signed here, and not by its file.
    #[must_use]
    pub fn is_signed_here(&self) -> bool {
        self.signer().is_some()
    }

    /// The states of its keys when it was signed; none unless it is signed here.
    #[must_use]
    pub fn key_states(&self) -> Option<&KeyStates> {
        self.signer().map(|signer| &signer.states)
    }

    /// The signer of a zone that is signed here.
    pub(crate) fn signer(&self) -> Option<&ZoneSigner> {
        self.signed()?.signer.as_ref().map(|own| &own.signer)
    }

    /// Verifies the signatures of a signed zone at a time, in seconds since 1970: a fault for each
    /// rrset that has none which holds, none for an unsigned zone. Algorithms: RSA with SHA-1,
    /// SHA-256 and SHA-512, ECDSA P-256 and P-384, Ed25519.
    ///
    /// # Errors
    ///
    /// A mistake in the text.
    pub fn signature_faults(
        origin: &Name,
        text: &[u8],
        now_seconds: u64,
        include: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Vec<ZoneError>, ZoneError> {
        let (mut parsed, _) = master::read(origin, text, Dnssec::Serve, include)?;
        parsed.forget_closing_soa();
        Ok(verify::faults(&mut parsed, now_seconds))
    }

    /// The zone's name.
    #[must_use]
    pub fn origin(&self) -> &Name {
        &self.origin
    }

    /// Whether it has signatures.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.signed.is_some()
    }

    /// The serial number of the SOA.
    #[must_use]
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// How many records are served, glue included.
    #[must_use]
    pub fn record_count(&self) -> usize {
        self.record_count
    }

    /// Oddities that were put right: duplicate records, rrsets with several TTLs. At most 100.
    #[must_use]
    pub fn warnings(&self) -> &[ZoneError] {
        &self.warnings
    }

    /// How many names exist, empty non-terminals included.
    #[must_use]
    pub fn name_count(&self) -> usize {
        self.name_count
    }

    /// How many records were left out by [`Dnssec::Strip`].
    #[must_use]
    pub fn left_out_count(&self) -> usize {
        self.left_out_count
    }

    /// What is there only in a signed zone.
    #[inline]
    pub(crate) fn signed(&self) -> Option<&SignedZone> {
        self.signed.as_deref()
    }

    /// When the first signature ends, in seconds since 1970; none in an unsigned zone. Such times
    /// have 32 bits (RFC 4034, 3.1.5): of those that it may be, that nearest to `now_seconds`.
    #[must_use]
    pub fn first_expiry_seconds(&self, now_seconds: u64) -> Option<u64> {
        let expiry = self.signed()?.first_expiry_seconds;
        let distance = expiry.wrapping_sub(now_seconds as u32).cast_signed();
        Some(now_seconds.saturating_add_signed(distance.into()))
    }

    /// The memory that the zone holds for lookups, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.parts.arena.size_bytes() + self.parts.index.size_bytes()
    }

    /// The SOA with the TTL of negative answers (RFC 2308, 5).
    #[inline]
    pub(crate) fn negative_soa(&self) -> Rrset<'_> {
        self.negative_soa.get()
    }

    /// The SOA of negative answers that may be remembered for a shorter time than the zone's; none
    /// when the zone's is as short.
    pub(crate) fn negative_soa_within(&self, ttl_seconds: u32) -> Option<OwnedRrset> {
        let is_shorter = ttl_seconds < self.negative_soa().ttl_seconds();
        is_shorter.then(|| self.negative_soa.with_ttl(ttl_seconds))
    }

    /// The origin in wire form, in lower case.
    #[inline]
    pub(crate) fn lower_origin(&self) -> &[u8] {
        &self.lower_origin
    }

    #[inline]
    pub(crate) fn node(&self, place: NodeRef) -> Node<'_> {
        self.parts.arena.node(place)
    }

    /// The apex.
    pub(crate) fn apex(&self) -> Node<'_> {
        self.node(self.parts.apex)
    }

    /// The owner that is the name, or that is the closest above it; and how many labels it has
    /// below the apex. `apex_labels` is the number of the origin's, which the name must end with.
    ///
    /// It begins where most owners are, so that a host of a flat zone takes one search, and goes
    /// down or up from there; below a delegation it does not go.
    #[inline(always)]
    pub(crate) fn closest(&self, name: &LowerName, apex_labels: usize) -> (Node<'_>, usize) {
        let below = name.label_count() - apex_labels;
        let first = below.min(self.parts.common_depth.into());
        let mut depth = first;
        let mut found = loop {
            if depth == 0 {
                break self.node(self.parts.apex);
            }
            match self.probe(name, apex_labels + depth) {
                Some(node) => break node,
                None => depth -= 1,
            }
        };
        // What was missed on the way up is not looked for again.
        while (first..below).contains(&depth) && found.has(HAS_CHILDREN) && found.cut().is_none() {
            match self.probe(name, apex_labels + depth + 1) {
                Some(node) => (found, depth) = (node, depth + 1),
                None => break,
            }
        }
        (found, depth)
    }

    /// The owner that the name's last `labels` labels are.
    #[inline(always)]
    fn probe(&self, name: &LowerName, labels: usize) -> Option<Node<'_>> {
        let suffix = name.suffix(labels);
        let relative = suffix.get(..suffix.len() - self.lower_origin.len())?;
        let is_name = |place| self.node(place).owner() == relative;
        self.parts.index.find(name.hash_of(labels), is_name).map(|place| self.node(place))
    }

    /// The wildcard below the name's last `labels` labels.
    #[inline]
    pub(crate) fn wildcard(&self, name: &LowerName, labels: usize) -> Option<Node<'_>> {
        let suffix = name.suffix(labels);
        let relative = suffix.get(..suffix.len() - self.lower_origin.len())?;
        let is_name = |place| self.node(place).owner().strip_prefix(b"\x01*") == Some(relative);
        let found = self.parts.index.find(hash_of_wildcard(name.hash_of(labels)), is_name);
        found.map(|place| self.node(place))
    }

    /// The owner with this name, if it is one.
    pub(crate) fn find(&self, name: &Name) -> Option<Node<'_>> {
        let (name, origin) = (LowerName::of(name), LowerName::of(&self.origin));
        let labels = origin.label_count();
        let within = name.label_count() >= labels && name.suffix(labels) == origin.as_wire();
        match name.label_count() {
            _ if !within => None,
            count if count == labels => Some(self.node(self.parts.apex)),
            count => self.probe(&name, count),
        }
    }

    /// The owner with a name, which is without the origin and in lower case.
    fn find_relative(&self, relative: &[u8]) -> Option<Node<'_>> {
        if relative.is_empty() {
            return Some(self.apex());
        }
        let mut name = LowerName::root();
        name.read(&[relative, &self.lower_origin].concat())?;
        self.probe(&name, name.label_count())
    }

    /// The whole name of one of its owners.
    pub(crate) fn name_of(&self, node: &Node<'_>) -> Name {
        let wire = [node.owner(), self.origin.as_wire()].concat();
        Name::from_wire(&wire).expect("an owner was read as a name")
    }

    /// Asks for the slots that [`Zone::closest`] reads first.
    #[inline]
    pub(crate) fn prefetch_slot(&self, name: &LowerName, apex_labels: usize) {
        self.parts.index.prefetch(name.hash_of(self.first_labels(name, apex_labels)));
    }

    /// Asks for the block that [`Zone::closest`] reads first; the slots are read now.
    #[inline]
    pub(crate) fn prefetch_node(&self, name: &LowerName, apex_labels: usize) -> Option<NodeRef> {
        let hash = name.hash_of(self.first_labels(name, apex_labels));
        let place = self.parts.index.find(hash, |_| true)?;
        self.parts.arena.prefetch(place);
        Some(place)
    }

    /// Asks for the glue of a delegation; its block is read now.
    #[inline]
    pub(crate) fn prefetch_glue(&self, place: NodeRef) {
        let node = self.node(place);
        if node.cut() == Some(place) {
            for (_, host) in node.glue() {
                self.parts.arena.prefetch(host);
            }
        }
    }

    #[inline]
    fn first_labels(&self, name: &LowerName, apex_labels: usize) -> usize {
        let below = name.label_count() - apex_labels;
        apex_labels + below.min(self.parts.common_depth.into())
    }

    /// Whether lookups wait for memory rather than for a cache.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.size_bytes() > LARGE_BYTES
    }
}

/// About half of a core's second cache level.
const LARGE_BYTES: usize = 512 * 1024;
