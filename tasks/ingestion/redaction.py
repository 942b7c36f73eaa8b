"""Removes the secrets in URLs and settings wherever params are printed or recorded.

    https://me:pass@host/a.jsonl?signature=x   ->  https://host/a.jsonl      (as a name)
    path=https://me:pass@host/a.jsonl?sig=x    ->  path=https://***@host/a.jsonl?***   (as a quote)

Of a URL, user, password, query and fragment are removed. In settings, values under names such as
`api_key` are replaced, too.
"""

import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

LEFT_OUT = "***"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*://"
_USER = re.compile(rf"({_SCHEME})[^/\s'\"@]*@")
_QUERY = re.compile(rf"({_SCHEME}[^\s'\"?#]*[?#])[^\s'\"]+")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_SECRET_NAME = re.compile(
    r"secret|passw|passphrase|credential|(^|_)pwd$|(^|_)sas(_|$)|connection_string|"
    r"authorization|(^|_)cookies?$|(^|_)signature$|^key$|"
    r"(api|access|account|private|shared|auth)_?key(_id)?$|"
    r"((^|_)|access|auth|session|refresh|bearer|hub)token$"
)
_SPECIAL_TOKEN = re.compile(r"(pad|eos|bos|unk|sep|cls|mask)_token$")
"""Settings of tokenizers: no secrets."""


def without_secrets(url: str) -> str:
    """The URL without userinfo, query and fragment.

    >>> without_secrets("https://me:pass@host/a.jsonl?signature=x")
    'https://host/a.jsonl'
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # no URL, which may hold secrets all the same
        return re.sub(r"://[^/?#]*@", "://", re.split(r"[?#]", url)[0])
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def redacted(text: str) -> str:
    """The text with `***` for userinfo, query and fragment of every URL in it.

    >>> redacted("path=https://me:pass@host/a.jsonl?signature=x is wrong")
    'path=https://***@host/a.jsonl?*** is wrong'
    """
    return _QUERY.sub(rf"\g<1>{LEFT_OUT}", _USER.sub(rf"\g<1>{LEFT_OUT}@", text))


def redacted_value(value: Any) -> Any:
    """A JSON value with every text in it redacted, and `***` for values under names of secrets."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        entries = cast(Mapping[Any, Any], value).items()
        return {k: LEFT_OUT if _is_secret(k, v) else redacted_value(v) for k, v in entries}
    if isinstance(value, list | tuple):
        return [redacted_value(item) for item in cast(list[Any], value)]
    return value


def has_secrets(text: str) -> bool:
    """Whether a URL in the text may hold a secret."""
    return redacted(text) != text


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name, in any spelling, is likely to be a secret.

    >>> is_secret_name("x-api-key"), is_secret_name("special_tokens_in_text")
    (True, False)
    """
    words = "_".join(_WORD.findall(name)).lower()
    return bool(_SECRET_NAME.search(words)) and not _SPECIAL_TOKEN.search(words)


def _is_secret(name: Any, value: Any) -> bool:
    return isinstance(name, str) and isinstance(value, str) and is_secret_name(name)
