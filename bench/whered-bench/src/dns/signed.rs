//! Signed zones: the files that all servers read, and whether answers are signed.
//!
//! For: one signed file for every server of a comparison (`dnssec-signzone` of BIND, ECDSA P-256,
//! one key, NSEC), and the key of a zone by place, which each server signs itself.
//! Not for: starting servers (`target.rs`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use whered_dns::RecordType;
use whered_dns::message::Message;

use super::geo::Asker;
use super::target::Target;
use super::world::{Queries, Shape};

/// How many answers are looked at.
const LOOKED_AT: usize = 1000;

/// Signs a zone's file; gives the signed one.
///
/// # Errors
///
/// BIND's tools are absent, or do not sign it.
pub(super) fn sign(zone: &Path, origin: &str) -> Result<PathBuf, String> {
    let signed = zone.with_extension("signed");
    if signed.exists() {
        return Ok(signed);
    }
    let keys = zone.with_extension("keys");
    fs::create_dir_all(&keys).map_err(|error| format!("{}: {error}", keys.display()))?;
    let mut keygen = Command::new("dnssec-keygen");
    run(keygen.args(["-q", "-a", "ECDSAP256SHA256", "-f", "KSK", "-K"]).arg(&keys).arg(origin))?;
    // `-z`: the one key signs everything. `-P`: no verification, which takes as long.
    let mut signzone = Command::new("dnssec-signzone");
    signzone.args(["-S", "-z", "-P", "-e", "now+31536000", "-o", origin, "-K"]).arg(&keys);
    run(signzone.arg("-f").arg(&signed).arg(zone))?;
    Ok(signed)
}

/// Makes the key with which a `whered` signs a zone; gives its directory.
///
/// # Errors
///
/// `whered` does not make it.
pub(super) fn make_key(binary: &Path, folder: &Path, origin: &str) -> Result<PathBuf, String> {
    let keys = folder.join(format!("keys-{origin}"));
    if !keys.exists() {
        let mut command = Command::new(binary);
        run(command.args(["zone", "key", "create", origin, "--keys"]).arg(&keys))?;
    }
    Ok(keys)
}

/// Whether the answers of a server are signed.
///
/// # Errors
///
/// One is not, or there is none.
pub fn check_signed(target: &Target, queries: &Queries) -> Result<(), String> {
    let asker = Asker::new(target)?;
    for index in (0..queries.len()).step_by((queries.len() / LOOKED_AT).max(1)) {
        let message = asker.message(queries.get(index))?;
        let Message { answers, authorities, .. } = &message;
        if !answers.iter().chain(authorities).any(|record| record.record_type == RecordType::RRSIG)
        {
            return Err(format!("{}: no signature in {message:?}", target.name));
        }
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let fault = |error: io::Error| format!("{name}: {error}");
    let output = command.stdin(Stdio::null()).output().map_err(fault)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim_end())),
    }
}

/// The zone that is asked, in both forms.
pub(super) fn both(shape: Shape) -> [Shape; 2] {
    [shape.unsigned(), shape.signed()]
}
