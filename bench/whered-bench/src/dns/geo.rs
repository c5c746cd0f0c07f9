//! Answers by place: pools over a database of a city database's size, for ours and for rivals.
//!
//! For: what the files of a server say, and whether two servers choose the same.
//! Not for: questions (`world.rs`), starting servers (`target.rs`, `bench/versus`).
//!
//! ```text
//! host.geo.test   an address record, asked with the same option: what a pool costs is beside it
//! near.geo.test   the nearest of twenty sites by great circle
//! area.geo.test   the list of the client's country, or else of its continent
//! ```
//!
//! Sites, lists and database are those of `steer` in `bench/own`, which measures without sockets.

use std::fmt::Write;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use whered_dns::RecordType;
use whered_dns::message::Message;

use super::target::Target;
use super::world::{Mix, Queries};
use crate::Random;
use crate::data::{Scale, city};
use crate::measure::Section;

/// Countries of a list, each with its continent; the place is the site's number.
pub const COUNTRIES: [(&str, &str); 7] = [
    ("US", "NA"),
    ("DE", "EU"),
    ("JP", "AS"),
    ("BR", "SA"),
    ("IN", "AS"),
    ("GB", "EU"),
    ("FR", "EU"),
];

/// Continents of a list; the first one's site is the one behind those of the countries.
pub const CONTINENTS: [&str; 6] = ["EU", "NA", "AS", "SA", "AF", "OC"];

/// How long a server may take for one answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// One site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Site {
    /// Its number, which is in its name.
    pub number: u8,
    /// Degrees north.
    pub latitude_degrees: f64,
    /// Degrees east.
    pub longitude_degrees: f64,
    /// What is answered.
    pub address: Ipv4Addr,
}

/// All twenty.
#[must_use]
pub fn sites() -> Vec<Site> {
    let mut random = Random::new(11);
    let site = |number| Site {
        number,
        longitude_degrees: random.below(360) as f64 - 180.0,
        latitude_degrees: random.below(120) as f64 - 50.0,
        address: Ipv4Addr::new(192, 0, 2, number),
    };
    (0..20).map(site).collect()
}

/// Where the database lies below a folder: made there, unless one was made elsewhere, which is
/// linked.
///
/// # Errors
///
/// It cannot be written.
pub fn database_file(folder: &Path, elsewhere: Option<&Path>) -> Result<PathBuf, String> {
    let path = folder.join("city.mmdb");
    let fault = |error: io::Error| format!("{}: {error}", path.display());
    if path.exists() {
        return Ok(path);
    }
    fs::create_dir_all(folder).map_err(fault)?;
    match elsewhere {
        Some(made) => {
            let made = made.canonicalize();
            made.and_then(|made| std::os::unix::fs::symlink(made, &path)).map_err(fault)?;
        }
        None => {
            let made = city(7, Scale::Full).map_err(|error| error.to_string())?;
            fs::write(&path, made.database.as_bytes()).map_err(fault)?;
        }
    }
    Ok(path)
}

/// What our own configuration says of the database, the sites and both pools.
pub(super) fn configuration(database: &Path) -> String {
    let list = |codes: &[&str], first: usize| {
        let one = |(code, at): (&&str, usize)| format!("{code} = [\"site{at}\"]");
        codes.iter().zip(first..).map(one).collect::<Vec<_>>().join(", ")
    };
    let countries = COUNTRIES.map(|(country, _)| country);
    let mut text = format!(
        "[[database]]\nname = \"city\"\npath = {database:?}\n\
         [[map]]\nname = \"areas\"\ncountries = {{ {} }}\ncontinents = {{ {} }}\n",
        list(&countries, 0),
        list(&CONTINENTS, COUNTRIES.len()),
    );
    for (pool, step) in [("near", "nearest"), ("area", "map:areas")] {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "[[pool]]\nname = \"{pool}\"\nowners = [\"{pool}.geo.test\"]\n\
             policy = [\"healthy\", \"{step}\"]\nttl_seconds = 60"
        );
        for site in sites() {
            let _ = writeln!(
                text,
                "[[pool.site]]\nname = \"site{}\"\naddresses = [\"{}\"]\n\
                 at = {{ longitude = {:.1}, latitude = {:.1} }}",
                site.number, site.address, site.longitude_degrees, site.latitude_degrees
            );
        }
    }
    text
}

