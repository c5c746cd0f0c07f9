//! DNS over TCP: messages behind two-byte lengths, many on one connection (RFC 7766).
//!
//! Not for: what is answered (any function from a message to an answer), when connections are to
//! end (`ending`).
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
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::ending::{ConnectionEnd, Phase};
use super::proxy::{self, Header};
use crate::listen::Speaks;

/// How long a client may take for its next whole message, and for reading its answers.
pub(crate) const IDLE: Duration = Duration::from_secs(10);

/// Answers are sent when this many bytes have come together.
const OUTPUT_BYTES: usize = 64 * 1024;

/// How much is read at once.
const READ_BYTES: usize = 4096;

const LENGTH_BYTES: usize = 2;

/// How long to wait after the system could not accept (such as for want of descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a client has to take its last answers.
const CLOSING_TIME: Duration = Duration::from_millis(100);

/// The messages of a transfer, which follow in place of one answer.
pub(crate) type Messages = mpsc::Receiver<Vec<u8>>;

/// Answers one message into an empty buffer; what stays empty is not sent. The flag says that the
/// connection is about to be closed, which the answer tells.
pub(crate) trait Answer:
    Fn(&[u8], SocketAddr, bool, &mut Vec<u8>) -> Option<Messages> + Clone + Send + 'static
{
}
impl<F: Fn(&[u8], SocketAddr, bool, &mut Vec<u8>) -> Option<Messages> + Clone + Send + 'static>
    Answer for F
{
}

/// A connection that another server has accepted and given away.
pub(crate) struct AdoptedConnection {
    pub(crate) stream: std::net::TcpStream,
    pub(crate) speaks: Speaks,
}

/// Accepts and answers until the stop; then every connection ends as `ending` says.
pub(crate) async fn serve(
    listener: TcpListener,
    answer: impl Answer,
    is_proxy: impl Fn(IpAddr) -> bool,
    limit: Arc<Semaphore>,
    mut ending: ConnectionEnd,
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
        let awaits_header = is_proxy(peer.ip());
        let connection = Connection::new(stream, peer, awaits_header, &answer, &ending);
        connection.start(&mut connections, &limit);
    }
    drop(listener);
    finish(connections, ending).await;
}

/// Answers on connections that others have accepted, as [`serve`] on its own.
pub(crate) async fn adopt(
    mut adopted: mpsc::UnboundedReceiver<AdoptedConnection>,
    answer: impl Answer,
    is_proxy: impl Fn(IpAddr) -> bool,
    limit: Arc<Semaphore>,
    ending: ConnectionEnd,
) {
    let mut connections = JoinSet::new();
    let take = |AdoptedConnection { stream, speaks }| {
        stream.set_nonblocking(true)?;
        let mut peer = stream.peer_addr()?;
        let awaits_header = speaks == Speaks::Unknown && is_proxy(peer.ip());
        if let Speaks::For(source) = speaks {
            peer.set_ip(source);
        }
        let stream = TcpStream::from_std(stream)?;
        io::Result::Ok(Connection::new(stream, peer, awaits_header, &answer, &ending))
    };
    let mut stopped = ending.clone();
    loop {
        let next = tokio::select! {
            biased;
            Some(next) = adopted.recv() => next,
            Some(_) = connections.join_next() => continue,
            () = stopped.begun() => break,
        };
        match take(next) {
            Ok(connection) => connection.start(&mut connections, &limit),
            Err(error) => tracing::debug!("a DNS connection was gone before it came: {error}"),
        }
    }
    finish(connections, stopped).await;
}

/// Waits for the connections, for as long as they may go on.
async fn finish(mut connections: JoinSet<()>, mut ending: ConnectionEnd) {
    let limit = ending.limit() + CLOSING_TIME * 2;
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout_at(limit, all).await.is_err() {
        tracing::warn!("DNS connections were cut off");
    }
}

/// One connection.
struct Connection<A> {
    stream: TcpStream,
    peer: SocketAddr,
    /// A balancer tells first for whom it asks.
    awaits_header: bool,
    input: Vec<u8>,
    answer: A,
    ending: ConnectionEnd,
}

