//! Countries by number: the data objects that programs link with, and the functions over them.
//!
//! Not for lookups. Numbers, codes, names and continents are those of the format: a number is the
//! index of a row, 0 means "not found". Codes are of ISO 3166 but for `AP`, `EU`, `A1`, `A2` and
//! `O1`, which have no third letter. `whered-mmdb` has the same numbers for its reader; a test
//! compares both.
//!
//! The objects have the original's exact sizes: programs hold copies of them (COPY relocations).
#![allow(
    clippy::indexing_slicing,
    reason = "tables are made when the library is compiled; functions use get"
)]

use crate::abi::{CHARSET_UTF8, GeoIP};
use crate::handle::Handle;
use crate::status::guarded;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::ptr::null;

/// How many countries there are, 0 included.
pub(crate) const COUNT: usize = 256;

/// A table that programs read.
#[repr(transparent)]
pub(crate) struct Table<T>(pub(crate) T);

#[allow(unsafe_code, reason = "tables of constant strings")]
// SAFETY: the tables are constant, and so are the strings that they lead to.
unsafe impl<T> Sync for Table<T> {}

struct Row {
    code: [u8; 2],
    code3: [u8; 3],
    continent: [u8; 2],
    name: &'static CStr,
}

/// A row; codes without a third letter end before it.
const fn row<const LETTERS: usize>(
    code: &[u8; 2],
    code3: &[u8; LETTERS],
    continent: &[u8; 2],
    name: &'static CStr,
) -> Row {
    let mut letters = [0; 3];
    let mut position = 0;
    while position < LETTERS {
        letters[position] = code3[position];
        position += 1;
    }
    Row { code: *code, code3: letters, continent: *continent, name }
}

/// A string of a constant width, and its zero byte.
const fn padded<const WIDTH: usize>(letters: &[u8]) -> [c_char; WIDTH] {
    let mut text = [0; WIDTH];
    let mut position = 0;
    while position < letters.len() {
        text[position] = letters[position] as c_char;
        position += 1;
    }
    text
}

macro_rules! table {
    ($start:expr, $row:ident => $item:expr) => {{
        let mut table = [$start; COUNT];
        let mut number = 0;
        while number < COUNT {
            let $row = &ROWS[number];
            table[number] = $item;
            number += 1;
        }
        table
    }};
}

/// Two letters by number.
#[unsafe(no_mangle)]
pub(crate) static GeoIP_country_code: [[c_char; 3]; COUNT] =
    table!([0; 3], row => padded(&row.code));

/// Three letters by number.
#[unsafe(no_mangle)]
pub(crate) static GeoIP_country_code3: [[c_char; 4]; COUNT] =
    table!([0; 4], row => padded(&row.code3));

/// The continent's two letters by number.
#[unsafe(no_mangle)]
pub(crate) static GeoIP_country_continent: [[c_char; 3]; COUNT] =
    table!([0; 3], row => padded(&row.continent));

/// English names by number, in ISO 8859-1.
#[unsafe(no_mangle)]
pub(crate) static GeoIP_country_name: Table<[*const c_char; COUNT]> =
    Table(table!(null(), row => row.name.as_ptr()));

/// English names by number, in UTF-8.
#[unsafe(no_mangle)]
pub(crate) static GeoIP_utf8_country_name: Table<[*const c_char; COUNT]> = {
    let mut table = table!(null(), row => row.name.as_ptr());
    table[CURACAO] = c"Curaçao".as_ptr();
    Table(table)
};

/// The one country whose name differs between the charsets.
const CURACAO: usize = 10;

