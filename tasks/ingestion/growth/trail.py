r"""The bytes of a growing file as they are read: hashed beside the reading, with marks in them.

    pieces    ....\n....\n..|..\n....\n....\n|....
    marks            1             2                a shard ends with a line: the bytes up to there,
                                                    and their hash

So the rows are those of the very bytes whose digest the key was made of, and the file is read once.
"""

import numpy as np

from tasks.artifact import Behind
from tasks.ingestion.growth.appended import Past
from tasks.ingestion.growth.marks import Mark


class Trail:
    """Follows the bytes of one file behind its past; a context manager. Hashes in a thread."""

    def __init__(self, past: Past) -> None:
        self.marks = [*past.marks]
        self.marked = past.last, past.state
        """The last mark at a shard's end, and the hash up to there."""
        self._state = past.state.copy()
        self._line, self._end = past.last.line, past.last.end
        """Of what is hashed, or waits for it."""
        self._piece = b""
        """Read last, and not handed over to be hashed yet: a shard may end in it."""
        self._behind = Behind()

    def __enter__(self) -> "Trail":
        return self

    def __exit__(self, *_failure: object) -> None:
        self._behind.stop()

    def follow(self, piece: bytes) -> None:
        """Takes in what was read next."""
        if self._piece:
            self._count(self._piece)
            self._behind.put(self._state.update, self._piece)
        self._piece = piece

    def mark(self, shards: int, rows: int, line: int) -> None:
        """Notes that so many shards, with so many rows, end at a line of the piece read last."""
        breaks = np.flatnonzero(np.frombuffer(self._piece, np.uint8) == ord("\n"))
        number = line - self._line
        if number > len(breaks):
            return  # the last line of the file, which is still open
        until = int(breaks[number - 1]) + 1
        self._hash(until)
        self.marks.append(Mark(shards, rows, line, self._end, self._state.hexdigest()))
        self.marked = self.marks[-1], self._state.copy()

    def with_end(self, shards: int, rows: int, line: int) -> list[Mark]:
        """The marks of all that was read, the last of them at its end."""
        self._hash(len(self._piece))
        whole = Mark(shards, rows, line, self._end, self._state.hexdigest())
        # Once: a shard that ends with the file may grow, and is known by that mark alone.
        return [*(mark for mark in self.marks if mark != whole), whole]

    def _hash(self, until: int) -> None:
        """Goes on up to here in the piece read last."""
        done, self._piece = self._piece[:until], self._piece[until:]
        self._count(done)
        self._behind.finish()
        self._state.update(done)

    def _count(self, piece: bytes) -> None:
        self._line += int(np.count_nonzero(np.frombuffer(piece, np.uint8) == ord("\n")))
        self._end += len(piece)
