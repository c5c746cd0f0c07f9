//! The editions of libGeoIP: numbers, names, file names, and the layout of their files.
//!
//! Not for reading files. One table has all 39 types; the messages and file names are part of the
//! interface.

use std::ffi::CStr;

/// The kind of an edition's records, which decides which functions answer from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// The number in the tree is a country, a speed or a kind of proxy.
    Number,
    /// The number in the tree is a region.
    Region,
    /// A city record is behind the tree.
    City,
    /// A text is behind the tree.
    Text,
}

/// A type of database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edition {
    pub(crate) number: u8,
    pub(crate) name: &'static CStr,
    pub(crate) file: &'static str,
    pub(crate) content: Content,
    pub(crate) is_ipv6: bool,
    /// The bytes of each of a node's two records.
    pub(crate) record_bytes: u8,
    /// The first number that is no node; `None`: it is in the file.
    pub(crate) base: Option<u32>,
    /// Whether files of it are opened.
    is_read: bool,
}

pub(crate) const COUNTRY: u8 = 1;
pub(crate) const CITY_REV1: u8 = 2;
pub(crate) const REGION_REV1: u8 = 3;
pub(crate) const ISP: u8 = 4;
pub(crate) const ORGANIZATION: u8 = 5;
pub(crate) const REGION_REV0: u8 = 7;
pub(crate) const PROXY: u8 = 8;
pub(crate) const AS_NUMBER: u8 = 9;
pub(crate) const NETSPEED: u8 = 10;
pub(crate) const DOMAIN: u8 = 11;
pub(crate) const COUNTRY_V6: u8 = 12;
pub(crate) const ACCURACY_RADIUS: u8 = 14;
pub(crate) const LARGE_COUNTRY: u8 = 17;
pub(crate) const LARGE_COUNTRY_V6: u8 = 18;
pub(crate) const AS_NUMBER_V6: u8 = 21;
pub(crate) const ISP_V6: u8 = 22;
pub(crate) const ORGANIZATION_V6: u8 = 23;
pub(crate) const DOMAIN_V6: u8 = 24;
pub(crate) const USER_TYPE: u8 = 28;
pub(crate) const USER_TYPE_V6: u8 = 29;
pub(crate) const CITY_REV1_V6: u8 = 30;
pub(crate) const NETSPEED_REV1: u8 = 32;
pub(crate) const NETSPEED_REV1_V6: u8 = 33;
pub(crate) const ACCURACY_RADIUS_V6: u8 = 38;

const COUNTRY_BASE: u32 = 16_776_960;
const LARGE_COUNTRY_BASE: u32 = 16_515_072;
pub(crate) const REGION_REV0_BASE: u32 = 16_700_000;
pub(crate) const REGION_REV1_BASE: u32 = 16_000_000;

const fn row(
    number: u8,
    name: &'static CStr,
    file: &'static str,
    content: Content,
    is_ipv6: bool,
) -> Edition {
    let base = match number {
        REGION_REV0 => Some(REGION_REV0_BASE),
        REGION_REV1 => Some(REGION_REV1_BASE),
        LARGE_COUNTRY | LARGE_COUNTRY_V6 => Some(LARGE_COUNTRY_BASE),
        _ => match content {
            Content::Number => Some(COUNTRY_BASE),
            _ => None,
        },
    };
    let record_bytes = match number {
        ISP | ORGANIZATION | DOMAIN | ISP_V6 | ORGANIZATION_V6 | DOMAIN_V6 => 4,
        _ => 3,
    };
    // Files of the confidence editions of old, and of location numbers by IPv6, are refused.
    let is_read = number != 25;
    Edition { number, name, file, content, is_ipv6, record_bytes, base, is_read }
}

/// A number that has a name but never had a file.
const fn name_only(number: u8, name: &'static CStr) -> Edition {
    let mut edition = row(number, name, "", Content::Text, false);
    edition.is_read = false;
    edition
}

