//! The seed's own script: the tables go into a RAM disk for the length of a batch, and back.
//!
//! Not for better ideas. A correct copy needs a server that has ended: it is shut down, its folder
//! is copied with `cp --archive`, and another one starts on the copy; the way back is the same,
//! with a `sync` of the disk before the server there starts again. A crash meanwhile loses the
//! batch, as it did for the seed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use whered_bench::feed::{Consolidated, Upload};

use crate::contestant::{Applied, Contestant, compared, one_by_one};
use crate::mariadb::{Client, Form, MariaDb, Way, copy};
use crate::options::Workload;

const DATABASE: &str = "single1_1";
/// How many times as long as the others' turn the batch on the RAM disk is: a script that copies
/// tables there waits until that is worth it.
const LONGER: u32 = 4;

pub(crate) struct Seed {
    disk: PathBuf,
    ram: PathBuf,
    /// The one on the disk, between batches.
    server: Option<MariaDb>,
    /// Of servers that have ended.
    cpu_nanoseconds: u64,
    workload: Workload,
    /// Seconds of copying and starting, and of the batches.
    around: f64,
    inside: f64,
    /// Sightings of the batches.
    sightings: usize,
}

impl Seed {
    pub(crate) fn new(disk: &Path, ram: &Path, workload: Workload) -> Result<Seed, String> {
        let (disk, ram) = (disk.join("mariadb-seed"), ram.join("mariadb-seed"));
        let server = Some(MariaDb::new(&disk)?);
        if let Some(parent) = ram.parent() {
            std::fs::create_dir_all(parent).map_err(|error| format!("the RAM disk: {error}"))?;
        }
        let (around, inside) = (0.0, 0.0);
        Ok(Seed { disk, ram, server, cpu_nanoseconds: 0, workload, around, inside, sightings: 0 })
    }

    fn shut_down(&mut self, server: MariaDb) -> Result<(), String> {
        self.cpu_nanoseconds += server.cpu_nanoseconds()?;
        server.shut_down()
    }

    fn client(&self, server: &MariaDb) -> Result<Client, String> {
        Client::new(server.connect(Some(DATABASE))?, self.workload)
    }
}

impl Contestant for Seed {
    fn name(&self) -> String {
        "MariaDB, the seed's script: copied to RAM and back, single".to_owned()
    }

    fn fill(&mut self, all: &Consolidated) -> Result<(), String> {
        let server = self.server.take().ok_or("the server is between two places")?;
        let server = std::rc::Rc::new(std::cell::RefCell::new(server));
        let mut way = Way {
            server: std::rc::Rc::clone(&server),
            place: "disk",
            form: Form::Single { clients: 1 },
            flush: 1,
            workload: self.workload,
            clients: Vec::new(),
        };
        way.fill(all)?;
        drop(way);
        self.server = std::rc::Rc::into_inner(server).map(std::cell::RefCell::into_inner);
        Ok(())
    }

    fn apply(&mut self, uploads: &[Upload], time: Duration) -> Result<Applied, String> {
        let start = Instant::now();
        let server = self.server.take().ok_or("the server is between two places")?;
        self.shut_down(server)?;
        copy(&self.disk, &self.ram)?;
        let server = MariaDb::open(&self.ram)?;
        let batch = Instant::now();
        let mut clients = [self.client(&server)?];
        let applied = one_by_one(&mut clients, uploads, time * LONGER, Client::one)?;
        let inside = batch.elapsed().as_secs_f64();
        drop(clients);
        self.shut_down(server)?;
        copy(&self.ram, &self.disk)?;
        self.server = Some(MariaDb::open(&self.disk)?);
        self.inside += inside;
        self.around += start.elapsed().as_secs_f64() - inside;
        self.sightings += applied.iter().sum::<usize>();
        Ok(applied)
    }

    fn cpu_nanoseconds(&self) -> Result<u64, String> {
        let now = self.server.as_ref().map_or(Ok(0), MariaDb::cpu_nanoseconds)?;
        Ok(self.cpu_nanoseconds + now)
    }

    fn check(&mut self, expected: &Consolidated) -> Result<usize, String> {
        let server = self.server.as_ref().ok_or("the server is between two places")?;
        let found = self.client(server)?.tables()?;
        compared(&found, expected, self.workload.has_loot())
    }

    fn note(&self) -> String {
        format!(
            "{:.0}/s within the batches; {:.0} % of the time is copying, ending and starting",
            self.sightings as f64 / self.inside,
            100.0 * self.around / (self.around + self.inside)
        )
    }
}