/// What comes next on a connection.
enum NextStep {
    /// At least one whole message.
    Message,
    /// Nothing any more.
    End,
    /// Another server.
    Pass,
}

impl<A: Answer> Connection<A> {
    fn new(
        stream: TcpStream,
        peer: SocketAddr,
        awaits_header: bool,
        answer: &A,
        ending: &ConnectionEnd,
    ) -> Connection<A> {
        let (answer, ending) = (answer.clone(), ending.clone());
        Connection { stream, peer, awaits_header, input: Vec::new(), answer, ending }
    }

    /// Starts the conversation. One too many is closed at once: the client sees that, and waiting
    /// would hide it.
    fn start(self, connections: &mut JoinSet<()>, limit: &Arc<Semaphore>) {
        let Ok(permit) = Arc::clone(limit).try_acquire_owned() else {
            return;
        };
        connections.spawn(async move {
            let peer = self.peer;
            if let Err(error) = self.converse().await {
                tracing::trace!("DNS connection of {peer}: {error}");
            }
            drop(permit);
        });
    }

    async fn converse(mut self) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        let (mut output, mut reply) = (Vec::new(), Vec::new());
        loop {
            match self.next().await? {
                NextStep::Message => {}
                NextStep::End if self.ending.has_begun() => return self.close().await,
                NextStep::End => return Ok(()),
                NextStep::Pass => match self.pass()? {
                    None => return Ok(()),
                    Some(connection) => {
                        self = connection;
                        continue;
                    }
                },
            }
            let mut consumed = 0;
            while let Some(message) = first_message(&self.input[consumed..]) {
                reply.clear();
                let is_ending = self.ending.is_closing();
                let messages = (self.answer)(message, self.peer, is_ending, &mut reply);
                consumed += LENGTH_BYTES + message.len();
                push_message(&mut output, &reply);
                if let Some(mut messages) = messages {
                    while let Some(message) = messages.recv().await {
                        push_message(&mut output, &message);
                        timeout(IDLE, self.stream.write_all(&output)).await??;
                        output.clear();
                    }
                }
                if output.len() >= OUTPUT_BYTES {
                    break;
                }
            }
            self.input.drain(..consumed);
            timeout(IDLE, self.stream.write_all(&output)).await??;
            output.clear();
        }
    }

    /// Reads until there is a whole message, or until the connection ends here.
    async fn next(&mut self) -> io::Result<NextStep> {
        let idle_end = Instant::now() + IDLE;
        while !self.has_message()? {
            let (mut end, mut most, mut is_serving) = (idle_end, READ_BYTES, false);
            match self.ending.phase() {
                Phase::Serving => is_serving = true,
                Phase::Passing if self.input.is_empty() => return Ok(NextStep::Pass),
                // Not a byte of the message behind it.
                Phase::Passing if !self.awaits_header => most = missing_bytes(&self.input),
                Phase::Passing => {}
                Phase::Closing { until, quiet } => {
                    let now = Instant::now();
                    end = idle_end.min(until).min(now + quiet);
                    if until <= now {
                        return Ok(NextStep::End);
                    }
                }
            }
            self.input.reserve(most);
            let mut part = (&mut self.stream).take(most as u64);
            let read = tokio::select! {
                biased;
                () = self.ending.begun(), if is_serving => continue,
                read = timeout_at(end, part.read_buf(&mut self.input)) => read,
            };
            match read {
                Ok(Ok(size)) if size > 0 => {}
                Ok(Err(error)) => return Err(error),
                Ok(Ok(_)) | Err(_) => return Ok(NextStep::End),
            }
        }
        Ok(NextStep::Message)
    }

    /// Whether a whole message is there; takes the header before the first.
    fn has_message(&mut self) -> io::Result<bool> {
        if self.awaits_header {
            match proxy::read(&self.input) {
                Header::Whole { source, size_bytes } => {
                    self.input.drain(..size_bytes);
                    self.awaits_header = false;
                    // A balancer that asks for itself stays who it is.
                    if let Some(source) = source {
                        self.peer.set_ip(source);
                    }
                }
                Header::Wrong => return Err(io::Error::other("no PROXY header")),
                Header::Unfinished => return Ok(false),
            }
        }
        Ok(first_message(&self.input).is_some())
    }

    /// Gives the connection to the successor; what that does not take is given back.
    fn pass(self) -> io::Result<Option<Connection<A>>> {
        let Connection { stream, peer, awaits_header, input, answer, mut ending } = self;
        let stream = stream.into_std()?;
        let speaks = if awaits_header { Speaks::Unknown } else { Speaks::For(peer.ip()) };
        if ending.give(stream.as_fd(), speaks) {
            return Ok(None);
        }
        let stream = TcpStream::from_std(stream)?;
        Ok(Some(Connection { stream, peer, awaits_header, input, answer, ending }))
    }

    /// Closes so that the client gets all answers: with something unread, the system would throw
    /// away what is under way.
    async fn close(mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        let unread = async {
            loop {
                self.input.clear();
                self.input.reserve(READ_BYTES);
                if self.stream.read_buf(&mut self.input).await? == 0 {
                    return io::Result::Ok(());
                }
            }
        };
        timeout(CLOSING_TIME, unread).await?
    }
}

