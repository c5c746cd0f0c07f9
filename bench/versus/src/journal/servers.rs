//! Both servers with a journal, under the policy's name that both know.
//!
//! Not for measuring. Each is held to the same core and has its files in a folder of its own on the
//! same file system.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use whered_bench::geo::{Server, free_port, start_whered};

/// A whered with one thread that answers.
pub(crate) fn whered(
    binary: &Path,
    folder: &Path,
    sync: &str,
    core: usize,
) -> Result<Server, String> {
    let folder = folder.join(format!("whered-{sync}"));
    let mut server = start_whered(binary, &folder, 1, &[core], Some(sync))?;
    server.name = format!("whered {sync}");
    Ok(server)
}

/// A Redis with an append-only file that is never rewritten on the way.
pub(crate) fn redis(
    binary: &Path,
    folder: &Path,
    sync: &str,
    core: usize,
) -> Result<Server, String> {
    let folder = folder.join(format!("redis-{sync}"));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let port = free_port()?;
    let mut command = Command::new(binary);
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
        .args(["--appendonly", "yes", "--appendfsync", sync])
        .args(["--auto-aof-rewrite-percentage", "0", "--dir"])
        .arg(&folder)
        .stderr(Stdio::null());
    let address: SocketAddr = (Ipv4Addr::LOCALHOST, port).into();
    let name = format!("redis {sync}");
    Server::start(&name, &mut command, &[core], "Ready to accept connections", Some(address))
}

/// A number that a server tells by `INFO`.
pub(crate) fn told(server: &Server, name: &str) -> Result<u64, String> {
    let info = server.wire()?.ask(&[b"INFO"])?;
    let info = String::from_utf8_lossy(&info).into_owned();
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| format!("{}: INFO has no number {name}", server.name))
}
