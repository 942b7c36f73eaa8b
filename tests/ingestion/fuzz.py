"""Mutated files of every container through the real ingestion: only our own errors, no lost row.

    python -m tests.ingestion.fuzz --seconds 3600 --seed 7

A case is `(seed, number)`; it fails on any other exception, on a ledger that does not balance,
above `SECONDS` or above `BYTES` of memory. What fails is written below `--keep`.
"""

import argparse
import bz2
import csv
import gzip
import io
import json
import lzma
import random
import resource
import sys
import tarfile
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from tasks.artifact import Ledger, Store
from tasks.errors import PipelineError
from tasks.ingestion import IngestionParams, step

SECONDS = 12  # a child may compute for 10 s
BYTES = 2 * 2**30
INTERESTING = [0, 1, 0x7F, 0x80, 0xFE, 0xFF]
TOKENS = [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\r", b"\0", b"\xef\xbb\xbf"]
TOKENS += [b"\\ud83d", b"\\u0000", b"NaN", b"1e999", b'"a":', b"\xff\xfe", b"PAR1", b"ARROW1"]


def rows(chance: random.Random) -> list[dict]:
    """A few rows of mixed shape, with columns alike."""
    text = ["", "hello", "é\u2028", "\U0001f600", 'a,b\n"c"', "x" * 300, "null"]
    return [
        {
            "prompt": chance.choice(text),
            "chosen": [{"role": "user", "content": chance.choice(text)}] * chance.randint(0, 3),
            "score": chance.choice([None, 0.5, -1.0]),
            "n": chance.randint(-(2**40), 2**40),
        }
        for _ in range(chance.randint(0, 40))
    ]


def _jsonl(given: list[dict], _: random.Random) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in given)


def _json(given: list[dict], chance: random.Random) -> bytes:
    return json.dumps(given, indent=chance.choice([None, 2])).encode()


def _csv(given: list[dict], _: random.Random) -> bytes:
    sink = io.StringIO(newline="")
    writer = csv.DictWriter(sink, ["prompt", "chosen", "score", "n"])
    writer.writeheader()
    writer.writerows(given)
    return sink.getvalue().encode()


def _table(given: list[dict], chance: random.Random) -> pa.Table:
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    schema = pa.schema(
        [("prompt", pa.string()), ("chosen", pa.list_(message)), ("score", pa.float64()),
         ("n", chance.choice([pa.int64(), pa.timestamp("us"), pa.float32()]))]
    )  # fmt: skip
    made = pa.Table.from_pylist([row | {"n": None} for row in given], schema=schema)
    numbers = pa.array([row["n"] for row in given], pa.int64()).cast(schema.field("n").type, False)
    made = made.set_column(3, "n", numbers)
    if chance.random() < 0.3:
        made = made.set_column(0, "prompt", made["prompt"].combine_chunks().dictionary_encode())
    return made


def _parquet(given: list[dict], chance: random.Random) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        _table(given, chance),
        sink,
        row_group_size=chance.choice([5, 100]),
        compression=chance.choice(["none", "snappy", "zstd", "gzip", "brotli", "lz4"]),
        data_page_version=chance.choice(["1.0", "2.0"]),
        use_dictionary=chance.random() < 0.5,
        write_page_checksum=chance.random() < 0.2,
    )
    return sink.getvalue()


def _arrow(given: list[dict], chance: random.Random) -> bytes:
    sink = io.BytesIO()
    table = _table(given, chance)
    new = chance.choice([pa.ipc.new_file, pa.ipc.new_stream])
    options = pa.ipc.IpcWriteOptions(compression=chance.choice([None, "lz4", "zstd"]))
    with new(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=chance.choice([3, 100]))
    return sink.getvalue()


