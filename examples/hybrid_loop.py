"""A Bayesian SVM as the last layer, in a PyTorch loop of one's own.

``softmax`` is a loop as everybody writes it: a small convolutional network,
``nn.Linear``, cross-entropy, Adam. ``bayesian`` is the same loop with our
head, whose probabilities want some rows that were not trained on. The script
prints which lines differ, then what comes of it on scikit-learn's digits and
on images that are no digits at all.
"""

from __future__ import annotations

import difflib
import inspect

import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional as F

from bayesvm.nn import BayesianSVMHead, calibrate

EPOCHS, BATCH = 30, 64


def body() -> nn.Module:
    """Everything but the last layer: images of 8 by 8 to 64 features."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 4 * 4, 64), nn.ReLU()),
    )


def softmax(X: Tensor, y: Tensor, held_out: Tensor, held_y: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    network = body()
    head = nn.Linear(64, 10)
    optimiser = torch.optim.Adam([*network.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(X)).split(BATCH):
            loss = F.cross_entropy(head(network(X[batch])), y[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    network.eval(), head.eval()
    with torch.no_grad():
        proba = head(network(new)).softmax(1)
        return proba, 1.0 - proba.amax(1)


def bayesian(X: Tensor, y: Tensor, held_out: Tensor, held_y: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    network = body()
    head = BayesianSVMHead(64, 10)
    optimiser = torch.optim.Adam([*network.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(X)).split(BATCH):
            loss = head.loss(network(X[batch]), y[batch], n_total=len(X))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        head.check()
    network.eval(), head.eval()
    with torch.no_grad():
        calibrate(head, network(held_out), held_y)
        output = head(network(new))
        return output.probabilities(), output.log_variation_ratio()


def main() -> None:
    before, after = (inspect.getsource(loop).splitlines() for loop in (softmax, bayesian))
    print("what changes:\n")
    for line in difflib.unified_diff(before[1:], after[1:], n=0, lineterm=""):
        if not line.startswith(("---", "+++", "@@")):
            print(line)

    images, y = load_digits(return_X_y=True)
    X = torch.tensor(images / 16.0, dtype=torch.float32).reshape(-1, 1, 8, 8)
    rows, test = train_test_split(torch.arange(len(X)), test_size=0.5, stratify=y, random_state=0)
    train, held_out = rows[:-150], rows[-150:]
    label = torch.tensor(y)
    # No digits: the same pixels in another order.
    strange = (
        X[test]
        .flatten(1)[:, torch.randperm(64, generator=torch.Generator().manual_seed(0))]
        .view(-1, 1, 8, 8)
    )
    is_strange = torch.arange(2 * len(test)) >= len(test)

    print(f"\n{'':<10}{'accuracy':>10}{'log-loss':>10}{'AUROC of doubt: shuffled pixels':>33}")
    for name, loop in (("softmax", softmax), ("bayesian", bayesian)):
        proba, doubt = loop(
            *(X[train], label[train], X[held_out], label[held_out]), torch.cat([X[test], strange])
        )
        known = proba[: len(test)]
        accuracy = (known.argmax(1) == label[test]).double().mean()
        loss = F.nll_loss(known.clamp_min(1e-12).log(), label[test])
        print(f"{name:<10}{accuracy:>10.4f}{loss:>10.4f}{roc_auc_score(is_strange, doubt):>33.4f}")


if __name__ == "__main__":
    main()
