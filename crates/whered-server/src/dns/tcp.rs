//! DNS over TCP: messages behind two-byte lengths, many on one connection (RFC 7766).
//!
//! Not for: what is answered (any function from a message to an answer).
//!
//! ```text
//! input:  [ length u16 | message ][ length u16 | message ][ length u16 | mess…   unfinished
//! output: [ length u16 | answer  ][ length u16 | answer  ]                       same order
//! ```
//!
//! Limits: connections at a time; one whole message within [`IDLE`] of the last; an unread
//! output of [`OUTPUT_BYTES`] and one answer before the next message is looked at.
//!
//! At the same time: one task for each connection, all on one thread.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::proxy::{self, Header};

/// How long a client may take for its next whole message, and for reading its answers.
pub(crate) const IDLE: Duration = Duration::from_secs(10);

/// Answers are sent when so many bytes have come together.
const OUTPUT_BYTES: usize = 64 * 1024;

/// How much is read at once.
const READ_BYTES: usize = 4096;

const LENGTH_BYTES: usize = 2;

/// How long to wait after the system could not accept (such as for want of descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// For how long connections may go on asking when a successor has taken the listener.
const LINGER: Duration = Duration::from_millis(500);

/// Whether connections may go on for a little when the door stops.
#[derive(Clone, Debug, Default)]
pub(crate) struct Linger(Arc<OnceLock<Instant>>);

impl Linger {
    /// They may; said before the stop.
    pub(crate) fn allow(&self) {
        // Said once; the first time counts.
        let _ = self.0.set(Instant::now() + LINGER);
    }

    fn until(&self) -> Option<Instant> {
        self.0.get().copied()
    }
}

/// When and how the door stops.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) linger: Linger,
}

impl Ending {
    /// Waits for the stop.
    async fn begun(&mut self) {
        // An error means that the door is gone, which is a stop too.
        let _ = self.stop.wait_for(|stop| *stop).await;
    }

    /// Waits until a connection is to end that has nothing to answer.
    async fn over(&mut self) {
        self.begun().await;
        if let Some(end) = self.linger.until() {
            tokio::time::sleep_until(end).await;
        }
    }
}

/// Answers one message into an empty buffer; what stays empty is not sent.
pub(crate) trait Answer:
    Fn(&[u8], SocketAddr, &mut Vec<u8>) + Clone + Send + 'static
{
}
impl<F: Fn(&[u8], SocketAddr, &mut Vec<u8>) + Clone + Send + 'static> Answer for F {}

