//! Captures and connection logs as a stream of packets and flows: [`Capture`] yields one
//! [`PacketRecord`] each.
//!
//! For: pcap, pcapng, Zeek's `conn.log` (TSV and JSON lines), CSV with a header, and lines of text.
//! Not for: opening or decompressing files (bytes come from any [`std::io::Read`]), rules and
//! verdicts, putting fragments together, looking into tunnels.
//!
//! ```text
//! Read ─► Source ─► pcap, pcapng ─► frame ─► link ─► ip ──┐
//!         (one buffer)                                    ├─► PacketRecord, Totals
//!                └► csv, lines, zeek ─► columns ──────────┘
//! ```
//!
//! Nothing read is trusted. Bytes that break a format end the stream with one error that names
//! the packet and its offset, or the line and the column; what came before has been yielded
//! already. A frame that holds no IP packet, or not enough of it, is skipped and counted.
//!
//! Memory is bounded: one buffer, which grows only as bytes arrive and never by a length that a
//! file declares, and a table of interface names with a limit.
//!
//! Concurrency: a capture belongs to one thread; records are plain data and may go anywhere.
//! Cost: no allocation for a packet of pcap and pcapng, or for a row of text; JSON lines allocate.
//!
//! ```
//! use whered_capture::Capture;
//!
//! let text = "192.0.2.1 198.51.100.7 tcp 40000 443\n192.0.2.1 198.51.100.7 icmp 8 0\n";
//! let mut capture = Capture::new(text.as_bytes())?;
//! let first = capture.next().expect("two lines")?;
//! assert_eq!((first.protocol, first.destination_port), (6, Some(443)));
//! let second = capture.next().expect("two lines")?;
//! assert_eq!((second.protocol, second.icmp_type), (1, Some(8)));
//! assert!(capture.next().is_none());
//! assert_eq!(capture.totals().records(), 2);
//! # Ok::<(), whered_capture::CaptureError>(())
//! ```
#![forbid(unsafe_code)]

mod byte_order;
mod capture;
mod error;
mod format;
mod interfaces;
mod ip;
mod link;
pub mod logs;
mod pcap;
mod pcapng;
mod record;
mod source;
mod table;
mod totals;
mod zeek;

pub use capture::Capture;
pub use error::{CaptureError, ErrorKind};
pub use format::Format;
pub use interfaces::{INTERFACE_COUNT_MAX, INTERFACE_NAME_SIZE_MAX, Interface};
pub use record::{ConnectionState, PacketRecord};
pub use source::{LINE_SIZE_MAX_BYTES, RECORD_SIZE_MAX_BYTES};
pub use totals::{Skip, Totals};
