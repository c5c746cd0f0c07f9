//! Compiles the C shim for variable arguments, and gives the library the name by which programs
//! that were linked with libmaxminddb look for it.

fn main() {
    println!("cargo::rerun-if-changed=shim/get_value.c");
    println!("cargo::rerun-if-changed=build.rs");
    cc::Build::new().file("shim/get_value.c").warnings(true).compile("whered_get_value");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmaxminddb.so.0");
        // Our functions call each other directly, also where the original is loaded beside them.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    }
}
