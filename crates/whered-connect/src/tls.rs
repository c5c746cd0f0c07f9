//! TLS of clients: whom they trust, and how they name themselves.
//!
//! For: RESP (`rediss`) and HTTP (`https`), which have clients of their own. Not for: SQL, whose
//! certificates the configuration names.
//!
//! Authorities are those of the system where none are named: a file of OpenSSL's, or what
//! `SSL_CERT_FILE` and `SSL_CERT_DIR` say.

use std::sync::Arc;

use redis::{ClientTlsConfig, TlsCertificates};
use rustls::crypto::ring;
use ureq::tls::{
    Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsProvider, parse_pem,
};

use crate::error::ConnectError;

/// Certificates and a key in PEM.
#[derive(Clone, Default)]
pub struct ClientTls {
    /// The authorities that a server's certificate must be of; `None`: the system's.
    pub authorities: Option<Vec<u8>>,
    /// A certificate with its chain, and its key, for servers that ask for one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl ClientTls {
    pub(crate) fn for_redis(&self) -> TlsCertificates {
        let client_tls = self.identity.as_ref().map(|(certificate, key)| ClientTlsConfig {
            client_cert: certificate.clone(),
            client_key: key.clone(),
        });
        TlsCertificates { client_tls, root_cert: self.authorities.clone() }
    }

    pub(crate) fn for_http(&self) -> Result<TlsConfig, ConnectError> {
        let authorities = match &self.authorities {
            Some(pem) => certificates(pem, "authorities")?,
            None => system_authorities()?,
        };
        let identity = match &self.identity {
            Some((chain, key)) => {
                let chain = certificates(chain, "client certificate")?;
                let key = PrivateKey::from_pem(key)
                    .map_err(|error| ConnectError::new(format!("the client's key: {error}")))?;
                Some(ClientCert::new_with_certs(&chain, key))
            }
            None => None,
        };
        Ok(TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(RootCerts::Specific(Arc::new(authorities)))
            .client_cert(identity)
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .build())
    }
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<Certificate<'static>>, ConnectError> {
    let mut found = Vec::new();
    for item in parse_pem(pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => found.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(ConnectError::new(format!("the {what}: {error}"))),
        }
    }
    match found.is_empty() {
        true => Err(ConnectError::new(format!("the {what}: no certificate; allowed: PEM"))),
        false => Ok(found),
    }
}

fn system_authorities() -> Result<Vec<Certificate<'static>>, ConnectError> {
    let found = rustls_native_certs::load_native_certs();
    let certificates: Vec<_> =
        found.certs.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    match (certificates.is_empty(), found.errors.first()) {
        (true, Some(error)) => Err(ConnectError::new(format!("the system's authorities: {error}"))),
        (true, None) => {
            let message = "the system has no authorities; allowed: a file with some";
            Err(ConnectError::new(message))
        }
        (false, _) => Ok(certificates),
    }
}
