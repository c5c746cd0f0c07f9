//! Which site a client is sent to, and how many leading bits of its address decided that.
//!
//! One `Steering` belongs to one pool of one generation: it is thrown away when a site changes,
//! so that nothing in it can be out of date.
//!
//! ```text
//! address bits ──> search tree: root ─ n1 ─ n2 ─ ... ─ leaf (record, or nothing known)
//!                           sibling s0   s1   s2         │
//!                                                        └─> place ─> nearest site = choice
//! exact scope: climb from the leaf while the sibling subtree is uniform with the same choice
//! ```
//!
//! `uniform[node]` remembers for every tree node whether all addresses below it get one choice;
//! it is filled on demand by a depth-first walk that ends at the first difference, so that most
//! siblings near the root cost a few steps and each node is decided once per pool generation.
//!
//! At the same time: any number of threads; two may decide the same node, with the same result.
//! Memory: 2 bytes a tree node, from the first question on.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};

use whered_dns::{Choice, Client};
use whered_geo::Place;
use whered_mmdb::{Database, FieldPath, RecordId, TreeNode};

use crate::databases::NamedDatabase;
use crate::pool::{PolicyStep, Pool, WhenAllDown};

/// The deepest tree: an IPv6 address.
const DEPTH_MAX: usize = 128;

/// Choices of one pool over one database.
pub(crate) struct Steering {
    pool: Arc<Pool>,
    source: Option<Arc<NamedDatabase>>,
    /// Indexes of the sites that may be chosen, in the pool's order.
    eligible: Vec<u16>,
    nearest: bool,
    latitude: FieldPath,
    longitude: FieldPath,
    uniform: OnceLock<Box<[AtomicU16]>>,
}

/// What is known of all addresses below a node, packed into the memo's 16 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Below {
    Mixed,
    /// The site's index.
    All(u16),
}

const UNKNOWN: u16 = 0;
const MIXED: u16 = 1;
const FIRST_SITE: u16 = 2;

/// One site as the explanation shows it.
pub(crate) struct Candidate {
    pub(crate) site: usize,
    pub(crate) eligible: bool,
    pub(crate) distance_meters: Option<f64>,
}

impl Steering {
    pub(crate) fn new(pool: Arc<Pool>, source: Option<Arc<NamedDatabase>>) -> Steering {
        let path = |text: &str| text.parse().expect("a constant path of three words");
        Steering {
            eligible: eligible(&pool),
            nearest: pool.policy.contains(&PolicyStep::Nearest),
            pool,
            source,
            latitude: path("location.latitude"),
            longitude: path("location.longitude"),
            uniform: OnceLock::new(),
        }
    }

    /// Chooses for a client.
    pub(crate) fn steer(&self, client: &Client) -> Choice {
        let Some(first) = self.eligible.first() else {
            return Choice { answer: None, scope_length_bits: 0 };
        };
        let constant = Choice { answer: Some(usize::from(*first)), scope_length_bits: 0 };
        if self.eligible.len() == 1 || !self.nearest {
            return constant;
        }
        let Some(source) = &self.source else {
            return constant;
        };
        let (site, scope_length_bits) = self.walk(source.database(), client.address);
        Choice { answer: Some(usize::from(site)), scope_length_bits }
    }

    /// The sites with their distances from the client's place, for the explanation.
    pub(crate) fn candidates(&self, place: Option<Place>) -> Vec<Candidate> {
        let sites = self.pool.sites.iter().enumerate();
        sites
            .map(|(index, site)| Candidate {
                site: index,
                eligible: self.eligible.contains(&(index as u16)),
                distance_meters: place.zip(site.place).map(|(a, b)| a.distance_meters(b)),
            })
            .collect()
    }

    /// The database that places come from.
    pub(crate) fn source(&self) -> Option<&Arc<NamedDatabase>> {
        self.source.as_ref()
    }

    /// Where a record says that its addresses are.
    pub(crate) fn place_of(&self, database: &Database, record: RecordId) -> Option<Place> {
        let latitude_degrees = database.number(record, &self.latitude).ok()??;
        let longitude_degrees = database.number(record, &self.longitude).ok()??;
        Place::new_geographic(longitude_degrees, latitude_degrees).ok()
    }

