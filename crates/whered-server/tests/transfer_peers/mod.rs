//! Servers of one zone: ours, BIND, NSD and Knot, each as primary or secondary; and a client that
//! takes the zone from any of them.
#![allow(dead_code, reason = "each test file uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]
#![allow(clippy::disallowed_methods, reason = "other programs tell nobody that they are ready")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use whered_dns::transfer::{
    AnswerVerifier, Progress, Receiver, Request, Transfer, TsigAlgorithm, TsigKey, query,
};
use whered_dns::{Name, RecordType, Zone};
use whered_server::{Config, Server};

pub(crate) const WAIT: Duration = Duration::from_secs(15);
pub(crate) const ORIGIN: &str = "example.com";
pub(crate) const SECRET: &str = "c2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXMgaGVyZSE=";
pub(crate) const KEY: &str = "[[tsig_key]]\nname = \"transfer\"\nalgorithm = \"hmac-sha256\"\n\
     secret = \"c2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXMgaGVyZSE=\"\n";

pub(crate) fn key() -> TsigKey {
    let name = "transfer".parse().unwrap();
    TsigKey::from_base64(name, TsigAlgorithm::HmacSha256, SECRET).unwrap()
}

pub(crate) fn origin() -> Name {
    ORIGIN.parse().unwrap()
}

pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("transfer-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A port of loopback for both transports. The system gives a free port for datagrams alone:
/// another test may have a stream there.
pub(crate) fn bind_both() -> (UdpSocket, TcpListener) {
    loop {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        if let Ok(listener) = TcpListener::bind(socket.local_addr().unwrap()) {
            return (socket, listener);
        }
    }
}

/// An address that nobody has at this moment, for either transport.
pub(crate) fn free_address() -> SocketAddr {
    bind_both().0.local_addr().unwrap()
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT;
    while !holds() {
        assert!(Instant::now() < deadline, "not in {WAIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Takes the whole zone from a server; its records as sorted lines.
pub(crate) fn take(server: SocketAddr, key: Option<&TsigKey>) -> Result<Vec<String>, String> {
    match ask(server, key, None)? {
        Transfer::Whole(records) => {
            let zone = Zone::from_records(&origin(), "there", whered_dns::Dnssec::Serve, records);
            Ok(lines(&zone.map_err(|error| error.to_string())?))
        }
        other => Err(format!("{other:?}")),
    }
}

/// Asks for AXFR, or for IXFR with the SOA of a zone.
pub(crate) fn ask(
    server: SocketAddr,
    key: Option<&TsigKey>,
    old: Option<&Zone>,
) -> Result<Transfer, String> {
    let soa = old.map(|zone| zone.soa().unwrap());
    let record_type = if soa.is_some() { RecordType::IXFR } else { RecordType::AXFR };
    let mut message = query(&origin(), 7, record_type, soa.as_ref());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let mac = key.map(|key| (key.clone(), key.sign_query(&mut message, now.as_secs())));
    let verifier = mac.map(|(key, mac)| AnswerVerifier::new(key, mac));
    let mut receiver = Receiver::new(Request {
        origin: origin(),
        id: 7,
        serial: old.map(Zone::serial),
        size_max_bytes: 1 << 28,
        verifier,
    });
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(server).map_err(text)?;
    stream.set_read_timeout(Some(WAIT)).map_err(text)?;
    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length[..], &message].concat()).map_err(text)?;
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length).map_err(text)?;
        let mut message = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut message).map_err(text)?;
        match receiver.take(&message, now.as_secs()).map_err(|error| error.to_string())? {
            Progress::Complete(transfer) => return Ok(transfer),
            Progress::More => {}
        }
    }
}

pub(crate) fn read_zone(text: &str) -> Zone {
    Zone::from_master_file(&origin(), text.as_bytes(), &mut |_| Err("no".into())).unwrap()
}

pub(crate) fn lines(zone: &Zone) -> Vec<String> {
    let mut lines: Vec<String> = zone
        .records()
        .map(|record| {
            let data = record.data.escape_ascii().to_string().to_ascii_lowercase();
            let owner = record.owner.to_string().to_ascii_lowercase();
            format!("{owner} {} {} {data}", record.ttl_seconds, record.record_type)
        })
        .collect();
    lines.sort();
    lines
}

