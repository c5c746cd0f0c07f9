//! The server that a command asks: its URL, and the password for it.
//!
//! For: every command with `--server`. Not for: connecting, which is `whered-connect`'s.
//!
//! A password comes from `--password-file`, else from the environment, else from the URL. One in a
//! URL on the command line is readable for every user of the machine, which a remark says; no
//! message has it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use whered_connect::uploads::Uploads;
use whered_connect::{ClientTls, Server, ServerAddress};

use crate::outcome::{Failure, complain};

/// Environment variables with the password of a RESP server, in the order in which they count.
const PASSWORDS: [&str; 2] = ["WHERED_PASSWORD", "REDISCLI_AUTH"];
/// Environment variables with the token of an HTTP server.
const TOKENS: [&str; 2] = ["WHERED_TOKEN", "WHERED_PASSWORD"];
/// A file with more than this has no password.
const PASSWORD_BYTES_MAX: usize = 64 << 10;

/// A server that is asked over RESP.
#[derive(Args)]
pub(crate) struct RespServer {
    /// Server: redis:// or rediss://[USER@]HOST[:PORT][/DATABASE], or unix:///PATH
    #[arg(long, value_name = "URL", default_value = "redis://127.0.0.1:6380")]
    pub(crate) server: String,
    /// File with the password; without it, WHERED_PASSWORD or REDISCLI_AUTH
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: TlsFiles,
}

/// The certificates of a connection.
#[derive(Args, Clone)]
pub(crate) struct TlsFiles {
    /// PEM file with the authorities that the server's certificate is of; without it, the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// PEM file with a client certificate, for servers that ask for one
    #[arg(long, value_name = "FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// PEM file with the key of the client certificate
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
}

impl TlsFiles {
    pub(crate) fn read(&self) -> Result<ClientTls, Failure> {
        let read = |path: &PathBuf| fs::read(path).map_err(|error| Failure::file(path, error));
        let identity = match (&self.cert_file, &self.key_file) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            _ => None,
        };
        Ok(ClientTls { authorities: self.ca_file.as_ref().map(read).transpose()?, identity })
    }
}

impl RespServer {
    /// Whether the URL is one of HTTP, for commands that know both.
    pub(crate) fn is_http(&self) -> bool {
        ["http://", "https://"].iter().any(|scheme| self.server.starts_with(scheme))
    }

    /// The address, with a remark on a password in it.
    pub(crate) fn address(&self) -> Result<ServerAddress, Failure> {
        self.address_by(&PASSWORDS)
    }

    pub(crate) fn open(&self) -> Result<Server, Failure> {
        self.open_by(&PASSWORDS)
    }

    /// With a password from one of these variables.
    pub(crate) fn open_by(&self, variables: &[&str]) -> Result<Server, Failure> {
        Server::connect(&self.address_by(variables)?).map_err(Failure::new)
    }

    fn address_by(&self, variables: &[&str]) -> Result<ServerAddress, Failure> {
        let address = address(&self.server, self.password_file.as_deref(), variables)?;
        Ok(address.with_tls(self.tls.read()?))
    }
}

/// The address of a RESP server whose password is in a file or in one of these variables.
pub(crate) fn address(
    url: &str,
    password_file: Option<&Path>,
    variables: &[&str],
) -> Result<ServerAddress, Failure> {
    let address = ServerAddress::new(url);
    if address.has_password() {
        remark("a password in a URL");
    }
    Ok(match secret(password_file, variables)? {
        Some(Secret::OfFile(password)) => address.with_password(password),
        Some(Secret::OfEnvironment(password)) if !address.has_password() => {
            address.with_default_password(password)
        }
        _ => address,
    })
}

/// A server that is asked over HTTP.
#[derive(Args)]
pub(crate) struct HttpServer {
    /// Server: http:// or https://HOST[:PORT]
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    pub(crate) server: String,
    /// File with the bearer token; without it, WHERED_TOKEN or WHERED_PASSWORD
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Bearer token, which other users of the machine can read
    #[arg(long, value_name = "TOKEN", conflicts_with = "password_file")]
    pub(crate) token: Option<String>,
    #[command(flatten)]
    pub(crate) tls: TlsFiles,
}

impl HttpServer {
    /// The HTTP server at the URL of a command that knows both.
    pub(crate) fn of(server: &RespServer) -> HttpServer {
        let RespServer { server, password_file, tls } = server;
        let (server, password_file) = (server.clone(), password_file.clone());
        HttpServer { server, password_file, token: None, tls: tls.clone() }
    }

    pub(crate) fn open(&self) -> Result<Uploads, Failure> {
        let is_resp =
            ["redis://", "rediss://", "unix://"].iter().any(|kind| self.server.starts_with(kind));
        if is_resp {
            let shown = self.server.rsplit('@').next().unwrap_or_default();
            return Err(Failure::new(format!(
                "'{shown}' is a RESP server, and feeds are reached by HTTP alone; allowed: \
                 --server http://HOST[:PORT] or https://HOST[:PORT]"
            )));
        }
        let token = match &self.token {
            Some(token) => {
                remark("a token");
                Some(token.clone())
            }
            None => secret(self.password_file.as_deref(), &TOKENS)?.map(Secret::into_text),
        };
        Uploads::new(&self.server, token.as_deref(), &self.tls.read()?).map_err(Failure::new)
    }
}

fn remark(what: &str) {
    complain(&format!(
        "remark: {what} on the command line is readable for other users of this machine; allowed: \
         --password-file FILE, or the environment"
    ));
}

/// A password or token.
enum Secret {
    /// It was named for this call.
    OfFile(String),
    /// It may be meant for other servers, too.
    OfEnvironment(String),
}

impl Secret {
    fn into_text(self) -> String {
        match self {
            Secret::OfFile(text) | Secret::OfEnvironment(text) => text,
        }
    }
}

/// The first line of the file, or the first variable that is there.
fn secret(file: Option<&Path>, variables: &[&str]) -> Result<Option<Secret>, Failure> {
    let Some(file) = file else {
        let mut texts = variables.iter().filter_map(|name| env::var(name).ok());
        return Ok(texts.find(|text| !text.is_empty()).map(Secret::OfEnvironment));
    };
    let text = fs::read(file).map_err(|error| Failure::file(file, error))?;
    let line = text.split(|byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or_default();
    match str::from_utf8(line) {
        Ok(line) if !line.is_empty() && text.len() <= PASSWORD_BYTES_MAX => {
            Ok(Some(Secret::OfFile(line.to_owned())))
        }
        _ => Err(Failure::file(file, "has no password; allowed: one line of text")),
    }
}
