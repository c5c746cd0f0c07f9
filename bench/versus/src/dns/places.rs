//! The rivals that answer by place, with the sites, lists and database of `whered_bench::dns::geo`.
//!
//! Not for measuring. gdnsd reads the database into a tree of its own and knows both ways; of each
//! client it keeps the first site alone, as we answer one (`auto_dc_limit => 1`), which makes its
//! tree as small as it can be. PowerDNS looks names up that are made from the client's country and
//! continent; it knows no nearest site (its Lua records look for the nearest *address*). Neither
//! does Knot's module geoip, which takes part where answers are signed.

use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use whered_bench::dns::geo::{self, CONTINENTS, COUNTRIES};
use whered_bench::dns::{Mix, Shape, Target, free_address, zone_file};

/// The rivals by name.
pub(crate) const NAMES: [&str; 2] = ["gdnsd", "pdns"];

/// Those that sign answers by place.
pub(crate) const WITH_KEYS: [&str; 2] = ["knot", "pdns"];

/// Whether a server can answer such questions.
pub(crate) fn is_able(name: &str, mix: Mix) -> bool {
    name == "gdnsd" || mix != Mix::Nearest
}

/// Starts a rival on a core.
pub(crate) fn start(
    name: &str,
    folder: &Path,
    shape: Shape,
    core: usize,
) -> Result<Target, String> {
    let own = folder.join(format!("{name}-{}", shape.name().replace([' ', ','], "-")));
    let fault = |error: std::io::Error| format!("{}: {error}", own.display());
    fs::create_dir_all(&own).map_err(fault)?;
    let database = geo::database_file(folder, None)?;
    let database = database.canonicalize().map_err(fault)?;
    let address = free_address()?;
    let mut command = match name {
        "gdnsd" => gdnsd(&own, &zone_file(folder, shape)?, &database, address),
        "knot" => knot(&own, &zone_file(folder, shape)?, &database, address),
        "pdns" => pdns(&own, &database, address, shape.is_signed()),
        other => return Err(format!("{other} gives no answers by place")),
    }
    .map_err(fault)?;
    let log = fs::File::create(own.join("log")).map_err(fault)?;
    command.stderr(Stdio::from(log));
    Target::start(name, &mut command, &[core], address, shape)
        .map_err(|error| format!("{error}; see {}", own.join("log").display()))
}

/// What both ways have in common, each site behind what stands for it.
fn listed(each: impl Fn(&geo::Site) -> String) -> String {
    geo::sites().iter().map(each).collect::<Vec<_>>().join(", ")
}

fn gdnsd(
    own: &Path,
    zone: &Path,
    database: &Path,
    address: SocketAddr,
) -> std::io::Result<Command> {
    let zones = own.join("zones");
    fs::create_dir_all(&zones)?;
    let text = fs::read_to_string(zone)? + "near 60 DYNA geoip!near\narea 60 DYNA geoip!area\n";
    fs::write(zones.join(Shape::Geo.origin()), text)?;
    let names = listed(|site| format!("site{}", site.number));
    let places = listed(|site| {
        let (latitude, longitude) = (site.latitude_degrees, site.longitude_degrees);
        format!("site{} => [ {latitude:.1}, {longitude:.1} ]", site.number)
    });
    let addresses = listed(|site| format!("site{} => {}", site.number, site.address));
    let mut areas = String::new();
    for (continent, at) in CONTINENTS.iter().zip(COUNTRIES.len()..) {
        // Writing to a string cannot fail.
        let _ = write!(areas, "{continent} => {{ default => [ site{at} ]");
        for (at, (country, _)) in
            COUNTRIES.iter().enumerate().filter(|(_, own)| own.1 == *continent)
        {
            let _ = write!(areas, ", {country} => [ site{at} ]");
        }
        areas.push_str(" }, ");
    }
    let areas = areas.trim_end_matches(", ");
    let resource = |map: &str| {
        format!("{map} => {{ map => {map}, service_types => up, dcmap => {{ {addresses} }} }}")
    };
    let text = format!(
        "options => {{\n listen => {ip}\n dns_port => {port}\n udp_threads => 1\n\
         \x20tcp_threads => 1\n disable_cookies => true\n max_edns_response => 1232\n\
         \x20run_dir => \"{own}/run\"\n state_dir => \"{own}/state\"\n}}\n\
         plugins => {{ geoip => {{\n maps => {{\n\
         \x20 near => {{ geoip2_db => \"{database}\", datacenters => [ {names} ],\n\
         \x20  auto_dc_coords => {{ {places} }}, auto_dc_limit => 1 }},\n\
         \x20 area => {{ geoip2_db => \"{database}\", datacenters => [ {names} ],\n\
         \x20  map => {{ {areas} }} }}\n }},\n\
         \x20resources => {{\n  {},\n  {}\n }}\n}} }}\n",
        resource("near"),
        resource("area"),
        ip = address.ip(),
        port = address.port(),
        own = own.display(),
        database = database.display(),
    );
    fs::write(own.join("config"), text)?;
    let mut command = Command::new("gdnsd");
    command.arg("-c").arg(own).arg("start");
    Ok(command)
}

