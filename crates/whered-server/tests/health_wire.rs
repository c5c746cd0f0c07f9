//! Probes against real listeners that go up and down, and what follows for the choice of sites.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use support::client::{Client, Value, request};
use whered_engine::{HealthOverride, Probed};
use whered_server::{Config, Server};

/// Far beyond any answer: a machine that is busy must not fail a test.
const LIMIT: Duration = Duration::from_secs(60);

#[allow(clippy::disallowed_methods, reason = "what is waited for shows only to those who ask")]
fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < LIMIT, "{what} has not come");
        sleep(Duration::from_millis(10));
    }
}

/// A pool of sites `s0`, `s1`, ... with these checks (the value of `check`, or nothing).
fn config(folder: &Path, checks: &[&str]) -> Config {
    let zone = "$TTL 60\n@ SOA ns hm 1 2 3 4 5\n@ NS ns\nns A 127.0.0.1\n";
    std::fs::write(folder.join("zone"), zone).unwrap();
    let mut text = "[resp]\nlisten = ['127.0.0.1:0']\n[http]\nlisten = ['127.0.0.1:0']\n\
                    [dns]\nlisten = ['127.0.0.1:0']\n[[zone]]\nname = 'example.com'\n\
                    path = 'zone'\n[[pool]]\nname = 'www'\nowners = ['www.example.com']\n\
                    policy = ['healthy']\n"
        .to_owned();
    for (index, check) in checks.iter().enumerate() {
        let _ = write!(
            text,
            "[[pool.site]]\nname = 's{index}'\nat = {{ longitude = 0, latitude = 0 }}\n\
             addresses = ['192.0.2.{}']\n",
            index % 250
        );
        if !check.is_empty() {
            let _ = writeln!(text, "check = {check}");
        }
    }
    Config::from_toml(&text, &folder.join("whered.toml")).unwrap()
}

fn start(name: &str, checks: &[&str]) -> Server {
    Server::start(config(&world::folder(name), checks)).unwrap()
}

fn probed(server: &Server, site: usize) -> Probed {
    server.engine().generation().pools()[0].sites[site].health.probed
}

fn wait_until(server: &Server, site: usize, wanted: Probed) {
    let what = format!("s{site} {wanted:?}");
    wait_for(&what, || probed(server, site) == wanted);
}

fn quick(target: &str, more: &str) -> String {
    format!("{{ url = '{target}', interval_seconds = 0.05, timeout_seconds = 5, {more} }}")
}

fn asked(server: &Server, words: &[&str]) -> Value {
    let mut client = Client::connect(server.resp_addresses()[0]);
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    client.send(&request(&words));
    client.reply().value
}

/// What SITE.LIST says of each site.
fn listed(server: &Server) -> Vec<BTreeMap<String, Value>> {
    let Value::Array(sites) = asked(server, &["SITE.LIST", "www"]) else { panic!("a list") };
    sites.into_iter().map(fields).collect()
}

fn fields(value: Value) -> BTreeMap<String, Value> {
    let (Value::Array(parts) | Value::Map(parts)) = value else {
        panic!("{value:?} has no fields")
    };
    parts.chunks(2).map(|pair| (text(&pair[0]), pair[1].clone())).collect()
}

fn text(value: &Value) -> String {
    let Value::Bulk(bytes) = value else { panic!("{value:?} is no text") };
    String::from_utf8_lossy(bytes).into_owned()
}

/// What the last probe of a site's first check has found.
fn last(server: &Server, site: usize) -> String {
    let Value::Array(checks) = &listed(server)[site]["checks"] else { panic!("a list") };
    text(&fields(checks[0].clone())["last"])
}

