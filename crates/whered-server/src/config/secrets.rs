//! Secrets: as they are in the configuration, or in a file of their own that it names.
//!
//! ```text
//! password = "..."                        in the configuration
//! password_file = "resp.password"         the whole file, without the line's end
//! password_file = "credential:resp"       a credential of systemd: $CREDENTIALS_DIRECTORY/resp
//! ```
//! Not for: what a secret must look like (its reader says that). Invariants: no message repeats a
//! secret; a file is a regular one, read up to [`FILE_BYTES_MAX`].

use std::env;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::section::{Section, SpannedValue, resolve_path};

/// More than any password, token or URL has.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// What stands before the name of a credential.
const CREDENTIAL: &str = "credential:";
/// Where systemd puts a service's credentials.
const CREDENTIALS_DIRECTORY: &str = "CREDENTIALS_DIRECTORY";
/// The permissions of everybody but owner and group.
const OTHERS: u32 = 0o007;

/// A secret that is under `key` itself, or in the file under `file_key`.
///
/// # Errors
/// Both are there; the file cannot be read, or has not one line.
pub(super) fn read_secret(
    section: &Section<'_>,
    key: &str,
    file_key: &str,
) -> Result<Option<SpannedValue<String>>, ConfigError> {
    let inline = section.filled_text(key)?;
    let Some(named) = section.filled_text(file_key)? else {
        let Some(found) = inline else { return Ok(None) };
        remark_on_configuration(section, key);
        return Ok(Some(SpannedValue { value: found.value.to_owned(), span: found.span }));
    };
    let refuse = |found: &str, allowed: &str| section.refuse(&named.span, file_key, found, allowed);
    if inline.is_some() {
        return Err(refuse(&format!("stands beside '{key}'"), "one of the two"));
    }
    let path = path_of(section, file_key, &named)?;
    let value = read_file(&path).map_err(|why| {
        refuse(&format!("names {}, which {why}", path.display()), "a file of one line")
    })?;
    remark_on_file(section, &path, file_key, &named);
    section.document.notes.borrow_mut().read_files.push(path);
    Ok(Some(SpannedValue { value, span: named.span }))
}

/// The path of a file with a secret, or with what belongs to one: relative to the configuration,
/// or a credential of systemd.
///
/// # Errors
/// A credential where there are none; a name that leads elsewhere.
pub(super) fn path_of(
    section: &Section<'_>,
    key: &str,
    named: &SpannedValue<&str>,
) -> Result<PathBuf, ConfigError> {
    let Some(name) = named.value.strip_prefix(CREDENTIAL) else {
        return Ok(resolve_path(section.document.path, named.value));
    };
    let refuse = |found: String, allowed: &str| section.refuse(&named.span, key, &found, allowed);
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        let found = format!("is '{}'", named.value);
        return Err(refuse(found, "credential:NAME, as in LoadCredential=NAME:..."));
    }
    match env::var_os(CREDENTIALS_DIRECTORY).filter(|folder| !folder.is_empty()) {
        Some(folder) => Ok(Path::new(&folder).join(name)),
        None => {
            let found = format!("is '{}', and {CREDENTIALS_DIRECTORY} is not set", named.value);
            Err(refuse(found, "credentials in a service of systemd, or a path"))
        }
    }
}

/// The one line of a file.
fn read_file(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    // Something that is no file may never end, or may wait for somebody to write.
    if !path.metadata().map_err(unreadable)?.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("has more than {FILE_BYTES_MAX} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    match line {
        "" => Err("is empty".to_owned()),
        _ if line.contains(['\n', '\r', '\0']) => Err("has more than one line".to_owned()),
        _ => Ok(line.to_owned()),
    }
}

/// A remark when everybody may read or change a file that has a secret.
pub(super) fn remark_on_file(
    section: &Section<'_>,
    path: &Path,
    key: &str,
    named: &SpannedValue<&str>,
) {
    let Some(mode) = mode_for_others(path) else { return };
    let at = section.document.at(&named.span);
    let remark = format!(
        "{at}: remark: '{key}' names {}, which has the mode {mode:04o}: every user of this machine \
         may open it; 0600 is enough",
        path.display()
    );
    section.document.notes.borrow_mut().remarks.push(remark);
}

/// A remark, once, when everybody may read or change a configuration that has a secret.
pub(super) fn remark_on_configuration(section: &Section<'_>, key: &str) {
    let path = section.document.path;
    let Some(mode) = mode_for_others(path) else { return };
    let mut notes = section.document.notes.borrow_mut();
    if std::mem::replace(&mut notes.has_open_secret, true) {
        return;
    }
    let at = section.document.at(&section.span_of(key));
    notes.remarks.push(format!(
        "{at}: remark: '{key}' is a secret, and the file has the mode {mode:04o}: every user of \
         this machine may open it; 0640 is enough, and '{key}_file' names a file of its own"
    ));
}

/// The mode of a file that others than owner and group may open.
fn mode_for_others(path: &Path) -> Option<u32> {
    let mode = path.metadata().ok()?.mode() & 0o7777;
    (mode & OTHERS != 0).then_some(mode)
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
