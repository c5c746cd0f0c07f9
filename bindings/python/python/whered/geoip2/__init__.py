"""The database part of the package `geoip2` over whered, with models that are made when needed.

It works without `geoip2`. Where `geoip2` is installed, its exceptions are raised, so that `except`
clauses for them go on working.

Use it as `geoip2` is used::

    from whered.geoip2.database import Reader

    with Reader("GeoLite2-City.mmdb") as reader:
        print(reader.city("192.0.2.7").country.iso_code)
"""

from __future__ import annotations

__version__ = "5.3.0"
"""The version of `geoip2` whose interface this is."""
