//! Nodes of OpenStreetMap PBF files, by the `osmpbf` crate.
//!
//! For: plain and dense nodes, chosen by their tags. Not for ways and relations, which have no
//! place of their own.
//!
//! A file is a row of blobs; one of them is in memory at a time. A damaged blob ends the load with
//! its byte, since the next one cannot be told from its rest. Coordinates of a damaged block that
//! wrap around are out of range like any others.
//! Cost: unpacking, mostly; blobs without nodes are unpacked as well.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use osmpbf::{BlobDecode, BlobReader, PrimitiveBlock};

use super::input::Input;
use super::sink::Sink;
use super::{LoadOptions, Spot};
use crate::error::ConnectError;

/// What the crate wants of a reader, with the place known outside.
struct Placed<'a> {
    input: &'a mut Input,
    byte: Arc<AtomicU64>,
}

impl Read for Placed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.byte.store(self.input.byte(), Ordering::Relaxed);
        Ok(read)
    }
}

/// Reads all nodes into the sink.
pub(super) fn read(
    input: &mut Input,
    options: &LoadOptions,
    sink: &mut Sink<'_>,
) -> Result<(), ConnectError> {
    let name = input.name().to_owned();
    let byte = Arc::new(AtomicU64::new(input.byte()));
    let mut blobs = BlobReader::new(Placed { input, byte: byte.clone() });
    let mut has_header = false;
    loop {
        let start = byte.load(Ordering::Relaxed);
        let fault = |what: &str| ConnectError::new(format!("{name}: blob at byte {start}: {what}"));
        let Some(blob) = blobs.next() else {
            // The crate takes a few bytes of a length for the end of the file.
            return match byte.load(Ordering::Relaxed) {
                end if end != start => Err(fault("the file ends inside it")),
                _ if !has_header => Err(fault("there is none; allowed: OpenStreetMap PBF")),
                _ => Ok(()),
            };
        };
        let blob = blob.map_err(|error| fault(&error.to_string()))?;
        match blob.decode().map_err(|error| fault(&error.to_string()))? {
            BlobDecode::OsmHeader(_) => has_header = true,
            BlobDecode::OsmData(block) if has_header => nodes(&block, start, options, sink)?,
            BlobDecode::OsmData(_) => return Err(fault("data before the header of the file")),
            BlobDecode::Unknown(_) => {}
        }
    }
}

fn nodes(
    block: &PrimitiveBlock,
    byte: u64,
    options: &LoadOptions,
    sink: &mut Sink<'_>,
) -> Result<(), ConnectError> {
    for group in block.groups() {
        for node in group.nodes() {
            one(node.id(), node.lon(), node.lat(), || node.tags(), byte, options, sink)?;
        }
        for node in group.dense_nodes() {
            one(node.id(), node.lon(), node.lat(), || node.tags(), byte, options, sink)?;
        }
    }
    Ok(())
}

/// A node, if its tags let it in. Tags are walked only if they matter.
fn one<'t, T: Iterator<Item = (&'t str, &'t str)>>(
    id: i64,
    longitude_degrees: f64,
    latitude_degrees: f64,
    tags: impl Fn() -> T,
    byte: u64,
    options: &LoadOptions,
    sink: &mut Sink<'_>,
) -> Result<(), ConnectError> {
    let filters = &options.tags;
    let is_wanted = filters.is_empty()
        || tags().any(|(key, value)| {
            filters.iter().any(|filter| {
                filter.key == key && filter.value.as_deref().is_none_or(|wanted| wanted == value)
            })
        });
    let spot = Spot::Node { id, byte };
    if !is_wanted {
        sink.leave_out();
        return Ok(());
    }
    let Some(name) = options.member.as_deref().filter(|name| *name != "id") else {
        return sink.point(longitude_degrees, latitude_degrees, id.to_string().as_bytes(), spot);
    };
    match tags().find(|(key, _)| *key == name) {
        Some((_, value)) => sink.point(longitude_degrees, latitude_degrees, value.as_bytes(), spot),
        None => {
            sink.leave_out();
            Ok(())
        }
    }
}
