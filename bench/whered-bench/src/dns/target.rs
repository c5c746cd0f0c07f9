//! Servers under test: started on a core of their own, found ready when they answer.
//!
//! Not for measuring (`rounds.rs`). A server that was started here ends with its value.
//! The processor time is that of the process and all that it has started, since some servers answer
//! in a child.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use whered_server::dns::udp::{Calls, Receiving};

use super::geo;
use super::signed;
use super::world::{Shape, list_text};
use crate::geo::push_command;
use crate::measure::{cores, pin_to_cores, process_cpu_nanoseconds};

/// How long a server may take to read its zone.
const START_LIMIT: Duration = Duration::from_secs(120);

/// A server that answers.
#[derive(Debug)]
pub struct Target {
    /// What it is called in tables.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its process.
    pub pid: u32,
    /// How it was started.
    pub settings: String,
    /// How long it took until it answered.
    pub start_time: Duration,
    /// It sends questions back.
    pub is_mirror: bool,
    child: Child,
}

impl Target {
    /// Starts a command and waits until it answers for the zone.
    ///
    /// # Errors
    ///
    /// It does not start, ends, or does not answer in two minutes.
    pub fn start(
        name: &str,
        command: &mut Command,
        on_cores: &[usize],
        address: SocketAddr,
        shape: Shape,
    ) -> Result<Target, String> {
        let fault = |what: String| format!("{name}: {what}");
        let words: Vec<_> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let before = cores().map_err(|error| fault(error.to_string()))?;
        let begun = Instant::now();
        // Programs take over the cores of the thread that starts them.
        pin_to_cores(on_cores).map_err(|error| fault(format!("cores {on_cores:?}: {error}")))?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        pin_to_cores(&before).map_err(|error| fault(error.to_string()))?;
        let child = child.map_err(|error| fault(error.to_string()))?;
        let mut target = Target {
            name: name.to_owned(),
            address,
            pid: child.id(),
            settings: words.join(" "),
            start_time: Duration::ZERO,
            is_mirror: false,
            child,
        };
        while !answers(address, shape.origin()) {
            if let Ok(Some(status)) = target.child.try_wait() {
                return Err(fault(format!("ended: {status}")));
            }
            if begun.elapsed() > START_LIMIT {
                return Err(fault("did not answer in two minutes".to_owned()));
            }
        }
        target.start_time = begun.elapsed();
        Ok(target)
    }

    /// The processor time of the process and its children so far.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub fn cpu_nanoseconds(&self) -> Result<u64, String> {
        let mut sum = 0;
        let mut processes = vec![self.pid];
        while let Some(pid) = processes.pop() {
            let time = process_cpu_nanoseconds(pid);
            sum += time.map_err(|error| format!("{}: {error}", self.name))?;
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
            let children = children.unwrap_or_default();
            processes.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        Ok(sum)
    }

    /// How many datagrams the kernel has dropped at its port so far, for want of room.
    ///
    /// # Errors
    ///
    /// The system does not tell.
    pub fn dropped(&self) -> io::Result<u64> {
        let table = fs::read_to_string("/proc/net/udp")?;
        Ok(drops_at(&table, self.address.port()))
    }

    /// Tells it to read its files anew.
    ///
    /// # Errors
    ///
    /// It has ended.
    #[allow(unsafe_code, reason = "the standard library does not send signals")]
    pub fn hang_up(&self) -> io::Result<()> {
        // SAFETY: a call without memory; the process is our own child, which is not waited for
        // before this value goes.
        let code = unsafe { libc::kill(self.pid as libc::pid_t, libc::SIGHUP) };
        if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Target {
    #[allow(unsafe_code, reason = "the standard library sends no SIGTERM")]
    fn drop(&mut self) {
        // A server with children ends them when it is asked to end, not when it is killed.
        // SAFETY: as in `hang_up`.
        unsafe { libc::kill(self.pid as libc::pid_t, libc::SIGTERM) };
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > Duration::from_secs(5) {
                let _ = self.child.kill();
            }
            pause(Duration::from_millis(5));
        }
    }
}

/// The drops of the sockets at a port, in the kernel's table: the last column.
fn drops_at(table: &str, port: u16) -> u64 {
    let of_line = |line: &str| {
        let mut columns = line.split_whitespace();
        let (_, own) = columns.nth(1)?.split_once(':')?;
        let is_own = u16::from_str_radix(own, 16).ok()? == port;
        is_own.then(|| columns.next_back()?.parse::<u64>().ok()).flatten()
    };
    table.lines().skip(1).filter_map(of_line).sum()
}

/// Whether somebody answers for the zone's SOA, or mirrors the question.
fn answers(address: SocketAddr, origin: &str) -> bool {
    let mut query = vec![7, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in origin.split('.') {
        query.push(label.len() as u8);
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, 6, 0, 1]);
    let ask = || -> io::Result<bool> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        socket.connect(address)?;
        socket.send(&query)?;
        let mut reply = [0; 1500];
        let size = socket.recv(&mut reply)?;
        let is_mirror = size >= query.len() && reply[..query.len()] == query[..];
        Ok(is_mirror || (size > 12 && reply[3] & 15 == 0 && reply[7] > 0))
    };
    let answered = ask().unwrap_or(false);
    if !answered {
        pause(Duration::from_millis(20));
    }
    answered
}

/// Processes of others tell nobody that they are ready or gone: one looks again after a while.
fn pause(time: Duration) {
    std::thread::park_timeout(time);
}

/// A port of loopback that nobody has, for UDP and TCP.
///
/// # Errors
///
/// The system has none.
pub fn free_address() -> Result<SocketAddr, String> {
    let fault = |error: io::Error| format!("no free port: {error}");
    loop {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(fault)?;
        let address = listener.local_addr().map_err(fault)?;
        if UdpSocket::bind(address).is_ok() {
            return Ok(address);
        }
    }
}

