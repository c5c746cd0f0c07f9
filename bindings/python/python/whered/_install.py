"""Putting `whered.maxminddb` in the place of the package `maxminddb`."""

from __future__ import annotations

import importlib
import sys

_SUBMODULES = ("const", "decoder", "errors", "extension", "file", "reader", "types")


def install_as_maxminddb() -> None:
    """Let `import maxminddb` find `whered.maxminddb`, in this process.

    Call it before `geoip2`, or anything else that imports `maxminddb`. A second call does nothing.

    Raises `RuntimeError` if `maxminddb` is already imported: modules that hold it, such as
    `geoip2.database`, would go on with it, and exceptions of the two would be mixed.

    With it, `geoip2` runs on whered::

        import whered

        whered.install_as_maxminddb()
        import geoip2.database
    """
    ours = importlib.import_module("whered.maxminddb")
    present = sys.modules.get("maxminddb")
    if present is not None and present is not ours:
        where = getattr(present, "__file__", None) or "no file"
        raise RuntimeError(
            f"maxminddb is already imported ({where}): "
            "call whered.install_as_maxminddb() before anything imports it"
        )
    sys.modules["maxminddb"] = ours
    for name in _SUBMODULES:
        sys.modules[f"maxminddb.{name}"] = importlib.import_module(f"whered.maxminddb.{name}")
