//! Packets and flows out of captures, and what kind of source a file is.
//!
//! For: pcap, pcapng and Zeek's `conn.log`, plain or packed. Not for: lines and CSV, which people
//! write and whose mistakes end nothing (`packets`), other logs (`logs`), nor for the formats
//! themselves (`whered-capture`).
//!
//! ```text
//! file ─ unpacked ─ first bytes: a capture? ─┬─ yes ─► CaptureSource
//!                                            ├─ a log ─► LogSource
//!                                            └─ no ──► Lines
//! ```
//!
//! Invariants: a capture that breaks ends with one line that has packet and offset; what came
//! before has been given. Frames without an IP packet are counted, and told at the end.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use whered_capture::{Capture, Format, Interface, PacketRecord};
use whered_rules::{Detail, Packet, State};

use super::load::shown;
use super::logs::{ALL_KNOWN, LogOptions, LogSource};
use super::packets::{Item, Lines, PacketSource, Record, is_packet_line};
use crate::enrich::input::Input;
use crate::outcome::Failure;
use crate::unpack::{Stream, unpacked};

/// How many bytes decide what a source is.
const HEAD_BYTES: usize = 64 << 10;
const TCP: u8 = 6;

/// A source, and what a progress bar wants to know.
pub(super) struct PacketInput {
    pub(super) source: Box<dyn PacketSource>,
    pub(super) read_bytes: Arc<AtomicU64>,
    pub(super) size_bytes: Option<u64>,
}

