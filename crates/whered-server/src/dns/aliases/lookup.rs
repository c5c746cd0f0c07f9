//! Looks addresses of a name up at resolvers: A and AAAA, by UDP, and by TCP for what is cut.
//!
//! Not for: when (`mod.rs`). Invariants: every wait has an end; ids and ports cannot be guessed; an
//! answer counts only if it comes from the resolver that was asked and repeats the question.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;
use whered_dns::message::{Message, Query, Record};
use whered_dns::{CHAIN_LENGTH_MAX, Name, Rcode, RecordType};

/// How long one try may take.
const TRY_TIME: Duration = Duration::from_secs(2);
const TRIES: usize = 2;
const RECURSION_DESIRED: u16 = 0x0100;
const CLASS_IN: u16 = 1;
/// The largest datagram that is asked for.
const DATAGRAM_SIZE: usize = 1232;
/// More addresses than this are no answer of a name that means it.
const ADDRESSES_MAX: usize = 64;

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LookupResult {
    /// Addresses in order; none where no resolver told whether there are some.
    pub(super) ipv4: Option<Vec<Ipv4Addr>>,
    pub(super) ipv6: Option<Vec<Ipv6Addr>>,
    /// For how long it holds.
    pub(super) ttl_seconds: u32,
    /// Why one of them is not known.
    pub(super) failure: Option<String>,
}

/// Looks a name up at the first of the resolvers that answers; A and AAAA each for itself, since
/// there are servers that answer one of them alone.
///
/// # Errors
/// One line: no resolver answers, the name does not exist or has no address.
pub(super) async fn look_up(
    resolvers: &[SocketAddr],
    target: &Name,
) -> Result<LookupResult, String> {
    let mut answers = Answers::default();
    let mut last = "there is no resolver".to_owned();
    for resolver in resolvers.iter().flat_map(|resolver| [resolver; TRIES]) {
        let (v4, v6) = tokio::join!(
            answers.ask_for(*resolver, target, RecordType::A),
            answers.ask_for(*resolver, target, RecordType::AAAA)
        );
        for (family, found) in [(0, v4), (1, v6)] {
            match found {
                None => {}
                Some(Ok(data)) => answers.data[family] = Some(data),
                Some(Err(Failure::Final(line))) => {
                    answers.data[family] = Some(Data { data: Vec::new(), ttl_seconds: u32::MAX });
                    answers.final_line.get_or_insert(line);
                }
                Some(Err(Failure::Other(line))) => last = format!("{resolver}: {line}"),
            }
        }
        if answers.data.iter().all(Option::is_some) {
            break;
        }
    }
    answers.into_result(last)
}

/// What was answered so far.
#[derive(Default)]
struct Answers {
    /// For A and for AAAA.
    data: [Option<Data>; 2],
    /// Why a type is not there for good.
    final_line: Option<String>,
}

impl Answers {
    /// Asks for a type that has not been answered.
    async fn ask_for(
        &self,
        resolver: SocketAddr,
        target: &Name,
        record_type: RecordType,
    ) -> Option<Result<Data, Failure>> {
        let known = &self.data[usize::from(record_type == RecordType::AAAA)];
        match known {
            Some(_) => None,
            None => Some(ask(resolver, target, record_type).await),
        }
    }

    /// Without any address it is none.
    fn into_result(self, last: String) -> Result<LookupResult, String> {
        let Answers { data: [v4, v6], final_line } = self;
        let found = [&v4, &v6].into_iter().flatten();
        let ttl_seconds = found.map(|data| data.ttl_seconds).min().unwrap_or_default();
        let failure = [&v4, &v6].iter().any(|data| data.is_none()).then_some(last);
        let ipv4 = v4.map(|data| in_order(&data.data, Ipv4Addr::from));
        let ipv6 = v6.map(|data| in_order(&data.data, Ipv6Addr::from));
        let is_empty =
            ipv4.as_ref().is_none_or(Vec::is_empty) && ipv6.as_ref().is_none_or(Vec::is_empty);
        if is_empty {
            let no_address = || "the name has no address".to_owned();
            return Err(failure.or(final_line).unwrap_or_else(no_address));
        }
        Ok(LookupResult { ipv4, ipv6, ttl_seconds, failure })
    }
}

/// Addresses of so many octets, each once.
fn in_order<A: Ord, const SIZE: usize>(data: &[Vec<u8>], address: fn([u8; SIZE]) -> A) -> Vec<A> {
    let octets = data.iter().filter_map(|data| <[u8; SIZE]>::try_from(data.as_slice()).ok());
    let mut addresses: Vec<A> = octets.map(address).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Why a try gave nothing.
enum Failure {
    /// The name is so; no other resolver will tell otherwise.
    Final(String),
    Other(String),
}

/// The data of a type at the end of a name's aliases; none for a type that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Data {
    data: Vec<Vec<u8>>,
    ttl_seconds: u32,
}

