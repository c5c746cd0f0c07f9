//! What a cluster's servers tell their replicas of slots.
//!
//! For: hiding the keys of slots that the link's primary imports (`CLUSTER MIGRATESLOTS` of Valkey
//! 9), until it has all of them. Not for: the keys themselves, which come as commands of their own,
//! nor whose a slot is (`crate::replica`).
//!
//! ```text
//! ESTABLISH SOURCE a NAME b SLOTSRANGE 0 9   hidden: 0 to 9
//! ... keys, ACK, SNAPSHOT-EOF, PAUSED ...    the source's own bytes, control words among them
//! FINISH STATE success NAME b                all are seen at once
//! FINISH STATE failed NAME b                 hidden until a dump is here
//! ```
//!
//! Before a `FINISH` that says failed, Valkey 9.1 removes the keys by commands. A dump is right
//! also with a server that removes them without a word, as it may do at each of its replicas.
//!
//! Source: `cluster_legacy.c` and `cluster_migrateslots.c` of Valkey 9.1.

use whered_engine::{SLOTS, SlotImport};

use super::{Args, Executor, Obstacle, number, refused, resync, shown};

/// The longest name of a migration; Valkey's have 40 digits.
const NAME_BYTES_MAX: usize = 255;
/// Control words of a migration, which replicas pass over.
const PASSED_OVER: [&str; 7] = [
    "ack",
    "snapshot-eof",
    "request-pause",
    "paused",
    "request-failover",
    "failover-granted",
    "capa",
];

/// What a command says of a migration of slots.
#[derive(PartialEq, Eq, Debug)]
enum Migration<'a> {
    /// Nothing that changes what may be seen.
    Nothing,
    Begins(SlotImport),
    Succeeds(&'a [u8]),
}

impl Executor {
    pub(super) fn cluster(&self, args: Args<'_>) -> Result<(), Obstacle> {
        let number = self.served();
        let keyspace = self.session.engine().keyspace();
        let mut imports = keyspace.imports(number);
        match migration(args)? {
            Migration::Nothing => return Ok(()),
            Migration::Begins(import) => {
                imports.push(import);
                if has_twice(&imports) {
                    return Err(resync(format!("{} imports slots twice", shown(args))));
                }
            }
            Migration::Succeeds(name) => {
                let before = imports.len();
                imports.retain(|import| import.name != name);
                if imports.len() == before {
                    return Ok(());
                }
            }
        }
        keyspace.set_imports(number, &imports).map_err(|error| refused(&error))?;
        self.notify_all_watchers();
        Ok(())
    }
}

