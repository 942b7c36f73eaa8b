"""The decompressed bytes of a file, in pieces of bounded size.

Compressed bytes under a plain name are decompressed; a name with a codec that the bytes do not have
is an error. Damage and bombs are errors, never a shorter file.
"""

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from tasks.errors import DataError, shown
from tasks.ingestion.formats.batches import Origin

PIECE_BYTES = 2**20
NEXT_PIECE_BYTES = 2**18
"""Of a plain file after the first piece: fits the processor's cache."""
_BOMB_BYTES = 100 * 10**6
_BOMB_RATIO = 200
"""Above `_BOMB_BYTES` out, more than this many bytes out per byte in are refused."""

_MAGIC = {
    ".gz": b"\x1f\x8b",
    ".zst": b"\x28\xb5\x2f\xfd",
    ".bz2": b"BZh",
    ".xz": b"\xfd7zXZ\x00",
}
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
_BZ2_STARTS = (b"1AY&SY", b"\x17rE8P\x90")
"""The magic numbers of the first block, and of the end of the stream if there is none."""
_NAMES = {".gz": "gzip", ".zst": "zstd", ".bz2": "bzip2", ".xz": "xz"}
_DECODERS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lzma.LZMADecompressor,
}


class DamagedFile(DataError):
    """The bytes of a file end too soon or do not decompress; what came before is not used."""


def cause(error: Exception) -> str:
    """A library's error as one printable line of bounded length."""
    return shown(" ".join(str(error).split()), 200)[1:-1]


def pieces(origin: Origin) -> Iterator[bytes]:
    """The file's bytes, decompressed, at most `PIECE_BYTES` at a time.

    Raises:
        DataError: the bytes do not have the codec in the name, or they are a bomb.
        DamagedFile: truncated or corrupt.
    """
    with origin.path.open("rb") as file:
        head = file.read(16)
        file.seek(0)
        if not head:
            return
        codec = _codec(origin, head)
        if codec:
            yield from _decompressed(origin, file, codec)
            return
    yield from plain_pieces(origin, 0)


def plain_pieces(origin: Origin, start: int, end: int = sys.maxsize) -> Iterator[bytes]:
    """The file's bytes from `start` up to `end`, as they are."""
    size = NEXT_PIECE_BYTES if start else PIECE_BYTES
    with origin.path.open("rb", buffering=0) as file:
        file.seek(start)
        while piece := file.read(min(size, end - start)):
            start, size = start + len(piece), NEXT_PIECE_BYTES
            origin.advance(len(piece))
            origin.follow(piece)
            yield piece


def codec_of(head: bytes) -> str:
    """The codec by a file's first bytes, or empty."""
    if head[1:4] == _ZSTD_SKIPPABLE and head[0] & 0xF0 == 0x50:
        return ".zst"
    codec = next((c for c, magic in _MAGIC.items() if head.startswith(magic)), "")
    return "" if codec == ".bz2" and head[4:10] not in _BZ2_STARTS else codec


def check_bomb(origin: Origin, size_in: int, size_out: int, advice: str) -> None:
    """Raises DataError for a file that decompresses to far more bytes than rows ever do; `advice`
    is for a file that is meant to."""
    if size_out > _BOMB_BYTES and size_out > _BOMB_RATIO * size_in:
        raise DataError(
            f"{origin.name}: decompressed >{_BOMB_RATIO}:1 ({size_in:,} bytes gave {size_out:,}); "
            f"{advice} if it is meant to be so"
        )


def _codec(origin: Origin, head: bytes) -> str:
    codec = codec_of(head)
    if origin.codec and codec != origin.codec:
        raise DataError(
            f"{origin.name}: not {_NAMES[origin.codec]}; starts with {shown(head[:8])}"
            f"{f', which is {_NAMES[codec]}' if codec else ''}: rename it to what it is"
        )
    return codec


def _decompressed(origin: Origin, file: BinaryIO, codec: str) -> Iterator[bytes]:
    size_out = reported = 0
    stream = _zstd(file) if codec == ".zst" else _members(file, _DECODERS[codec])
    try:
        for piece in stream:
            size_out += len(piece)
            size_in = file.tell()
            check_bomb(origin, size_in, size_out, "decompress it yourself")
            origin.advance(size_in - reported)
            reported = size_in
            yield piece
    except EOFError as error:
        raise DamagedFile(
            f"{origin.name}: truncated_{_NAMES[codec]}: ends inside the compressed data after "
            f"{size_out:,} decompressed bytes; fetch the file again"
        ) from error
    except (zlib.error, lzma.LZMAError, OSError) as error:
        if "too much memory" in str(error):
            raise DataError(
                f"{origin.name}: compressed by zstd with a window above 128 MB, as --long=28 "
                "and more do, which is not read; compress it again without --long, or decompress it"
            ) from error
        raise DamagedFile(
            f"{origin.name}: corrupt_{_NAMES[codec]} after {size_out:,} decompressed bytes "
            f"({cause(error)}); fetch the file again"
        ) from error


def _members(file: BinaryIO, new_decoder: Callable[[], Any]) -> Iterator[bytes]:
    """The bytes of every member in turn; zero padding after a member is skipped.

    Raises:
        EOFError: the last member is not complete.
    """
    decoder: Any = None
    data = b""
    hungry = True
    while True:
        if hungry and not data:
            data = file.read(PIECE_BYTES // 8)
            if not data:
                break
        if decoder is None:
            data = data.lstrip(b"\0")
            if not data:
                hungry = True
                continue
            decoder = new_decoder()
        piece = decoder.decompress(data, PIECE_BYTES)
        if piece:
            yield piece
        if decoder.eof:
            data, decoder, hungry = decoder.unused_data, None, True
        else:
            data = getattr(decoder, "unconsumed_tail", b"")  # bz2 and lzma keep it themselves
            hungry = len(piece) < PIECE_BYTES
    if decoder is not None:
        raise EOFError


def _zstd(file: BinaryIO) -> Iterator[bytes]:
    """By pyarrow, which bounds its output and reports truncation, unlike zstandard's reader."""
    import pyarrow as pa

    try:
        with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd") as stream:
            while piece := stream.read(PIECE_BYTES):
                yield piece
    except OSError as error:
        if "runcated" in str(error):
            raise EOFError from error
        raise
