//! pcap files: a head of 24 bytes, then records.
//!
//! Not for: pcapng, compressed files.
//!
//! ```text
//! head    magic u32 | version u16 u16 | zone i32 | accuracy u32 | snaplen u32 | link type u32
//! record  seconds u32 | fraction u32 | captured u32 | original u32 | captured bytes
//! ```
//!
//! The magic number tells byte order and fraction: microseconds, nanoseconds, or the form with
//! eight more bytes in each record's head (Kuznetsov's patch). Source: draft-ietf-opsawg-pcap.
//! The declared snaplen is not believed: records may be longer. Cost: no copy, no allocation.

use std::io::Read;

use crate::byte_order::ByteOrder;
use crate::capture::Context;
use crate::error::{CaptureError, ErrorKind, Place};
use crate::ip;
use crate::link::{LinkType, Packet};
use crate::record::PacketRecord;
use crate::source::RECORD_SIZE_MAX_BYTES;
use crate::totals::Skip;

const HEAD_SIZE: usize = 24;

/// The meaning of the first four bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Magic {
    order: ByteOrder,
    nanoseconds_per_fraction: u32,
    record_head_size: usize,
}

impl Magic {
    pub(crate) fn of(bytes: [u8; 4]) -> Option<Magic> {
        let known = |number: u32| match number {
            0xa1b2_c3d4 => Some((1000, 16)),
            0xa1b2_3c4d => Some((1, 16)),
            0xa1b2_cd34 => Some((1000, 24)),
            _ => None,
        };
        let little = known(u32::from_le_bytes(bytes)).map(|found| (ByteOrder::Little, found));
        let big = known(u32::from_be_bytes(bytes)).map(|found| (ByteOrder::Big, found));
        let (order, (nanoseconds_per_fraction, record_head_size)) = little.or(big)?;
        Some(Magic { order, nanoseconds_per_fraction, record_head_size })
    }
}

pub(crate) struct Pcap {
    magic: Magic,
    link: LinkType,
}

/// The four numbers of a record's head.
struct RecordHead {
    seconds: u32,
    fraction: u32,
    captured: usize,
    original: u32,
}

impl Pcap {
    /// Reads the head of the file.
    pub(crate) fn start<R: Read>(context: &mut Context<R>) -> Result<Self, CaptureError> {
        let place = Place::Offset(0);
        let head = context.source.fill(HEAD_SIZE);
        let head = head.map_err(|error| CaptureError::unreadable(place, &error))?;
        let Some(head) = head.get(..HEAD_SIZE) else {
            let found = format!("{} bytes", head.len());
            let kind = ErrorKind::Truncated;
            return Err(CaptureError::new(kind, place, found, "a pcap head of 24 bytes"));
        };
        let magic = head.first_chunk().and_then(|magic| Magic::of(*magic));
        let Some(magic) = magic else {
            let kind = ErrorKind::UnknownFormat;
            return Err(CaptureError::new(kind, place, "another first number", "pcap"));
        };
        let unsupported = |at, found, allowed| {
            Err(CaptureError::new(ErrorKind::Unsupported, Place::Offset(at), found, allowed))
        };
        let major = magic.order.u16_at(head, 4).unwrap_or_default();
        if major != 2 {
            return unsupported(4, format!("pcap version {major}"), "version 2");
        }
        // The upper half is about checksums behind the frames, which nobody asks for here.
        let number = magic.order.u32_at(head, 20).unwrap_or_default() as u16;
        let Some(link) = LinkType::from_number(number) else {
            return unsupported(20, format!("link type {number}"), LinkType::ALLOWED);
        };
        context.source.consume(HEAD_SIZE);
        Ok(Pcap { magic, link })
    }

    /// The next packet that can be judged.
    pub(crate) fn advance<R: Read>(
        &mut self,
        context: &mut Context<R>,
    ) -> Result<Option<PacketRecord>, CaptureError> {
        let head_size = self.magic.record_head_size;
        loop {
            let place = context.packet_place();
            let unreadable = |error| CaptureError::unreadable(place, &error);
            let bytes = context.source.fill(head_size).map_err(unreadable)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let Some(head) = bytes.get(..head_size).and_then(|bytes| self.record_head(bytes))
            else {
                return Err(truncated(place, bytes.len(), head_size));
            };
            if head.captured > RECORD_SIZE_MAX_BYTES {
                let found = format!("a record of {} bytes", head.captured);
                return Err(CaptureError::new(ErrorKind::Limit, place, found, "at most 16 MiB"));
            }
            let size = head_size + head.captured;
            let bytes = context.source.fill(size).map_err(unreadable)?;
            let Some(frame) = bytes.get(head_size..size) else {
                return Err(truncated(place, bytes.len(), size));
            };
            let mut record = PacketRecord::numbered(context.totals.count_record());
            let outcome = self.read_frame(&head, frame, &mut record);
            context.source.consume(size);
            match outcome {
                Ok(()) => return Ok(Some(record)),
                Err(reason) => context.totals.count_skip(reason),
            }
        }
    }

    #[inline]
    fn record_head(&self, bytes: &[u8]) -> Option<RecordHead> {
        let order = self.magic.order;
        Some(RecordHead {
            seconds: order.u32_at(bytes, 0)?,
            fraction: order.u32_at(bytes, 4)?,
            captured: order.u32_at(bytes, 8)? as usize,
            original: order.u32_at(bytes, 12)?,
        })
    }

    #[inline]
    fn read_frame(
        &self,
        head: &RecordHead,
        frame: &[u8],
        record: &mut PacketRecord,
    ) -> Result<(), Skip> {
        let Packet { network, bytes, .. } = self.link.packet_in(frame)?;
        ip::read(network, bytes, record)?;
        let nanoseconds = u64::from(head.fraction) * u64::from(self.magic.nanoseconds_per_fraction);
        let time = u64::from(head.seconds) * 1_000_000_000 + nanoseconds;
        record.time_nanoseconds = i64::try_from(time).ok();
        record.bytes = Some(u64::from(head.original));
        Ok(())
    }
}

/// The error for a source that ends within a record.
pub(crate) fn truncated(place: Place, found: usize, wanted: usize) -> CaptureError {
    let found = format!("the end of the source after {found} bytes");
    let allowed = format!("a record of {wanted} bytes at least");
    CaptureError::new(ErrorKind::Truncated, place, found, allowed)
}
