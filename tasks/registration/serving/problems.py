"""Requests that cannot be answered: each with its status, a reason and a sentence, as JSON.

{"error": {"type": "too_long", "message": "...", "param": "input[3]", "code": 422}}
"""

from typing import Any

import orjson


class RequestProblem(Exception):
    """A request that is refused."""

    def __init__(self, status: int, reason: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.reason, self.param = status, reason, param

    @property
    def headers(self) -> dict[str, str]:
        """Response headers that the status asks for."""
        if self.status == 401:
            return {"www-authenticate": "Bearer"}
        return {"retry-after": "1"} if self.status == 503 else {}

    def content(self) -> dict[str, Any]:
        """The response body as a mapping, in the form of OpenAI's errors."""
        return {
            "error": {
                "type": self.reason,
                "message": str(self),
                "param": self.param,
                "code": self.status,
            }
        }

    def body(self) -> bytes:
        """The response body as JSON."""
        return orjson.dumps(self.content())
