//! Servers under test: starting them on a core of their own, and a plain connection to one.
//!
//! For: any RESP server, started here or running already.
//! Not for measuring (`driver.rs`). A server that was started here ends with its value.
//!
//! Threads take over the cores of the thread that starts them, so a server is held to a core by
//! holding this thread there while it starts it.

use super::resp::{push_command, read_reply};
use crate::measure::{pin_to_cores, process_cpu_nanoseconds, resident_bytes};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// How long a server may take to read its data and open its door.
const START_LIMIT: Duration = Duration::from_secs(1800);
/// How long one reply may take.
const REPLY_LIMIT: Duration = Duration::from_secs(300);

/// A server that answers.
#[derive(Debug)]
pub struct Server {
    /// What it is called in tables.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its process.
    pub pid: u32,
    /// How it was set up, for the record.
    pub settings: String,
    child: Option<Child>,
}

impl Server {
    /// A server that runs already.
    #[must_use]
    pub fn running(name: &str, address: SocketAddr, pid: u32) -> Server {
        let settings = "was running already".to_owned();
        Server { name: name.to_owned(), address, pid, settings, child: None }
    }

    /// Starts a command and waits until a line of its standard output says that it is ready. Lines
    /// before it are given to `line`, which may find the address in them.
    ///
    /// # Errors
    ///
    /// It does not start, or ends, or is not ready in half an hour.
    pub fn start(
        name: &str,
        command: &mut Command,
        cores: &[usize],
        ready: &str,
        mut address: Option<SocketAddr>,
    ) -> Result<Server, String> {
        let fault = |what: String| format!("{name}: {what}");
        let settings = describe(command);
        let cores_before = crate::measure::cores().map_err(|error| fault(error.to_string()))?;
        pin_to_cores(cores).map_err(|error| fault(format!("cores {cores:?}: {error}")))?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        pin_to_cores(&cores_before).map_err(|error| fault(error.to_string()))?;
        let mut child = child.map_err(|error| fault(error.to_string()))?;
        let output = child.stdout.take().ok_or_else(|| fault("no standard output".to_owned()))?;
        let pid = child.id();
        let address_before = address.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, 0).into());
        let child = Some(child);
        // From here on the child ends with this value, whatever happens.
        let mut server =
            Server { name: name.to_owned(), address: address_before, pid, settings, child };
        let lines = read_lines(output);
        loop {
            let line = lines.recv_timeout(START_LIMIT);
            let line = line.map_err(|_| fault("ended or did not get ready".to_owned()))?;
            if let Some(found) = line.strip_prefix("resp ") {
                address = found.parse().ok();
            }
            if line.contains(ready) {
                break;
            }
        }
        server.address = address.ok_or_else(|| fault("did not say where it listens".to_owned()))?;
        Ok(server)
    }

    /// A connection.
    ///
    /// # Errors
    ///
    /// It refuses.
    pub fn wire(&self) -> Result<Wire, String> {
        Wire::connect(&self.name, self.address)
    }

    /// The processor time of all of its threads so far.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub fn cpu_nanoseconds(&self) -> Result<u64, String> {
        process_cpu_nanoseconds(self.pid).map_err(|error| format!("{}: {error}", self.name))
    }

    /// Its memory now.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub fn resident_bytes(&self) -> Result<u64, String> {
        resident_bytes(self.pid).map_err(|error| format!("{}: {error}", self.name))
    }
}

/// Nothing of a benchmark's server is to be kept, so it need not end in good order.
impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a `whered` that answers RESP only in `threads` threads, with its journal in a folder if
/// there is one.
///
/// # Errors
///
/// It does not start, or its configuration cannot be written.
pub fn start_whered(
    binary: &Path,
    folder: &Path,
    threads: usize,
    cores: &[usize],
    journal: Option<&str>,
) -> Result<Server, String> {
    let fault = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(folder).map_err(|error| fault(folder, error))?;
    let config = folder.join("whered.toml");
    let journal_text = journal.map_or(String::new(), |sync| {
        format!("data_dir = {:?}\n[journal]\nsync = \"{sync}\"\n", folder.join("data"))
    });
    let text = format!(
        "{journal_text}[resp]\nlisten = [\"127.0.0.1:0\"]\nthreads = {threads}\n\
         output_buffer_limit_bytes = 4294967296\n\
         [http]\nlisten = [\"127.0.0.1:0\"]\n[dns]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\n"
    );
    std::fs::write(&config, &text).map_err(|error| fault(&config, error))?;
    let mut command = Command::new(binary);
    command.arg("serve").arg("--config").arg(&config).stderr(Stdio::null());
    let mut server = Server::start("whered", &mut command, cores, "ready", None)?;
    let sync = journal.unwrap_or("none");
    server.settings =
        format!("whered serve, threads = {threads}, cores {cores:?}, journal: {sync}");
    Ok(server)
}