/// Where the zone of that shape lies below a folder; written, and signed, when it is not there. A
/// zone by place has no signed file: each server signs what it chooses.
///
/// # Errors
///
/// It cannot be written.
pub fn zone_file(folder: &Path, shape: Shape) -> Result<PathBuf, String> {
    let path = folder.join(format!("{}.zone", shape.origin()));
    let fault = |error: io::Error| format!("{}: {error}", path.display());
    if !path.exists() {
        fs::create_dir_all(folder).map_err(fault)?;
        fs::write(&path, super::world::zone_text(shape)).map_err(fault)?;
    }
    match shape {
        Shape::SignedSmall | Shape::SignedLarge => signed::sign(&path, shape.origin()),
        _ => Ok(path),
    }
}

/// How one of our own servers is started.
#[derive(Clone, Debug)]
pub struct Ours<'a> {
    /// The program `whered`.
    pub binary: &'a Path,
    /// The program `whered-bench`, which has the echo.
    pub bench_binary: &'a Path,
    /// Where its files may lie.
    pub folder: &'a Path,
    /// UDP threads.
    pub threads: usize,
    /// How datagrams are taken.
    pub receiving: Receiving,
    /// Its cores.
    pub cores: &'a [usize],
    /// More addresses that it listens on.
    pub more: &'a [SocketAddr],
}

impl Ours<'_> {
    /// Starts a `whered` with one zone.
    ///
    /// # Errors
    ///
    /// It does not start, or its files cannot be written.
    pub fn start(&self, shape: Shape) -> Result<Target, String> {
        let address = free_address()?;
        let zone = zone_file(self.folder, shape)?;
        let path = self.folder.join(format!("whered-{}.toml", address.port()));
        let listen: Vec<_> = std::iter::once(&address).chain(self.more).collect();
        let listen: Vec<_> = listen.iter().map(|address| format!("\"{address}\"")).collect();
        let resp = match shape {
            Shape::Blocklist => Some(free_address()?),
            _ => None,
        };
        let mut text = format!(
            "[resp]\nlisten = [{}]\n[http]\nlisten = []\n[sets]\ndirectory = {:?}\n\
             [dns]\nlisten = [{}]\nthreads = {}\nudp_batch = {}\nudp_calls = \"{}\"\n\
             cookies = false\nrate_limit = 0\n[[zone]]\nname = \"{}\"\npath = {zone:?}\n",
            resp.map(|address| format!("\"{address}\"")).unwrap_or_default(),
            self.folder,
            listen.join(", "),
            self.threads,
            self.receiving.batch,
            calls_name(self.receiving.calls),
            shape.origin(),
        );
        if resp.is_some() {
            text.push_str("blocklist = { set = \"listed\" }\n");
        }
        if shape == Shape::SignedGeo {
            let keys = signed::make_key(self.binary, self.folder, shape.origin())?;
            text.push_str(&format!("sign = true\nkeys = {keys:?}\n"));
        }
        if shape.unsigned() == Shape::Geo {
            text.push_str(&geo::configuration(&geo::database_file(self.folder, None)?));
        }
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut command = Command::new(self.binary);
        command.arg("serve").arg("--config").arg(&path).stderr(Stdio::null());
        let target = Target::start("whered", &mut command, self.cores, address, shape)?;
        match resp.map(|resp| load_list(self.folder, resp)) {
            None | Some(Ok(())) => Ok(target),
            Some(Err(error)) => Err(format!("CIDR.LOAD: {error}")),
        }
    }

    /// Starts the echo in this program's own loop.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub fn start_echo(&self, shape: Shape, size_bytes: usize) -> Result<Target, String> {
        let address = free_address()?;
        let mut command = Command::new(self.bench_binary);
        command
            .args(["dns", "--echo", &address.to_string()])
            .args(["--echo-size", &size_bytes.to_string()])
            .args(["--udp-batch", &self.receiving.batch.to_string()])
            .args(["--udp-calls", calls_name(self.receiving.calls)]);
        let mut target = Target::start("echo", &mut command, self.cores, address, shape)?;
        target.is_mirror = true;
        Ok(target)
    }
}

/// Loads the blocklist's set.
fn load_list(folder: &Path, resp: SocketAddr) -> io::Result<()> {
    let name = "listed.txt";
    fs::write(folder.join(name), list_text())?;
    let mut request = Vec::new();
    push_command(&mut request, &[b"CIDR.LOAD", b"listed", b"FILE", name.as_bytes()]);
    let mut stream = TcpStream::connect(resp)?;
    stream.set_read_timeout(Some(START_LIMIT))?;
    stream.write_all(&request)?;
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply)?;
    match reply.strip_prefix(':') {
        Some(_) => Ok(()),
        None => Err(io::Error::other(reply.trim_end().to_owned())),
    }
}

/// The name of a way of receiving in the configuration.
#[must_use]
pub fn calls_name(calls: Calls) -> &'static str {
    match calls {
        Calls::Many => "many",
        Calls::Single => "single",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_those_of_the_port() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
            uid  timeout inode ref pointer drops\n  \
            1: 0100007F:14B4 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 1 2 0 7\n  \
            2: 0100007F:14B4 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 1 2 0 5\n  \
            3: 0100007F:14B5 0100007F:14B4 07 00000000:00000000 00:00000000 00000000 0 0 1 2 0 9\n";
        assert_eq!((drops_at(table, 0x14b4), drops_at(table, 0x14b5)), (12, 9));
        assert_eq!(drops_at(table, 53), 0);
    }
}
