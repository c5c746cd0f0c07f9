"""The exceptions of `geoip2`, for where it is not installed."""

from __future__ import annotations

import ipaddress


class GeoIP2Error(RuntimeError):
    """Any error of this package."""


class AddressNotFoundError(GeoIP2Error):
    """The database has no record for an address."""

    ip_address: str | None
    """The address."""

    _prefix_len: int | None

    def __init__(
        self, message: str, ip_address: str | None = None, prefix_len: int | None = None
    ) -> None:
        """Make the error of an address and the length of the network around it."""
        super().__init__(message)
        self.ip_address = ip_address
        self._prefix_len = prefix_len

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
        """The network around the address that has no record."""
        if self.ip_address is None or self._prefix_len is None:
            return None
        return ipaddress.ip_network(f"{self.ip_address}/{self._prefix_len}", strict=False)


class AuthenticationError(GeoIP2Error):
    """A web service did not accept the account."""


class HTTPError(GeoIP2Error):
    """A web service could not be asked."""

    http_status: int | None
    uri: str | None
    decoded_content: str | None

    def __init__(
        self,
        message: str,
        http_status: int | None = None,
        uri: str | None = None,
        decoded_content: str | None = None,
    ) -> None:
        """Make the error of a response."""
        super().__init__(message)
        self.http_status = http_status
        self.uri = uri
        self.decoded_content = decoded_content


class InvalidRequestError(GeoIP2Error):
    """A web service did not understand the request."""


class OutOfQueriesError(GeoIP2Error):
    """The account of a web service is used up."""


class PermissionRequiredError(GeoIP2Error):
    """The account may not use a web service."""