/// All types that have a name.
pub(crate) static EDITIONS: [Edition; 35] = {
    use Content::{City, Number, Region, Text};
    [
        row(1, c"GeoIP Country Edition", "GeoIP.dat", Number, false),
        row(2, c"GeoIP City Edition, Rev 1", "GeoIPCity.dat", City, false),
        row(3, c"GeoIP Region Edition, Rev 1", "GeoIPRegion.dat", Region, false),
        row(4, c"GeoIP ISP Edition", "GeoIPISP.dat", Text, false),
        row(5, c"GeoIP Organization Edition", "GeoIPOrg.dat", Text, false),
        row(6, c"GeoIP City Edition, Rev 0", "GeoIPCity.dat", City, false),
        row(7, c"GeoIP Region Edition, Rev 0", "GeoIPRegion.dat", Region, false),
        row(8, c"GeoIP Proxy Edition", "GeoIPProxy.dat", Number, false),
        row(9, c"GeoIP ASNum Edition", "GeoIPASNum.dat", Text, false),
        row(10, c"GeoIP Netspeed Edition", "GeoIPNetSpeed.dat", Number, false),
        row(11, c"GeoIP Domain Name Edition", "GeoIPDomain.dat", Text, false),
        row(12, c"GeoIP Country V6 Edition", "GeoIPv6.dat", Number, true),
        row(13, c"GeoIP LocationID ASCII Edition", "GeoIPLocA.dat", Text, false),
        row(14, c"GeoIP Accuracy Radius Edition", "GeoIPDistance.dat", Text, false),
        row(17, c"GeoIP Large Country Edition", "GeoIP.dat", Number, false),
        row(18, c"GeoIP Large Country V6 Edition", "GeoIPv6.dat", Number, true),
        name_only(20, c"GeoIP CCM Edition"),
        row(21, c"GeoIP ASNum V6 Edition", "GeoIPASNumv6.dat", Text, true),
        row(22, c"GeoIP ISP V6 Edition", "GeoIPISPv6.dat", Text, true),
        row(23, c"GeoIP Organization V6 Edition", "GeoIPOrgv6.dat", Text, true),
        row(24, c"GeoIP Domain Name V6 Edition", "GeoIPDomainv6.dat", Text, true),
        row(25, c"GeoIP LocationID ASCII V6 Edition", "GeoIPLocAv6.dat", Text, true),
        row(26, c"GeoIP Registrar Edition", "GeoIPRegistrar.dat", Text, false),
        row(27, c"GeoIP Registrar V6 Edition", "GeoIPRegistrarv6.dat", Text, true),
        row(28, c"GeoIP UserType Edition", "GeoIPUserType.dat", Text, false),
        row(29, c"GeoIP UserType V6 Edition", "GeoIPUserTypev6.dat", Text, true),
        row(30, c"GeoIP City Edition V6, Rev 1", "GeoIPCityv6.dat", City, true),
        row(31, c"GeoIP City Edition V6, Rev 0", "GeoIPCityv6.dat", City, true),
        row(32, c"GeoIP Netspeed Edition, Rev 1", "GeoIPNetSpeedCell.dat", Text, false),
        row(33, c"GeoIP Netspeed Edition V6, Rev1", "GeoIPNetSpeedCellv6.dat", Text, true),
        row(34, c"GeoIP Country Confidence Edition", "GeoIPCountryConf.dat", Text, false),
        row(35, c"GeoIP City Confidence Edition", "GeoIPCityConf.dat", Text, false),
        row(36, c"GeoIP Region Confidence Edition", "GeoIPRegionConf.dat", Text, false),
        row(37, c"GeoIP Postal Confidence Edition", "GeoIPPostalConf.dat", Text, false),
        row(38, c"GeoIP Accuracy Radius Edition V6", "GeoIPDistancev6.dat", Text, true),
    ]
};

/// The edition of a number that has a name.
pub(crate) fn named(number: u8) -> Option<&'static Edition> {
    EDITIONS.iter().find(|edition| edition.number == number)
}

/// The edition of a number whose files are opened.
pub(crate) fn read(number: u8) -> Option<&'static Edition> {
    named(number).filter(|edition| edition.is_read)
}

impl Edition {
    /// Whether records are behind the tree, and the number of nodes behind the edition's number.
    pub(crate) fn has_offsets(&self) -> bool {
        self.base.is_none()
    }

    pub(crate) fn node_bytes(&self) -> u64 {
        2 * u64::from(self.record_bytes)
    }

    /// Whether records of cities have metro and area codes in the United States.
    pub(crate) fn has_metro_codes(&self) -> bool {
        matches!(self.number, CITY_REV1 | CITY_REV1_V6)
    }
}
