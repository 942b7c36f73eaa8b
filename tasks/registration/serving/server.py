"""A server from the command line to the end of the process.

SIGTERM and SIGINT: no new connections, requests that are here are answered, exit code 0.
"""

import logging
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.errors import RegistrationError
from tasks.registration.params import RegistrationParams
from tasks.registration.serving.settings import ServeSettings
from tasks.registration.serving.source import local_model

if TYPE_CHECKING:
    from tasks.registration.loader.inference import ServedModel
    from tasks.registration.serving.guards import Guards

logger = logging.getLogger(__name__)
THREADS_VARIABLE = "OMP_NUM_THREADS"


def serve(
    source: str,
    settings: ServeSettings,
    registry: RegistrationParams,
    *,
    root: Path,
    device: str | None = None,
) -> None:
    """Serves a model until it is told to stop.

    Raises:
        RegistrationError: there is no such model, it is no plain reward model, or it does not
            score as its contract says; or the address is taken.
    """
    with bound_socket(settings) as listening:
        model, name = _loaded(source, settings, registry, root, device)
        from tasks.registration.serving.app import build_app
        from tasks.registration.serving.service import Service

        service = Service(model, name, settings)
        if len(model.formats) > 1 and settings.query_form == "auto":
            logger.info(
                "training had text and conversations: bare strings are read as rendered by the "
                "chat template, and /score makes conversations; --query-form text reads strings as "
                "text"
            )
        contract = "no contract" if model.golden is None else f"contract passed ({model.golden})"
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        label = source if name == source else f"{name} ({source} when it was loaded)"

        def log_ready() -> None:
            logger.info("serving %s on http://%s:%d, %s", label, shown, port, contract)

        # uvicorn raises the signal again once it has stopped; then it must not end the process.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: None)
        listen(listening, settings)
        _run(build_app(service), settings.grace_seconds, listening, log_ready)
        logger.info("stopped; %d requests were scored or refused", service.meters.answered())


def _loaded(
    source: str,
    settings: ServeSettings,
    registry: RegistrationParams,
    root: Path,
    device: str | None,
) -> tuple["ServedModel", str]:
    """The model, its contract replayed, and its name.

    The download is deleted before it serves: a server that is killed leaves no copy behind.
    """
    with local_model(source, root, registry) as (directory, name):
        _share_cores(settings.threads)
        from tasks.registration.loader.inference import load_reward_model

        try:
            model = load_reward_model(
                directory,
                device,
                scale=settings.scale,
                special_tokens_in_text=settings.special_tokens_in_text,
            )
        except (ValueError, OSError) as error:
            raise RegistrationError(f"{source} is not served: {error}") from error
    return model, name


def _share_cores(threads: int | None) -> None:
    """Leaves a core to the network and the tokenizer; must come before torch is imported.

    Threads of a model that spin while they wait for each other take the cores that the others need:
    on a busy machine, requests then take many times as long.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if threads is None and THREADS_VARIABLE in os.environ:
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = threads or max(1, (cores or 1) - 1)
    os.environ[THREADS_VARIABLE] = str(threads)
    import torch

    torch.set_num_threads(threads)


def _run(
    app: "Guards", grace_seconds: int, listening: socket.socket, on_ready: Callable[[], None]
) -> None:
    """Runs until a signal; `on_ready` is called once the server accepts connections."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                on_ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.body_timeouts.stop()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=grace_seconds,
    )
    Server(config).run([listening])


def bound_socket(settings: ServeSettings) -> socket.socket:
    """The address, taken before the model is loaded: that takes longer.

    Raises:
        RegistrationError: another has it, or it is none of this machine's.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # By the protocol's number asyncio knows to send at once: else an answer waits 40 ms for an ACK.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    _let_reuse(bound, True)  # connections of a server that has just ended linger there
    try:
        bound.bind((settings.host.strip("[]"), settings.port))
    except OSError as error:
        bound.close()
        raise _refused(settings, error) from error
    # Linux lets several have one address that all let reuse, until one of them listens.
    _let_reuse(bound, False)
    return bound


def listen(bound: socket.socket, settings: ServeSettings) -> None:
    """Lets clients connect; the next server gets the address as soon as this one has ended.

    Raises:
        RegistrationError: another listens there all the same.
    """
    _let_reuse(bound, True)
    try:
        bound.listen()
    except OSError as error:
        raise _refused(settings, error) from error


def _let_reuse(bound: socket.socket, reuse: bool) -> None:
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)


def _refused(settings: ServeSettings, error: OSError) -> RegistrationError:
    return RegistrationError(
        f"{settings.host}:{settings.port} cannot be listened on: {error}; give another --port or "
        "--host"
    )