/// Accepts and answers until `stop` is set, then lets every connection finish what it has read.
pub(crate) async fn serve(
    listener: TcpListener,
    answer: impl Answer,
    is_proxy: impl Fn(IpAddr) -> bool,
    limit: Arc<Semaphore>,
    mut ending: Ending,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = ending.begun() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!("a DNS connection could not be accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // One too many is closed at once: the client sees that, and waiting would hide it.
        let Ok(permit) = Arc::clone(&limit).try_acquire_owned() else {
            continue;
        };
        let (answer, ending, is_proxy) = (answer.clone(), ending.clone(), is_proxy(peer.ip()));
        connections.spawn(async move {
            if let Err(error) = converse(stream, peer, is_proxy, answer, ending).await {
                tracing::trace!("DNS connection of {peer}: {error}");
            }
            drop(permit);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn converse(
    mut stream: TcpStream,
    mut peer: SocketAddr,
    is_proxy: bool,
    answer: impl Answer,
    mut ending: Ending,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut input, mut output, mut reply) = (Vec::new(), Vec::new(), Vec::new());
    if is_proxy {
        let read = read_proxy_header(&mut stream, &mut input);
        let header = tokio::select! {
            header = timeout(IDLE, read) => header??,
            () = ending.over() => return Ok(()),
        };
        // A balancer that asks for itself stays who it is.
        if let Some(source) = header {
            peer.set_ip(source);
        }
    }
    loop {
        let deadline = Instant::now() + IDLE;
        while first_message(&input).is_none() {
            input.reserve(READ_BYTES);
            let read = tokio::select! {
                read = timeout_at(deadline, stream.read_buf(&mut input)) => read??,
                () = ending.over() => return Ok(()),
            };
            if read == 0 {
                return Ok(());
            }
        }
        let mut consumed = 0;
        while let Some(message) = first_message(&input[consumed..]) {
            reply.clear();
            answer(message, peer, &mut reply);
            consumed += LENGTH_BYTES + message.len();
            push_message(&mut output, &reply);
            if output.len() >= OUTPUT_BYTES {
                break;
            }
        }
        input.drain(..consumed);
        timeout(IDLE, stream.write_all(&output)).await??;
        output.clear();
    }
}

/// Takes the header that a balancer begins with; gives for whom it asks.
async fn read_proxy_header(
    stream: &mut TcpStream,
    input: &mut Vec<u8>,
) -> io::Result<Option<IpAddr>> {
    loop {
        match proxy::read(input) {
            Header::Whole { source, size_bytes } => {
                input.drain(..size_bytes);
                return Ok(source);
            }
            Header::Wrong => return Err(io::Error::other("no PROXY header")),
            Header::Unfinished => {}
        }
        if stream.read_buf(input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The first whole message.
fn first_message(input: &[u8]) -> Option<&[u8]> {
    let (length, rest) = input.split_first_chunk::<LENGTH_BYTES>()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}

/// Adds an answer with its length. One that is empty or does not fit is left out: the first
/// means silence, and the second is never made.
fn push_message(output: &mut Vec<u8>, answer: &[u8]) {
    match u16::try_from(answer.len()) {
        Ok(length) if length > 0 => {
            output.extend_from_slice(&length.to_be_bytes());
            output.extend_from_slice(answer);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// An upper-casing server on its own thread; dropping the sender stops it.
    fn start(connections: usize) -> (SocketAddr, watch::Sender<bool>, std::thread::JoinHandle<()>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, stop) = watch::channel(false);
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                let answer = |message: &[u8], peer: SocketAddr, reply: &mut Vec<u8>| {
                    if message == b"who" {
                        reply.extend(peer.ip().to_string().into_bytes());
                        return;
                    }
                    if message != b"silent" {
                        reply.extend(message.to_ascii_uppercase());
                    }
                };
                let limit = Arc::new(Semaphore::new(connections));
                // Whoever comes from this address speaks for others.
                let is_proxy = |peer: IpAddr| peer.to_string() == "127.0.0.2";
                let ending = Ending { stop, linger: Linger::default() };
                serve(listener, answer, is_proxy, limit, ending).await;
            });
        });
        (address, sender, thread)
    }

    fn framed(messages: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for message in messages {
            push_message(&mut bytes, message);
        }
        bytes
    }

    #[test]
    fn pipelined_messages_are_answered_in_order_and_silence_is_left_out() {
        let (address, _stop, _thread) = start(4);
        let mut client = std::net::TcpStream::connect(address).unwrap();
        client.write_all(&framed(&[b"one", b"silent", b"two", b"three"])).unwrap();
        let mut bytes = vec![0; framed(&[b"one", b"two", b"three"]).len()];
        client.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, framed(&[b"ONE", b"TWO", b"THREE"]));
    }

    #[test]
    fn the_longest_message_may_come_byte_by_byte() {
        let (address, _stop, _thread) = start(4);
        let mut client = std::net::TcpStream::connect(address).unwrap();
        client.set_nodelay(true).unwrap();
        let message = vec![b'a'; usize::from(u16::MAX)];
        for byte in framed(&[&message]).chunks(1) {
            client.write_all(byte).unwrap();
        }
        let mut bytes = vec![0; message.len() + LENGTH_BYTES];
        client.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, framed(&[&message.to_ascii_uppercase()]));
    }

    #[test]
    fn a_balancers_connection_begins_with_for_whom_it_asks() {
        let (address, _stop, _thread) = start(4);
        let connect = || {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
            let socket = socket.unwrap();
            socket.bind(&"127.0.0.2:0".parse::<SocketAddr>().unwrap().into()).unwrap();
            socket.connect(&address.into()).unwrap();
            std::net::TcpStream::from(socket)
        };
        let header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\x7f\0\0\x01\0\x01\0\x35";
        let expected = framed(&[b"192.0.2.7", b"192.0.2.7"]);
        let mut client = connect();
        for byte in [&header[..], &framed(&[b"who", b"who"])].concat().chunks(1) {
            client.write_all(byte).unwrap();
        }
        let mut bytes = vec![0; expected.len()];
        client.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, expected);
        let mut bare = connect();
        bare.write_all(&framed(&[b"who"])).unwrap();
        assert_eq!(bare.read(&mut bytes).unwrap_or(0), 0);
    }

    #[test]
    fn a_connection_beyond_the_limit_is_closed_at_once() {
        let (address, _stop, _thread) = start(1);
        let mut first = std::net::TcpStream::connect(address).unwrap();
        first.write_all(&framed(&[b"a"])).unwrap();
        let mut bytes = [0; 3];
        first.read_exact(&mut bytes).unwrap();
        let mut second = std::net::TcpStream::connect(address).unwrap();
        assert_eq!(second.read(&mut bytes).unwrap_or(0), 0);
    }

    #[test]
    fn stopping_ends_idle_connections_and_the_server() {
        let (address, stop, thread) = start(4);
        let mut client = std::net::TcpStream::connect(address).unwrap();
        client.write_all(&framed(&[b"a"])).unwrap();
        let mut bytes = [0; 3];
        client.read_exact(&mut bytes).unwrap();
        stop.send(true).unwrap();
        thread.join().unwrap();
        assert_eq!(client.read(&mut bytes).unwrap(), 0);
    }

    #[test]
    fn an_unfinished_length_or_message_is_no_message() {
        assert_eq!(first_message(&[]), None);
        assert_eq!(first_message(&[0]), None);
        assert_eq!(first_message(&[0, 2, 7]), None);
        assert_eq!(first_message(&[0, 1, 7, 9]), Some(&[7][..]));
        assert_eq!(first_message(&[0, 0]), Some(&[][..]));
    }
}
