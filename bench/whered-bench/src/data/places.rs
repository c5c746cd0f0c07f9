//! Made-up places: countries, regions, cities and the records that name them.
//!
//! Not for where on the address space they lie. A record is a number; everything it says follows
//! from the seed and the number, so that no table of records is kept.
//!
//! ```text
//! records   | US: country records, city 0, city 0, city 1, ... | CN: ... |
//! country         first .............................. end
//! ```
//!
//! Codes of countries and continents are real, so that programs which check them are content;
//! names and coordinates are not. Countries have shares that fall off as in the real files.

use super::names;
use crate::Random;
use whered_mmdb::Value;

/// ISO 3166 code and continent of each country, together four letters.
const COUNTRIES: &str = "\
ADEU AEAS AFAS AGNA AINA ALEU AMAS CWNA AOAF AQAN ARSA ASOC ATEU AUOC AWNA AZAS BAEU \
BBNA BDAS BEEU BFAF BGEU BHAS BIAF BJAF BMNA BNAS BOSA BRSA BSNA BTAS BVAN BWAF BYEU \
BZNA CANA CCAS CDAF CFAF CGAF CHEU CIAF CKOC CLSA CMAF CNAS COSA CRNA CUNA CVAF CXAS \
CYAS CZEU DEEU DJAF DKEU DMNA DONA DZAF ECSA EEEU EGAF EHAF ERAF ESEU ETAF FIEU FJOC \
FKSA FMOC FOEU FREU SXNA GAAF GBEU GDNA GEAS GFSA GHAF GIEU GLNA GMAF GNAF GPNA GQAF \
GREU GSAN GTNA GUOC GWAF GYSA HKAS HMAN HNNA HREU HTNA HUEU IDAS IEEU ILAS INAS IOAS \
IQAS IRAS ISEU ITEU JMNA JOAS JPAS KEAF KGAS KHAS KIOC KMAF KNNA KPAS KRAS KWAS KYNA \
KZAS LAAS LBAS LCNA LIEU LKAS LRAF LSAF LTEU LUEU LVEU LYAF MAAF MCEU MDEU MGAF MHOC \
MKEU MLAF MMAS MNAS MOAS MPOC MQNA MRAF MSNA MTEU MUAF MVAS MWAF MXNA MYAS MZAF NAAF \
NCOC NEAF NFOC NGAF NINA NLEU NOEU NPAS NROC NUOC NZOC OMAS PANA PESA PFOC PGOC PHAS \
PKAS PLEU PMNA PNOC PRNA PSAS PTEU PWOC PYSA QAAS REAF ROEU RUEU RWAF SAAS SBOC SCAF \
SDAF SEEU SGAS SHAF SIEU SJEU SKEU SLAF SMEU SNAF SOAF SRSA STAF SVNA SYAS SZAF TCNA \
TDAF TFAN TGAF THAS TJAS TKOC TMAS TNAF TOOC TLAS TREU TTNA TVOC TWAS TZAF UAEU UGAF \
UMOC USNA UYSA UZAS VAEU VCNA VESA VGNA VINA VNAS VUOC WFOC WSOC YEAS YTAF RSEU ZAAF \
ZMAF MEEU ZWAF AXEU GGEU IMEU JEEU BLNA MFNA BQNA SSAF";

/// Those with the most addresses come first; the rest follow in the list's order.
const LARGEST: [&str; 24] = [
    "US", "CN", "JP", "DE", "GB", "KR", "BR", "FR", "CA", "IT", "AU", "NL", "RU", "IN", "TW", "ES",
    "SE", "MX", "ZA", "PL", "ID", "VN", "TR", "EG",
];
const EUROPEAN_UNION: &str = "AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT \
                              RO SE SI SK";
