//! The numbered databases: those of clients, and the hidden ones of links to other servers.
//!
//! ```text
//! 0 ... 15 clients' │ 16 served, 17 loaded of link 0 │ 18, 19 of link 1 │ ... 143
//! ```

/// How many numbered databases clients have.
pub const DATABASE_COUNT: usize = 16;
/// How many links to other servers there may be.
pub const LINKS_MAX: usize = 64;
/// How many numbered databases there are with the hidden ones.
pub(crate) const NUMBERS: usize = DATABASE_COUNT + 2 * LINKS_MAX;

/// The number of the hidden database that holds what is served of a link.
pub const fn served_number(link: usize) -> usize {
    DATABASE_COUNT + 2 * link
}

/// The number of the hidden database that a link's full synchronization fills.
pub const fn load_number(link: usize) -> usize {
    served_number(link) + 1
}

/// The link that has this served number.
pub(crate) fn link_of(number: u8) -> Option<usize> {
    let link = usize::from(number).checked_sub(DATABASE_COUNT)? / 2;
    (link < LINKS_MAX && served_number(link) == usize::from(number)).then_some(link)
}
