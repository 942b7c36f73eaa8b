"""Windows hold so many pairs in their order, however the files are cut, and every column."""

import pyarrow as pa

from tasks.evaluation.scoring.windows import COLUMNS, read_windows, split_files
from tests.evaluation.pieces import random_pairs, write_arrow


def test_windows_are_full_but_for_the_last_and_span_batches_and_files(tmp_path):
    rows = random_pairs(25)
    for number, part in enumerate((rows[:10], [], rows[10:17], rows[17:])):
        write_arrow(tmp_path / "eval" / f"{number:05d}.arrow", part, batch=3)
    for most, sizes in ((4, [4] * 6 + [1]), (5, [5] * 5), (25, [25]), (2048, [25])):
        windows = list(read_windows(split_files(tmp_path), most))
        assert [len(window) for window in windows] == sizes
        whole = pa.concat_tables(windows)
        assert whole["pair_id"].to_pylist() == [row["pair_id"] for row in rows]
        assert whole["chosen_input_ids"].to_pylist() == [row["chosen_ids"] for row in rows]


def test_a_column_that_a_split_leaves_out_has_the_value_that_its_absence_means(tmp_path):
    ids = pa.array([[1, 2], [3]], pa.list_(pa.int32()))
    table = pa.table({"rejected_input_ids": ids, "pair_id": ["a", "b"]})
    table = table.append_column("chosen_input_ids", ids).append_column(
        "source", pa.array(["x", "y"])
    )
    (tmp_path / "eval").mkdir()
    with pa.ipc.new_stream(tmp_path / "eval" / "00000.arrow", table.schema) as writer:
        writer.write_table(table)
    [window] = read_windows(split_files(tmp_path))
    assert window.schema.names == list(COLUMNS)
    assert window.to_pylist() == [
        {
            "pair_id": pair_id,
            "source": source,
            "chosen_input_ids": same,
            "rejected_input_ids": same,
            "shared_prefix_length": 0,
            "margin": None,
            "weight": 1.0,
            "preference": 1.0,
            "comparison": None,
        }
        for pair_id, source, same in (("a", "x", [1, 2]), ("b", "y", [3]))
    ]
