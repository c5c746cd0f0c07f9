"""A file that is sliced like bytes."""

from __future__ import annotations

import os


class FileBuffer:
    """A file whose bytes are read when they are sliced; safe after a fork and in threads."""

    def __init__(self, database: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> None:
        """Open a file."""
        self._handle = open(database, "rb", buffering=0)  # noqa: SIM115
        self._size = os.fstat(self._handle.fileno()).st_size

    def __getitem__(self, index: slice | int) -> bytes | int:
        """Return the bytes of a slice, or one byte as a number."""
        if isinstance(index, slice):
            return self._read(index.start, index.stop)
        if isinstance(index, int):
            return self._read(index, index + 1)[0]
        raise TypeError("Invalid argument type.")

    def rfind(self, needle: bytes, start: int) -> int:
        """Return where the last `needle` behind `start` begins, or -1."""
        found = self._read(start, self._size).rfind(needle)
        return found if found == -1 else start + found

    def size(self) -> int:
        """Return the size of the file when it was opened."""
        return self._size

    def close(self) -> None:
        """Close the file."""
        self._handle.close()

    def _read(self, start: int, stop: int) -> bytes:
        return os.pread(self._handle.fileno(), max(stop - start, 0), start)
