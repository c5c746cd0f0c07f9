//! Reasons for the requests that never reach a route.
//!
//! For: what the HTTP library refuses by itself (no HTTP at all, wrong lengths, headers or a URI
//! beyond its limits). It answers with a bare status and offers no hook, so its bytes are
//! recognised on their way out and given a body of the listener's own form.
//! Not for: the listener's refusals, which have a body from the start; that is how they are told
//! apart.

use super::error::{ErrorBody, ErrorCode};

/// The whole response to send instead, when these bytes are a refusal without a body. `head` is the
/// beginning of what the client has sent.
///
/// Cost: one comparison of the first bytes for every other response.
pub(super) fn with_reason(response: &[u8], head_sent: &[u8]) -> Option<Vec<u8>> {
    let status = response.strip_prefix(b"HTTP/1.1 4")?;
    let head = response.strip_suffix(b"\r\n\r\n")?;
    let head = std::str::from_utf8(head).ok()?;
    let mut lines = head.split("\r\n");
    let status_line = lines.next()?;
    let is_empty = |line: &str| line.eq_ignore_ascii_case("content-length: 0");
    if !lines.any(is_empty) {
        return None;
    }
    let (mut status_line, mut field) = (status_line, None);
    let (code, message) = match status.get(..2) {
        Some(b"00") if has_other_coding(head_sent) => {
            (status_line, field) = ("HTTP/1.1 501 Not Implemented", Some("Transfer-Encoding"));
            let message = "Transfer-Encoding is not understood; allowed: chunked alone";
            (ErrorCode::UnsupportedTransferEncoding, message)
        }
        Some(b"14") => (ErrorCode::UriTooLong, "the URI is too long; allowed: 8 KiB"),
        Some(b"31") => {
            let message = "too many or too large headers; allowed: 100, and 400 KiB together";
            (ErrorCode::HeadersTooLarge, message)
        }
        _ => {
            let message = "this is no HTTP/1.1 request; allowed: METHOD /path HTTP/1.1, then \
                           lines of 'name: value', and one right length";
            (ErrorCode::InvalidRequest, message)
        }
    };
    let mut body = serde_json::to_string(&ErrorBody::new(code, field, message)).ok()?;
    body.push('\n');
    Some(
        format!(
            "{status_line}\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes(),
    )
}

/// Whether a request's head names a transfer coding other than `chunked`.
fn has_other_coding(head: &[u8]) -> bool {
    const NAME: &[u8] = b"transfer-encoding:";
    head.split(|byte| *byte == b'\n').any(|line| {
        let (name, value) = line.split_at_checked(NAME.len()).unwrap_or((b"", b""));
        name.eq_ignore_ascii_case(NAME) && !value.trim_ascii().eq_ignore_ascii_case(b"chunked")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_refusal_gets_a_body_and_its_length() {
        let bare = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let full = String::from_utf8(with_reason(bare, b"x").expect("a refusal")).expect("text");
        let (head, body) = full.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        assert!(
            body.starts_with(r#"{"error":{"code":"invalid_request","message":"this is no"#),
            "{body}"
        );
    }

    #[test]
    fn a_request_in_another_transfer_coding_gets_501() {
        let bare = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let status = |head: &[u8]| {
            let full =
                String::from_utf8(with_reason(bare, head).expect("a refusal")).expect("text");
            full[9..12].to_owned()
        };
        assert_eq!(status(b"POST / HTTP/1.1\r\nTRANSFER-encoding:  gzip\r\n\r\n"), "501");
        assert_eq!(status(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), "400");
        assert_eq!(status(b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"), "400");
    }

    #[test]
    fn everything_else_passes_as_it_is() {
        for response in [
            &b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"[..],
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}",
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n",
            b"HTTP/1.1 4",
            b"",
        ] {
            assert_eq!(with_reason(response, b""), None);
        }
    }
}
