//! Gives the library the name by which programs that were linked with libGeoIP look for it, and
//! makes Rust tables of the text tables in `tables/`.

use std::fmt::Write;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    table("regions", |columns| match columns {
        [key, iso, name] => format!("row(b{key:?}, b{iso:?}, c{name:?})"),
        _ => panic!("a region has a key, a code of ISO 3166-2 and a name"),
    });
    table("time_zones", |columns| match columns {
        [key, zone] => format!("row(b{key:?}, c{zone:?})"),
        _ => panic!("a time zone has a key and a name"),
    });
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libGeoIP.so.1");
        // Our functions call each other directly, also where the original is loaded beside them.
        // Data stays preemptible: programs have copies of it (COPY relocations).
        println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    }
}

/// Writes an array of the rows of a table.
fn table(name: &str, row: impl Fn(&[&str]) -> String) {
    let path = format!("tables/{name}.tsv");
    println!("cargo::rerun-if-changed={path}");
    let text = std::fs::read_to_string(&path).expect("the table is part of the sources");
    let mut source = String::from("[\n");
    for line in text.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        writeln!(source, "    {},", row(&columns)).expect("a string takes all text");
    }
    source.push(']');
    let folder = std::env::var_os("OUT_DIR").expect("cargo says where files go");
    let file = Path::new(&folder).join(format!("{name}.rs"));
    std::fs::write(file, source).expect("the build folder can be written");
}
