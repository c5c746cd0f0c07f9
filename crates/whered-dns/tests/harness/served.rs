//! Zones served to other programs: a folder of a test, programs that run in it, a port.
//!
//! Not for: what is asked. A program that is missing skips the test, unless `WHERED_REQUIRE`
//! contains `peers`.
#![allow(unreachable_pub, reason = "a module of several test programs")]

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use whered_dns::Transport;

/// From a query, its transport and its source to a reply.
pub type Answerer = dyn Fn(&[u8], Transport, IpAddr) -> Vec<u8> + Send + Sync;

/// A folder that is removed at the end of its test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(what: &str) -> Folder {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let folder = folder.join(format!("{what}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.0);
    }
}

fn is_required() -> bool {
    std::env::var("WHERED_REQUIRE").unwrap_or_default().split(',').any(|what| what == "peers")
}

/// What a program wrote, and whether it ended well; none where it is missing.
pub fn try_run(folder: &Path, program: &str, arguments: &[&str]) -> Option<(bool, String)> {
    let done = Command::new(program).args(arguments).current_dir(folder).output();
    let Ok(done) = done else {
        assert!(!is_required(), "{program} is missing");
        eprintln!("skipped: {program} is missing");
        return None;
    };
    let errors = String::from_utf8_lossy(&done.stderr);
    Some((done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned() + &errors))
}

/// What a program wrote, which must end well; none where it is missing.
pub fn run(folder: &Path, program: &str, arguments: &[&str]) -> Option<String> {
    let (is_good, said) = try_run(folder, program, arguments)?;
    assert!(is_good, "{program} {arguments:?}: {said}");
    Some(said)
}

pub fn now_seconds() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

fn serve_stream(answerer: &Answerer, mut stream: TcpStream) -> std::io::Result<()> {
    let source = stream.peer_addr()?.ip();
    let mut length = [0; 2];
    loop {
        stream.read_exact(&mut length)?;
        let mut query = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut query)?;
        let reply = answerer(&query, Transport::Tcp, source);
        stream.write_all(&(reply.len() as u16).to_be_bytes())?;
        stream.write_all(&reply)?;
    }
}

/// A port of loopback for both transports. The system gives a free port for datagrams alone:
/// another test may have a stream there.
fn bind_both() -> (UdpSocket, TcpListener) {
    loop {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        if let Ok(listener) = TcpListener::bind(socket.local_addr().unwrap()) {
            return (socket, listener);
        }
    }
}

/// Serves at a port of loopback, in datagrams and streams, until the test's process ends: `delv`
/// asks by a stream where a DNAME answers.
pub fn serve(answerer: Arc<Answerer>) -> u16 {
    let (socket, listener) = bind_both();
    let address = socket.local_addr().unwrap();
    let of_streams = Arc::clone(&answerer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ended = serve_stream(&*of_streams, stream.unwrap());
        }
    });
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        loop {
            // An error tells that somebody has not waited for a reply.
            let Ok((length, source)) = socket.recv_from(&mut bytes) else { continue };
            let reply = answerer(&bytes[..length], Transport::Udp, source.ip());
            let _sent = socket.send_to(&reply, source);
        }
    });
    address.port()
}
