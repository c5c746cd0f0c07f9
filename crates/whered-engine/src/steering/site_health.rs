//! Whether a site may be chosen: what its probes say, and what a person has said against them.
//!
//! Not for: asking sites (the server's probes do, and tell here).
//!
//! ```text
//! probes ──set_probe_results──> probed: unchecked, unknown, up, down ─┐
//! SITE.DOWN, .UP, .AUTO ──────> manual: auto, down, up ───────────────┴─> healthy
//! ```
//! The override is in the journal and survives a restart; what probes have found does not, since
//! it is out of date by then. Nothing known yet counts as up.
//!
//! Cost of telling many results: the sites of the pools that change, once each; a generation is
//! made that shares all else, and a pool's steering is kept where the choice stays as it is.

/// What the probes of a site say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Probed {
    /// The site has no checks.
    #[default]
    Unchecked,
    /// No check has ended yet.
    Unknown,
    /// It answers as it should.
    Up,
    /// It does not.
    Down,
}

impl Probed {
    /// The word for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Probed::Unchecked => "unchecked",
            Probed::Unknown => "unknown",
            Probed::Up => "up",
            Probed::Down => "down",
        }
    }
}

/// What a person has said about a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HealthOverride {
    /// Nothing: probes decide.
    #[default]
    Auto,
    /// Down whatever probes say.
    Down,
    /// Up whatever probes say.
    Up,
}

impl HealthOverride {
    /// The word for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            HealthOverride::Auto => "auto",
            HealthOverride::Down => "down",
            HealthOverride::Up => "up",
        }
    }

    /// What the journal has. Its first two are those of a time without probes.
    pub(crate) fn code(self) -> u8 {
        match self {
            HealthOverride::Down => 0,
            HealthOverride::Up => 1,
            HealthOverride::Auto => 2,
        }
    }

    /// What a code of the journal means, which has been checked when it was read.
    pub(crate) fn from_code(code: u8) -> HealthOverride {
        match code {
            0 => HealthOverride::Down,
            1 => HealthOverride::Up,
            _ => HealthOverride::Auto,
        }
    }
}

/// Why a site may be chosen or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SiteHealth {
    /// What its probes say.
    pub probed: Probed,
    /// What a person has said.
    pub manual: HealthOverride,
}

impl SiteHealth {
    /// Whether the site may be chosen.
    pub fn is_up(self) -> bool {
        match self.manual {
            HealthOverride::Auto => self.probed != Probed::Down,
            HealthOverride::Down => false,
            HealthOverride::Up => true,
        }
    }
}

/// What is known of one site now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeResult<'a> {
    /// The pool's name.
    pub pool: &'a str,
    /// The site's name.
    pub site: &'a str,
    /// What its probes say.
    pub probed: Probed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_a_journal_without_probes_mean_what_they_meant() {
        for (code, meant) in
            [(0, HealthOverride::Down), (1, HealthOverride::Up), (2, HealthOverride::Auto)]
        {
            assert_eq!((HealthOverride::from_code(code), meant.code()), (meant, code));
        }
    }
}
