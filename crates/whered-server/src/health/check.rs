//! One check of a site: what is asked, how often, and how many answers make it up or down.
//!
//! Not for: reading the configuration (`config::checks`), asking (`probe`).

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The checks of one site; it is up while all of them are.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteChecks {
    /// The pool's name.
    pub pool: String,
    /// The site's name.
    pub site: String,
    /// At least one.
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What is asked.
    pub target: Target,
    /// From the begin of one probe to that of the next.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// This many good answers in a row bring a check up that was down.
    pub up_after: u32,
    /// This many failures in a row bring a check down that was up.
    pub down_after: u32,
}

impl Check {
    /// A check with the usual times.
    pub fn new(target: Target) -> Check {
        Check {
            target,
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(3),
            up_after: 2,
            down_after: 3,
        }
    }
}

/// What a check asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// A TCP connection that is accepted.
    Tcp {
        /// A name or an address without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// An HTTP answer as expected.
    Http(Box<HttpTarget>),
    /// A command that exits with 0.
    Exec {
        /// An absolute path.
        program: PathBuf,
        /// What it is given, as it is: there is no shell.
        arguments: Vec<String>,
    },
}

/// What is asked over HTTP, and what is expected.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpTarget {
    /// Whether it is HTTPS.
    pub is_https: bool,
    /// A name or an address without brackets: where the connection goes.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Path and query, from the slash on.
    pub path: String,
    /// What the `Host` header and the certificate name, if that is not the host.
    pub name: Option<String>,
    /// The status codes that are good.
    pub statuses: Vec<u16>,
    /// What the body must contain, if that matters.
    pub body: Option<String>,
    /// Who may have signed the certificate, in PEM; `None`: whom the system trusts.
    pub ca: Option<PathBuf>,
}

impl Target {
    /// Reads `tcp://HOST:PORT`, `http://HOST[:PORT][/PATH]`, `https://...`, or
    /// `exec:/PATH [ARGUMENT ...]`.
    ///
    /// # Errors
    /// What is wrong, to be put behind the text.
    pub fn parse(text: &str) -> Result<Target, &'static str> {
        if text.chars().any(char::is_control) {
            return Err("has a control character");
        }
        if let Some(command) = text.strip_prefix("exec:") {
            let mut words = command.split_ascii_whitespace().map(str::to_owned);
            let program = words.next().filter(|program| program.starts_with('/'));
            let program = program.ok_or("has no absolute path behind 'exec:'")?.into();
            return Ok(Target::Exec { program, arguments: words.collect() });
        }
        let (scheme, rest) = text.split_once("://").ok_or("is no URL")?;
        if rest.contains([' ', '@', '#']) {
            return Err("has a space, a user or a fragment");
        }
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let (host, port) = host_and_port(authority)?;
        let usual_port = match scheme {
            "tcp" if !path.is_empty() => return Err("has a path, which TCP has not"),
            "tcp" => {
                return Ok(Target::Tcp { host, port: port.ok_or("has no port")? });
            }
            "http" => 80,
            "https" => 443,
            _ => return Err("has an unknown scheme"),
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Target::Http(Box::new(HttpTarget {
            is_https: scheme == "https",
            host,
            port: port.unwrap_or(usual_port),
            path,
            name: None,
            statuses: vec![200],
            body: None,
            ca: None,
        })))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bracketed = |host: &str| match host.contains(':') {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        match self {
            Target::Tcp { host, port } => write!(f, "tcp://{}:{port}", bracketed(host)),
            Target::Http(http) => {
                let scheme = if http.is_https { "https" } else { "http" };
                write!(f, "{scheme}://{}:{}{}", bracketed(&http.host), http.port, http.path)
            }
            Target::Exec { program, arguments } => {
                write!(f, "exec:{}", program.display())?;
                arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
            }
        }
    }
}

/// `host`, `host:port`, `[ipv6]` or `[ipv6]:port`.
fn host_and_port(authority: &str) -> Result<(String, Option<u16>), &'static str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']').ok_or("has '[' without ']'")?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| "has no IPv6 address in '[]'")?;
            match behind.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if behind.is_empty() => (host, None),
                None => return Err("has something between ']' and the port"),
            }
        }
        None => match authority.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("has an IPv6 address without '[]'");
            }
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err("has no host");
    }
    let port = port.map(|port| port.parse().ok().filter(|port| *port != 0));
    match port {
        Some(None) => Err("has a port that is none of 1 to 65535"),
        Some(Some(port)) => Ok((host.to_owned(), Some(port))),
        None => Ok((host.to_owned(), None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_written_alike() {
        for (text, written) in [
            ("tcp://192.0.2.1:443", "tcp://192.0.2.1:443"),
            ("tcp://[2001:db8::1]:53", "tcp://[2001:db8::1]:53"),
            ("http://example.com", "http://example.com:80/"),
            ("https://[::1]/healthz?deep=1", "https://[::1]:443/healthz?deep=1"),
            ("http://a.example:8080?x", "http://a.example:8080/?x"),
            ("exec:/usr/bin/true", "exec:/usr/bin/true"),
            ("exec:/bin/check  -n 3", "exec:/bin/check -n 3"),
        ] {
            assert_eq!(Target::parse(text).map(|target| target.to_string()), Ok(written.into()));
        }
    }

    #[test]
    fn what_is_no_target_is_refused_with_the_reason() {
        for (text, reason) in [
            ("192.0.2.1:443", "is no URL"),
            ("tcp://192.0.2.1", "has no port"),
            ("tcp://192.0.2.1:0", "has a port that is none of 1 to 65535"),
            ("tcp://192.0.2.1:70000", "has a port that is none of 1 to 65535"),
            ("tcp://192.0.2.1:80/x", "has a path, which TCP has not"),
            ("tcp://2001:db8::1:80", "has an IPv6 address without '[]'"),
            ("tcp://[2001:db8::1", "has '[' without ']'"),
            ("tcp://[host]:1", "has no IPv6 address in '[]'"),
            ("http://", "has no host"),
            ("http://user@host/", "has a space, a user or a fragment"),
            ("http://host/a\r\nb", "has a control character"),
            ("ftp://host/", "has an unknown scheme"),
            ("exec:true", "has no absolute path behind 'exec:'"),
            ("exec:", "has no absolute path behind 'exec:'"),
        ] {
            assert_eq!(Target::parse(text), Err(reason), "{text:?}");
        }
    }
}
