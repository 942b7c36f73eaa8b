"""Files of object stores and of all other URLs that fsspec knows (s3, gs, az, hf, memory ...).

Each file that a URL or glob matches is *pinned*: listed with the version of its content.
Credentials come from the environment, as for the store's own tools. `storage` is for other
settings: an endpoint, a region, `anon: true`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from tasks.errors import DataError
from tasks.ingestion.formats.decompression import PIECE_BYTES
from tasks.ingestion.formats.extensions import has_known_extension
from tasks.ingestion.places.downloads import (
    Remote,
    cause_of,
    changed,
    pinned_by_content,
    with_retries,
)
from tasks.ingestion.places.server_names import server_names
from tasks.ingestion.redaction import is_secret_name, without_secrets

VERSION_FIELDS = ("VersionId", "ETag", "etag", "generation", "md5Hash", "content_md5", "blob_id")
"""Fields of fsspec's `info` that identify a file's content; the surest first."""
_NO_VERSION = (None, "", "null")
PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
"""URL scheme -> package to install for it."""
NO_SECRETS = ("anon", "cloud", "google_default")
"""Values of gcsfs's `token` that are no secret: they name a way to log in."""


def pinned(source: str, url: str, storage: Mapping[str, Any]) -> list[Remote]:
    """The files that the URL or glob matches, sorted by name, each with the version of its content.

    Raises:
        DataError: nothing matches, or the store cannot be reached or refuses.
    """
    name, scheme = without_secrets(url), urlsplit(url).scheme
    _check_options(source, storage)
    files = _file_system(source, url, scheme, storage)
    path = files._strip_protocol(url)  # pyright: ignore[reportPrivateUsage]

    def matches() -> dict[str, Any]:
        if re.search(r"[*?]", path):
            return files.glob(path, detail=True)
        try:
            return {path: files.info(path)}
        except FileNotFoundError:  # `[1]` may be part of a name, or of a glob
            return files.glob(path, detail=True) if "[" in path else {}

    listed: dict[str, Any] = with_retries(name, lambda: _call_store(source, name, matches))
    found = {one: info for one, info in listed.items() if info.get("type") != "directory"}
    if not found:
        if listed:
            raise DataError(
                f"source {source!r}: {name} is a directory, or matches nothing else; give a glob "
                f"such as {name}/*"
            )
        raise DataError(f"source {source!r}: nothing matches {name}; correct `path`")
    is_here = scheme in ("file", "local")  # there the first slash is part of the name
    return [
        _pinned(source, files, one, f"{scheme}://{one if is_here else one.lstrip('/')}", info)
        for one, info in sorted(found.items())
    ]


def _pinned(source: str, files: Any, path: str, name: str, listed: dict[str, Any]) -> Remote:
    """One file. Its `info` is a slow request, made only if the listing has no version, or the name
    no known extension, so that the content type is needed."""
    info = listed
    if not (_versions(listed) and has_known_extension(path)):
        info = with_retries(name, lambda: _call_store(source, name, lambda: files.info(path)))
    version, size = next(iter(_versions(info)), None), info.get("size")
    names = server_names({"content-type": _content_type(info)})

    def read(offset: int) -> tuple[int, Iterator[bytes]]:
        return offset, _pieces(source, files, path, name, version, offset)

    if version is None:
        return pinned_by_content(name, size, read, names)
    return Remote(name, version, size, read, names)


def _versions(info: Mapping[str, Any]) -> list[str]:
    """The versions of the content in an `info`, as `field:value`, the surest first; a listing may
    have fewer than the `info` of one file."""
    values = {field: info.get(field) for field in VERSION_FIELDS}
    return [f"{field.lower()}:{v}" for field, v in values.items() if v not in _NO_VERSION]


def _content_type(info: Mapping[str, Any]) -> str:
    return str(info.get("ContentType") or info.get("contentType") or "")


def _pieces(
    source: str, files: Any, path: str, name: str, version: str | None, offset: int
) -> Iterator[bytes]:
    def opened() -> Any:
        file = files.open(path, "rb", block_size=4 * PIECE_BYTES, cache_type="readahead")
        file.seek(offset)
        return file

    def check() -> None:
        files.invalidate_cache()
        if version and version not in _versions(
            _call_store(source, name, lambda: files.info(path))
        ):
            raise changed(name)

    check()
    with _call_store(source, name, opened) as file:
        while piece := _call_store(source, name, lambda: file.read(PIECE_BYTES)):
            yield piece
    check()


def _call_store(source: str, name: str, call: Any) -> Any:
    """What a call of the store returns; its errors become one of two kinds.

    Raises:
        DataError: a permanent error: no such file, no permission, wrong settings.
        OSError: any other error, which may be temporary.
    """
    try:
        return call()
    except FileNotFoundError as error:
        raise DataError(f"source {source!r}: {name} does not exist; correct `path`") from error
    except Exception as error:
        kind = type(error).__name__
        if isinstance(error, PermissionError) or "Credential" in kind:
            raise DataError(
                f"source {source!r}: {name} may not be read ({cause_of(error)}); set the store's "
                "credentials in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                "GOOGLE_APPLICATION_CREDENTIALS, HF_TOKEN), or storage: {anon: true}, of gs "
                "{token: anon}"
            ) from error
        if isinstance(error, TypeError | AttributeError) or "Invalid endpoint" in str(error):
            raise DataError(
                f"source {source!r}: the client of {name}'s store does not take its settings "
                f"({cause_of(error)}); correct `storage`"
            ) from error
        raise OSError(cause_of(error)) from error


def _file_system(source: str, url: str, scheme: str, storage: Mapping[str, Any]) -> Any:
    import fsspec

    try:
        of_url: Any = fsspec.get_filesystem_class(scheme)
        settings = {**of_url._get_kwargs_from_urls(url), **storage}
        return of_url(**settings, skip_instance_cache=True, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        package = PACKAGES.get(scheme)
        way = f"pip install {package}" if package else "install the package that fsspec needs"
        raise DataError(
            f"source {source!r}: {scheme}:// URLs cannot be read ({cause_of(error)}); {way}, or "
            "download the files yourself"
        ) from error
    except TypeError as error:
        raise DataError(f"source {source!r}: `storage` is wrong ({cause_of(error)})") from error


def _check_options(source: str, storage: Mapping[str, Any]) -> None:
    """Raises DataError for secrets in `storage`: params are recorded with every run."""
    for name, value in storage.items():
        if is_secret_name(name) and value not in NO_SECRETS:
            raise DataError(
                f"source {source!r}: storage.{name} looks like a secret, and params are recorded; "
                "set it in the environment instead (for s3: AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN)"
            )
        if isinstance(value, Mapping):
            _check_options(source, value)  # pyright: ignore[reportUnknownArgumentType]