/// Reads `CLUSTER ...`.
///
/// # Errors
/// Words that are not known, and a migration that has failed: keys may be gone.
fn migration(args: Args<'_>) -> Result<Migration<'_>, Obstacle> {
    let is = |at: usize, word: &str| at < args.len() && args.is(at, word);
    let unknown = || {
        let words = (0..args.len().min(5)).map(|at| args.at(at).escape_ascii().to_string());
        let words: Vec<String> = words.collect();
        resync(format!("'{}' may remove keys", words.join(" ")))
    };
    if is(1, "setslot") || is(1, "failover") {
        return Ok(Migration::Nothing);
    }
    if !is(1, "syncslots") {
        return Err(unknown());
    }
    let found = match () {
        () if is(2, "establish") => begun(args),
        () if is(2, "finish") => finished(args),
        () => PASSED_OVER.iter().any(|word| is(2, word)).then_some(Migration::Nothing),
    };
    found.ok_or_else(unknown)
}

/// Whether a slot is imported twice; Valkey refuses that.
fn has_twice(imports: &[SlotImport]) -> bool {
    let mut is_imported = vec![false; usize::from(SLOTS)];
    let ranges = imports.iter().flat_map(|import| &import.ranges);
    let mut slots = ranges.flat_map(|(first, last)| *first..=*last);
    slots.any(|slot| std::mem::replace(&mut is_imported[usize::from(slot)], true))
}

/// `SOURCE node`, `NAME name`, `SLOTSRANGE first last [first last ...]`, in any order.
fn begun(args: Args<'_>) -> Option<Migration<'_>> {
    let (mut name, mut ranges) = (None, Vec::new());
    let mut at = 3;
    while at < args.len() {
        let value = args.get(at + 1)?;
        if args.is(at, "name") {
            name = Some(value);
        } else if args.is(at, "slotsrange") {
            while let (Some(first), Some(last)) = (slot(args, at + 1), slot(args, at + 2)) {
                if first > last || ranges.len() == usize::from(SLOTS) {
                    return None;
                }
                ranges.push((first, last));
                at += 2;
            }
            at += 1;
            continue;
        } else if !args.is(at, "source") {
            return None;
        }
        at += 2;
    }
    let name = name.filter(|name| name.len() <= NAME_BYTES_MAX)?.to_vec();
    (!ranges.is_empty()).then_some(Migration::Begins(SlotImport { name, ranges }))
}

/// `STATE success` and `NAME name`, in any order, and perhaps `MESSAGE text`.
fn finished(args: Args<'_>) -> Option<Migration<'_>> {
    let (mut name, mut is_success) = (None, false);
    for at in (3..args.len()).step_by(2) {
        let value = args.get(at + 1)?;
        if args.is(at, "name") {
            name = Some(value);
        } else if args.is(at, "state") {
            is_success = args.is(at + 1, "success");
        } else if !args.is(at, "message") {
            return None;
        }
    }
    name.filter(|_| is_success).map(Migration::Succeeds)
}

fn slot(args: Args<'_>, at: usize) -> Option<u16> {
    let slot = args.get(at).and_then(number::integer)?;
    u16::try_from(slot).ok().filter(|slot| *slot < SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_args<R>(request: &str, look: impl FnOnce(Args<'_>) -> R) -> R {
        let mut spans = Vec::new();
        for word in request.split(' ') {
            let start = word.as_ptr() as usize - request.as_ptr() as usize;
            spans.push((start, start + word.len()));
        }
        look(Args::new(request.as_bytes(), &spans))
    }

    #[test]
    fn words_that_change_no_key_and_end_no_import_are_passed_over() {
        for request in [
            "CLUSTER SETSLOT 10 IMPORTING 07c37dfeb235213a872192d90877d0cd55635b91",
            "cluster setslot 10 stable",
            "CLUSTER FAILOVER FORCE REPLICAID 07c37dfeb235213a872192d90877d0cd55635b91",
            "CLUSTER SYNCSLOTS ACK",
            "CLUSTER SYNCSLOTS SNAPSHOT-EOF",
            "CLUSTER SYNCSLOTS REQUEST-PAUSE",
            "CLUSTER SYNCSLOTS PAUSED",
            "CLUSTER SYNCSLOTS REQUEST-FAILOVER",
            "CLUSTER SYNCSLOTS FAILOVER-GRANTED",
            "cluster syncslots capa field other",
        ] {
            with_args(request, |args| {
                assert!(matches!(migration(args), Ok(Migration::Nothing)), "{request}");
            });
        }
    }

    #[test]
    fn an_import_has_a_name_and_ranges_of_slots_in_any_order() {
        for request in [
            "CLUSTER SYNCSLOTS ESTABLISH SOURCE a NAME b SLOTSRANGE 1 2 16383 16383",
            "cluster syncslots establish slotsrange 1 2 16383 16383 name b",
            "CLUSTER SYNCSLOTS ESTABLISH NAME b SLOTSRANGE 1 2 16383 16383 SOURCE a",
        ] {
            let import = SlotImport { name: b"b".to_vec(), ranges: vec![(1, 2), (16383, 16383)] };
            with_args(request, |args| {
                let found = migration(args).expect("it is known");
                assert_eq!(found, Migration::Begins(import), "{request}");
            });
        }
    }

    #[test]
    fn an_import_ends_well_only_where_that_is_said() {
        for request in [
            "CLUSTER SYNCSLOTS FINISH STATE success NAME b",
            "CLUSTER SYNCSLOTS FINISH NAME b MESSAGE failed STATE SUCCESS",
        ] {
            with_args(request, |args| {
                let found = migration(args).expect("it is known");
                assert_eq!(found, Migration::Succeeds(b"b"), "{request}");
            });
        }
    }

    #[test]
    fn a_failed_import_and_what_is_not_known_ask_for_a_dump() {
        for request in [
            "CLUSTER SYNCSLOTS FINISH STATE failed NAME b MESSAGE success",
            "CLUSTER SYNCSLOTS FINISH NAME b STATE",
            "CLUSTER SYNCSLOTS FINISH STATE success",
            "CLUSTER SYNCSLOTS FINISH STATE success NAME b OTHER c",
            "CLUSTER SYNCSLOTS ESTABLISH SOURCE a NAME b",
            "CLUSTER SYNCSLOTS ESTABLISH SOURCE a SLOTSRANGE 1 2",
            "CLUSTER SYNCSLOTS ESTABLISH NAME b SLOTSRANGE 2 1",
            "CLUSTER SYNCSLOTS ESTABLISH NAME b SLOTSRANGE 1",
            "CLUSTER SYNCSLOTS ESTABLISH NAME b SLOTSRANGE 1 16384",
            "CLUSTER SYNCSLOTS ESTABLISH NAME b SLOTSRANGE 1 2 3",
            "CLUSTER SYNCSLOTS ESTABLISH NAME b SLOTSRANGE 1 2 OTHER c",
            "CLUSTER SYNCSLOTS NEW-WORD",
            "CLUSTER SYNCSLOTS",
            "CLUSTER FLUSHSLOT 10",
            "CLUSTER",
        ] {
            with_args(request, |args| {
                assert!(matches!(migration(args), Err(Obstacle::Resync(_))), "{request}");
            });
        }
    }
}
