//! A set of nf_tables, written over netlink in one transaction each time.
//!
//! For: named sets of IPv4 or IPv6 addresses, with or without ranges and timeouts.
//! Not for: maps, concatenations, anonymous sets, tables and rules.
//!
//! ```text
//! piece 10.0.0.8-10.0.0.15   ──►  element 10.0.0.8 [timeout], element 10.0.0.16 [end]
//! piece up to the last address ──►  element alone
//! ```
//!
//! Invariants: one batch a call. Deletions stand before additions in it, since the kernel refuses
//! ranges that overlap; packets see the set before it or after it.
//! Cost: some 2 s for 500,000 ranges, then up to 0.1 s a transaction (the kernel's work).

use std::io::{self, Write};

use super::elements::{SetQuery, read_back};
use super::netlink::{self, Fault, LIST_BYTES_MAX, Messages, Netlink};
use super::watch::Watch;
use super::{Difference, Family, Piece, ReadBack, Sink, Transaction};
use crate::error::ConnectError;

// Kinds of messages, and attributes, of linux/netfilter/nf_tables.h.
const NEW_TABLE: u16 = 0;
const NEW_SET: u16 = 9;
const GET_SET: u16 = 10;
pub(super) const NEW_ELEMENTS: u16 = 12;
pub(super) const DELETE_ELEMENTS: u16 = 14;
/// Deletes what is there and does not mind what is not; since Linux 6.3.
const DESTROY_ELEMENTS: u16 = 30;

const TABLE_NAME: u16 = 1;
const SET_TABLE: u16 = 1;
const SET_NAME: u16 = 2;
const SET_FLAGS: u16 = 3;
const SET_KEY_TYPE: u16 = 4;
const SET_KEY_BYTES: u16 = 5;
const SET_ID: u16 = 10;
const SET_TIMEOUT: u16 = 11;
const SET_HANDLE: u16 = 16;
pub(super) const LIST_TABLE: u16 = 1;
pub(super) const LIST_SET: u16 = 2;
pub(super) const LIST_ELEMENTS: u16 = 3;
pub(super) const ELEMENT: u16 = 1;
pub(super) const ELEMENT_KEY: u16 = 1;
pub(super) const ELEMENT_FLAGS: u16 = 3;
const ELEMENT_TIMEOUT: u16 = 4;
pub(super) const DATA_VALUE: u16 = 1;
pub(super) const INTERVAL_END: u32 = 1;

const FLAG_ANONYMOUS: u32 = 1;
const FLAG_CONSTANT: u32 = 2;
const FLAG_INTERVAL: u32 = 4;
const FLAG_MAP: u32 = 8;
const FLAG_TIMEOUT: u32 = 0x10;
const FLAG_CONCATENATION: u32 = 0x80;
const FLAG_OBJECTS: u32 = 0x40;

/// What nft calls `ipv4_addr` and `ipv6_addr`.
const TYPE_IPV4: u32 = 7;
const TYPE_IPV6: u32 = 8;

/// A named set of a table.
pub struct NftSet {
    family_name: &'static str,
    table_family: u8,
    table: String,
    set: String,
    family: Family,
    create: bool,
    socket: Option<Netlink>,
    watch: Option<Watch>,
    has_ranges: bool,
    has_timeouts: bool,
    handle: Vec<u8>,
    can_destroy: bool,
}

impl NftSet {
    pub(super) fn new(
        family_name: &'static str,
        table_family: u8,
        table: &str,
        set: &str,
        family: Family,
        create: bool,
    ) -> NftSet {
        NftSet {
            family_name,
            table_family,
            table: table.to_owned(),
            set: set.to_owned(),
            family,
            create,
            socket: None,
            watch: None,
            has_ranges: true,
            has_timeouts: true,
            handle: Vec::new(),
            can_destroy: true,
        }
    }

    fn wrong(&self, what: &str) -> ConnectError {
        ConnectError::new(format!("{}: {what}", self.name()))
    }

