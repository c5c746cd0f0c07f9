//! TLS: the server's certificate, and whose certificates clients may or must show.
//!
//! For: PEM files to one configuration that all connections share; every mistake names its file.
//! Not for: the bytes of a connection (`resp::stream`, `http::transport`).
//!
//! The cryptography is `ring`: it builds with a C compiler alone. Versions 1.2 and 1.3.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::certificates::{in_file, read_certificates};

/// Where TLS is spoken, and with which certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// Where to listen; port 0 picks a free one.
    pub listen: Vec<SocketAddr>,
    /// The server's certificate and those between it and its root, in PEM.
    pub certificate: PathBuf,
    /// The key of that certificate, in PEM.
    pub key: PathBuf,
    /// Who may have signed clients' certificates, in PEM; `None`: clients show none.
    pub client_ca: Option<PathBuf>,
    /// Whether a client without a certificate is let in although there is a `client_ca`.
    pub client_certificate_is_optional: bool,
}

impl TlsOptions {
    /// Whether nobody gets in without a certificate.
    pub fn is_guarded(&self) -> bool {
        self.client_ca.is_some() && !self.client_certificate_is_optional
    }
}

/// Reads the files.
///
/// # Errors
/// One line with the file that cannot be read or is wrong.
pub(crate) fn configure(options: &TlsOptions) -> io::Result<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let builder = match &options.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in read_certificates(path)? {
                roots.add(certificate).map_err(|error| in_file(path, &error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = match options.client_certificate_is_optional {
                true => verifier.allow_unauthenticated(),
                false => verifier,
            };
            let verifier = verifier.build().map_err(|error| in_file(path, &error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let chain = read_certificates(&options.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&options.key);
    let key = key.map_err(|error| in_file(&options.key, &error))?;
    let config = builder.with_single_cert(chain, key);
    // The usual fault here is a key that belongs to another certificate.
    config.map(Arc::new).map_err(|error| in_file(&options.certificate, &error))
}
