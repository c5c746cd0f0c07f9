//! Redis as the rival: started on a core of its own, and in its best layout.
//!
//! Not for measuring. Redis answers from a dump that it has read up to twice as fast as after
//! additions in random order, since reading lays members and nodes out one behind the other. So it
//! is loaded once, saved, and started anew from that file; the file is kept, since loading
//! sixty million points takes a quarter of an hour. What loading cost is kept beside it.

use serde_json::{Value, json};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use whered_bench::geo::{Bench, Loaded, Server, Setup, free_port};

/// Where Redis and its files are.
pub(crate) struct Redis {
    /// The program.
    pub(crate) binary: PathBuf,
    /// The saved points, or where to save them.
    pub(crate) dump: PathBuf,
    /// Where it may write otherwise.
    pub(crate) scratch: PathBuf,
}

impl Redis {
    /// Starts an empty one, with an append-only file if a journal is asked for.
    pub(crate) fn start(&self, setup: &Setup) -> Result<Server, String> {
        let folder = self.scratch.join(format!("redis-{}", setup.is_journaled));
        // An append-only file of an earlier run would be read.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        self.start_in(&folder, "dump.rdb", setup)
    }

    /// Whether a dump of these points is there.
    pub(crate) fn has_dump(&self) -> bool {
        self.dump.is_file()
    }

    /// Starts one that reads the dump, or is empty and will write it.
    pub(crate) fn start_on_dump(&self, setup: &Setup) -> Result<Server, String> {
        let fault = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
        let folder = self.dump.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|error| fault(folder, error))?;
        let folder = fs::canonicalize(folder).map_err(|error| fault(folder, error))?;
        let name = self.dump.file_name().unwrap_or_default();
        self.start_in(&folder, &name.to_string_lossy(), setup)
    }

    /// Has a server that was loaded save its points, and ends it.
    pub(crate) fn save(&self, server: Server, bench: &Bench<'_>) -> Result<(), String> {
        let fault = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
        server.wire()?.ask(&[b"SAVE"])?;
        if let Some(note) = bench.report.load("load", &server.name) {
            let path = self.note_path();
            let text = format!("{}\n", note.to_json());
            fs::write(&path, text).map_err(|error| fault(&path, error))?;
        }
        drop(server);
        Ok(())
    }

    /// What loading cost when the dump was made.
    pub(crate) fn loaded_before(&self) -> Option<(Loaded, String)> {
        let text = fs::read_to_string(self.note_path()).ok()?;
        let note: Value = serde_json::from_str(&text).ok()?;
        let loaded = Loaded {
            points: note["points"].as_u64()?,
            seconds: note["seconds"].as_f64()?,
            cpu_nanoseconds_per_point: note["cpu_nanoseconds_per_point"].as_f64()?,
            resident_bytes_before: note["resident_bytes_before"].as_u64()?,
            resident_bytes: note["resident_bytes"].as_u64()?,
        };
        let remark = note["remark"].as_str().filter(|remark| !remark.is_empty());
        Some((loaded, remark.unwrap_or("measured when the dump was made").to_owned()))
    }

    /// Its version and the settings that touch how it uses threads and memory, in its own words.
    pub(crate) fn describe(&self, server: &Server) -> Result<Value, String> {
        let mut wire = server.wire()?;
        let mut info = String::new();
        for section in ["server", "memory"] {
            let reply = wire.ask(&[b"INFO", section.as_bytes()])?;
            info.push_str(&String::from_utf8_lossy(&reply));
        }
        let mut found = serde_json::Map::new();
        for name in ["redis_version", "redis_build_id", "gcc_version", "mem_allocator"] {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            found.insert(name.to_owned(), json!(line));
        }
        let settings = [
            "io-threads",
            "io-threads-do-reads",
            "save",
            "appendonly",
            "appendfsync",
            "activedefrag",
            "maxmemory",
            "hz",
        ];
        for name in settings {
            let reply = wire.ask(&[b"CONFIG", b"GET", name.as_bytes()])?;
            let text = String::from_utf8_lossy(&reply);
            let value = text.strip_suffix("\r\n").and_then(|text| text.rsplit("\r\n").next());
            found.insert(name.to_owned(), json!(value));
        }
        Ok(Value::Object(found))
    }

    fn note_path(&self) -> PathBuf {
        let mut path = self.dump.clone().into_os_string();
        path.push(".json");
        path.into()
    }

    fn start_in(&self, folder: &Path, dump: &str, setup: &Setup) -> Result<Server, String> {
        let port = free_port()?;
        let appendonly = if setup.is_journaled { "yes" } else { "no" };
        let mut command = Command::new(&self.binary);
        command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", appendonly, "--appendfsync", "everysec"])
            // A rewrite in the middle would cost Redis twice the writes.
            .args(["--auto-aof-rewrite-percentage", "0"])
            // A reply of a hundred megabytes is no reason to close a connection.
            .args(["--client-output-buffer-limit", "normal 0 0 0"])
            .args(["--dbfilename", dump, "--dir"])
            .arg(folder)
            .stderr(Stdio::null());
        let address: SocketAddr = (Ipv4Addr::LOCALHOST, port).into();
        let ready = "Ready to accept connections";
        Server::start("redis", &mut command, &setup.cores, ready, Some(address))
    }
}
