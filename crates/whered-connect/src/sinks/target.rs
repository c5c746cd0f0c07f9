//! Which SQL server a sink writes to, as a URL says it.
//!
//! ```text
//! mysql://USER:PASSWORD@HOST[:PORT]/DATABASE[?socket=PATH][&tls=off]
//! postgres://USER:PASSWORD@HOST[:PORT]/DATABASE[?host=FOLDER][&tls=on|off][&ca=FILE]
//! ```
//!
//! Invariants: the password stands in no message. TLS is on unless the server is on this machine or
//! the URL says `tls=off`; certificates are checked against the system's authorities, or those of
//! `ca`. The client of MySQL has no TLS here, so that a server elsewhere needs an explicit
//! `tls=off`.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use super::Database;
use crate::error::ConnectError;

const ALLOWED: &str = "mysql://USER:PASSWORD@HOST[:PORT]/DATABASE or \
    postgres://USER:PASSWORD@HOST[:PORT]/DATABASE, with ?tls=on|off (mysql: off) and ca=FILE";

/// A SQL server and a database of it.
#[derive(Clone)]
pub struct Target {
    server: Server,
    name: String,
}

#[derive(Clone)]
enum Server {
    #[cfg(feature = "mysql")]
    Mysql(Box<mysql::Opts>),
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::Config>, Encryption),
}

/// How the connection is protected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Encryption {
    pub(crate) is_on: bool,
    /// The authorities that are trusted instead of the system's.
    pub(crate) authorities: Option<PathBuf>,
}

impl Target {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// One line, without the password: what is wrong and what is allowed.
    pub fn parse(url: &str) -> Result<Target, ConnectError> {
        // What stands before the @ may be a password.
        let shown = url.rsplit('@').next().unwrap_or_default();
        let wrong = |why: &str| {
            ConnectError::new(format!(
                "'{shown}' is no SQL server's URL ({why}); allowed: {ALLOWED}"
            ))
        };
        let (rest, mut tls, mut authorities) = (url.split_once('?'), None, None);
        let mut cleaned = rest.map_or(url, |(address, _)| address).to_owned();
        let mut mark = '?';
        for pair in rest.map_or("", |(_, query)| query).split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("tls", "on")) => tls = Some(true),
                Some(("tls", "off")) => tls = Some(false),
                Some(("tls", other)) => return Err(wrong(&format!("tls={other}"))),
                Some(("ca", file)) => authorities = Some(PathBuf::from(file)),
                _ => {
                    cleaned.push(mark);
                    cleaned.push_str(pair);
                    mark = '&';
                }
            }
        }
        let protect = |is_local: bool| Encryption { is_on: tls.unwrap_or(!is_local), authorities };
        match cleaned.split_once("://") {
            #[cfg(feature = "mysql")]
            Some(("mysql" | "mariadb", address)) => {
                let opts = mysql::Opts::from_url(&format!("mysql://{address}"))
                    .map_err(|error| wrong(&error.to_string()))?;
                let host = opts.get_ip_or_hostname().into_owned();
                let is_local = opts.get_socket().is_some() || is_this_machine(&host);
                let database = opts.get_db_name().ok_or_else(|| wrong("it names no database"))?;
                let place = match opts.get_socket() {
                    Some(path) => path.to_owned(),
                    None => format!("{host}:{}", opts.get_tcp_port()),
                };
                let name = format!("mysql {place}/{database}");
                if protect(is_local).is_on {
                    return Err(wrong(
                        "TLS to MariaDB and MySQL is not built in; say tls=off, or use a tunnel",
                    ));
                }
                let opts = super::mysql::with_limits(opts);
                Ok(Target { server: Server::Mysql(Box::new(opts)), name })
            }
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", _)) => {
                let config = cleaned.parse::<postgres::Config>();
                let config = config.map_err(|error| wrong(&super::postgres::words(&error)))?;
                let database = config.get_dbname().ok_or_else(|| wrong("it names no database"))?;
                let (places, is_local) = places(&config);
                let name = format!("postgres {places}/{database}");
                let server = Server::Postgres(Box::new(config), protect(is_local));
                Ok(Target { server, name })
            }
            Some((scheme, _)) => Err(wrong(&format!("'{scheme}' is not known here"))),
            None => Err(wrong("it has no ://")),
        }
    }

    /// What it is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn connect(&self) -> Result<Box<dyn Database>, ConnectError> {
        match &self.server {
            #[cfg(feature = "mysql")]
            Server::Mysql(opts) => super::mysql::connect(&self.name, opts),
            #[cfg(feature = "postgres")]
            Server::Postgres(config, encryption) => {
                super::postgres::connect(&self.name, config, encryption)
            }
        }
    }
}

/// Without the password, which its parts hold.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Where a PostgreSQL is, and whether all of that is on this machine.
#[cfg(feature = "postgres")]
fn places(config: &postgres::Config) -> (String, bool) {
    let (mut places, mut is_local) = (Vec::new(), true);
    for host in config.get_hosts() {
        match host {
            postgres::config::Host::Tcp(host) => {
                is_local &= is_this_machine(host);
                let is_v6 = host.contains(':');
                places.push(if is_v6 { format!("[{host}]") } else { host.clone() });
            }
            postgres::config::Host::Unix(path) => places.push(path.display().to_string()),
        }
    }
    let port = config.get_ports().first().copied().unwrap_or(5432);
    (format!("{}:{port}", places.join(",")), is_local)
}

fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(all(test, feature = "mysql", feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_shown_without_its_password() {
        let named = [
            ("mysql://me:secret@db.example/game?tls=off", "mysql db.example:3306/game"),
            ("mariadb://me:secret@127.0.0.1:3307/game", "mysql 127.0.0.1:3307/game"),
            ("mysql://me@localhost/game?socket=/tmp/s.sock", "mysql /tmp/s.sock/game"),
            ("postgres://me:secret@[::1]:5433/game?ca=/a.pem", "postgres [::1]:5433/game"),
            ("postgresql://me@%2Ftmp%2Fpg/game", "postgres /tmp/pg:5432/game"),
        ];
        for (url, name) in named {
            let target = Target::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(target.name(), name, "{url}");
            assert!(!format!("{target:?}").contains("secret"));
        }
        let wrong = [
            "mysql://me:secret@host",
            "oracle://me:secret@host/db",
            "me:secret@host/db",
            "postgres://me:secret@host:x/db",
            "mysql://me:secret@host/db?tls=perhaps",
            "mysql://me:secret@host/db?what=1",
        ];
        for url in wrong {
            let error = Target::parse(url).expect_err(url).to_string();
            assert!(error.contains("allowed: mysql://"), "{url}: {error}");
            assert!(!error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn tls_is_on_for_other_machines_only() {
        for (url, is_on) in [
            ("postgres://u@db.example/d", true),
            ("postgres://u@db.example/d?tls=off", false),
            ("postgres://u@localhost/d", false),
            ("postgres://u@127.0.0.9/d?tls=on", true),
            ("postgres://u@h1,127.0.0.1/d", true),
        ] {
            let target = Target::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            let Server::Postgres(_, encryption) = target.server else { panic!("{url}") };
            assert_eq!(encryption.is_on, is_on, "{url}");
        }
        for url in ["mysql://u@db.example/d", "mysql://u@127.0.0.1/d?tls=on"] {
            let error = Target::parse(url).expect_err(url).to_string();
            assert!(error.contains("TLS to MariaDB and MySQL is not built in"), "{error}");
        }
    }
}
