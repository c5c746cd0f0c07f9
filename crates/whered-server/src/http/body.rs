//! The body of an upload: into one buffer or into pieces as they came, never more than is allowed,
//! all of them together within one account.
//!
//! The small bodies of JSON too.
//!
//! Not for: what an upload or a member is (the engine, the routes).
//!
//! ```text
//! frames of the connection ─┬─ large ────> kept as they are          (no copy before the spool's)
//!            │              └─ small ────> Vec                      (the only one)
//!            │ longer than its limit: 413      │ all bodies together too large: 429
//!            └ cut off: 400, nothing is kept   └ the account gets it back with the buffers
//! ```
//!
//! Invariant: a buffer's capacity is in the account before it is allocated, and a frame when it has
//! come, with a quarter at least of what it keeps. What a client announces is believed up to
//! [`BELIEVED_BYTES`]; beyond that the buffer grows with what has come.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::error::{ErrorCode, HttpError};

/// A frame of this size is kept as it is.
const PIECE_BYTES_MIN: usize = 32 << 10;
/// It keeps the buffer that the connection has read it into, 128 KiB as a rule and half a MiB in
/// the worst case, and takes so much of the account at least.
const PIECE_TAKES_BYTES_MIN: usize = 128 << 10;
/// A body of more than this is put together: its frames may keep several times of what they are.
const PIECES_BYTES_MAX: usize = 1 << 20;
/// How much of an announced length is allocated at once.
const BELIEVED_BYTES: usize = 1 << 20;
/// How much of a refused body is read, so that its sender comes to read the answer.
const DRAINED_BYTES: usize = 4 << 20;
/// How long to wait for more of a body that was refused.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// What the bodies of all requests take together.
#[derive(Debug)]
pub(super) struct BodyAccount {
    used_bytes: AtomicUsize,
    limit_bytes: usize,
}

impl BodyAccount {
    /// An empty account.
    pub(super) fn new(limit_bytes: usize) -> Arc<BodyAccount> {
        Arc::new(BodyAccount { used_bytes: AtomicUsize::new(0), limit_bytes })
    }

    fn take(&self, bytes: usize) -> bool {
        let used = self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = used.saturating_add(bytes) <= self.limit_bytes;
        if !fits {
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }
}

/// A body that was read, in the account while it lives.
#[derive(Debug)]
pub(super) struct Upload {
    pieces: Vec<Bytes>,
    /// What comes after the pieces.
    bytes: Vec<u8>,
    /// Of both.
    size_bytes: usize,
    account: Arc<BodyAccount>,
    taken_bytes: usize,
}

impl Upload {
    /// What was sent, in order; at least one piece.
    pub(super) fn pieces(&self) -> Vec<&[u8]> {
        let mut pieces: Vec<&[u8]> = self.pieces.iter().map(|piece| &piece[..]).collect();
        if pieces.is_empty() || !self.bytes.is_empty() {
            pieces.push(&self.bytes);
        }
        pieces
    }

    /// How much was sent.
    pub(super) fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    fn new(account: &Arc<BodyAccount>) -> Upload {
        let (pieces, bytes) = (Vec::new(), Vec::new());
        Upload { pieces, bytes, size_bytes: 0, account: Arc::clone(account), taken_bytes: 0 }
    }

    /// Keeps a frame as it is.
    fn keep(&mut self, frame: Bytes) -> bool {
        let takes_bytes = frame.len().max(PIECE_TAKES_BYTES_MIN);
        if !self.account.take(takes_bytes) {
            return false;
        }
        self.taken_bytes += takes_bytes;
        self.size_bytes += frame.len();
        if !self.bytes.is_empty() {
            self.pieces.push(mem::take(&mut self.bytes).into());
        }
        self.pieces.push(frame);
        true
    }

