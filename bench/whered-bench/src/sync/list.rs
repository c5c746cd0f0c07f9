//! The list that is followed: members that stay, and blocks that come and go.
//!
//! Not for: who reads it.
//!
//! ```text
//! stable    a.b.c.d one a line; never change
//! coming    half single addresses, half /24 around a stable member; some are on, some are off
//! ```
//!
//! Invariants: each stable member is in every list; a list is renamed into place whole; what comes
//! and goes alone is no stable member and in no /24 that comes and goes.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::path::Path;
use std::{fs, io};

use crate::Random;

/// The list and what can happen to it.
pub(super) struct List {
    stable: Vec<Ipv4Addr>,
    /// The text of the stable members.
    text: Vec<u8>,
    coming: Vec<Coming>,
    random: Random,
    changes: usize,
    /// Addresses whose block has changed since they were waited for.
    turned: HashSet<Ipv4Addr>,
}

struct Coming {
    text: String,
    /// An address that is in no other member; none of a /24 around a stable one is sure.
    own: Option<Ipv4Addr>,
    is_on: bool,
}

impl List {
    pub(super) fn new(members: usize, rate: usize, seed: u64) -> List {
        let mut random = Random::of(seed, 0x5341, 0);
        let mut known = HashSet::new();
        let mut stable = Vec::with_capacity(members);
        while stable.len() < members {
            let address = address(&mut random);
            if known.insert(address) {
                stable.push(address);
            }
        }
        stable.sort_unstable();
        let mut nets = HashSet::new();
        let mut coming = Vec::new();
        while coming.len() < rate.max(100) * 2 {
            if coming.len() % 2 == 0 {
                let octets = random.pick(&stable).octets();
                let net = [octets[0], octets[1], octets[2]];
                if nets.insert(net) || nets.len() >= members / 2 {
                    let text = format!("{}.{}.{}.0/24\n", net[0], net[1], net[2]);
                    coming.push(Coming { text, own: None, is_on: false });
                }
                continue;
            }
            let address = address(&mut random);
            if known.insert(address) {
                let text = format!("{address}\n");
                coming.push(Coming { text, own: Some(address), is_on: false });
            }
        }
        // An address inside of a /24 that comes and goes says nothing about itself.
        for single in &mut coming {
            single.own = single.own.filter(|own| {
                let octets = own.octets();
                !nets.contains(&[octets[0], octets[1], octets[2]])
            });
        }
        let text: String = stable.iter().map(|address| format!("{address}\n")).collect();
        let turned = HashSet::new();
        List { stable, text: text.into_bytes(), coming, random, changes: 0, turned }
    }

    pub(super) fn stable(&self) -> &[Ipv4Addr] {
        &self.stable
    }

    /// How many lines came or went.
    pub(super) fn changes(&self) -> usize {
        self.changes
    }

    /// Turns `count` blocks on or off; an address that came, and one that went.
    pub(super) fn change(&mut self, count: usize) -> (Option<Ipv4Addr>, Option<Ipv4Addr>) {
        self.turned.clear();
        let (mut added, mut removed) = (None, None);
        for _ in 0..count {
            let place = self.random.below(self.coming.len() as u64) as usize;
            let Some(block) = self.coming.get_mut(place) else { continue };
            block.is_on = !block.is_on;
            self.changes += 1;
            let Some(own) = block.own else { continue };
            if !self.turned.insert(own) {
                // There and back: the kernel may never see it.
                added = added.filter(|address| *address != own);
                removed = removed.filter(|address| *address != own);
                continue;
            }
            *(if block.is_on { &mut added } else { &mut removed }) = Some(own);
        }
        (added, removed)
    }

    /// Whether the last change touched this address.
    pub(super) fn has_turned(&self, address: Ipv4Addr) -> bool {
        self.turned.contains(&address)
    }

    /// Puts the list into place whole.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = self.text.clone();
        for block in self.coming.iter().filter(|block| block.is_on) {
            text.extend_from_slice(block.text.as_bytes());
        }
        let new = path.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(&new, path)
    }
}

/// An address that a packet can be sent to, and that is nobody's in a private namespace.
fn address(random: &mut Random) -> Ipv4Addr {
    loop {
        let address = Ipv4Addr::from_bits(random.next_u64() as u32);
        let first = address.octets()[0];
        if (1..=223).contains(&first) && first != 127 && first != 198 {
            return address;
        }
    }
}
