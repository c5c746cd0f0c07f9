//! Which legacy editions there are: number, name, address family, and what their tree leads to.
//!
//! Not for reading them. One table holds all that is read; what is known but not read (proxy,
//! large country, confidence and other rare editions) is refused with its number. Numbers and
//! bases are those of the format itself.

use crate::error::{ErrorKind, MmdbError};
use crate::tree::LegacyLayout;

/// The highest edition number that was ever given out.
pub(super) const LAST_EDITION: u8 = 38;

/// Which legacy file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LegacyEdition {
    /// Countries by IPv4 address (`GeoIP.dat`).
    Country,
    /// Countries by IPv6 address, IPv4 included (`GeoIPv6.dat`).
    CountryV6,
    /// Countries and states of the United States (`GeoIPRegion.dat`), the older form.
    RegionRev0,
    /// Countries, states of the United States and provinces of Canada.
    RegionRev1,
    /// Cities (`GeoIPCity.dat`), without metro and area codes.
    CityRev0,
    /// Cities with metro and area codes in the United States.
    CityRev1,
    /// As [`LegacyEdition::CityRev0`], by IPv6 address.
    CityRev0V6,
    /// As [`LegacyEdition::CityRev1`], by IPv6 address (`GeoIPCityv6.dat`).
    CityRev1V6,
    /// Numbers and names of autonomous systems (`GeoIPASNum.dat`).
    AutonomousSystem,
    /// As [`LegacyEdition::AutonomousSystem`], by IPv6 address (`GeoIPASNumv6.dat`).
    AutonomousSystemV6,
    /// Internet service providers (`GeoIPISP.dat`).
    Isp,
    /// As [`LegacyEdition::Isp`], by IPv6 address.
    IspV6,
    /// Organizations (`GeoIPOrg.dat`).
    Organization,
    /// As [`LegacyEdition::Organization`], by IPv6 address.
    OrganizationV6,
    /// Second-level domains (`GeoIPDomain.dat`).
    Domain,
    /// As [`LegacyEdition::Domain`], by IPv6 address.
    DomainV6,
    /// Kinds of connection as numbers (`GeoIPNetSpeed.dat`).
    NetSpeed,
    /// Kinds of connection as texts (`GeoIPNetSpeedCell.dat`).
    NetSpeedRev1,
    /// As [`LegacyEdition::NetSpeedRev1`], by IPv6 address.
    NetSpeedRev1V6,
}

/// The meaning of a record number in an edition's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// A country number.
    Country,
    /// A state or country number, the older form.
    RegionRev0,
    /// A state, province or country number.
    RegionRev1,
    /// A number for the kind of connection.
    NetSpeed,
    /// The offset of a city record behind the tree.
    City { has_metro_code: bool },
    /// The offset of a text behind the tree.
    Text(Meaning),
}

/// Which field the texts of an edition are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    AutonomousSystem,
    Isp,
    Organization,
    Domain,
    ConnectionType,
}

/// A row of the table.
pub(super) struct Description {
    pub(super) edition: LegacyEdition,
    number: u8,
    name: &'static str,
    pub(super) is_ipv6: bool,
    pub(super) content: Content,
    /// How many bytes each of a node's two records has.
    record_bytes: u8,
}

impl Description {
    /// Where record numbers begin and end, for the contents whose numbers are no offsets.
    pub(super) fn fixed_numbers(&self) -> Option<(u32, u32)> {
        match self.content {
            Content::Country => Some((16_776_960, 256)),
            Content::NetSpeed => Some((16_776_960, 4)),
            Content::RegionRev0 => Some((16_700_000, 1000 + 26 * 26)),
            Content::RegionRev1 => Some((16_000_000, 1353 + 256 * 360)),
            Content::City { .. } | Content::Text(_) => None,
        }
    }

    /// The layout of the tree's nodes when record numbers begin at `base`.
    pub(super) fn layout(&self, base: u32) -> LegacyLayout {
        let unused = match self.content {
            Content::RegionRev0 => (256, 1000),
            // Country 0 is none, and has as many numbers as the others.
            Content::RegionRev1 => (1353, 1353 + 360),
            _ => (0, 0),
        };
        LegacyLayout { record_bytes: self.record_bytes, base, unused }
    }
}

const fn row(
    number: u8,
    edition: LegacyEdition,
    name: &'static str,
    is_ipv6: bool,
    content: Content,
) -> Description {
    let record_bytes = match content {
        Content::Text(Meaning::Isp | Meaning::Organization | Meaning::Domain) => 4,
        _ => 3,
    };
    Description { edition, number, name, is_ipv6, content, record_bytes }
}

