//! Uploads as files, as clients would have left them in a folder.
//!
//! For: `whered-bench feed --write`, examples and `whered ingest`. Not for: sending.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use super::upload::{Upload, UploadOptions};
use super::world::World;

/// How files are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As they are.
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

impl Packing {
    /// Packs bytes.
    ///
    /// # Errors
    ///
    /// The library fails, which memory does not make it do.
    pub fn pack(self, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        match self {
            Packing::None => Ok(bytes),
            Packing::Gzip => {
                let level = flate2::Compression::new(6);
                let mut packer = flate2::write::GzEncoder::new(Vec::new(), level);
                packer.write_all(&bytes)?;
                packer.finish()
            }
            Packing::Zstd => zstd::encode_all(&bytes[..], 3),
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Packing::None => "",
            Packing::Gzip => ".gz",
            Packing::Zstd => ".zst",
        }
    }
}

/// Writes `count` uploads into a folder, as `upload-000000.xml` or `.xml.gz` and on; how many
/// sightings they have.
///
/// # Errors
///
/// The folder or a file cannot be written.
pub fn write_uploads(
    folder: &Path,
    world: &World,
    count: u64,
    options: &UploadOptions,
    packing: Packing,
) -> io::Result<u64> {
    fs::create_dir_all(folder)?;
    let mut sightings = 0;
    for number in 0..count {
        let upload = Upload::new(world, number, options);
        sightings += upload.sightings.len() as u64;
        let (format, suffix) = (options.format.name(), packing.suffix());
        let name = format!("upload-{number:06}.{format}{suffix}");
        fs::write(folder.join(name), packing.pack(upload.bytes)?)?;
    }
    Ok(sightings)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn packed_bytes_are_those_that_were_packed() {
        let bytes = b"<upload/>".repeat(1_000);
        assert_eq!(Packing::None.pack(bytes.clone()).unwrap(), bytes);
        let packed = Packing::Gzip.pack(bytes.clone()).unwrap();
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, bytes);
        let packed = Packing::Zstd.pack(bytes.clone()).unwrap();
        assert_eq!(zstd::decode_all(&packed[..]).unwrap(), bytes);
    }
}
