//! `whered serve`: starts the server, prints where it listens, and waits for signals.
//!
//! SIGHUP reads the configuration and its files anew (a mistake leaves everything as it was);
//! SIGTERM and SIGINT stop cleanly; SIGUSR2 starts a successor that takes over without losing a
//! question. Standard output gets one line per listening address and then
//! `ready`; everything later goes to the log on standard error.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use whered_engine::read_file;
use whered_server::dns::udp::{Calls, Receiving};
use whered_server::{Config, ControlRequest, ControlRequests, HandedOver, Server, Successor};

use crate::cli::{ServeArguments, VERSION};
use crate::demo;
use crate::interrupt;
use crate::links::{self, Links};
use crate::logging::Log;
use crate::outcome::{Failure, Outcome};
use crate::reload_note::ReloadNote;
use crate::restart::Restart;
use crate::service_manager;

/// Where the demonstration keeps its data when nothing else is said.
const DEMO_DATA_DIR: &str = "data";

/// Runs the server until a signal ends it.
pub(crate) fn run(arguments: ServeArguments) -> Result<Outcome, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::new)?;
    // Signals are caught before anything is opened: none is lost while starting.
    interrupt::leave_signals();
    let mut signals = runtime.block_on(async { Signals::new() }).map_err(Failure::new)?;
    let mut requests = ControlRequests::listen();
    let mut reloads = 0;
    let restart = Restart::note().map_err(Failure::new)?;
    let source = Source::new(arguments)?;
    let config = source.config()?;
    let logging = Log::start(config.log)?;
    source.announce();
    let mut server = source.start(config)?;
    if source.arguments.demo {
        demo::fill(server.engine())?;
    }
    match announce(&server, source.arguments.demo) {
        // Nobody listens to standard output any more; the doors are open all the same.
        Ok(()) | Err(Failure::ClosedPipe) => {}
        Err(failure) => return Err(failure),
    }
    // In this order: the manager must know of this process before the one before it ends.
    service_manager::ready();
    tracing::info!("serving: {}", addresses(&server));
    server.dismiss_predecessor();
    let reason = loop {
        let asked = runtime.block_on(async {
            tokio::select! {
                asked = signals.next() => asked,
                request = next(&mut requests) => ServeRequest::Client(request),
                successor = server.successor() => ServeRequest::HandOver(successor),
            }
        });
        match asked {
            ServeRequest::Reload => {
                reloads += 1;
                let _ = reload(&source, &server, &logging, reloads);
            }
            ServeRequest::Client(ControlRequest::Reload(answer)) => {
                reloads += 1;
                answer.answer(reload(&source, &server, &logging, reloads));
            }
            ServeRequest::Client(ControlRequest::Stop) => break "a client",
            ServeRequest::Restart => restart.start(),
            ServeRequest::Stop(reason) => break reason,
            ServeRequest::HandOver(successor) => {
                let give_up = || runtime.block_on(signals.has_stopped());
                match server.hand_over(successor, give_up).map_err(Failure::new)? {
                    HandedOver::Resumed(resumed) => {
                        server = *resumed;
                        service_manager::ready();
                    }
                    HandedOver::Done => {
                        tracing::info!("stopped: another process serves in this one's place");
                        return Ok(Outcome::Found);
                    }
                    HandedOver::Stopped => {
                        tracing::info!("stopped, on a signal while handing over");
                        return Ok(Outcome::Found);
                    }
                }
            }
        }
    };
    service_manager::stopping();
    tracing::info!("stopping: {reason}");
    let begun = Instant::now();
    server.stop().map_err(Failure::new)?;
    tracing::info!("stopped after {:.1} s", begun.elapsed().as_secs_f64());
    Ok(Outcome::Found)
}

/// Reads the configuration anew; logs, notes and gives what came of it.
fn reload(source: &Source, server: &Server, logging: &Log, number: u64) -> Result<String, String> {
    let take = |config: Config| {
        Links::check(&config)?;
        let (log, remarks) = (config.log, config.remarks());
        let done = server.reload(config).map_err(Failure::new)?;
        logging.take(log)?;
        remarks.iter().for_each(|remark| tracing::warn!("{remark}"));
        Ok(done)
    };
    let reloaded = source.config().and_then(take);
    let outcome = reloaded.map_err(|failure| match failure {
        Failure::Message(why) => why,
        Failure::ClosedPipe => "standard output is closed".to_owned(),
    });
    match &outcome {
        Ok(done) => tracing::info!("reloaded: {done}"),
        Err(why) => tracing::error!("not reloaded, serving on as before: {why}"),
    }
    if let Some(directory) = server.data_dir() {
        let note = ReloadNote { pid: std::process::id(), number, outcome: outcome.clone() };
        if let Err(error) = note.write(directory) {
            tracing::warn!("{}: the outcome is not noted: {error}", directory.display());
        }
    }
    outcome
}

/// The next request of a client; never, where another server of this process takes them.
async fn next(requests: &mut Option<ControlRequests>) -> ControlRequest {
    match requests {
        Some(requests) => requests.next().await,
        None => std::future::pending().await,
    }
}

/// Reads a configuration file.
///
/// # Errors
/// One line with file, line and what is allowed.
pub(crate) fn read_config(file: &Path) -> Result<Config, Failure> {
    let bytes = read_file(file).map_err(|error| Failure::file(file, error))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        let byte = error.as_bytes()[good.len()];
        Failure::Message(format!(
            "{}:{line}: found the byte 0x{byte:02x}; allowed: UTF-8 text",
            file.display()
        ))
    })?;
    Config::from_toml(&text, file).map_err(Failure::new)
}

