"""File names that an HTTP server gives a file, whose extension tells the format.

    Content-Disposition: attachment; filename="pairs.jsonl.gz"   ->  "pairs.jsonl.gz"
    redirected to https://host/files/pairs.csv                   ->  "pairs.csv"
    Content-Type: application/x-ndjson                           ->  "rows.jsonl"

Used only if the URL's own path ends in no known extension, and its source declares no format.
"""

from collections.abc import Mapping
from email.message import Message
from urllib.parse import unquote, urlsplit

EXTENSIONS = {
    "application/x-ndjson": "jsonl",
    "application/ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "application/x-jsonlines": "jsonl",
    "application/json": "json",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "application/vnd.apache.parquet": "parquet",
    "application/x-parquet": "parquet",
    "application/vnd.apache.arrow.file": "arrow",
    "application/vnd.apache.arrow.stream": "arrow",
    "application/zip": "zip",
    "application/x-tar": "tar",
}
"""Content types that name a format; `text/plain` and `application/octet-stream` name none."""


def server_names(headers: Mapping[str, str], address: str = "") -> tuple[str, ...]:
    """The file names in a response, the surest first.

    `headers`: by lower-case name. `address`: the URL after redirects.
    """
    message = Message()
    message["content-disposition"] = headers.get("content-disposition", "")
    message["content-type"] = headers.get("content-type", "")
    names = [message.get_filename() or "", unquote(urlsplit(address).path)]
    extension = EXTENSIONS.get(message.get_content_type())
    plain = [name.replace("\\", "/").rpartition("/")[2] for name in names]
    return tuple(name for name in (*plain, f"rows.{extension}" if extension else "") if name)
