"""Arrow columns of the fast lane's pairs, and fields of their records that few pairs need.

In:  what `usual` found for each row, column by column.
Out: Arrow arrays as `tables.SCHEMA` has them, built from whole buffers, not from Python strings.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.conversion.first_pass import tables
from tasks.conversion.first_pass.parts import NO_RARE_FIELDS, RareFields
from tasks.conversion.preference.identity import DIGEST_BYTES

Array = npt.NDArray[Any]
_HEX = 2 * DIGEST_BYTES


class Strings:
    """Collects the texts of one column end to end: as separate objects they would take more memory
    than they are long (`json_bytes`)."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._lengths: list[int] = []

    def extend(self, texts: Sequence[bytes]) -> None:
        """Appends texts."""
        self._parts.append(b"".join(texts))
        self._lengths += map(len, texts)

    def array(self) -> Any:
        """All texts as an Arrow array."""
        count = len(self._lengths)
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(self._lengths, out=offsets[1:])
        data = pa.py_buffer(b"".join(self._parts))
        return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), data)


def hex_strings(digests: bytes, count: int) -> Any:
    """An Arrow array of the digests in hex; `digests` has them end to end."""
    offsets = np.arange(0, _HEX * (count + 1), _HEX, dtype=np.int32)
    data = pa.py_buffer(digests.hex().encode())
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), data)


def named(flags: Array, names: Sequence[str]) -> Any:
    """The first name where the flag is not set, the second where it is."""
    numbers = pa.array(flags.astype(np.int8))
    return pa.DictionaryArray.from_arrays(numbers, pa.array([*names])).dictionary_decode()


def rare_columns(rare: Sequence[RareFields]) -> dict[str, Any]:
    """The columns of values that few pairs have, without those that would be all null."""
    if _none_set(rare):
        return {name: pa.repeat(1.0, len(rare)) for name in ("weight", "preference")}
    columns = zip(RareFields._fields, zip(*rare, strict=True), strict=True)
    return {name: pa.array(values, tables.SCHEMA.field(name).type) for name, values in columns}


def set_rare_fields(records: Array, rare: Sequence[RareFields]) -> None:
    """Sets the fields of the records that depend on these values; none of the pairs is a tie."""
    if _none_set(rare):
        records["margin"], records["preference"] = tables.fingerprint(None, 1.0), 1.0
        return
    records["margin"] = [tables.fingerprint(each.margin, each.preference) for each in rare]
    records["has_margin"] = [each.margin is not None for each in rare]
    records["preference"] = [each.preference for each in rare]
    records["has_comparison"] = [each.comparison is not None for each in rare]


def _none_set(rare: Sequence[RareFields]) -> bool:
    return all(each is NO_RARE_FIELDS for each in rare)
