//! Asks other servers: SOA by UDP, or by TCP where an answer is cut short or no good one; AXFR and
//! IXFR by TCP; NOTIFY by UDP.
//!
//! Not for: when (`secondary`, `primary`), what an answer means (`whered_dns::transfer`).
//!
//! Invariants: every wait has an end. Ids and ports cannot be guessed: ids are random, and the
//! system chooses ports; a datagram counts only if it comes from the server that was asked.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;
use whered_dns::transfer::{
    AnswerVerifier, Progress, Receiver, Request, SoaAnswer, Transfer, is_notify_answer, notify,
    query, read_soa_answer,
};
use whered_dns::{Name, RecordType, ZoneRecord};

use super::options::Remote;
use super::times::now_seconds;

/// How long a datagram's answer may take, and how often it is asked for.
const DATAGRAM_TIME: Duration = Duration::from_secs(2);
const DATAGRAM_TRIES: usize = 2;
/// How long a connection may take to open, and to bring the next message.
const CONNECT_TIME: Duration = Duration::from_secs(5);
const MESSAGE_TIME: Duration = Duration::from_secs(20);
/// How long a whole transfer may take.
const TRANSFER_TIME: Duration = Duration::from_secs(2 * 60 * 60);
/// The largest datagram that is read.
const DATAGRAM_SIZE: usize = 4096;

/// Why another server gave nothing: one line.
#[derive(Debug)]
pub(super) struct AskError(String);

