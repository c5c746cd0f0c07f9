//! The RESP door behind TLS: long replies, certificates of clients, rubbish in the handshake.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use support::Door;
use support::client::Client;
use whered_engine::EngineOptions;
use whered_server::resp::TlsOptions;

/// Certificates of an authority of our own, in files.
struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    fn new(name: &str) -> Certificates {
        let folder = std::env::temp_dir().join(format!("whered-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let authority_key = rcgen::KeyPair::generate().expect("a key");
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = parameters.self_signed(&authority_key).expect("a certificate");
        let issuer = rcgen::Issuer::new(parameters, authority_key);
        std::fs::write(folder.join("ca.pem"), authority.pem()).expect("it can be written");
        for name in ["server", "client"] {
            let key = rcgen::KeyPair::generate().expect("a key");
            let names = vec!["localhost".to_owned()];
            let parameters = rcgen::CertificateParams::new(names).expect("parameters");
            let certificate = parameters.signed_by(&key, &issuer).expect("a certificate");
            let write = |end: &str, text: String| {
                std::fs::write(folder.join(format!("{name}{end}")), text)
                    .expect("it can be written");
            };
            write(".pem", certificate.pem());
            write(".key", key.serialize_pem());
        }
        Certificates { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn options(&self) -> TlsOptions {
        TlsOptions {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            certificate: self.path("server.pem"),
            key: self.path("server.key"),
            client_ca: None,
            client_certificate_is_optional: false,
        }
    }

    /// A client that trusts our authority, with a certificate of its own or without.
    fn connect(&self, door: &Door, with_certificate: bool) -> Tls {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate("ca.pem")).expect("it is one");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("there are versions")
            .with_root_certificates(roots);
        let config = if with_certificate {
            let key = PrivateKeyDer::from_pem_file(self.path("client.key")).expect("a key");
            builder
                .with_client_auth_cert(vec![self.certificate("client.pem")], key)
                .expect("they fit")
        } else {
            builder.with_no_client_auth()
        };
        let name = ServerName::try_from("localhost").expect("a name");
        let session = ClientConnection::new(Arc::new(config), name).expect("a session");
        let stream = TcpStream::connect(door.door.tls_addresses()[0]).expect("it accepts");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("it can be set");
        StreamOwned::new(session, stream)
    }

    fn certificate(&self, name: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.path(name)).expect("a certificate")
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

type Tls = StreamOwned<ClientConnection, TcpStream>;

fn ask(stream: &mut Tls, line: &str, expected: &str) {
    stream.write_all(format!("{line}\r\n").as_bytes()).expect("it reads");
    let mut reply = vec![0; expected.len()];
    stream.read_exact(&mut reply).expect("it answers");
    assert_eq!(String::from_utf8_lossy(&reply), expected, "{line}");
}

#[test]
fn commands_and_long_replies_go_through_tls_beside_plain_ones() {
    let certificates = Certificates::new("long");
    let door = Door::with(EngineOptions::default(), |options| {
        options.tls = Some(certificates.options());
    });
    let mut client = certificates.connect(&door, false);
    ask(&mut client, "PING", "+PONG\r\n");
    ask(&mut client, "GEOADD k 1 1 m", ":1\r\n");
    assert_eq!(door.client().ask(&["ZCARD", "k"]), ":1\r\n");
    // Much more than rustls and the kernel keep, asked for before anything is read.
    let word = "x".repeat(1 << 20);
    for _ in 0..20 {
        client
            .write_all(format!("*2\r\n$4\r\nECHO\r\n${}\r\n{word}\r\n", word.len()).as_bytes())
            .expect("it reads");
    }
    let expected = format!("${}\r\n{word}\r\n", word.len());
    for _ in 0..20 {
        let mut reply = vec![0; expected.len()];
        client.read_exact(&mut reply).expect("it answers");
        assert!(reply == expected.as_bytes());
    }
    // Messages come without a request, when the connection is at rest.
    ask(&mut client, "SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    assert_eq!(door.client().ask(&["PUBLISH", "c", "hello"]), ":1\r\n");
    let expected = b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nhello\r\n";
    let mut message = vec![0; expected.len()];
    client.read_exact(&mut message).expect("it comes");
    assert_eq!(message, expected);
    client.write_all(b"QUIT\r\n").expect("it reads");
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).expect("an orderly end, with TLS's own goodbye");
    assert_eq!(rest, b"+OK\r\n");
}

#[test]
fn a_long_pipeline_through_tls_is_answered_in_order() {
    let certificates = Certificates::new("pipeline");
    let door = Door::with(EngineOptions::default(), |options| {
        options.tls = Some(certificates.options());
    });
    let mut client = certificates.connect(&door, false);
    let count = 20_000;
    let lines: String = (0..count).map(|index| format!("ECHO {index:06}\r\n")).collect();
    client.write_all(lines.as_bytes()).expect("it reads");
    let expected: String = (0..count).map(|index| format!("$6\r\n{index:06}\r\n")).collect();
    let mut replies = vec![0; expected.len()];
    client.read_exact(&mut replies).expect("it answers");
    assert!(replies == expected.as_bytes());
}

#[test]
fn clients_without_a_certificate_stay_outside_when_one_is_asked_for() {
    let certificates = Certificates::new("clients");
    let door = Door::with(EngineOptions::default(), |options| {
        let mut tls = certificates.options();
        tls.client_ca = Some(certificates.path("ca.pem"));
        options.tls = Some(tls);
    });
    ask(&mut certificates.connect(&door, true), "PING", "+PONG\r\n");
    let mut stranger = certificates.connect(&door, false);
    let mut rest = Vec::new();
    // In TLS 1.3 a client may write before it learns that it is refused.
    let refused = stranger.write_all(b"PING\r\n").and_then(|()| stranger.read_to_end(&mut rest));
    assert!(refused.is_err(), "{:?}", String::from_utf8_lossy(&rest));
    assert!(rest.is_empty());
    ask(&mut certificates.connect(&door, true), "PING", "+PONG\r\n");
}

#[test]
fn rubbish_in_the_handshake_ends_that_connection_only() {
    let certificates = Certificates::new("rubbish");
    let door = Door::with(EngineOptions::default(), |options| {
        options.tls = Some(certificates.options());
    });
    let address = door.door.tls_addresses()[0];
    for rubbish in [
        &b"PING\r\n"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        &[0x16, 3, 1, 0xff, 0xff, 1, 2, 3],
        &[0xff; 1000],
        &[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0],
    ] {
        let mut client = Client::connect(address);
        client.send(rubbish);
        // Half a record is waited for; anything else is refused with an alert.
        client.stream.shutdown(std::net::Shutdown::Write).expect("it is open");
        let rest = client.rest();
        assert!(rest.len() < 20, "{}", rest.escape_ascii());
    }
    let failed = door.door.counters().tls_failed.load(Ordering::Relaxed);
    assert!(failed >= 3, "{failed} handshakes failed");
    ask(&mut certificates.connect(&door, false), "PING", "+PONG\r\n");
}

#[test]
fn a_missing_or_wrong_file_is_named() {
    let certificates = Certificates::new("files");
    let start = |change: &dyn Fn(&mut TlsOptions)| {
        let (engine, _) = whered_engine::Engine::open(EngineOptions::default()).expect("it opens");
        let mut tls = certificates.options();
        change(&mut tls);
        let options = whered_server::resp::RespOptions {
            listen: Vec::new(),
            tls: Some(tls),
            ..Default::default()
        };
        let error = whered_server::resp::RespListener::start(engine, options).err();
        error.expect("the door stays closed").to_string()
    };
    std::fs::write(certificates.path("empty.pem"), "").expect("it can be written");
    let missing = start(&|tls| tls.certificate = certificates.path("nosuch.pem"));
    assert!(missing.contains("nosuch.pem"), "{missing}");
    let empty = start(&|tls| tls.certificate = certificates.path("empty.pem"));
    assert!(empty.ends_with("empty.pem: there is no certificate in it"), "{empty}");
    let other = start(&|tls| tls.key = certificates.path("client.key"));
    assert!(other.contains("server.pem"), "{other}");
    let no_key = start(&|tls| tls.key = certificates.path("empty.pem"));
    assert!(no_key.contains("empty.pem"), "{no_key}");
}

#[test]
fn http_inside_tls_closes_and_runs_nothing() {
    let certificates = Certificates::new("http");
    let door = Door::with(EngineOptions::default(), |options| {
        options.tls = Some(certificates.options());
    });
    assert_eq!(door.client().ask(&["GEOADD", "k", "1", "1", "m"]), ":1\r\n");
    for head in ["POST / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"] {
        let mut client = certificates.connect(&door, false);
        let _ = client.write_all(format!("{head}FLUSHALL\r\n").as_bytes());
        let mut rest = Vec::new();
        // Without TLS's own goodbye the end is an error to the client.
        let _ = client.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{}", rest.escape_ascii());
    }
    assert_eq!(door.door.counters().http_closed.load(Ordering::Relaxed), 2);
    assert_eq!(door.client().ask(&["EXISTS", "k"]), ":1\r\n");
}