static ROWS: [Row; COUNT] = [
    row(b"--", b"--", b"--", c"N/A"),
    row(b"AP", b"AP", b"AS", c"Asia/Pacific Region"),
    row(b"EU", b"EU", b"EU", c"Europe"),
    row(b"AD", b"AND", b"EU", c"Andorra"),
    row(b"AE", b"ARE", b"AS", c"United Arab Emirates"),
    row(b"AF", b"AFG", b"AS", c"Afghanistan"),
    row(b"AG", b"ATG", b"NA", c"Antigua and Barbuda"),
    row(b"AI", b"AIA", b"NA", c"Anguilla"),
    row(b"AL", b"ALB", b"EU", c"Albania"),
    row(b"AM", b"ARM", b"AS", c"Armenia"),
    row(b"CW", b"CUW", b"NA", c"Curacao"),
    row(b"AO", b"AGO", b"AF", c"Angola"),
    row(b"AQ", b"ATA", b"AN", c"Antarctica"),
    row(b"AR", b"ARG", b"SA", c"Argentina"),
    row(b"AS", b"ASM", b"OC", c"American Samoa"),
    row(b"AT", b"AUT", b"EU", c"Austria"),
    row(b"AU", b"AUS", b"OC", c"Australia"),
    row(b"AW", b"ABW", b"NA", c"Aruba"),
    row(b"AZ", b"AZE", b"AS", c"Azerbaijan"),
    row(b"BA", b"BIH", b"EU", c"Bosnia and Herzegovina"),
    row(b"BB", b"BRB", b"NA", c"Barbados"),
    row(b"BD", b"BGD", b"AS", c"Bangladesh"),
    row(b"BE", b"BEL", b"EU", c"Belgium"),
    row(b"BF", b"BFA", b"AF", c"Burkina Faso"),
    row(b"BG", b"BGR", b"EU", c"Bulgaria"),
    row(b"BH", b"BHR", b"AS", c"Bahrain"),
    row(b"BI", b"BDI", b"AF", c"Burundi"),
    row(b"BJ", b"BEN", b"AF", c"Benin"),
    row(b"BM", b"BMU", b"NA", c"Bermuda"),
    row(b"BN", b"BRN", b"AS", c"Brunei Darussalam"),
    row(b"BO", b"BOL", b"SA", c"Bolivia"),
    row(b"BR", b"BRA", b"SA", c"Brazil"),
    row(b"BS", b"BHS", b"NA", c"Bahamas"),
    row(b"BT", b"BTN", b"AS", c"Bhutan"),
    row(b"BV", b"BVT", b"AN", c"Bouvet Island"),
    row(b"BW", b"BWA", b"AF", c"Botswana"),
    row(b"BY", b"BLR", b"EU", c"Belarus"),
    row(b"BZ", b"BLZ", b"NA", c"Belize"),
    row(b"CA", b"CAN", b"NA", c"Canada"),
    row(b"CC", b"CCK", b"AS", c"Cocos (Keeling) Islands"),
    row(b"CD", b"COD", b"AF", c"Congo, The Democratic Republic of the"),
    row(b"CF", b"CAF", b"AF", c"Central African Republic"),
    row(b"CG", b"COG", b"AF", c"Congo"),
    row(b"CH", b"CHE", b"EU", c"Switzerland"),
    row(b"CI", b"CIV", b"AF", c"Cote D'Ivoire"),
    row(b"CK", b"COK", b"OC", c"Cook Islands"),
    row(b"CL", b"CHL", b"SA", c"Chile"),
    row(b"CM", b"CMR", b"AF", c"Cameroon"),
    row(b"CN", b"CHN", b"AS", c"China"),
    row(b"CO", b"COL", b"SA", c"Colombia"),
    row(b"CR", b"CRI", b"NA", c"Costa Rica"),
    row(b"CU", b"CUB", b"NA", c"Cuba"),
    row(b"CV", b"CPV", b"AF", c"Cape Verde"),
    row(b"CX", b"CXR", b"AS", c"Christmas Island"),
    row(b"CY", b"CYP", b"AS", c"Cyprus"),
    row(b"CZ", b"CZE", b"EU", c"Czech Republic"),
    row(b"DE", b"DEU", b"EU", c"Germany"),
    row(b"DJ", b"DJI", b"AF", c"Djibouti"),
    row(b"DK", b"DNK", b"EU", c"Denmark"),
    row(b"DM", b"DMA", b"NA", c"Dominica"),
    row(b"DO", b"DOM", b"NA", c"Dominican Republic"),
    row(b"DZ", b"DZA", b"AF", c"Algeria"),
    row(b"EC", b"ECU", b"SA", c"Ecuador"),
    row(b"EE", b"EST", b"EU", c"Estonia"),
    row(b"EG", b"EGY", b"AF", c"Egypt"),
    row(b"EH", b"ESH", b"AF", c"Western Sahara"),
    row(b"ER", b"ERI", b"AF", c"Eritrea"),
    row(b"ES", b"ESP", b"EU", c"Spain"),
    row(b"ET", b"ETH", b"AF", c"Ethiopia"),
    row(b"FI", b"FIN", b"EU", c"Finland"),
    row(b"FJ", b"FJI", b"OC", c"Fiji"),
    row(b"FK", b"FLK", b"SA", c"Falkland Islands (Malvinas)"),
    row(b"FM", b"FSM", b"OC", c"Micronesia, Federated States of"),
    row(b"FO", b"FRO", b"EU", c"Faroe Islands"),
    row(b"FR", b"FRA", b"EU", c"France"),
    row(b"SX", b"SXM", b"NA", c"Sint Maarten (Dutch part)"),
    row(b"GA", b"GAB", b"AF", c"Gabon"),
    row(b"GB", b"GBR", b"EU", c"United Kingdom"),
    row(b"GD", b"GRD", b"NA", c"Grenada"),
    row(b"GE", b"GEO", b"AS", c"Georgia"),
    row(b"GF", b"GUF", b"SA", c"French Guiana"),
    row(b"GH", b"GHA", b"AF", c"Ghana"),
    row(b"GI", b"GIB", b"EU", c"Gibraltar"),
    row(b"GL", b"GRL", b"NA", c"Greenland"),
    row(b"GM", b"GMB", b"AF", c"Gambia"),
    row(b"GN", b"GIN", b"AF", c"Guinea"),
    row(b"GP", b"GLP", b"NA", c"Guadeloupe"),
    row(b"GQ", b"GNQ", b"AF", c"Equatorial Guinea"),
    row(b"GR", b"GRC", b"EU", c"Greece"),
    row(b"GS", b"SGS", b"AN", c"South Georgia and the South Sandwich Islands"),
    row(b"GT", b"GTM", b"NA", c"Guatemala"),
    row(b"GU", b"GUM", b"OC", c"Guam"),
    row(b"GW", b"GNB", b"AF", c"Guinea-Bissau"),
    row(b"GY", b"GUY", b"SA", c"Guyana"),
    row(b"HK", b"HKG", b"AS", c"Hong Kong"),
    row(b"HM", b"HMD", b"AN", c"Heard Island and McDonald Islands"),
    row(b"HN", b"HND", b"NA", c"Honduras"),
    row(b"HR", b"HRV", b"EU", c"Croatia"),
    row(b"HT", b"HTI", b"NA", c"Haiti"),
    row(b"HU", b"HUN", b"EU", c"Hungary"),
    row(b"ID", b"IDN", b"AS", c"Indonesia"),
    row(b"IE", b"IRL", b"EU", c"Ireland"),
    row(b"IL", b"ISR", b"AS", c"Israel"),
    row(b"IN", b"IND", b"AS", c"India"),
    row(b"IO", b"IOT", b"AS", c"British Indian Ocean Territory"),
    row(b"IQ", b"IRQ", b"AS", c"Iraq"),
    row(b"IR", b"IRN", b"AS", c"Iran, Islamic Republic of"),
    row(b"IS", b"ISL", b"EU", c"Iceland"),
    row(b"IT", b"ITA", b"EU", c"Italy"),
    row(b"JM", b"JAM", b"NA", c"Jamaica"),
    row(b"JO", b"JOR", b"AS", c"Jordan"),
    row(b"JP", b"JPN", b"AS", c"Japan"),
    row(b"KE", b"KEN", b"AF", c"Kenya"),
    row(b"KG", b"KGZ", b"AS", c"Kyrgyzstan"),
    row(b"KH", b"KHM", b"AS", c"Cambodia"),
    row(b"KI", b"KIR", b"OC", c"Kiribati"),
    row(b"KM", b"COM", b"AF", c"Comoros"),
    row(b"KN", b"KNA", b"NA", c"Saint Kitts and Nevis"),
    row(b"KP", b"PRK", b"AS", c"Korea, Democratic People's Republic of"),
    row(b"KR", b"KOR", b"AS", c"Korea, Republic of"),
    row(b"KW", b"KWT", b"AS", c"Kuwait"),
    row(b"KY", b"CYM", b"NA", c"Cayman Islands"),
    row(b"KZ", b"KAZ", b"AS", c"Kazakhstan"),
    row(b"LA", b"LAO", b"AS", c"Lao People's Democratic Republic"),
    row(b"LB", b"LBN", b"AS", c"Lebanon"),
    row(b"LC", b"LCA", b"NA", c"Saint Lucia"),
    row(b"LI", b"LIE", b"EU", c"Liechtenstein"),
    row(b"LK", b"LKA", b"AS", c"Sri Lanka"),
    row(b"LR", b"LBR", b"AF", c"Liberia"),
    row(b"LS", b"LSO", b"AF", c"Lesotho"),
    row(b"LT", b"LTU", b"EU", c"Lithuania"),
    row(b"LU", b"LUX", b"EU", c"Luxembourg"),
    row(b"LV", b"LVA", b"EU", c"Latvia"),
    row(b"LY", b"LBY", b"AF", c"Libya"),
    row(b"MA", b"MAR", b"AF", c"Morocco"),
    row(b"MC", b"MCO", b"EU", c"Monaco"),
    row(b"MD", b"MDA", b"EU", c"Moldova, Republic of"),
    row(b"MG", b"MDG", b"AF", c"Madagascar"),
    row(b"MH", b"MHL", b"OC", c"Marshall Islands"),
    row(b"MK", b"MKD", b"EU", c"Macedonia"),
    row(b"ML", b"MLI", b"AF", c"Mali"),
    row(b"MM", b"MMR", b"AS", c"Myanmar"),
    row(b"MN", b"MNG", b"AS", c"Mongolia"),
    row(b"MO", b"MAC", b"AS", c"Macau"),
    row(b"MP", b"MNP", b"OC", c"Northern Mariana Islands"),
    row(b"MQ", b"MTQ", b"NA", c"Martinique"),
    row(b"MR", b"MRT", b"AF", c"Mauritania"),
    row(b"MS", b"MSR", b"NA", c"Montserrat"),
    row(b"MT", b"MLT", b"EU", c"Malta"),
    row(b"MU", b"MUS", b"AF", c"Mauritius"),
    row(b"MV", b"MDV", b"AS", c"Maldives"),
    row(b"MW", b"MWI", b"AF", c"Malawi"),
    row(b"MX", b"MEX", b"NA", c"Mexico"),
    row(b"MY", b"MYS", b"AS", c"Malaysia"),
    row(b"MZ", b"MOZ", b"AF", c"Mozambique"),
    row(b"NA", b"NAM", b"AF", c"Namibia"),
    row(b"NC", b"NCL", b"OC", c"New Caledonia"),
    row(b"NE", b"NER", b"AF", c"Niger"),
    row(b"NF", b"NFK", b"OC", c"Norfolk Island"),
    row(b"NG", b"NGA", b"AF", c"Nigeria"),
    row(b"NI", b"NIC", b"NA", c"Nicaragua"),
    row(b"NL", b"NLD", b"EU", c"Netherlands"),
    row(b"NO", b"NOR", b"EU", c"Norway"),
    row(b"NP", b"NPL", b"AS", c"Nepal"),
    row(b"NR", b"NRU", b"OC", c"Nauru"),
    row(b"NU", b"NIU", b"OC", c"Niue"),
    row(b"NZ", b"NZL", b"OC", c"New Zealand"),
    row(b"OM", b"OMN", b"AS", c"Oman"),
    row(b"PA", b"PAN", b"NA", c"Panama"),
    row(b"PE", b"PER", b"SA", c"Peru"),
    row(b"PF", b"PYF", b"OC", c"French Polynesia"),
    row(b"PG", b"PNG", b"OC", c"Papua New Guinea"),
    row(b"PH", b"PHL", b"AS", c"Philippines"),
    row(b"PK", b"PAK", b"AS", c"Pakistan"),
    row(b"PL", b"POL", b"EU", c"Poland"),
    row(b"PM", b"SPM", b"NA", c"Saint Pierre and Miquelon"),
    row(b"PN", b"PCN", b"OC", c"Pitcairn Islands"),
    row(b"PR", b"PRI", b"NA", c"Puerto Rico"),
    row(b"PS", b"PSE", b"AS", c"Palestinian Territory"),
    row(b"PT", b"PRT", b"EU", c"Portugal"),
    row(b"PW", b"PLW", b"OC", c"Palau"),
    row(b"PY", b"PRY", b"SA", c"Paraguay"),
    row(b"QA", b"QAT", b"AS", c"Qatar"),
    row(b"RE", b"REU", b"AF", c"Reunion"),
    row(b"RO", b"ROU", b"EU", c"Romania"),
    row(b"RU", b"RUS", b"EU", c"Russian Federation"),
    row(b"RW", b"RWA", b"AF", c"Rwanda"),
    row(b"SA", b"SAU", b"AS", c"Saudi Arabia"),
    row(b"SB", b"SLB", b"OC", c"Solomon Islands"),
    row(b"SC", b"SYC", b"AF", c"Seychelles"),
    row(b"SD", b"SDN", b"AF", c"Sudan"),
    row(b"SE", b"SWE", b"EU", c"Sweden"),
    row(b"SG", b"SGP", b"AS", c"Singapore"),
    row(b"SH", b"SHN", b"AF", c"Saint Helena"),
    row(b"SI", b"SVN", b"EU", c"Slovenia"),
    row(b"SJ", b"SJM", b"EU", c"Svalbard and Jan Mayen"),
    row(b"SK", b"SVK", b"EU", c"Slovakia"),
    row(b"SL", b"SLE", b"AF", c"Sierra Leone"),
    row(b"SM", b"SMR", b"EU", c"San Marino"),
    row(b"SN", b"SEN", b"AF", c"Senegal"),
    row(b"SO", b"SOM", b"AF", c"Somalia"),
    row(b"SR", b"SUR", b"SA", c"Suriname"),
    row(b"ST", b"STP", b"AF", c"Sao Tome and Principe"),
    row(b"SV", b"SLV", b"NA", c"El Salvador"),
    row(b"SY", b"SYR", b"AS", c"Syrian Arab Republic"),
    row(b"SZ", b"SWZ", b"AF", c"Swaziland"),
    row(b"TC", b"TCA", b"NA", c"Turks and Caicos Islands"),
    row(b"TD", b"TCD", b"AF", c"Chad"),
    row(b"TF", b"ATF", b"AN", c"French Southern Territories"),
    row(b"TG", b"TGO", b"AF", c"Togo"),
    row(b"TH", b"THA", b"AS", c"Thailand"),
    row(b"TJ", b"TJK", b"AS", c"Tajikistan"),
    row(b"TK", b"TKL", b"OC", c"Tokelau"),
    row(b"TM", b"TKM", b"AS", c"Turkmenistan"),
    row(b"TN", b"TUN", b"AF", c"Tunisia"),
    row(b"TO", b"TON", b"OC", c"Tonga"),
    row(b"TL", b"TLS", b"AS", c"Timor-Leste"),
    row(b"TR", b"TUR", b"EU", c"Turkey"),
    row(b"TT", b"TTO", b"NA", c"Trinidad and Tobago"),
    row(b"TV", b"TUV", b"OC", c"Tuvalu"),
    row(b"TW", b"TWN", b"AS", c"Taiwan"),
    row(b"TZ", b"TZA", b"AF", c"Tanzania, United Republic of"),
    row(b"UA", b"UKR", b"EU", c"Ukraine"),
    row(b"UG", b"UGA", b"AF", c"Uganda"),
    row(b"UM", b"UMI", b"OC", c"United States Minor Outlying Islands"),
    row(b"US", b"USA", b"NA", c"United States"),
    row(b"UY", b"URY", b"SA", c"Uruguay"),
    row(b"UZ", b"UZB", b"AS", c"Uzbekistan"),
    row(b"VA", b"VAT", b"EU", c"Holy See (Vatican City State)"),
    row(b"VC", b"VCT", b"NA", c"Saint Vincent and the Grenadines"),
    row(b"VE", b"VEN", b"SA", c"Venezuela"),
    row(b"VG", b"VGB", b"NA", c"Virgin Islands, British"),
    row(b"VI", b"VIR", b"NA", c"Virgin Islands, U.S."),
    row(b"VN", b"VNM", b"AS", c"Vietnam"),
    row(b"VU", b"VUT", b"OC", c"Vanuatu"),
    row(b"WF", b"WLF", b"OC", c"Wallis and Futuna"),
    row(b"WS", b"WSM", b"OC", c"Samoa"),
    row(b"YE", b"YEM", b"AS", c"Yemen"),
    row(b"YT", b"MYT", b"AF", c"Mayotte"),
    row(b"RS", b"SRB", b"EU", c"Serbia"),
    row(b"ZA", b"ZAF", b"AF", c"South Africa"),
    row(b"ZM", b"ZMB", b"AF", c"Zambia"),
    row(b"ME", b"MNE", b"EU", c"Montenegro"),
    row(b"ZW", b"ZWE", b"AF", c"Zimbabwe"),
    row(b"A1", b"A1", b"--", c"Anonymous Proxy"),
    row(b"A2", b"A2", b"--", c"Satellite Provider"),
    row(b"O1", b"O1", b"--", c"Other"),
    row(b"AX", b"ALA", b"EU", c"Aland Islands"),
    row(b"GG", b"GGY", b"EU", c"Guernsey"),
    row(b"IM", b"IMN", b"EU", c"Isle of Man"),
    row(b"JE", b"JEY", b"EU", c"Jersey"),
    row(b"BL", b"BLM", b"NA", c"Saint Barthelemy"),
    row(b"MF", b"MAF", b"NA", c"Saint Martin"),
    row(b"BQ", b"BES", b"NA", c"Bonaire, Saint Eustatius and Saba"),
    row(b"SS", b"SSD", b"AF", c"South Sudan"),
    row(b"O1", b"O1", b"--", c"Other"),
];

