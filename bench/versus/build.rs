//! Compiles the C sides of the comparison and links Debian's libGeoIP.
//!
//! libmaxminddb is not linked: it is opened by name, so that a drop-in for it can be opened beside
//! it. The flags are those that Debian builds C programs with, and are stated in the record.

fn main() {
    println!("cargo::rerun-if-changed=c");
    cc::Build::new()
        .files(["c/maxmind.c", "c/geoip.c"])
        .opt_level(2)
        .flag("-std=gnu11")
        .warnings(true)
        .compile("rivals");
    println!("cargo::rustc-link-lib=GeoIP");
    println!("cargo::rustc-link-lib=dl");
}
