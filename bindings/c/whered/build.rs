//! Gives the library the name by which programs look for it: its major version changes with the
//! interface in `include/whered.h`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libwhered.so.0");
    }
}
