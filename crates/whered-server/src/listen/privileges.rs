//! From root to a user without privileges, once the sockets are bound.
//!
//! For: `[server] user`. Not for: what that user may read; everything that is opened later is
//! opened as that user from the start, so that what could not be opened again is refused at once.
//!
//! ```text
//! root: bind sockets ─> groups ─> group ─> user ─> no capabilities, none to be gained
//! user: data directory, zones, databases, certificates, logs ─> serve
//! ```
//!
//! Invariants: after `Ok` of a name the process is that user in all threads and cannot become
//! another one; after an error nothing is served. At the same time: called before threads are
//! started, since some of this holds for one thread and those that it starts.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::fs::chown;
use std::path::Path;
use std::{mem, ptr};

/// Who the process becomes once its sockets are bound: `[server]` of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessUser {
    /// The user; `None`: it stays who it is.
    pub user: Option<String>,
    /// The group; `None`: the user's own.
    pub group: Option<String>,
}

/// Room for an entry of the users' or groups' list; a group may name many members.
const ENTRY_BYTES: usize = 256 * 1024;

/// Becomes the user of the configuration; gives the name, or `None` when none is named.
///
/// # Errors
/// One line: there is no such user or group, or this process may not become it.
pub(crate) fn become_user(
    config: &ProcessUser,
    unix_socket: Option<&Path>,
) -> io::Result<Option<String>> {
    let Some(FoundUser { user, uid, gid, is_other }) = find_user(config)? else {
        return Ok(None);
    };
    if !is_other {
        // As a successor of a process that has become it, or by the service manager.
        return Ok(Some(user.to_owned()));
    }
    let refused = |why: &str| refused(user, why);
    if let Some(path) = unix_socket {
        chown(path, Some(uid), Some(gid))?;
    }
    let name = CString::new(user).map_err(|_| refused("has a zero byte"))?;
    change(&name, uid, gid).map_err(|error| refused(&error.to_string()))?;
    tracing::info!("privileges are dropped: this is the user '{user}' now");
    Ok(Some(user.to_owned()))
}

/// The user of a configuration, as the system knows it.
pub(crate) struct FoundUser<'a> {
    user: &'a str,
    uid: libc::uid_t,
    gid: libc::gid_t,
    /// Whether this process is somebody else.
    is_other: bool,
}

/// Looks the user of the configuration up, and whether this process may become it.
///
/// # Errors
/// As [`become_user`].
pub(crate) fn find_user(config: &ProcessUser) -> io::Result<Option<FoundUser<'_>>> {
    let Some(user) = &config.user else {
        return Ok(None);
    };
    let Some(Ids { uid, gid }) = user_ids(user)? else {
        return Err(refused(user, "there is no such user"));
    };
    let gid = match &config.group {
        None => gid,
        Some(group) => group_id(group)?.ok_or_else(|| {
            io::Error::other(format!("[server] group '{group}': there is no such group"))
        })?,
    };
    if uid == 0 {
        return Err(refused(user, "is root; allowed: a user without privileges"));
    }
    let own = effective_user();
    if own != uid && own != 0 {
        let why = format!("only root can become it, and this process is uid {own}");
        return Err(refused(user, &why));
    }
    Ok(Some(FoundUser { user, uid, gid, is_other: own != uid }))
}

