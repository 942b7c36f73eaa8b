"""Checks a URL before any request."""

from urllib.parse import unquote, urlsplit

from tasks.errors import DataError
from tasks.ingestion.redaction import without_secrets

WEB = ("http", "https")


def check_address(place: str, url: str, advice: str) -> None:
    """Raises DataError for a URL that is malformed; its message begins with `place` and ends with
    `advice`."""
    if fault := _fault(url):
        name = without_secrets(url)
        raise DataError(f"{place}{name} is no URL that can be asked: {fault}; {advice}")


def _fault(url: str) -> str:
    try:
        address = urlsplit(url)
        host, _ = unquote(address.hostname or ""), address.port
    except ValueError:
        return "its brackets hold no IPv6 address, or its port is no number up to 65535"
    if address.scheme not in WEB:  # other stores check their own
        return ""
    if not host:
        return "it names no host"
    if _is_name(host):
        return ""
    return "a part of its host is empty, longer than 63 characters, or has one that none has"


def _is_name(host: str) -> bool:
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return host.isprintable() and " " not in host