/// All editions that are read.
static EDITIONS: [Description; 19] = {
    use Content::{City, Country, NetSpeed, RegionRev0, RegionRev1, Text};
    use LegacyEdition as E;
    use Meaning::{AutonomousSystem, ConnectionType, Domain, Isp, Organization};
    let (old_city, city) = (City { has_metro_code: false }, City { has_metro_code: true });
    [
        row(1, E::Country, "GeoIP Country Edition", false, Country),
        row(2, E::CityRev1, "GeoIP City Edition, Rev 1", false, city),
        row(3, E::RegionRev1, "GeoIP Region Edition, Rev 1", false, RegionRev1),
        row(4, E::Isp, "GeoIP ISP Edition", false, Text(Isp)),
        row(5, E::Organization, "GeoIP Organization Edition", false, Text(Organization)),
        row(6, E::CityRev0, "GeoIP City Edition, Rev 0", false, old_city),
        row(7, E::RegionRev0, "GeoIP Region Edition, Rev 0", false, RegionRev0),
        row(9, E::AutonomousSystem, "GeoIP ASNum Edition", false, Text(AutonomousSystem)),
        row(10, E::NetSpeed, "GeoIP Netspeed Edition", false, NetSpeed),
        row(11, E::Domain, "GeoIP Domain Name Edition", false, Text(Domain)),
        row(12, E::CountryV6, "GeoIP Country V6 Edition", true, Country),
        row(21, E::AutonomousSystemV6, "GeoIP ASNum V6 Edition", true, Text(AutonomousSystem)),
        row(22, E::IspV6, "GeoIP ISP V6 Edition", true, Text(Isp)),
        row(23, E::OrganizationV6, "GeoIP Organization V6 Edition", true, Text(Organization)),
        row(24, E::DomainV6, "GeoIP Domain Name V6 Edition", true, Text(Domain)),
        row(30, E::CityRev1V6, "GeoIP City Edition V6, Rev 1", true, city),
        row(31, E::CityRev0V6, "GeoIP City Edition V6, Rev 0", true, old_city),
        row(32, E::NetSpeedRev1, "GeoIP Netspeed Edition, Rev 1", false, Text(ConnectionType)),
        row(33, E::NetSpeedRev1V6, "GeoIP Netspeed Edition V6, Rev1", true, Text(ConnectionType)),
    ]
};

impl LegacyEdition {
    /// The name as the legacy tools print it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.description().name
    }

    /// The number behind the structure marker of such files.
    #[must_use]
    pub fn number(self) -> u8 {
        self.description().number
    }

    /// Whether the file's tree is one of IPv6 addresses.
    #[must_use]
    pub fn is_ipv6(self) -> bool {
        self.description().is_ipv6
    }

    /// Whether a text is the name of an edition whose tree is one of IPv6 addresses.
    pub(crate) fn is_ipv6_name(name: &str) -> bool {
        EDITIONS.iter().any(|row| row.is_ipv6 && row.name == name)
    }

    pub(super) fn description(self) -> &'static Description {
        let row = EDITIONS.iter().find(|row| row.edition == self);
        row.expect("the table has a row for every edition")
    }

    /// The edition of a number that stands behind the structure marker at `marker`.
    pub(super) fn from_number(number: u8, marker: usize) -> Result<LegacyEdition, MmdbError> {
        let row = EDITIONS.iter().find(|row| row.number == number);
        row.map(|row| row.edition).ok_or_else(|| {
            let name = match number {
                8 => "proxy",
                17 | 18 => "large country",
                26 | 27 => "registrar",
                28 | 29 => "user type",
                _ => "confidence or other rare data",
            };
            let known: Vec<String> = EDITIONS.iter().map(|row| row.number.to_string()).collect();
            MmdbError::new(
                ErrorKind::Unsupported,
                format!("legacy edition {number} ({name})"),
                format!("editions {}", known.join(", ")),
            )
            .at(marker as u64 + 3)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn editions_that_are_not_read_are_refused_by_name() {
        for (number, name) in [(8, "proxy"), (17, "large country"), (38, "rare")] {
            let error = LegacyEdition::from_number(number, 7).unwrap_err();
            assert_eq!((error.kind(), error.offset_bytes()), (ErrorKind::Unsupported, Some(10)));
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn numbers_and_editions_lead_to_each_other() {
        for row in &EDITIONS {
            assert_eq!(LegacyEdition::from_number(row.number, 0), Ok(row.edition));
            assert_eq!(row.edition.number(), row.number);
            assert_eq!(row.is_ipv6, row.name.contains("V6"));
        }
    }
}
