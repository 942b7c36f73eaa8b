"""Opens http(s) URLs of sources; if the response is no data, the error quotes its beginning.

Proxies are taken from the environment.
"""

import http.client
import re
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import IO, Any
from urllib.parse import quote, urlsplit

from tasks.errors import DataError, shown
from tasks.ingestion.formats.decompression import codec_of
from tasks.ingestion.places.downloads import Busy, CutShort
from tasks.ingestion.places.redirects import SafeRedirects
from tasks.ingestion.redaction import without_secrets

TIMEOUT_SECONDS = 60
TEMPORARY = {408, 425, 429, 500, 502, 503, 504}
"""Statuses of temporary errors, after which a request is worth another try."""
LOOK_BYTES = 2048
"""Bytes at a response's beginning that decide whether it is data."""
HEAD_BYTES = 80
"""Bytes of these that an error message quotes."""
UNREAD_ENCODINGS = ("deflate", "br", "compress", "x-compress")
GZIP = ("gzip", "x-gzip")
"""Content encodings that the readers of text formats decode."""
_QUERY = re.compile(rb"(?<!<)(\?|%3[Ff])[^\s\"<>]+")
"""The query of a URL in a response: it may hold a signature, which is a secret."""
_HTML = (b"<!doctype html", b"<html", b"<head", b"<body")


@contextmanager
def opened(url: str, name: str, offset: int) -> Generator[Any, None, None]:
    """The response to a GET request for the bytes from `offset` on.

    `name`: the URL without secrets, for messages.

    Raises:
        DataError: an error status that is permanent.
        OSError: a temporary one (`TEMPORARY`), or no connection: worth another try.
    """
    address = quote(url, safe=":/?#[]@!$&'()*+,;=%~-._")
    headers = {"Accept-Encoding": "identity", "User-Agent": "reward-pipeline"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    opener = urllib.request.build_opener(SafeRedirects)
    request = urllib.request.Request(address, headers=headers)
    try:
        response = opener.open(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        with error:
            content_range = str(error.headers.get("Content-Range") or "")
            if error.code == 416 and content_range.endswith(f"*/{offset}"):  # nothing is left
                yield _EmptyResponse(error.headers)
                return
            raise _refused(name, error) from None
    except http.client.HTTPException as error:
        raise CutShort(f"no HTTP answer ({type(error).__name__})") from error
    except urllib.error.URLError as error:
        host = urlsplit(name).netloc
        raise OSError(f"{host} cannot be reached: {error.reason}") from error
    with response:
        yield response


def check_head(name: str, response: Any) -> None:
    """Reads the first `LOOK_BYTES` of a response, and refuses what cannot be data.

    Raises:
        DataError: a web page, such as a login form; or a Content-Encoding that is not decoded.
    """
    head = _up_to(response, LOOK_BYTES)
    encoding = str(response.headers.get("Content-Encoding") or "").strip().lower()
    if encoding in UNREAD_ENCODINGS or (encoding in GZIP and _is_packed(_unzipped(head))):
        raise DataError(
            f"{name}: served with 'Content-Encoding: {encoding}', which is not undone here and was "
            "not asked for; have the server send the file as it is, or download it yourself"
        )
    if not _is_page(str(response.headers.get("Content-Type") or ""), head):
        return
    text = shown(_without_query(head[:HEAD_BYTES]), 2 * HEAD_BYTES)
    final = without_secrets(response.geturl())
    way = f", redirected to {final}" if final != name else ""
    raise DataError(
        f"{name}: a web page and no data (status {response.status}{way}), starts with {text}; give "
        "the address of the file itself, without a login"
    )


def _is_page(kind: str, head: bytes) -> bool:
    """Whether it is a web page. Its bytes decide before the content type `kind`: servers send JSON
    as `text/html`, and pages under other types."""
    start = head.lstrip().lower()
    if start.startswith(_HTML):
        return True
    is_rows = start.startswith((b"{", b"[")) or b"<" not in head or b"\0" in head
    return kind.lower().startswith("text/html") and not is_rows


def _unzipped(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
    except zlib.error:
        return b""


def _is_packed(start: bytes) -> bool:
    """Whether the file itself is compressed, Parquet, ZIP or Arrow: its reader would not decode a
    gzip around it."""
    return start.startswith((b"PAR1", b"PK\3\4", b"ARROW1")) or bool(codec_of(start))


class _EmptyResponse:
    """The response to a request for bytes behind the end of the file."""

    status = 206

    def __init__(self, headers: Any) -> None:
        self.headers: Any = headers

    def read1(self, _: int) -> bytes:
        return b""


def _refused(name: str, error: urllib.error.HTTPError) -> Exception:
    head = shown(_without_query(_up_to(error, HEAD_BYTES)))
    reason = shown(_without_query(str(error.reason).encode()).decode(), 2 * HEAD_BYTES)[1:-1]
    found = f"{name}: status {error.code} ({reason}), the answer starts with {head}"
    if error.code in TEMPORARY:
        return Busy(found, _retry_after(str(error.headers.get("Retry-After") or "")))
    hint = {
        401: "it asks for a login: download it yourself, or use a signed URL",
        403: "it is not public, or the signed URL is too old: check both",
        404: "nothing is there: correct the address",
    }.get(error.code, "check the address")
    return DataError(f"{found}; {hint}")


def _retry_after(header: str) -> float:
    """Seconds to wait, from a Retry-After header: a number of seconds or a date; else 0."""
    if header.isdecimal():
        return float(header)
    try:
        return parsedate_to_datetime(header).timestamp() - time.time()
    except ValueError:
        return 0.0


def _without_query(content: bytes) -> bytes:
    return _QUERY.sub(rb"\1***", content)


def _up_to(response: IO[bytes], count: int) -> bytes:
    try:
        return response.read(count)
    except (OSError, http.client.HTTPException):
        return b""