/// The index of a number that countries have.
fn index(number: c_int) -> Option<usize> {
    usize::try_from(number).ok().filter(|&index| index < COUNT)
}

pub(crate) fn code(number: c_int) -> *const c_char {
    index(number).and_then(|index| GeoIP_country_code.get(index)).map_or(null(), |it| it.as_ptr())
}

pub(crate) fn code3(number: c_int) -> *const c_char {
    index(number).and_then(|index| GeoIP_country_code3.get(index)).map_or(null(), |it| it.as_ptr())
}

pub(crate) fn continent(number: c_int) -> *const c_char {
    let row = index(number).and_then(|index| GeoIP_country_continent.get(index));
    row.map_or(null(), |it| it.as_ptr())
}

/// The name in a handle's charset; null for 0, as for what is no country.
pub(crate) fn name(number: c_int, charset: c_int) -> *const c_char {
    let names = match charset {
        CHARSET_UTF8 => &GeoIP_utf8_country_name,
        _ => &GeoIP_country_name,
    };
    let found = index(number).filter(|&index| index > 0).and_then(|index| names.0.get(index));
    found.copied().unwrap_or(null())
}

/// The number of a code; 0 if no country has it.
pub(crate) fn number(code: &[u8]) -> u8 {
    let found = ROWS.iter().position(|row| row.code == code);
    found.and_then(|number| u8::try_from(number).ok()).unwrap_or(0)
}

