//! Where a primary is, and with which name and password one gets in there.
//!
//! ```text
//! redis://[USER[:PASSWORD]@]HOST[:PORT]     also valkey://
//! rediss://...                              the same over TLS; also valkeys://
//! unix:///PATH                              a Unix socket
//! ```
//! Not for: opening the connection (`connection`). Invariant: no text for people has the password.

use std::fmt;
use std::path::PathBuf;

use crate::tls::ClientTls;

const DEFAULT_PORT: u16 = 6379;
const ALLOWED: &str = "redis://[USER:PASSWORD@]HOST[:PORT], rediss:// for TLS, unix:///PATH";

/// Where a primary is, and how one gets in.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Host and port, or a path.
    pub endpoint: Endpoint,
    /// Who logs in; without a password nobody does.
    pub credentials: Credentials,
    /// Whether TLS is spoken, and with which certificates.
    pub tls: Option<ClientTls>,
}

/// A user and a password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The user; `None`: the default user.
    pub user: Option<String>,
    /// The password; `None`: nobody logs in.
    pub password: Option<String>,
    /// Whether a primary that wants no password may refuse this one.
    pub is_optional: bool,
}

/// Host and port, or the path of a socket.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Endpoint {
    /// A name or an address (of version 6 without brackets), and a port.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// An address without TLS and password.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Address {
        Address { endpoint, credentials: Credentials::default(), tls: None }
    }

    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it and what is allowed; the password does not stand there.
    pub fn parse(url: &str) -> Result<Address, String> {
        let wrong = |why: &str| Err(format!("{why}; allowed: {ALLOWED}"));
        let Some((scheme, rest)) = url.split_once("://") else {
            return wrong("has no scheme");
        };
        if scheme == "unix" || scheme == "redis+unix" {
            return match rest.starts_with('/') && rest.len() > 1 {
                true => Ok(Address::new(Endpoint::Unix(PathBuf::from(rest)))),
                false => wrong("has no path from the root"),
            };
        }
        let tls = match scheme {
            "redis" | "valkey" => None,
            "rediss" | "valkeys" => Some(ClientTls::default()),
            _ => return wrong("has a scheme that is not known"),
        };
        let (credentials, rest) = Credentials::before(rest)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#']) {
            return wrong("has something behind host and port (a database has a key of its own)");
        }
        let (host, port) = split_port(rest, DEFAULT_PORT)?;
        Ok(Address { endpoint: Endpoint::Tcp(host, port), credentials, tls })
    }
}

impl Credentials {
    /// Takes `USER:PASSWORD@` off the beginning of what stands behind a scheme.
    ///
    /// # Errors
    /// A percent sign without two digits.
    pub fn before(rest: &str) -> Result<(Credentials, &str), String> {
        let Some((credentials, rest)) = rest.rsplit_once('@') else {
            return Ok((Credentials::default(), rest));
        };
        let (user, password) = match credentials.split_once(':') {
            Some((user, password)) => (user, Some(decoded(password)?)),
            None => (credentials, None),
        };
        let user = Some(decoded(user)?).filter(|user| !user.is_empty());
        Ok((Credentials { user, password, is_optional: false }, rest))
    }
}

/// `HOST`, `HOST:PORT`, `[IPv6]` or `[IPv6]:PORT`.
///
/// # Errors
/// No host, or a port that is none.
pub fn split_port(text: &str, default_port: u16) -> Result<(String, u16), String> {
    let wrong = |why: &str| Err(format!("'{text}' {why}; allowed: HOST, HOST:PORT, [IPv6]:PORT"));
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, port.strip_prefix(':').or(Some(""))),
            None => return wrong("has no closing bracket"),
        },
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() || host.contains(|letter: char| letter.is_whitespace()) {
        return wrong("has no host");
    }
    match port.map(str::parse) {
        None => Ok((host.to_owned(), default_port)),
        Some(Ok(port)) if port != 0 => Ok((host.to_owned(), port)),
        Some(_) => wrong("has no port from 1 to 65535"),
    }
}

/// Undoes percent signs.
fn decoded(text: &str) -> Result<String, String> {
    let wrong = || "has a percent sign without two digits in the user or password".to_owned();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next()), digit(rest.next()));
        let (Some(high), Some(low)) = (high, low) else { return Err(wrong()) };
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Endpoint::Tcp(host, port) => write!(f, "{host}:{port}"),
            Endpoint::Unix(path) => path.display().fmt(f),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { endpoint, credentials, tls } = self;
        write!(f, "Address({endpoint}, {credentials:?}, TLS: {})", tls.is_some())
    }
}

impl fmt::Debug for Credentials {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Credentials { user, password, .. } = self;
        write!(f, "user: {user:?}, password: {}", password.is_some())
    }
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
