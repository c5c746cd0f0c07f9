//! Passwords, users, tokens and certificates that a reload exchanges while connections stay open.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use whered_server::{Config, Server};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes a certificate that signs itself, and its key.
fn write_certificate(folder: &Path) -> CertificateDer<'static> {
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    fs::write(folder.join("server.pem"), certificate.pem()).unwrap();
    fs::write(folder.join("server.key"), key.serialize_pem()).unwrap();
    CertificateDer::from_pem_file(folder.join("server.pem")).unwrap()
}

fn config(folder: &Path, secret: &str) -> Config {
    let text = format!(
        "data_dir = \"data\"\n\
         [resp]\nlisten = [\"127.0.0.1:0\"]\nthreads = 1\npassword = \"default-{secret}\"\n\
         [resp.tls]\nlisten = [\"127.0.0.1:0\"]\ncertificate = \"server.pem\"\n\
         key = \"server.key\"\n\
         [[resp.user]]\nname = \"ann\"\npassword = \"ann-{secret}\"\ncommands = [\"+@all\"]\n\
         keys = [\"*\"]\n\
         [[resp.user]]\nname = \"{secret}\"\npassword = \"x\"\n\
         [http]\nlisten = [\"127.0.0.1:0\"]\ntoken = \"http-{secret}\"\n\
         [[feed]]\nname = \"f\"\nformat = \"ndjson\"\nmember = \"m\"\ninto = {{ table = \"t\" }}\n\
         token = \"feed-{secret}\"\n"
    );
    Config::from_toml(&text, &folder.join("edge.toml")).unwrap()
}

type Tls = StreamOwned<ClientConnection, TcpStream>;

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// A connection that takes this certificate only.
fn connect_tls(server: SocketAddr, trusted: &CertificateDer<'static>) -> Tls {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(session, connect(server))
}

fn ask(stream: &mut (impl Read + Write), line: &str) -> String {
    stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let mut reply = Vec::new();
    while !reply.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        reply.push(byte[0]);
    }
    String::from_utf8(reply).unwrap().trim_end().to_owned()
}

/// The status of a request on a connection that stays open.
fn status(stream: &mut TcpStream, request: &str, token: &str) -> u16 {
    let body = if request.starts_with("POST") { "{\"m\":\"a\"}" } else { "" };
    let text = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_reload_exchanges_certificates_users_passwords_and_tokens_and_loses_no_connection() {
    let folder = folder("secrets_reload");
    let old_certificate = write_certificate(&folder);
    let server = Server::start(config(&folder, "old")).unwrap();
    let (resp, tls) = (server.resp_addresses()[0], server.resp_tls_addresses()[0]);
    let mut plain = connect(resp);
    assert_eq!(ask(&mut plain, "AUTH ann ann-old"), "+OK");
    let mut secured = connect_tls(tls, &old_certificate);
    assert_eq!(ask(&mut secured, "AUTH default-old"), "+OK");
    let mut http = connect(server.http_addresses()[0]);
    assert_eq!(status(&mut http, "GET /v1/sets", "http-old"), 200);
    assert_eq!(status(&mut http, "POST /v1/feeds/f", "feed-old"), 202);

    let new_certificate = write_certificate(&folder);
    let line = server.reload(config(&folder, "new")).unwrap();
    assert!(!line.contains("restart"), "{line}");

    // What is open goes on, logged in.
    assert_eq!(ask(&mut plain, "GEOADD k 1 2 m"), ":1");
    assert_eq!(ask(&mut secured, "ZCARD k"), ":1");
    // What begins now needs the new ones.
    let mut fresh = connect(resp);
    assert!(ask(&mut fresh, "AUTH ann ann-old").starts_with("-WRONGPASS"));
    assert!(ask(&mut fresh, "AUTH default-old").starts_with("-WRONGPASS"));
    assert!(ask(&mut fresh, "AUTH old x").starts_with("-WRONGPASS"));
    assert_eq!(ask(&mut fresh, "AUTH ann ann-new"), "+OK");
    assert_eq!(ask(&mut fresh, "AUTH new x"), "+OK");
    let mut fresh = connect_tls(tls, &new_certificate);
    assert_eq!(ask(&mut fresh, "AUTH default-new"), "+OK");
    connect_tls(tls, &old_certificate).write_all(b"PING\r\n").expect_err("another certificate");
    assert_eq!(status(&mut http, "GET /v1/sets", "http-old"), 401);
    assert_eq!(status(&mut http, "GET /v1/sets", "http-new"), 200);
    assert_eq!(status(&mut http, "POST /v1/feeds/f", "feed-old"), 403);
    assert_eq!(status(&mut http, "POST /v1/feeds/f", "feed-new"), 202);
    server.stop().unwrap();
}

#[test]
fn a_certificate_that_cannot_be_used_leaves_everything_as_it_was() {
    let folder = folder("secrets_reload_wrong");
    let certificate = write_certificate(&folder);
    let server = Server::start(config(&folder, "old")).unwrap();
    let key = fs::read(folder.join("server.key")).unwrap();
    fs::write(folder.join("server.key"), rcgen::KeyPair::generate().unwrap().serialize_pem())
        .unwrap();
    let refusal = server.reload(config(&folder, "new")).unwrap_err().to_string();
    assert!(refusal.contains("server.pem") && !refusal.contains('\n'), "{refusal}");
    let mut stream = connect_tls(server.resp_tls_addresses()[0], &certificate);
    assert_eq!(ask(&mut stream, "AUTH default-old"), "+OK");
    assert_eq!(server.engine().generation().number(), 1);
    fs::write(folder.join("server.key"), key).unwrap();
    server.reload(config(&folder, "new")).unwrap();
    assert!(ask(&mut stream, "AUTH default-old").starts_with("-WRONGPASS"));
    server.stop().unwrap();
}