const TIME_ZONES: [&str; 16] = [
    "America/New_York",
    "America/Chicago",
    "America/Denver",
    "America/Los_Angeles",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Paris",
    "Asia/Shanghai",
    "Asia/Tokyo",
    "Asia/Kolkata",
    "Australia/Sydney",
    "America/Sao_Paulo",
    "Africa/Johannesburg",
    "Asia/Seoul",
    "Europe/Moscow",
    "Pacific/Auckland",
];
const ACCURACY_RADII_KM: [u16; 9] = [1, 5, 10, 20, 50, 100, 200, 500, 1000];

/// Records of a country that name no city.
pub(super) const COUNTRY_RECORDS: u32 = 4;
/// Neighbouring records that name the same city.
const RECORDS_PER_CITY: u32 = 3;
const CITIES_PER_REGION: u32 = 60;

/// Which stream a thing is made from.
mod kind {
    pub(super) const CONTINENT: u64 = 1;
    pub(super) const COUNTRY: u64 = 2;
    pub(super) const REGION: u64 = 3;
    pub(super) const CITY: u64 = 4;
    pub(super) const RECORD: u64 = 5;
}

/// A country and the numbers of its records.
#[derive(Debug)]
pub(super) struct Country {
    code: &'static str,
    continent: &'static str,
    pub(super) first: u32,
    pub(super) end: u32,
}

/// All places.
#[derive(Debug)]
pub(super) struct Places {
    seed: u64,
    pub(super) countries: Vec<Country>,
    /// For each country the share of all addresses that it and those before it have.
    shares: Vec<f64>,
}

impl Places {
    /// Places with about `record_count` records; a few more where the smallest countries need them.
    pub(super) fn new(seed: u64, record_count: u32) -> Places {
        let mut codes: Vec<(&str, &str)> =
            COUNTRIES.split_whitespace().map(|entry| entry.split_at(2)).collect();
        let rank = |code: &str| LARGEST.iter().position(|large| *large == code);
        codes.sort_by_key(|(code, _)| rank(code).unwrap_or(LARGEST.len()));
        let weights: Vec<f64> = (1..=codes.len())
            .map(|rank| rank as f64)
            .map(|rank| 1.0 / (rank * rank.sqrt()))
            .collect();
        let total: f64 = weights.iter().sum();
        let mut places = Places { seed, countries: Vec::new(), shares: Vec::new() };
        let (mut first, mut share) = (0, 0.0);
        for (&(code, continent), weight) in codes.iter().zip(&weights) {
            share += weight / total;
            let wanted = (weight / total * f64::from(record_count)) as u32;
            let end = first + wanted.max(COUNTRY_RECORDS + 2);
            places.countries.push(Country { code, continent, first, end });
            places.shares.push(share);
            first = end;
        }
        places
    }

    /// How many records there are.
    pub(super) fn record_count(&self) -> u32 {
        self.countries.last().map_or(0, |country| country.end)
    }

    /// A country, the large ones more often.
    pub(super) fn random_country(&self, random: &mut Random) -> u16 {
        let share = random.fraction();
        let place = self.shares.partition_point(|&upto| upto <= share);
        place.min(self.countries.len() - 1) as u16
    }

    /// What a record says.
    pub(super) fn record(&self, number: u32) -> Value {
        let place = self.countries.partition_point(|country| country.end <= number);
        let country = &self.countries[place];
        let mut random = Random::of(self.seed, kind::RECORD, u64::from(number));
        let in_country = number - country.first;
        let city = in_country.checked_sub(COUNTRY_RECORDS).map(|rest| rest / RECORDS_PER_CITY);
        let mut entries = Vec::with_capacity(7);
        let mut add = |name: &str, value: Value| entries.push((name.to_owned(), value));
        if let Some(city) = city {
            add("city", self.city(place, city));
        }
        add("continent", self.continent(country));
        add("country", self.country(place));
        add("location", self.location(place, city, &mut random));
        if city.is_some() && random.chance(0.75) {
            let code = text(&format!("{:05}", 1000 + random.below(98_999)));
            add("postal", map([("code", code)]));
        }
        // A few networks are registered in another country than they are used in.
        let is_elsewhere = in_country > 0 && random.chance(0.06);
        let registered =
            if is_elsewhere { usize::from(self.random_country(&mut random)) } else { place };
        add("registered_country", self.country(registered));
        if let Some(city) = city {
            add("subdivisions", self.subdivisions(place, city / CITIES_PER_REGION));
        }
        Value::Map(entries)
    }