/// The two letters of a number.
pub(crate) fn letters(number: u8) -> [u8; 2] {
    ROWS.get(usize::from(number)).map_or(*b"--", |row| row.code)
}

/// Two letters, or null for a number that no country has.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GeoIP_code_by_id(id: c_int) -> *const c_char {
    code(id)
}

/// Three letters, or null for a number that no country has.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GeoIP_code3_by_id(id: c_int) -> *const c_char {
    code3(id)
}

/// The continent's letters, or null for a number that no country has.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GeoIP_continent_by_id(id: c_int) -> *const c_char {
    continent(id)
}

/// The English name in ISO 8859-1, or null for a number that no country has.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GeoIP_name_by_id(id: c_int) -> *const c_char {
    let found = index(id).and_then(|index| GeoIP_country_name.0.get(index));
    found.copied().unwrap_or(null())
}

/// The English name in the handle's charset, or null for 0 and for what no country has.
///
/// # Safety
///
/// `gi` is an open handle or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_country_name_by_id(
    gi: *mut GeoIP,
    id: c_int,
) -> *const c_char {
    // SAFETY: the caller keeps the contract above.
    let charset = unsafe { Handle::of(gi) }.map_or(0, Handle::charset);
    name(id, charset)
}

/// The number of a code, or 0.
///
/// # Safety
///
/// `country` is a C string or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn GeoIP_id_by_code(country: *const c_char) -> c_int {
    guarded(
        || 0,
        || match country.is_null() {
            true => 0,
            // SAFETY: the caller keeps the contract above.
            false => c_int::from(number(unsafe { CStr::from_ptr(country) }.to_bytes())),
        },
    )
}

/// How many countries there are, 0 included.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn GeoIP_num_countries() -> c_uint {
    COUNT as c_uint
}
