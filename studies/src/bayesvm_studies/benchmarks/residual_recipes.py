"""How wide the residual network is to be and how much held back, chosen on training rows of CIFAR-10.

    python -m bayesvm_studies.benchmarks.residual_recipes --device cuda --json FILE

Trains on 40,000 training rows for 30 epochs and scores the other 10,000; test
rows are not looked at. A minute a recipe on a large GPU.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from bayesvm.nn import BayesianSVMHead, Recipe, train
from bayesvm.nn._loop import evaluate
from bayesvm_studies.datasets import load_images
from bayesvm_studies.images.networks import CropFlipCutout, residual9

HELD_OUT, EPOCHS, RATE = 10_000, 30, 5e-3
# Width, side of the hole, weight decay.
RECIPES = (
    (64, 8, 0.05),
    (64, 12, 0.05),
    (64, 16, 0.05),
    (64, 12, 0.15),
    (64, 12, 0.4),
    (96, 12, 0.15),
)


def tried(
    width: int, hole: int, decay: float, X: Tensor, y: Tensor, epochs: int
) -> dict[str, float | list[float]]:
    """Accuracy and log-loss on the held-out rows, with mirror images averaged and without."""
    torch.manual_seed(0)
    network, n_features = residual9(width)
    network, head = network.to(X.device), BayesianSVMHead(n_features, 10, 64).to(X.device)
    recipe = Recipe(
        epochs=epochs,
        batch_size=256,
        rate=RATE,
        schedule="one_cycle",
        precision="bf16",
        weight_decay=decay,
        graph=True,
        augment=CropFlipCutout(hole=hole),
    )
    held = X[:HELD_OUT], y[:HELD_OUT]
    train(network, head, X[HELD_OUT:], y[HELD_OUT:], recipe)
    mirrored = evaluate(network, head, *held, precision="bf16")
    scaled, mirror = network.children()
    assert isinstance(mirror.body, nn.Module)
    alone = evaluate(nn.Sequential(scaled, mirror.body), head, *held, precision="bf16")
    setting = {"width": width, "hole": hole, "wd": decay, "rate": RATE, "epochs": epochs}
    return {**setting, "mirrored": list(mirrored), "plain": list(alone)}


def main() -> None:
    """Try all recipes, adding a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    images = load_images("cifar10", options.data)
    order = np.random.default_rng(7).permutation(len(images.train_y))
    X = torch.from_numpy(images.train_X[order]).to(options.device)
    y = torch.from_numpy(images.train_y[order]).long().to(options.device)
    for width, hole, decay in RECIPES:
        line = json.dumps(tried(width, hole, decay, X, y, options.epochs))
        print(line, flush=True)
        with options.json.open("a") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
