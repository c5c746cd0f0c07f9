//! Changes of zones by UPDATE (RFC 2136): checked, journaled, and served at once.
//!
//! For: what updates make of a zone, over its file, through reloads and restarts. Not for: who may
//! ask (the server), the rules of UPDATE and the form of what is kept (`whered-dns`).
//!
//! ```text
//! update ─ changes of the served zone ─► overlay ─► journal
//!                                  └──► zone with them ─► next generation
//! ```
//!
//! Invariants: what is served is also in the journal, or on its way there; an update is made wholly
//! or not at all. At the same time: changes exclude each other and reloads by `control`.

use std::fmt;
use std::sync::Arc;

use whered_dns::update::{Update, ZoneOverlay};
use whered_dns::{Difference, Name, Rcode, Zone};

use super::Engine;
use crate::error::WriteError;
use crate::generation::Generation;
use crate::journal::log::Written;
use crate::journal::operation::Operation;

/// Why an update was not made.
#[derive(Debug)]
pub enum UpdateError {
    /// The answer says it by its code; the line is for the log.
    Refused(Rcode, String),
    /// Nothing can be written.
    Write(WriteError),
}

impl fmt::Display for UpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpdateError::Refused(rcode, line) => write!(f, "{rcode}: {line}"),
            UpdateError::Write(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for UpdateError {}

/// An update that is ready to be served.
struct PreparedUpdate {
    index: usize,
    overlay: ZoneOverlay,
    served: Zone,
    /// The parts of the overlay that have changed.
    parts: Vec<u8>,
}

impl Engine {
    /// Makes an update; gives the serial of the zone then. One that changes nothing leaves it.
    ///
    /// # Errors
    /// A prerequisite that does not hold; no such zone, or one with signatures of its file; changes
    /// that make no zone, or that no pool goes with; the journal refuses.
    pub fn update_zone(&self, update: &Update) -> Result<Written<u32>, UpdateError> {
        // The size of what is written is known when the update is made; room is taken before.
        let size_bytes = {
            let control = self.control();
            let overlay = control.changes.overlays.get(update.zone()).cloned().unwrap_or_default();
            let prepared = prepare(&self.generation(), &overlay, update)?;
            prepared.map_or(0, |(prepared, _)| prepared.parts.len())
        };
        let zone = update.zone().to_string();
        let room_bytes = 2 * size_bytes + zone.len() + 1024;
        let (_guard, room) = self.log.enter(room_bytes).map_err(UpdateError::Write)?;
        let mut control = self.control();
        let current = self.generation();
        let overlay = control.changes.overlays.get(update.zone()).cloned().unwrap_or_default();
        let Some((prepared, serial)) = prepare(&current, &overlay, update)? else {
            let serial = current.zones().zone(update.zone()).map_or(0, |zone| zone.serial());
            return Ok(Written { value: serial, ticket: room.unused() });
        };
        let PreparedUpdate { index, overlay, served, parts } = prepared;
        let operation = Operation::ChangeZone { zone: zone.as_str().into(), parts: parts.into() };
        if operation.size_bytes() > room_bytes {
            let line = "another update came between";
            return Err(UpdateError::Refused(Rcode::SERVFAIL, line.to_owned()));
        }
        let overlay = Arc::new(overlay);
        let next = current.with_updated_zone(index, Arc::clone(&overlay), Arc::new(served));
        let next = next.map_err(|error| UpdateError::Refused(Rcode::REFUSED, error.to_string()))?;
        if overlay.is_empty() {
            control.changes.overlays.remove(update.zone());
        } else {
            control.changes.overlays.insert(update.zone().clone(), overlay);
        }
        self.serve(next);
        Ok(Written { value: serial, ticket: room.append(&operation) })
    }

    /// Drops all that updates have made of a zone: how many records they added and removed.
    ///
    /// # Errors
    /// No such zone, or nothing is over it; the zone of the file does not go with the pools; the
    /// journal refuses.
    pub fn discard_zone_updates(&self, name: &str) -> Result<Written<(usize, usize)>, WriteError> {
        let refuse = |line: String| WriteError::Refused(line);
        let origin: Name = name.parse().map_err(|_| refuse(format!("no such zone '{name}'")))?;
        let zone = origin.to_string();
        let operation = Operation::DiscardZone { zone: &zone };
        let (_guard, room) = self.log.enter(operation.size_bytes())?;
        let mut control = self.control();
        let current = self.generation();
        let overlay = control.changes.overlays.get(&origin).filter(|own| own.has_records());
        let mut overlay = overlay
            .cloned()
            .ok_or_else(|| refuse(format!("no update has changed the zone '{name}'")))?;
        let counts = overlay.counts();
        Arc::make_mut(&mut overlay).discard();
        if let Some((index, base)) = current.base_zone(&origin) {
            // A zone with signatures goes as it is: a serial of ours would have none.
            let served = if base.is_signed() {
                Arc::clone(base)
            } else {
                let served = base.patched("UPDATE", &[overlay.over(base)]);
                Arc::new(served.map_err(|error| refuse(error.to_string()))?)
            };
            let next = current.with_updated_zone(index, Arc::clone(&overlay), served);
            self.serve(next.map_err(|error| refuse(error.to_string()))?);
        }
        control.changes.overlays.insert(origin, overlay);
        Ok(Written { value: counts, ticket: room.append(&operation) })
    }

    /// The zones that updates have changed, with the numbers of records added and removed.
    pub fn zone_updates(&self) -> Vec<(Name, (usize, usize))> {
        let control = self.control();
        let overlays = control.changes.overlays.iter().filter(|(_, overlay)| overlay.has_records());
        overlays.map(|(origin, overlay)| (origin.clone(), overlay.counts())).collect()
    }
}

/// What an update makes of the zone that is served; none when it changes nothing.
fn prepare(
    current: &Generation,
    overlay: &ZoneOverlay,
    update: &Update,
) -> Result<Option<(PreparedUpdate, u32)>, UpdateError> {
    let origin = update.zone();
    let refuse =
        |rcode, line: &str| Err(UpdateError::Refused(rcode, format!("the zone {origin} {line}")));
    let Some((index, base)) = current.base_zone(origin) else {
        return refuse(Rcode::NOTAUTH, "is not served here");
    };
    let served = current.zones().zone(origin).unwrap_or(base);
    if served.is_unavailable() {
        return refuse(Rcode::SERVFAIL, "cannot be served now");
    }
    if served.is_signed() {
        return refuse(Rcode::REFUSED, "has signatures, which nobody here makes anew");
    }
    let changes = update.changes(served).map_err(|rcode| {
        UpdateError::Refused(rcode, format!("a prerequisite of an update of {origin}"))
    })?;
    let Some(difference) = changes else { return Ok(None) };
    prepare_change(index, base, served, overlay.clone(), difference)
}

fn prepare_change(
    index: usize,
    base: &Zone,
    served: &Zone,
    mut overlay: ZoneOverlay,
    difference: Difference,
) -> Result<Option<(PreparedUpdate, u32)>, UpdateError> {
    let parts = overlay.take(base, served, &difference).concat();
    let serial = difference.to_serial;
    let served = served
        .patched("UPDATE", &[difference])
        .map_err(|error| UpdateError::Refused(Rcode::REFUSED, error.to_string()))?;
    Ok(Some((PreparedUpdate { index, overlay, served, parts }, serial)))
}
