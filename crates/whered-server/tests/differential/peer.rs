//! Debian's redis-server as a child process that ends with the test.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A running redis-server. Dropping it ends it and removes its directory.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    child: Child,
    directory: PathBuf,
}

impl Peer {
    /// Starts redis-server on a free port; `None` when it is not installed.
    pub(crate) fn start() -> Option<Peer> {
        for attempt in 0..5 {
            let name = format!("whered-differential-{}-{attempt}", std::process::id());
            let directory = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&directory).expect("a directory can be made");
            // Between here and the child's start the port could be taken: then it tries again.
            let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
            let address = free.expect("a free port");
            let spawned = Command::new("redis-server")
                .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1"])
                .args(["--save", "", "--appendonly", "no", "--daemonize", "no", "--dir"])
                .arg(&directory)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn();
            let Ok(mut child) = spawned else {
                // The directory is empty: redis-server was not found.
                let _ = std::fs::remove_dir(&directory);
                return None;
            };
            let output = child.stdout.take().expect("its output is piped");
            let mut peer = Peer { address, child, directory };
            let mut lines = BufReader::new(output).lines().map_while(Result::ok);
            if lines.any(|line| line.contains("Ready to accept connections")) {
                // It says little more, but what it says must not fill the pipe.
                std::thread::spawn(move || lines.for_each(drop));
                return Some(peer);
            }
            peer.end();
        }
        panic!("redis-server does not start");
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.end();
    }
}
