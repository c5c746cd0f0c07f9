//! The primary that Redis Sentinels name.
//!
//! For: finding the primary at a start and after a failover. Not for: following it, and not for
//! what Sentinels publish.
//!
//! Source: "Guidelines for Redis clients with support for Redis Sentinel" of Redis's documentation.

use crate::address::{Address, Credentials, Endpoint};
use crate::connection::{Connection, Patience};
use crate::error::LinkError;
use crate::reply::Reply;
use crate::tls::ClientTls;

/// Sentinels, how they call a primary, and how one gets in.
#[derive(Clone, Copy, Debug)]
pub struct SentinelQuery<'a> {
    /// The Sentinels; the first that answers counts.
    pub sentinels: &'a [Endpoint],
    /// The primary's name.
    pub name: &'a str,
    /// Who logs in at a Sentinel that wants a password.
    pub credentials: &'a Credentials,
    /// Whether the Sentinels speak TLS.
    pub tls: Option<&'a ClientTls>,
}

impl SentinelQuery<'_> {
    /// Asks one Sentinel after the other, and takes the first answer.
    ///
    /// # Errors
    /// No Sentinel answers, or none knows the name; the error has what the last one said.
    pub fn primary(&self, patience: Patience) -> Result<Endpoint, LinkError> {
        let mut failed = LinkError::new("sentinel", "no Sentinel is named");
        for sentinel in self.sentinels {
            match self.ask(sentinel, patience) {
                Ok(primary) => return Ok(primary),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn ask(&self, sentinel: &Endpoint, patience: Patience) -> Result<Endpoint, LinkError> {
        let tls = self.tls.cloned();
        let mut address = Address { tls, ..Address::new(sentinel.clone()) };
        let words = ["SENTINEL", "get-master-addr-by-name", self.name];
        let mut reply = Connection::open(&address, patience)?.request(&words)?;
        // Most Sentinels want no password, and shall not see that of the primary.
        if matches!(&reply, Reply::Error(error) if error.starts_with("NOAUTH")) {
            address.credentials = self.credentials.clone();
            reply = Connection::open(&address, patience)?.request(&words)?;
        }
        primary_of(&reply, self.name).map_err(|why| LinkError::refusal(&sentinel.to_string(), why))
    }
}

fn primary_of(reply: &Reply, name: &str) -> Result<Endpoint, String> {
    let wrong = || "gives no host and port; allowed: the port of a Sentinel".to_owned();
    match reply {
        Reply::Null => Err(format!("knows no primary '{name}'")),
        Reply::Error(error) => Err(format!("does not name the primary ({error})")),
        Reply::Array(parts) => {
            let [host, port] = &parts[..] else { return Err(wrong()) };
            let host = host.text().filter(|host| !host.is_empty());
            let port = port.text().and_then(|port| port.parse().ok()).filter(|port| *port != 0);
            match (host, port) {
                (Some(host), Some(port)) => Ok(Endpoint::Tcp(host.to_owned(), port)),
                _ => Err(wrong()),
            }
        }
        Reply::Text(_) | Reply::Integer(_) => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::tests::reply_of;

    #[test]
    fn a_primary_is_host_and_port_and_nothing_else() {
        let read = |bytes: &str| primary_of(&reply_of(bytes.as_bytes()), "main");
        let found = read("*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n");
        assert_eq!(found, Ok(Endpoint::Tcp("127.0.0.1".to_owned(), 6379)));
        assert_eq!(read("*-1\r\n"), Err("knows no primary 'main'".to_owned()));
        for wrong in [
            "*2\r\n$9\r\n127.0.0.1\r\n$1\r\n0\r\n",
            "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n65536\r\n",
            "*2\r\n$0\r\n\r\n$4\r\n6379\r\n",
            "*2\r\n$1\r\na\r\n:1\r\n",
            "*1\r\n$1\r\na\r\n",
            "*0\r\n",
            "+OK\r\n",
            ":1\r\n",
            "-ERR unknown command 'SENTINEL'\r\n",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