async fn ask(
    resolver: SocketAddr,
    target: &Name,
    record_type: RecordType,
) -> Result<Data, Failure> {
    let fail = |error: &dyn std::fmt::Display| Failure::Other(error.to_string());
    let mut id = [0; 2];
    let filled = SystemRandom::new().fill(&mut id);
    filled.map_err(|_| fail(&"no random numbers"))?;
    let query = Query::new(target, record_type).id(u16::from_be_bytes(id));
    let query = query.flags(RECURSION_DESIRED).edns(DATAGRAM_SIZE as u16).build();
    let is_answer = |message: &Message| is_answer_to(message, &query);
    let late = |_| fail(&"no answer in time");
    let asked = timeout(TRY_TIME, ask_by_datagram(resolver, &query, &is_answer)).await;
    let mut message = asked.map_err(late)?.map_err(|error| fail(&error))?;
    if message.is_truncated() {
        let asked = timeout(TRY_TIME, ask_by_stream(resolver, &query)).await;
        message = asked.map_err(late)?.map_err(|error| fail(&error))?;
        if !is_answer(&message) || message.is_truncated() {
            return Err(fail(&"an answer to something else"));
        }
    }
    read_data(&message, target, record_type)
}

async fn ask_by_datagram(
    resolver: SocketAddr,
    query: &[u8],
    is_answer: &impl Fn(&Message) -> bool,
) -> std::io::Result<Message> {
    let any: IpAddr = match resolver {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(resolver).await?;
    socket.send(query).await?;
    let mut bytes = [0; 4096];
    loop {
        let size = socket.recv(&mut bytes).await?;
        if let Ok(message) = Message::read(&bytes[..size])
            && is_answer(&message)
        {
            return Ok(message);
        }
    }
}

async fn ask_by_stream(resolver: SocketAddr, query: &[u8]) -> std::io::Result<Message> {
    let mut stream = TcpStream::connect(resolver).await?;
    let length = (query.len() as u16).to_be_bytes();
    stream.write_all(&[&length, query].concat()).await?;
    let size = stream.read_u16().await?;
    let mut bytes = vec![0; size.into()];
    stream.read_exact(&mut bytes).await?;
    Message::read(&bytes).map_err(|error| std::io::Error::other(error.to_string()))
}

/// Whether a message answers a query: a response with its id and question.
fn is_answer_to(message: &Message, query: &[u8]) -> bool {
    let Ok(asked) = Message::read(query) else { return false };
    message.flags & 0x8000 != 0 && message.id == asked.id && message.questions == asked.questions
}

/// Follows the aliases of an answer to the data at their end.
fn read_data(message: &Message, target: &Name, record_type: RecordType) -> Result<Data, Failure> {
    match message.rcode() {
        Rcode::NOERROR => {}
        Rcode::NXDOMAIN => return Err(Failure::Final("the name does not exist".to_owned())),
        rcode => return Err(Failure::Other(format!("the answer {rcode}"))),
    }
    let (mut name, mut ttl_seconds) = (target.clone(), u32::MAX);
    for _ in 0..=CHAIN_LENGTH_MAX {
        let is_own = |record: &&Record| record.owner == name && record.class == CLASS_IN;
        let own = message.answers.iter().filter(is_own);
        let (data, others): (Vec<_>, Vec<_>) =
            own.partition(|record| record.record_type == record_type);
        if !data.is_empty() {
            let ttls = data.iter().map(|record| record.ttl_seconds);
            ttl_seconds = ttls.fold(ttl_seconds, u32::min);
            let data = data.iter().take(ADDRESSES_MAX).map(|record| record.data.clone()).collect();
            return Ok(Data { data, ttl_seconds });
        }
        let alias = others.into_iter().find(|record| record.record_type == RecordType::CNAME);
        let Some(alias) = alias else { return Ok(Data { data: Vec::new(), ttl_seconds }) };
        ttl_seconds = ttl_seconds.min(alias.ttl_seconds);
        name = Name::from_wire(&alias.data)
            .map_err(|_| Failure::Other("a CNAME that is no name".to_owned()))?;
    }
    Err(Failure::Final("its aliases have no end".to_owned()))
}

/// The resolvers that a text in the form of `resolv.conf` names.
pub(super) fn resolvers_of(text: &str) -> Vec<SocketAddr> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let address = words.next().filter(|word| *word == "nameserver").and(words.next())?;
        // A link that an IPv6 address belongs to is of no use without its number.
        Some(SocketAddr::new(address.parse().ok()?, 53))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use whered_dns::message::Question;

    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect(text)
    }

    fn record(owner: &str, record_type: RecordType, ttl_seconds: u32, data: &[u8]) -> Record {
        Record { owner: name(owner), record_type, class: 1, ttl_seconds, data: data.to_vec() }
    }

    fn message(flags: u16, answers: Vec<Record>) -> Message {
        let question = Question { name: name("a.test"), record_type: RecordType::A, class: 1 };
        Message {
            id: 7,
            flags: 0x8000 | flags,
            questions: vec![question],
            answers,
            authorities: Vec::new(),
            additionals: Vec::new(),
            edns: None,
        }
    }

    fn read(message: &Message) -> Result<(Vec<Vec<u8>>, u32), String> {
        match read_data(message, &name("a.test"), RecordType::A) {
            Ok(Data { data, ttl_seconds }) => Ok((data, ttl_seconds)),
            Err(Failure::Final(line) | Failure::Other(line)) => Err(line),
        }
    }

    #[test]
    fn aliases_are_followed_to_the_addresses_at_their_end() {
        let alias = |from: &str, to: &str| record(from, RecordType::CNAME, 30, name(to).as_wire());
        let address = |owner: &str| record(owner, RecordType::A, 60, &[192, 0, 2, 1]);
        let one = vec![vec![192, 0, 2, 1]];
        let cases = [
            (vec![address("a.test")], Ok((one.clone(), 60))),
            (vec![alias("A.test", "b.test"), address("b.TEST")], Ok((one, 30))),
            (vec![address("other.test")], Ok((Vec::new(), u32::MAX))),
            (vec![alias("a.test", "b.test")], Ok((Vec::new(), 30))),
            (
                vec![alias("a.test", "b.test"), alias("b.test", "a.test")],
                Err("its aliases have no end".to_owned()),
            ),
        ];
        for (answers, expected) in cases {
            assert_eq!(read(&message(0, answers.clone())), expected, "{answers:?}");
        }
        assert_eq!(read(&message(3, Vec::new())), Err("the name does not exist".to_owned()));
        assert_eq!(read(&message(2, Vec::new())), Err("the answer SERVFAIL".to_owned()));
    }

    #[test]
    fn a_family_that_no_resolver_tells_of_takes_nothing_from_the_other() {
        let data = |data: &[&[u8]]| {
            let data = data.iter().map(|data| data.to_vec()).collect();
            Some(Data { data, ttl_seconds: 30 })
        };
        let result = |v4, v6, final_line: Option<&str>| {
            let answers = Answers { data: [v4, v6], final_line: final_line.map(str::to_owned) };
            answers.into_result("the last failure".to_owned())
        };
        let address = data(&[&[192, 0, 2, 2], &[192, 0, 2, 1], &[192, 0, 2, 1], &[9; 16]]);
        let found = result(address.clone(), None, None).expect("addresses");
        let expected = [1, 2].map(|last| Ipv4Addr::from([192, 0, 2, last])).to_vec();
        assert_eq!((found.ipv4, found.ipv6), (Some(expected), None));
        assert_eq!((found.ttl_seconds, &*found.failure.unwrap()), (30, "the last failure"));
        let both = result(address, data(&[]), Some("no AAAA")).expect("addresses");
        assert_eq!((both.ipv6, both.failure), (Some(Vec::new()), None));
        for (v4, v6, line, expected) in [
            (None, None, None, "the last failure"),
            (data(&[]), None, None, "the last failure"),
            (data(&[]), data(&[]), None, "the name has no address"),
            (data(&[]), data(&[]), Some("it does not exist"), "it does not exist"),
        ] {
            assert_eq!(result(v4, v6, line), Err(expected.to_owned()));
        }
    }

    #[test]
    fn an_answer_repeats_id_and_question() {
        let query = Query::new(&name("A.test"), RecordType::A).id(7).build();
        assert!(is_answer_to(&message(0, Vec::new()), &query));
        let other_id = Query::new(&name("a.test"), RecordType::A).id(8).build();
        let other_type = Query::new(&name("a.test"), RecordType::AAAA).id(7).build();
        let other_name = Query::new(&name("b.test"), RecordType::A).id(7).build();
        for query in [other_id, other_type, other_name] {
            assert!(!is_answer_to(&message(0, Vec::new()), &query));
        }
        let mut asked = message(0, Vec::new());
        asked.flags = 0;
        assert!(!is_answer_to(&asked, &query));
    }

    #[test]
    fn resolvers_are_read_as_the_system_writes_them() {
        let text = "# a comment\nsearch example.com\nnameserver 192.0.2.53\nnameserver\t2001:db8::53\n\
                    nameserver fe80::1%eth0\nnameserver\noptions edns0\n";
        let expected = ["192.0.2.53:53", "[2001:db8::53]:53"].map(|text| text.parse().unwrap());
        assert_eq!(resolvers_of(text), expected);
    }
}
