//! `whered serve`: starts the server, prints where it listens, and waits for signals.
//!
//! SIGHUP reads the configuration and its files anew (a mistake leaves everything as it was);
//! SIGTERM and SIGINT stop cleanly. Standard output gets one line per listening address and then
//! `ready`; everything later goes to the log on standard error.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio::signal::unix::{Signal, SignalKind, signal};
use whered_engine::read_file;
use whered_server::dns::udp::{Calls, Receiving};
use whered_server::{Config, Server};

use crate::cli::ServeArguments;
use crate::demo;
use crate::links::Links;
use crate::outcome::{Failure, Outcome};

/// Where the demonstration keeps its data when nothing else is said.
const DEMO_DATA_DIR: &str = "data";

/// Runs the server until a signal ends it.
pub(crate) fn run(arguments: ServeArguments) -> Result<Outcome, Failure> {
    let colours = io::stderr().is_terminal();
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(colours).with_target(false).init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::new)?;
    // Signals are caught before anything is opened: none is lost while starting.
    let mut signals = runtime.block_on(async { Signals::new() }).map_err(Failure::new)?;
    let source = Source::new(arguments)?;
    let config = source.config()?;
    Links::check(&config)?;
    let (server, links) = start(config)?;
    if source.arguments.demo {
        demo::fill(server.engine())?;
    }
    match announce(&server, source.arguments.demo) {
        // Nobody listens to standard output any more; the doors are open all the same.
        Ok(()) | Err(Failure::ClosedPipe) => {}
        Err(failure) => return Err(failure),
    }
    runtime.block_on(async {
        while signals.next().await == Asked::Reload {
            let reloaded =
                source.config().and_then(|config| server.reload(config).map_err(Failure::new));
            match reloaded {
                Ok(done) => tracing::info!("reloaded: {done}"),
                Err(Failure::Message(why)) => {
                    tracing::error!("not reloaded, serving on as before: {why}");
                }
                Err(Failure::ClosedPipe) => {}
            }
        }
    });
    links.stop();
    server.stop().map_err(Failure::new)?;
    Ok(Outcome::Found)
}

/// Starts the server, and what its feeds are tied to before anything is applied.
fn start(config: Config) -> Result<(Server, Links), Failure> {
    let feeds = config.clone();
    let started = Server::start_with(config, |engine| {
        Links::start(&feeds, engine).map_err(|failure| match failure {
            Failure::Message(why) => why,
            Failure::ClosedPipe => "standard output is closed".to_owned(),
        })
    });
    started.map_err(Failure::new)
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

    /// The file's configuration with the flags laid over it.
    fn config(&self) -> Result<Config, Failure> {
        let mut config = match &self.file {
            Some(file) => read_config(file)?,
            None => Config::default(),
        };
        if let Some(data_dir) = &self.arguments.data_dir {
            config.data_dir = Some(data_dir.clone());
        }
        let lay_over = |listen: &mut Vec<SocketAddr>, flags: &[SocketAddr]| {
            if !flags.is_empty() {
                *listen = flags.to_vec();
            }
        };
        lay_over(&mut config.resp.listen, &self.arguments.resp);
        lay_over(&mut config.http.listen, &self.arguments.http);
        lay_over(&mut config.dns.listen, &self.arguments.dns);
        if let Some(batch) = self.arguments.udp_batch {
            let calls = if batch == 1 { Calls::Single } else { Calls::Many };
            config.dns.receiving = Receiving { batch: batch.into(), calls };
        }
        Ok(config)
    }
}

#[derive(PartialEq, Eq)]
enum Asked {
    Reload,
    Stop,
}

struct Signals {
    reload: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            reload: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.reload.recv() => Asked::Reload,
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
        }
    }
}

fn announce(server: &Server, demo: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let doors = [
        ("resp", server.resp_addresses()),
        ("resp-tls", server.resp_tls_addresses()),
        ("http", server.http_addresses()),
        ("dns", server.dns_addresses()),
    ];
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
        let [resp, _, http, dns] = doors.map(|(_, addresses)| port(addresses));
        writeln!(out, "{}", demo::commands(resp, http, dns))?;
    }
    Ok(out.flush()?)
}
