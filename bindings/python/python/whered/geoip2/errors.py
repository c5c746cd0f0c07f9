"""The exceptions: those of `geoip2` where it is installed, else classes of the same names."""

from __future__ import annotations

try:
    from geoip2.errors import (  # type: ignore[import-not-found,unused-ignore]
        AddressNotFoundError,
        AuthenticationError,
        GeoIP2Error,
        HTTPError,
        InvalidRequestError,
        OutOfQueriesError,
        PermissionRequiredError,
    )
except ImportError:
    from ._errors import (  # type: ignore[assignment,unused-ignore]
        AddressNotFoundError,
        AuthenticationError,
        GeoIP2Error,
        HTTPError,
        InvalidRequestError,
        OutOfQueriesError,
        PermissionRequiredError,
    )

__all__ = [
    "AddressNotFoundError",
    "AuthenticationError",
    "GeoIP2Error",
    "HTTPError",
    "InvalidRequestError",
    "OutOfQueriesError",
    "PermissionRequiredError",
]
