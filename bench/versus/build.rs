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
    // The tree of 2007 as its author would build it today.
    cc::Build::new()
        .file("c/seed_tree.c")
        .opt_level(3)
        .flag("-march=native")
        .warnings(true)
        .compile("seed_tree");
    if std::env::var_os("CARGO_FEATURE_DPDK").is_some() {
        dpdk_acl();
        dpdk_sets();
    }
    println!("cargo::rustc-link-lib=GeoIP");
    println!("cargo::rustc-link-lib=dl");
}

/// DPDK's classifier, with the flags that its own pkg-config file asks for.
fn dpdk_acl() {
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

/// DPDK's tables, where Debian puts them; only the one program that uses them is linked with them.
fn dpdk_sets() {
    let flags =
        std::process::Command::new("pkg-config").args(["--cflags-only-I", "libdpdk"]).output();
    let flags = flags.expect("pkg-config is installed").stdout;
    let mut build = cc::Build::new();
    for flag in String::from_utf8_lossy(&flags).split_whitespace() {
        build.flag(flag);
    }
    build
        .file("c/dpdk.c")
        .opt_level(3)
        .flag("-march=native")
        .flag("-include")
        .flag("rte_config.h")
        .warnings(true)
        .cargo_metadata(false)
        .compile("dpdk_rivals");
    let out = std::env::var("OUT_DIR").expect("cargo says where to");
    let link = |flag: &str| println!("cargo::rustc-link-arg-bin=whered-versus-sets={flag}");
    link(&format!("{out}/libdpdk_rivals.a"));
    for library in ["rte_fib", "rte_lpm", "rte_eal"] {
        link(&format!("-l{library}"));
    }
}
