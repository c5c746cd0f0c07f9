//! Tables that are known by name: what their columns are, though they have no header.
//!
//! Not for tables with a header. A layout is a list of columns as a user could give it, with the
//! texts that stand for a missing value, and the names of files that have it. Field paths are
//! those of MaxMind's databases, so that `country.iso_code` is everywhere.

use super::table::Row;

/// A table without a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Its name, as `--input-format` takes it.
    pub name: &'static str,
    /// The names of its columns.
    pub(super) columns: String,
    /// What stands for a missing value.
    pub(super) missing: &'static [&'static str],
    /// Whether a row without any value is no network.
    pub(super) skips_empty: bool,
    /// Whether rows may lack cells at their end.
    pub(super) is_short: bool,
}

/// The columns of the layouts, but for those of IP2Location's numbered files.
const LAYOUTS: &[(&str, &str, &[&str])] = &[
    ("dbip-country", "start_ip,end_ip,country.iso_code:string", &["ZZ"]),
    (
        "dbip-city",
        "start_ip,end_ip,continent.code:string,country.iso_code:string,\
         subdivisions.0.names.en:string,city.names.en:string,location.latitude:double,\
         location.longitude:double",
        &["ZZ"],
    ),
    (
        "dbip-asn",
        "start_ip,end_ip,autonomous_system_number:uint32,autonomous_system_organization:string",
        &[],
    ),
    (
        "ip2location-asn",
        "start_ip,end_ip,-,autonomous_system_number:uint32,autonomous_system_organization:string",
        &["-"],
    ),
    (
        "iptoasn",
        "start_ip,end_ip,autonomous_system_number:uint32,country.iso_code:string,\
         autonomous_system_organization:string",
        &["0", "None", "Not routed", "Unknown"],
    ),
    ("iptocountry", "start_ip,end_ip,country.iso_code:string", &["None", "Unknown"]),
    ("ip-location-country", "start_ip,end_ip,country.iso_code:string", &[]),
    (
        "ip-location-asn",
        "start_ip,end_ip,autonomous_system_number:uint32,autonomous_system_organization:string",
        &[],
    ),
    (
        "ip-location-city",
        "start_ip,end_ip,country.iso_code:string,subdivisions.0.names.en:string,\
         subdivisions.1.names.en:string,city.names.en:string,postal.code:string,\
         location.latitude:double,location.longitude:double,location.time_zone:string",
        &[],
    ),
    (
        "geoip-country-whois",
        "start_ip,end_ip,-,-,country.iso_code:string,country.names.en:string",
        &[],
    ),
    // The registries' statistics, which `delegated` reads.
    ("delegated", "-", &[]),
    (
        "geofeed",
        "network,country.iso_code:string,subdivisions.0.iso_code:string,city.names.en:string,\
         postal.code:string",
        &[],
    ),
];

/// What IP2Location's numbered files hold behind the two addresses and the country, in the order
/// of the columns, and which of DB3 to DB26 have it.
const IP2LOCATION: &[(&str, &[u8])] = &[
    (
        "subdivisions.0.names.en:string",
        &[3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26],
    ),
    (
        "city.names.en:string",
        &[3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26],
    ),
    (
        "location.latitude:double",
        &[5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26],
    ),
    (
        "location.longitude:double",
        &[5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26],
    ),
    ("postal.code:string", &[9, 10, 11, 12, 14, 15, 16, 18, 20, 21, 22, 24, 25, 26]),
    ("location.utc_offset:string", &[11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22, 24, 25, 26]),
    ("isp:string", &[2, 4, 6, 7, 8, 10, 12, 14, 16, 18, 19, 20, 22, 23, 24, 25, 26]),
    ("domain:string", &[7, 8, 10, 12, 14, 16, 18, 19, 20, 22, 23, 24, 25, 26]),
    ("connection_type:string", &[13, 14, 16, 17, 18, 20, 22, 24, 25, 26]),
    ("idd_code:string", &[15, 16, 18, 20, 21, 22, 24, 25, 26]),
    ("area_code:string", &[15, 16, 18, 20, 21, 22, 24, 25, 26]),
    ("weather_station.code:string", &[17, 18, 20, 22, 24, 25, 26]),
    ("weather_station.name:string", &[17, 18, 20, 22, 24, 25, 26]),
    ("mobile.mcc:string", &[19, 20, 22, 23, 24, 25, 26]),
    ("mobile.mnc:string", &[19, 20, 22, 23, 24, 25, 26]),
    ("mobile.brand:string", &[19, 20, 22, 23, 24, 25, 26]),
    ("location.elevation:double", &[21, 22, 24, 25, 26]),
    ("user_type:string", &[23, 24, 25, 26]),
    ("address_type:string", &[25, 26]),
    ("category:string", &[25, 26]),
    ("district:string", &[26]),
    ("autonomous_system_number:uint32", &[26]),
    ("autonomous_system_organization:string", &[26]),
    ("autonomous_system_domain:string", &[26]),
    ("autonomous_system_user_type:string", &[26]),
    ("autonomous_system_network:string", &[26]),
];

