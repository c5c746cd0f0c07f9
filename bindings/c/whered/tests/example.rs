//! The example program, compiled against the header and the library, says what `whered_mmdb` says.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

use std::path::{Path, PathBuf};
use std::process::Command;
use whered_mmdb::{Writer, WriterOptions, rows};

const ROWS: &[u8] = b"network,country.iso_code,city.names.en,location.latitude:double\n\
    192.0.2.0/25,DE,Berlin,52.5\n192.0.2.128/26,FR,,48.25\n2001:db8::/32,AU,Sydney,-33.875\n";

const SAID: &str = "192.0.2.1/25 0 DE Berlin 52.5\n192.0.2.129/26 0 FR - 48.25\n\
    2001:db8::1/32 0 AU Sydney -33.875\n192.0.2.255/26 1 - - -\n";

/// A folder as an installation would fill it; it goes away with its owner.
struct Installed(PathBuf);

impl Installed {
    fn new(name: &str) -> Installed {
        let prefix = std::env::temp_dir().join(format!("whered-c-{}-{name}", std::process::id()));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install.sh");
        let library = std::env::current_exe().unwrap().with_file_name("libwhered.so");
        let done = Command::new("sh").arg(script).arg(&library).arg(&prefix).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let mut writer = Writer::new(WriterOptions::default()).unwrap();
        rows::read_csv(ROWS, &mut writer).unwrap();
        std::fs::write(prefix.join("city.mmdb"), writer.finish().unwrap()).unwrap();
        Installed(prefix)
    }

    /// Runs the program in both modes.
    fn check(&self, program: &Path) {
        for mode in ["TREE", "INDEX"] {
            let asked = Command::new(program)
                .arg(self.0.join("city.mmdb"))
                .args(["192.0.2.1", "192.0.2.129", "2001:db8::1", "192.0.2.255"])
                .env(mode, "1")
                .env("LD_LIBRARY_PATH", self.0.join("lib"))
                .output()
                .unwrap();
            assert_eq!(String::from_utf8_lossy(&asked.stdout), SAID, "{mode}: {asked:?}");
            assert!(asked.status.success() && asked.stderr.is_empty(), "{asked:?}");
        }
        let missing = Command::new(program)
            .args(["/nowhere/city.mmdb", "192.0.2.1"])
            .env("LD_LIBRARY_PATH", self.0.join("lib"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&missing.stderr);
        assert_eq!(missing.status.code(), Some(2));
        assert!(text.starts_with("/nowhere/city.mmdb: No such file"), "{text}");
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        // A folder that cannot be removed is no reason to fail a test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether a tool is there; without it the test is skipped, or fails where that is required.
fn is_there(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
    assert!(found || !required.contains("peers"), "{tool} is not installed");
    found
}

#[test]
fn with_pkg_config() {
    if !is_there("pkg-config") {
        return;
    }
    let installed = Installed::new("pkg-config");
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "whered"])
        .env("PKG_CONFIG_PATH", installed.0.join("lib/pkgconfig"))
        .output()
        .unwrap();
    let flags = String::from_utf8(flags.stdout).unwrap();
    let program = installed.0.join("lookup");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/lookup.c");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", source, "-o"])
        .arg(&program)
        .args(flags.split_whitespace())
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    installed.check(&program);
}

#[test]
fn with_cmake() {
    if !is_there("cmake") {
        return;
    }
    let installed = Installed::new("cmake");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let build = installed.0.join("build");
    for arguments in [
        vec!["-S".into(), source.into(), "-B".into(), build.clone().into_os_string()],
        vec!["--build".into(), build.clone().into_os_string()],
    ] {
        let done =
            Command::new("cmake").args(arguments).env("CMAKE_PREFIX_PATH", &installed.0).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    installed.check(&build.join("lookup"));
}
