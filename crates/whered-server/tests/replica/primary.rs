//! A redis-server that is followed, and a server of ours that follows it.
#![allow(dead_code, reason = "no file of tests uses all of it")]

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use whered_server::{Config, Server, ServerError};

use crate::support::client::Client;

static DIRECTORIES: AtomicUsize = AtomicUsize::new(0);

/// A directory of its own, which goes with it.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new() -> Directory {
        let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
        let name = format!("whered-replica-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory can be made");
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running redis-server. Dropping it ends it.
pub(crate) struct Primary {
    pub(crate) address: SocketAddr,
    child: Child,
    directory: Directory,
}

impl Primary {
    /// Starts redis-server on a free port; `None` when it is not installed and may be missing.
    pub(crate) fn start() -> Option<Primary> {
        Primary::start_with(&[])
    }

    /// One that speaks TLS at another port, with the certificates of a folder.
    pub(crate) fn start_with_tls(folder: &Path) -> Option<(Primary, u16)> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = free.expect("a free port").port();
        let [certificate, key, authority] = ["server.pem", "server.key", "ca.pem"]
            .map(|name| folder.join(name).display().to_string());
        let arguments = ["--tls-port", &port.to_string(), "--tls-auth-clients", "no"];
        let files = [
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &authority,
        ];
        Some((Primary::start_with(&[&arguments[..], &files].concat())?, port))
    }

    fn start_with(arguments: &[&str]) -> Option<Primary> {
        for _ in 0..5 {
            let directory = Directory::new();
            let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
            let address = free.expect("a free port");
            let Some(child) = spawn(address, &directory.0, arguments) else {
                let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
                let text = "redis-server is not installed (package redis-server)";
                assert!(!required.split(',').any(|word| word == "peers"), "{text}");
                println!("skipped: {text}");
                return None;
            };
            let mut primary = Primary { address, child, directory };
            if primary.is_ready() {
                return Some(primary);
            }
        }
        panic!("redis-server does not start");
    }

    /// Ends it, and starts an empty one at its address, with another id.
    pub(crate) fn replace(&mut self) {
        self.end();
        self.child = spawn(self.address, &self.directory.0, &[]).expect("it was there before");
        assert!(self.is_ready(), "redis-server does not start again");
    }

    /// Ends it.
    pub(crate) fn stop(&mut self) {
        self.end();
    }

    fn is_ready(&mut self) -> bool {
        let output = self.child.stdout.take().expect("its output is piped");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let is_ready = lines.any(|line| line.contains("Ready to accept connections"));
        // It says little more, but what it says must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        is_ready
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    pub(crate) fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        self.end();
    }
}

fn spawn(address: SocketAddr, directory: &Path, arguments: &[&str]) -> Option<Child> {
    let port = address.port().to_string();
    let child = Command::new("redis-server")
        .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "16mb", "--dir"])
        .arg(directory)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    child.ok()
}

/// A server with a `[[replica]]` of a primary.
pub(crate) struct Follower {
    server: Option<Server>,
    config: String,
    directory: Directory,
}

impl Follower {
    /// One that follows `fleet:*`, with more keys of the section.
    pub(crate) fn of(primary: &Primary, more: &str) -> Follower {
        Follower::with(&format!(
            "[[replica]]\nof = \"redis://{}\"\nmatch = [\"fleet:*\"]\n{more}\n",
            primary.address
        ))
    }

    pub(crate) fn with(sections: &str) -> Follower {
        let config = format!("data_dir = \"data\"\n[resp]\nlisten = [\"127.0.0.1:0\"]\n{sections}");
        let mut follower = Follower { server: None, config, directory: Directory::new() };
        follower.start().expect("it starts");
        follower
    }

    pub(crate) fn start(&mut self) -> Result<(), ServerError> {
        let path = self.directory.0.join("whered.toml");
        let config = Config::from_toml(&self.config, &path).expect("the configuration is right");
        self.server = Some(Server::start(config)?);
        Ok(())
    }

    pub(crate) fn stop(&mut self) {
        self.server.take().expect("it runs").stop().expect("it stops");
    }

    /// The text in the place of its sections of replicas.
    pub(crate) fn configure(&mut self, sections: &str) {
        let end = self.config.find("[[replica]]").unwrap_or(self.config.len());
        self.config.truncate(end);
        self.config.push_str(sections);
    }

    /// Where HTTP listens, if its section says so.
    pub(crate) fn http(&self) -> SocketAddr {
        self.server.as_ref().expect("it runs").http_addresses()[0]
    }

    pub(crate) fn client(&self) -> Client {
        let server = self.server.as_ref().expect("it runs");
        Client::connect(server.resp_addresses()[0])
    }
}
