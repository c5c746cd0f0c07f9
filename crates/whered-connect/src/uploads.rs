//! Uploads to the feeds of a running server, over its HTTP door.
//!
//! For: sending one upload so often that it is taken once, and asking what became of it. Not for:
//! files, terminals, several at a time (the caller has threads, an `Uploads` may be shared by
//! them).
//!
//! ```text
//! POST ─> 202 taken ─> done             429 ─> waits for Retry-After ─┐
//!   ^     4xx refused ─> the reason     no answer ─> waits a little ──┤
//!   └──────────────── the same Idempotency-Key ───────────────────────┘
//! ```
//!
//! Invariant: whatever is sent again carries the key that it was sent with first.

use std::io;
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;

use crate::{ClientTls, ConnectError, tls};

const CONNECT_TIME: Duration = Duration::from_secs(10);
/// How long an answer may take: the server gives up waiting for its disk earlier.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// How often an upload is sent that gets no answer.
const TRIES: u32 = 6;
/// The first pause between two tries; each is twice the last.
const PAUSE: Duration = Duration::from_millis(200);
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// No server makes a client wait for longer.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// A server's HTTP door.
#[derive(Clone, Debug)]
pub struct Uploads {
    agent: Agent,
    url: String,
    authorization: Option<String>,
}

/// An upload that is on the server's disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// Its id.
    pub id: String,
    /// Whether the server had it before, by its key.
    pub repeated: bool,
}

/// An upload to send.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingUpload<'a> {
    /// Its bytes, packed or not.
    pub bytes: &'a [u8],
    /// What they are packed with: `identity`, `gzip` or `zstd`.
    pub encoding: &'a str,
    /// What tells it from all other uploads of the feed.
    pub key: &'a str,
    /// The name of its file, for feeds that take a value from it.
    pub file_name: Option<&'a str>,
    /// Headers for feeds that take a value from them.
    pub headers: &'a [(String, String)],
    /// Query parameters for feeds that take a value from them.
    pub query: &'a [(String, String)],
}

/// Why an upload was not taken.
#[derive(Debug)]
pub enum NotTaken {
    /// The server does not want this upload, however often it is sent.
    Refused(ConnectError),
    /// The server cannot be reached, or cannot keep anything.
    Unreachable(ConnectError),
}