/// What IP2Proxy's numbered files hold behind the two addresses, in the order of the columns, and
/// the first of PX1 to PX12 that has it.
const IP2PROXY: &[(&str, u8)] = &[
    ("proxy_type:string", 2),
    ("country.iso_code:string", 1),
    ("country.names.en:string", 1),
    ("subdivisions.0.names.en:string", 3),
    ("city.names.en:string", 3),
    ("isp:string", 4),
    ("domain:string", 5),
    ("user_type:string", 6),
    ("autonomous_system_number:uint32", 7),
    ("autonomous_system_organization:string", 7),
    ("last_seen_days:uint32", 8),
    ("threat:string", 9),
    ("provider:string", 11),
    ("fraud_score:uint32", 12),
];

impl Layout {
    /// The names of all layouts.
    #[must_use]
    pub fn names() -> Vec<String> {
        let named = LAYOUTS.iter().map(|(name, ..)| (*name).to_string());
        let numbered = ["ip2location-db1 to ip2location-db26", "ip2proxy-px1 to ip2proxy-px12"];
        named.chain(numbered.map(str::to_string)).collect()
    }

    /// A layout by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Layout> {
        if let Some(number) = name.strip_prefix("ip2location-db") {
            return Layout::ip2location(number.parse().ok()?);
        }
        if let Some(number) = name.strip_prefix("ip2proxy-px") {
            return Layout::ip2proxy(number.parse().ok()?);
        }
        let &(name, columns, missing) = LAYOUTS.iter().find(|(other, ..)| *other == name)?;
        let is_geofeed = name == "geofeed";
        Some(Layout {
            name,
            columns: columns.to_string(),
            missing,
            skips_empty: true,
            is_short: is_geofeed,
        })
    }

    fn ip2location(number: u8) -> Option<Layout> {
        if !(1..=26).contains(&number) {
            return None;
        }
        let mut columns =
            "start_ip,end_ip,country.iso_code:string,country.names.en:string".to_string();
        for (name, _) in IP2LOCATION.iter().filter(|(_, numbers)| numbers.contains(&number)) {
            columns.push(',');
            columns.push_str(name);
        }
        let name = "ip2location";
        Some(Layout { name, columns, missing: &["-"], skips_empty: true, is_short: false })
    }

    fn ip2proxy(number: u8) -> Option<Layout> {
        if !(1..=12).contains(&number) {
            return None;
        }
        let columns = IP2PROXY.iter().filter(|(_, first)| *first <= number);
        let columns = columns.map(|(name, _)| *name).collect::<Vec<_>>().join(",");
        let columns = format!("start_ip,end_ip,{columns}");
        let name = "ip2proxy";
        Some(Layout { name, columns, missing: &["-"], skips_empty: true, is_short: false })
    }

    /// The layout that files of this name have.
    #[must_use]
    pub fn of_file(name: &str) -> Option<Layout> {
        let name = name.to_ascii_lowercase();
        let stem = name.split('.').next().unwrap_or_default();
        let has = |part: &str| stem.contains(part);
        if has("ip2proxy") {
            let number = stem.split("-px").nth(1)?;
            let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
            return Layout::from_name(&format!("ip2proxy-px{digits}"));
        }
        if has("ip2location") {
            if has("-asn") {
                return Layout::from_name("ip2location-asn");
            }
            let number = stem.split("-db").nth(1)?;
            let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
            return Layout::from_name(&format!("ip2location-db{digits}"));
        }
        let is_location = has("-ipv4") || has("-ipv6");
        let found = match () {
            () if has("dbip-country-lite") => "dbip-country",
            () if has("dbip-city-lite") => "dbip-city",
            () if has("dbip-asn-lite") => "dbip-asn",
            () if stem.starts_with("ip2asn-") => "iptoasn",
            () if stem.starts_with("ip2country-") => "iptocountry",
            () if stem == "geoipcountrywhois" => "geoip-country-whois",
            () if has("geofeed") => "geofeed",
            () if is_location && has("-country-ip") => "ip-location-country",
            () if is_location && has("-city-ip") => "ip-location-city",
            () if is_location && (has("-asn-ip") || stem.starts_with("asn-ip")) => {
                "ip-location-asn"
            }
            () => return None,
        };
        Layout::from_name(found)
    }

    /// Whether a row has as many cells as the layout.
    pub(super) fn fits(&self, row: &Row) -> bool {
        let count = self.columns.split(',').count();
        row.len() == count || self.is_short && row.len() < count
    }

    /// The names of the columns.
    pub(super) fn column_names(&self) -> Vec<String> {
        self.columns.split(',').map(str::to_string).collect()
    }
}

