"""CSV records that the csv module refuses: where they end, and what follows them."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import DataError
from tasks.ingestion.formats.delimited import read_csv
from tests.ingestion.formats.test_sound_rows import _origin

HEAD, LAST = "p,c,r\n", '"la""st\n",g,b\n'
REFUSED = {
    # text of the record, of how many lines
    "a line in an open cell has as many cells as a row": (
        '"print \\"hi\\"?","use:\nprintf,puts,write\nor cout",no\n'
    ),
    "escaped quotes on both lines": '"say \\"a\\"","use:\na,b,c\n\\"x\\" or y",no\n',
    "the first line has one escaped quote": '"5\\" pipe, and\nmore",b,c\n',
    "a line in an open cell begins with a quote": '"a "b" c","use:\n"", of these\na,b,c",no\n',
    "one stray quote before an open cell": '"a 5" pipe","use:\nprintf,puts,write\nor cout",no\n',
    "two before a line end": '"said "hi", and "yo\nfoo,bar,baz\nend",x,y\n',
    "a stray CR before an open cell": 'x\ry,good,"bad\na,b,c"\n',
    "the line itself": '1,"5" pipe",y\n',
    "the line itself, with the wrong count": '"a"b,y\n',
    "quotes that enclose two lines": '"5\\"",x,y\n"next","b",c\n',
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("behind", ["", "1,2,3\n4,5,6\n", '1,"2",3\n'])
def test_a_refused_record_costs_all_its_lines_and_no_other(ingestion, name, behind):
    record = REFUSED[name]
    path = ingestion.write("x.csv", HEAD + "1,2,3\n" + record + behind + LAST)
    artifact = ingestion.run(path)
    [bad] = ingestion.quarantine(artifact)
    assert (bad["row"], bad["reason"], bad["raw"]) == (3, "csv_quote", record.removesuffix("\n"))
    lines = record.count("\n")
    told = f"by its quotes, the record goes on to line {2 + lines}"
    assert (told in bad["message"]) == (lines > 1 and "enclose" not in name)
    rows = [(row["row"], "".join(row["raw"].values())) for row in ingestion.rows(artifact)]
    inner = [(3 + lines + n, t) for n, t in enumerate(["123", "456"][: behind.count("\n")])]
    assert rows == [(2, "123"), *inner, (3 + lines + len(inner), 'la"st\ngb')]


def test_a_file_is_refused_where_the_end_of_a_record_cannot_be_told(ingestion):
    path = ingestion.write("x.csv", HEAD + '"a "b" c","use:\na,b,c\nsay "x" or y",no\n' + LAST)
    with pytest.raises(DataError, match=r"x.csv line 2: .* where it ends cannot .*; write a quote"):
        ingestion.run(path)


TEXT = st.lists(
    st.sampled_from(['"x"', ' "say" ', "\n", ",", "a", "b,c,d\n", "word "]), max_size=4
).map("".join)
RECORDS = st.lists(st.lists(TEXT, min_size=3, max_size=3), min_size=1, max_size=6)


@settings(max_examples=300, deadline=None)
@given(RECORDS)
def test_of_a_writer_that_escapes_by_backslashes_exactly_the_records_without_quotes_are_read(
    tmp_path_factory, records
):
    lines = (",".join('"' + cell.replace('"', '\\"') + '"' for cell in r) for r in records)
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    path.write_text(HEAD + "\n".join(lines) + "\n")
    origin = replace(_origin(), path=path, name="x.csv", delimiter=",")
    batches = [*read_csv(origin)]
    found = [[*json.loads(raw).values()] for batch in batches for raw in batch.raws]
    assert found == [record for record in records if '"' not in "".join(record)]
    assert sum(batch.counted for batch in batches) == len(records)
