"""Answers of http(s) servers: opened where they hold data, else an error that says what came.

The URL is the user's own; a redirect may lead to another host, never to another scheme (but from
http to https). Proxies are those of the environment.
"""

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, Any
from urllib.parse import quote, urljoin, urlsplit

from tasks.errors import DataError, shown
from tasks.ingestion.places.addresses import check_address
from tasks.ingestion.places.downloads import CutShort
from tasks.ingestion.redaction import without_secrets

TIMEOUT_SECONDS = 60
PASSING = {408, 425, 429, 500, 502, 503, 504}
"""Statuses that may pass: tried again."""
HEAD_BYTES = 80
_QUERY = re.compile(rb"(?<!<)(\?|%3[Ff])[^\s\"<>]+")
"""Of an address that an answer repeats: what signs it is a secret."""
_HTML = (b"<!doctype html", b"<html", b"<head", b"<body")


@contextmanager
def opened(url: str, name: str, offset: int) -> Generator[Any, None, None]:
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


def check_head(name: str, response: Any) -> None:
    """Raises DataError for a web page: the answer of many a login, or a mistyped address."""
    head = _up_to(response, HEAD_BYTES)
    kind = str(response.headers.get("Content-Type") or "")
    if not kind.startswith("text/html") and not head.lstrip().lower().startswith(_HTML):
        return
    told = shown(_without_query(head), 2 * HEAD_BYTES)
    final = without_secrets(response.geturl())
    way = f", redirected to {final}" if final != name else ""
    raise DataError(
        f"{name}: a web page and no data (status {response.status}{way}), starts with {told}; give "
        "the address of the file itself, without a login"
    )


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects within http(s), and never from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        place = f"{without_secrets(req.full_url)}: redirected to "
        check_address(place, newurl, "give the final address if you know it")
        old, new = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if new not in (old, "https"):
            raise DataError(
                f"{place}{without_secrets(newurl)}, which is {new}, not {old}; give the final "
                "address if you trust it"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    # The base class checks the scheme itself, with an error that quotes the whole URL.
    def http_error_302(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any
    ) -> Any:
        target = headers.get("location") or headers.get("uri") or ""
        try:
            if "//" in target:
                self.redirect_request(req, fp, code, msg, headers, _joined(req.full_url, target))
            return super().http_error_302(req, fp, code, msg, headers)
        except DataError:
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _joined(address: str, target: str) -> str:
    try:
        return urljoin(address, target)
    except ValueError:  # as `check_address` will say
        return target


class _Nothing:
    """The answer to a request for the bytes behind the last one."""

    status = 206

    def __init__(self, headers: Any) -> None:
        self.headers: Any = headers

    def read1(self, _: int) -> bytes:
        return b""


def _refused(name: str, error: urllib.error.HTTPError) -> Exception:
    head = shown(_without_query(_up_to(error, HEAD_BYTES)))
    reason = shown(_without_query(str(error.reason).encode()).decode(), 2 * HEAD_BYTES)[1:-1]
    found = f"{name}: status {error.code} ({reason}), the answer starts with {head}"
    if error.code in PASSING:
        return OSError(found)
    hint = {
        401: "it asks for a login: download it yourself, or use a signed URL",
        403: "it is not public, or the signed URL is too old: check both",
        404: "nothing is there: correct the address",
    }.get(error.code, "check the address")
    return DataError(f"{found}; {hint}")


def _without_query(said: bytes) -> bytes:
    return _QUERY.sub(rb"\1***", said)


def _up_to(response: IO[bytes], count: int) -> bytes:
    try:
        return response.read(count)
    except (OSError, http.client.HTTPException):
        return b""
