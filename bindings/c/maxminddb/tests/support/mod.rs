//! What the tests of the drop-in need: both libraries, a C compiler, the conformance files.
#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]
#![allow(dead_code, reason = "every test file takes only a part of it")]
#![allow(unreachable_pub, reason = "each test file is a crate of its own")]
#![allow(clippy::print_stdout, reason = "who reads the tests' output shall know")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that goes away with its owner.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("whered-maxminddb-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed is no reason to fail a test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Says why a test is skipped, or fails if `WHERED_REQUIRE` demands that it is not.
pub fn skip(what: &str, reason: &str) {
    let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|item| item == what), "WHERED_REQUIRE: {reason}");
    println!("skipped: {reason}");
}

/// Our library, which cargo puts beside the test programs.
pub fn ours() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let library = folder.join("libmaxminddb.so");
    assert!(library.is_file(), "there is no {}", library.display());
    library
}

/// The original library, if it is installed.
pub fn theirs() -> Option<PathBuf> {
    let listed = Command::new("sh")
        .args(["-c", "PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep -m1 'libmaxminddb\\.so\\.0'"])
        .output()
        .unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    let path = text.trim().rsplit(" => ").next().map(PathBuf::from).filter(|path| path.is_file());
    if path.is_none() {
        skip("peers", "libmaxminddb.so.0 is not installed");
    }
    path
}

/// Compiles a program of `tests/programs`; `None` if a compiler or the header is missing.
pub fn compile(name: &str, folder: &Folder) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let program = folder.0.join(name.trim_end_matches(".c"));
    if !has_header() {
        return None;
    }
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"])
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .arg("-ldl")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{name} does not compile:\n{errors}");
    Some(program)
}

/// Whether C programs can be compiled against libmaxminddb's header.
fn has_header() -> bool {
    let found = Command::new("sh")
        .args(["-c", "echo '#include <maxminddb.h>' | cc -E - > /dev/null 2>&1"])
        .status()
        .unwrap();
    if !found.success() {
        skip("peers", "cc or maxminddb.h is not installed");
    }
    found.success()
}

/// MaxMind's conformance files, in their order.
pub fn conformance_files() -> Vec<PathBuf> {
    let shared = std::env::var_os("WHERED_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared")),
        PathBuf::from,
    );
    let folder = shared.join("data/maxmind-db/test-data");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        skip("shared", &format!("there is no {}", folder.display()));
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "mmdb" || end == "raw"));
    files.sort();
    files
}
