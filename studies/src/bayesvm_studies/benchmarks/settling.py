"""What the pass over all rows at the end of training is worth: a small network on digits and on small images.

    python -m bayesvm_studies.benchmarks.settling --data DIR --json results/benchmarks/settling.json

Needs MNIST and CIFAR-10 (``bayesvm_studies.datasets.load_images``). Six minutes on one core.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from bayesvm.nn import BayesianSVMHead, Recipe, calibrate, settle, train
from bayesvm_studies.benchmarks.common import command_line, use_threads, write_json
from bayesvm_studies.datasets import load_images

ROWS, HELD_OUT, TEST, EPOCHS = 8000, 3000, 5000, 8
SEEDS = 3


def rows_of(name: str, folder: str | None) -> list[tuple[Tensor, Tensor]]:
    """Rows to train on, to calibrate with and to test with, as standardised numbers."""
    data = load_images(name, folder)
    X, X_test = (torch.as_tensor(a).float() for a in (data.train_X, data.test_X))
    X, X_test = (a[:, None] if a.ndim == 3 else a for a in (X, X_test))
    y, y_test = (torch.as_tensor(a).long() for a in (data.train_y, data.test_y))
    mean, deviation = X[:ROWS].mean(), X[:ROWS].std()
    parts = ((X[:ROWS], y[:ROWS]), (X[-HELD_OUT:], y[-HELD_OUT:]), (X_test[:TEST], y_test[:TEST]))
    return [((a - mean) / deviation, b) for a, b in parts]


def network(channels: int, side: int) -> nn.Module:
    """Two convolutions, two dense layers, 64 features."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(32 * (side // 4) ** 2, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU()),
    )


@torch.no_grad()
def scores(
    body: nn.Module, head: BayesianSVMHead, held_out: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]
) -> dict[str, float]:
    """Accuracy, and log-loss as calibrated on held-out rows."""
    body.eval()
    head.eval()
    calibrate(head, body(held_out[0]), held_out[1])
    p = head(body(test[0])).probabilities()
    own = p.gather(1, test[1][:, None])
    return {
        "accuracy": float((p.argmax(1) == test[1]).double().mean()),
        "log_loss": -float(own.log().mean()),
    }


def run(name: str, schedule: str, seed: int, folder: str | None) -> dict[str, dict[str, float]]:
    """Scores before and after."""
    training, held_out, test = rows_of(name, folder)
    torch.manual_seed(seed)
    body, head = network(*training[0].shape[1:3]), BayesianSVMHead(64, 10, seed=seed)
    recipe = Recipe(epochs=EPOCHS, schedule=schedule, seed=seed, settle=False)
    train(body, head, *training, recipe)
    before = scores(body, head, held_out, test)
    settle(body, head, *training, seed=seed)
    return {"before": before, "after": scores(body, head, held_out, test)}


def main() -> None:
    """Write means over seeds."""
    options = command_line(__doc__, data="folder of the image sets").parse_args()
    use_threads(1)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in ("mnist", "cifar10"):
        for schedule in ("constant", "one_cycle"):
            runs = [run(name, schedule, seed, options.data) for seed in range(SEEDS)]
            found[f"{name}, {schedule}"] = {
                when: {k: round(float(np.mean([r[when][k] for r in runs])), 4) for k in runs[0][when]}
                for when in ("before", "after")
            }
            print(f"{name}, {schedule}", found[f"{name}, {schedule}"], flush=True)
    content = {"rows": ROWS, "epochs": EPOCHS, "seeds": SEEDS, "torch": torch.__version__, **found}
    write_json(options.json, content)


if __name__ == "__main__":
    main()
