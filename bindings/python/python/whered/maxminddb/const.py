"""The modes of opening a database."""

from __future__ import annotations

from enum import IntEnum


class Mode(IntEnum):
    """How a database is opened: see `Reader`."""

    AUTO = 0
    """As MEMORY."""

    MMAP_EXT = 1
    """As MMAP."""

    MMAP = 2
    """The file is mapped."""

    FILE = 4
    """The file is read when its bytes are needed."""

    MEMORY = 8
    """The file is read into memory."""

    FD = 16
    """The database is an open file or descriptor, which is read into memory."""


MODE_AUTO = Mode.AUTO
MODE_MMAP_EXT = Mode.MMAP_EXT
MODE_MMAP = Mode.MMAP
MODE_FILE = Mode.FILE
MODE_MEMORY = Mode.MEMORY
MODE_FD = Mode.FD

__all__ = [
    "MODE_AUTO",
    "MODE_FD",
    "MODE_FILE",
    "MODE_MEMORY",
    "MODE_MMAP",
    "MODE_MMAP_EXT",
    "Mode",
]
