//! One zone: every owner with its rrsets in wire form, read from a master file and checked.
//!
//! Not for: finding names among several zones, pools (`zones.rs`), files (bytes are handed in).
//!
//! ```text
//! Zone   origin, nodes sorted as RFC 4034 says (the apex is node 0), the SOA for negative answers
//! Node   owner | rrsets by type, each with its wire (see `rdata.rs`) | cut | glue
//!          a.example.com      A AAAA        cut: none
//!          sub.example.com    NS            cut: this node       glue: nodes of ns.sub
//!          ns.sub.example.com A             cut: sub             (never answered with authority)
//!          ent.example.com    -             an empty non-terminal: there is x.ent.example.com
//! ```
//!
//! Invariants: one SOA and at least one NS at the apex; every name between an owner and the apex is
//! a node; a CNAME stands alone; no two equal records; one TTL in an rrset; nodes are sorted.
//! Concurrency: immutable once built, shared freely.
//! Cost: building is a sort of the records; finding a node here is a binary search (answers use the
//! hash index of `zones.rs`).

pub(crate) mod build;
mod error;
mod lexer;
mod master;
pub(crate) mod rdata;

pub use error::ZoneError;
pub(crate) use master::TTL_SECONDS_MAX;
pub(crate) use rdata::{RECORD_HEAD_SIZE, Rrset};

use crate::code::RecordType;
use crate::name::Name;

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
    nodes: Vec<Node>,
    negative_soa: Rrset,
    warnings: Vec<ZoneError>,
}

/// One name of a zone.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) owner: Name,
    /// By type, ascending.
    pub(crate) rrsets: Box<[Rrset]>,
    /// The delegation at or above this node.
    pub(crate) cut: Option<u32>,
    /// Of a delegation: addresses of its servers that lie below a cut of this zone.
    pub(crate) glue: Box<[Glue]>,
}

/// One server of a delegation that needs glue.
#[derive(Debug)]
pub(crate) struct Glue {
    /// The node with the addresses.
    pub(crate) node: u32,
    /// Where the server's name stands in the wire of the NS rrset.
    pub(crate) target_offset: u32,
}

impl Node {
    /// A node without records.
    pub(crate) fn empty(owner: Name) -> Node {
        Node { owner, rrsets: Box::default(), cut: None, glue: Box::default() }
    }

    pub(crate) fn rrset(&self, record_type: RecordType) -> Option<&Rrset> {
        self.rrsets.iter().find(|rrset| rrset.record_type == record_type)
    }
}

impl Zone {
    /// Reads a zone from a master file (RFC 1035, 5): `$ORIGIN`, `$TTL`, `$INCLUDE` through the
    /// callback, TTLs with units, every type that the `domain` crate reads, others as `\#` data
    /// (RFC 3597). Class IN only.
    ///
    /// Duplicate records are dropped and an rrset with several TTLs gets the lowest one;
    /// [`Zone::warnings`] tells of both.
    ///
    /// # Errors
    ///
    /// The first mistake with its place: syntax, an owner outside the zone, no SOA or more than
    /// one, no NS at the apex, a CNAME beside other data, NS, DNAME or SOA where they cannot be.
    pub fn from_master_file(
        origin: &Name,
        text: &[u8],
        include: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Zone, ZoneError> {
        let (records, end) = master::read(origin, text, include)?;
        build::build(origin, records, &end)
    }

    /// The zone's name.
    #[must_use]
    pub fn origin(&self) -> &Name {
        &self.origin
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

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The SOA with the TTL of negative answers (RFC 2308, 5).
    pub(crate) fn negative_soa(&self) -> &Rrset {
        &self.negative_soa
    }

    /// The index of the node with this owner. Cost: a binary search.
    pub(crate) fn find(&self, owner: &Name) -> Option<usize> {
        self.nodes.binary_search_by(|node| node.owner.cmp(owner)).ok()
    }
}
