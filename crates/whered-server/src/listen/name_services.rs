//! Where a statically linked program looks up hosts, users and groups: files and DNS, nothing else.
//!
//! glibc loads a shared library for each service that `/etc/nsswitch.conf` names beyond these two.
//! The libraries on the machine belong to its own glibc, not to the one in a static program, and
//! such a load can end the process. `files` and `dns` are part of glibc itself. Not for: programs
//! that are linked dynamically, which use what the machine is configured for.

/// Chooses these services, in a static program with glibc; otherwise does nothing. To be called at
/// the start of a program, before its first lookup.
pub fn use_own_name_services() {
    #[cfg(all(target_os = "linux", target_env = "gnu", target_feature = "crt-static"))]
    for (database, services) in
        [(c"hosts", c"files dns"), (c"passwd", c"files"), (c"group", c"files")]
    {
        configure(database, services);
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu", target_feature = "crt-static"))]
#[allow(unsafe_code, reason = "__nss_configure_lookup is a function of glibc (nss.h)")]
fn configure(database: &std::ffi::CStr, services: &std::ffi::CStr) {
    use std::ffi::{c_char, c_int};
    unsafe extern "C" {
        fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
    }
    // SAFETY: both strings live across the call and end with zero; glibc copies what it keeps.
    let failed = unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
    // It fails for a service that glibc lacks: lookups then go on as `nsswitch.conf` says.
    debug_assert_eq!(failed, 0, "glibc has these services");
}