/// An HTTP server that answers what it is told to.
struct Web {
    address: SocketAddr,
    answer: Arc<Mutex<&'static str>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Web {
    fn start(answer: &'static str) -> Web {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let web = Web { address, answer: Arc::new(Mutex::new(answer)), requests: Arc::default() };
        let (answer, requests) = (Arc::clone(&web.answer), Arc::clone(&web.requests));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let request = read_request(&mut stream.as_ref().unwrap());
                requests.lock().unwrap().push(request);
                let answer = *answer.lock().unwrap();
                // A probe that has seen enough may be gone.
                let _ = stream.unwrap().write_all(answer.as_bytes());
            }
        });
        web
    }

    fn say(&self, answer: &'static str) {
        *self.answer.lock().unwrap() = answer;
    }
}

fn read_request(stream: &mut impl Read) -> String {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 1024]);
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";

#[test]
fn a_listener_that_goes_and_comes_back_takes_its_site_along() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = start("health_tcp", &[&quick(&format!("tcp://{address}"), "down_after = 2"), ""]);
    let chosen = |server: &Server| text(&asked(server, &["STEER", "www", "192.0.2.1"]));
    wait_until(&server, 0, Probed::Up);
    assert_eq!(chosen(&server), "s0");
    drop(listener);
    wait_until(&server, 0, Probed::Down);
    assert_eq!(chosen(&server), "s1");
    assert!(last(&server, 0).starts_with("no connection: "), "{}", last(&server, 0));
    let listener = TcpListener::bind(address).unwrap();
    wait_until(&server, 0, Probed::Up);
    assert_eq!(chosen(&server), "s0");
    drop(listener);
    assert_eq!(probed(&server, 1), Probed::Unchecked);
    server.stop().unwrap();
}

#[test]
fn status_and_body_of_http_decide_and_the_request_is_a_proper_one() {
    let web = Web::start(GOOD);
    let url = format!("http://{}/healthz?deep=1", web.address);
    let status = quick(&url, "status = [200, 204], up_after = 1, down_after = 1");
    let body = quick(&url, "body = 'ready', name = 'www.example.com'");
    let server = start("health_http", &[&status, &body]);
    wait_until(&server, 0, Probed::Up);
    wait_until(&server, 1, Probed::Down);
    assert_eq!(last(&server, 1), "the body has no 'ready'");
    web.say(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nrea\r\n2\r\ndy\r\n0\r\n\r\n",
    );
    wait_until(&server, 1, Probed::Up);
    web.say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 None\r\n\r\n");
    let probes = |web: &Web| web.requests.lock().unwrap().len();
    let before = probes(&web);
    wait_for("more probes", || probes(&web) > before + 6);
    assert_eq!(probed(&server, 0), Probed::Up);
    web.say(BUSY);
    wait_until(&server, 0, Probed::Down);
    assert_eq!(last(&server, 0), "status 503");
    web.say("SSH-2.0-no\r\n");
    wait_for("the reason", || last(&server, 0).starts_with("no HTTP answer"));
    server.stop().unwrap();
    let requests = web.requests.lock().unwrap();
    let port = web.address.port();
    let named = format!("GET /healthz?deep=1 HTTP/1.1\r\nHost: www.example.com:{port}\r\n");
    assert!(requests.iter().any(|request| request.starts_with(&named)), "{requests:?}");
}

#[test]
fn a_site_that_flaps_stays_what_it_was() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            read_request(&mut stream);
            let number = count.fetch_add(1, Ordering::Relaxed);
            let _ = stream.write_all(if number.is_multiple_of(2) { GOOD } else { BUSY }.as_bytes());
        }
    });
    let server = start("health_flap", &[&quick(&url, "up_after = 2, down_after = 2")]);
    wait_until(&server, 0, Probed::Up);
    let number = server.engine().generation().number();
    let from = asked.load(Ordering::Relaxed);
    wait_for("twenty probes", || asked.load(Ordering::Relaxed) > from + 20);
    assert_eq!(server.engine().generation().number(), number, "nothing was served anew");
    server.stop().unwrap();
}

