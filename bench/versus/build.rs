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
    println!("cargo::rustc-link-lib=GeoIP");
    println!("cargo::rustc-link-lib=dl");
    if std::env::var_os("CARGO_FEATURE_DPDK").is_some() {
        dpdk();
    }
}

/// DPDK where Debian puts it; only the programs that use it are linked with it.
fn dpdk() {
    println!("cargo::rerun-if-changed=c");
    side("dpdk.c", "whered-versus-sets", &["rte_fib", "rte_lpm", "rte_eal"]);
    side("acl.c", "whered-versus-rules", &["rte_acl", "rte_eal"]);
}

/// Compiles a C side with the flags that DPDK's own pkg-config file asks for, and links it into a
/// program.
fn side(file: &str, program: &str, libraries: &[&str]) {
    let flags =
        std::process::Command::new("pkg-config").args(["--cflags-only-I", "libdpdk"]).output();
    let flags = flags.expect("pkg-config is installed").stdout;
    let mut build = cc::Build::new();
    for flag in String::from_utf8_lossy(&flags).split_whitespace() {
        build.flag(flag);
    }
    let name = format!("{}_rivals", file.trim_end_matches(".c"));
    build
        .file(format!("c/{file}"))
        .opt_level(3)
        .flag("-march=native")
        .flag("-include")
        .flag("rte_config.h")
        .warnings(true)
        .cargo_metadata(false)
        .compile(&name);
    let out = std::env::var("OUT_DIR").expect("cargo says where to");
    let link = |flag: &str| println!("cargo::rustc-link-arg-bin={program}={flag}");
    link(&format!("{out}/lib{name}.a"));
    for library in libraries {
        link(&format!("-l{library}"));
    }
}
