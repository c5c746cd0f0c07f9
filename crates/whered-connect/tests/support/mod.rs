//! Servers of others that tests start, kill and start again, each in a folder of its own.
//!
//! A test whose server is not installed is skipped with a reason, unless `WHERED_REQUIRE` names
//! `peers`. Data folders are removed and servers ended when a server is dropped.

#![allow(clippy::print_stderr, reason = "a skipped test says so")]
#![allow(dead_code, reason = "each test program uses its own part")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program, wherever Debian puts it; skips the test without it.
pub(crate) fn program(names: &[&str]) -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> =
        ["/usr/bin", "/usr/sbin", "/usr/local/bin"].iter().map(PathBuf::from).collect();
    // Versions of PostgreSQL lie side by side.
    for version in fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        folders.push(version.path().join("bin"));
    }
    let found = names
        .iter()
        .find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|path| path.exists()));
    if found.is_none() {
        let required = std::env::var("WHERED_REQUIRE").unwrap_or_default();
        let is_required = required.split(',').any(|what| what == "peers");
        assert!(!is_required, "WHERED_REQUIRE names peers, but there is no {names:?}");
        eprintln!("skipped: there is no {names:?}");
    }
    found
}

/// A port that nobody uses.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    listener.local_addr().expect("is bound").port()
}

/// Looks every 20 ms until something is there.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(90);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited 90 s for {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// A server with a folder and a port that stay the same over its restarts.
pub(crate) struct Peer {
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
    command: Box<dyn Fn() -> Command + Send>,
    child: Option<Child>,
}

impl Peer {
    /// A folder for a server, owned by its user.
    fn folder(name: &str, user: Option<&User>) -> PathBuf {
        let folder = std::env::temp_dir().join(format!(
            "whered-peer-{name}-{}-{}",
            std::process::id(),
            free_port()
        ));
        fs::create_dir_all(&folder).expect("the temporary folder is writable");
        if let Some(user) = user {
            chown(&folder, Some(user.uid), Some(user.gid)).expect("root may");
        }
        folder
    }

    /// Starts it, again and again while it ends at once: processes of its last life may still hold
    /// what it wants.
    pub(crate) fn start(&mut self) {
        assert!(self.child.is_none(), "it runs");
        let child = wait_for("a server that stays", || {
            let mut command = (self.command)();
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().expect("the program was found");
            for _ in 0..20 {
                std::thread::park_timeout(Duration::from_millis(20));
                if child.try_wait().expect("is ours").is_some() {
                    return None;
                }
            }
            Some(child)
        });
        self.child = Some(child);
    }

    /// The number of its process.
    pub(crate) fn process(&self) -> String {
        self.child.as_ref().expect("it runs").id().to_string()
    }

    /// As a power cut does it, but for the disk's cache.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("is ours");
            child.wait().expect("is ours");
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A user that a server runs as when the tests run as root.
pub(crate) struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// The user of that name, if we are root and there is one.
    fn of_server(name: &str) -> Option<User> {
        let is_root = fs::metadata("/proc/self").is_ok_and(|meta| {
            use std::os::unix::fs::MetadataExt;
            meta.uid() == 0
        });
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2).map(str::parse);
        let (uid, gid) = (fields.next()?.ok()?, fields.next()?.ok()?);
        is_root.then_some(User { uid, gid })
    }
}

fn as_user(program: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command.current_dir("/tmp");
    command
}

/// A MariaDB with an empty database `game` and the user root without a password.
pub(crate) fn mariadb() -> Option<Peer> {
    let server = program(&["mariadbd", "mysqld"])?;
    let install = program(&["mariadb-install-db"])?;
    let user = User::of_server("mysql");
    let ids = user.as_ref().map(|user| (user.uid, user.gid));
    let folder = Peer::folder("mariadb", user.as_ref());
    let data = folder.join("data");
    let installed = as_user(&install, ids)
        .arg("--no-defaults")
        .arg(format!("--datadir={}", data.display()))
        .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
        .output()
        .expect("the program was found");
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    fs::write(folder.join("begin.sql"), "CREATE DATABASE IF NOT EXISTS game;\n").expect("writable");
    let port = free_port();
    let at = folder.clone();
    let command = move || {
        let mut command = as_user(&server, ids);
        command
            .arg("--no-defaults")
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", at.join("socket").display()))
            .arg(format!("--pid-file={}", at.join("pid").display()))
            .arg(format!("--init-file={}", at.join("begin.sql").display()))
            .arg(format!("--port={port}"))
            .args(["--bind-address=127.0.0.1", "--innodb-buffer-pool-size=64M"]);
        command
    };
    let mut peer = Peer { folder, port, command: Box::new(command), child: None };
    peer.start();
    Some(peer)
}

/// A PostgreSQL with the database `postgres` and the user of the same name, trusted.
pub(crate) fn postgresql() -> Option<Peer> {
    let server = program(&["postgres"])?;
    let init = program(&["initdb"])?;
    let user = User::of_server("postgres");
    let ids = user.as_ref().map(|user| (user.uid, user.gid));
    let folder = Peer::folder("postgres", user.as_ref());
    let data = folder.join("data");
    let made = as_user(&init, ids)
        .arg("-D")
        .arg(&data)
        .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale"])
        .output()
        .expect("the program was found");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let port = free_port();
    let at = folder.clone();
    let command = move || {
        let mut command = as_user(&server, ids);
        command.arg("-D").arg(&data).arg("-p").arg(port.to_string());
        command.arg("-k").arg(&at).args(["-c", "listen_addresses=127.0.0.1"]);
        command
    };
    let mut peer = Peer { folder, port, command: Box::new(command), child: None };
    peer.start();
    Some(peer)
}

/// A PostgreSQL that takes encrypted connections only, and the file with its own certificate, made
/// for 127.0.0.1.
pub(crate) fn postgresql_with_tls() -> Option<(Peer, PathBuf)> {
    let mut peer = postgresql()?;
    peer.kill();
    let key = rcgen::KeyPair::generate().expect("a key");
    let names = vec!["127.0.0.1".to_owned()];
    let parameters = rcgen::CertificateParams::new(names).expect("a name");
    let certificate = parameters.self_signed(&key).expect("a certificate");
    let data = peer.folder.join("data");
    let files = [
        ("server.crt", certificate.pem()),
        ("server.key", key.serialize_pem()),
        ("pg_hba.conf", "hostssl all all 127.0.0.1/32 trust\n".to_owned()),
        ("postgresql.auto.conf", "ssl = on\n".to_owned()),
    ];
    let user = User::of_server("postgres");
    for (name, text) in files {
        let path = data.join(name);
        fs::write(&path, text).expect("writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("is ours");
        if let Some(user) = &user {
            chown(&path, Some(user.uid), Some(user.gid)).expect("root may");
        }
    }
    peer.start();
    let authority = data.join("server.crt");
    Some((peer, authority))
}

/// A Redis that has every write on the disk before it answers.
pub(crate) fn redis() -> Option<Peer> {
    let server = program(&["redis-server", "valkey-server"])?;
    let folder = Peer::folder("redis", None);
    let port = free_port();
    let at = folder.clone();
    let command = move || {
        let mut command = Command::new(&server);
        command.arg("--port").arg(port.to_string()).arg("--dir").arg(&at);
        command.args(["--bind", "127.0.0.1", "--save", "", "--daemonize", "no"]);
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        command
    };
    let mut peer = Peer { folder, port, command: Box::new(command), child: None };
    peer.start();
    Some(peer)
}
