//! The error of this crate: one line for a person, with its place in front.
//!
//! Not for: bad records, which are counted and told one by one (`points`).

use std::fmt;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use whered_replication::LinkError;

/// A job that cannot go on: place, what was found, what is allowed.
#[derive(Debug)]
pub struct ConnectError(Box<Fault>);

#[derive(Debug)]
struct Fault {
    message: String,
    is_refusal: bool,
    is_absent: bool,
    is_authentication: bool,
}

impl ConnectError {
    /// A fault with its line.
    pub(crate) fn new(message: impl Into<String>) -> ConnectError {
        ConnectError(Box::new(Fault {
            message: message.into(),
            is_refusal: false,
            is_absent: false,
            is_authentication: false,
        }))
    }

    /// What a server answered or did not, with the server's name in front.
    pub(crate) fn from_redis(server: &str, error: &RedisError) -> ConnectError {
        let is_refusal = matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension);
        let is_absent = error.is_connection_refusal();
        let message = format!("{server}: {}", what(error));
        let is_authentication = error.kind() == ErrorKind::AuthenticationFailed;
        ConnectError(Box::new(Fault { message, is_refusal, is_absent, is_authentication }))
    }

    /// That nobody listens at a server's address.
    pub(crate) fn absent(message: String) -> ConnectError {
        let fault = Fault { is_absent: true, ..*ConnectError::new(message).0 };
        ConnectError(Box::new(fault))
    }

    /// Whether nobody listens at the address.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.0.is_absent
    }

    /// What a SQL server or its connection says, with the server's name in front.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn of_server(server: &str, words: &str) -> ConnectError {
        ConnectError::new(format!("{server}: {}", one_line(words)))
    }

    /// Whether a server answered with an error, so that the connection still works.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.0.is_refusal
    }

    /// Whether a server refused the user name or the password, or wants none.
    pub(crate) fn is_authentication(&self) -> bool {
        self.0.is_authentication
    }

    /// Nothing, if a server answered with an error; the error otherwise.
    pub(crate) fn unless_refusal(self) -> Result<(), ConnectError> {
        if self.is_refusal() { Ok(()) } else { Err(self) }
    }

    /// Whether a server said that a key holds another type.
    pub(crate) fn is_wrong_type(&self) -> bool {
        self.0.is_refusal && self.0.message.contains("WRONGTYPE")
    }
}

impl From<LinkError> for ConnectError {
    fn from(error: LinkError) -> ConnectError {
        ConnectError::new(error.to_string())
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for ConnectError {}

/// An error of the client library in words that say what to do.
fn what(error: &RedisError) -> String {
    let detail = error.detail().unwrap_or_default();
    match error.kind() {
        ErrorKind::AuthenticationFailed => {
            format!("refuses the user name or password ({})", one_line(detail))
        }
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => {
            "does not answer as a Redis server does; allowed: the RESP port of Redis, Valkey or whered"
                .to_owned()
        }
        ErrorKind::Server(ServerErrorKind::BusyLoading) => {
            "is still loading its data; try again later".to_owned()
        }
        ErrorKind::Server(_) | ErrorKind::Extension => {
            let code = error.code().unwrap_or("ERR");
            match code {
                "NOAUTH" => {
                    "wants a password; allowed: --password-file FILE or WHERED_PASSWORD of a command, \
                     the URL of a stream"
                        .to_owned()
                },
                _ => one_line(&format!("{code} {detail}")),
            }
        }
        ErrorKind::Io if error.is_timeout() => {
            "does not answer in time; is it the RESP port of a Redis?".to_owned()
        }
        ErrorKind::Io if error.is_connection_dropped() && !error.is_connection_refusal() => {
            format!("closed the connection ({})", one_line(&error.to_string()))
        }
        _ => one_line(&error.to_string()),
    }
}

/// No more than one line, whatever a stranger's server writes, and not an endless one.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(300).collect()
}