    fn fault(&self, fault: &Fault) -> ConnectError {
        let errno = match fault {
            Fault::Refused(refusal) => refusal.errno,
            Fault::Socket(error) => error.raw_os_error().unwrap_or(0),
        };
        let (family, table, set) = (self.family_name, &self.table, &self.set);
        let kind = match self.family {
            Family::Ipv4 => "ipv4_addr",
            Family::Ipv6 => "ipv6_addr",
        };
        self.wrong(&match (errno, fault) {
            (libc::EPERM | libc::EACCES, _) => {
                "not permitted; allowed: root, or CAP_NET_ADMIN in the set's network namespace"
                    .to_owned()
            }
            (libc::ENOENT, _) => format!(
                "there is no such set; allowed: --create, or nft 'add set {family} {table} {set} \
                 {{ type {kind}; flags interval, timeout; }}'"
            ),
            (libc::ENFILE, _) => {
                "it is full; allowed: a set without 'size', or with a larger one".to_owned()
            }
            (libc::EEXIST, _) => "holds elements that others have put there".to_owned(),
            (libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT, _) => {
                "this system has no nf_tables".to_owned()
            }
            (_, Fault::Socket(error)) => error.to_string(),
            (errno, _) => {
                format!("the kernel refuses it: {}", io::Error::from_raw_os_error(errno))
            }
        })
    }

