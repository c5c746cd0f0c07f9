"""Rounds in turn on one core, ratios of processor time, and the result's file.

Not for what is measured: each part has a module of its own. A part is a list of contestants over
the same rows. In each round every contestant has its turn, another one first each time; a turn's
figure is the processor time of the whole process for one row, all of its threads included. The
ratio is the median over rounds of rival by ours.
"""

from __future__ import annotations

import gc
import json
import os
import pathlib
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Contestant:
    """Something that answers rows."""

    name: str
    # Answers the rows from one number to another. What it returns is thrown away.
    run: Callable[[int, int], Any]
    # Rows of a turn: the slow ones take fewer.
    rows: int
    is_ours: bool = False


@dataclass
class Measure:
    """A figure, or one for each round."""

    name: str
    values: list[float]
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def verdict(self) -> tuple[str, str] | None:
        if self.at_least is not None:
            is_met = self.median >= self.at_least
            return f">= {self.at_least:g}", "met" if is_met else "below the bar"
        if self.at_most is not None:
            is_met = self.median <= self.at_most
            return f"<= {self.at_most:g}", "met" if is_met else "above the bar"
        return None

    def line(self) -> str:
        verdict = self.verdict()
        wanted = f", wanted {verdict[0]}: {verdict[1]}" if verdict else ""
        return f"{self.name}: {self.median:.4g} {self.unit}{wanted}"

    def to_json(self) -> dict[str, Any]:
        # One value, as the other suites keep it; the rounds stay beside it.
        fields: dict[str, Any] = {
            "name": self.name,
            "values": [round(self.median, 4)],
            "rounds": [round(value, 4) for value in self.values],
            "unit": self.unit,
        }
        if verdict := self.verdict():
            fields["wanted"], fields["verdict"] = verdict
        return fields


@dataclass
class Report:
    """All measures of a run."""

    workload: str
    measures: list[Measure] = field(default_factory=list)

    def add(self, measure: Measure) -> None:
        self.measures.append(measure)
        print(measure.line(), flush=True)

    def write(self, folder: pathlib.Path, date: str, versions: dict[str, str]) -> pathlib.Path:
        machine, name = this_machine()
        path = folder / "python" / name / f"{date}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        result = {
            "suite": "python",
            "date": date,
            "machine": machine,
            "workload": self.workload,
            "versions": versions,
            "measures": [measure.to_json() for measure in self.measures],
        }
        path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
        return path


def in_turn(
    report: Report,
    what: str,
    contestants: Sequence[Contestant],
    rounds: int,
    total: int,
    *,
    at_least: float | None = None,
) -> None:
    """Measures contestants round by round and adds their rates and ratios to the report.

    The bar holds for the first of our contestants against the fastest of the rivals.
    """
    seconds: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    for contestant in contestants:
        contestant.run(0, min(contestant.rows, 1000))  # Lazy parts are loaded before the clock.
    for number in range(rounds):
        first = number % len(contestants)
        for contestant in [*contestants[first:], *contestants[:first]]:
            start = number * contestant.rows % max(total - contestant.rows + 1, 1)
            gc.collect()
            before = time.process_time()
            contestant.run(start, start + contestant.rows)
            spent = time.process_time() - before
            seconds[contestant.name].append(spent / contestant.rows)
    for contestant in contestants:
        rates = [1e-3 / value for value in seconds[contestant.name]]
        report.add(Measure(f"{what}: {contestant.name}", rates, "k/s"))
    ours = [contestant.name for contestant in contestants if contestant.is_ours]
    rivals = [contestant.name for contestant in contestants if not contestant.is_ours]
    fastest = min(rivals, key=lambda name: statistics.median(seconds[name]), default=None)
    for own in ours:
        for rival in rivals:
            ratios = [
                theirs / mine for theirs, mine in zip(seconds[rival], seconds[own], strict=True)
            ]
            bar = at_least if own == ours[0] and rival == fastest else None
            report.add(Measure(f"{what}: {rival} / {own}", ratios, "times", at_least=bar))


def same(what: str, expected: Any, found: Any) -> None:
    """Ends the run where two answers differ."""
    if expected != found:
        raise SystemExit(f"{what}: answers differ: {expected!r:.300} and {found!r:.300}")


def same_columns(what: str, expected: Any, found: Any) -> None:
    """Ends the run where two columns of Arrow differ."""
    if not expected.equals(found):
        for row, (left, right) in enumerate(zip(expected, found, strict=True)):
            same(f"{what}, row {row}", left.as_py(), right.as_py())
        same(f"{what}, types", expected.type, found.type)


def this_machine() -> tuple[dict[str, Any], str]:
    """What the results of all suites say about a machine, and its folder's name."""

    def read(path: str) -> str:
        try:
            return pathlib.Path(path).read_text()
        except OSError:
            return ""

    def value(text: str, name: str) -> str:
        found = re.search(rf"^{name}\s*:\s*(.*)$", text, re.MULTILINE)
        return found[1].strip() if found else "unknown"

    processors = read("/proc/cpuinfo")
    flags = set(value(processors, "(?:flags|Features)").split())
    levels = {"avx512f": "avx512", "avx2": "avx2", "asimd": "neon"}
    simd = next((level for flag, level in levels.items() if flag in flags), "scalar")
    caches = []
    for index in range(8):
        folder = f"/sys/devices/system/cpu/cpu0/cache/index{index}"
        level, kind, size = (read(f"{folder}/{name}").strip() for name in ("level", "type", "size"))
        if level:
            caches.append(f"L{level} {kind} {size}")
    pages = re.search(r"\[(\w+)\]", read("/sys/kernel/mm/transparent_hugepage/enabled"))
    processor = value(processors, "model name")
    words = [word.lower() for word in re.split(r"[^A-Za-z0-9]+", processor)]
    words = [word for word in words if word not in ("", "r", "tm", "cpu", "processor")]
    count = max(len(re.findall(r"^processor\b", processors, re.MULTILINE)), 1)
    memory = value(read("/proc/meminfo"), "MemTotal").split()[0]
    machine = {
        "processor": processor,
        "simd": simd,
        "processors": count,
        "caches": caches,
        "memory_mib": int(memory) // 1024 if memory.isdigit() else 0,
        "kernel": os.uname().release,
        "transparent_huge_pages": pages[1] if pages else "unknown",
    }
    return machine, f"{'-'.join(words[:2])}-{simd}-{count}"
