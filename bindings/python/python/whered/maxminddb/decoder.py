"""A decoder of single values, for tools that look into a data section.

`Reader` does not use it: records are decoded by the compiled part, with the same limits.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from .errors import InvalidDatabaseError

if TYPE_CHECKING:
    import mmap

    from .file import FileBuffer
    from .types import Record

__all__ = ["Decoder", "InvalidDatabaseError"]

_MAX_VALUES = 65_536
_MAX_DEPTH = 512
_MAX_PAYLOAD_BYTES = 2 << 20

_EXTENDED, _POINTER, _STRING, _DOUBLE, _BYTES = range(5)
_MAP, _INT32, _ARRAY, _BOOLEAN, _FLOAT = 7, 8, 11, 14, 15
# The bytes that an unsigned number may have, by its type.
_UNSIGNED = {5: 2, 6: 4, 9: 8, 10: 16}
_LEAST_POINTERS = {1: 0, 2: 2_048, 3: 526_336, 4: 0}
_LEAST_SIZES = {29: 29, 30: 285, 31: 65_821}

_SECTION = "The MaxMind DB file's data section"
_BAD_DATA = f"{_SECTION} contains bad data (unknown data type or corrupt data)"
_TOO_DEEP = f"{_SECTION} exceeds the maximum depth"


class _Limits:
    """What a value may still hold."""

    def __init__(self) -> None:
        self.values = _MAX_VALUES - 1
        self.payload_bytes = _MAX_PAYLOAD_BYTES

    def take_values(self, count: int) -> None:
        self.values -= count
        if self.values < 0:
            raise InvalidDatabaseError(f"{_SECTION} exceeds the maximum number of values")

    def take_payload(self, size: int) -> None:
        self.payload_bytes -= size
        if self.payload_bytes < 0:
            raise InvalidDatabaseError(f"{_SECTION} exceeds the maximum payload size")


class Decoder:
    """Decodes the values of a data section in a buffer."""

    def __init__(
        self,
        database_buffer: FileBuffer | mmap.mmap | bytes,
        pointer_base: int = 0,
        pointer_test: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Make a decoder.

        `pointer_base` is where the offsets of pointers begin; with `pointer_test` a pointer's
        value is its target.
        """
        self._buffer = database_buffer
        self._pointer_base = pointer_base
        self._pointer_test = pointer_test

    def decode(self, offset: int) -> tuple[Record, int]:
        """Return the value at `offset`, and where the field behind it begins."""
        try:
            return self._value(offset, 0, _Limits())
        except RecursionError as error:
            raise InvalidDatabaseError(_TOO_DEEP) from error
        except (IndexError, struct.error) as error:
            raise InvalidDatabaseError(_BAD_DATA) from error

    def _value(
        self, offset: int, depth: int, limits: _Limits, *, is_target: bool = False
    ) -> tuple[Any, int]:
        control: Any = self._buffer[offset]
        offset += 1
        kind = control >> 5
        if kind == _POINTER:
            if is_target:
                raise InvalidDatabaseError(_BAD_DATA)
            return self._pointer(control, offset, depth, limits)
        if kind == _EXTENDED:
            kind = 7 + self._byte(offset)
            offset += 1
        size = control & 31
        if size in _LEAST_SIZES:
            count = size - 28
            size = _LEAST_SIZES[size] + int.from_bytes(self._take(offset, count), "big")
            offset += count
        if kind in (_MAP, _ARRAY):
            limits.take_values(2 * size if kind == _MAP else size)
            if depth == _MAX_DEPTH:
                raise InvalidDatabaseError(_TOO_DEEP)
            read = self._map if kind == _MAP else self._array
            return read(size, offset, depth + 1, limits)
        if kind == _BOOLEAN:
            return size != 0, offset
        return self._scalar(kind, size, offset, limits), offset + size

    def _scalar(self, kind: int, size: int, offset: int, limits: _Limits) -> Any:
        if kind in (_STRING, _BYTES):
            limits.take_payload(size)
            data = self._take(offset, size)
            return data.decode() if kind == _STRING else data
        if (kind, size) == (_DOUBLE, 8):
            return struct.unpack(">d", self._take(offset, 8))[0]
        if (kind, size) == (_FLOAT, 4):
            return struct.unpack(">f", self._take(offset, 4))[0]
        if size <= _UNSIGNED.get(kind, -1):
            return int.from_bytes(self._take(offset, size), "big")
        if kind == _INT32 and size <= 4:
            return int.from_bytes(self._take(offset, size).rjust(4, b"\0"), "big", signed=True)
        raise InvalidDatabaseError(_BAD_DATA)

    def _map(self, size: int, offset: int, depth: int, limits: _Limits) -> tuple[Any, int]:
        found = {}
        for _ in range(size):
            key, offset = self._value(offset, depth, limits)
            if not isinstance(key, str):
                raise InvalidDatabaseError(_BAD_DATA)
            found[key], offset = self._value(offset, depth, limits)
        return found, offset

    def _array(self, size: int, offset: int, depth: int, limits: _Limits) -> tuple[Any, int]:
        found = []
        for _ in range(size):
            value, offset = self._value(offset, depth, limits)
            found.append(value)
        return found, offset

    def _pointer(
        self, control: int, offset: int, depth: int, limits: _Limits
    ) -> tuple[Any, int]:
        width = (control >> 3 & 3) + 1
        target = int.from_bytes(self._take(offset, width), "big")
        if width < 4:
            target += ((control & 7) << 8 * width) + _LEAST_POINTERS[width]
        target += self._pointer_base
        if self._pointer_test:
            return target, offset + width
        if depth == _MAX_DEPTH:
            raise InvalidDatabaseError(_TOO_DEEP)
        value, _ = self._value(target, depth + 1, limits, is_target=True)
        return value, offset + width

    def _byte(self, offset: int) -> int:
        return self._take(offset, 1)[0]

    def _take(self, offset: int, count: int) -> bytes:
        data: Any = self._buffer[offset : offset + count]
        if len(data) != count:
            raise InvalidDatabaseError(_BAD_DATA)
        return data
