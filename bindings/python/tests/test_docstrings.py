"""Every public name of the package says what it is for, and its examples run as printed.

Examples are given `whered`, and `example_database`, the path of a small database.
"""

from __future__ import annotations

import doctest
import inspect
import pkgutil
from importlib import import_module

import pytest

import whered

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Examples of these need a package that is not there everywhere, or files that only their own
# tests make.
OPTIONAL = {"polars", "pandas", "duckdb", "pyarrow", "pyspark", "geoip2", "maxminddb"}


def modules():
    """The package and its modules, but those whose own imports are missing."""
    yield whered
    for found in pkgutil.walk_packages(whered.__path__, "whered."):
        try:
            yield import_module(found.name)
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] not in OPTIONAL:
                raise


def members():
    """Each public name with its object: modules, their classes and functions, and methods."""
    seen = set()
    for module in modules():
        yield module.__name__, module
        for name, item in vars(module).items():
            is_own = (getattr(item, "__module__", None) or "").startswith("whered")
            if name.startswith("_") or not is_own or id(item) in seen:
                continue
            if not (inspect.isclass(item) or inspect.isroutine(item)):
                continue
            seen.add(id(item))
            yield f"{module.__name__}.{name}", item
            for method in vars(item) if inspect.isclass(item) else ():
                if not method.startswith("_"):
                    # Not out of `vars`: a static method there hides the docstring.
                    yield f"{module.__name__}.{name}.{method}", getattr(item, method)


ALL = dict(members())


def doc_of(item):
    return getattr(item, "__doc__", None) or ""


def examples(name, **given):
    return doctest.DocTestParser().get_doctest(doc_of(ALL[name]), given, name, name, 0)


@pytest.mark.parametrize("name", [name for name in ALL if ">>>" in doc_of(ALL[name])])
def test_the_examples_of_a_docstring_run_as_printed(name, tmp_path, monkeypatch, database_path):
    monkeypatch.chdir(tmp_path)
    said = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    runner.run(examples(name, whered=whered, example_database=database_path), out=said.append)
    assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize("kind", ["Points", "PrefixSet", "Rules"])
def test_a_class_and_each_of_its_methods_have_an_example(kind):
    names = [name for name in ALL if f"{name}.".startswith(f"whered.{kind}.")]
    names = [name for name in names if not inspect.isgetsetdescriptor(ALL[name])]
    assert names and not [name for name in names if not examples(name).examples]


def test_every_public_name_has_a_docstring():
    routines = [name for name, item in ALL.items() if inspect.isclass(item) or callable(item)]
    assert not [name for name in routines if not doc_of(ALL[name]).strip()]