    /// Appends a frame's bytes.
    fn append(&mut self, frame: &[u8], announced: Option<usize>, limit: usize) -> bool {
        let has_room = self.grow(frame.len(), announced, limit);
        if has_room {
            self.bytes.extend_from_slice(frame);
            self.size_bytes += frame.len();
        }
        has_room
    }

    /// Makes room for more, to a power of two where the length was not announced.
    fn grow(&mut self, more_bytes: usize, announced: Option<usize>, limit: usize) -> bool {
        let needed = self.bytes.len() + more_bytes;
        if needed <= self.bytes.capacity() {
            return true;
        }
        let wanted = announced.filter(|length| (needed..=needed * 2).contains(length));
        let wanted = wanted.unwrap_or_else(|| needed.next_power_of_two().min(limit.max(needed)));
        let more = wanted - self.bytes.capacity();
        if !self.account.take(more) {
            return false;
        }
        self.taken_bytes += more;
        self.bytes.reserve_exact(wanted - self.bytes.len());
        true
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.account.used_bytes.fetch_sub(self.taken_bytes, Ordering::Relaxed);
    }
}

/// Reads a whole body of up to `limit` bytes, a large one in pieces where that will do.
///
/// # Errors
/// It is longer (413), cut off (400), or there is no room for it now (429).
pub(super) async fn read(
    body: &mut Body,
    limit: usize,
    account: &Arc<BodyAccount>,
    may_be_in_pieces: bool,
) -> Result<Upload, HttpError> {
    let announced = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(too_large(limit));
    }
    let mut upload = Upload::new(account);
    let sizes = PIECE_BYTES_MIN..=PIECES_BYTES_MAX;
    let in_pieces = announced.filter(|length| may_be_in_pieces && sizes.contains(length));
    let is_in_pieces = in_pieces.is_some();
    // Nobody knows how much of one in pieces are small frames, which are put together.
    let (limit, announced) = in_pieces.map_or((limit, announced), |length| (length, None));
    let believed = announced.unwrap_or(0).min(BELIEVED_BYTES);
    if !upload.grow(believed, announced, limit) {
        return Err(buffers_full());
    }
    while let Some(frame) = next(body).await? {
        if upload.size_bytes() + frame.len() > limit {
            return Err(too_large(limit));
        }
        let is_kept = if is_in_pieces && frame.len() >= PIECE_BYTES_MIN {
            upload.keep(frame)
        } else {
            upload.append(&frame, announced, limit)
        };
        if !is_kept {
            return Err(buffers_full());
        }
    }
    Ok(upload)
}

/// Reads some of a body that is not wanted: a connection that is closed with bytes unread is reset,
/// and the sender never sees why.
pub(super) async fn drain(body: &mut Body) {
    let mut read_bytes = 0;
    while read_bytes < DRAINED_BYTES {
        match timeout(DRAIN_TIME, next(body)).await {
            Ok(Ok(Some(frame))) => read_bytes += frame.len(),
            Ok(Ok(None) | Err(_)) | Err(_) => return,
        }
    }
}

/// The next piece; trailers are none.
async fn next(body: &mut Body) -> Result<Option<Bytes>, HttpError> {
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        match frame {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
            Some(Err(error)) => {
                let message = format!("the body ended early or is broken: {error}");
                return Err(HttpError::bad_body(message));
            }
        }
    }
}

/// The body of a route that takes JSON, as its type.
///
/// # Errors
/// It is packed (415), larger than 2 MB (413), cut off or of another form (400).
pub(super) fn read_json<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<T, HttpError> {
    let encoding = headers.get(header::CONTENT_ENCODING);
    if let Some(found) =
        encoding.filter(|found| !found.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        let found = String::from_utf8_lossy(found.as_bytes());
        let message = format!("the encoding is '{}'; allowed: identity", found.escape_debug());
        let field = Some("Content-Encoding");
        return Err(HttpError::new(ErrorCode::UnsupportedEncoding, field, message));
    }
    let body = body.map_err(|error| match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let message = "the body is too large; allowed: 2 MB";
            HttpError::new(ErrorCode::BodyTooLarge, Some("body"), message)
        }
        _ => HttpError::bad_body(error.body_text()),
    })?;
    serde_json::from_slice(&body).map_err(|error| {
        let what = if error.is_data() { "it has a wrong form" } else { "it is no JSON" };
        HttpError::bad_body(format!("{what}: {error}"))
    })
}

