//! NSD and Knot as processes of this test, what a reply says, and where we differ on purpose.
#![allow(unreachable_pub, reason = "each test program uses a part")]
#![allow(clippy::disallowed_methods, reason = "other programs tell nobody that they are ready")]

use std::fmt;
use std::fs;
use std::iter;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use whered_dns::message::{Message, Query, Record};
use whered_dns::{Name, Rcode, RecordType};

pub const SERVER_ID: &[u8] = b"here";
pub const VERSION: &[u8] = b"one of three";

/// How many queries are under way together, each from its own socket.
const TOGETHER: usize = 200;
/// How long silence is waited for, at first and when it is asked once more.
const SILENCE: Duration = Duration::from_millis(60);
const SILENCE_AGAIN: Duration = Duration::from_millis(400);
/// Each of NSD's eight processes says FORMERR to about a hundred queries a second and is silent to
/// the others.
const FORMERR_TOGETHER: usize = 500;
const FORMERR_PAUSE: Duration = Duration::from_millis(1100);

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Nsd,
    Knot,
}

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

/// Addresses that nobody has at this moment, for either transport.
fn free_addresses() -> [SocketAddr; 2] {
    let free = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        // The port may be that of somebody's stream.
        let listener = TcpListener::bind(socket.local_addr().unwrap()).ok()?;
        Some((socket, listener))
    };
    let sockets = [0; 2].map(|_| iter::repeat_with(free).flatten().next().unwrap());
    sockets.map(|(socket, _)| socket.local_addr().unwrap())
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
            let serves = |peer| self.ask(peer, &queries).iter().all(is_served);
            if serves(Peer::Knot) && serves(Peer::Nsd) {
                return;
            }
            if Instant::now() > deadline {
                let log = |name: &str| fs::read_to_string(self.folder.join(name)).unwrap();
                panic!("not served:\n{}\n{}", log("nsd.conf.log"), log("knot.conf.log"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Asks one of them every query, and gives its replies. Who is silent is asked once more.
    pub fn ask(&self, peer: Peer, queries: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
        let all: Vec<usize> = (0..queries.len()).collect();
        let mut replies = vec![None; queries.len()];
        let ask = |indices: &[usize], silence, replies: &mut [Option<Vec<u8>>]| {
            let asked: Vec<&[u8]> = indices.iter().map(|&index| &*queries[index]).collect();
            for (index, reply) in indices.iter().zip(self.ask_together(peer, &asked, silence)) {
                replies[*index] = reply;
            }
        };
        all.chunks(TOGETHER).for_each(|indices| ask(indices, SILENCE, &mut replies));
        let silent: Vec<usize> = all.into_iter().filter(|&at| replies[at].is_none()).collect();
        let pause = match peer {
            Peer::Nsd => FORMERR_PAUSE,
            Peer::Knot => Duration::ZERO,
        };
        for silent in silent.chunks(FORMERR_TOGETHER) {
            std::thread::sleep(pause);
            ask(silent, SILENCE_AGAIN, &mut replies);
        }
        replies
    }

    fn ask_together(
        &self,
        peer: Peer,
        queries: &[&[u8]],
        silence: Duration,
    ) -> Vec<Option<Vec<u8>>> {
        let sockets: Vec<UdpSocket> = queries
            .iter()
            .map(|query| {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                socket.connect(self.addresses[peer as usize]).unwrap();
                socket.set_nonblocking(true).unwrap();
                // A server that is not there yet refuses, which is as silence.
                let _sent = socket.send(query);
                socket
            })
            .collect();
        let mut replies: Vec<Option<Vec<u8>>> = vec![None; queries.len()];
        let mut last = Instant::now();
        let mut bytes = vec![0; 65536];
        loop {
            let mut missing = 0;
            for (socket, reply) in sockets.iter().zip(&mut replies).filter(|(_, r)| r.is_none()) {
                match socket.recv(&mut bytes) {
                    Ok(size) => {
                        *reply = Some(bytes[..size].to_vec());
                        last = Instant::now();
                    }
                    Err(_) => missing += 1,
                }
            }
            if missing == 0 || last.elapsed() > silence {
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
         rrl-ratelimit: 0\n rrl-whitelist-ratelimit: 0\n server-count: 8\n reuseport: yes\n \
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

/// Its code and its data.
type EdnsOption = (u16, Vec<u8>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub rcode: Rcode,
    pub flags: u16,
    pub questions: Vec<(Name, RecordType, u16)>,
    pub answers: Vec<Record>,
    pub authorities: Vec<Record>,
    pub additionals: Vec<Record>,
    /// Version, DO and the options.
    pub edns: Option<(u8, bool, Vec<EdnsOption>)>,
}

impl Seen {
    fn said(&self) -> Option<&Said> {
        match self {
            Seen::Reply(said) => Some(said),
            _ => None,
        }
    }

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
                .map(|edns| (edns.version, edns.dnssec_ok, without_extended_error(&edns.options))),
        }))
    }
}

/// The number with which a reply explains its code (RFC 8914).
pub fn extended_error(reply: &[u8]) -> Option<u16> {
    let edns = Message::read(reply).ok()?.edns?;
    let (_, data) = edns.options.into_iter().find(|(code, _)| *code == OPTION_EXTENDED_ERROR)?;
    data.first_chunk().map(|number| u16::from_be_bytes(*number))
}

const OPTION_EXTENDED_ERROR: u16 = 15;

/// They explain other codes than we do, some in words.
fn without_extended_error(options: &[EdnsOption]) -> Vec<EdnsOption> {
    options.iter().filter(|(code, _)| *code != OPTION_EXTENDED_ERROR).cloned().collect()
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

/// A query and what was said to it.
pub struct Case<'a> {
    pub query: &'a [u8],
    pub ours: &'a Seen,
    pub nsd: &'a Seen,
    pub knot: &'a Seen,
}

impl Case<'_> {
    fn question_type(&self) -> Option<RecordType> {
        Some(Message::read(self.query).ok()?.questions.first()?.record_type)
    }

    /// Ours, and the others' where they are replies.
    fn said(&self) -> Option<(&Said, impl Iterator<Item = &Said>)> {
        let others = [self.nsd, self.knot].into_iter().filter_map(Seen::said);
        Some((self.ours.said()?, others))
    }
}

type Holds = fn(&Case<'_>) -> bool;

/// Where we are like neither: the name of the exception, and when it holds.
pub const EXCEPTIONS: &[(&str, Holds)] = &[
    ("ANY is one HINFO", any_is_one_hinfo),
    ("opcodes other than QUERY are NOTIMP", other_opcodes),
    ("IXFR is refused for every name", incremental_transfers),
    ("the client's subnet is answered", client_subnet),
    ("FORMERR repeats the question and RD", formerr_with_question),
    ("FORMERR for broken options has OPT", formerr_with_opt),
    ("records beside OPT are passed over", other_additional_records),
];

/// RFC 8482, 4.2. Both others answer with what the name has, which may be too much for a datagram.
fn any_is_one_hinfo(case: &Case<'_>) -> bool {
    const TRUNCATED: u16 = 0x0200;
    let Some((ours, mut others)) = case.said() else {
        return false;
    };
    let is_hinfo = |record: &&Record| {
        record.record_type == RecordType::HINFO && record.data == b"\x07rfc8482\x00"
    };
    let Some(end) = ours.answers.iter().find(is_hinfo).map(|record| &record.owner) else {
        return false;
    };
    let aliases = |said: &Said| -> Vec<Record> {
        said.answers.iter().filter(|record| record.owner != *end).cloned().collect()
    };
    let is_like = |other: &Said| {
        let is_truncated = other.flags & TRUNCATED != 0;
        other.rcode == ours.rcode
            && other.flags & !TRUNCATED == ours.flags
            && other.questions == ours.questions
            && other.edns == ours.edns
            && (is_truncated || other.answers.iter().any(|answer| answer.owner == *end))
            && (is_truncated || aliases(other) == aliases(ours))
    };
    case.question_type() == Some(RecordType::ANY) && others.any(is_like)
}

/// NSD's NOTIMP repeats flags and no question; Knot looks at the class before the opcode. NOTIFY
/// and UPDATE, which they have, are for transfers and changes, which we do not have.
fn other_opcodes(case: &Case<'_>) -> bool {
    let Some((ours, mut others)) = case.said() else {
        return false;
    };
    match case.query.get(2).map(|flags| flags >> 3 & 15) {
        None | Some(0) => false,
        Some(4 | 5) => matches!(ours.rcode, Rcode::NOTIMP | Rcode::FORMERR),
        Some(_) => ours.rcode == Rcode::NOTIMP && others.any(|other| other.rcode == ours.rcode),
    }
}

/// They say NOTAUTH where the name is no zone's; we refuse transfers of anything.
fn incremental_transfers(case: &Case<'_>) -> bool {
    case.question_type() == Some(RecordType::IXFR)
        && case.ours.said().is_some_and(|ours| ours.rcode == Rcode::REFUSED)
}

/// RFC 7871, 7.2.1: the option is answered, scope 0 where the place does not matter. They do not
/// know the option.
fn client_subnet(case: &Case<'_>) -> bool {
    const OPTION_SUBNET: u16 = 8;
    let Some((ours, mut others)) = case.said() else {
        return false;
    };
    let mut without = ours.clone();
    let Some((_, _, options)) = &mut without.edns else {
        return false;
    };
    options.retain(|(code, data)| *code != OPTION_SUBNET || data.get(3) != Some(&0));
    without != *ours && others.any(|other| *other == without)
}

/// NSD's never does; Knot's does, but Knot passes over answers in a query and is silent when there
/// is no question.
fn formerr_with_question(case: &Case<'_>) -> bool {
    const RECURSION_DESIRED: u16 = 0x0100;
    let (Some(ours), Some(nsd)) = (case.ours.said(), case.nsd.said()) else {
        return false;
    };
    let flags = ours.flags & !RECURSION_DESIRED;
    let without = Said { questions: vec![], flags, ..ours.clone() };
    ours.rcode == Rcode::FORMERR && without == *nsd
}

/// RFC 6891, 7: when an option is broken, FORMERR must have OPT.
fn formerr_with_opt(case: &Case<'_>) -> bool {
    let (Some(ours), Some(knot)) = (case.ours.said(), case.knot.said()) else {
        return false;
    };
    ours.rcode == Rcode::FORMERR
        && ours.edns == Some((0, false, vec![]))
        && Said { edns: None, ..ours.clone() } == *knot
}

/// We do not look into data that mean nothing to us; Knot checks their form, NSD takes only TSIG.
fn other_additional_records(case: &Case<'_>) -> bool {
    let is_formerr = |seen: &Seen| seen.said().is_some_and(|said| said.rcode == Rcode::FORMERR);
    let has_additional = case.query.get(10..12).is_some_and(|count| count != [0, 0]);
    let passed_over = case.ours.said().is_some_and(|ours| ours.edns.is_none());
    has_additional
        && passed_over
        && !is_formerr(case.ours)
        && is_formerr(case.nsd)
        && is_formerr(case.knot)
}
