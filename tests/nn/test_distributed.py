"""Two processes are one with the doubled batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from bayesvm.nn import BayesianSVMHead
from bayesvm.nn import _bound as pairs
from tests.problems import labels, normal

ROOT = Path(__file__).resolve().parents[2]
N, B, STEPS = 96, 24, 4
KINDS = ("natural", "lazy", "gradient")

pytestmark = pytest.mark.skipif(
    not (distributed.is_available() and distributed.is_gloo_available()), reason="torch without gloo"
)


class _Model(nn.Module):
    """A network with a head, whose forward pass is the loss, as DistributedDataParallel wants it."""

    def __init__(self, posterior: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 6))
        self.head = BayesianSVMHead(6, 7, 8, posterior=posterior, kl_warmup=3)
        self.double()

    def forward(self, X, y, step):
        return self.head.loss(self.network(X), y, N, step=step)


def trained(kind: str, rank: int, size: int) -> dict[str, torch.Tensor]:
    """State after some steps, each of two parts, of batches dealt to processes."""
    pairs.DENSE_NUMBERS = 0 if kind == "lazy" else 2**20
    model = _Model("gradient" if kind == "gradient" else "natural")
    run = DistributedDataParallel(model) if size > 1 else model
    X, y = normal(N, 5, seed=1), labels(N, 7, seed=2)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for step in range(STEPS):
        optimiser.zero_grad()
        for part in range(2):
            start = (2 * step + part) * B % N
            index = torch.arange(start, start + B) % N
            mine = index[rank * B // size : (rank + 1) * B // size]
            (0.5 * run(X[mine], y[mine], part == 1)).backward()
        optimiser.step()
    return model.state_dict()


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """States of two processes, by kind of posterior."""
    folder = tmp_path_factory.mktemp("processes")
    command = [sys.executable, "-m", "tests.nn.test_distributed", str(folder)]
    processes = [
        subprocess.Popen([*command, str(rank)], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=170)
        assert process.returncode == 0, errors
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_do_what_one_does(kind, together, monkeypatch):
    monkeypatch.setattr(pairs, "DENSE_NUMBERS", pairs.DENSE_NUMBERS)  # put back what ``trained`` changes
    alone = trained(kind, 0, 1)
    first, second = (states[kind] for states in together)
    for name, value in alone.items():
        if name == "head.vitals":  # each process watches its own rows
            continue
        torch.testing.assert_close(first[name], second[name], rtol=0.0, atol=0.0, msg=name)
        torch.testing.assert_close(
            first[name], value, rtol=1e-7, atol=1e-8, msg=lambda s, n=name: f"{n}: {s}"
        )


if __name__ == "__main__":
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    torch.save({kind: trained(kind, rank, 2) for kind in KINDS}, folder / f"{rank}.pt")
    distributed.destroy_process_group()