#[test]
fn a_listener_that_never_answers_is_given_up_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let held = Arc::new(Mutex::new(Vec::<TcpStream>::new()));
    let keep = Arc::clone(&held);
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        listener.incoming().for_each(|stream| keep.lock().unwrap().push(stream.unwrap()));
    });
    let slow = |url: &str| {
        format!("{{ url = '{url}', interval_seconds = 0.1, timeout_seconds = 0.2, up_after = 1 }}")
    };
    let checks = [slow(&format!("http://{address}/")), slow(&format!("https://{address}/"))];
    let server = start("health_silent", &[&checks[0], &checks[1]]);
    for site in 0..2 {
        wait_until(&server, site, Probed::Down);
        assert_eq!(last(&server, site), "no answer within 0.2 s");
    }
    let begun = Instant::now();
    server.stop().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn https_is_good_only_with_a_certificate_that_names_the_site() {
    let folder = world::folder("health_https_files");
    let (address, ca) = tls_server(&folder);
    let url = format!("https://{address}/");
    let good = quick(&url, &format!("ca = '{ca}', name = 'www.example.com'"));
    let misnamed = quick(&url, &format!("ca = '{ca}', name = 'other.example.com'"));
    let server =
        start("health_https", &[&good, &misnamed, &quick(&url, "name = 'www.example.com'")]);
    wait_until(&server, 0, Probed::Up);
    wait_until(&server, 1, Probed::Down);
    assert!(last(&server, 1).contains("not valid for name"), "{}", last(&server, 1));
    wait_until(&server, 2, Probed::Down);
    assert!(last(&server, 2).contains("UnknownIssuer"), "{}", last(&server, 2));
    server.stop().unwrap();
}

