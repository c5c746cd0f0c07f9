"""The type stubs say what the compiled module has."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

import whered

# Overloads that None does not pass to, and what is not for users.
ALLOWED = ["__all__", "_Members", "Points.__new__", "Points.within"]


def test_stubs_are_those_of_the_module(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("mypy")
    allowed = tmp_path / "allowed"
    allowed.write_text("".join(f"whered._whered.{name}\n" for name in ALLOWED))
    folder = pathlib.Path(whered.__file__).resolve().parents[1]
    # mypy finds an installed package by itself, and takes no such folder.
    is_installed = folder.name == "site-packages"
    paths = {} if is_installed else {"MYPYPATH": str(folder), "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "mypy.stubtest", "--ignore-disjoint-bases"]
    done = subprocess.run(
        [*command, "--allowlist", str(allowed), "whered._whered"],
        env={**os.environ, **paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