fn too_large(limit: usize) -> HttpError {
    let message = format!("the upload is too large; allowed: {limit} bytes");
    HttpError::new(ErrorCode::BodyTooLarge, Some("body"), message)
}

fn buffers_full() -> HttpError {
    let message = "too many uploads are on their way; try again";
    HttpError::new(ErrorCode::TooManyUploads, None, message)
        .with_header(header::RETRY_AFTER, HeaderValue::from_static("1"))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::task::{Context, Poll};

    use super::*;

    /// Comes in these frames.
    struct Frames(VecDeque<Bytes>, u64);

    impl HttpBody for Frames {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(|bytes| Ok(http_body::Frame::data(bytes))))
        }

        fn size_hint(&self) -> http_body::SizeHint {
            http_body::SizeHint::with_exact(self.1)
        }
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit_and_given_back_to_the_account() {
        let account = BodyAccount::new(100);
        let read_all = async |length: usize, limit| {
            read(&mut Body::from(vec![7; length]), limit, &account, true).await
        };
        assert_eq!(read_all(60, 60).await.expect("it fits").pieces(), [vec![7; 60]]);
        assert!(read_all(61, 60).await.is_err(), "longer than allowed");
        let held = read_all(60, 60).await.expect("the account is empty again");
        assert!(read_all(60, 60).await.is_err(), "the account is full");
        drop(held);
        assert!(read_all(60, 60).await.is_ok());
        assert_eq!(account.used_bytes.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn large_frames_are_pieces_and_small_ones_are_put_together() {
        // The lengths of frames, and those of what comes of them.
        let cases: [(&[usize], &[usize]); 9] = [
            (&[], &[0]),
            (&[100, 100_000], &[100, 100_000]),
            (&[40_000, 100, 5, 32_768, 1], &[40_000, 105, 32_768, 1]),
            (&[80_000, 80_000], &[80_000, 80_000]),
            (&[7; 30], &[210]),
            (&[32_767; 3], &[98_301]),
            (&[32_768], &[32_768]),
            (&[524_288; 2], &[524_288; 2]),
            (&[60_000; 18], &[1_080_000]),
        ];
        for (lengths, expected) in cases {
            let frames: Vec<Bytes> =
                (1_u8..).zip(lengths).map(|(byte, length)| vec![byte; *length].into()).collect();
            let sent = frames.concat();
            for may_be_in_pieces in [true, false] {
                let account = BodyAccount::new(4 << 20);
                let mut body = Body::new(Frames(frames.clone().into(), sent.len() as u64));
                let read = read(&mut body, 2 << 20, &account, may_be_in_pieces).await;
                let upload = read.expect("there is room");
                assert_eq!(
                    (upload.pieces().concat(), upload.size_bytes()),
                    (sent.clone(), sent.len())
                );
                let used = account.used_bytes.load(Ordering::Relaxed);
                assert!(used >= sent.len());
                let kept = upload.pieces.iter().filter(|piece| piece.len() >= PIECE_BYTES_MIN);
                assert!(used >= kept.count() * PIECE_TAKES_BYTES_MIN);
                let lengths: Vec<usize> = upload.pieces().iter().map(|piece| piece.len()).collect();
                let whole = [sent.len()];
                assert_eq!(lengths, if may_be_in_pieces { expected } else { &whole });
                drop(upload);
                assert_eq!(account.used_bytes.load(Ordering::Relaxed), 0);
            }
        }
    }
}