/// An HTTPS server for `www.example.com`, and the file of who has signed its certificate.
fn tls_server(folder: &Path) -> (SocketAddr, String) {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = parameters.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(parameters, authority_key);
    let ca = folder.join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["www.example.com".to_owned()]).unwrap();
    let certificate = parameters.signed_by(&key, &issuer).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(session, stream.unwrap());
            if !read_request(&mut stream).is_empty() {
                let _ = stream.write_all(GOOD.as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    (address, ca.display().to_string())
}

fn script(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn commands_decide_by_their_exit_code_without_a_shell_between() {
    let folder = world::folder("health_exec_files");
    let (flag, seen) = (folder.join("flag"), folder.join("seen"));
    let told = format!(
        "printf '%s|' \"$WHERED_POOL\" \"$WHERED_SITE\" \"$@\" > {}; test -e {}",
        seen.display(),
        flag.display()
    );
    let told = script(&folder, "told", &told);
    let child = folder.join("child");
    let slow = format!("sleep 60 & echo $! > {}; wait", child.display());
    let slow = script(&folder, "slow", &slow);
    let told = format!(
        "{{ url = 'exec:{told} -a', args = ['$HOME; b'], interval_seconds = 0.05, up_after = 1, \
         down_after = 1 }}"
    );
    let slow = format!("{{ url = 'exec:{slow}', interval_seconds = 60, timeout_seconds = 0.5 }}");
    let server = start("health_exec", &[&told, &slow, "'exec:/nowhere/at/all'"]);
    wait_until(&server, 0, Probed::Down);
    assert_eq!(last(&server, 0), "exit code 1");
    assert_eq!(std::fs::read_to_string(&seen).unwrap(), "www|s0|-a|$HOME; b|");
    std::fs::write(&flag, "").unwrap();
    wait_until(&server, 0, Probed::Up);
    wait_until(&server, 1, Probed::Down);
    assert_eq!(last(&server, 1), "no answer within 0.5 s");
    let child = std::fs::read_to_string(&child).unwrap();
    let process = format!("/proc/{}/stat", child.trim());
    // Killed, it may still be there for whoever should have waited for it.
    wait_for("the end of what the command has started", || {
        std::fs::read_to_string(&process).map_or(true, |stat| stat.contains(") Z "))
    });
    wait_until(&server, 2, Probed::Down);
    assert!(last(&server, 2).starts_with("it cannot be started: "));
    server.stop().unwrap();
}

#[test]
fn several_checks_must_all_be_good() {
    let (good, other) = (Web::start(GOOD), Web::start(BUSY));
    let check = |web: &Web| quick(&format!("http://{}/", web.address), "up_after = 1");
    let server = start("health_both", &[&format!("[{}, {}]", check(&good), check(&other))]);
    wait_until(&server, 0, Probed::Down);
    other.say(GOOD);
    wait_until(&server, 0, Probed::Up);
    server.stop().unwrap();
}

#[test]
fn a_thousand_sites_are_probed_beside_each_other() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let check = |address| format!("{{ url = 'tcp://{address}', interval_seconds = 2 }}");
    let (up, down) = (check(open), check(closed));
    let checks: Vec<&str> =
        (0..1000).map(|index| if index % 4 == 3 { &down } else { &up }.as_str()).collect();
    let server = start("health_many", &checks);
    let states = |wanted: Probed| {
        let generation = server.engine().generation();
        generation.pools()[0].sites.iter().filter(|site| site.health.probed == wanted).count()
    };
    wait_for("the last first probe", || states(Probed::Up) + states(Probed::Down) == 1000);
    assert_eq!((states(Probed::Up), states(Probed::Down)), (750, 250));
    let generations = server.engine().generation().number();
    assert!(generations < 1000, "{generations}: many results make one generation");
    let Value::Bulk(info) = asked(&server, &["INFO", "sites"]) else { panic!("a text") };
    let info = String::from_utf8(info).unwrap();
    assert!(info.contains("pool_www:sites=1000,up=750,down=250,unknown=0,overridden=0"), "{info}");
    server.stop().unwrap();
}

#[test]
fn overrides_reloads_and_metrics_go_with_probes() {
    let folder = world::folder("health_reload");
    let web = Web::start(BUSY);
    let check = quick(&format!("http://{}/", web.address), "up_after = 1, down_after = 1");
    let server = Server::start(config(&folder, &[&check, ""])).unwrap();
    wait_until(&server, 0, Probed::Down);
    let up = |server: &Server| server.engine().generation().pools()[0].sites[0].healthy;
    assert!(!up(&server));
    for (command, is_up, manual) in
        [("SITE.UP", true, "up"), ("SITE.DOWN", false, "down"), ("SITE.AUTO", false, "auto")]
    {
        assert_eq!(asked(&server, &[command, "www", "s0"]), Value::Simple(b"OK".to_vec()));
        assert_eq!(up(&server), is_up);
        let site = &listed(&server)[0];
        assert_eq!(
            (text(&site["override"]), text(&site["probed"])),
            (manual.into(), "down".into())
        );
    }
    let metrics = world::http::get(&server, "/metrics").body;
    for line in [
        "whered_site_up{pool=\"www\",site=\"s0\"} 0",
        "whered_site_up{pool=\"www\",site=\"s1\"} 1",
        "whered_site_probed_up{pool=\"www\",site=\"s0\"} 0",
        "whered_site_checks_total{pool=\"www\",site=\"s0\",result=\"timeout\"} 0",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    server.reload(config(&folder, &[&check, ""])).unwrap();
    assert_eq!(probed(&server, 0), Probed::Down, "the same checks go on");
    server.reload(config(&folder, &["", &check])).unwrap();
    wait_until(&server, 0, Probed::Unchecked);
    wait_until(&server, 1, Probed::Down);
    server.engine().override_site("www", "s1", HealthOverride::Up).unwrap();
    assert!(server.engine().generation().pools()[0].sites[1].healthy);
    server.stop().unwrap();
}

#[test]
fn a_file_of_authorities_that_cannot_be_read_stops_the_start_with_its_name() {
    let folder = world::folder("health_ca");
    let check = quick("https://127.0.0.1/", "ca = 'missing.pem'");
    let error = Server::start(config(&folder, &[&check])).map(drop).unwrap_err().to_string();
    assert!(error.contains("site 's0' in pool 'www'") && error.contains("missing.pem"), "{error}");
}