/// The code of a subdivision without its country's, as MaxMind's databases have it, and whether
/// the text is a code at all (ISO 3166-2).
pub(super) fn subdivision_code(text: &str) -> Option<&str> {
    let is_code = |code: &str| {
        (1..=3).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    match text.split_once('-') {
        Some((country, code)) => {
            let is_country = country.len() == 2 && country.bytes().all(|b| b.is_ascii_alphabetic());
            (is_country && is_code(code)).then_some(code)
        }
        None => is_code(text).then_some(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_published_files_say_their_layout() {
        for (file, name, columns) in [
            ("IP2LOCATION-LITE-DB1.CSV", "ip2location", 4),
            ("IP2LOCATION-LITE-DB11.IPV6.CSV", "ip2location", 10),
            ("IP2LOCATION-LITE-ASN.CSV", "ip2location-asn", 5),
            ("dbip-country-lite-2026-11.csv.gz", "dbip-country", 3),
            ("dbip-city-lite-2026-11.csv.gz", "dbip-city", 8),
            ("dbip-asn-lite-2026-11.csv", "dbip-asn", 4),
            ("ip2asn-v4.tsv.gz", "iptoasn", 5),
            ("ip2asn-combined.tsv", "iptoasn", 5),
            ("ip2country-v4-u32.tsv", "iptocountry", 3),
            ("geolite2-city-ipv4.csv.gz", "ip-location-city", 10),
            ("asn-ipv6-num.csv", "ip-location-asn", 4),
            ("GeoIPCountryWhois.csv", "geoip-country-whois", 6),
            ("geofeed.csv", "geofeed", 5),
            ("IP2PROXY-LITE-PX1.CSV", "ip2proxy", 4),
            ("IP2PROXY-LITE-PX2.CSV", "ip2proxy", 5),
            ("IP2PROXY-LITE-PX7.IPV6.CSV", "ip2proxy", 12),
            ("IP2PROXY-LITE-PX10.CSV", "ip2proxy", 14),
            ("ip2proxy-lite-px11.csv.gz", "ip2proxy", 15),
            ("IP2PROXY-LITE-PX12.CSV", "ip2proxy", 16),
        ] {
            let layout = Layout::of_file(file).unwrap();
            assert_eq!((layout.name, layout.column_names().len()), (name, columns), "{file}");
        }
        for file in ["rows.csv", "city.csv", "IP2LOCATION-LITE-DB99.CSV", "IP2PROXY-PX13.CSV"] {
            assert_eq!(Layout::of_file(file), None);
        }
    }

    /// The positions are those of IP2Location's own reader, counted from the first column behind
    /// the addresses, where code and name of the country are one.
    #[test]
    fn numbered_layouts_have_the_columns_of_ip2locations_own_reader() {
        let position = |number: u8, name: &str| {
            let names = Layout::ip2location(number).unwrap().column_names();
            names.iter().position(|other| other.starts_with(name)).map_or(0, |at| at - 1)
        };
        let expected: [(&str, [usize; 26]); 5] = [
            ("isp", [0, 3, 0, 5, 0, 7, 5, 7, 0, 8, 0, 9, 0, 9, 0, 9, 0, 9, 7, 9, 0, 9, 7, 9, 9, 9]),
            (
                "location.latitude",
                [0, 0, 0, 0, 5, 5, 0, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5],
            ),
            (
                "domain",
                [
                    0, 0, 0, 0, 0, 0, 6, 8, 0, 9, 0, 10, 0, 10, 0, 10, 0, 10, 8, 10, 0, 10, 8, 10,
                    10, 10,
                ],
            ),
            (
                "postal.code",
                [0, 0, 0, 0, 0, 0, 0, 0, 7, 7, 7, 7, 0, 7, 7, 7, 0, 7, 0, 7, 7, 7, 0, 7, 7, 7],
            ),
            (
                "location.utc_offset",
                [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 7, 8, 8, 8, 7, 8, 0, 8, 8, 8, 0, 8, 8, 8],
            ),
        ];
        for (name, positions) in expected {
            for (number, expected) in (1..).zip(positions) {
                assert_eq!(position(number, name), expected, "{name} of DB{number}");
            }
        }
    }

    #[test]
    fn codes_of_subdivisions_lose_their_countrys() {
        for (text, code) in [
            ("US-AL", Some("AL")),
            ("GB-ENG", Some("ENG")),
            ("07", Some("07")),
            ("Alabama", None),
            ("US-", None),
            ("-", None),
        ] {
            assert_eq!(subdivision_code(text), code, "{text}");
        }
    }
}
