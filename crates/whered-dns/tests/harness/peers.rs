//! NSD and Knot as processes of this test, what a reply says, and where we differ on purpose.
#![allow(unreachable_pub, reason = "each test program uses a part")]

use std::fmt;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use whered_dns::message::{Message, Query, Record};
use whered_dns::{Name, Rcode, RecordType};

pub const SERVER_ID: &[u8] = b"here";
pub const VERSION: &[u8] = b"one of three";

/// How many queries are under way together, each from its own socket.
const TOGETHER: usize = 200;
/// How long silence is waited for.
const SILENCE: Duration = Duration::from_millis(250);

/// Both servers, ended with the test.
pub struct Peers {
    children: Vec<Child>,
    addresses: [SocketAddr; 2],
    folder: PathBuf,
}

impl Drop for Peers {
    fn drop(&mut self) {
        for child in &mut self.children {
            // NSD's first process has others, which end when it is told to.
            let id = child.id().to_string();
            let _told = Command::new("kill").arg(&id).status();
            let _ended = child.wait();
        }
        let _removed = fs::remove_dir_all(&self.folder);
    }
}

fn program(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/sbin"];
    folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists())
}

/// Addresses that nobody has at this moment.
fn free_addresses() -> [SocketAddr; 2] {
    let sockets = [0; 2].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket| socket.local_addr().unwrap())
}

