//! Nodes of OpenStreetMap PBF files.
//!
//! For: plain and dense nodes, chosen by their tags. Not for ways and relations, which have no
//! place of their own.
//!
//! A file is a row of blobs; one of them is in memory at a time. A damaged blob ends the load with
//! its byte, since the next one cannot be told from its rest. Coordinates of a damaged block that
//! wrap around are out of range like any others. A file that requires a feature which this reader
//! does not know is refused: a history file has many versions of one node.
//! Cost: unpacking, mostly; blobs without nodes are unpacked as well.

use prost::Message as _;

use super::detect;
use super::input::Input;
use super::osm_format::{
    DenseNodes, HEADER_BYTES_MAX, HeaderBlock, Kind, Node, PrimitiveBlock, next_blob,
};
use super::sink::Sink;
use super::{LoadOptions, Spot};
use crate::error::ConnectError;

/// What a file may require of its reader.
const KNOWN_FEATURES: [&str; 2] = ["OsmSchema-V0.6", "DenseNodes"];

/// Reads all nodes into the sink.
pub(super) fn read(
    input: &mut Input,
    options: &LoadOptions,
    sink: &mut Sink<'_>,
) -> Result<(), ConnectError> {
    let mut has_header = false;
    let first = input.peek()?;
    if !detect::is_osm(first) && !begins_with_blob(first) {
        let found = detect::instead_of_osm(first);
        return Err(input.fault(&format!(
            "byte 0: is no OpenStreetMap PBF but {found}; allowed: a file that begins with a blob \
             OSMHeader"
        )));
    }
    match options.member.as_deref().filter(|name| *name != "id") {
        Some(tag) => sink.note_members(|| format!("tag '{}'", tag.escape_debug())),
        None => sink.expect_no_repeats(),
    }
    loop {
        let start = input.byte();
        let name = input.name().to_owned();
        let fault = |what: &str| ConnectError::new(format!("{name}: blob at byte {start}: {what}"));
        let Some((kind, bytes)) = next_blob(input).map_err(|what| fault(&what))? else {
            return match has_header {
                true => Ok(()),
                false => Err(fault("there is none; allowed: OpenStreetMap PBF")),
            };
        };
        let bytes = bytes.as_slice();
        match kind {
            Kind::Header => {
                let header = HeaderBlock::decode(bytes).map_err(|why| fault(&why.to_string()))?;
                check_features(&header).map_err(|what| fault(&what))?;
                has_header = true;
            }
            Kind::Data if has_header => {
                let block = PrimitiveBlock::decode(bytes).map_err(|why| fault(&why.to_string()))?;
                Block { block: &block, byte: start, options }.read(sink, &fault)?;
            }
            Kind::Data => return Err(fault("data before the header of the file")),
            Kind::Other => {}
        }
    }
}

/// Whether the first bytes may be a blob of any kind: the length of its header, and field 1.
fn begins_with_blob(first: &[u8]) -> bool {
    first.split_first_chunk::<4>().is_some_and(|(length, behind)| {
        u32::from_be_bytes(*length) <= HEADER_BYTES_MAX && behind.first() == Some(&0x0a)
    })
}

fn check_features(header: &HeaderBlock) -> Result<(), String> {
    let known = |feature: &&String| !KNOWN_FEATURES.contains(&feature.as_str());
    match header.required_features.iter().find(known) {
        None => Ok(()),
        Some(feature) => Err(format!(
            "the file requires '{}'; allowed: {}",
            feature.escape_debug(),
            KNOWN_FEATURES.join(", ")
        )),
    }
}

/// A block and what is wanted of it.
struct Block<'a> {
    block: &'a PrimitiveBlock,
    /// Where its blob begins.
    byte: u64,
    options: &'a LoadOptions,
}