    fn walk(&self, database: &Database, address: IpAddr) -> (u16, u8) {
        let (bits, length) = match address {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, 32),
            IpAddr::V6(v6) => (v6.to_bits(), DEPTH_MAX),
        };
        let mut siblings = [TreeNode::Empty; DEPTH_MAX];
        let mut depth = 0;
        let mut node = database.root(address.is_ipv4()).unwrap_or(TreeNode::Empty);
        while matches!(node, TreeNode::Node(_)) && depth < length {
            let bit = bits >> (DEPTH_MAX - 1 - depth) & 1 == 1;
            siblings[depth] = child(database, node, !bit);
            node = child(database, node, bit);
            depth += 1;
        }
        let choice = self.choice_at_leaf(database, node);
        while depth > 0
            && self.below(database, siblings[depth - 1], length - depth) == Below::All(choice)
        {
            depth -= 1;
        }
        (choice, depth as u8)
    }

    /// Whether every address below the node gets the same choice. `height` bounds the walk.
    fn below(&self, database: &Database, node: TreeNode, height: usize) -> Below {
        let TreeNode::Node(index) = node else {
            return Below::All(self.choice_at_leaf(database, node));
        };
        let memo = self.memo(database).get(index as usize);
        if let Some(known) = memo.and_then(|memo| unpack(memo.load(Ordering::Relaxed))) {
            return known;
        }
        let Some(height) = height.checked_sub(1) else {
            return Below::Mixed;
        };
        let left = self.below(database, child(database, node, false), height);
        let result = match left {
            Below::Mixed => Below::Mixed,
            Below::All(_) if self.below(database, child(database, node, true), height) == left => {
                left
            }
            Below::All(_) => Below::Mixed,
        };
        if let Some(memo) = memo {
            memo.store(pack(result), Ordering::Relaxed);
        }
        result
    }

    fn memo(&self, database: &Database) -> &[AtomicU16] {
        self.uniform.get_or_init(|| {
            let nodes = database.metadata().node_count;
            (0..nodes).map(|_| AtomicU16::new(UNKNOWN)).collect()
        })
    }

    /// The nearest eligible site; the pool's first one where the place is not known.
    fn choice_at_leaf(&self, database: &Database, leaf: TreeNode) -> u16 {
        let place = match leaf {
            TreeNode::Record(record) => self.place_of(database, record),
            TreeNode::Empty | TreeNode::Node(_) => None,
        };
        let Some(place) = place else {
            return self.eligible[0];
        };
        let distance = |site: u16| {
            let at = self.pool.sites[usize::from(site)].place;
            at.map_or(f64::INFINITY, |at| place.distance_meters(at))
        };
        let by_distance = |a: &u16, b: &u16| distance(*a).total_cmp(&distance(*b));
        // `min_by` keeps the first of equals: the configuration's order breaks ties.
        self.eligible.iter().copied().min_by(by_distance).expect("steer() has seen one")
    }
}

/// The sites that the policy leaves.
fn eligible(pool: &Pool) -> Vec<u16> {
    let all = || 0..pool.sites.len() as u16;
    if !pool.policy.contains(&PolicyStep::Healthy) {
        return all().collect();
    }
    let healthy: Vec<u16> = all().filter(|site| pool.sites[usize::from(*site)].healthy).collect();
    match pool.when_all_down {
        WhenAllDown::All if healthy.is_empty() => all().collect(),
        _ => healthy,
    }
}

/// A loaded database was verified; a node that cannot be read all the same knows nothing.
fn child(database: &Database, node: TreeNode, bit: bool) -> TreeNode {
    database.child(node, bit).unwrap_or(TreeNode::Empty)
}

fn pack(below: Below) -> u16 {
    match below {
        Below::Mixed => MIXED,
        Below::All(site) => FIRST_SITE + site,
    }
}

fn unpack(memo: u16) -> Option<Below> {
    match memo {
        UNKNOWN => None,
        MIXED => Some(Below::Mixed),
        site => Some(Below::All(site - FIRST_SITE)),
    }
}
