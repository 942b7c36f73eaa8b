"""Files behind http(s) URLs: pinned by their ETag, read from any offset on, never a login page.

The URL is the user's own; a redirect may lead to another host, never to another scheme (but from
http to https). Proxies are those of the environment.
"""

import http.client
import logging
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any
from urllib.parse import quote, urlsplit

from tasks.errors import DataError, shown
from tasks.ingestion.formats.decompression import PIECE_BYTES
from tasks.ingestion.places.downloads import (
    CutShort,
    Remote,
    begins_at,
    changed,
    is_url,
    pinned_by_content,
    tried,
)
from tasks.ingestion.places.said_names import said_names
from tasks.ingestion.redaction import without_secrets

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 60
PASSING = {408, 425, 429, 500, 502, 503, 504}
"""Statuses that may pass: tried again."""
HEAD_BYTES = 80
_HTML = (b"<!doctype html", b"<html", b"<head", b"<body")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects within http(s), and never from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if new not in (old, "https"):
            raise DataError(
                f"{without_secrets(req.full_url)}: redirected to {without_secrets(newurl)}, which "
                f"is {new}, not {old}; give the final address if you trust it"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    # The base class checks the scheme itself, with an error that quotes the whole URL.
    def http_error_302(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any
    ) -> Any:
        target = headers.get("location") or headers.get("uri") or ""
        if is_url(target):
            self.redirect_request(req, fp, code, msg, headers, target)
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def pinned(url: str) -> Remote:
    """The file behind the URL, with what its server says of its version.

    Raises:
        DataError: there is none, it is a web page, or the server cannot be reached.
    """
    name = without_secrets(url)

    def look() -> tuple[Mapping[str, str], int | None, str]:
        with _opened(url, name, 0) as response:
            _check_head(name, response, _up_to(response, HEAD_BYTES))
            headers = {name.lower(): value for name, value in response.headers.items()}
            return headers, _length(response), response.geturl()

    headers, size, address = tried(name, look)
    said = said_names(headers, address)
    version = headers.get("etag") or headers.get("last-modified")

    def read(offset: int) -> tuple[int, Iterator[bytes]]:
        return _read(url, name, version, offset)

    if version is None:
        return pinned_by_content(name, size, read, said)
    pin = f"etag:{version}" if "etag" in headers else f"of:{version}"
    return Remote(name, pin, size, read, said)


def _read(url: str, name: str, version: str | None, offset: int) -> tuple[int, Iterator[bytes]]:
    """From the offset on, or from the start where the server refuses to continue there."""
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
    """Raises DataError where the server gives another version, or nothing from there on."""
    stream = _opened(url, name, offset)
    response = stream.__enter__()
    found = response.headers.get("ETag") or response.headers.get("Last-Modified")
    is_part, told = response.status == 206, response.headers.get("Content-Range")
    start = begins_at(told, offset) if is_part else 0
    if start > offset or (version is not None and found != version):
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


@contextmanager
def _opened(url: str, name: str, offset: int) -> Generator[Any, None, None]:
    """A response that has data.

    Raises:
        DataError: a status that will not pass.
        OSError: one that may, or no connection.
    """
    address = quote(url, safe=":/?#[]@!$&'()*+,;=%~-._")
    headers = {"Accept-Encoding": "identity", "User-Agent": "reward-pipeline"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    opener = urllib.request.build_opener(_Redirects)
    request = urllib.request.Request(address, headers=headers)
    try:
        response = opener.open(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        with error:
            told = str(error.headers.get("Content-Range") or "")
            if error.code == 416 and told.endswith(f"*/{offset}"):  # all of it is there already
                yield _Nothing(error.headers)
                return
            raise _refused(name, error) from None
    except http.client.HTTPException as error:
        raise CutShort(f"no HTTP answer ({type(error).__name__})") from error
    except urllib.error.URLError as error:
        host = urlsplit(name).netloc
        raise OSError(f"{host} cannot be reached: {error.reason}") from error
    with response:
        yield response


class _Nothing:
    """The answer to a request for the bytes behind the last one."""

    status = 206

    def __init__(self, headers: Any) -> None:
        self.headers: Any = headers

    def read1(self, _: int) -> bytes:
        return b""


def _refused(name: str, error: urllib.error.HTTPError) -> Exception:
    head = _up_to(error, HEAD_BYTES)
    found = f"{name}: status {error.code} ({error.reason}), the answer starts with {shown(head)}"
    if error.code in PASSING:
        return OSError(found)
    hint = {
        401: "it asks for a login: download it yourself, or use a signed URL",
        403: "it is not public, or the signed URL is too old: check both",
        404: "nothing is there: correct the address",
    }.get(error.code, "check the address")
    return DataError(f"{found}; {hint}")


def _check_head(name: str, response: Any, head: bytes) -> None:
    """Raises DataError for a web page: the answer of many a login, or a mistyped address."""
    kind = str(response.headers.get("Content-Type") or "")
    if not kind.startswith("text/html") and not head.lstrip().lower().startswith(_HTML):
        return
    final = without_secrets(response.geturl())
    way = f", redirected to {final}" if final != name else ""
    raise DataError(
        f"{name}: a web page and no data (status {response.status}{way}), starts with "
        f"{shown(head, 2 * HEAD_BYTES)}; give the address of the file itself, without a login"
    )


def _up_to(response: IO[bytes], count: int) -> bytes:
    try:
        return response.read(count)
    except (OSError, http.client.HTTPException):
        return b""


def _length(response: Any) -> int | None:
    length: str | None = response.headers.get("Content-Length")
    return int(length) if length and length.isdigit() and response.status < 400 else None
