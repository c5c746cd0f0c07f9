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
    if std::env::var_os("CARGO_FEATURE_DPDK").is_some() {
        dpdk();
    }
}

/// DPDK's side, with the flags that its own pkg-config file asks for.
fn dpdk() {
    cc::Build::new()
        .file("c/acl.c")
        .opt_level(2)
        .flag("-std=gnu11")
        .flag("-march=corei7")
        .flag("-include")
        .flag("rte_config.h")
        .include("/usr/include/dpdk")
        .include("/usr/include/x86_64-linux-gnu/dpdk")
        .compile("dpdk-rivals");
    for library in ["rte_acl", "rte_eal"] {
        println!("cargo::rustc-link-arg-bin=whered-versus-rules=-l{library}");
    }
}