/// Where the configuration comes from, at the start and at every reload.
struct Source {
    file: Option<PathBuf>,
    arguments: ServeArguments,
}

impl Source {
    fn new(mut arguments: ServeArguments) -> Result<Source, Failure> {
        if !arguments.demo {
            return Ok(Source { file: arguments.config.clone(), arguments });
        }
        let data_dir = arguments.data_dir.get_or_insert_with(|| PathBuf::from(DEMO_DATA_DIR));
        let file = Some(demo::write_files(data_dir)?);
        Ok(Source { file, arguments })
    }

    /// Logs what begins.
    fn announce(&self) {
        let from = match &self.file {
            Some(file) => format!("configuration {}", file.display()),
            None => "no configuration file".to_owned(),
        };
        let pid = process::id();
        tracing::info!("whered {VERSION} starts as process {pid}: {from}");
    }

    /// Starts the server, in the place of another one if that is asked.
    fn start(&self, config: Config) -> Result<Server, Failure> {
        Links::check(&config)?;
        for remark in config.remarks() {
            tracing::warn!("{remark}");
        }
        let commit = env!("WHERED_COMMIT_SHOWN");
        if !commit.is_empty() {
            whered_server::set_commit(commit);
        }
        let started = match self.arguments.take_over {
            true => Server::take_over(config, links::starter()),
            false => Server::start_with(config, links::starter()),
        };
        started.map_err(Failure::new)
    }

    /// The file's configuration with the flags laid over it.
    fn config(&self) -> Result<Config, Failure> {
        let arguments = &self.arguments;
        let has_flag = [&arguments.resp, &arguments.http, &arguments.dns]
            .iter()
            .any(|flags| !flags.is_empty());
        let mut config = match &self.file {
            Some(file) => read_config(file)?,
            None if has_flag => Config::closed(),
            None => Config::default(),
        };
        if arguments.demo {
            config.open_absent();
        }
        if let Some(data_dir) = &self.arguments.data_dir {
            config.data_dir = Some(data_dir.clone());
            config.replaced_by_flag("data_dir");
        }
        let flags = [
            ("resp.listen", &self.arguments.resp),
            ("http.listen", &self.arguments.http),
            ("dns.listen", &self.arguments.dns),
        ];
        for (key, addresses) in flags.into_iter().filter(|(_, addresses)| !addresses.is_empty()) {
            let listen = match key {
                "resp.listen" => &mut config.resp.listen,
                "http.listen" => &mut config.http.listen,
                _ => &mut config.dns.listen,
            };
            listen.clone_from(addresses);
            config.replaced_by_flag(key);
        }
        if let Some(batch) = self.arguments.udp_batch {
            let calls = if batch == 1 { Calls::Single } else { Calls::Many };
            config.dns.receiving = Receiving { batch: batch.into(), calls };
        }
        Ok(config)
    }
}

enum ServeRequest {
    Reload,
    Client(ControlRequest),
    Restart,
    HandOver(Successor),
    /// With the reason.
    Stop(&'static str),
}

struct Signals {
    reload: Signal,
    restart: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            reload: signal(SignalKind::hangup())?,
            restart: signal(SignalKind::user_defined2())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> ServeRequest {
        tokio::select! {
            _ = self.reload.recv() => ServeRequest::Reload,
            _ = self.restart.recv() => ServeRequest::Restart,
            _ = self.terminate.recv() => ServeRequest::Stop("SIGTERM"),
            _ = self.interrupt.recv() => ServeRequest::Stop("SIGINT"),
        }
    }

    /// Whether the process was told to stop; asked while it waits for something else.
    async fn has_stopped(&mut self) -> bool {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => true,
            _ = self.interrupt.recv() => true,
            () = tokio::time::sleep(Duration::ZERO) => false,
        }
    }
}

/// Where the server listens, in one line.
fn addresses(server: &Server) -> String {
    let mut all: Vec<String> = Vec::new();
    for (door, addresses) in doors(server) {
        all.extend(addresses.iter().map(|address| format!("{door} {address}")));
    }
    all.extend(server.resp_unix_path().map(|path| format!("resp-unix {}", path.display())));
    if all.is_empty() { "nothing listens".to_owned() } else { all.join(", ") }
}

/// The listeners by name.
fn doors(server: &Server) -> [(&'static str, &[SocketAddr]); 5] {
    [
        ("resp", server.resp_addresses()),
        ("resp-tls", server.resp_tls_addresses()),
        ("http", server.http_addresses()),
        ("http-tls", server.http_tls_addresses()),
        ("dns", server.dns_addresses()),
    ]
}

fn announce(server: &Server, demo: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let doors = doors(server);
    for (door, addresses) in doors {
        for address in addresses {
            writeln!(out, "{door} {address}")?;
        }
    }
    if let Some(path) = server.resp_unix_path() {
        writeln!(out, "resp-unix {}", path.display())?;
    }
    writeln!(out, "ready")?;
    let port = |addresses: &[SocketAddr]| addresses.first().map_or(0, SocketAddr::port);
    if demo {
        let [resp, _, http, _, dns] = doors.map(|(_, addresses)| port(addresses));
        writeln!(out, "{}", demo::commands(resp, http, dns))?;
    }
    Ok(out.flush()?)
}