impl Block<'_> {
    fn read(
        &self,
        sink: &mut Sink<'_>,
        fault: &impl Fn(&str) -> ConnectError,
    ) -> Result<(), ConnectError> {
        for group in &self.block.groups {
            for node in &group.nodes {
                self.plain(node, sink)?;
            }
            if let Some(dense) = &group.dense {
                let count = dense.ids.len();
                if dense.latitudes.len() != count || dense.longitudes.len() != count {
                    return Err(fault("its columns of nodes differ in length"));
                }
                self.dense(dense, sink)?;
            }
        }
        Ok(())
    }

    fn plain(&self, node: &Node, sink: &mut Sink<'_>) -> Result<(), ConnectError> {
        let pairs = || node.keys.iter().zip(&node.values).map(|(k, v)| (*k as usize, *v as usize));
        self.one(node.id, node.longitude, node.latitude, pairs, sink)
    }

    fn dense(&self, nodes: &DenseNodes, sink: &mut Sink<'_>) -> Result<(), ConnectError> {
        let (mut id, mut latitude, mut longitude) = (0_i64, 0_i64, 0_i64);
        let mut tags = nodes.keys_values.as_slice();
        for (index, step) in nodes.ids.iter().enumerate() {
            id = id.wrapping_add(*step);
            latitude = latitude.wrapping_add(nodes.latitudes[index]);
            longitude = longitude.wrapping_add(nodes.longitudes[index]);
            let end = end_of_tags(tags);
            let own = &tags[..end];
            tags = tags.get(end + 1..).unwrap_or_default();
            let pairs = || own.chunks_exact(2).map(|pair| (pair[0] as usize, pair[1] as usize));
            self.one(id, longitude, latitude, pairs, sink)?;
        }
        Ok(())
    }

    /// A node, if its tags let it in. Tags are walked only if they matter.
    fn one<I: Iterator<Item = (usize, usize)>>(
        &self,
        id: i64,
        longitude: i64,
        latitude: i64,
        pairs: impl Fn() -> I,
        sink: &mut Sink<'_>,
    ) -> Result<(), ConnectError> {
        let tags = || pairs().filter_map(|(key, value)| Some((self.text(key)?, self.text(value)?)));
        let filters = &self.options.tags;
        let is_wanted = filters.is_empty()
            || tags().any(|(key, value)| {
                filters.iter().any(|filter| {
                    filter.key.as_bytes() == key
                        && filter.value.as_ref().is_none_or(|wanted| wanted.as_bytes() == value)
                })
            });
        if !is_wanted {
            sink.leave_out();
            return Ok(());
        }
        let spot = Spot::Node { id, byte: self.byte };
        let longitude_degrees = self.degrees(longitude, self.block.longitude_offset);
        let latitude_degrees = self.degrees(latitude, self.block.latitude_offset);
        let Some(name) = self.options.member.as_deref().filter(|name| *name != "id") else {
            let member = id.to_string();
            return sink.point(longitude_degrees, latitude_degrees, member.as_bytes(), spot);
        };
        match tags().find(|(key, _)| *key == name.as_bytes()) {
            Some((_, value)) => sink.point(longitude_degrees, latitude_degrees, value, spot),
            None => {
                sink.leave_out();
                Ok(())
            }
        }
    }

    /// A string of the block by its index.
    fn text(&self, index: usize) -> Option<&[u8]> {
        self.block.strings.as_ref()?.strings.get(index).map(Vec::as_slice)
    }

    fn degrees(&self, coordinate: i64, offset: Option<i64>) -> f64 {
        let granularity = i64::from(self.block.granularity());
        let nanodegrees = granularity.wrapping_mul(coordinate).wrapping_add(offset.unwrap_or(0));
        1e-9 * nanodegrees as f64
    }
}

/// How many numbers the first node's tags have: up to the zero behind them, or all that are left.
fn end_of_tags(keys_values: &[i32]) -> usize {
    let zero = keys_values.chunks(2).position(|pair| pair[0] == 0);
    zero.map_or(keys_values.len(), |pairs| pairs * 2)
}