/// What two servers answered to the same questions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Alike {
    asked: usize,
    /// Answers with the same address.
    same: usize,
    /// The sums of both scopes.
    scopes: [u64; 2],
}

/// Asks the first server and each other one the same, one question after the other.
///
/// # Errors
///
/// A server does not answer, or gives no address or no scope.
pub fn compare(
    targets: &[&Target],
    queries: &Queries,
    mix: Mix,
    count: usize,
) -> Result<Section, String> {
    let title = format!("Answers by place alike, {}", mix.name());
    let mut rows =
        vec![["server", "asked", "same site", "mean scope", "ours"].map(str::to_owned).to_vec()];
    let mut lines = Vec::new();
    let ours = targets.first().map(|target| Asker::new(target)).transpose()?;
    for (target, ours) in targets.iter().skip(1).zip(std::iter::repeat(ours.as_ref())) {
        let (Some(ours), theirs) = (ours, Asker::new(target)?) else { continue };
        let mut alike = Alike::default();
        for index in (0..queries.len()).step_by((queries.len() / count).max(1)) {
            let answers = [ours.ask(queries.get(index))?, theirs.ask(queries.get(index))?];
            alike.asked += 1;
            alike.same += usize::from(answers[0].0 == answers[1].0);
            alike.scopes = [0, 1].map(|at| alike.scopes[at] + u64::from(answers[at].1));
        }
        let of_all = |sum: f64| sum / alike.asked as f64;
        let [own_scope, scope] = alike.scopes.map(|sum| of_all(sum as f64));
        let same = of_all(alike.same as f64);
        rows.push(vec![
            target.name.clone(),
            alike.asked.to_string(),
            format!("{:.2} %", 100.0 * same),
            format!("{scope:.1}"),
            format!("{own_scope:.1}"),
        ]);
        lines.push(json!({ "server": target.name, "asked": alike.asked, "same": same,
            "scope": scope, "own_scope": own_scope }));
    }
    let figures = json!({ "title": title, "alike": lines });
    Ok(Section::new(title, rows, figures))
}

/// One socket to one server.
pub(super) struct Asker<'t> {
    target: &'t Target,
    socket: UdpSocket,
}

impl Asker<'_> {
    pub(super) fn new(target: &Target) -> Result<Asker<'_>, String> {
        let open = || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.connect(target.address)?;
            Ok(socket)
        };
        let socket = open().map_err(|error: io::Error| format!("{}: {error}", target.name))?;
        Ok(Asker { target, socket })
    }

    /// The whole answer.
    pub(super) fn message(&self, query: &[u8]) -> Result<Message, String> {
        let fault = |what: String| format!("{}: {what}", self.target.name);
        let mut reply = [0; 1500];
        self.socket.send(query).map_err(|error| fault(error.to_string()))?;
        let size = self.socket.recv(&mut reply).map_err(|error| fault(error.to_string()))?;
        Message::read(&reply[..size]).map_err(|error| fault(error.to_string()))
    }

    /// The address and the scope; an answer without the option is good for nobody else.
    fn ask(&self, query: &[u8]) -> Result<(Vec<u8>, u8), String> {
        let fault = |what: String| format!("{}: {what}", self.target.name);
        let message = self.message(query)?;
        let mut records = message.answers.iter();
        let Some(record) = records.rfind(|record| record.record_type == RecordType::A) else {
            return Err(fault(format!("no address in {message:?}")));
        };
        let subnet = message.client_subnet();
        let scope = subnet.map(|subnet| subnet.scope_length_bits);
        let scope = scope.ok_or_else(|| fault(format!("no scope in {message:?}")))?;
        Ok((record.data.clone(), scope))
    }
}
