"""Runs `c/geoip_drop_in.c`'s program and writes its ratios as `DIR/geoip/MACHINE/DATE.json`.

    geoip.py --record DIR --date DATE PROGRAM ARGUMENT...

The program's lines go to the terminal as they come.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

from measure import this_machine

LINE = re.compile(r"(country|city filled|city) +(4 addresses|3 M random) +(\S+) +(\S+) +(\S+) +(\S+)")
MEMORY = re.compile(r" +file (\d+) bytes, ours in memory (\d+) ")

# The bars of the issue; what has none is a figure.
AT_LEAST = {
    "country, 3 M random, MEMORY": 2,
    "country, 3 M random, MEMORY+CHECK": 10,
    "country, 3 M random, STANDARD": 5,
    "city, 3 M random, STANDARD": 5,
    "city, 3 M random, MEMORY": 2,
    "city filled, 3 M random, MEMORY": 5,
}
AT_MOST = {
    "reload checking, country, 3 M random, MEMORY": 1.05,
    "reload checking, city, 3 M random, MEMORY": 1.05,
    "memory over a city file, MB": 37,
}


def bar(measure, measured, **more):
    made = {"measure": measure, "rival": "libGeoIP 1.6.12", "ratio": measured} | more
    for limits, name in (AT_LEAST, "at_least"), (AT_MOST, "at_most"):
        if measure in limits:
            wanted = limits[measure]
            is_met = measured >= wanted if limits is AT_LEAST else measured <= wanted
            sign = ">=" if limits is AT_LEAST else "<="
            made |= {"wanted": f"{sign} {wanted}", "verdict": "met" if is_met else "below the bar"}
    return made


def bars_of(lines):
    bars, is_checking, is_city = {}, False, False
    for line in lines:
        is_checking = is_checking or "checked ns" in line
        if found := MEMORY.match(line):
            file, memory = map(int, found.groups())
            if is_city:
                name = "memory over a city file, MB"
                bars[name] = bar(name, round((memory - file) / 1e6, 1))
        elif found := LINE.match(line):
            kind, addresses, flags, theirs, ours, _ = found.groups()
            is_city = kind != "country"
            name = f"{'reload checking, ' if is_checking else ''}{kind}, {addresses}, {flags}"
            names = ("checked_ns", "plain_ns") if is_checking else ("rival_ns", "ours_ns")
            figures = dict(zip(names, (float(theirs), float(ours))))
            bars[name] = bar(name, float(theirs) / float(ours), **figures)
    return list(bars.values())


def main():
    reader = argparse.ArgumentParser()
    reader.add_argument("--record", type=pathlib.Path, required=True)
    reader.add_argument("--date", required=True)
    reader.add_argument("command", nargs=argparse.REMAINDER)
    given = reader.parse_args()
    lines = []
    with subprocess.Popen(given.command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            lines.append(line)
    if process.returncode != 0:
        sys.exit(f"the program ended with {process.returncode}")
    machine, name = this_machine()
    settings = {
        "ratio": "processor time of the original by ours; of reload checking, ours with it by ours without",
        "time": "least of the rounds, one thread on one core, libraries in turn",
    }
    result = {"date": given.date, "settings": settings, "machine": machine, "bars": bars_of(lines)}
    file = given.record / "geoip" / name / f"{given.date}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {file}")


main()
