//! The text form of each record type: which parts its data have, in order.
//!
//! Not for reading the parts (`data.rs`). A type without a form here is written as `\#` data
//! (RFC 3597). Sources: RFC 1035 and the RFC of each type, as the registry of IANA lists them.

use super::data::Part;
use crate::code::RecordType;

/// The parts of a type's data; none for a type without a text form.
pub(super) fn form_of(record_type: RecordType) -> Option<&'static [Part]> {
    use Part as P;
    Some(match record_type.0 {
        // A
        1 => &[P::Ipv4],
        // NS, MD, MF, CNAME, MB, MG, MR, PTR, NSAP-PTR, DNAME
        2..=5 | 7..=9 | 12 | 23 | 39 => &[P::Name],
        // SOA
        6 => &[P::Name, P::Name, P::U32, P::Seconds, P::Seconds, P::Seconds, P::Seconds],
        // WKS
        11 => &[P::Ipv4, P::Protocol, P::Services],
        // HINFO
        13 => &[P::String, P::String],
        // MINFO, RP, TALINK
        14 | 17 | 58 => &[P::Name, P::Name],
        // MX, AFSDB, RT, KX, LP
        15 | 18 | 21 | 36 | 107 => &[P::U16, P::Name],
        // TXT, NINFO, SPF, AVC, RESINFO, WALLET, CLA
        16 | 56 | 99 | 258 | 261..=263 => &[P::Strings],
        // X25
        19 => &[P::String],
        // ISDN
        20 => &[P::String, P::OptionalString],
        // NSAP
        22 => &[P::Nsap],
        // SIG, RRSIG
        24 | 46 => &[
            P::Type,
            P::Algorithm,
            P::U8,
            P::Seconds,
            P::Time,
            P::Time,
            P::U16,
            P::Name,
            P::Base64,
        ],
        // KEY, RKEY: without a key when it is `NOKEY`.
        25 | 57 => &[P::U16, P::U8, P::Algorithm, P::OptionalBase64],
        // PX
        26 => &[P::U16, P::Name, P::Name],
        // GPOS
        27 => &[P::String, P::String, P::String],
        // AAAA
        28 => &[P::Ipv6],
        // LOC
        29 => &[P::Location],
        // EID, NIMLOC
        31 | 32 => &[P::Hex],
        // SRV
        33 => &[P::U16, P::U16, P::U16, P::Name],
        // ATMA
        34 => &[P::Atm],
        // NAPTR
        35 => &[P::U16, P::U16, P::String, P::String, P::String, P::Name],
        // CERT
        37 => &[P::CertificateType, P::U16, P::Algorithm, P::Base64],
        // A6
        38 => &[P::A6],
        // SINK
        40 => &[P::U8, P::U8, P::U8, P::OptionalBase64],
        // APL
        42 => &[P::AddressPrefixes],
        // DS, CDS, TA, DLV
        43 | 59 | 32_768 | 32_769 => &[P::U16, P::Algorithm, P::DigestType, P::Hex],
        // SSHFP
        44 => &[P::U8, P::U8, P::Hex],
        // IPSECKEY
        45 => &[P::Gateway],
        // NSEC
        47 => &[P::Name, P::Types],
        // DNSKEY, CDNSKEY
        48 | 60 => &[P::U16, P::U8, P::Algorithm, P::Base64],
        // DHCID, OPENPGPKEY, HHIT, BRID
        49 | 61 | 67 | 68 => &[P::Base64],
        // NSEC3
        50 => &[P::U8, P::U8, P::U16, P::Salt, P::Hash, P::Types],
        // NSEC3PARAM
        51 => &[P::U8, P::U8, P::U16, P::Salt],
        // TLSA, SMIMEA
        52 | 53 => &[P::U8, P::U8, P::U8, P::Hex],
        // HIP
        55 => &[P::HostIdentity],
        // CSYNC
        62 => &[P::U32, P::U16, P::Types],
        // ZONEMD
        63 => &[P::U32, P::U8, P::U8, P::Hex],
        // SVCB, HTTPS
        64 | 65 => &[P::U16, P::Name, P::ServiceParameters],
        // DSYNC
        66 => &[P::Type, P::Scheme, P::U16, P::Name],
        // NID, L64
        104 | 106 => &[P::U16, P::Locator],
        // L32
        105 => &[P::U16, P::Ipv4],
        // EUI48, EUI64
        108 => &[P::Octets { count: 6 }],
        109 => &[P::Octets { count: 8 }],
        // URI
        256 => &[P::U16, P::U16, P::Rest],
        // CAA
        257 => &[P::U8, P::Tag, P::Rest],
        // DOA
        259 => &[P::U32, P::U32, P::U8, P::String, P::Base64OrNone],
        // AMTRELAY
        260 => &[P::Relay],
        _ => return None,
    })
}
