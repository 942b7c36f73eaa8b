"""Files behind http(s) URLs: pinned by their ETag, read from any offset; a web page is an error."""

import http.client
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from tasks.errors import DataError
from tasks.ingestion.formats.decompression import PIECE_BYTES
from tasks.ingestion.places.downloads import (
    CutShort,
    Remote,
    changed,
    pinned_by_content,
    range_start,
    with_retries,
)
from tasks.ingestion.places.http_responses import check_head, opened
from tasks.ingestion.places.server_names import server_names
from tasks.ingestion.redaction import without_secrets

logger = logging.getLogger(__name__)


def pinned(url: str) -> Remote:
    """The file behind the URL, with the version that its server gives.

    Raises:
        DataError: there is none, it is a web page, or the server cannot be reached.
    """
    name = without_secrets(url)

    def request() -> tuple[Mapping[str, str], int | None, str]:
        with opened(url, name, 0) as response:
            check_head(name, response)
            headers = {name.lower(): value for name, value in response.headers.items()}
            return headers, _length(response), response.geturl()

    headers, size, address = with_retries(name, request)
    names = server_names(headers, address)
    version = headers.get("etag") or headers.get("last-modified")

    def read(offset: int) -> tuple[int, Iterator[bytes]]:
        return _read(url, name, version, offset)

    if version is None:
        return pinned_by_content(name, size, read, names)
    pin = f"etag:{version}" if "etag" in headers else f"of:{version}"
    return Remote(name, pin, size, read, names)


def _read(url: str, name: str, version: str | None, offset: int) -> tuple[int, Iterator[bytes]]:
    """The file from the offset on, or from its start if the server cannot continue there."""
    if offset:
        try:
            return _read_from(url, name, version, offset)
        except DataError:
            place = f"byte {offset:,}"
            logger.warning("%s: its server does not continue at %s; begun anew", name, place)
    return _read_from(url, name, version, 0)


def _read_from(
    url: str, name: str, version: str | None, offset: int
) -> tuple[int, Iterator[bytes]]:
    """Raises DataError if the server gives another version, or nothing from the offset on."""
    stream = opened(url, name, offset)
    response = stream.__enter__()
    current = response.headers.get("ETag") or response.headers.get("Last-Modified")
    is_part, content_range = response.status == 206, response.headers.get("Content-Range")
    start = range_start(content_range, offset) if is_part else 0
    if start > offset or (version is not None and current != version):
        stream.__exit__(None, None, None)
        raise changed(name)
    if (length := _length(response)) is None and getattr(response, "chunked", True) is False:
        logger.warning("%s: its server tells no length; were it cut, nobody could tell", name)
    return start, _pieces(stream, response, length)


def _pieces(stream: Any, response: Any, announced: int | None) -> Iterator[bytes]:
    count = 0
    try:
        while piece := response.read1(PIECE_BYTES):  # what came before a reset is not lost
            count += len(piece)
            yield piece
    except http.client.HTTPException as error:
        raise CutShort(f"cut within a chunk after {count:,} bytes") from error
    finally:
        stream.__exit__(None, None, None)
    if announced is not None and count < announced:
        raise CutShort(f"{count:,} of {announced:,} bytes came")


def _length(response: Any) -> int | None:
    length: str | None = response.headers.get("Content-Length")
    return int(length) if length and length.isdecimal() and response.status < 400 else None