/// A zone that changes at random.
pub(crate) struct RandomZone {
    pub(crate) serial: u32,
    state: u64,
    records: Vec<String>,
}

impl RandomZone {
    pub(crate) fn new(seed: u64) -> RandomZone {
        let mut zone = RandomZone { serial: 1, state: seed | 1, records: Vec::new() };
        (0..50).for_each(|_| zone.add());
        zone
    }

    fn next(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below
    }

    fn add(&mut self) {
        let (host, byte) = (self.next(40), self.next(250));
        let record = match self.next(7) {
            0 => format!("h{host} 300 TXT \"text {byte}\" \"more\""),
            1 => format!("h{host} 300 MX {byte} mail.h{host}"),
            2 => format!("h{host} 300 AAAA 2001:db8::{byte:x}"),
            3 => format!("*.w{host} 300 A 192.0.2.{byte}"),
            4 => format!("d{host} 300 NS ns{byte}.example.net."),
            5 => format!("_s{host}._tcp 300 SRV 1 {byte} 53 h{host}"),
            _ => format!("h{host} 300 A 192.0.2.{byte}"),
        };
        if !self.records.contains(&record) {
            self.records.push(record);
        }
    }

    /// Adds and removes a few records.
    pub(crate) fn change(&mut self) {
        self.serial += 1;
        for _ in 0..=self.next(3) {
            let at = self.next(self.records.len() as u64) as usize;
            self.records.swap_remove(at);
        }
        for _ in 0..=self.next(4) {
            self.add();
        }
    }

    pub(crate) fn text(&self) -> String {
        let serial = self.serial;
        format!(
            "$TTL 300\n@ SOA ns.example.com. hostmaster.example.com. {serial} 3600 600 86400 60\n\
             @ NS ns.example.com.\nns A 127.0.0.1\n{}\n",
            self.records.join("\n")
        )
    }
}

/// Our server.
pub(crate) struct Ours {
    pub(crate) server: Option<Server>,
    pub(crate) address: SocketAddr,
    pub(crate) folder: PathBuf,
    pub(crate) text: String,
}

impl Ours {
    /// With more of the configuration, such as the zone.
    pub(crate) fn start(folder: PathBuf, address: SocketAddr, more: &str) -> Ours {
        let text = format!(
            "data_dir = \"data\"\n[resp]\nlisten = []\n[http]\nlisten = [\"127.0.0.1:0\"]\n\
             [dns]\nlisten = [\"{address}\"]\nthreads = 1\n{KEY}{more}"
        );
        let mut ours = Ours { server: None, address, folder, text };
        ours.open();
        ours
    }

    pub(crate) fn config(&self) -> Config {
        Config::from_toml(&self.text, &self.folder.join("whered.toml")).unwrap()
    }

    pub(crate) fn open(&mut self) {
        self.server = Some(Server::start(self.config()).unwrap());
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn close(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop().unwrap();
        }
    }

    /// The records that it serves.
    pub(crate) fn served(&self) -> Vec<String> {
        let generation = self.server().engine().generation();
        let zone = generation.zones().zone(&origin()).unwrap();
        if zone.is_unavailable() { Vec::new() } else { lines(zone) }
    }

    pub(crate) fn failure(&self) -> String {
        self.server().engine().zone_failures().get(ORIGIN).cloned().unwrap_or_default()
    }

    /// The metrics as text.
    pub(crate) fn metrics(&self) -> String {
        self.get("/metrics")
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.server().http_addresses()[0]).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            let _ = server.stop();
        }
    }
}

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bind,
    Nsd,
    Knot,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Bind, Kind::Nsd, Kind::Knot];

    fn program(self) -> Option<PathBuf> {
        let name = match self {
            Kind::Bind => "named",
            Kind::Nsd => "nsd",
            Kind::Knot => "knotd",
        };
        let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/sbin"];
        folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists())
    }
}