impl Uploads {
    /// A server at `http://HOST[:PORT]` or `https://HOST[:PORT]`, with the bearer token it wants.
    ///
    /// # Errors
    /// The URL is of another kind, or there is something wrong with the certificates.
    pub fn new(url: &str, token: Option<&str>, tls: &ClientTls) -> Result<Uploads, ConnectError> {
        let is_tls = url.starts_with("https://");
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        let rest = rest.map(|rest| rest.trim_end_matches('/'));
        let is_right = |rest: &&str| !rest.is_empty() && !rest.contains(['/', '?', '#', '@', ' ']);
        if rest.filter(is_right).is_none() {
            let message = format!(
                "'{}' is no address of a server; allowed: http://HOST[:PORT], https://HOST[:PORT]",
                url.rsplit('@').next().unwrap_or_default()
            );
            return Err(ConnectError::new(message));
        }
        let mut config = Agent::config_builder();
        if is_tls {
            config = config.tls_config(tls::for_http(tls)?);
        }
        let agent = config
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIME))
            .timeout_recv_response(Some(ANSWER_TIME))
            .timeout_recv_body(Some(ANSWER_TIME))
            .build()
            .into();
        let authorization = token.map(|token| format!("Bearer {token}"));
        Ok(Uploads { agent, url: url.trim_end_matches('/').to_owned(), authorization })
    }

    /// Sends an upload until the server has it or does not want it.
    ///
    /// # Errors
    /// It was refused, or the server does not answer.
    pub fn send(&self, feed: &str, upload: &OutgoingUpload<'_>) -> Result<Receipt, NotTaken> {
        let mut pause = PAUSE;
        let mut tries = 0;
        loop {
            let error = match self.try_send(feed, upload)? {
                Answer::Taken(taken) => return Ok(taken),
                Answer::Later(after) => {
                    rest(after);
                    continue;
                }
                Answer::None(error) => error,
            };
            tries += 1;
            if tries == TRIES {
                return Err(NotTaken::Unreachable(error));
            }
            rest(pause);
            pause *= 2;
        }
    }

    fn try_send(&self, feed: &str, upload: &OutgoingUpload<'_>) -> Result<Answer, NotTaken> {
        let url = format!("{}/v1/feeds/{feed}", self.url);
        let mut request = self.agent.post(&url).header("Idempotency-Key", upload.key);
        if upload.encoding != "identity" {
            request = request.header("Content-Encoding", upload.encoding);
        }
        if let Some(name) = upload.file_name {
            let disposition = format!("attachment; filename*=UTF-8''{}", percent_encoded(name));
            request = request.header("Content-Disposition", disposition);
        }
        for (name, text) in upload.headers {
            request = request.header(name, text);
        }
        for (name, text) in upload.query {
            request = request.query(name, text);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let mut response = match request.send(upload.bytes) {
            Ok(response) => response,
            Err(ureq::Error::BadUri(what)) => return Err(NotTaken::Refused(self.error(&what))),
            Err(error) => return Ok(Answer::None(self.error(&error.to_string()))),
        };
        let status = response.status().as_u16();
        let retry_after = response.headers().get("retry-after");
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        let text = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let body: Value =
            text.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        match status {
            202 => {
                let Some(id) = body["id"].as_str() else {
                    return Ok(Answer::None(self.error("answers without the upload's id")));
                };
                let repeated = body["repeated"] == Value::Bool(true);
                Ok(Answer::Taken(Receipt { id: id.to_owned(), repeated }))
            }
            429 => {
                let after = retry_after.map_or(RETRY_AFTER, Duration::from_secs);
                Ok(Answer::Later(after.min(RETRY_AFTER_MAX)))
            }
            500.. => Ok(Answer::None(self.error(&reason(status, &body)))),
            _ => Err(NotTaken::Refused(self.error(&reason(status, &body)))),
        }
    }

    /// What a path of the door answers.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub fn get(&self, path: &str) -> Result<Value, ConnectError> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let mut response = request.call().map_err(|error| match &error {
            ureq::Error::Io(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {
                ConnectError::absent(format!("{}: {error}", self.url))
            }
            _ => self.error(&error.to_string()),
        })?;
        let status = response.status().as_u16();
        let text = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let text = text.map_err(|error| self.error(&error.to_string()))?;
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        match status {
            200 if !body.is_null() => Ok(body),
            _ => Err(self.error(&reason(status, &body))),
        }
    }

    fn error(&self, what: &str) -> ConnectError {
        ConnectError::new(format!("{}: {what}", self.url))
    }
}

/// A text in a header's parameter (RFC 8187), or in one segment of a path.
pub fn percent_encoded(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

enum Answer {
    Taken(Receipt),
    Later(Duration),
    None(ConnectError),
}

/// The server's own words, without what could disturb a terminal.
fn reason(status: u16, body: &Value) -> String {
    match body["error"]["message"].as_str() {
        Some(message) => message.chars().filter(|letter| !letter.is_control()).take(500).collect(),
        None => format!("answers with status {status}; is it the HTTP port of a whered?"),
    }
}

#[expect(clippy::disallowed_methods, reason = "there is nothing to wait for but the time itself")]
fn rest(time: Duration) {
    std::thread::sleep(time);
}

/// What bytes are packed with, by how they begin.
pub fn encoding_of(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x1f, 0x8b, ..] => "gzip",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
        _ => "identity",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_servers_are_taken() {
        for url in ["http://127.0.0.1:8080", "http://[::1]:8080/", "http://edge", "https://edge"] {
            assert!(Uploads::new(url, None, &ClientTls::default()).is_ok(), "{url}");
        }
        for url in
            ["ftp://edge", "https://", "http://", "127.0.0.1:8080", "http://a/b", "http://u@h"]
        {
            assert!(Uploads::new(url, None, &ClientTls::default()).is_err(), "{url}");
        }
    }

    #[test]
    fn packed_bytes_are_known_by_their_beginning() {
        assert_eq!(encoding_of(&[0x1f, 0x8b, 8]), "gzip");
        assert_eq!(encoding_of(&[0x28, 0xb5, 0x2f, 0xfd]), "zstd");
        assert_eq!(encoding_of(b"<upload/>"), "identity");
        assert_eq!(encoding_of(b""), "identity");
    }
}
