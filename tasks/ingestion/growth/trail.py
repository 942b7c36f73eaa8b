r"""Follows the bytes of a growing file as they are read: hashes them, and makes the marks.

    pieces    ....\n....\n..|..\n....\n....\n|....
    marks            1             2                a shard ends with a line: the bytes up to there,
                                                    and their hash

The file is read only once: the bytes that became rows are the very bytes that were hashed, and
their digest is then compared with the one in the step's key.
"""

import numpy as np

from tasks.artifact import BackgroundCalls
from tasks.ingestion.growth.appended import FinishedPart
from tasks.ingestion.growth.marks import Mark


class Trail:
    """Follows the bytes of one file behind its finished part; a context manager. Hashes in a
    thread."""

    def __init__(self, finished: FinishedPart) -> None:
        self.marks = [*finished.marks]
        self.marked = finished.last, finished.state
        """The last mark at a shard's end, and the hash up to there."""
        self._state = finished.state.copy()
        self._line, self._end = finished.last.line, finished.last.end
        """Lines and bytes that were handed to the hash."""
        self._piece = b""
        """The piece that was read last, not hashed yet: a shard may end within it."""
        self._behind = BackgroundCalls()

    def __enter__(self) -> "Trail":
        return self

    def __exit__(self, *_failure: object) -> None:
        self._behind.stop()

    def follow(self, piece: bytes) -> None:
        """Takes the next piece that was read."""
        if self._piece:
            self._count(self._piece)
            self._behind.put(self._state.update, self._piece)
        self._piece = piece

    def mark(self, shards: int, rows: int, line: int) -> None:
        """Marks the end of a shard, at this line, which ends within the piece read last."""
        breaks = np.flatnonzero(np.frombuffer(self._piece, np.uint8) == ord("\n"))
        number = line - self._line
        if number > len(breaks):
            return  # the last line of the file, which has no line end
        until = int(breaks[number - 1]) + 1
        self._hash(until)
        self.marks.append(Mark(shards, rows, line, self._end, self._state.hexdigest()))
        self.marked = self.marks[-1], self._state.copy()

    def with_end(self, shards: int, rows: int, line: int) -> list[Mark]:
        """All marks, and one at the file's end."""
        self._hash(len(self._piece))
        whole = Mark(shards, rows, line, self._end, self._state.hexdigest())
        # A shard that ends with the file has only the mark of the file's end, since it may grow.
        return [*(mark for mark in self.marks if mark != whole), whole]

    def _hash(self, until: int) -> None:
        """Hashes the piece read last up to this place."""
        done, self._piece = self._piece[:until], self._piece[until:]
        self._count(done)
        self._behind.finish()
        self._state.update(done)

    def _count(self, piece: bytes) -> None:
        self._line += int(np.count_nonzero(np.frombuffer(piece, np.uint8) == ord("\n")))
        self._end += len(piece)
