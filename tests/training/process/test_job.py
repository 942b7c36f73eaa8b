"""The file in which a training process says why it failed."""

import json
import resource
import threading

import pytest

from tasks.errors import DataError, TrainingError
from tasks.training.process.job import Job, read_job, write_failure
from tasks.training.process.outcome import raise_failure


@pytest.fixture
def job(tmp_path) -> Job:
    names = ("model", "base", "tokenizer", "pairs", "output", "scratch")
    return Job(**{name: str(tmp_path) for name in names}, params={}, identity={})


def test_the_first_failure_is_kept_until_the_job_is_written_again(job):
    write_failure(job, DataError("row 7 is wrong"))
    write_failure(job, RuntimeError("the others are gone"))
    assert json.loads(job.error.read_text()) == {
        "kind": "DataError",
        "message": "row 7 is wrong",
        "own": True,
    }
    assert read_job(job.write()) == job
    write_failure(job, KeyError("x"))
    assert json.loads(job.error.read_text()) == {
        "kind": "KeyError",
        "message": "KeyError: 'x'",
        "own": False,
    }
    with pytest.raises(TrainingError, match=r"error\.json is no training job; it is written by"):
        read_job(job.error)


def test_a_disk_without_room_for_a_failure_hides_none_and_the_last_lines_tell_of_it(job):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        write_failure(job, DataError("row 7 is wrong"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with pytest.raises(TrainingError, match=r"ends with:\nerror: row 7 is wrong$"):
        raise_failure(job, 1, ["error: row 7 is wrong"], job.error)


def test_of_failures_at_once_one_is_kept_whole(job):
    for _ in range(200):
        job.error.unlink(missing_ok=True)
        start, raised = threading.Barrier(4), []

        def fail(number, start=start, raised=raised):
            start.wait()
            try:
                write_failure(job, DataError(f"process {number}"))
            except Exception as error:
                raised.append(error)

        threads = [threading.Thread(target=fail, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert raised == []
        assert json.loads(job.error.read_text())["message"].startswith("process ")
        assert [path.name for path in job.error.parent.iterdir()] == ["error.json"]
