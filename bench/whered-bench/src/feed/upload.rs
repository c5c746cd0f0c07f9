//! Sightings as uploads in several formats.
//!
//! For: bytes as clients send them, of about a given size. Not for: which sightings; `world.rs`.
//!
//! ```text
//! xml     <upload client="7"> <sighting object="12" x="12.34567" y="45.67890" t="1700000000"/> ...
//!         with loot: ... t="1700000000"><loot item="9" n="2"/></sighting>
//! ndjson  {"object":123,"x":12.34567,"y":45.67890,"t":1700000000,"loot":[{"item":9,"n":2}]}
//! csv     object,x,y,t and rows; without loot
//! ```

use std::io::Write;

use super::world::{Sighting, World};

/// The format of uploads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadFormat {
    /// One document with an element for each sighting.
    Xml,
    /// One object on each line.
    Ndjson,
    /// Rows below a header; without loot.
    Csv,
}

impl UploadFormat {
    /// Every format with its name, which is also the suffix of its files.
    pub const ALL: [(&'static str, UploadFormat); 3] =
        [("xml", UploadFormat::Xml), ("ndjson", UploadFormat::Ndjson), ("csv", UploadFormat::Csv)];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }
}

/// What uploads are like.
#[derive(Clone, Copy, Debug)]
pub struct UploadOptions {
    /// How they are written.
    pub format: UploadFormat,
    /// Whether sightings have their loot.
    pub has_loot: bool,
    /// An upload ends with the sighting that reaches this size.
    pub size_bytes: usize,
}

/// An upload and what is in it.
#[derive(Clone, Debug)]
pub struct Upload {
    /// As it is sent.
    pub bytes: Vec<u8>,
    /// What a reader should find, in its order.
    pub sightings: Vec<Sighting>,
}

impl Upload {
    /// The upload of a number.
    #[must_use]
    pub fn new(world: &World, number: u64, options: &UploadOptions) -> Upload {
        let mut bytes = Vec::with_capacity(options.size_bytes + 1_000);
        let mut sightings = Vec::new();
        match options.format {
            UploadFormat::Xml => {
                let client = number % 10_000;
                bytes.extend_from_slice(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
                put(&mut bytes, format_args!("<upload client=\"{client}\">\n"));
            }
            UploadFormat::Ndjson => {}
            UploadFormat::Csv => bytes.extend_from_slice(b"object,x,y,t\n"),
        }
        for mut sighting in world.sightings(number) {
            if !options.has_loot || options.format == UploadFormat::Csv {
                sighting.loot.clear();
            }
            write(&mut bytes, &sighting, options.format);
            sightings.push(sighting);
            if bytes.len() >= options.size_bytes {
                break;
            }
        }
        if options.format == UploadFormat::Xml {
            bytes.extend_from_slice(b"</upload>\n");
        }
        Upload { bytes, sightings }
    }
}

fn put(bytes: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    bytes.write_fmt(text).expect("memory takes every write");
}

fn write(bytes: &mut Vec<u8>, sighting: &Sighting, format: UploadFormat) {
    let (object, t) = (sighting.object, sighting.time_seconds);
    let (x, y) = (Degrees(sighting.longitude), Degrees(sighting.latitude));
    match format {
        UploadFormat::Xml => {
            put(bytes, format_args!("<sighting object=\"{object}\" x=\"{x}\" y=\"{y}\" t=\"{t}\""));
            if sighting.loot.is_empty() {
                bytes.extend_from_slice(b"/>\n");
                return;
            }
            bytes.push(b'>');
            for (item, n) in &sighting.loot {
                put(bytes, format_args!("<loot item=\"{item}\" n=\"{n}\"/>"));
            }
            bytes.extend_from_slice(b"</sighting>\n");
        }
        UploadFormat::Ndjson => {
            put(bytes, format_args!("{{\"object\":{object},\"x\":{x},\"y\":{y},\"t\":{t}"));
            if !sighting.loot.is_empty() {
                let mut before = ",\"loot\":[";
                for (item, n) in &sighting.loot {
                    put(bytes, format_args!("{before}{{\"item\":{item},\"n\":{n}}}"));
                    before = ",";
                }
                bytes.push(b']');
            }
            bytes.extend_from_slice(b"}\n");
        }
        UploadFormat::Csv => put(bytes, format_args!("{object},{x},{y},{t}\n")),
    }
}

/// Hundred-thousandths of a degree as a decimal number.
struct Degrees(i64);

impl std::fmt::Display for Degrees {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let size = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:05}", size / 100_000, size % 100_000)
    }
}
