//! The exit codes of all commands, defined once: for the manual pages and the documentation.
//!
//! Not for: ending the process (`main.rs`).

/// What every code means for the whole program. A command that a signal ends has 128 and the
/// signal's number.
pub(crate) const CODES: [(u8, &str); 3] = [
    (0, "Found, or done; also where a closed pipe took no more output."),
    (1, "Not found, or a finding; see the command."),
    (2, "Failed; one line on standard error says why."),
];

/// When a command ends with 1. The others never do.
pub(crate) const ONE: [(&str, &str); 20] = [
    ("db diff", "the files differ"),
    ("enrich", "no record has an address that was found"),
    ("export", "the server has no table and no collection of that name"),
    ("feeds", "the server has no feed"),
    ("import points", "a record was bad"),
    ("import rdb", "the target has or refuses a key"),
    ("import redis", "a key is not complete in the target"),
    ("lookup", "no address was found"),
    ("reload", "no server uses the data directory"),
    ("repair", "something was changed"),
    ("rules apply", "`--diff` finds a difference"),
    ("rules check", "a rule is unreachable or doubtful"),
    ("rules test", "a verdict is not the expected one"),
    ("status", "no server answers there"),
    ("steer explain", "the client gets no site"),
    ("stop", "no server was there to stop"),
    ("zone check", "there are remarks"),
    ("zone convert-gdnsd", "the configuration or a zone has a mistake; nothing is written"),
    ("zone discard", "no update has changed the zone"),
    ("zone key", "`list` or `ds` finds no key"),
];

/// When a command, without the program's name, ends with 1.
pub(crate) fn one(command: &str) -> Option<&'static str> {
    ONE.iter().find(|(name, _)| *name == command).map(|(_, when)| *when)
}
