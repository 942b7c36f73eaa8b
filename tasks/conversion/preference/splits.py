"""The splits, and which of them a prompt group goes to.

split_of(group, seed 0, eval_fraction 0.1)  ->  "eval" for one group in ten, else "train"
"""

from hashlib import blake2b
from typing import Literal, get_args

Split = Literal["train", "eval"]
SPLITS: tuple[Split, ...] = get_args(Split)


def split_of(group: str, seed: int, eval_fraction: float) -> Split:
    """The split of a whole group: the same in every run, whatever other rows there are.

    A larger fraction only moves groups from train to eval, never back.
    """
    digest = blake2b(f"{seed}:{group}".encode(), digest_size=8).digest()
    return "eval" if int.from_bytes(digest, "big") < eval_fraction * 2**64 else "train"


def opening(turns: bytes) -> bytes:
    """Of a prompt's turns, as its group is made of them, those down to the user's first."""
    said = turns.split(b"\0")  # role, content, role, content ... and nothing
    first = next((i for i in range(0, len(said), 2) if said[i].strip() == b"user"), len(said))
    return b"\0".join([*said[: first + 2], b""]) if first + 2 < len(said) else turns
