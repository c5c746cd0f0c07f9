//! From the records of one owner and type to the wire that replies copy.
//!
//! Not for: which records (`build.rs`), where the wire lies (`layout.rs`).
//!
//! Names in the data of RFC 1035's types are compressed, others never (RFC 3597, 4): against names
//! that stand in this rrset already, the owner and the origin; whatever is longest. The target of
//! an alias points at nothing but the origin, so that its labels stand in one piece for what
//! follows. A wildcard's owner is not what replies have there, so that nothing points at it.
//! Cost: linear in the data, times the names before for NS and the like.

use super::layout::NewRrset;
use super::rdata::name_layout;
use crate::code::RecordType;
use crate::name::wire_name_length;

/// Where the owner of an rrset stands when it is the question's name.
const OWNER_OFFSET: usize = 12;
const POINTER_OFFSET_MAX: usize = 0x3fff;
/// The most names of an rrset that later ones are compared with.
const KNOWN_NAMES_MAX: usize = 32;

/// The context that names are compressed against.
#[derive(Clone, Copy)]
pub(crate) struct CompressionContext<'a> {
    /// The owner in wire form.
    pub(crate) owner: &'a [u8],
    /// How many bytes of it stand before the origin.
    pub(crate) relative_length: usize,
}

/// Compiles records into `rrset`, whose memory is used again. Gives none when they are too many for
/// any message.
pub(crate) fn compile<'a>(
    rrset: &mut NewRrset,
    record_type: RecordType,
    ttl_seconds: u32,
    data: impl Iterator<Item = &'a [u8]>,
    around: CompressionContext<'_>,
) -> Option<()> {
    rrset.record_type = record_type;
    rrset.count = 0;
    rrset.points.clear();
    rrset.wire.clear();
    let compressed = name_layout(record_type).filter(|_| record_type.0 < 16);
    let mut known: Vec<(usize, &[u8])> = Vec::new();
    for data in data {
        rrset.count = rrset.count.checked_add(1)?;
        rrset.wire.extend_from_slice(&[0xc0, OWNER_OFFSET as u8]);
        rrset.wire.extend_from_slice(&record_type.0.to_be_bytes());
        rrset.wire.extend_from_slice(&[0, 1]);
        rrset.wire.extend_from_slice(&ttl_seconds.to_be_bytes());
        rrset.wire.extend_from_slice(&[0, 0]);
        let start = rrset.wire.len();
        match compressed {
            None => rrset.wire.extend_from_slice(data),
            Some((front, names, _)) => {
                rrset.wire.extend_from_slice(&data[..front]);
                let mut rest = &data[front..];
                for _ in 0..names {
                    let length = wire_name_length(rest)?;
                    append_name(rrset, &rest[..length], around, &mut known);
                    rest = &rest[length..];
                }
                rrset.wire.extend_from_slice(rest);
            }
        }
        let length = (rrset.wire.len() - start) as u16;
        rrset.wire[start - 2..start].copy_from_slice(&length.to_be_bytes());
    }
    u16::try_from(rrset.wire.len() + around.owner.len() + 16).ok().map(|_| ())
}

/// Appends a name, its end replaced by a pointer where it can be.
fn append_name<'a>(
    rrset: &mut NewRrset,
    name: &'a [u8],
    around: CompressionContext<'_>,
    known: &mut Vec<(usize, &'a [u8])>,
) {
    // Where the rrset begins when it follows a question with the owner's name.
    let base = OWNER_OFFSET + around.owner.len() + 4;
    let is_alias = rrset.record_type == RecordType::CNAME;
    let is_wildcard = around.owner.starts_with(b"\x01*");
    let origin = &around.owner[around.relative_length..];
    let mut at = 0;
    let mut written = Vec::new();
    while name[at] != 0 {
        let suffix = &name[at..];
        let target = if !is_alias && !is_wildcard && suffix.eq_ignore_ascii_case(around.owner) {
            Some(OWNER_OFFSET)
        } else if let Some((place, _)) =
            known.iter().find(|(_, known)| !is_alias && known.eq_ignore_ascii_case(suffix))
        {
            Some(*place)
        } else if suffix.eq_ignore_ascii_case(origin) {
            Some(OWNER_OFFSET + around.relative_length)
        } else {
            None
        };
        let point = u16::try_from(rrset.wire.len());
        if let (Some(target), Ok(point)) = (target, point) {
            rrset.points.push(point);
            rrset.wire.extend_from_slice(&(0xc000 | target as u16).to_be_bytes());
            known.append(&mut written);
            return;
        }
        // Pointers must reach it from wherever the rrset comes to stand.
        let place = base + rrset.wire.len();
        if place < POINTER_OFFSET_MAX / 8 && known.len() + written.len() < KNOWN_NAMES_MAX {
            written.push((place, suffix));
        }
        let next = at + 1 + usize::from(name[at]);
        rrset.wire.extend_from_slice(&name[at..next]);
        at = next;
    }
    rrset.wire.push(0);
    known.append(&mut written);
}