    fn stream(&self, kind: u64, place: usize, number: u32) -> Random {
        Random::of(self.seed, kind, (place as u64) << 32 | u64::from(number))
    }

    fn continent(&self, country: &Country) -> Value {
        let letters = country.continent.bytes().fold(0, |sum, byte| sum << 8 | u64::from(byte));
        let mut random = Random::of(self.seed, kind::CONTINENT, letters);
        map([
            ("code", text(country.continent)),
            ("geoname_id", geoname_id(&mut random)),
            ("names", names::names(true, &mut random)),
        ])
    }

    fn country(&self, place: usize) -> Value {
        let code = self.countries[place].code;
        let mut random = self.stream(kind::COUNTRY, place, 0);
        let mut entries = vec![("geoname_id".to_owned(), geoname_id(&mut random))];
        if EUROPEAN_UNION.split_whitespace().any(|member| member == code) {
            entries.push(("is_in_european_union".to_owned(), Value::Boolean(true)));
        }
        entries.push(("iso_code".to_owned(), text(code)));
        entries.push(("names".to_owned(), names::names(true, &mut random)));
        Value::Map(entries)
    }

    fn city(&self, place: usize, city: u32) -> Value {
        let mut random = self.stream(kind::CITY, place, city);
        let id = geoname_id(&mut random);
        let names = match random.fraction() {
            share if share < 0.55 => names::english_names(&mut random),
            share => names::names(share > 0.75, &mut random),
        };
        map([("geoname_id", id), ("names", names)])
    }

    fn subdivisions(&self, place: usize, region: u32) -> Value {
        let mut random = self.stream(kind::REGION, place, region);
        let code = format!("{}{}", (b'A' + random.below(26) as u8) as char, region % 100);
        let id = geoname_id(&mut random);
        let names = names::names(true, &mut random);
        Value::Array(vec![map([("geoname_id", id), ("iso_code", text(&code)), ("names", names)])])
    }

    /// A city's records lie within some ten kilometres of each other.
    fn location(&self, place: usize, city: Option<u32>, own: &mut Random) -> Value {
        let mut center = self.stream(kind::CITY, place, city.unwrap_or(u32::MAX));
        center.next_u64();
        let mut degrees = |span: f64| {
            let degrees = (center.fraction() - 0.5) * span + (own.fraction() - 0.5) * 0.2;
            (degrees * 10_000.0).round() / 10_000.0
        };
        let (longitude, latitude) = (degrees(350.0), degrees(140.0));
        let zone = TIME_ZONES[(place * 7 + (longitude.abs() / 40.0) as usize) % TIME_ZONES.len()];
        let mut entries = vec![
            ("accuracy_radius".to_owned(), Value::Uint16(*own.pick(&ACCURACY_RADII_KM))),
            ("latitude".to_owned(), Value::Double(latitude)),
            ("longitude".to_owned(), Value::Double(longitude)),
        ];
        if self.countries[place].code == "US" && city.is_some() {
            entries.push(("metro_code".to_owned(), Value::Uint16(500 + own.below(400) as u16)));
        }
        entries.push(("time_zone".to_owned(), text(zone)));
        Value::Map(entries)
    }
}

/// A number as GeoNames gives them: up to seven and eight digits.
fn geoname_id(random: &mut Random) -> Value {
    Value::Uint32(49_000 + random.below(12_000_000) as u32)
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
