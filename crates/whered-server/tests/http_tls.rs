//! The HTTP listener behind TLS: certificates of the server and of clients, wrong files, rubbish.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use whered_server::resp::TlsOptions;
use whered_server::{Config, Server};

/// Certificates of an authority of our own, in files.
struct Certificates(PathBuf);

impl Certificates {
    fn new(folder: PathBuf) -> Certificates {
        let authority_key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = parameters.self_signed(&authority_key).unwrap();
        let issuer = rcgen::Issuer::new(parameters, authority_key);
        std::fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
        for name in ["server", "client"] {
            let key = rcgen::KeyPair::generate().unwrap();
            let parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            let certificate = parameters.signed_by(&key, &issuer).unwrap();
            std::fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
            std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        Certificates(folder)
    }

    fn options(&self) -> TlsOptions {
        TlsOptions {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            certificate: self.0.join("server.pem"),
            key: self.0.join("server.key"),
            client_ca: None,
            client_certificate_is_optional: false,
        }
    }

    fn client(&self, with_certificate: bool, protocols: &[&str]) -> ClientConfig {
        let read = |name: &str| CertificateDer::from_pem_file(self.0.join(name)).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(read("ca.pem")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let mut config = if with_certificate {
            let key = PrivateKeyDer::from_pem_file(self.0.join("client.key")).unwrap();
            builder.with_client_auth_cert(vec![read("client.pem")], key).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }
}

fn start(name: &str, change: impl FnOnce(&mut Config, &Certificates)) -> (Server, Certificates) {
    let folder = world::folder(name);
    let certificates = Certificates::new(folder.clone());
    let mut config = world::config(&folder, "");
    config.http.tls = Some(certificates.options());
    change(&mut config, &certificates);
    (Server::start(config).unwrap(), certificates)
}

fn ask(server: &Server, client: ClientConfig, lines: &str) -> io::Result<String> {
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(client), name).unwrap();
    let stream = TcpStream::connect(server.http_tls_addresses()[0])?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut stream = StreamOwned::new(connection, stream);
    stream.write_all(lines.as_bytes())?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
}

#[test]
fn answers_come_over_tls_and_plain_at_their_own_ports() {
    let (server, certificates) = start("https", |_, _| {});
    let request = get("/v1/ip/192.0.2.1", "");
    for protocols in [&[][..], &["http/1.1"], &["h2", "http/1.1"]] {
        let reply = ask(&server, certificates.client(false, protocols), &request).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.contains("Frankfurt"), "{reply}");
    }
    assert!(ask(&server, certificates.client(false, &["h2"]), &request).is_err());
    let plain = world::http::get(&server, "/v1/ip/192.0.2.1");
    assert_eq!(plain.status, 200);
    // A large answer comes whole, with the end of TLS.
    let reply = ask(&server, certificates.client(false, &[]), &get("/openapi.json", "")).unwrap();
    let (_, body) = reply.split_once("\r\n\r\n").unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(body).is_ok(), "{}", body.len());
    server.stop().unwrap();
}

#[test]
fn what_is_no_tls_or_breaks_off_closes_its_connection_alone() {
    let (server, certificates) = start("https_rubbish", |config, _| {
        config.http.max_connections = 4;
    });
    let address = server.http_tls_addresses()[0];
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    for rubbish in [&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], &[0; 64], &[0xff; 5000]] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let _ = stream.write_all(rubbish);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP"), "nothing in plain text");
    }
    // More half handshakes than there may be connections keep nobody out.
    let held: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&hello).unwrap();
            stream
        })
        .collect();
    let reply = ask(&server, certificates.client(false, &[]), &get("/healthz", "")).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    drop(held);
    server.stop().unwrap();
}

#[test]
fn clients_show_the_certificates_that_are_asked_for() {
    let (server, certificates) = start("https_clients", |config, certificates| {
        let tls = config.http.tls.as_mut().unwrap();
        tls.client_ca = Some(certificates.0.join("ca.pem"));
    });
    let request = get("/healthz", "");
    assert!(ask(&server, certificates.client(false, &[]), &request).is_err());
    let reply = ask(&server, certificates.client(true, &[]), &request).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    server.stop().unwrap();
}