    fn socket(&mut self) -> Result<&mut Netlink, Fault> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => Netlink::open()?,
        };
        Ok(self.socket.insert(socket))
    }

    /// What the kernel says of the set.
    fn ask(&mut self) -> Result<Vec<u8>, Fault> {
        let mut question = Messages::default();
        question.begin(GET_SET, 0, self.table_family);
        question.text(SET_TABLE, &self.table);
        question.text(SET_NAME, &self.set);
        self.socket()?.ask(question)
    }

    fn make(&mut self) -> Result<(), Fault> {
        let mut batch = Messages::batch();
        batch.begin(NEW_TABLE, netlink::CREATE, self.table_family);
        batch.text(TABLE_NAME, &self.table);
        batch.begin(NEW_SET, netlink::CREATE, self.table_family);
        batch.text(SET_TABLE, &self.table);
        batch.text(SET_NAME, &self.set);
        batch.attribute(SET_FLAGS, &(FLAG_INTERVAL | FLAG_TIMEOUT).to_be_bytes());
        let kind = if self.family == Family::Ipv4 { TYPE_IPV4 } else { TYPE_IPV6 };
        batch.attribute(SET_KEY_TYPE, &kind.to_be_bytes());
        batch.attribute(SET_KEY_BYTES, &(self.family.bits() / 8).to_be_bytes());
        batch.attribute(SET_ID, &1_u32.to_be_bytes());
        self.socket()?.commit(batch)
    }

    /// Takes over what the kernel said, if such a set can be written.
    fn take(&mut self, about: &[u8]) -> Result<(), ConnectError> {
        let find = |wanted| netlink::attributes(about).find(|(kind, _)| *kind == wanted);
        let number = |wanted| {
            let (_, payload) = find(wanted)?;
            Some(u32::from_be_bytes(payload.try_into().ok()?))
        };
        let flags = number(SET_FLAGS).unwrap_or(0);
        self.family = match number(SET_KEY_TYPE) {
            Some(TYPE_IPV4) => Family::Ipv4,
            Some(TYPE_IPV6) => Family::Ipv6,
            _ => return Err(self.wrong("holds no addresses; allowed: ipv4_addr, ipv6_addr")),
        };
        let refused = [
            (FLAG_CONSTANT, "flags constant"),
            (FLAG_ANONYMOUS, "an anonymous set"),
            (FLAG_MAP | FLAG_OBJECTS, "a map"),
            (FLAG_CONCATENATION, "a concatenation"),
        ];
        if let Some((_, what)) = refused.iter().find(|(flag, _)| flags & flag != 0) {
            let allowed = "a set of addresses, with flags interval and timeout where needed";
            return Err(self.wrong(&format!("found {what}; allowed: {allowed}")));
        }
        if find(SET_TIMEOUT).is_some_and(|(_, payload)| payload.iter().any(|byte| *byte != 0)) {
            let what = "found a timeout of the set, after which members would be missing; allowed: \
                        'flags timeout' without it";
            return Err(self.wrong(what));
        }
        self.has_ranges = flags & FLAG_INTERVAL != 0;
        self.has_timeouts = flags & FLAG_TIMEOUT != 0;
        self.handle = find(SET_HANDLE).map(|(_, payload)| payload.to_vec()).unwrap_or_default();
        Ok(())
    }

    /// Watches the set from now on.
    fn watch(&mut self) -> Result<(), Fault> {
        let port = self.socket()?.port();
        if !self.watch.as_ref().is_some_and(|watch| watch.is_of(port)) {
            self.watch = Some(Watch::open(port, self.table_family, &self.table, &self.set)?);
        }
        // What has happened so far is what the set is about to be replaced for.
        if let Some(watch) = &mut self.watch {
            watch.was_touched()?;
        }
        Ok(())
    }

    /// Messages about elements, each as long as a list may be.
    fn elements<'a>(
        &self,
        batch: &mut Messages,
        kind: u16,
        pieces: impl Iterator<Item = &'a Piece>,
        now_millis: u64,
    ) {
        let flags = if kind == NEW_ELEMENTS { netlink::CREATE } else { 0 };
        let mut pieces = pieces.peekable();
        while pieces.peek().is_some() {
            self.begin(batch, kind, flags);
            batch.nested(LIST_ELEMENTS, |list| {
                while list.message_bytes() < LIST_BYTES_MAX {
                    let Some(piece) = pieces.next() else { break };
                    let timeout = (kind == NEW_ELEMENTS && self.has_timeouts)
                        .then(|| piece.left_millis(now_millis))
                        .flatten();
                    self.element(list, piece.first, 0, timeout);
                    if self.has_ranges && piece.last < self.family.highest() {
                        self.element(list, piece.last + 1, INTERVAL_END, None);
                    }
                }
            });
        }
    }

    fn begin(&self, batch: &mut Messages, kind: u16, flags: u16) {
        batch.begin(kind, flags, self.table_family);
        batch.text(LIST_TABLE, &self.table);
        batch.text(LIST_SET, &self.set);
    }

    fn element(&self, list: &mut Messages, number: u128, flags: u32, timeout: Option<u64>) {
        list.nested(ELEMENT, |element| {
            if flags != 0 {
                element.attribute(ELEMENT_FLAGS, &flags.to_be_bytes());
            }
            let octets = number.to_be_bytes();
            let key = &octets[octets.len() - self.family.bits() as usize / 8..];
            element.nested(ELEMENT_KEY, |data| data.attribute(DATA_VALUE, key));
            if let Some(millis) = timeout {
                element.attribute(ELEMENT_TIMEOUT, &millis.max(1).to_be_bytes());
            }
        });
    }

    fn commit(&mut self, batch: Messages) -> Result<(), Fault> {
        let done = self.socket()?.commit(batch);
        if matches!(done, Err(Fault::Socket(_))) {
            // Late answers must not meet the next question.
            self.socket = None;
        }
        done
    }

    fn try_change(&mut self, difference: &Difference, now_millis: u64) -> Result<(), Fault> {
        let mut batch = Messages::batch();
        let deletion = if self.can_destroy { DESTROY_ELEMENTS } else { DELETE_ELEMENTS };
        let gone = difference.remove.iter().chain(&difference.renew);
        self.elements(&mut batch, deletion, gone, now_millis);
        let new = difference.add.iter().chain(&difference.renew);
        self.elements(&mut batch, NEW_ELEMENTS, new, now_millis);
        self.commit(batch)
    }
}

impl Sink for NftSet {
    fn name(&self) -> String {
        format!("nft set {}/{}/{}", self.family_name, self.table, self.set)
    }

    fn family(&self) -> Family {
        self.family
    }

    fn prepare(&mut self) -> Result<(), ConnectError> {
        let about = match self.ask() {
            Err(Fault::Refused(refusal)) if refusal.errno == libc::ENOENT && self.create => {
                self.make().map_err(|fault| self.fault(&fault))?;
                self.ask()
            }
            other => other,
        };
        let about = about.map_err(|fault| self.fault(&fault))?;
        self.take(&about)?;
        self.watch().map_err(|fault| self.fault(&fault))
    }

