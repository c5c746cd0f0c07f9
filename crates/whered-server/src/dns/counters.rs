//! How many questions came and what became of them: by transport and response code, by zone, by
//! pool and site.
//!
//! ```text
//! DnsCounters ─> udp: one Counters for each thread (its own cache lines, no sharing)
//!            └─> tcp: one Counters for the one thread
//! Counters ─ by name ─> Codes of a zone, count of a site
//!               └── Tallies: the same by the index that this generation gives them
//! ```
//!
//! Invariant: a counter is added to by one thread only, so that an addition is a load and a store;
//! the reader adds the threads up. Names are looked up when the generation changes, not for each
//! query. A zone that is gone keeps its counts.

use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use whered_engine::sync;

use whered_dns::{Choice, Outcome};
use whered_engine::Generation;
use whered_engine::store::Histogram;

use super::dnstap::DnstapCounts;
use super::signatures::SignatureBudget;
use super::udp;

/// Response codes 0 to 23 (RFC 6895 section 2.3 with BADVERS to BADCOOKIE); others count as
/// the last, which is assigned but never answered here.
const RCODES: usize = 24;

/// A count that one thread adds to.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Count {
    #[inline]
    fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

type ByCode = [Count; RCODES];

/// The counts of one thread.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(crate) struct Counters {
    answered: ByCode,
    silent: Count,
    refused: Count,
    named: Mutex<NamedCounters>,
    /// In parts of a second, [`DURATION_UNITS`] of it.
    durations: Mutex<Histogram>,
}

/// What durations are counted in: a tenth of a microsecond.
pub(crate) const DURATION_UNITS: f64 = 1e7;

#[derive(Debug, Default)]
struct NamedCounters {
    zones: BTreeMap<String, Arc<ByCode>>,
    sites: BTreeMap<(String, String), Arc<Count>>,
}

impl Counters {
    /// The system did not take that many answers.
    pub(crate) fn refused(&self, count: usize) {
        self.refused.add(count as u64);
    }

    /// So many messages that came together had their answers after this time.
    #[cold]
    pub(super) fn note_duration(&self, duration: Duration, messages: usize) {
        let value = u64::try_from(duration.as_nanos() / 100).unwrap_or(u64::MAX);
        let mut durations = sync::lock(&self.durations);
        (0..messages).for_each(|_| durations.note(value));
    }

    fn named(&self) -> MutexGuard<'_, NamedCounters> {
        sync::lock(&self.named)
    }
}

/// What a thread adds to, by the indexes of one generation.
pub(super) struct Tallies {
    generation: u64,
    codes: Codes,
    sites: Sites,
}

/// By response code, for all and for each zone.
pub(super) struct Codes {
    counters: Arc<Counters>,
    zones: Vec<Arc<ByCode>>,
}

/// By pool and site; the last one of a pool is for no site.
pub(super) struct Sites(Vec<Vec<Arc<Count>>>);

/// What stands in the place of the site when a pool has none to give.
const NO_SITE: &str = "";

impl Tallies {
    pub(super) fn new(counters: Arc<Counters>) -> Tallies {
        let codes = Codes { counters, zones: Vec::new() };
        Tallies { generation: 0, codes, sites: Sites(Vec::new()) }
    }

    pub(super) fn counters(&self) -> &Arc<Counters> {
        &self.codes.counters
    }

    /// Both halves, which are added to by different hands.
    pub(super) fn parts(&mut self) -> (&Sites, &mut Codes) {
        (&self.sites, &mut self.codes)
    }

    /// Takes the indexes of a generation, unless they are known.
    #[inline]
    pub(super) fn follow(&mut self, generation: &Generation) {
        if generation.number() != self.generation {
            self.take(generation);
        }
    }

    #[cold]
    fn take(&mut self, generation: &Generation) {
        self.generation = generation.number();
        let counters = Arc::clone(self.counters());
        let mut named = counters.named();
        self.codes.zones = generation
            .zones()
            .zones()
            .map(|zone| {
                let name = zone.origin().to_string();
                Arc::clone(named.zones.entry(name).or_default())
            })
            .collect();
        let mut of_site = |pool: &str, site: &str| {
            let name = (pool.to_owned(), site.to_owned());
            Arc::clone(named.sites.entry(name).or_default())
        };
        self.sites.0 = generation
            .pools()
            .iter()
            .map(|pool| {
                let sites = pool.sites.iter().map(|site| site.name.as_str()).chain([NO_SITE]);
                sites.map(|site| of_site(&pool.name, site)).collect()
            })
            .collect();
    }
}

impl Sites {
    /// A pool has chosen answers, which are sites'.
    #[inline]
    pub(super) fn chosen(&self, pool: usize, choice: &Choice) {
        let Some(sites) = self.0.get(pool) else { return };
        let last = sites.len() - 1;
        let mut answers = choice.answers();
        sites[answers.next().unwrap_or(last).min(last)].add(1);
        answers.for_each(|answer| sites[answer.min(last)].add(1));
    }
}

impl Codes {
    /// Something has become of a query.
    #[inline]
    pub(super) fn count(&self, outcome: &Outcome) {
        let Outcome::Answered { rcode, zone, .. } = *outcome else {
            self.counters.silent.add(1);
            return;
        };
        let index = usize::from(rcode.0).min(RCODES - 1);
        self.counters.answered[index].add(1);
        if let Some(codes) = zone.and_then(|zone| self.zones.get(zone)) {
            codes[index].add(1);
        }
    }
}