/// A port that nobody listens on just now.
///
/// # Errors
///
/// There is none.
pub fn free_port() -> Result<u16, String> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string())?;
    Ok(listener.local_addr().map_err(|error| error.to_string())?.port())
}

/// The program's name without its folder, and its arguments without theirs.
fn describe(command: &Command) -> String {
    let name = |text: &std::ffi::OsStr| {
        let path = Path::new(text);
        let last = if path.is_absolute() { path.file_name() } else { None };
        last.unwrap_or(text).to_string_lossy().into_owned()
    };
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words = words.map(name).map(|word| if word.is_empty() { "\"\"".to_owned() } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Reads lines in a thread of its own to the end, so that the server never waits for a reader.
fn read_lines(output: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Nobody listens once the server is ready.
            let _ = sender.send(line);
        }
    });
    receiver
}

/// A blocking connection whose replies are read in full.
#[derive(Debug)]
pub struct Wire {
    name: String,
    stream: TcpStream,
    buffer: Vec<u8>,
    /// What of the buffer has been taken already.
    taken: usize,
}

impl Wire {
    /// Connects.
    ///
    /// # Errors
    ///
    /// Nobody answers there.
    pub fn connect(name: &str, address: SocketAddr) -> Result<Wire, String> {
        let fault = |error: std::io::Error| format!("{name} at {address}: {error}");
        let stream = TcpStream::connect(address).map_err(fault)?;
        stream.set_nodelay(true).map_err(fault)?;
        stream.set_read_timeout(Some(REPLY_LIMIT)).map_err(fault)?;
        Ok(Wire { name: name.to_owned(), stream, buffer: Vec::new(), taken: 0 })
    }

    /// Sends bytes.
    ///
    /// # Errors
    ///
    /// The connection fails.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|error| format!("{}: {error}", self.name))
    }

    /// Reads until `parse` finds something and says how many bytes it took.
    ///
    /// # Errors
    ///
    /// The connection fails or ends, or `parse` fails.
    pub fn receive<T>(
        &mut self,
        mut parse: impl FnMut(&[u8]) -> Result<Option<(T, usize)>, String>,
    ) -> Result<T, String> {
        // Big replies come in many pieces: looking at all of them again for each would be
        // quadratic.
        let mut look_at = 1;
        loop {
            if self.buffer.len() - self.taken >= look_at {
                let found = parse(&self.buffer[self.taken..]);
                if let Some((thing, size)) =
                    found.map_err(|what| format!("{}: {what}", self.name))?
                {
                    self.taken += size;
                    return Ok(thing);
                }
                look_at = (self.buffer.len() - self.taken) / 4 * 5 + 1;
                look_at = look_at.min(self.buffer.len() - self.taken + (1 << 16));
            }
            if self.taken > 0 {
                self.buffer.drain(..self.taken);
                self.taken = 0;
            }
            let before = self.buffer.len();
            self.buffer.resize(before + (1 << 16), 0);
            let got = self.stream.read(&mut self.buffer[before..]);
            let got = got.map_err(|error| format!("{}: {error}", self.name))?;
            self.buffer.truncate(before + got);
            if got == 0 {
                return Err(format!("{}: closed the connection", self.name));
            }
            // The last piece of a reply may be small.
            if got < 1 << 16 {
                look_at = look_at.min(self.buffer.len());
            }
        }
    }

    /// Asks one command and gives its whole reply.
    ///
    /// # Errors
    ///
    /// The connection fails, or the reply is an error.
    pub fn ask(&mut self, words: &[&[u8]]) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        push_command(&mut bytes, words);
        self.send(&bytes)?;
        self.receive(|bytes| {
            let Some(reply) = read_reply(bytes)? else { return Ok(None) };
            let whole = bytes[..reply.size_bytes].to_vec();
            if reply.mark == b'-' {
                return Err(String::from_utf8_lossy(&whole[1..]).trim_end().to_owned());
            }
            Ok(Some((whole, reply.size_bytes)))
        })
    }
}
