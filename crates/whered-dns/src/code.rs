//! The numbers of the protocol that this crate names: record types, response codes, opcodes.
//!
//! Not for: what a type's data looks like; numbers that have no name here are served as they are.

use std::fmt;

use domain::base::Rtype;

/// A record type, by its number (IANA's list); types without a name there print as `TYPE123`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct RecordType(pub u16);

macro_rules! record_types {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        impl RecordType {
            $(#[doc = $text] pub const $name: RecordType = RecordType($number);)*

            fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

record_types! {
    A = 1, "An IPv4 address.";
    NS = 2, "An authoritative server.";
    CNAME = 5, "An alias.";
    SOA = 6, "The start of a zone.";
    PTR = 12, "A pointer to a name.";
    HINFO = 13, "Host information; here the answer to ANY.";
    MX = 15, "A mail exchange.";
    TXT = 16, "Text.";
    AAAA = 28, "An IPv6 address.";
    SRV = 33, "A service.";
    DNAME = 39, "An alias of a subtree.";
    OPT = 41, "The EDNS pseudo record.";
    DS = 43, "A delegation's signer.";
    RRSIG = 46, "A signature.";
    NSEC = 47, "The next name of a signed zone.";
    DNSKEY = 48, "A signed zone's key.";
    NSEC3 = 50, "The next hash of a name of a signed zone.";
    NSEC3PARAM = 51, "How names are hashed for NSEC3.";
    CDS = 59, "What a signed zone wants its parent to have as DS.";
    CDNSKEY = 60, "The same as a key.";
    ZONEMD = 63, "A digest of a zone.";
    SVCB = 64, "Where a service is, and how it is spoken to (RFC 9460).";
    HTTPS = 65, "The same for HTTPS.";
    NXNAME = 128, "The mark of a name that does not exist (RFC 9824).";
    TKEY = 249, "A key exchange.";
    TSIG = 250, "A transaction signature.";
    IXFR = 251, "An incremental transfer.";
    AXFR = 252, "A transfer.";
    ANY = 255, "Any type (RFC 8482).";
    CAA = 257, "Who may issue certificates.";
}

impl RecordType {
    /// The type that a text names: `MX` in any case, or `TYPE15`.
    ///
    /// ```
    /// use whered_dns::RecordType;
    /// assert_eq!(RecordType::from_text("mx"), Some(RecordType::MX));
    /// assert_eq!(RecordType::from_text("no type"), None);
    /// ```
    #[must_use]
    pub fn from_text(text: &str) -> Option<RecordType> {
        if text.eq_ignore_ascii_case("NSAP-PTR") {
            return Some(RecordType(23));
        }
        text.parse::<Rtype>().ok().map(|found| RecordType(found.to_int()))
    }

    /// Whether only signed zones have such records.
    pub(crate) fn is_of_signed_zones(self) -> bool {
        use RecordType as Type;
        matches!(
            self,
            Type::RRSIG
                | Type::NSEC
                | Type::DNSKEY
                | Type::NSEC3
                | Type::NSEC3PARAM
                | Type::CDS
                | Type::CDNSKEY
        )
    }
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", Rtype::from_int(self.0)),
        }
    }
}

/// A response code, with the upper bits that EDNS adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Rcode(pub u16);

impl Rcode {
    /// No error; also for NODATA.
    pub const NOERROR: Rcode = Rcode(0);
    /// The query could not be read.
    pub const FORMERR: Rcode = Rcode(1);
    /// Something is wrong with this server.
    pub const SERVFAIL: Rcode = Rcode(2);
    /// The name does not exist.
    pub const NXDOMAIN: Rcode = Rcode(3);
    /// Not done here: opcodes other than QUERY.
    pub const NOTIMP: Rcode = Rcode(4);
    /// Not for this server: names outside its zones.
    pub const REFUSED: Rcode = Rcode(5);
    /// A DNAME makes a name that is too long; a name that must not exist does (RFC 2136).
    pub const YXDOMAIN: Rcode = Rcode(6);
    /// This server has no authority for the zone, or a signature does not hold.
    pub const NOTAUTH: Rcode = Rcode(9);
    /// A record that must not be there is there (RFC 2136).
    pub const YXRRSET: Rcode = Rcode(7);
    /// A record that must be there is not (RFC 2136).
    pub const NXRRSET: Rcode = Rcode(8);
    /// A name that is not in the zone of the message (RFC 2136).
    pub const NOTZONE: Rcode = Rcode(10);
    /// An EDNS version above 0.
    pub const BADVERS: Rcode = Rcode(16);
}

impl fmt::Display for Rcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("NOERROR"),
            1 => f.write_str("FORMERR"),
            2 => f.write_str("SERVFAIL"),
            3 => f.write_str("NXDOMAIN"),
            4 => f.write_str("NOTIMP"),
            5 => f.write_str("REFUSED"),
            6 => f.write_str("YXDOMAIN"),
            7 => f.write_str("YXRRSET"),
            8 => f.write_str("NXRRSET"),
            9 => f.write_str("NOTAUTH"),
            10 => f.write_str("NOTZONE"),
            16 => f.write_str("BADVERS"),
            other => write!(f, "RCODE{other}"),
        }
    }
}

/// Why a query got no better answer (RFC 8914), for clients with EDNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExtendedError {
    /// This client may not ask this.
    Prohibited = 18,
    /// The name is of no zone of this server.
    NotAuthoritative = 20,
    /// This server does not do such things.
    NotSupported = 21,
    /// No server tells what the answer depends on.
    NoReachableAuthority = 22,
    /// The data that answer cannot be read.
    InvalidData = 24,
    /// No question may be for this type.
    InvalidQueryType = 30,
}