/// Knot's module geoip, which signs the records of all places when it is loaded.
fn knot(own: &Path, zone: &Path, database: &Path, address: SocketAddr) -> std::io::Result<Command> {
    let origin = Shape::Geo.origin();
    // Clients outside of all areas get the first site, as with the other servers.
    let text = fs::read_to_string(zone)? + "area 60 A 192.0.2.0\n";
    fs::write(own.join("zone"), text)?;
    let sites = geo::sites();
    let countries = COUNTRIES.iter().map(|(country, continent)| format!("{continent};{country}"));
    let continents = CONTINENTS.iter().map(|continent| format!("{continent};*"));
    let mut areas = format!("area.{origin}:\n");
    for (area, site) in countries.chain(continents).zip(&sites) {
        // Writing to a string cannot fail.
        let _ = write!(areas, "  - geo: \"{area}\"\n    A: {}\n", site.address);
    }
    fs::write(own.join("areas"), areas)?;
    let text = format!(
        "server:\n    rundir: \"{own}\"\n    listen: {ip}@{port}\n    udp-workers: 1\n\
         \x20   tcp-workers: 1\n    background-workers: 1\n    edns-client-subnet: on\n\
         database:\n    storage: \"{own}\"\n\
         log:\n  - target: stderr\n    any: warning\n\
         policy:\n  - id: one\n    algorithm: ecdsap256sha256\n    single-type-signing: on\n\
         mod-geoip:\n  - id: area\n    config-file: \"{own}/areas\"\n    ttl: 60\n\
         \x20   mode: geodb\n    geodb-file: \"{database}\"\n\
         \x20   geodb-key: [continent/code, country/iso_code]\n\
         template:\n  - id: default\n    journal-content: none\n    zonefile-sync: -1\n\
         \x20   zonefile-load: whole\n    semantic-checks: off\n\
         zone:\n  - domain: {origin}\n    file: \"{own}/zone\"\n    dnssec-signing: on\n\
         \x20   dnssec-policy: one\n    module: mod-geoip/area\n",
        ip = address.ip(),
        port = address.port(),
        own = own.display(),
        database = database.display(),
    );
    let config = own.join("knot.conf");
    fs::write(&config, text)?;
    // Without a key at its start the module serves the zone's own record to everybody.
    let mut keymgr = Command::new("keymgr");
    keymgr.arg("-c").arg(&config).args([origin, "generate", "algorithm=ecdsap256sha256"]);
    succeed(keymgr.args(["ksk=yes", "zsk=yes"]))?;
    let mut command = Command::new("knotd");
    command.arg("-c").arg(config);
    Ok(command)
}

fn pdns(
    own: &Path,
    database: &Path,
    address: SocketAddr,
    is_signed: bool,
) -> std::io::Result<Command> {
    let origin = Shape::Geo.origin();
    let mut records = format!(
        "    {origin}:\n      - soa: ns1.{origin} hostmaster.{origin} 1 7200 900 1209600 900\n\
         \x20     - ns: ns1.{origin}\n\
         \x20   ns1.{origin}:\n      - a: 192.0.2.1\n\
         \x20   host.{origin}:\n      - a: 192.0.2.3\n"
    );
    let sites = geo::sites();
    let countries = COUNTRIES.iter().map(|(country, _)| format!("c-{}", country.to_lowercase()));
    let continents = CONTINENTS.iter().map(|code| format!("p-{}", code.to_lowercase()));
    for (label, site) in countries.chain(continents).zip(&sites) {
        // Writing to a string cannot fail.
        let _ = write!(records, "    {label}.{origin}:\n      - a: {}\n", site.address);
    }
    let _ = write!(records, "    any.{origin}:\n      - a: {}\n", sites[0].address);
    let text = format!(
        "domains:\n- domain: {origin}\n  ttl: 60\n  records:\n{records}  services:\n\
         \x20   area.{origin}: [ 'c-%cc.{origin}', 'p-%cn.{origin}', 'any.{origin}' ]\n"
    );
    let zones = own.join("zones.yaml");
    fs::write(&zones, text)?;
    let text = format!(
        "launch=geoip\ngeoip-zones-file={}\ngeoip-database-files=mmdb:{}\n\
         edns-subnet-processing=yes\nlocal-address={}\nlocal-port={}\nsocket-dir={}\n\
         receiver-threads=1\ndistributor-threads=1\nwebserver=no\nlog-dns-queries=no\n\
         udp-truncation-threshold=1232\nversion-string=anonymous\nexpand-alias=no\n\
         consistent-backends=yes\nzone-cache-refresh-interval=0\n",
        zones.display(),
        database.display(),
        address.ip(),
        address.port(),
        own.display(),
    );
    let keys = own.join("keys");
    let text = match is_signed {
        true => format!("{text}geoip-dnssec-keydir={}\n", keys.display()),
        false => text,
    };
    fs::write(own.join("pdns.conf"), text)?;
    if is_signed {
        fs::create_dir_all(&keys)?;
        let mut command = Command::new("pdnsutil");
        command.arg(format!("--config-dir={}", own.display()));
        succeed(command.args(["secure-zone", origin]))?;
    }
    let mut command = Command::new("pdns_server");
    command.arg(format!("--config-dir={}", own.display()));
    command.args(["--daemon=no", "--guardian=no"]);
    Ok(command)
}

/// Runs a rival's tool to its end.
fn succeed(command: &mut Command) -> std::io::Result<()> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(std::io::Error::other(String::from_utf8_lossy(&output.stderr))),
    }
}
