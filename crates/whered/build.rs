//! Writes the version of the program, with commit and date: `WHERED_VERSION` for `src/cli.rs`, and
//! the commit alone for the status.
//!
//! The commit is `WHERED_COMMIT` of the environment, else that of the git clone that this package
//! lies in. The date is `SOURCE_DATE_EPOCH`, else the commit's. Without both the version is the
//! bare number, so that sources outside a clone build, too.
//!
//! Cargo runs this again after a commit or a checkout, never because of a changed source file.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many digits of a commit are shown.
const COMMIT_DIGITS: usize = 12;

fn main() {
    for name in ["WHERED_COMMIT", "SOURCE_DATE_EPOCH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    let clone = clone_of_this_package();
    if let Some(clone) = &clone {
        watch(clone);
    }
    let of_clone = |arguments: &[&str]| clone.as_deref().and_then(|clone| git(clone, arguments));
    let commit = variable("WHERED_COMMIT").or_else(|| of_clone(&["rev-parse", "HEAD"]));
    let commit = commit.map(|commit| shortened(&commit));
    let seconds = variable("SOURCE_DATE_EPOCH")
        .or_else(|| of_clone(&["show", "--no-patch", "--format=%ct", "HEAD"]));
    let date = seconds.and_then(|seconds| seconds.parse().ok()).map(date_of_seconds);
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let details: Vec<_> = [commit.clone(), date.clone()].into_iter().flatten().collect();
    let details =
        if details.is_empty() { String::new() } else { format!(" ({})", details.join(" ")) };
    println!("cargo::rustc-env=WHERED_VERSION={version}{details}");
    println!("cargo::rustc-env=WHERED_COMMIT_SHOWN={}", commit.unwrap_or_default());
    println!("cargo::rustc-env=WHERED_DATE={}", date.unwrap_or_default());
}

/// A variable of the environment that is set and not empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// The first digits of a commit; a name that is no commit stays as it is, on one line.
fn shortened(commit: &str) -> String {
    let is_hash = commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    let end = if is_hash { COMMIT_DIGITS } else { usize::MAX };
    commit.chars().filter(char::is_ascii_graphic).take(end).collect()
}

/// The root of the clone whose workspace this package is a member of. A copy of the sources that
/// lies somewhere in another clone has no commit.
fn clone_of_this_package() -> Option<PathBuf> {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let workspace = package.parent()?.parent()?.canonicalize().ok()?;
    let root = PathBuf::from(git(&workspace, &["rev-parse", "--show-toplevel"])?);
    (root.canonicalize().ok()? == workspace).then_some(workspace)
}

/// Has this script run again when another commit is checked out. A file that is not there must
/// not be named: Cargo would run the script at each build.
fn watch(clone: &Path) {
    let branch = git(clone, &["symbolic-ref", "--quiet", "HEAD"]);
    let names = ["HEAD", "logs/HEAD", "packed-refs"].into_iter().map(str::to_owned).chain(branch);
    for name in names {
        let path = git(clone, &["rev-parse", "--git-path", &name]).map(|path| clone.join(path));
        if let Some(path) = path.filter(|path| path.is_file()) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}

/// What git prints, without the line end; none where git is absent or refuses.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// The date in UTC of a number of seconds since 1970, as `2026-11-27`.
fn date_of_seconds(seconds: u64) -> String {
    // Days from 0000-03-01 on: each year ends with February, and each era has 400 years.
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