/// The counts of the whole listener.
#[derive(Debug)]
pub(crate) struct DnsCounters {
    udp: Vec<Arc<Counters>>,
    tcp: Arc<Counters>,
    /// The threads' sockets once more, to ask the kernel what it has dropped.
    sockets: Vec<UdpSocket>,
    /// Queries that the log had no room for.
    pub(super) unlogged: Arc<AtomicU64>,
    /// Signatures that were made for questions, and those that were not.
    pub(super) signatures: Arc<SignatureBudget>,
    /// Messages of dnstap.
    pub(crate) dnstap: Arc<DnstapCounts>,
}

/// Sums over threads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Response codes that were given, with their counts.
    pub(crate) answered: Vec<(u16, u64)>,
    /// Messages that got no answer.
    pub(crate) silent: u64,
    /// Answers that the system did not take.
    pub(crate) refused: u64,
    /// Response codes by zone.
    pub(crate) zones: BTreeMap<(String, u16), u64>,
    /// Answers by pool and site; no site's name is empty but for that of no site.
    pub(crate) sites: BTreeMap<(String, String), u64>,
}

impl DnsCounters {
    /// Counters for UDP threads with these sockets.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(crate) fn new(
        threads: &[Vec<UdpSocket>],
        budget: SignatureBudget,
    ) -> io::Result<DnsCounters> {
        let udp = threads.iter().map(|_| Arc::default()).collect();
        let sockets = threads.iter().flatten().map(UdpSocket::try_clone);
        let sockets = sockets.collect::<Result<_, _>>()?;
        let (tcp, unlogged, dnstap) = (Arc::default(), Arc::default(), Arc::default());
        let signatures = Arc::new(budget);
        Ok(DnsCounters { udp, tcp, sockets, unlogged, signatures, dnstap })
    }

    /// How many datagrams the kernel has dropped for want of room.
    pub(crate) fn dropped(&self) -> u64 {
        self.sockets.iter().filter_map(udp::dropped).sum()
    }

    /// How many queries the log had no room for.
    pub(crate) fn unlogged(&self) -> u64 {
        self.unlogged.load(Ordering::Relaxed)
    }

    /// Signatures that were made for questions, and those that were not.
    pub(crate) fn signatures(&self) -> &SignatureBudget {
        &self.signatures
    }

    /// Those of one UDP thread.
    pub(crate) fn udp_thread(&self, index: usize) -> Arc<Counters> {
        Arc::clone(&self.udp[index])
    }

    /// Those of the TCP thread.
    pub(crate) fn tcp_thread(&self) -> Arc<Counters> {
        Arc::clone(&self.tcp)
    }

    /// How long messages waited for their answers, by transport.
    pub(crate) fn durations(&self) -> [(&'static str, Histogram); 2] {
        let mut udp = Histogram::default();
        self.udp.iter().for_each(|thread| udp.add(&sync::lock(&thread.durations)));
        [("udp", udp), ("tcp", sync::lock(&self.tcp.durations).clone())]
    }

    /// All of UDP.
    pub(crate) fn udp(&self) -> Totals {
        total(&self.udp)
    }

    /// All of TCP.
    pub(crate) fn tcp(&self) -> Totals {
        total(std::slice::from_ref(&self.tcp))
    }
}

fn total(threads: &[Arc<Counters>]) -> Totals {
    let sum = |read: &dyn Fn(&Counters) -> &Count| -> u64 {
        threads.iter().map(|thread| read(thread).get()).sum()
    };
    let answered = (0..RCODES as u16)
        .map(|rcode| (rcode, sum(&|thread| &thread.answered[usize::from(rcode)])))
        .filter(|(_, count)| *count > 0)
        .collect();
    let mut totals = Totals {
        answered,
        silent: sum(&|thread| &thread.silent),
        refused: sum(&|thread| &thread.refused),
        ..Totals::default()
    };
    for thread in threads {
        let named = thread.named();
        for (zone, codes) in &named.zones {
            for (rcode, count) in (0_u16..).zip(codes.iter()).filter(|(_, count)| count.get() > 0) {
                *totals.zones.entry((zone.clone(), rcode)).or_default() += count.get();
            }
        }
        for (names, count) in &named.sites {
            *totals.sites.entry(names.clone()).or_default() += count.get();
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use whered_dns::Rcode;

    fn answered(rcode: u16) -> Outcome {
        let (question_type, pool, zone) = (None, None, None);
        let rcode = Rcode(rcode);
        Outcome::Answered { rcode, question_type, pool, zone, has_cookie: false }
    }

    #[test]
    fn threads_are_added_up_and_unknown_codes_share_the_last_place() {
        let counters =
            DnsCounters::new(&[Vec::new(), Vec::new()], SignatureBudget::new(0)).unwrap();
        let mut first = Tallies::new(counters.udp_thread(0));
        let mut second = Tallies::new(counters.udp_thread(1));
        first.parts().1.count(&answered(0));
        second.parts().1.count(&answered(0));
        second.parts().1.count(&answered(4000));
        second.parts().1.count(&Outcome::Silent);
        let mut stream = Tallies::new(counters.tcp_thread());
        stream.parts().1.count(&answered(3));
        stream.counters().refused(2);
        let udp = Totals { answered: vec![(0, 2), (23, 1)], silent: 1, ..Totals::default() };
        assert_eq!(counters.udp(), udp);
        let tcp = Totals { answered: vec![(3, 1)], refused: 2, ..Totals::default() };
        assert_eq!(counters.tcp(), tcp);
    }
}
