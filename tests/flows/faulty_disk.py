"""Runs of which one file operation fails, or is the last: each is then run again, undisturbed.

    count the operations (K) of one run -> for k in first, first + every, ... K:
        a process in which the k-th operation meets the fault -> one that finishes what it left

Operations are those on files below the root that Python tells its audit hooks of, and fsyncs; what
libraries write themselves (Arrow, SQLite) is only seen where Python opens, renames or flushes it.
Every run is a fork of this process, which has imported all and done nothing.

Told as JSON: root, until (a stage), fault, first, every, overrides. Prints a JSON line for each k.
"""

import errno
import json
import os
import random
import shutil
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args

Fault = Literal["killed", "power lost", "failing", "full"]
"""The process ends; it ends, and all bytes that were not fsynced are cut; the operation raises EIO;
it raises ENOSPC."""
ERRORS = {"failing": errno.EIO, "full": errno.ENOSPC}
FAULTS = get_args(Fault)
OPERATIONS = {"rename", "remove", "mkdir", "rmdir", "link", "truncate", "chmod", "symlink"}
ENDED = 99
"""Exit code of a process that a fault has ended."""


class FaultyDisk:
    """From now on the `at`-th operation below `root` meets the fault; it cannot be taken back."""

    def __init__(self, root: Path, at: int, fault: Fault) -> None:
        self.done = 0
        self._root, self._at, self._fault = f"{root}/", at, fault
        self._fsynced: dict[int, int] = {}
        """Inode -> the modification time at its last fsync; of files that stand, too."""
        for path in self._files():
            self._note(path.stat())
        self._fsync, self._fdatasync = os.fsync, os.fdatasync
        os.fsync = lambda opened: self._sync(self._fsync, opened)
        os.fdatasync = lambda opened: self._sync(self._fdatasync, opened)
        sys.addaudithook(self._heard)

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        module, _, name = event.partition(".")
        if module == "os" and name in OPERATIONS:
            self._operation(name, args[0])
        elif event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR):
            self._operation("open", args[0])

    def _sync(self, flush: Callable[[int], None], opened: int) -> None:
        self._operation("fsync", os.readlink(f"/proc/self/fd/{opened}"))  # noqa: PTH115
        status = os.fstat(opened)
        flush(opened)
        self._note(status)

    def _note(self, status: os.stat_result) -> None:
        self._fsynced[status.st_ino] = status.st_mtime_ns

    def _operation(self, name: str, path: Any) -> None:
        if isinstance(path, int) or not os.fsdecode(path).startswith(self._root):
            return
        self.done += 1
        if self.done != self._at:
            return
        print(name, os.fsdecode(path).removeprefix(self._root), flush=True)
        if number := ERRORS.get(self._fault):
            raise OSError(number, os.strerror(number), path)
        if self._fault == "power lost":
            self._cut_what_was_not_fsynced()
        os._exit(ENDED)

    def _cut_what_was_not_fsynced(self) -> None:
        dice = random.Random(self._at)
        for path in self._files():
            with suppress(FileNotFoundError):  # other threads go on until the end
                status = path.stat()
                if self._fsynced.get(status.st_ino) != status.st_mtime_ns:
                    os.truncate(path, dice.choice([0, status.st_size // 2, status.st_size]))

    def _files(self) -> list[Path]:
        return [path for path in Path(self._root).rglob("*") if path.is_file()]


def in_a_fork(work: Callable[[], object]) -> tuple[int, str]:
    """The exit code of a process that does the work, and all that it printed."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        os.close(reading)
        os.close(writing)
        code = 1
        try:
            work()
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as output:
        said = output.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said


def main(told: dict[str, Any]) -> None:
    """One JSON line for each k: the operation, how the run ended, the next run, and what is left
    behind it and a garbage collection."""
    from flows.params import load
    from flows.pipeline import Pipeline
    from flows.run import run_pipeline
    from tasks.artifact import Store
    from tasks.artifact.collection import collect

    root, fault = Path(told["root"]), told["fault"]

    def run() -> None:
        params = load(Path("params/quickstart.yaml"), told["overrides"])
        summary = run_pipeline(Pipeline(params, root), until=told["until"])
        stages = summary["stages"].items()
        print(json.dumps([[name, facts["digest"], facts["dropped"]] for name, facts in stages]))

    def disturbed(at: int) -> FaultyDisk:
        disk = FaultyDisk(root, at, fault)
        run()
        return disk

    def fresh() -> None:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()

    fresh()
    code, said = in_a_fork(run)
    assert code == 0, said
    undisturbed = said.splitlines()[-1]
    fresh()
    code, said = in_a_fork(lambda: print(disturbed(0).done))
    assert code == 0, said
    operations = int(said.splitlines()[-1])
    for at in range(told["first"], operations + 1, told["every"]):
        fresh()
        code, said = in_a_fork(lambda at=at: disturbed(at))
        again, then = in_a_fork(run)
        line = {"at": at, "code": code, "said": said, "again": again, "then": then}
        line["same"] = then.splitlines()[-1:] == [undisturbed]
        in_a_fork(lambda: collect(Store(root / "data")))
        left = [*root.rglob("*.tmp"), *(root / "data/.work").glob("*")]
        line["left"] = [str(path.relative_to(root)) for path in left]
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