PLAIN = {".jsonl": _jsonl, ".json": _json, ".csv": _csv, ".parquet": _parquet, ".arrow": _arrow}
CODECS = {
    "": bytes,
    ".gz": lambda body: gzip.compress(body, 1),
    ".zst": lambda body: pa.Codec("zstd").compress(body, asbytes=True),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


def tar_of(members: dict[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, body in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
    return sink.getvalue()


def zip_of(members: dict[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return sink.getvalue()


def mutated(body: bytes, chance: random.Random) -> bytes:
    """The bytes after a few edits: flips, cuts, copies, tokens, lengths."""
    content = bytearray(body)
    for _ in range(chance.choice([0, 1, 1, 2, 4, 16])):
        at = chance.randrange(len(content) + 1)
        if chance.random() < 0.3:  # footers and headers hold what is structured
            at = chance.choice([min(at % 64, len(content)), max(0, len(content) - 1 - at % 400)])
        length = chance.choice([1, 1, 2, 4, 8, 100])
        kind = chance.randrange(7)
        if kind == 0 and at < len(content):
            content[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and at < len(content):
            content[at] = chance.choice(INTERESTING)
        elif kind == 2:
            del content[at : at + length]
        elif kind == 3:
            content[at:at] = chance.choice(TOKENS)
        elif kind == 4:
            source = chance.randrange(len(content) + 1)
            content[at:at] = content[source : source + length]
        elif kind == 5:
            number = chance.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, len(content)])
            content[at : at + 4] = number.to_bytes(8, "little")[: chance.choice([4, 8])]
        elif chance.random() < 0.3:
            del content[at:]
    return bytes(content)


def case(seed: int, number: int) -> tuple[str, bytes]:
    """Name and bytes of one case's file."""
    chance = random.Random(f"{seed}/{number}")
    suffix, codec = chance.choice(list(PLAIN)), chance.choice(["", "", *CODECS])
    if chance.random() < 0.5:
        suffix = chance.choice([".parquet", ".arrow"])
    body = PLAIN[suffix](rows(chance), chance)
    if chance.random() < 0.8:
        body = mutated(body, chance)
    name, body = f"a{suffix}{codec}", CODECS[codec](body)
    kind = chance.random()
    if kind < 0.15:
        members = {f"train/{name}": body, "notes.md": b"# notes", "b.jsonl": b'{"prompt":"x"}\n'}
        pack, name = chance.choice([(tar_of, "a.tar"), (zip_of, "a.zip"), (tar_of, "a.tar.gz")])
        body = pack(members)
        if name.endswith(".gz"):
            body = gzip.compress(mutated(body, chance), 1)
    if codec or kind < 0.15 or chance.random() < 0.3:
        body = mutated(body, chance)
    return name, body


def ingest(name: str, body: bytes) -> str:
    """What became of one file: `read`, or the class of the error.

    Raises:
        AssertionError: the ledger does not balance or a message is not printable.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / name
        path.write_bytes(body)
        params = IngestionParams.model_validate({"sources": [{"name": "s", "path": str(path)}]})
        try:
            artifact = Store(Path(directory) / "store").obtain(step(params))
        except PipelineError as error:
            refused = error
        else:
            refused = None
        if refused is not None:
            assert str(refused).isprintable(), repr(str(refused))
            assert name in str(refused), str(refused)
            return type(refused).__name__
        account = Ledger.from_json(artifact.report["ledger"]).accounts["s"]
        count = sum(pq.read_metadata(p).num_rows for p in (artifact.path / "rows").iterdir())
        bad = pq.read_metadata(artifact.path / "quarantine.parquet").num_rows
        blank = account.dropped["blank_line"]
        assert account.rows_in == count + bad + blank, (account, count, bad)
        for shard in (artifact.path / "rows").iterdir():
            for raw in pq.read_table(shard, columns=["raw"])["raw"].to_pylist():
                assert isinstance(json.loads(raw), dict)
        return "read"


def check(seed: int, number: int) -> tuple[str, str]:
    """Name and fate of one case; raises where it breaks a promise."""
    name, body = case(seed, number)
    start = time.monotonic()
    fate = ingest(name, body)
    seconds = time.monotonic() - start
    peak = 1024 * max(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    assert seconds < SECONDS, f"{seconds:.1f} s"
    assert peak < BYTES, f"{peak:,} bytes of memory"
    return name, fate


def main() -> int:
    """Runs cases until the time is over; 1 when one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "fuzz-ingestion")
    given = parser.parse_args()
    end, number, failed = time.monotonic() + given.seconds, given.first, 0
    fates: Counter[tuple[str, str]] = Counter()
    while time.monotonic() < end:
        try:
            fates[check(given.seed, number)] += 1
        except Exception as error:
            failed += 1
            name, body = case(given.seed, number)
            given.keep.mkdir(parents=True, exist_ok=True)
            (given.keep / f"{given.seed}-{number}-{name}").write_bytes(body)
            print(f"case {given.seed}/{number} {name}: {type(error).__name__}: {error}", flush=True)
        number += 1
    for (name, fate), count in sorted(fates.items()):
        print(f"{name:16} {fate:12} {count:,}")
    print(f"{number - given.first:,} cases, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