fn refused(user: &str, why: &str) -> io::Error {
    io::Error::other(format!("[server] user '{user}': {why}"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ids {
    uid: libc::uid_t,
    gid: libc::gid_t,
}

#[allow(unsafe_code, reason = "geteuid is a system call")]
fn effective_user() -> libc::uid_t {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

#[allow(unsafe_code, reason = "getpwnam_r is a function of the C library")]
fn user_ids(name: &str) -> io::Result<Option<Ids>> {
    let Ok(name) = CString::new(name) else {
        return Ok(None);
    };
    let mut bytes = vec![0; ENTRY_BYTES];
    // SAFETY: an entry is integers and pointers: all zero bits are valid.
    let mut entry: libc::passwd = unsafe { mem::zeroed() };
    let mut found = ptr::null_mut();
    // SAFETY: name and buffer live across the call, with the buffer's size; the entry's pointers
    // into the buffer are not used after it.
    let failed = unsafe {
        libc::getpwnam_r(
            name.as_ptr(),
            &raw mut entry,
            bytes.as_mut_ptr(),
            bytes.len(),
            &raw mut found,
        )
    };
    match (failed, found.is_null()) {
        (0, true) => Ok(None),
        (0, false) => Ok(Some(Ids { uid: entry.pw_uid, gid: entry.pw_gid })),
        (code, _) => Err(io::Error::from_raw_os_error(code)),
    }
}

#[allow(unsafe_code, reason = "getgrnam_r is a function of the C library")]
fn group_id(name: &str) -> io::Result<Option<libc::gid_t>> {
    let Ok(name) = CString::new(name) else {
        return Ok(None);
    };
    let mut bytes = vec![0; ENTRY_BYTES];
    // SAFETY: an entry is integers and pointers: all zero bits are valid.
    let mut entry: libc::group = unsafe { mem::zeroed() };
    let mut found = ptr::null_mut();
    // SAFETY: as in `user_ids`.
    let failed = unsafe {
        libc::getgrnam_r(
            name.as_ptr(),
            &raw mut entry,
            bytes.as_mut_ptr(),
            bytes.len(),
            &raw mut found,
        )
    };
    match (failed, found.is_null()) {
        (0, true) => Ok(None),
        (0, false) => Ok(Some(entry.gr_gid)),
        (code, _) => Err(io::Error::from_raw_os_error(code)),
    }
}

/// The header of `capset`, which the C library does not have.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: libc::c_int,
}

/// The third version of the sets: 64 capabilities in two halves of three words.
const CAPABILITY_VERSION: u32 = 0x2008_0522;
const NO_CAPABILITIES: [u32; 6] = [0; 6];

#[allow(unsafe_code, reason = "changing the user takes system calls")]
fn change(name: &CStr, uid: libc::uid_t, gid: libc::gid_t) -> io::Result<()> {
    let check = |result: libc::c_int| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // What cannot be gained by this process's children either; the kernel ends the list by an
    // error.
    for capability in 0..64 {
        // SAFETY: the call takes numbers only.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
            break;
        }
    }
    // SAFETY: the name lives across the call; the others take numbers only.
    unsafe {
        check(libc::initgroups(name.as_ptr(), gid as _))?;
        check(libc::setresgid(gid, gid, gid))?;
        check(libc::setresuid(uid, uid, uid))?;
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
    }
    let header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
    // SAFETY: the call reads a header and six words, which live across it.
    let emptied =
        unsafe { libc::syscall(libc::SYS_capset, &raw const header, NO_CAPABILITIES.as_ptr()) };
    check(emptied as libc::c_int)?;
    // SAFETY: the call takes a number only.
    if unsafe { libc::setuid(0) } == 0 {
        return Err(io::Error::other("root could be had back"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_found_by_name() {
        assert_eq!(user_ids("root").unwrap(), Some(Ids { uid: 0, gid: 0 }));
        assert_eq!(group_id("root").unwrap(), Some(0));
        for name in ["no-such-name-here", "a\0b", ""] {
            assert_eq!((user_ids(name).unwrap(), group_id(name).unwrap()), (None, None), "{name}");
        }
    }

    #[test]
    fn nobody_is_refused_in_one_line() {
        let refusal = |user: &str, group: Option<&str>| {
            let config = ProcessUser { user: Some(user.into()), group: group.map(str::to_owned) };
            become_user(&config, None).unwrap_err().to_string()
        };
        assert_eq!(refusal("nonesuch", None), "[server] user 'nonesuch': there is no such user");
        assert!(refusal("root", None).contains("is root"));
        assert!(refusal("root", Some("nonesuch")).contains("group 'nonesuch'"));
        let none = become_user(&ProcessUser::default(), None);
        assert_eq!(none.unwrap(), None);
    }
}
