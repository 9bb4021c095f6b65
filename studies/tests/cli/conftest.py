"""The fixtures of the command line's own tests, and fits without processes."""

import io
import json
import time
from dataclasses import asdict

import pytest
from tests.cli.conftest import bayesvm, here, workshop  # noqa: F401

from bayesvm_studies import pool, runner, worker
from bayesvm_studies.datasets import DatasetError
from bayesvm_studies.results import Result


@pytest.fixture
def inline(monkeypatch):
    """A worker's work is done in this process; what processes are for is tested with the runner."""

    def run_tasks(tasks, jobs, folder_of, started, until):
        warm = set()
        for task in tasks:
            started(task)
            began, answers = time.time(), io.StringIO()
            try:
                worker._work({**asdict(task), "folder": str(folder_of(task.data))}, answers, warm)
                answer = json.loads(answers.getvalue().splitlines()[-1])
            except DatasetError as error:
                answer = {"status": "error", "error": pool.error_words(error)}
            yield Result.of(task, answer.pop("status"), started=began, jobs=jobs, **answer)

    monkeypatch.setattr(runner, "run_tasks", run_tasks)