#[test]
fn the_own_origin_has_the_scheme_of_the_port() {
    let (server, certificates) = start("https_origin", |_, _| {});
    let port = server.http_tls_addresses()[0].port();
    let status = |origin: String| {
        let request = get("/v1/databases", &format!("Origin: {origin}\r\n"));
        let reply = ask(&server, certificates.client(false, &[]), &request).unwrap();
        reply.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(status(format!("https://localhost:{port}")), "200");
    assert_eq!(status("https://localhost".to_owned()), "200", "its Host has no port either");
    assert_eq!(status(format!("http://localhost:{port}")), "403");
    assert_eq!(status("https://evil.example".to_owned()), "403");
    server.stop().unwrap();
}

#[test]
fn a_reload_reads_the_certificates_again_and_wrong_ones_change_nothing() {
    let folder = world::folder("https_reload");
    let certificates = Certificates::new(folder.clone());
    let mut config = world::config(&folder, "");
    config.http.tls = Some(certificates.options());
    let server = Server::start(config.clone()).unwrap();
    let old = certificates.client(false, &[]);
    let request = get("/healthz", "");
    assert!(ask(&server, old.clone(), &request).is_ok());
    // Another authority has signed the new ones.
    let renewed = Certificates::new(folder.clone());
    let new = renewed.client(false, &[]);
    assert!(ask(&server, new.clone(), &request).is_err(), "not before the reload");
    let key = std::fs::read(folder.join("server.key")).unwrap();
    std::fs::write(folder.join("server.key"), "no key").unwrap();
    let refusal = server.reload(config.clone()).unwrap_err().to_string();
    assert!(refusal.contains("server.key"), "{refusal}");
    assert!(ask(&server, old.clone(), &request).is_ok());
    std::fs::write(folder.join("server.key"), key).unwrap();
    server.reload(config).unwrap();
    assert!(ask(&server, new, &request).is_ok());
    assert!(ask(&server, old, &request).is_err());
    server.stop().unwrap();
}

#[test]
fn wrong_files_stop_the_start_and_are_named() {
    let folder = world::folder("https_files");
    let certificates = Certificates::new(folder.clone());
    std::fs::write(folder.join("empty.pem"), "").unwrap();
    let start = |certificate: &str, key: &str| {
        let mut config = world::config(&folder, "");
        let (certificate, key) = (folder.join(certificate), folder.join(key));
        config.http.tls = Some(TlsOptions { certificate, key, ..certificates.options() });
        Server::start(config).err().unwrap().to_string()
    };
    for (certificate, key, named) in [
        ("none.pem", "server.key", "none.pem"),
        ("empty.pem", "server.key", "empty.pem"),
        ("server.pem", "none.key", "none.key"),
        ("server.pem", "server.pem", "server.pem"),
        ("server.pem", "client.key", "server.pem"),
    ] {
        let error = start(certificate, key);
        assert!(error.contains("TLS: ") && error.contains(named), "{error}");
    }
}

#[test]
fn an_address_that_others_can_reach_needs_a_token_or_certificates_of_clients() {
    let read = |lines: &str| {
        let text = format!(
            "[http]\n{lines}\n[http.tls]\nlisten = ['0.0.0.0:8443']\ncertificate = 'c'\nkey = 'k'\n"
        );
        Config::from_toml(&text, Path::new("c.toml"))
    };
    let error = read("").unwrap_err().to_string();
    assert!(error.contains("'listen' in [http.tls] holds 0.0.0.0:8443"), "{error}");
    let config = read("token = 't'").unwrap();
    assert_eq!(config.http.tls.unwrap().certificate, Path::new("c"));
    let text =
        "[http.tls]\nlisten = ['0.0.0.0:8443']\ncertificate = 'c'\nkey = 'k'\nclient_ca = 'a'\n";
    assert!(Config::from_toml(text, Path::new("c.toml")).is_ok());
    for wrong in
        ["[http.tls]\n", "[http.tls]\ncertificate = 'c'\nkey = 'k'\n", "[http.tls]\nca = 1\n"]
    {
        assert!(Config::from_toml(wrong, Path::new("c.toml")).is_err(), "{wrong}");
    }
}
