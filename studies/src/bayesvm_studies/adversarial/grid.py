"""What is attacked and how strongly, written down once."""

from __future__ import annotations

from dataclasses import dataclass

from bayesvm_studies.images.recipes import GROUPS, title_of

# Largest change of a pixel, which lies in [0, 1]. The paper's text gives no grid; this is ours.
EPSILONS = {
    "mnist": (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5),
    "cifar10": (0.01, 0.02, 0.05, 0.1, 0.2, 0.3),
}
# Strengths of the attacks that the combined detector is fitted to: none that it is judged by.
FITTED_AT = {
    "mnist": (0.03, 0.075, 0.125, 0.175, 0.25, 0.35, 0.45),
    "cifar10": (0.007, 0.015, 0.03, 0.07, 0.14, 0.25),
}
# Passes with dropout that an attacker follows the gradient of.
ATTACK_PASSES = 4
# False positives at which true ones are counted.
FPR = 0.05
COMBINED = "combined"
SQUEEZED = "squeezed"
SCORE_TITLES = {
    "variation_ratio": "Variation ratio",
    "log_variation_ratio": "Log variation ratio",
    "entropy": "Entropy",
    "mutual_information": "Mutual information",
    "standardised_margin": "Standardised margin",
    "latent_variance": "Latent variance",
    "inducing_distance": "Distance to inducing points",
    "step_response": "Response to a step",
    "feature_shift": "Shift of features",
    COMBINED: "Combined detector",
    SQUEEZED: "Combined, with squeezing",
}


@dataclass(frozen=True)
class Attack:
    """A way to change images.

    Attributes
    ----------
    title : str
    steps : int
        Gradients that are followed.
    rows : int or None
        Test images that are attacked, the first; None: all.
    seeds : int or None
        Seeds of each model that are attacked, the first; None: all.
    score : str or None
        What it lowers once an image is misclassified: a score, or "mimic",
        the distance of all scores from those of the clean image.
    """

    title: str
    steps: int
    rows: int | None = None
    seeds: int | None = None
    score: str | None = None


ATTACKS = {
    "fgsm": Attack("FGSM", 1),
    # Dozens of gradients for every image: fewer images, one seed.
    "pgd": Attack("PGD, 20 steps", 20, 1000, 1),
    "adaptive": Attack("Adaptive: lowers the variation ratio", 40, 1000, 1, "log_variation_ratio"),
    "mimic": Attack("Adaptive: imitates all scores", 40, 1000, 1, "mimic"),
}
_ALL = tuple(ATTACKS)


@dataclass(frozen=True)
class Victim:
    """A model that is attacked.

    Attributes
    ----------
    head : str
        The head it is trained with, a name of the experiment on images.
    attacks : tuple of str
    tempered : bool
        Whether probabilities have the temperature fitted on held-out rows.
    together : bool
        Whether all seeds are one model.
    """

    head: str
    attacks: tuple[str, ...] = ("fgsm", "pgd")
    tempered: bool = False
    together: bool = False


VICTIMS = {
    "bayesvm": Victim("bayesvm", _ALL),
    # Imitating everything takes many forward passes a step: of our two heads, the one.
    "bayesvm_adam": Victim("bayesvm_adam", ("fgsm", "pgd", "adaptive")),
    "softmax": Victim("softmax"),
    # The temperature changes scores, and the gradients of an attack hardly: one attack shows it.
    "softmax_tempered": Victim("softmax", ("fgsm",), tempered=True),
    "ensemble": Victim("softmax", together=True),
    "mc_dropout": Victim("mc_dropout"),
}


def victim_title(name: str) -> str:
    """The name of a model for the reader.

    Examples
    --------
    >>> victim_title("softmax_tempered")
    'Softmax + T'
    """
    return title_of(name)


def score_title(name: str) -> str:
    """The name of a score for the reader.

    Examples
    --------
    >>> score_title("log_variation_ratio"), score_title("some_score")
    ('Log variation ratio', 'Some score')
    """
    return SCORE_TITLES.get(name, name.replace("_", " ").capitalize())


def network_of(group: str) -> str:
    """The title of a network on a data set."""
    return GROUPS[group].title
