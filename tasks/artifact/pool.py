"""The pool of worker processes: started once, and kept for the next stages.

    this process    shard ─── shard ─── shard ─── shard ─── ...
    a thread of it                  ├─ hands one over ─ hands one over ─ ...
    worker          starts, imports ┘  shard ────────── shard ─ ...

Workers start in the background, and nobody waits for one that is not ready. A worker ends when it
has been idle for `REST_SECONDS`, when this process ends, and when the work here fails; what it was
working on is then left unfinished.
"""

import atexit
import logging
import os
import pickle
import queue
import socket
import subprocess
import sys
import threading
from pathlib import Path

from tasks.artifact.job import Job
from tasks.artifact.memory import ARROWS_POOL, KEPT_VARIABLES, LEAST_HEAPS, MOST_HEAPS, SYSTEM
from tasks.artifact.messages import receive, send
from tasks.errors import ArtifactError

logger = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-m", "tasks.artifact.worker")
REST_SECONDS = 30.0
"""A new worker takes less than a second to import: it is not worth keeping one idle for longer."""
SMALL_MEMORY = {
    ARROWS_POOL: SYSTEM,
    MOST_HEAPS: str(LEAST_HEAPS),
    **{name: str(size) for name, size in KEPT_VARIABLES.items()},
}
"""The settings of `share_heaps` for one core, in force from the worker's start."""
ONE_THREAD = dict.fromkeys(("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""There are as many processes as cores: threads of libraries would only compete for them."""


class Worker:
    """A worker process, and the thread of this process that hands it items of every job."""

    def __init__(self) -> None:
        self.channel, its = socket.socketpair()
        with its:
            self.process = subprocess.Popen(
                [*COMMAND, str(its.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                process_group=0,  # an interrupt from the terminal is the parent's to handle
                env={**SMALL_MEMORY, **os.environ, **ONE_THREAD, "PYTHONPATH": _search_path()},
            )
        self.ready = self.ending = False
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        """None: there are no more."""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        try:
            receive(self.channel)
            self.ready = True
            while (job := self.jobs.get(timeout=REST_SECONDS)) is not None:
                self._help(job)
        except queue.Empty:  # it has rested long enough
            logger.debug("a worker process had nothing to do and ends")
        except (EOFError, OSError):
            if not self.ending:
                logger.warning("a worker process came to its end; going on without it")
        finally:
            self.ready = False
            self.kill()
            self.process.wait()
            self.channel.close()

    def kill(self) -> None:
        """Kills the process, without waiting for its end."""
        self.ending = True
        self.process.kill()
        self.jobs.put(None)

    def _help(self, job: Job) -> None:
        if not job.items:
            return
        send(self.channel, ("work", job.work))
        if failure := receive(self.channel)[0]:  # with all imports: no item waits for them
            job.fail(failure)
            return
        with job.helped():
            for item in job.taken():
                try:
                    send(self.channel, ("item", pickle.dumps(item)), job.locks)
                    job.finish(receive(self.channel)[0])
                except (EOFError, OSError):
                    job.finish(_killed(job))
                    raise
                except Exception as error:  # the item cannot be pickled
                    job.finish(error)
            try:
                send(self.channel, ("rest", b""))
                if failure := receive(self.channel)[0]:
                    job.fail(failure)
            except (EOFError, OSError):
                job.fail(_killed(job))
                raise
            except Exception as error:  # its failure cannot be read
                job.fail(error)


_workers: list[Worker] = []
_changing = threading.Lock()


def begin(count: int) -> list[Worker]:
    """So many workers; those that were missing have just been started."""
    with _changing:
        _workers[:] = [worker for worker in _workers if worker.process.poll() is None]
        while len(_workers) < count:
            _workers.append(Worker())
        return _workers[:count]


def ready() -> list[int]:
    """Process ids of the workers that have started and can take work."""
    return [worker.process.pid for worker in _workers if worker.ready]


@atexit.register
def end(*, wait: bool = True) -> None:
    """Kills all workers; waits until they are gone if asked to, which takes some milliseconds."""
    with _changing:
        for worker in _workers:
            worker.kill()
        while _workers:
            process = _workers.pop().process
            if wait:
                process.wait()


def _forget() -> None:
    """Called in a forked child: the workers are its parent's, and have to end with the parent."""
    for worker in _workers:
        worker.channel.close()
        worker.process.returncode = 0  # not this process's to wait for
    _workers.clear()


os.register_at_fork(after_in_child=_forget)


def _killed(job: Job) -> ArtifactError:
    return ArtifactError(
        f"{job.title}: a worker process was killed, most often for lack of memory; finished shards "
        f"are kept; run again, with fewer workers than {job.processes}"
    )


def _search_path() -> str:
    """The search path of this process, so that a worker imports the same modules."""
    here = Path(__file__).parents[2]
    return os.pathsep.join(str(Path(entry).absolute()) for entry in (*sys.path, here))
