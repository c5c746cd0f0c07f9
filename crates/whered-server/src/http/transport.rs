//! The bytes of a connection: plain, or in TLS from its handshake on.
//!
//! The handshake is made by the first read or write, so that accepting waits for no client, and
//! the clock of the connection bounds it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

use crate::tls::{self, TlsOptions};

/// The one protocol inside: a client that offers others alone is refused.
const PROTOCOL: &[u8] = b"http/1.1";

/// Reads the files of `[http.tls]`.
///
/// # Errors
/// One line with the file that cannot be read or is wrong.
pub(crate) fn configure(options: &TlsOptions) -> io::Result<Arc<ServerConfig>> {
    let mut config = ServerConfig::clone(&*tls::configure(options)?);
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Arc::new(config))
}

/// A connection's stream.
pub(super) enum Transport {
    Plain(TcpStream),
    Handshake(Box<Accept<TcpStream>>),
    Tls(Box<TlsStream<TcpStream>>),
    /// The handshake has failed.
    Failed,
}

impl Transport {
    /// A connection that is accepted: with TLS if there is a configuration for it.
    pub(super) fn new(stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> Transport {
        match tls {
            None => Transport::Plain(stream),
            Some(config) => {
                Transport::Handshake(Box::new(TlsAcceptor::from(config).accept(stream)))
            }
        }
    }

    /// The stream once the handshake is made.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Pin<&mut dyn Stream>>> {
        if let Transport::Handshake(accept) = self {
            let made = ready!(Pin::new(accept.as_mut()).poll(context));
            *self = match made {
                Ok(stream) => Transport::Tls(Box::new(stream)),
                Err(error) => {
                    *self = Transport::Failed;
                    return Poll::Ready(Err(error));
                }
            };
        }
        Poll::Ready(match self {
            Transport::Plain(stream) => Ok(Pin::new(stream)),
            Transport::Tls(stream) => Ok(Pin::new(stream.as_mut())),
            Transport::Handshake(_) | Transport::Failed => Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_ready(context))?.poll_read(context, buffer)
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_ready(context))?.poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_ready(context))?.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            // A client that has not shaken hands is owed no farewell.
            Transport::Handshake(_) | Transport::Failed => Poll::Ready(Ok(())),
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
        }
    }
}
