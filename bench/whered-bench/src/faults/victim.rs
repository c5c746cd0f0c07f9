//! The server that things are done to: configured for the lanes, started, killed, started again.
//!
//! Not for load (`lane.rs`). It ends by its process's number and with its value; its ports are the
//! system's choice; its log is a file beside its data, for the study of a violation.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::model::pool_name;
use super::state::CONFIGURED_SITE;
use super::value::Client;

/// How long a start may take.
const START_LIMIT: Duration = Duration::from_secs(60);

/// How a server is set up.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) binary: PathBuf,
    /// Where its configuration and log are.
    pub(super) folder: PathBuf,
    /// Where its data are.
    pub(super) data: PathBuf,
    pub(super) sync: &'static str,
    pub(super) segment_size_bytes: u64,
    pub(super) lanes: usize,
    /// A command that runs the server in its own process, such as a tracer that stands beside it.
    pub(super) under: Vec<String>,
    /// What else its configuration has.
    pub(super) more: String,
}

impl Setup {
    fn write(&self) -> std::io::Result<PathBuf> {
        fs::create_dir_all(&self.folder)?;
        let zone = "$TTL 60\n@ IN SOA ns.example.com. root.example.com. 1 60 60 60 60\n\
                    @ IN NS ns.example.com.\n";
        fs::write(self.folder.join("example.com.zone"), zone)?;
        let mut text = format!(
            "data_dir = {:?}\n[journal]\nsync = \"{}\"\nsegment_size_bytes = {}\n\
             [resp]\nlisten = [\"127.0.0.1:0\"]\nthreads = 2\n[http]\nlisten = [\"127.0.0.1:0\"]\n\
             [dns]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\n\
             [[zone]]\nname = \"example.com\"\npath = \"example.com.zone\"\n",
            self.data, self.sync, self.segment_size_bytes
        );
        for lane in 0..self.lanes {
            let pool = pool_name(lane);
            text.push_str(&format!(
                "[[pool]]\nname = \"{pool}\"\nowners = [\"{pool}.example.com\"]\n\
                 [[pool.site]]\nname = \"{CONFIGURED_SITE}\"\n\
                 at = {{ longitude = 1.0, latitude = 2.0 }}\naddresses = [\"192.0.2.1\"]\n"
            ));
        }
        text.push_str(&self.more);
        let path = self.folder.join("whered.toml");
        fs::write(&path, text)?;
        Ok(path)
    }

    fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    /// Starts it and waits until it is ready.
    pub(super) fn start(&self) -> Result<Victim, String> {
        let mut starting = self.begin()?;
        let lines = starting.lines.take().ok_or("a server is waited for once")?;
        let (mut resp, mut http) = (None, None);
        loop {
            let line = lines.recv_timeout(START_LIMIT).map_err(|_| {
                let log = fs::read_to_string(self.log()).unwrap_or_default();
                let last = log.lines().rev().find(|line| !line.is_empty()).unwrap_or_default();
                format!("the server did not start: {last}")
            })?;
            match line.split_once(' ') {
                Some(("resp", address)) => resp = address.parse().ok(),
                Some(("http", address)) => http = address.parse().ok(),
                _ if line == "ready" => break,
                _ => {}
            }
        }
        let (Some(resp), Some(http)) = (resp, http) else {
            return Err("the server did not say where it listens".to_owned());
        };
        Ok(Victim { process: starting, resp, http })
    }

    /// Starts it and does not wait.
    pub(super) fn begin(&self) -> Result<Process, String> {
        let fault = |error: std::io::Error| format!("{}: {error}", self.binary.display());
        let config = self.write().map_err(fault)?;
        let log = OpenOptions::new().create(true).append(true).open(self.log()).map_err(fault)?;
        let words: Vec<PathBuf> = self.under.iter().map(PathBuf::from).collect();
        let words = [words, vec![self.binary.clone()]].concat();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("serve").arg("--config").arg(config);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().map_err(fault)?;
        let lines = child.stdout.take().map(lines_of);
        Ok(Process { child, lines })
    }
}

/// A process that ends with its value.
pub(super) struct Process {
    child: Child,
    lines: Option<mpsc::Receiver<String>>,
}

impl Process {
    /// `kill -9`; returns when the process is gone.
    pub(super) fn kill(&mut self) {
        // It may have ended by itself, which whoever comes next finds out.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A server that answers.
pub(super) struct Victim {
    pub(super) process: Process,
    pub(super) resp: SocketAddr,
    pub(super) http: SocketAddr,
}

impl Victim {
    pub(super) fn client(&self) -> Result<Client, String> {
        Client::connect(self.resp)
    }

    /// A page by HTTP: its head and body.
    pub(super) fn page(&self, path: &str) -> Result<String, String> {
        let get = || {
            let mut stream = TcpStream::connect(self.http)?;
            stream.set_read_timeout(Some(Duration::from_secs(20)))?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        };
        get().map_err(|error: std::io::Error| format!("{path}: {error}"))
    }

    /// The number of the thread that writes the journal.
    pub(super) fn journal_thread(&self) -> Result<u32, String> {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.process.pid()));
        let names =
            fs::read_dir(&tasks).map_err(|error| format!("{}: {error}", tasks.display()))?;
        let is_it = |folder: &Path| {
            fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.trim() == "journal")
        };
        names
            .flatten()
            .find(|entry| is_it(&entry.path()))
            .and_then(|entry| entry.file_name().to_str()?.parse().ok())
            .ok_or_else(|| "the server has no journal thread".to_owned())
    }
}

/// Reads lines in a thread of its own to the end, so that the server never waits for a reader.
fn lines_of(output: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Nobody listens once the server is ready.
            let _ = sender.send(line);
        }
    });
    receiver
}