impl AskError {
    pub(super) fn new(message: impl fmt::Display) -> AskError {
        AskError(message.to_string())
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for AskError {
    fn from(error: io::Error) -> AskError {
        AskError(error.to_string())
    }
}

/// A number that nobody can guess.
pub(super) fn random_u16() -> Result<u16, AskError> {
    let mut bytes = [0; 2];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| AskError::new("no random numbers"))?;
    Ok(u16::from_be_bytes(bytes))
}

/// The serial that a server has.
pub(super) async fn ask_serial(remote: &Remote, origin: &Name) -> Result<u32, AskError> {
    let mut last = AskError::new("no answer");
    for _ in 0..DATAGRAM_TRIES {
        let id = random_u16()?;
        let (message, mut verifier) =
            signed_query(remote, query(origin, id, RecordType::SOA, None));
        // Some servers answer about a catalog by TCP alone, and a datagram may be forged: what is
        // no good answer is asked for by TCP.
        let read = |answer: &[u8]| match read_answer(answer, verifier.as_mut(), origin, id) {
            Some(Err(_) | Ok(SoaAnswer::Failed(_))) => Some(Ok(SoaAnswer::Truncated)),
            other => other,
        };
        match ask_datagram(remote.address, &message, read).await {
            Ok(SoaAnswer::Serial(serial)) => return Ok(serial),
            Ok(SoaAnswer::Truncated) => return ask_serial_by_stream(remote, origin).await,
            Ok(SoaAnswer::Failed(rcode)) => return Err(soa_failure(rcode)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn soa_failure(rcode: whered_dns::Rcode) -> AskError {
    match rcode {
        whered_dns::Rcode::NOERROR => AskError::new("an answer without the zone's SOA"),
        whered_dns::Rcode::NOTAUTH => AskError::new("an answer without authority for the zone"),
        rcode => AskError::new(format!("the answer {rcode}")),
    }
}

async fn ask_serial_by_stream(remote: &Remote, origin: &Name) -> Result<u32, AskError> {
    let id = random_u16()?;
    let (message, mut verifier) = signed_query(remote, query(origin, id, RecordType::SOA, None));
    let mut stream = connect(remote.address).await?;
    send(&mut stream, &message).await?;
    let answer = receive(&mut stream).await?;
    match read_answer(&answer, verifier.as_mut(), origin, id) {
        Some(Ok(SoaAnswer::Serial(serial))) => Ok(serial),
        Some(Ok(SoaAnswer::Failed(rcode))) => Err(soa_failure(rcode)),
        Some(Err(error)) => Err(error),
        Some(Ok(SoaAnswer::Truncated)) | None => Err(AskError::new("no answer to the question")),
    }
}

fn read_answer(
    answer: &[u8],
    verifier: Option<&mut AnswerVerifier>,
    origin: &Name,
    id: u16,
) -> Option<Result<SoaAnswer, AskError>> {
    let Some(verifier) = verifier else { return read_soa_answer(answer, origin, id).map(Ok) };
    // Another's datagram must not be taken for a wrong signature.
    read_soa_answer(answer, origin, id)?;
    match verifier.verify(answer, now_seconds()) {
        Ok(plain) => read_soa_answer(&plain, origin, id).map(Ok),
        Err(error) => Some(Err(AskError::new(error))),
    }
}

fn signed_query(remote: &Remote, mut message: Vec<u8>) -> (Vec<u8>, Option<AnswerVerifier>) {
    let Some(key) = &remote.key else { return (message, None) };
    let mac = key.sign_query(&mut message, now_seconds());
    (message, Some(AnswerVerifier::new(key.clone(), mac)))
}

/// Sends a datagram and waits for what `read` takes.
async fn ask_datagram<T>(
    address: SocketAddr,
    message: &[u8],
    mut read: impl FnMut(&[u8]) -> Option<Result<T, AskError>>,
) -> Result<T, AskError> {
    let local: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(local).await?;
    socket.connect(address).await?;
    socket.send(message).await?;
    let mut room = vec![0; DATAGRAM_SIZE];
    let answer = async {
        loop {
            let size = socket.recv(&mut room).await?;
            if let Some(found) = read(room.get(..size).unwrap_or_default()) {
                return found;
            }
        }
    };
    match timeout(DATAGRAM_TIME, answer).await {
        Ok(found) => found,
        Err(_) => Err(AskError::new(format!("no answer within {} s", DATAGRAM_TIME.as_secs()))),
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream, AskError> {
    match timeout(CONNECT_TIME, TcpStream::connect(address)).await {
        Ok(stream) => Ok(stream?),
        Err(_) => Err(AskError::new(format!("no connection within {} s", CONNECT_TIME.as_secs()))),
    }
}

async fn send(stream: &mut TcpStream, message: &[u8]) -> Result<(), AskError> {
    let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
    let framed = [&length.to_be_bytes()[..], message].concat();
    match timeout(MESSAGE_TIME, stream.write_all(&framed)).await {
        Ok(written) => Ok(written?),
        Err(_) => Err(AskError::new("a connection that takes nothing")),
    }
}

async fn receive(stream: &mut TcpStream) -> Result<Vec<u8>, AskError> {
    let read = async {
        let length = stream.read_u16().await?;
        let mut message = vec![0; length.into()];
        stream.read_exact(&mut message).await?;
        io::Result::Ok(message)
    };
    match timeout(MESSAGE_TIME, read).await {
        Ok(Ok(message)) => Ok(message),
        Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(AskError::new("the connection ended before the transfer did"))
        }
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(AskError::new(format!("nothing for {} s", MESSAGE_TIME.as_secs()))),
    }
}

/// Transfers a zone: what is newer than the SOA, or all of it.
pub(super) async fn transfer(
    remote: &Remote,
    origin: &Name,
    soa: Option<&ZoneRecord>,
    size_max_bytes: usize,
) -> Result<Transfer, AskError> {
    let work = async {
        let id = random_u16()?;
        let record_type = if soa.is_some() { RecordType::IXFR } else { RecordType::AXFR };
        let (message, verifier) = signed_query(remote, query(origin, id, record_type, soa));
        let serial = soa.map(|soa| whered_dns::transfer::SoaTimes::of(soa).serial);
        let request = Request { origin: origin.clone(), id, serial, size_max_bytes, verifier };
        let mut receiver = Receiver::new(request);
        let mut stream = connect(remote.address).await?;
        send(&mut stream, &message).await?;
        loop {
            let message = receive(&mut stream).await?;
            match receiver.take(&message, now_seconds()).map_err(AskError::new)? {
                Progress::Complete(transfer) => return Ok(transfer),
                Progress::More => {}
            }
        }
    };
    match timeout(TRANSFER_TIME, work).await {
        Ok(done) => done,
        Err(_) => Err(AskError::new("a transfer that takes more than two hours")),
    }
}

/// Tells a server that a zone has changed; whether it answered.
pub(super) async fn tell(remote: &Remote, origin: &Name, soa: &ZoneRecord) -> Result<(), AskError> {
    let id = random_u16()?;
    let (message, mut verifier) = signed_query(remote, notify(origin, id, soa));
    let read = |answer: &[u8]| {
        if !is_notify_answer(answer, id) {
            return None;
        }
        let verified = verifier.as_mut().map(|verifier| verifier.verify(answer, now_seconds()));
        match verified {
            Some(Err(error)) => Some(Err(AskError::new(error))),
            _ => Some(Ok(())),
        }
    };
    ask_datagram(remote.address, &message, read).await
}
