"""Values of columns put together from their parts are those that Arrow itself makes."""

import subprocess
import sys
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.ingestion.formats.column_values import rows_as_objects, values_of

PLAIN = {
    pa.string(): st.text(max_size=6),
    pa.large_string(): st.sampled_from(["", "a", "caf\u00e9", "\u4e2d"]),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.null(): st.none(),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["x", "y"]),
    pa.date32(): st.dates(),
    pa.map_(pa.string(), pa.int8()): st.just([("k", 1)]),
}


def nested(kinds):
    listed = st.tuples(kinds, st.sampled_from([pa.list_, pa.large_list])).map(
        lambda made: (made[1](made[0][0]), st.lists(st.none() | made[0][1], max_size=3))
    )
    struct = st.lists(kinds, min_size=1, max_size=3).map(
        lambda made: (
            pa.struct([(f"f{n}", kind) for n, (kind, _) in enumerate(made)]),
            st.fixed_dictionaries(
                {f"f{n}": st.none() | values for n, (_, values) in enumerate(made)}
            ),
        )
    )
    return listed | struct


KIND = st.recursive(st.sampled_from([*PLAIN.items()]), nested, max_leaves=5)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_values_are_those_that_arrow_makes(data):
    kind, values = data.draw(KIND)
    column = pa.array(data.draw(st.lists(st.none() | values, max_size=12)), kind)
    start = data.draw(st.integers(0, 4))
    for part in (column, column.slice(start), column.slice(start, 3)):
        assert values_of(part) == part.to_pylist(maps_as_pydicts="strict")
    batch = pa.RecordBatch.from_arrays([column] * 3, ["a", "b", "c"]).slice(start)
    assert rows_as_objects(batch) == batch.to_pylist(maps_as_pydicts="strict")


def test_what_stands_behind_a_null_is_nothing():
    null = pa.array([False, True, False])
    texts = pa.array(["a", "b", "c"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), texts, mask=null)
    structs = pa.StructArray.from_arrays([texts, lists], ["x", "y"], mask=null)
    for column in (lists, structs, lists.slice(1), structs.slice(1, 1)):
        column.validate(full=True)
        assert values_of(column) == column.to_pylist()
    assert values_of(lists) == [["a"], None, ["c"]]


@pytest.mark.parametrize("character", ["x", "\u4e2d"])
def test_large_texts_take_no_more_memory_than_they_have(character):
    column = pa.array([character * 2**20] * 24)
    tracemalloc.start()
    try:
        found = values_of(column)
        size, peak = sum(map(sys.getsizeof, found)), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == column.to_pylist()
    assert peak < 1.2 * size


def test_of_a_struct_no_field_is_lost_without_a_word():
    twice = pa.StructArray.from_arrays([pa.array(["x"]), pa.array(["y"])], ["a", "a"])
    with pytest.raises(ValueError, match="duplicate field names"):
        values_of(twice)


def test_text_that_is_no_utf_8_raises_as_arrow_does():
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")]
    )
    for make in (values_of, lambda column: column.to_pylist()):
        with pytest.raises(UnicodeDecodeError) as found:
            make(bad)
        assert found.value.object == b"\xff"


def test_pandas_is_not_imported_for_them(tmp_path):
    """It takes longer than thousands of rows."""
    said = [[{"role": "user", "content": "Hi"}], None]
    batch = pa.RecordBatch.from_pydict({"said": said, "score": [None, 0.5]})
    with pa.ipc.new_stream(tmp_path / "rows.arrow", batch.schema) as stream:
        stream.write_batch(batch)
    code = """
import sys
import pyarrow as pa
from tasks.ingestion.formats.column_values import rows_as_objects
with pa.OSFile(sys.argv[1]) as file:
    (batch,) = pa.ipc.open_stream(file)
assert rows_as_objects(batch)[1] == {"said": None, "score": 0.5}
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code, tmp_path / "rows.arrow"], check=True)
