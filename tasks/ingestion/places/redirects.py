"""Redirects of http(s) requests: to any host, but never from https to http or to other schemes."""

import urllib.request
from typing import Any
from urllib.parse import urljoin, urlsplit

from tasks.errors import DataError
from tasks.ingestion.places.addresses import check_address
from tasks.ingestion.redaction import without_secrets


class SafeRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect to a wrong address is a DataError, which quotes the address without secrets."""

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

    # Comes before the base class's own check, whose error quotes the whole URL.
    def http_error_302(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any
    ) -> Any:
        target = headers.get("location") or headers.get("uri") or ""
        try:
            self.redirect_request(req, fp, code, msg, headers, _joined(req.full_url, target))
            return super().http_error_302(req, fp, code, msg, headers)
        except DataError:
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _joined(address: str, target: str) -> str:
    try:
        return urljoin(address, target)
    except ValueError:  # `check_address` reports it
        return target
