"""What is trained: networks, heads and settings of every part of the experiment, written down once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SEEDS = 3
# Training rows, the last of a fixed shuffle, kept from training: for temperatures and prior precisions.
HELD_OUT = 2500
N_INDUCING = 64
# The study of the warm-up: epochs over which the divergence gets its weight, and epochs of a run.
WARMUP_EPOCHS = 2
WARMUP_STUDY_EPOCHS = 5
# Clocks: rows of an epoch (150 steps) and batch; endings of those that use the
# recipe's own batch, and of those whose steps are not replayed as a graph.
TIMED_ROWS = 19_200
TIMED_BATCH = 128
PACE = "_pace"
PLAIN = "_plain"

SVM = "bayesvm.nn:BayesianSVMHead"
SOFTMAX = "bayesvm_studies.images.heads:SoftmaxHead"


@dataclass(frozen=True)
class HeadSpec:
    """A last layer that is trained with the network.

    Attributes
    ----------
    title : str
        For tables and figures.
    estimator : str
        "module:name" of the class.
    arguments : dict
        For its constructor.
    dropout : bool
        Whether the network has dropout, which then stays on for predictions.
    """

    title: str
    estimator: str
    arguments: dict[str, Any] = field(default_factory=dict)
    dropout: bool = False


HEADS = {
    "softmax": HeadSpec("Softmax", SOFTMAX),
    "bayesvm": HeadSpec("Bayesian SVM", SVM, {"n_inducing": N_INDUCING, "posterior": "natural"}),
    "bayesvm_adam": HeadSpec("Bayesian SVM (Adam)", SVM, {"n_inducing": N_INDUCING, "posterior": "gradient"}),
    "mc_dropout": HeadSpec("MC dropout", SOFTMAX, dropout=True),
}
# Made of trained softmax networks without training anything.
DERIVED = {"laplace": "Last-layer Laplace", "ensemble": "Deep ensemble"}
OWN_HEADS = ("bayesvm", "bayesvm_adam")
_TEMPERED = "_tempered"


def title_of(model: str) -> str:
    """The name of a model for the reader.

    Examples
    --------
    >>> title_of("softmax_tempered")
    'Softmax + T'
    """
    plain = model.removesuffix(_TEMPERED)
    title = HEADS[plain].title if plain in HEADS else DERIVED.get(plain, plain)
    return f"{title} + T" if model.endswith(_TEMPERED) else title


@dataclass(frozen=True)
class Group:
    """A network on a data set.

    Attributes
    ----------
    title, data, network : str
    recipe : dict
        Settings of :class:`bayesvm.nn.Recipe` that differ from its defaults.
    seeds : dict of str to int
        Heads, and how many seeds each is trained with.
    augment : bool
        Whether training images are cropped, mirrored and cut out.
    dropout : float
        Share that is dropped where a head wants dropout.
    """

    title: str
    data: str
    network: str
    recipe: dict[str, Any]
    seeds: dict[str, int]
    augment: bool = False
    dropout: float = 0.5


_ALL = dict.fromkeys(HEADS, SEEDS)
GROUPS = {
    "mnist": Group(
        "MNIST, the paper’s network",
        "mnist",
        "paper_mnist",
        {"epochs": 10, "batch_size": 128, "rate": 1e-3, "schedule": "one_cycle", "graph": True},
        _ALL,
    ),
    "cifar10": Group(
        "CIFAR-10, the paper’s network",
        "cifar10",
        "paper_cifar10",
        {
            "epochs": 20,
            "batch_size": 128,
            "rate": 1e-3,
            "schedule": "one_cycle",
            "precision": "bf16",
            "graph": True,
        },
        _ALL,
    ),
    "cifar10_residual": Group(
        "CIFAR-10, residual network",
        "cifar10",
        "residual9",
        {
            "epochs": 50,
            "batch_size": 256,
            "rate": 5e-3,
            "schedule": "one_cycle",
            "precision": "bf16",
            "weight_decay": 0.15,
            "graph": True,
        },
        # Others than the two that are compared once: they cost as much.
        {**_ALL, "bayesvm_adam": 1, "mc_dropout": 1},
        augment=True,
        dropout=0.1,
    ),
}
