//! A connection to a RESP server, with a name that holds no password.
//!
//! For: opening it with all that can be wrong told in one line, single requests, and packed
//! requests whose replies are fetched later. Not for: what is asked.
//!
//! Invariant: after an error that is no refusal the connection is not used again. Every read and
//! write ends after [`PATIENCE`], so that a server that says nothing holds nobody for ever.

use std::time::Duration;

use redis::{
    Client, Cmd, Connection, ConnectionInfo, ConnectionLike, FromRedisValue, IntoConnectionInfo,
    Value,
};

use crate::error::ConnectError;

/// How long opening may take.
const OPENING: Duration = Duration::from_secs(10);
/// How long one answer may take. A source that saves or rewrites its file is slow, not dead.
const PATIENCE: Duration = Duration::from_secs(120);
const ALLOWED_URL: &str =
    "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] or unix:///PATH[?db=DATABASE]";

/// A server that is connected to, and has answered a PING.
pub struct Server {
    connection: Connection,
    name: String,
    number: i64,
}

impl Server {
    /// Connects, authenticates, chooses the URL's numbered database and says PING.
    ///
    /// # Errors
    ///
    /// A URL that is none, nobody there, a password that is missing or wrong, no such database,
    /// something that is not a Redis: one line each, in which the password never stands.
    pub fn open(url: &str) -> Result<Server, ConnectError> {
        let info = connection_info(url)?;
        let name = info.addr().to_string();
        let number = info.redis_settings().db();
        let fail = |error| ConnectError::from_redis(&name, &error);
        let client = Client::open(info).map_err(fail)?;
        let connection = client.get_connection_with_timeout(OPENING).map_err(fail)?;
        connection.set_read_timeout(Some(OPENING)).map_err(fail)?;
        connection.set_write_timeout(Some(PATIENCE)).map_err(fail)?;
        let mut server = Server { connection, name, number };
        server.query::<Value>(&redis::cmd("PING"))?;
        let patient = server.connection.set_read_timeout(Some(PATIENCE));
        patient.map_err(|error| ConnectError::from_redis(&server.name, &error))?;
        Ok(server)
    }

    /// Whether a URL is one, without connecting.
    ///
    /// # Errors
    ///
    /// One line, in which the password does not stand.
    #[cfg(feature = "streams")]
    pub(crate) fn check_url(url: &str) -> Result<(), ConnectError> {
        connection_info(url).map(|_| ())
    }

    /// Host and port, or the socket's path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The numbered database that is chosen.
    pub fn number(&self) -> i64 {
        self.number
    }

    /// Asks for something whose answer is one line, and waits for it.
    ///
    /// # Errors
    ///
    /// The server's refusal, or whatever is wrong with the connection.
    pub fn command(&mut self, words: &[&str]) -> Result<String, ConnectError> {
        let mut command = Cmd::new();
        command.arg(words);
        self.query(&command)
    }

    /// Chooses a numbered database.
    pub(crate) fn select(&mut self, number: i64) -> Result<(), ConnectError> {
        if self.number != number {
            self.query::<Value>(redis::cmd("SELECT").arg(number))?;
            self.number = number;
        }
        Ok(())
    }

    /// Asks and waits for the answer.
    pub(crate) fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, ConnectError> {
        self.send(&command.get_packed_command())?;
        let value = self.receive()?;
        T::from_redis_value(value)
            .map_err(|error| ConnectError::from_redis(&self.name, &error.into()))
    }

    /// Sends packed commands, whose replies are to be received one by one.
    pub(crate) fn send(&mut self, packed: &[u8]) -> Result<(), ConnectError> {
        if packed.is_empty() {
            // A page of a scan may hold no member; the client library calls that an error.
            return Ok(());
        }
        let sent = self.connection.send_packed_command(packed);
        sent.map_err(|error| ConnectError::from_redis(&self.name, &error))
    }

    /// The next reply; an error reply is an error that [`ConnectError::is_refusal`].
    pub(crate) fn receive(&mut self) -> Result<Value, ConnectError> {
        let received = self.connection.recv_response().and_then(Value::extract_error);
        received.map_err(|error| ConnectError::from_redis(&self.name, &error))
    }

    /// Which of these commands the server has.
    pub(crate) fn knows(&mut self, commands: &[&str]) -> Result<Vec<bool>, ConnectError> {
        let found: Vec<Value> = self.query(redis::cmd("COMMAND").arg("INFO").arg(commands))?;
        Ok((0..commands.len())
            .map(|place| matches!(found.get(place), Some(Value::Array(found)) if !found.is_empty()))
            .collect())
    }

    /// Whether the connection can still be used.
    pub fn is_open(&self) -> bool {
        self.connection.is_open()
    }
}

/// Reads a URL.
fn connection_info(url: &str) -> Result<ConnectionInfo, ConnectError> {
    // What stands before the @ may be a password.
    let shown = url.rsplit('@').next().unwrap_or_default();
    let wrong = |why: &str| {
        ConnectError::new(format!("'{shown}' is no URL of a server{why}; allowed: {ALLOWED_URL}"))
    };
    url.into_connection_info().map_err(|error| {
        let is_tls = url.starts_with("rediss://") || url.starts_with("valkeys://");
        match error.detail() {
            _ if is_tls => wrong(" that can be reached: TLS is not built in"),
            Some(detail) => wrong(&format!(" ({detail})")),
            None => wrong(""),
        }
    })
}