/// Opens a file, or standard input for `-`. Packets of captures have the given state where theirs
/// is not told, and details where rules ask for such.
pub(super) fn open(
    path: &Path,
    options: LogOptions<'_>,
    has_details: bool,
) -> Result<PacketInput, Failure> {
    let name = shown(path);
    let state = options.state.unwrap_or_default();
    let fail = |error: io::Error| Failure::Message(format!("{name}: {error}"));
    let (stream, size_bytes): (Stream, _) = if path == Path::new("-") {
        (Box::new(io::stdin()), None)
    } else {
        let file = File::open(path).map_err(fail)?;
        let about = file.metadata().map_err(fail)?;
        let size_bytes = about.is_file().then_some(about.len());
        (Box::new(file), size_bytes)
    };
    let read_bytes = Arc::new(AtomicU64::new(0));
    let (mut stream, is_packed) = unpacked(stream, read_bytes.clone()).map_err(fail)?;
    let is_live = path == Path::new("-") && !is_packed;
    let head = head(&mut stream).map_err(fail)?;
    let format = Format::of_head(&head);
    let is_flow_log = match format {
        Some(Format::ZeekTsv | Format::ZeekJson) => is_conn_log(&head),
        _ => true,
    };
    let format = format.filter(|_| is_flow_log && !options.are_given());
    let is_utf16 =
        options.encoding.is_some() || matches!(&head[..], [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
    let is_text = is_utf16 || !head.contains(&0);
    let whole: Stream = Box::new(Cursor::new(head).chain(stream));
    let source: Box<dyn PacketSource> = match format {
        Some(Format::Pcap | Format::PcapNg | Format::ZeekTsv | Format::ZeekJson) => {
            let capture = Capture::new(whole)
                .map_err(|error| Failure::Message(format!("{name}: {error}")))?;
            let (names, details) = (Vec::new(), Names::new());
            let cut_heads = 0;
            Box::new(CaptureSource { name, capture, state, names, details, has_details, cut_heads })
        }
        Some(Format::Csv | Format::Lines) | None if is_text => {
            text_source(name, whole, is_live, options)?
        }
        _ => {
            let allowed = "pcap, pcapng, Zeek's conn.log, a log, CSV or lines, plain or packed by \
                           gzip, zstd, xz, bzip2 or LZ4";
            return Err(Failure::Message(format!(
                "{name}: found bytes of no known kind: allowed is {allowed}"
            )));
        }
    };
    Ok(PacketInput { source, read_bytes, size_bytes })
}

/// A log, a table or lines of words.
fn text_source(
    name: String,
    stream: Stream,
    is_live: bool,
    options: LogOptions<'_>,
) -> Result<Box<dyn PacketSource>, Failure> {
    let may_be_json = options.may_be_json();
    let input = Input::of_stream(name.clone(), stream, is_live, options.encoding, may_be_json);
    let mut input = input.map_err(Failure::Message)?;
    let (first, _) = input.first_bytes().map_err(Failure::Message)?;
    let lines = first.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    let line = lines.next().and_then(|line| std::str::from_utf8(line).ok());
    if !options.are_given() && line.is_none_or(is_packet_line) {
        return Ok(Box::new(Lines::new(name, input.into_stream())));
    }
    Ok(match LogSource::open(name.clone(), input, options)? {
        Ok(log) => Box::new(log),
        Err(input) => Box::new(Lines::new(name, input.into_stream())),
    })
}

/// Whether a log of Zeek has flows, whose protocols are told.
fn is_conn_log(head: &[u8]) -> bool {
    let is_names = |line: &&[u8]| line.starts_with(b"#fields") || line.starts_with(b"{");
    let names = head.split(|&byte| byte == b'\n').find(is_names).unwrap_or_default();
    let has = |name: &[u8]| memchr::memmem::find(names, name).is_some();
    has(b"id.orig_h") && has(b"id.resp_h") && has(b"proto")
}

/// The first bytes: no more is waited for than tells one format from another.
fn head(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_BYTES];
    let mut filled = 0;
    // A text tells its kind in its first line.
    let tells = |head: &[u8]| head.len() >= 4 && (head.contains(&b'\n') || head.contains(&0));
    while !tells(&head[..filled]) {
        let Some(room) = head.get_mut(filled..).filter(|room| !room.is_empty()) else { break };
        match stream.read(room) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    head.truncate(filled);
    Ok(head)
}

/// The packets of a capture.
struct CaptureSource {
    name: String,
    capture: Capture<Stream>,
    state: State,
    /// The names of interfaces by their numbers, so that packets share them.
    names: Vec<Option<Arc<str>>>,
    /// The names of details.
    details: Names,
    /// Whether rules ask for any.
    has_details: bool,
    /// First fragments that end before the flags of TCP.
    cut_heads: u64,
}

/// The details that packets of captures have.
struct Names {
    ttl: Detail,
    length: Detail,
    fragment: Detail,
}

impl Names {
    fn new() -> Names {
        let named = |name| Detail::named(name).expect("details here have good names");
        Names { ttl: named("ttl"), length: named("length"), fragment: named(Detail::FRAGMENT) }
    }

    /// Those of a packet: where no rule asks for any, that it is a later fragment alone.
    fn of(&self, found: &PacketRecord, are_asked: bool) -> Vec<(Detail, u64)> {
        if !are_asked && !found.is_later_fragment {
            return Vec::new();
        }
        let ttl = found.ttl.map(|ttl| (self.ttl.clone(), ttl.into()));
        let length = found.length.map(|length| (self.length.clone(), length.into()));
        let fragment = (self.fragment.clone(), found.is_later_fragment.into());
        ttl.into_iter().chain(length).chain([fragment]).collect()
    }
}

impl CaptureSource {
    fn interface(&mut self, interface: Option<Interface>) -> Option<Arc<str>> {
        let interface = interface?;
        let place = interface.index();
        if self.names.len() <= place {
            self.names.resize(place + 1, None);
        }
        let known = self.names.get_mut(place)?;
        if known.is_none() {
            *known = self.capture.interface_name(interface).map(Arc::from);
        }
        known.clone()
    }

    fn record(&mut self, found: &PacketRecord) -> Record {
        let is_cut = found.protocol == TCP
            && found.length.is_some()
            && found.source_port.is_some()
            && found.tcp_flags.is_none();
        self.cut_heads += u64::from(is_cut);
        let told = found.state.and_then(|state| State::from_name(state.name()));
        let packet = Packet {
            source: found.source,
            destination: found.destination,
            protocol: found.protocol,
            source_port: found.source_port.unwrap_or(0),
            destination_port: found.destination_port.unwrap_or(0),
            icmp_type: found.icmp_type.unwrap_or(0),
            icmp_code: found.icmp_code.unwrap_or(0),
            tcp_flags: found.tcp_flags.unwrap_or(0),
            state: told.unwrap_or(self.state),
            dscp: found.dscp.unwrap_or(0),
            ..Packet::default()
        };
        let (input, output) = (self.interface(found.input), self.interface(found.output));
        let details = self.details.of(found, self.has_details);
        Record {
            number: found.number,
            packet,
            unknown: ALL_KNOWN,
            input,
            output,
            details,
            bytes: found.bytes,
        }
    }
}

impl PacketSource for CaptureSource {
    fn next(&mut self) -> Result<Option<Item>, Failure> {
        match self.capture.next() {
            None => Ok(None),
            Some(Ok(found)) => Ok(Some(Item::Packet(self.record(&found)))),
            Some(Err(error)) => Err(Failure::Message(format!("{}: {error}", self.name))),
        }
    }

    fn may_wait(&self) -> bool {
        !self.capture.has_buffered()
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.capture.totals().skipped_sum() > 0 {
            remarks.push(format!("{}: {}", self.name, self.capture.totals()));
        }
        if self.cut_heads > 0 {
            remarks.push(format!(
                "{}: {} first fragments end before the TCP flags, which are taken as none",
                self.name, self.cut_heads
            ));
        }
        remarks
    }
}
