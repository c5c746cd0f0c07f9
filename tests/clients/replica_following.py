"""A whered that follows primaries, for the tests of `[[replica]]`."""

import os

from redis_server import RawClient

# The program of the primaries.
SERVER = os.environ.get("WHERED_REPLICA_SERVER")
BACKLOG = ["--repl-backlog-size", "64mb", "--repl-diskless-sync-delay", 0]


def section(url, match=("fleet:*",), more=""):
    """One `[[replica]]` of a configuration file."""
    patterns = ", ".join(f'"{pattern}"' for pattern in match)
    return f'[[replica]]\nof = "{url}"\nmatch = [{patterns}]\n{more}\n'


def configure(folder, *sections, data="data", rest=""):
    """Writes the configuration file, and gives its path."""
    path = folder / "replica.toml"
    path.write_text("\n".join([f'data_dir = "{data}"', rest, *sections]))
    return path


def follow(serve, folder, *urls, data="data", rest="", **of_section):
    """A server that follows; its method `raw` gives a client."""
    sections = [url if url.startswith("[[") else section(url, **of_section) for url in urls]
    server = serve("--config", configure(folder, *sections, data=data, rest=rest))
    server.raw = lambda: RawClient(server.resp)
    return server
