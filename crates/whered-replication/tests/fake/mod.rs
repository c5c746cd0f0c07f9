//! A primary of a few lines that says what a test wants.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use whered_replication::{Address, Endpoint, Patience};

/// The history of all fake primaries.
pub(crate) const ID: &str = "0123456789abcdef0123456789abcdef01234567";

/// A primary that answers the handshake, and PSYNC as it is told.
pub(crate) struct FakePrimary {
    pub(crate) address: Address,
    thread: JoinHandle<Vec<String>>,
}

impl FakePrimary {
    /// Writes this after PSYNC and closes the connection.
    pub(crate) fn saying(bytes: impl Into<Vec<u8>>) -> FakePrimary {
        let bytes = bytes.into();
        // A client that has given up closes first.
        FakePrimary::start(|_| "+OK".to_owned(), move |socket| drop(socket.write_all(&bytes)))
    }

    /// Answers each request of the handshake by its words, and lets `act` have the socket at PSYNC.
    pub(crate) fn start(
        answer: impl Fn(&[String]) -> String + Send + 'static,
        act: impl FnOnce(&mut TcpStream) + Send + 'static,
    ) -> FakePrimary {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let thread = thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a client");
            let mut reader = BufReader::new(socket.try_clone().expect("a descriptor"));
            let mut seen = Vec::new();
            while let Some(words) = request(&mut reader) {
                seen.push(words.join(" "));
                if words[0] == "PSYNC" {
                    act(&mut socket);
                    break;
                }
                let line = format!("{}\r\n", answer(&words));
                if socket.write_all(line.as_bytes()).is_err() {
                    break;
                }
            }
            seen
        });
        FakePrimary { address: Address::new(Endpoint::Tcp("127.0.0.1".to_owned(), port)), thread }
    }

    /// What it was asked, when it is done.
    pub(crate) fn asked(self) -> Vec<String> {
        self.thread.join().expect("it has not panicked")
    }
}

/// Short times, so that a test of silence takes no time.
pub(crate) fn impatience() -> Patience {
    let millis = Duration::from_millis;
    Patience { opening: millis(2000), silence: millis(200), preparing: millis(100) }
}

/// A request of a client; `None` at its end.
pub(crate) fn request(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let mut line = || {
        let mut line = String::new();
        let read = reader.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    };
    let count: usize = line()?.strip_prefix('*')?.parse().ok()?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut head = String::new();
        reader.read_line(&mut head).ok()?;
        let length: usize = head.trim_end().strip_prefix('$')?.parse().ok()?;
        let mut bytes = vec![0; length + 2];
        reader.read_exact(&mut bytes).ok()?;
        bytes.truncate(length);
        words.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    Some(words)
}

/// A command as a primary sends it.
pub(crate) fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    bytes
}