/// How many bytes are missing from the first message, or from its length.
fn missing_bytes(input: &[u8]) -> usize {
    let whole = match input.first_chunk::<LENGTH_BYTES>() {
        Some(length) => LENGTH_BYTES + usize::from(u16::from_be_bytes(*length)),
        None => LENGTH_BYTES,
    };
    whole.saturating_sub(input.len()).max(1)
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

    use tokio::sync::watch;

    use super::super::ending::Succession;
    use super::*;

    /// An upper-casing server on its own thread; dropping the sender stops it.
    fn start(connections: usize) -> (SocketAddr, watch::Sender<bool>, std::thread::JoinHandle<()>) {
        let Started { address, stop, thread, .. } = start_named(connections, b"");
        (address, stop, thread)
    }

    struct Started {
        address: SocketAddr,
        stop: watch::Sender<bool>,
        thread: std::thread::JoinHandle<()>,
        succession: Succession,
        adopter: mpsc::UnboundedSender<AdoptedConnection>,
    }

    /// As [`start`], with a name that stands before its answers.
    fn start_named(connections: usize, name: &'static [u8]) -> Started {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let ((stop, stopped), succession) = (watch::channel(false), Succession::default());
        let (adopter, adopted) = mpsc::unbounded_channel();
        let ending = ConnectionEnd::new(stopped, succession.clone());
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                let answer =
                    move |message: &[u8], peer: SocketAddr, is_ending, reply: &mut Vec<u8>| {
                        if message == b"ending" {
                            reply.extend(if is_ending { b"yes" } else { &b"no"[..] });
                            return None;
                        }
                        if message == b"who" {
                            reply.extend(peer.ip().to_string().into_bytes());
                            return None;
                        }
                        if message != b"silent" {
                            reply.extend(name);
                            reply.extend(message.to_ascii_uppercase());
                        }
                        None
                    };
                let limit = Arc::new(Semaphore::new(connections));
                // Connections from this address speak for others.
                let is_proxy = |peer: IpAddr| peer.to_string() == "127.0.0.2";
                let adopting = adopt(adopted, answer, is_proxy, Arc::clone(&limit), ending.clone());
                let serving = serve(listener, answer, is_proxy, limit, ending);
                tokio::join!(serving, adopting);
            });
        });
        Started { address, stop, thread, succession, adopter }
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

    const HEADER: &[u8] =
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\x7f\0\0\x01\0\x01\0\x35";

    fn connect_as_balancer(address: SocketAddr) -> std::net::TcpStream {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        socket.bind(&"127.0.0.2:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        socket.connect(&address.into()).unwrap();
        std::net::TcpStream::from(socket)
    }

    fn ask(client: &mut std::net::TcpStream, bytes: &[u8], answer: &[u8]) {
        client.write_all(bytes).unwrap();
        let mut read = vec![0; LENGTH_BYTES + answer.len()];
        client.read_exact(&mut read).unwrap();
        assert_eq!(read, framed(&[answer]));
    }

    #[test]
    fn connections_go_on_with_the_successor_between_two_messages_for_whomever_they_ask() {
        let [old, new] = [b"old ", b"new "].map(|name| start_named(9, name));
        let mut header_to_come = connect_as_balancer(old.address);
        let mut balancer = connect_as_balancer(old.address);
        ask(&mut balancer, &[HEADER, &framed(&[b"a"])].concat(), b"old A");
        let mut idle = std::net::TcpStream::connect(old.address).unwrap();
        ask(&mut idle, &framed(&[b"a"]), b"old A");
        let mut cut = std::net::TcpStream::connect(old.address).unwrap();
        // What comes in one piece is read in one.
        let half = framed(&[b"half"]);
        ask(&mut cut, &[&framed(&[b"a"]), &half[..4]].concat(), b"old A");
        let adopter = new.adopter.clone();
        old.succession.begin(Some(Box::new(move |socket, speaks| {
            let stream = socket.try_clone_to_owned()?.into();
            adopter
                .send(AdoptedConnection { stream, speaks })
                .map_err(|_| io::ErrorKind::NotFound.into())
        })));
        old.stop.send(true).unwrap();
        ask(&mut idle, &framed(&[b"b"]), b"new B");
        ask(&mut idle, &framed(&[b"ending"]), b"no");
        ask(&mut cut, &half[4..], b"old HALF");
        ask(&mut cut, &framed(&[b"c"]), b"new C");
        ask(&mut balancer, &framed(&[b"who"]), b"192.0.2.7");
        ask(&mut header_to_come, &[HEADER, &framed(&[b"who"])].concat(), b"192.0.2.7");
        ask(&mut header_to_come, &framed(&[b"d"]), b"new D");
        old.thread.join().unwrap();
        new.stop.send(true).unwrap();
        new.thread.join().unwrap();
    }

    #[test]
    fn a_connection_that_the_successor_does_not_take_is_served_on() {
        let old = start_named(9, b"");
        let mut client = std::net::TcpStream::connect(old.address).unwrap();
        ask(&mut client, &framed(&[b"a"]), b"A");
        ask(&mut client, &framed(&[b"ending"]), b"no");
        let refused = |_: std::os::fd::BorrowedFd<'_>, _| Err(io::ErrorKind::BrokenPipe.into());
        old.succession.begin(Some(Box::new(refused)));
        old.stop.send(true).unwrap();
        for _ in 0..100 {
            ask(&mut client, &framed(&[b"b"]), b"B");
        }
        ask(&mut client, &framed(&[b"ending"]), b"yes");
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        old.thread.join().unwrap();
    }

    #[test]
    fn a_balancers_connection_begins_with_for_whom_it_asks() {
        let (address, _stop, _thread) = start(4);
        let connect = || connect_as_balancer(address);
        let expected = framed(&[b"192.0.2.7", b"192.0.2.7"]);
        let mut client = connect();
        for byte in [HEADER, &framed(&[b"who", b"who"])].concat().chunks(1) {
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
    fn what_was_sent_before_a_stop_is_answered() {
        let (address, stop, thread) = start(4);
        let mut client = std::net::TcpStream::connect(address).unwrap();
        let message: &[u8] = &[b'a'; 500];
        let asked = framed(&[message; 200]);
        let mut writer = client.try_clone().unwrap();
        let writing = std::thread::spawn(move || writer.write_all(&asked));
        let mut bytes = vec![0; framed(&[message]).len()];
        client.read_exact(&mut bytes).unwrap();
        writing.join().unwrap().unwrap();
        stop.send(true).unwrap();
        for number in 1..200 {
            client.read_exact(&mut bytes).unwrap_or_else(|error| panic!("{number}: {error}"));
        }
        assert_eq!(client.read(&mut bytes).unwrap(), 0);
        thread.join().unwrap();
    }

    #[test]
    fn what_is_missing_from_a_message_ends_with_it() {
        let cases: [(&[u8], usize); 6] =
            [(&[], 2), (&[0], 1), (&[0, 0], 1), (&[0, 2], 2), (&[0, 2, 9], 1), (&[1, 0, 9], 255)];
        for (input, missing) in cases {
            assert_eq!(missing_bytes(input), missing, "{input:?}");
        }
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
