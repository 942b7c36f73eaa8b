"""One process at a time makes versions and moves aliases of a registry.

A SQLite store: a lock of the kernel beside the database, which holds for every checkout that uses
that file, and is free the moment its holder dies.

A server: that lock within a checkout, and a lease in the registry itself between checkouts: a
registered model `<name>.lock`, which only one client can create. Its holder renews it; one that
was not renewed for `LEASE_SECONDS` by the waiter's own clock is taken away. What is promised: of
processes that run, one holds the lease; one that was suspended longer than the lease finds it gone
before it moves an alias, but for the milliseconds between that look and the move. What an alias
holds is read back after each move, and says so when somebody else was faster.
"""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.artifact.durable import explained_disk_errors
from tasks.artifact.lock import locked
from tasks.errors import RegistrationError
from tasks.registration.address import database_path, store_directory, store_uri
from tasks.registration.aliases.locked_aliases import LockedAliases
from tasks.registration.params import RegistrationParams

if TYPE_CHECKING:
    from mlflow import MlflowClient

logger = logging.getLogger(__name__)

OWNER, BEAT = "owner", "beat"
LEASE_SECONDS = 60.0
RENEW_SECONDS = 5.0
POLL_SECONDS = 0.5


@contextmanager
def registry_lock(
    client: "MlflowClient", params: RegistrationParams, root: Path
) -> Generator[LockedAliases, None, None]:
    """Held while versions are made and aliases moved; gives the aliases, to be moved meanwhile.

    Raises:
        ArtifactError: nothing can be written beside the registry.
    """
    home = store_directory(params, root)
    one_machine = database_path(store_uri(params, root)) is not None
    with ExitStack() as held:
        with explained_disk_errors(home):
            held.enter_context(locked(home / ".locks" / "registry", "the model registry"))
        lease = nullcontext(lambda: None) if one_machine else leased(client, params.model_name)
        yield LockedAliases(client, params.model_name, held.enter_context(lease))


@contextmanager
def leased(client: "MlflowClient", name: str) -> Generator[Callable[[], None], None, None]:
    """The registry's own lock of one model's aliases; gives the check that it is held still."""
    lock = f"{name}.lock"
    owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}"
    _acquire(client, lock, owner)
    over = threading.Event()

    def renew() -> None:
        beat = 0
        while not over.wait(RENEW_SECONDS):
            beat += 1
            try:
                client.set_registered_model_tag(lock, BEAT, str(beat))
            except Exception as error:  # told once more, and for good, by `still_ours`
                logger.warning("the lease %s could not be renewed: %s", lock, error)

    def still_ours() -> None:
        if not _is_held_by(client, lock, owner):
            raise RegistrationError(
                f"the lease {lock!r} of the registry was lost: this process was suspended for more "
                f"than {LEASE_SECONDS:.0f} s, or the server was away; run again"
            )

    renewing = threading.Thread(target=renew, name=f"lease {lock}", daemon=True)
    renewing.start()
    try:
        yield still_ours
    finally:
        over.set()
        renewing.join()
        if _is_held_by(client, lock, owner):
            client.delete_registered_model(lock)


def _acquire(client: "MlflowClient", lock: str, owner: str) -> None:
    from mlflow.exceptions import MlflowException

    seen: tuple[str, str] | None = None
    since = time.monotonic()
    while True:
        try:
            client.create_registered_model(lock, tags={OWNER: owner, BEAT: "0"})
            return
        except MlflowException as error:
            # It was there, and gone again when the registry looked for it: so it says the second.
            if error.error_code not in ("RESOURCE_ALREADY_EXISTS", "RESOURCE_DOES_NOT_EXIST"):
                raise
        state = _state(client, lock)
        if state != seen:
            if seen is None and state:
                logger.info("the model registry: waiting for %s", state[0].rpartition(":")[0])
            seen, since = state, time.monotonic()
        elif state and time.monotonic() - since > LEASE_SECONDS:
            logger.warning("the lease of %s was not renewed and is taken away", state[0])
            client.delete_registered_model(lock)
            seen, since = None, time.monotonic()
            continue
        time.sleep(POLL_SECONDS)


def _is_held_by(client: "MlflowClient", lock: str, owner: str) -> bool:
    state = _state(client, lock)
    return state is not None and state[0] == owner


def _state(client: "MlflowClient", lock: str) -> tuple[str, str] | None:
    """The lease's owner and its beat; None where nobody holds it."""
    from mlflow.exceptions import MlflowException

    try:
        tags = client.get_registered_model(lock).tags
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None
        raise
    return tags.get(OWNER, "somebody"), tags.get(BEAT, "")
