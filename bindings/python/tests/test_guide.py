"""The blocks of the documentation's pages run, one after the other, with the output that they show.

A block of `sh` that is marked as an example runs with the program `whered`; one of `python` runs in
one namespace a page. Pictures that a page shows are those that its blocks write. With
`WHERED_BLESS=1` outputs and pictures are written to the pages instead.
"""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = pathlib.Path(os.environ.get("WHERED_BIN_DIR", str(ROOT / "target" / "debug"))) / "whered"
IS_BLESSING = os.environ.get("WHERED_BLESS") == "1"
BLOCK = re.compile(
    r"(?:<!-- (?P<mark>[^>]*) -->\n)?```(?P<kind>sh|python)\n(?P<code>.*?)```\n"
    r"(?:```text\n(?P<output>.*?)```\n)?",
    re.DOTALL,
)
PICTURE = re.compile(r"\]\((python/[a-z]+\.svg)\)")


def run(kind: str, code: str, folder: pathlib.Path, names: dict[str, Any]) -> str:
    if kind == "sh":
        path = f"{PROGRAM.parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-ec", code],
            cwd=folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(code, "the page", "exec"), names)  # noqa: S102
    return shown.getvalue()


def is_same(shown: str, expected: str) -> bool:
    """Whether an output is the one shown, where `...` stands for any rest of a line."""
    lines = [re.escape(line).replace(re.escape("..."), ".*") for line in expected.splitlines()]
    return re.fullmatch("\n".join(lines), shown.rstrip("\n")) is not None


@pytest.mark.parametrize("page", ["docs/guide/python.md", "docs/start/python.md"])
def test_pages_do_what_they_show(
    page: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("polars", "duckdb", "geoip2", "pyarrow"):
        pytest.importorskip(package)
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    folder = tmp_path / "clone"
    (folder / "crates" / "whered").mkdir(parents=True)
    shutil.copytree(ROOT / "crates/whered/demo", folder / "crates/whered/demo")
    monkeypatch.chdir(folder)
    # A page begins in a Python that has imported nothing.
    for name in list(sys.modules):
        if name.split(".")[0] in {"maxminddb", "geoip2"}:
            monkeypatch.delitem(sys.modules, name)
    path = ROOT / page
    text = path.read_text()
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for block in BLOCK.finditer(text):
        mark = block["mark"] or ""
        if mark.startswith("not run") or (block["kind"] == "sh" and mark != "example"):
            continue
        shown = run(block["kind"], block["code"], folder, names)
        count += 1
        if block["output"] is None:
            assert IS_BLESSING or not shown or block["kind"] == "sh", block["code"]
        elif IS_BLESSING and not is_same(shown, block["output"]):
            text = text.replace(block[0], block[0].replace(block["output"], shown))
        else:
            assert is_same(shown, block["output"]), f"{block['code']}\n{shown}"
    assert count >= 3
    for picture in PICTURE.findall(text):
        made, kept = folder / pathlib.Path(picture).name, path.parent / picture
        if IS_BLESSING:
            kept.parent.mkdir(exist_ok=True)
            shutil.copy(made, kept)
        assert made.read_bytes() == kept.read_bytes(), f"{picture} is not what the page makes"
    if IS_BLESSING:
        path.write_text(text)