/// Another server, ended with the test.
pub(crate) struct Peer {
    child: Child,
    pub(crate) address: SocketAddr,
    folder: PathBuf,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // NSD's first process has others, which end when it is told to.
        let _told = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ended = self.child.wait();
    }
}

impl Peer {
    /// A primary of the zone's file that tells `ours`; none where the program is missing.
    pub(crate) fn primary(kind: Kind, folder: &Path, ours: SocketAddr, text: &str) -> Option<Peer> {
        fs::write(folder.join("peer.zone"), format!("$ORIGIN {ORIGIN}.\n{text}")).unwrap();
        Peer::start(kind, folder, Role::Primary { secondary: ours })
    }

    /// A secondary of `ours`.
    pub(crate) fn secondary(
        kind: Kind,
        folder: &Path,
        address: SocketAddr,
        ours: SocketAddr,
    ) -> Option<Peer> {
        Peer::start_at(kind, folder, address, Role::Secondary { primary: ours })
    }

    fn start(kind: Kind, folder: &Path, role: Role) -> Option<Peer> {
        Peer::start_at(kind, folder, free_address(), role)
    }

    fn start_at(kind: Kind, folder: &Path, address: SocketAddr, role: Role) -> Option<Peer> {
        let text = match kind {
            Kind::Bind => bind_config(folder, address, role),
            Kind::Nsd => nsd_config(folder, address, role),
            Kind::Knot => knot_config(folder, address, role),
        };
        Peer::start_with(kind, folder, address, text)
    }

