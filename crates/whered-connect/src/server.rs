//! A connection to a RESP server, with a name that holds no password.
//!
//! For: opening it with all that can be wrong told in one line, single requests, and packed
//! requests whose replies are fetched later. Not for: what is asked.
//!
//! Invariant: after an error that is no refusal the connection is not used again. Every read and
//! write ends after [`PATIENCE`], so that a server that says nothing holds nobody for ever.

use std::net::IpAddr;
use std::time::Duration;

use redis::{
    Client, Cmd, Connection, ConnectionAddr, ConnectionInfo, ConnectionLike, FromRedisValue,
    IntoConnectionInfo, Value,
};

use whered_replication::{Address, ClientTls, Credentials, Endpoint};

use crate::error::ConnectError;
use crate::tls;

/// How long opening may take.
const OPENING: Duration = Duration::from_secs(10);
/// How long one answer may take. A source that saves or rewrites its file is slow, not dead.
const PATIENCE: Duration = Duration::from_secs(120);
const ALLOWED_URL: &str =
    "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], rediss:// or unix:///PATH[?db=DATABASE]";

/// The address of a server, and the credentials for it.
#[derive(Clone)]
pub struct ServerAddress {
    url: String,
    password: Option<String>,
    /// The password is left out where the server has none.
    is_default: bool,
    tls: ClientTls,
}

impl ServerAddress {
    /// A server by its URL, which may have a password.
    #[must_use]
    pub fn new(url: &str) -> ServerAddress {
        ServerAddress {
            url: url.to_owned(),
            password: None,
            is_default: false,
            tls: ClientTls::default(),
        }
    }

    /// With a password for the user of the URL, or for the default user.
    #[must_use]
    pub fn with_password(self, password: String) -> ServerAddress {
        ServerAddress { password: Some(password), is_default: false, ..self }
    }

    /// As [`with_password`](Self::with_password), for servers that want one.
    #[must_use]
    pub fn with_default_password(self, password: String) -> ServerAddress {
        ServerAddress { password: Some(password), is_default: true, ..self }
    }

    /// With certificates for `rediss`.
    #[must_use]
    pub fn with_tls(self, tls: ClientTls) -> ServerAddress {
        ServerAddress { tls, ..self }
    }

    /// Whether the URL has a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        connection_info(&self.url).is_ok_and(|info| info.redis_settings().password().is_some())
    }

    /// The URL without what may be a password.
    #[must_use]
    pub fn shown(&self) -> &str {
        self.url.rsplit('@').next().unwrap_or_default()
    }

    /// Whether the server is on this machine, by its name.
    #[must_use]
    pub fn is_local(&self) -> bool {
        connection_info(&self.url).is_ok_and(|info| match info.addr() {
            ConnectionAddr::Unix(_) => true,
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => {
                let address = bare(host).parse::<IpAddr>();
                host == "localhost" || address.is_ok_and(|address| address.is_loopback())
            }
            _ => false,
        })
    }

    /// The address as replication takes it.
    pub(crate) fn primary(&self) -> Result<Address, ConnectError> {
        let info = self.connection_info()?;
        let (endpoint, is_tls) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => (Endpoint::Tcp(bare(host), *port), false),
            ConnectionAddr::TcpTls { host, port, .. } => (Endpoint::Tcp(bare(host), *port), true),
            ConnectionAddr::Unix(path) => (Endpoint::Unix(path.clone()), false),
            _ => return Err(ConnectError::new(format!("'{}': no such socket", self.shown()))),
        };
        let settings = info.redis_settings();
        let credentials = Credentials {
            user: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            is_optional: self.is_default,
        };
        Ok(Address { endpoint, credentials, tls: is_tls.then(|| self.tls.clone()) })
    }

    /// Host and port or path, and the credentials.
    pub(crate) fn connection_info(&self) -> Result<ConnectionInfo, ConnectError> {
        let info = connection_info(&self.url)?;
        let Some(password) = &self.password else { return Ok(info) };
        let settings = info.redis_settings().clone();
        if settings.password().is_some() {
            let message = format!("'{}' has a password already; allowed: one", self.shown());
            return Err(ConnectError::new(message));
        }
        Ok(info.set_redis_settings(settings.set_password(password)))
    }
}

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
        Server::connect(&ServerAddress::new(url))
    }

    /// As [`open`](Self::open), with a password from elsewhere.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); the URL has a password, too.
    pub fn connect(address: &ServerAddress) -> Result<Server, ConnectError> {
        match Server::open_by(address.connection_info()?, &address.tls) {
            Err(error) if address.is_default && error.is_authentication() => {
                // A server that wants none says so in words that the client library keeps.
                let opened = Server::open_by(connection_info(&address.url)?, &address.tls);
                opened.map_err(|_| error)
            }
            opened => opened,
        }
    }

    fn open_by(info: ConnectionInfo, tls: &ClientTls) -> Result<Server, ConnectError> {
        let name = info.addr().to_string();
        let number = info.redis_settings().db();
        let fail = |error| ConnectError::from_redis(&name, &error);
        let client = match info.addr() {
            ConnectionAddr::TcpTls { .. } => Client::build_with_tls(info, tls::for_redis(tls)),
            _ => Client::open(info),
        };
        let client = client.map_err(fail)?;
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

    /// Asks for something whose answer is a list of numbers, and waits for it.
    ///
    /// # Errors
    ///
    /// As [`Server::command`].
    pub fn numbers(&mut self, words: &[&str]) -> Result<Vec<i64>, ConnectError> {
        let mut command = Cmd::new();
        command.arg(words);
        self.query(&command)
    }

    /// How long an answer may take from now on.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn set_patience(&mut self, patience: Duration) -> Result<(), ConnectError> {
        let set = self.connection.set_read_timeout(Some(patience));
        set.map_err(|error| ConnectError::from_redis(&self.name, &error))
    }

    /// Has the server stop. It answers nothing then, and closes the connection.
    ///
    /// # Errors
    ///
    /// The server's refusal, or no end of the connection in time.
    pub fn shut_down(&mut self) -> Result<(), ConnectError> {
        match self.query::<Value>(&redis::cmd("SHUTDOWN")) {
            Err(error) if error.is_refusal() || self.is_open() => Err(error),
            _ => Ok(()),
        }
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

/// A host without the brackets of an address of version 6.
fn bare(host: &str) -> String {
    host.trim_matches(['[', ']']).to_owned()
}

/// Reads a URL.
fn connection_info(url: &str) -> Result<ConnectionInfo, ConnectError> {
    // What stands before the @ may be a password.
    let shown = url.rsplit('@').next().unwrap_or_default();
    let wrong = |why: &str| {
        ConnectError::new(format!("'{shown}' is no URL of a server{why}; allowed: {ALLOWED_URL}"))
    };
    url.into_connection_info().map_err(|error| match error.detail() {
        Some(detail) => wrong(&format!(" ({detail})")),
        None => wrong(""),
    })
}
