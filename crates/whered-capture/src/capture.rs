//! A capture: a reader, its format, and the records that come out of it one by one.
//!
//! For: the one type that callers hold. Not for: the formats themselves.
//!
//! Invariants: records come in the order of the source; after an error or the end nothing comes any
//! more; what was skipped is in [`Capture::totals`] before the next record is given.

use std::io::Read;

use crate::error::{CaptureError, Place};
use crate::format::{Format, detect};
use crate::interfaces::{Interface, Interfaces};
use crate::pcap::Pcap;
use crate::pcapng::PcapNg;
use crate::record::PacketRecord;
use crate::source::Source;
use crate::table::{Csv, Lines};
use crate::totals::Totals;
use crate::zeek::{ZeekJson, ZeekTsv};

/// Packets or flows out of bytes of any format that is known here.
///
/// It yields what it can read; an error is the last thing that it yields.
///
/// ```
/// use whered_capture::{Capture, Format};
///
/// let table = "src,dst,proto,sport,dport,in\n10.0.0.1,10.0.0.2,udp,53,5353,eth0\n10.0.0.1,x";
/// let mut capture = Capture::new(table.as_bytes())?;
/// assert_eq!(capture.format(), Format::Csv);
/// let packet = capture.next().expect("a row")?;
/// let input = packet.input.and_then(|input| capture.interface_name(input));
/// assert_eq!(input, Some("eth0"));
/// let error = capture.next().expect("a row").expect_err("a broken one");
/// assert_eq!(error.line(), Some(3));
/// assert!(capture.next().is_none());
/// # Ok::<(), whered_capture::CaptureError>(())
/// ```
pub struct Capture<R> {
    context: Context<R>,
    format: Format,
    decoder: Decoder,
    is_over: bool,
}

/// The input that every format reads.
pub(crate) struct Context<R> {
    pub(crate) source: Source<R>,
    pub(crate) interfaces: Interfaces,
    pub(crate) totals: Totals,
    /// Lines that were taken, of text formats.
    pub(crate) line: u64,
}

enum Decoder {
    Pcap(Pcap),
    PcapNg(PcapNg),
    ZeekTsv(ZeekTsv),
    ZeekJson(ZeekJson),
    Csv(Csv),
    Lines(Lines),
}

impl<R: Read> Capture<R> {
    /// Reads the head of a source, whose first bytes tell the format.
    ///
    /// # Errors
    ///
    /// If the format is not known, or the head is broken.
    pub fn new(reader: R) -> Result<Self, CaptureError> {
        let mut source = Source::new(reader);
        let format = detect(&mut source)?;
        Self::start(source, format)
    }

    /// Opens a capture whose format is known.
    ///
    /// # Errors
    ///
    /// If the head is broken.
    pub fn with_format(reader: R, format: Format) -> Result<Self, CaptureError> {
        Self::start(Source::new(reader), format)
    }

    fn start(source: Source<R>, format: Format) -> Result<Self, CaptureError> {
        let interfaces = Interfaces::default();
        let mut context = Context { source, interfaces, totals: Totals::default(), line: 0 };
        let decoder = match format {
            Format::Pcap => Decoder::Pcap(Pcap::start(&mut context)?),
            Format::PcapNg => Decoder::PcapNg(PcapNg::default()),
            Format::ZeekTsv => Decoder::ZeekTsv(ZeekTsv::default()),
            Format::ZeekJson => Decoder::ZeekJson(ZeekJson::start(&mut context)?),
            Format::Csv => Decoder::Csv(Csv::start(&mut context)?),
            Format::Lines => Decoder::Lines(Lines::start(&mut context)?),
        };
        Ok(Capture { context, format, decoder, is_over: false })
    }

    fn advance(&mut self) -> Result<Option<PacketRecord>, CaptureError> {
        let context = &mut self.context;
        match &mut self.decoder {
            Decoder::Pcap(decoder) => decoder.advance(context),
            Decoder::PcapNg(decoder) => decoder.advance(context),
            Decoder::ZeekTsv(decoder) => decoder.advance(context),
            Decoder::ZeekJson(decoder) => decoder.advance(context),
            Decoder::Csv(decoder) => decoder.advance(context),
            Decoder::Lines(decoder) => decoder.advance(context),
        }
    }

    /// Whether bytes have come that were not understood yet; without any, the next record may have
    /// to be waited for.
    #[must_use]
    pub fn has_buffered(&self) -> bool {
        self.context.source.has_buffered()
    }

    /// How many bytes have been read and understood, for a progress bar.
    #[must_use]
    pub fn offset_bytes(&self) -> u64 {
        self.context.source.offset()
    }
}

impl<R> Capture<R> {
    /// The format of the source.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The counts so far.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.context.totals
    }

    /// The name of an interface that a record of this capture has.
    #[must_use]
    pub fn interface_name(&self, interface: Interface) -> Option<&str> {
        self.context.interfaces.name(interface)
    }
}

impl<R: Read> Iterator for Capture<R> {
    type Item = Result<PacketRecord, CaptureError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let found = self.advance().transpose();
        self.is_over = !matches!(found, Some(Ok(_)));
        found
    }
}

impl<R: Read> std::iter::FusedIterator for Capture<R> {}

impl<R: Read> Context<R> {
    /// The place of the packet that is read next, for errors.
    pub(crate) fn packet_place(&self) -> Place {
        Place::Packet(self.totals.records() + 1, self.source.offset())
    }
}