    fn shape(&self, pieces: Vec<Piece>) -> Result<Vec<Piece>, ConnectError> {
        let wide = pieces.iter().find(|piece| !self.has_ranges && !piece.is_single());
        let Some(block) = wide.and_then(|piece| piece.block(self.family)) else {
            return Ok(pieces);
        };
        Err(self.wrong(&format!("cannot hold {block}; allowed: a set with 'flags interval'")))
    }

    fn ends_itself(&self, _piece: &Piece, _now_millis: u64) -> bool {
        self.has_timeouts
    }

    fn replace(&mut self, pieces: &[Piece], now_millis: u64) -> Result<(), ConnectError> {
        let mut batch = Messages::batch();
        // A deletion that names no element empties the set.
        self.begin(&mut batch, DELETE_ELEMENTS, 0);
        self.elements(&mut batch, NEW_ELEMENTS, pieces.iter(), now_millis);
        self.commit(batch).map_err(|fault| self.fault(&fault))
    }

    fn change(&mut self, difference: &Difference, now_millis: u64) -> Result<(), ConnectError> {
        let mut done = self.try_change(difference, now_millis);
        if let Err(Fault::Refused(refusal)) = &done
            && refusal.errno == libc::EINVAL
            && self.can_destroy
        {
            self.can_destroy = false;
            done = self.try_change(difference, now_millis);
        }
        done.map_err(|fault| self.fault(&fault))
    }

    fn is_intact(&mut self, _held: &[Piece], _now_millis: u64) -> Result<bool, ConnectError> {
        let about = match self.ask() {
            Err(Fault::Refused(refusal)) if refusal.errno == libc::ENOENT => return Ok(false),
            other => other.map_err(|fault| self.fault(&fault))?,
        };
        let handle = netlink::attributes(&about).find(|(kind, _)| *kind == SET_HANDLE);
        if handle.is_some_and(|(_, payload)| payload != self.handle) {
            return Ok(false);
        }
        let port = self.socket.as_ref().map_or(0, Netlink::port);
        let Some(watch) = self.watch.as_mut().filter(|watch| watch.is_of(port)) else {
            // Nobody has watched since the last look.
            return Ok(false);
        };
        let touched = watch.was_touched();
        touched.map(|touched| !touched).map_err(|error| self.fault(&Fault::Socket(error)))
    }

    fn announces_changes(&self) -> bool {
        true
    }

    fn read_back(&self) -> ReadBack {
        let questioned = SetQuery {
            table_family: self.table_family,
            table: self.table.clone(),
            set: self.set.clone(),
            family: self.family,
            has_ranges: self.has_ranges,
            has_timeouts: self.has_timeouts,
        };
        let name = self.name();
        Box::new(move || {
            read_back(&questioned).map_err(|fault| {
                let what = match fault {
                    Fault::Refused(refusal) => io::Error::from_raw_os_error(refusal.errno),
                    Fault::Socket(error) => error,
                };
                ConnectError::new(format!("{name}: its elements cannot be read: {what}"))
            })
        })
    }

    fn write(&self, what: Transaction<'_>, now_millis: u64, out: &mut dyn Write) -> io::Result<()> {
        let place = format!("{} {} {}", self.family_name, self.table, self.set);
        if let Transaction::Replace(_) = what {
            writeln!(out, "flush set {place}")?;
        }
        let mut list = |verb: &str, pieces: &mut dyn Iterator<Item = &Piece>| {
            let mut pieces = pieces.peekable();
            if pieces.peek().is_none() {
                return Ok(());
            }
            writeln!(out, "{verb} element {place} {{")?;
            while let Some(piece) = pieces.next() {
                if let Some(block) = piece.block(self.family) {
                    write!(out, "    {block}")?;
                }
                let left = piece.left_millis(now_millis).filter(|_| verb == "add");
                if let Some(millis) = left {
                    write!(out, " timeout {}s", millis.div_ceil(1000))?;
                }
                writeln!(out, "{}", if pieces.peek().is_some() { "," } else { "" })?;
            }
            writeln!(out, "}}")
        };
        match what {
            Transaction::Replace(pieces) => list("add", &mut pieces.iter()),
            Transaction::Change(difference) => {
                list("delete", &mut difference.remove.iter().chain(&difference.renew))?;
                list("add", &mut difference.add.iter().chain(&difference.renew))
            }
        }
    }
}
