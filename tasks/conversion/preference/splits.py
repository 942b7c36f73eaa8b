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
    """The prompt's turns up to the user's first one, without system turns before them.

    `turns`: `Identity.turns`. The same question under another system text has the same opening.
    """
    parts = turns.split(b"\0")  # role, content, role, content ... and nothing
    roles = [role.strip() for role in parts[:-1:2]]
    if b"user" not in roles:
        return turns
    first = next(i for i, role in enumerate(roles) if role not in (b"system", b"developer"))
    kept = parts[2 * first : 2 * roles.index(b"user") + 2]
    return b"\0".join([kept[0].lstrip(), *kept[1:], b""])