    /// With a configuration of the test's own.
    pub(crate) fn start_with(
        kind: Kind,
        folder: &Path,
        address: SocketAddr,
        text: String,
    ) -> Option<Peer> {
        let Some(program) = kind.program() else {
            let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|what| what == "peers"), "{kind:?} is missing");
            eprintln!("skipped: {kind:?} is missing");
            return None;
        };
        let arguments: &[&str] = match kind {
            Kind::Bind => &["-g", "-c"],
            Kind::Nsd => &["-d", "-c"],
            Kind::Knot => &["-c"],
        };
        let config = folder.join("peer.conf");
        fs::write(&config, text).unwrap();
        fs::create_dir_all(folder.join("knot")).unwrap();
        let log = fs::File::create(folder.join("peer.log")).unwrap();
        let mut command = Command::new(program);
        command.args(arguments).arg(&config).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap();
        Some(Peer { child, address, folder: folder.to_owned() })
    }

    /// Gives it another file of the zone.
    pub(crate) fn reload(&self, text: &str) {
        let unfinished = self.folder.join("peer.zone.new");
        fs::write(&unfinished, format!("$ORIGIN {ORIGIN}.\n{text}")).unwrap();
        fs::rename(unfinished, self.folder.join("peer.zone")).unwrap();
        self.reread();
    }

    /// Gives it another configuration.
    pub(crate) fn reconfigure(&self, text: &str) {
        fs::write(self.folder.join("peer.conf"), text).unwrap();
        self.reread();
    }

    /// Makes it read its configuration and zones again.
    pub(crate) fn reread(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    }

    pub(crate) fn log(&self) -> String {
        let log = fs::read_to_string(self.folder.join("peer.log")).unwrap();
        let tail: Vec<&str> = log.lines().rev().take(30).collect();
        tail.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

#[derive(Clone, Copy)]
enum Role {
    Primary { secondary: SocketAddr },
    Secondary { primary: SocketAddr },
}

fn bind_config(folder: &Path, address: SocketAddr, role: Role) -> String {
    let zone = match role {
        Role::Primary { secondary } => format!(
            "type primary; file \"peer.zone\"; ixfr-from-differences yes; notify explicit; \
             also-notify {{ 127.0.0.1 port {} key transfer; }}; \
             allow-transfer {{ key transfer; }};",
            secondary.port()
        ),
        Role::Secondary { primary } => format!(
            "type secondary; file \"peer.zone\"; masterfile-format text; \
             primaries {{ 127.0.0.1 port {} key transfer; }}; \
             allow-transfer {{ any; }}; allow-notify {{ key transfer; }};",
            primary.port()
        ),
    };
    let head = bind_head(folder, address, "");
    format!("{head}zone \"{ORIGIN}\" {{ {zone} }};\n")
}

/// A configuration of BIND without zones, with more options.
pub(crate) fn bind_head(folder: &Path, address: SocketAddr, more: &str) -> String {
    let (folder, port) = (folder.display(), address.port());
    format!(
        "options {{ directory \"{folder}\"; listen-on port {port} {{ 127.0.0.1; }}; \
         listen-on-v6 {{ none; }}; pid-file \"{folder}/named.pid\"; \
         session-keyfile \"{folder}/session.key\"; recursion no; dnssec-validation no; \
         managed-keys-directory \"{folder}\"; notify-delay 0; serial-query-rate 1000; \
         min-refresh-time 1; min-retry-time 1; {more} }};\n\
         controls {{ }};\n\
         key transfer {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\n"
    )
}

fn nsd_config(folder: &Path, address: SocketAddr, role: Role) -> String {
    let (folder, port) = (folder.display(), address.port());
    let zone = match role {
        Role::Primary { secondary } => format!(
            " notify: 127.0.0.1@{} transfer\n provide-xfr: 127.0.0.1 transfer\n store-ixfr: yes\n \
             create-ixfr: yes\n",
            secondary.port()
        ),
        Role::Secondary { primary } => format!(
            " request-xfr: 127.0.0.1@{} transfer\n allow-notify: 127.0.0.1 transfer\n \
             provide-xfr: 127.0.0.1 NOKEY\n",
            primary.port()
        ),
    };
    format!(
        "server:\n ip-address: 127.0.0.1@{port}\n do-ip6: no\n zonesdir: \"{folder}\"\n \
         username: \"\"\n chroot: \"\"\n database: \"\"\n pidfile: \"{folder}/nsd.pid\"\n \
         xfrdfile: \"{folder}/xfrd.state\"\n xfrdir: \"{folder}\"\n \
         zonelistfile: \"{folder}/zone.list\"\n cookie-secret-file: \"{folder}/cookies\"\n \
         server-count: 1\n xfrd-reload-timeout: 0\n verbosity: 2\n\
         remote-control:\n control-enable: no\n\
         key:\n name: transfer\n algorithm: hmac-sha256\n secret: \"{SECRET}\"\n\
         zone:\n name: {ORIGIN}\n zonefile: peer.zone\n{zone}"
    )
}

fn knot_config(folder: &Path, address: SocketAddr, role: Role) -> String {
    let (remote, zone) = match role {
        Role::Primary { secondary } => (
            secondary.port(),
            "    notify: ours\n    acl: theirs\n    zonefile-load: difference\n    \
             journal-content: changes\n    zonefile-sync: -1\n",
        ),
        Role::Secondary { primary } => (
            primary.port(),
            "    master: ours\n    acl: [theirs, anybody]\n    zonefile-sync: -1\n",
        ),
    };
    let head = knot_head(folder, address, remote);
    let folder = folder.display();
    format!(
        "{head}zone:\n  - domain: {ORIGIN}\n    storage: \"{folder}\"\n    file: peer.zone\n    \
         semantic-checks: off\n{zone}"
    )
}

/// A configuration of Knot without zones; `remote` is the port of the other server.
pub(crate) fn knot_head(folder: &Path, address: SocketAddr, remote: u16) -> String {
    let (folder, port) = (folder.display(), address.port());
    format!(
        "server:\n  listen: 127.0.0.1@{port}\n  rundir: \"{folder}\"\n  udp-workers: 1\n  \
         tcp-workers: 1\n  background-workers: 1\n\
         log:\n  - target: stderr\n    any: info\n\
         key:\n  - id: transfer\n    algorithm: hmac-sha256\n    secret: {SECRET}\n\
         remote:\n  - id: ours\n    address: 127.0.0.1@{remote}\n    key: transfer\n\
         acl:\n  - id: theirs\n    key: transfer\n    action: [transfer, notify]\n  \
         - id: anybody\n    address: 127.0.0.1\n    action: transfer\n\
         database:\n  storage: \"{folder}/knot\"\n"
    )
}
