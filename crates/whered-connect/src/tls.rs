//! The certificates of clients in the forms that the clients of RESP (`rediss`) and HTTP (`https`)
//! take.
//!
//! Not for: SQL, whose certificates the configuration names, and replication, which has its own.
//!
//! Authorities are those of the system where none are named: a file of OpenSSL's, or what
//! `SSL_CERT_FILE` and `SSL_CERT_DIR` say.

use std::sync::Arc;

use redis::{ClientTlsConfig, TlsCertificates};
use rustls::crypto::ring;
use ureq::tls::{
    Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsProvider, parse_pem,
};

use whered_replication::ClientTls;

use crate::error::ConnectError;

pub(crate) fn for_redis(tls: &ClientTls) -> TlsCertificates {
    let client_tls = tls.identity.as_ref().map(|(certificate, key)| ClientTlsConfig {
        client_cert: certificate.clone(),
        client_key: key.clone(),
    });
    TlsCertificates { client_tls, root_cert: tls.authorities.clone() }
}

pub(crate) fn for_http(tls: &ClientTls) -> Result<TlsConfig, ConnectError> {
    let authorities = match &tls.authorities {
        Some(pem) => certificates(pem, "authorities")?,
        None => system_authorities()?,
    };
    let identity = match &tls.identity {
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
