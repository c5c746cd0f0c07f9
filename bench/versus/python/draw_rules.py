"""Draws the kernel's time for a packet by the number of rules, from a result of `make bench-rules`.

    python3 bench/versus/python/draw_rules.py bench/results/rules/MACHINE/DATE.json seed > rules.svg

The second word is the ruleset: `seed`, `acl`, `mixed-fw` ... of the tables `flat-RULESET-N`. The
ways of `kernel-N` (such as ipset) are drawn with `seed`, since their addresses are those. Each point
is the median of the rounds. Both axes are logarithmic.
"""

import json
import math
import statistics
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 30, 50
COLORS = ["#b2182b", "#2166ac", "#1b7837", "#762a83", "#b35806", "#4d4d4d", "#01665e", "#c51b7d"]


def series(tables, ruleset):
    """Medians in nanoseconds, by way and number of rules."""
    found = {}
    for table in tables:
        name, _, count = table["set"].rpartition("-")
        is_seed = ruleset == "seed" and name == "kernel"
        if not count.isdigit() or not (name == f"flat-{ruleset}" or is_seed):
            continue
        for row in table["rows"]:
            points = found.setdefault(row["engine"], {})
            points.setdefault(int(count), statistics.median(row["ns"]))
    return {way: sorted(points.items()) for way, points in found.items()}


def ticks(low, high):
    """The powers of ten between two numbers, and one on each side."""
    return [10.0**at for at in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def shown(nanoseconds):
    """A time with its unit."""
    return f"{nanoseconds / 1000:g} µs" if nanoseconds >= 1000 else f"{nanoseconds:g} ns"


def svg(found, title):
    """The picture as text."""
    counts = sorted({count for points in found.values() for count, _ in points})
    times = [time for points in found.values() for _, time in points]
    rows = ticks(min(times), max(times))
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(number, low, high):
        span = math.log(high / low) or 1.0
        return math.log(number / low) / span

    def x(count):
        return LEFT + width * place(count, counts[0], counts[-1])

    def y(time):
        return TOP + height * (1 - place(time, rows[0], rows[-1]))

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18" font-size="14">{escape(title)}</text>',
    ]
    for time in rows:
        at = y(time)
        lines.append(f'<path d="M{LEFT} {at:.1f}h{width}" stroke="#ddd"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{shown(time)}</text>')
    for count in counts:
        at = x(count)
        lines.append(f'<path d="M{at:.1f} {TOP}v{height}" stroke="#eee"/>')
        label = f'<text x="{at:.1f}" y="{TOP + height + 18}" text-anchor="middle">{count}</text>'
        lines.append(label)
    lines.append(
        f'<text x="{LEFT + width / 2}" y="{HEIGHT - 10}" text-anchor="middle">rules</text>'
    )
    # Names beside the last points, apart from each other.
    last = -1e9
    ways = sorted(found.items(), key=lambda way: y(way[1][-1][1]))
    for number, (way, points) in enumerate(ways):
        color = COLORS[number % len(COLORS)]
        path = "L".join(f"{x(count):.1f} {y(time):.1f}" for count, time in points)
        lines.append(f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        for count, time in points:
            lines.append(f'<circle cx="{x(count):.1f}" cy="{y(time):.1f}" r="3" fill="{color}"/>')
        last = max(last + 14, y(points[-1][1]) + 4)
        name = f'<text x="{LEFT + width + 10}" y="{last:.1f}" fill="{color}">{escape(way)}</text>'
        lines.append(name)
    return "\n".join([*lines, "</svg>", ""])


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: draw_rules.py RESULT.json RULESET > PICTURE.svg")
    with open(sys.argv[1], encoding="utf-8") as file:
        result = json.load(file)
    found = series(result["tables"], sys.argv[2])
    if not found:
        names = {table["set"].rpartition("-")[0] for table in result["tables"]}
        allowed = sorted(name.removeprefix("flat-") for name in names if name.startswith("flat-"))
        allowed = ", ".join(allowed) or "a result with tables flat-RULESET-N"
        sys.exit(f"found no table of ruleset {sys.argv[2]!r}: allowed: {allowed}")
    title = f"Kernel time for a packet that meets every rule ({sys.argv[2]})"
    sys.stdout.write(svg(found, title))


if __name__ == "__main__":
    main()
