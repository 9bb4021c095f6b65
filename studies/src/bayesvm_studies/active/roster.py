"""Which policies are compared under which models, and exactly how these are built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayesvm_studies.roster import OWN_PACKAGES, PAPER_RECIPE, SKLEARN

# The paper's protocol.
QUERIES = 100
N_INDUCING = 4
PAIR = ("variation_ratio", "softmax_entropy")

SEEDS = 5
# A policy looks at no more rows of a set, and errors are counted on no more; the poker group looks at all.
POOL_ROWS = 10_000
TEST_ROWS = 2_000
POKER_TEST_ROWS = 10_000
CLOCK_ROWS = 1_000_000
CLOCK_ROUNDS = 12
CLOCK_THREADS = 2

POLICIES = {
    "variation_ratio": "Variation ratio",
    "softmax_entropy": "Entropy of the softmax",
    "margin": "Margin",
    "bald": "Mutual information",
    "random": "Random",
}
EVERYTHING = "everything"


@dataclass(frozen=True)
class Learner:
    """A model that takes part.

    Attributes
    ----------
    title : str
    estimator : str
        "module:name" of a class.
    arguments : dict
        For its constructor; the seed is added.
    policies : tuple of str
        Under which it runs.
    standardised : bool
        Whether it is given rows in units of the pool's standard deviations.
    seeds : int
        At most so many.
    packages : tuple of str
        Distributions whose versions make a result another one.
    """

    title: str
    estimator: str
    arguments: dict[str, Any]
    policies: tuple[str, ...]
    standardised: bool = False
    seeds: int = SEEDS
    packages: tuple[str, ...] = OWN_PACKAGES


_HERE = "bayesvm_studies.active"
MODELS = {
    "default": Learner(
        "Default recipe",
        "bayesvm:BayesianSVC",
        # Four points matter where they are, so they are learned, as in the paper. Rows kept for a
        # local part would be inducing points by another name.
        {"n_inducing": N_INDUCING, "learn_inducing": True, "local": False},
        tuple(POLICIES),
    ),
    "random_forest": Learner(
        "Random forest",
        "sklearn.ensemble:RandomForestClassifier",
        {"n_estimators": 100},
        ("margin",),
        packages=SKLEARN,
    ),
    "svc": Learner(
        "Calibrated SVC", f"{_HERE}.calibrated_svc:CalibratedSVC", {}, ("margin",), packages=SKLEARN
    ),
    "paper": Learner(
        "The paper's Adam recipe",
        f"{_HERE}.paper_recipe:PaperRecipe",
        {**PAPER_RECIPE, "n_inducing": N_INDUCING, "rivals": "mean", "local": False, "warm_start": True},
        PAIR,
        standardised=True,
        seeds=1,
    ),
    "dense": Learner(
        "Dense BayesianSVC",
        "bayesvm:BayesianSVC",
        {"local": False},
        ("variation_ratio", "margin", "random"),
    ),
}


def entrant(model: str, policy: str) -> str:
    """Name of a model under a policy in results.

    Examples
    --------
    >>> entrant("svc", "margin")
    'svc/margin'
    """
    return f"{model}/{policy}"


def title_of(name: str) -> str:
    """What a reader sees instead of :func:`entrant`'s name.

    Examples
    --------
    >>> title_of("default/margin"), title_of("svc/margin")
    ('Margin', 'Calibrated SVC, margin')
    """
    model, _, policy = name.partition("/")
    if model == "default":
        return POLICIES.get(policy, policy)
    known = POLICIES.get(policy, policy)
    return f"{MODELS[model].title}, {known[0].lower()}{known[1:]}"
