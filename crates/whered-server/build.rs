//! Compresses the files of the console (`console/`), which the program has inside.
//!
//! Writes `console_files.rs` for `src/http/console.rs`: name and gzip of each file, by name.
//! Folders in `console/` are not served and not read. The same input gives the same bytes.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

const FOLDER: &str = "console";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={FOLDER}");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut names = Vec::new();
    for entry in fs::read_dir(FOLDER)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.file_name().into_string().map_err(|name| {
                io::Error::other(format!("{FOLDER}/{}: no UTF-8", name.display()))
            })?);
        }
    }
    names.sort_unstable();
    let mut table = String::from("[\n");
    for name in &names {
        let packed = format!("{name}.gz");
        fs::write(out.join(&packed), pack(&Path::new(FOLDER).join(name))?)?;
        table += &format!(
            "    ({name:?}, include_bytes!(concat!(env!(\"OUT_DIR\"), \"/\", {packed:?}))),\n"
        );
    }
    table += "]\n";
    fs::write(out.join("console_files.rs"), table)
}

fn pack(path: &Path) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&fs::read(path)?)?;
    encoder.finish()
}
