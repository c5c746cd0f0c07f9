//! Certificates in PEM files, and the configuration that a TLS listener shakes hands with.
//!
//! For: the listeners' own, and those of authorities that probes trust. Not for: keys, nor what
//! certificates are used for.
//! At the same time: a connection keeps the configuration that it has begun with.

use std::io;
use std::path::Path;
use std::sync::{Arc, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use whered_engine::sync;

/// The configuration of new connections. A reload puts another one in its place.
#[derive(Clone)]
pub(crate) struct CurrentTls(Arc<RwLock<Arc<ServerConfig>>>);

impl CurrentTls {
    pub(crate) fn new(config: Arc<ServerConfig>) -> CurrentTls {
        CurrentTls(Arc::new(RwLock::new(config)))
    }

    /// What a connection that begins now takes.
    pub(crate) fn get(&self) -> Arc<ServerConfig> {
        Arc::clone(&sync::read(&self.0))
    }

    /// New connections take this from now on; those that are open go on as they are.
    pub(crate) fn exchange(&self, config: Arc<ServerConfig>) {
        *sync::write(&self.0) = config;
    }
}

/// The certificates of a PEM file.
///
/// # Errors
/// One line with the file: it cannot be read, or has no certificate.
pub(crate) fn read_certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<_> = read.map_err(|error| in_file(path, &error))?;
    if certificates.is_empty() {
        return Err(in_file(path, &"there is no certificate in it"));
    }
    Ok(certificates)
}

/// An error with the file that it is about.
pub(crate) fn in_file(path: &Path, error: &dyn std::fmt::Display) -> io::Error {
    let text = format!("TLS: {}: {error}", path.display());
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
