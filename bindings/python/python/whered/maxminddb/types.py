"""The types of records."""

from __future__ import annotations

from typing import AnyStr, TypeAlias

Primitive: TypeAlias = AnyStr | bool | float | int

RecordList: TypeAlias = list["Record"]

RecordDict: TypeAlias = dict[str, "Record"]

Record: TypeAlias = Primitive | RecordList | RecordDict
