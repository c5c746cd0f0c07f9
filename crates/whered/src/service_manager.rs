//! Words to the service manager that has started this process (`sd_notify`), if one has.
//!
//! Not for: what is to be said when (`serve.rs`). The service manager that sets `NOTIFY_SOCKET`
//! listens there; the variable goes on to a successor, which is how its manager learns of the new
//! process.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;

/// This process serves, and is the service's main one.
pub(crate) fn ready() {
    tell(&format!("READY=1\nMAINPID={}", process::id()));
}

/// This process ends, and no other one takes its place.
pub(crate) fn stopping() {
    tell("STOPPING=1");
}

fn tell(words: &str) {
    let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
        return;
    };
    if let Err(error) = send(&name, words) {
        tracing::warn!("the service manager was not told '{}': {error}", words.replace('\n', " "));
    }
}

fn send(name: &OsStr, words: &str) -> io::Result<()> {
    // A name that begins with `@` is in no file system.
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(words.as_bytes(), &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_to_sockets_with_and_without_a_file() {
        let mut bytes = [0; 100];
        let name = format!("whered-test-{}", process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).expect("the name is short");
        let manager = UnixDatagram::bind_addr(&abstract_name).expect("nobody else has it");
        send(OsStr::new(&format!("@{name}")), "READY=1").expect("the manager listens");
        let size = manager.recv(&mut bytes).expect("it was sent");
        assert_eq!(&bytes[..size], b"READY=1");
        let path = env::temp_dir().join(&name);
        let manager = UnixDatagram::bind(&path).expect("nobody else has it");
        send(path.as_os_str(), "STOPPING=1").expect("the manager listens");
        let size = manager.recv(&mut bytes).expect("it was sent");
        std::fs::remove_file(&path).expect("it was just made");
        assert_eq!(&bytes[..size], b"STOPPING=1");
    }
}
