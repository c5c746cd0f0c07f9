//! MariaDB, PostgreSQL and Redis, each in a folder and on a port of its own, killed and started
//! again.
//!
//! Not for how a sink or stream works with them. They are asked by their own programs, so that
//! nothing of ours stands between them and the comparison. One that is not installed is left out,
//! unless `WHERED_REQUIRE` names `peers`.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::super::pause;
use super::twin::Rows;

const START_LIMIT: Duration = Duration::from_secs(90);

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    MariaDb,
    Postgres,
    Redis,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::MariaDb, Kind::Postgres, Kind::Redis];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::MariaDb => "mariadb",
            Kind::Postgres => "postgres",
            Kind::Redis => "redis",
        }
    }
}

/// A server of others.
pub(super) struct Peer {
    pub(super) kind: Kind,
    folder: PathBuf,
    port: u16,
    server: PathBuf,
    client: PathBuf,
    user: Option<(u32, u32)>,
    child: Option<Child>,
}

impl Peer {
    /// Makes its data and starts it; `None` if it is not installed.
    ///
    /// # Errors
    ///
    /// It is installed and does not start, or it is required.
    pub(super) fn new(kind: Kind, scratch: &Path) -> Result<Option<Peer>, String> {
        let (server, client, maker): (&[&str], &[&str], &[&str]) = match kind {
            Kind::MariaDb => {
                (&["mariadbd", "mysqld"], &["mariadb", "mysql"], &["mariadb-install-db"])
            }
            Kind::Postgres => (&["postgres"], &["psql"], &["initdb"]),
            Kind::Redis => {
                (&["redis-server", "valkey-server"], &["redis-cli", "valkey-cli"], &["true"])
            }
        };
        let found = (program(server), program(client), program(maker));
        let (Some(server), Some(client), Some(maker)) = found else {
            let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
            return match required.split(',').any(|what| what == "peers") {
                true => Err(format!("WHERED_REQUIRE names peers; {} is missing", kind.name())),
                false => Ok(None),
            };
        };
        let folder = scratch.join(kind.name());
        let fault = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(fault)?;
        let user = match kind {
            Kind::MariaDb => user_of_server("mysql"),
            Kind::Postgres => user_of_server("postgres"),
            Kind::Redis => None,
        };
        if let Some((uid, gid)) = user {
            chown(&folder, Some(uid), Some(gid)).map_err(fault)?;
        }
        let listener = TcpListener::bind("127.0.0.1:0").map_err(fault)?;
        let port = listener.local_addr().map_err(fault)?.port();
        drop(listener);
        let mut peer = Peer { kind, folder, port, server, client, user, child: None };
        peer.make(&maker)?;
        peer.start()?;
        Ok(Some(peer))
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command.current_dir("/tmp").stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null());
        command
    }

    fn make(&self, maker: &Path) -> Result<(), String> {
        let mut command = self.command(maker);
        match self.kind {
            Kind::MariaDb => command
                .arg("--no-defaults")
                .arg(format!("--datadir={}", self.data().display()))
                .args(["--auth-root-authentication-method=normal", "--skip-test-db"]),
            Kind::Postgres => command.arg("-D").arg(self.data()).args([
                "--username=postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-locale",
            ]),
            Kind::Redis => return Ok(()),
        };
        let made = command.stderr(Stdio::piped()).output().map_err(|error| error.to_string())?;
        let words = String::from_utf8_lossy(&made.stderr);
        let last = words.lines().next_back().unwrap_or_default();
        if made.status.success() { Ok(()) } else { Err(format!("{}: {last}", self.kind.name())) }
    }

    fn command_to_serve(&self) -> Command {
        let mut command = self.command(&self.server);
        let at = self.folder.display();
        let port = self.port.to_string();
        match self.kind {
            Kind::MariaDb => command
                .arg("--no-defaults")
                .arg(format!("--datadir={}", self.data().display()))
                .arg(format!("--socket={at}/socket"))
                .arg(format!("--pid-file={at}/pid"))
                .arg(format!("--port={port}"))
                .args(["--bind-address=127.0.0.1", "--innodb-buffer-pool-size=32M"]),
            Kind::Postgres => command
                .arg("-D")
                .arg(self.data())
                .args(["-p", &port, "-c", "listen_addresses=127.0.0.1", "-k"])
                .arg(&self.folder),
            Kind::Redis => command
                .arg("--dir")
                .arg(&self.folder)
                .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"])
                .args(["--appendonly", "yes", "--appendfsync", "always"]),
        };
        command
    }

    /// Starts it and waits until it answers.
    pub(super) fn start(&mut self) -> Result<(), String> {
        let end = Instant::now() + START_LIMIT;
        loop {
            // Processes of its last life may still hold what it wants: then it ends at once.
            let has_ended = |child: &mut Child| child.try_wait().is_ok_and(|ended| ended.is_some());
            if self.child.as_mut().is_none_or(has_ended) {
                let child = self.command_to_serve().spawn();
                self.child = Some(child.map_err(|error| format!("{}: {error}", self.kind.name()))?);
            }
            pause(Duration::from_millis(20));
            if self.is_ready() {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(format!("{} does not answer", self.kind.name()));
            }
        }
    }

    fn is_ready(&self) -> bool {
        match self.kind {
            Kind::Redis => TcpStream::connect(self.address()).is_ok(),
            Kind::MariaDb => self.ask("", "SELECT 1").is_ok(),
            Kind::Postgres => self.ask("postgres", "SELECT 1").is_ok(),
        }
    }

    /// As a power cut does it, but for the disk's cache.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself, which the next start finds out.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// What a sink or stream is configured with.
    pub(super) fn url(&self, database: &str) -> String {
        let port = self.port;
        match self.kind {
            Kind::MariaDb => format!("mysql://root@127.0.0.1:{port}/{database}"),
            Kind::Postgres => format!("postgres://postgres@127.0.0.1:{port}/{database}"),
            Kind::Redis => format!("redis://127.0.0.1:{port}"),
        }
    }

    /// The lines of an answer, columns separated by tabs.
    pub(super) fn ask(&self, database: &str, statement: &str) -> Result<String, String> {
        let mut command = Command::new(&self.client);
        let port = self.port.to_string();
        match self.kind {
            Kind::MariaDb => {
                command.args(["--no-defaults", "-h127.0.0.1", "-uroot", "-N", "-B", "-P", &port]);
                command.args(["-e", statement]);
                if !database.is_empty() {
                    command.arg(database);
                }
            }
            Kind::Postgres => {
                command.args(["-X", "-h", "127.0.0.1", "-U", "postgres", "-p", &port]);
                command.args(["-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1"]);
                command.args(["-d", database, "-c", statement]);
            }
            Kind::Redis => return Err("a Redis has no statements".to_owned()),
        }
        let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        Err(format!("{}: {}", self.kind.name(), words.lines().next().unwrap_or_default()))
    }

    /// All rows of the table.
    pub(super) fn rows(&self, database: &str) -> Result<Rows, String> {
        let text = self.ask(database, "SELECT member, seen, total, largest FROM objects")?;
        let mut rows = Rows::new();
        for line in text.lines() {
            let mut fields = line.split('\t');
            let member = fields.next().unwrap_or_default().to_owned();
            let mut number = || fields.next().and_then(|field| field.parse::<i64>().ok());
            let row = (number(), number(), number());
            let (Some(seen), Some(total), Some(largest)) = row else {
                return Err(format!("{}: found the row {line:?}", self.kind.name()));
            };
            if rows.insert(member, (seen, total, largest)).is_some() {
                return Err(format!("{}: two rows {line:?}", self.kind.name()));
            }
        }
        Ok(rows)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A program, wherever Debian puts it.
fn program(names: &[&str]) -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> =
        ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/bin"].iter().map(PathBuf::from).collect();
    // Versions of PostgreSQL lie side by side.
    for version in fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        folders.push(version.path().join("bin"));
    }
    let paths = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    paths.into_iter().find(|path| path.exists())
}

/// The user and group that a server runs as when we are root, which it refuses to be.
fn user_of_server(name: &str) -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").ok()?.uid() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2).map(str::parse);
    Some((fields.next()?.ok()?, fields.next()?.ok()?))
}
