//! The rivals as their users would set them up for speed: one thread that answers, the same zone,
//! minimal responses, no rate limit, no cookies, 4 MB of receive buffer.
//!
//! Not for measuring. Each has its files in a folder of its own and ends with its value.
//!
//! A receive buffer is set in each configuration that has a word for it; for Knot and PowerDNS,
//! which have none, and gdnsd, which takes no more than 1 MB, the run raises the system's default
//! (`net.core.rmem_default`).

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use whered_bench::dns::{Shape, Target, free_address, zone_file};

/// The rivals by name.
pub(crate) const NAMES: [&str; 5] = ["nsd", "knot", "gdnsd", "bind", "pdns"];

/// Starts a rival on a core.
pub(crate) fn start(
    name: &str,
    folder: &Path,
    shape: Shape,
    core: usize,
) -> Result<Target, String> {
    let own = folder.join(format!("{name}-{}", shape.origin()));
    let fault = |error: std::io::Error| format!("{}: {error}", own.display());
    fs::create_dir_all(&own).map_err(fault)?;
    let zone = zone_file(folder, shape)?;
    let address = free_address()?;
    let place = Place { own: &own, zone: &zone, origin: shape.origin(), address };
    let mut command = match name {
        "nsd" => place.nsd(),
        "knot" => place.knot(),
        "gdnsd" => place.gdnsd(),
        "bind" => place.bind(),
        "pdns" => place.pdns(),
        other => return Err(format!("--only {other}; allowed: {}", NAMES.join(", "))),
    }
    .map_err(fault)?;
    let log = fs::File::create(own.join("log")).map_err(fault)?;
    command.stderr(Stdio::from(log));
    Target::start(name, &mut command, &[core], address, shape)
        .map_err(|error| format!("{error}; see {}", own.join("log").display()))
}

struct Place<'a> {
    own: &'a Path,
    zone: &'a Path,
    origin: &'a str,
    address: SocketAddr,
}

impl Place<'_> {
    fn write(&self, name: &str, text: &str) -> std::io::Result<PathBuf> {
        let path = self.own.join(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    fn nsd(&self) -> std::io::Result<Command> {
        let Place { own, zone, origin, address } = self;
        let (own, zone) = (own.display(), zone.display());
        let text = format!(
            "server:\n server-count: 1\n ip-address: {}@{}\n username: \"\"\n zonesdir: \"\"\n\
             \x20database: \"\"\n zonelistfile: \"{own}/zone.list\"\n\
             \x20xfrdfile: \"{own}/xfrd\"\n xfrdir: \"{own}\"\n pidfile: \"{own}/pid\"\n\
             \x20receive-buffer-size: 4194304\n send-buffer-size: 4194304\n\
             \x20minimal-responses: yes\n rrl-ratelimit: 0\n answer-cookie: no\n\
             remote-control:\n control-enable: no\n\
             zone:\n name: \"{origin}\"\n zonefile: \"{zone}\"\n",
            address.ip(),
            address.port(),
        );
        let config = self.write("nsd.conf", &text)?;
        let mut command = Command::new("nsd");
        command.arg("-d").arg("-c").arg(config);
        Ok(command)
    }

    fn knot(&self) -> std::io::Result<Command> {
        let Place { own, zone, origin, address } = self;
        let (own, zone) = (own.display(), zone.display());
        let text = format!(
            "server:\n    rundir: \"{own}\"\n    listen: {}@{}\n    udp-workers: 1\n\
             \x20   tcp-workers: 1\n    background-workers: 1\n\
             database:\n    storage: \"{own}\"\n\
             log:\n  - target: stderr\n    any: warning\n\
             template:\n  - id: default\n    journal-content: none\n    zonefile-sync: -1\n\
             \x20   zonefile-load: whole\n    semantic-checks: off\n\
             zone:\n  - domain: {origin}\n    file: \"{zone}\"\n",
            address.ip(),
            address.port(),
        );
        let config = self.write("knot.conf", &text)?;
        let mut command = Command::new("knotd");
        command.arg("-c").arg(config);
        Ok(command)
    }

    fn gdnsd(&self) -> std::io::Result<Command> {
        let Place { own, zone, origin, address } = self;
        let zones = own.join("zones");
        fs::create_dir_all(&zones)?;
        fs::copy(zone, zones.join(origin))?;
        let text = format!(
            "options => {{\n listen => {}\n dns_port => {}\n udp_threads => 1\n\
             \x20tcp_threads => 1\n\
             \x20disable_cookies => true\n max_edns_response => 1232\n\
             \x20run_dir => \"{own}/run\"\n state_dir => \"{own}/state\"\n}}\n",
            address.ip(),
            address.port(),
            own = own.display(),
        );
        self.write("config", &text)?;
        let mut command = Command::new("gdnsd");
        command.arg("-c").arg(own).arg("start");
        Ok(command)
    }

    fn bind(&self) -> std::io::Result<Command> {
        let Place { own, zone, origin, address } = self;
        let (folder, zone) = (own.display(), zone.display());
        let text = format!(
            "options {{ directory \"{folder}\"; pid-file none; session-keyfile none;\n\
             listen-on port {} {{ {}; }}; listen-on-v6 {{ none; }}; recursion no;\n\
             minimal-responses yes; answer-cookie no; udp-receive-buffer 4194304;\n\
             udp-send-buffer 4194304; max-udp-size 1232; edns-udp-size 1232;\n\
             dnssec-validation no; notify no; empty-zones-enable no; }};\n\
             controls {{ }};\n\
             zone \"{origin}\" {{ type primary; file \"{zone}\"; check-names ignore; }};\n",
            address.port(),
            address.ip(),
        );
        let config = self.write("named.conf", &text)?;
        let mut command = Command::new("named");
        command.args(["-g", "-n", "1", "-c"]).arg(config);
        Ok(command)
    }

    fn pdns(&self) -> std::io::Result<Command> {
        let Place { own, zone, origin, address } = self;
        let (folder, zone) = (own.display(), zone.display());
        let named = format!("zone \"{origin}\" {{ type native; file \"{zone}\"; }};\n");
        let named = self.write("named.conf", &named)?;
        let text = format!(
            "launch=bind\nbind-config={}\nlocal-address={}\nlocal-port={}\nsocket-dir={folder}\n\
             receiver-threads=1\ndistributor-threads=1\nwebserver=no\nlog-dns-queries=no\n\
             udp-truncation-threshold=1232\nversion-string=anonymous\nexpand-alias=no\n\
             consistent-backends=yes\nzone-cache-refresh-interval=0\n",
            named.display(),
            address.ip(),
            address.port(),
        );
        self.write("pdns.conf", &text)?;
        let mut command = Command::new("pdns_server");
        command.arg(format!("--config-dir={folder}")).args(["--daemon=no", "--guardian=no"]);
        Ok(command)
    }
}
