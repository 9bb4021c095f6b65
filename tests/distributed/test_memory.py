"""Workers keep temporaries for the next pass; the user's own process is left alone."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from bayesvm.distributed._engine import reuse_freed_memory
told = reuse_freed_memory()
for _ in range(50):
    np.ones(1_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    np.ones(1_000_000)
print(told, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def run(**environment):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    told, faults = done.stdout.split()
    return told == "True", int(faults)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc")
def test_temporaries_are_reused_in_a_worker_alone():
    told, faults = run(MALLOC_TRIM_THRESHOLD_="65536")
    assert told
    assert faults < 1000  # 50 times 2000 pages otherwise
    told, _ = run()
    assert not told
