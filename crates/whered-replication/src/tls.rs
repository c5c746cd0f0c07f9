//! TLS of clients: whom they trust, and how they name themselves.
//!
//! Not for: reading the files (that is their owner's affair).
//!
//! Authorities are those of the system where none are named: a file of OpenSSL's, or what
//! `SSL_CERT_FILE` and `SSL_CERT_DIR` say.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// Certificates and a key in PEM.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// The authorities that a server's certificate must be of; `None`: the system's.
    pub authorities: Option<Vec<u8>>,
    /// A certificate with its chain, and its key, for servers that ask for one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl std::fmt::Debug for ClientTls {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientTls").finish_non_exhaustive()
    }
}

impl ClientTls {
    /// What rustls takes.
    ///
    /// # Errors
    /// Text that is no PEM, a certificate or a key that is none, or two that do not fit.
    pub fn configure(&self) -> Result<Arc<ClientConfig>, String> {
        let mut roots = RootCertStore::empty();
        match &self.authorities {
            Some(pem) => {
                for certificate in certificates(pem, "authorities")? {
                    roots.add(certificate).map_err(|error| format!("the authorities: {error}"))?;
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
            }
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let Some((chain, key)) = &self.identity else {
            return Ok(Arc::new(builder.with_no_client_auth()));
        };
        let chain = certificates(chain, "client certificate")?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| format!("the client's key: {error}"))?;
        let config = builder.with_client_auth_cert(chain, key);
        config.map(Arc::new).map_err(|error| format!("the client's certificate: {error}"))
    }
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(found) if found.is_empty() => Err(format!("the {what}: no certificate; allowed: PEM")),
        Ok(found) => Ok(found),
        Err(error) => Err(format!("the {what}: {error}")),
    }
}