impl Peers {
    /// Starts both with these zones. None where they are missing.
    pub fn start(zones: &[(&str, String)]) -> Option<Peers> {
        let (Some(nsd), Some(knot)) = (program("nsd"), program("knotd")) else {
            let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|what| what == "peers"), "nsd or knotd is missing");
            eprintln!("skipped: nsd or knotd is missing");
            return None;
        };
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("peers-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (origin, text) in zones {
            // Both want to be told that names are relative to the zone.
            fs::write(folder.join(format!("{origin}.zone")), format!("$ORIGIN {origin}.\n{text}"))
                .unwrap();
        }
        let addresses = free_addresses();
        let shown = folder.display().to_string();
        fs::write(folder.join("nsd.conf"), nsd_config(&shown, addresses[0], zones)).unwrap();
        fs::write(folder.join("knot.conf"), knot_config(&shown, addresses[1], zones)).unwrap();
        let start = |program: &Path, arguments: &[&str], config: &str| {
            let log = fs::File::create(folder.join(format!("{config}.log"))).unwrap();
            let mut command = Command::new(program);
            command.args(arguments).arg("-c").arg(folder.join(config)).stdin(Stdio::null());
            command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
        };
        let children = vec![start(&nsd, &["-d"], "nsd.conf"), start(&knot, &[], "knot.conf")];
        let peers = Peers { children, addresses, folder };
        peers.wait(zones);
        Some(peers)
    }

    /// Until both serve every zone.
    fn wait(&self, zones: &[(&str, String)]) {
        let queries: Vec<Vec<u8>> = zones
            .iter()
            .map(|(origin, _)| Query::new(&origin.parse().unwrap(), RecordType::SOA).build())
            .collect();
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let is_served = |reply: &Option<Vec<u8>>| {
                let reply = reply.as_ref().map(|reply| Message::read(reply).unwrap());
                reply.is_some_and(|reply| reply.answers.len() == 1)
            };
            if self.ask(&queries).iter().all(|replies| replies.iter().all(is_served)) {
                return;
            }
            if Instant::now() > deadline {
                let log = |name: &str| fs::read_to_string(self.folder.join(name)).unwrap();
                panic!("not served:\n{}\n{}", log("nsd.conf.log"), log("knot.conf.log"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Asks both every query, and gives each one's replies.
    pub fn ask(&self, queries: &[Vec<u8>]) -> [Vec<Option<Vec<u8>>>; 2] {
        let asked: Vec<[Option<Vec<u8>>; 2]> =
            queries.chunks(TOGETHER).flat_map(|queries| self.ask_together(queries)).collect();
        let of = |which: usize| asked.iter().map(|replies| replies[which].clone()).collect();
        [of(0), of(1)]
    }

    fn ask_together(&self, queries: &[Vec<u8>]) -> Vec<[Option<Vec<u8>>; 2]> {
        let sockets: Vec<[UdpSocket; 2]> = queries
            .iter()
            .map(|query| {
                self.addresses.map(|address| {
                    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                    socket.connect(address).unwrap();
                    socket.set_nonblocking(true).unwrap();
                    // A server that is not there yet refuses, which is as silence.
                    let _sent = socket.send(query);
                    socket
                })
            })
            .collect();
        let mut replies: Vec<[Option<Vec<u8>>; 2]> = vec![[None, None]; queries.len()];
        let mut last = Instant::now();
        let mut bytes = vec![0; 65536];
        loop {
            let mut missing = 0;
            for (sockets, replies) in sockets.iter().zip(&mut replies) {
                for (socket, reply) in sockets.iter().zip(replies).filter(|(_, r)| r.is_none()) {
                    match socket.recv(&mut bytes) {
                        Ok(size) => {
                            *reply = Some(bytes[..size].to_vec());
                            last = Instant::now();
                        }
                        Err(_) => missing += 1,
                    }
                }
            }
            if missing == 0 || last.elapsed() > SILENCE {
                return replies;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn nsd_config(folder: &str, address: SocketAddr, zones: &[(&str, String)]) -> String {
    let mut text = format!(
        "server:\n ip-address: {}@{}\n do-ip6: no\n zonesdir: \"{folder}\"\n username: \"\"\n \
         chroot: \"\"\n pidfile: \"{folder}/nsd.pid\"\n xfrdfile: \"{folder}/xfrd.state\"\n \
         xfrdir: \"{folder}\"\n zonelistfile: \"{folder}/zone.list\"\n \
         cookie-secret-file: \"{folder}/cookies\"\n minimal-responses: yes\n refuse-any: no\n \
         rrl-ratelimit: 0\n rrl-whitelist-ratelimit: 0\n server-count: 1\n \
         identity: \"{}\"\n version: \"{}\"\n nsid: \"ascii_{}\"\n\
         remote-control:\n control-enable: no\n",
        address.ip(),
        address.port(),
        SERVER_ID.escape_ascii(),
        VERSION.escape_ascii(),
        SERVER_ID.escape_ascii(),
    );
    for (origin, _) in zones {
        text += &format!("zone:\n name: {origin}\n zonefile: {origin}.zone\n");
    }
    text
}

fn knot_config(folder: &str, address: SocketAddr, zones: &[(&str, String)]) -> String {
    let mut text = format!(
        "server:\n  listen: {}@{}\n  rundir: \"{folder}\"\n  identity: \"{}\"\n  \
         version: \"{}\"\n  nsid: \"{}\"\n  udp-workers: 1\n  tcp-workers: 1\n  \
         background-workers: 1\n\
         log:\n  - target: stderr\n    any: info\n\
         database:\n  storage: \"{folder}/knot\"\n\
         template:\n  - id: default\n    storage: \"{folder}\"\n    file: \"%s.zone\"\n    \
         journal-content: none\n    zonefile-sync: -1\n    semantic-checks: off\nzone:\n",
        address.ip(),
        address.port(),
        SERVER_ID.escape_ascii(),
        VERSION.escape_ascii(),
        SERVER_ID.escape_ascii(),
    );
    for (origin, _) in zones {
        text += &format!("  - domain: {origin}\n");
    }
    text
}

/// What a reply says, without the order of records and what no client looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Silence,
    Reply(Box<Said>),
    /// Something that is no message.
    Rubbish(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub rcode: Rcode,
    pub flags: u16,
    pub questions: Vec<(Name, RecordType, u16)>,
    pub answers: Vec<Record>,
    pub authorities: Vec<Record>,
    pub additionals: Vec<Record>,
    /// Version, DO and the options.
    pub edns: Option<(u8, bool, Vec<(u16, Vec<u8>)>)>,
}

impl Seen {
    pub fn of(reply: Option<Vec<u8>>) -> Seen {
        let Some(reply) = reply else {
            return Seen::Silence;
        };
        let Ok(message) = Message::read(&reply) else {
            return Seen::Rubbish(reply);
        };
        let sorted = |records: &[Record]| {
            let mut records = records.to_vec();
            for record in &mut records {
                // Names compare without case, and so do they inside data.
                record.data.make_ascii_lowercase();
            }
            records.sort();
            records
        };
        Seen::Reply(Box::new(Said {
            rcode: message.rcode(),
            flags: message.flags & 0xfff0,
            questions: message
                .questions
                .iter()
                .map(|q| (q.name.clone(), q.record_type, q.class))
                .collect(),
            answers: sorted(&message.answers),
            authorities: sorted(&message.authorities),
            additionals: sorted(&message.additionals),
            edns: message
                .edns
                .as_ref()
                .map(|edns| (edns.version, edns.dnssec_ok, edns.options.clone())),
        }))
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen::Reply(said) = self else {
            return write!(f, "{self:?}");
        };
        write!(
            f,
            "{} {:04x} q{} edns {:?}",
            said.rcode,
            said.flags,
            said.questions.len(),
            said.edns
        )?;
        for (section, records) in
            [("an", &said.answers), ("au", &said.authorities), ("ad", &said.additionals)]
        {
            for record in records {
                let data = record.data.escape_ascii();
                let data: String = data.map(char::from).take(60).collect();
                write!(
                    f,
                    " | {section} {} {} {} {data}",
                    record.owner, record.ttl_seconds, record.record_type
                )?;
            }
        }
        Ok(())
    }
}

/// A query in words, or its bytes.
pub fn shown(query: &[u8]) -> String {
    match Message::read(query) {
        Ok(message) => {
            let questions: Vec<String> = message
                .questions
                .iter()
                .map(|question| {
                    format!("{} {} class {}", question.name, question.record_type, question.class)
                })
                .collect();
            format!(
                "{} flags {:04x} {:?} {}",
                questions.join(", "),
                message.flags,
                message.edns,
                query.escape_ascii()
            )
        }
        Err(_) => query.escape_ascii().to_string(),
    }
}

type Holds = fn(&[u8], &Seen, &Seen, &Seen) -> bool;

/// Where we are like neither: the name of the exception, and when it holds.
pub const EXCEPTIONS: &[(&str, Holds)] = &[];
