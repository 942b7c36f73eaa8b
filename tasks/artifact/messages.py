"""Messages between this process and its workers, through a pair of sockets.

    8 bytes, the length ─ with them, where there are any: descriptors of locks
    the message, pickled

Only this process and those that it started speak here: nothing is unpickled that came from a file.
"""

import array
import pickle
import socket
from collections.abc import Sequence
from typing import Any

LENGTH_BYTES = 8
MOST_LOCKS = 4


def send(channel: socket.socket, message: Any, locks: Sequence[int] = ()) -> None:
    """Sends a message; who receives it holds the locks, too.

    Raises:
        OSError: nobody is there any more.
    """
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    length = len(content).to_bytes(LENGTH_BYTES, "big")
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", locks))] if locks else []
    channel.sendmsg([length], rights)
    channel.sendall(content)


def receive(channel: socket.socket) -> tuple[Any, list[int]]:
    """The next message, and the descriptors of the locks that came with it: the receiver's to
    close.

    Raises:
        EOFError, OSError: nobody is there any more.
    """
    length, locks, _, _ = socket.recv_fds(channel, LENGTH_BYTES, MOST_LOCKS)
    length += _exactly(channel, LENGTH_BYTES - len(length))
    return pickle.loads(_exactly(channel, int.from_bytes(length, "big"))), locks


def _exactly(channel: socket.socket, size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        part = channel.recv(min(size - len(content), 1 << 20))
        if not part:
            raise EOFError
        content += part
    return bytes(content)
