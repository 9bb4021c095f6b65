"""A detector that learns what attacks look like in all scores at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm.adversarial.attack import class_numbers, gradient_signs, pgd, step_along
from bayesvm.adversarial.detector import ThresholdDetector
from bayesvm.adversarial.estimator import ArtClassifier
from bayesvm.adversarial.evaluate import random_signs
from bayesvm.adversarial.pixels import roughness
from bayesvm.adversarial.scores import SCORES

__all__ = ["CombinedDetector", "combination"]

# Twice the same order: only the logarithm is used.
_NAMES = tuple(name for name in SCORES if name != "variation_ratio")


def combination(kind: str, seed: int = 0) -> Any:
    """A small classifier of score vectors that nobody has fitted.

    Parameters
    ----------
    kind : {"boosting", "logistic"}
        Boosted trees find attacks in both tails of a score; the logistic
        regression has squares and products of the scores for that.
    seed : int
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, QuantileTransformer

    if kind == "boosting":
        return HistGradientBoostingClassifier(
            max_iter=150, learning_rate=0.08, max_leaf_nodes=16, min_samples_leaf=40, random_state=seed
        )
    if kind == "logistic":
        # Ranks as normal quantiles: scores have tails of very different lengths.
        ranks = QuantileTransformer(n_quantiles=200, output_distribution="normal", random_state=seed)
        return make_pipeline(ranks, PolynomialFeatures(2), LogisticRegression(C=1.0, max_iter=2000))
    raise ValueError(f"kind must be 'boosting' or 'logistic', got {kind!r}")


class CombinedDetector(ThresholdDetector):
    """Flags images by a small classifier of all scores, fitted to attacks that it makes itself.

    Weak attacks push images deeper into a wrong class, strong ones away from
    all classes: no single score sees both.

    Parameters
    ----------
    classifier : ArtClassifier
    strengths : sequence of float
        Of the attacks that it learns from.
    attacks : sequence of {"fgsm", "pgd"}
    kind : {"boosting", "logistic"}
    noise : bool
        Whether noisy images of the same strengths count as not attacked.
        Without, noise is flagged too, as what the network should not be
        trusted with; with, fewer attacks are.
    pixels : bool
        Whether it also looks at the ``roughness`` of the pixels. That tells
        weak attacks from clean images where no score of the model does; but
        it is a detector of added noise, whatever the model believes.
    false_positive_rate : float
        Largest share of clean images that may be flagged.
    seed : int

    Attributes
    ----------
    threshold_ : float
    combination_ : classifier of scikit-learn
    names_ : list of str
        Scores in the order of its columns.
    """

    defence_params: ClassVar[list[str]] = [
        *ThresholdDetector.defence_params,
        "strengths",
        "attacks",
        "kind",
        "noise",
        "pixels",
        "seed",
    ]
    combination_: Any
    names_: list[str]

    def __init__(
        self,
        classifier: ArtClassifier,
        strengths: Sequence[float] = (0.02, 0.05, 0.1, 0.2, 0.4),
        *,
        attacks: Sequence[str] = ("fgsm", "pgd"),
        kind: str = "boosting",
        noise: bool = False,
        false_positive_rate: float = 0.05,
        pixels: bool = False,
        seed: int = 0,
    ) -> None:
        self.strengths, self.attacks, self.kind, self.noise, self.seed = strengths, attacks, kind, noise, seed
        self.pixels = pixels
        super().__init__(classifier, false_positive_rate=false_positive_rate)

    def fit(
        self,
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        batch_size: int = 128,
        nb_epochs: int = 20,
        **kwargs: Any,
    ) -> None:
        """Attack images, learn to tell them by their scores, and set the threshold.

        A quarter of the images is not learned from: its clean scores set the
        threshold. If the network was trained on all of them, call
        ``calibrate`` afterwards with clean images it has not seen; it is
        more certain of those it has.

        Parameters
        ----------
        x : array-like of shape (N, channels, height, width)
            Clean images with pixels in [0, 1].
        y : array-like of shape (N,) or (N, C)
            Their classes, or one-hot.
        batch_size : int
        nb_epochs : ignored
        """
        images = torch.as_tensor(np.asarray(x, np.float32))
        labels = class_numbers(y)
        if len(images) != len(labels):
            raise ValueError(f"got {len(images)} images and {len(labels)} labels")
        order = torch.from_numpy(np.random.default_rng(self.seed).permutation(len(images)))
        held, learned = order[: len(order) // 4], order[len(order) // 4 :]
        clean, attacked = self._examples(images[learned], labels[learned], batch_size)
        self.fit_scores(clean, attacked)
        self.calibrate(images[held].numpy(), batch_size)

    def fit_scores(
        self,
        clean: dict[str, npt.NDArray[np.float64]],
        attacked: dict[str, npt.NDArray[np.float64]],
    ) -> None:
        """Learn from scores that are already there; ``calibrate`` then sets the threshold.

        Both kinds count alike, however many rows they have. Of scores that
        both have all are used, those of your own too.

        Parameters
        ----------
        clean, attacked : dict of str to ndarray of shape (n,) and (m,)
            As ``ArtClassifier.scores`` gives them.
        """
        self.names_ = [name for name in clean if name in attacked and name != "variation_ratio"]
        X = np.concatenate([self._columns(clean), self._columns(attacked)])
        sizes = [len(next(iter(part.values()))) for part in (clean, attacked)]
        label = np.repeat([0, 1], sizes)
        weight = np.repeat([0.5 * sum(sizes) / size for size in sizes], sizes)
        made = combination(self.kind, self.seed)
        step = (
            {"logisticregression__sample_weight": weight}
            if self.kind == "logistic"
            else {"sample_weight": weight}
        )
        self.combination_ = made.fit(X, label, **step)

    def suspicion_of_scores(self, scores: dict[str, npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
        """Log odds of an attack from scores that are already there, (N,)."""
        if not hasattr(self, "combination_"):
            raise ValueError("this CombinedDetector is not fitted yet; call fit first")
        found: npt.NDArray[np.float64] = self.combination_.decision_function(self._columns(scores))
        return found

    def suspicion(self, x: npt.ArrayLike, batch_size: int = 1000) -> npt.NDArray[np.float64]:
        """Log odds of an attack, (N,)."""
        return self.suspicion_of_scores(self._scores_of(x, batch_size))

    def _examples(
        self, images: Tensor, y: Tensor, batch_size: int
    ) -> tuple[dict[str, npt.NDArray[np.float64]], dict[str, npt.NDArray[np.float64]]]:
        """Scores of what is not attacked and of what is."""
        model = self.classifier.image_model.eval()
        images, y = images.to(model.device), y.to(model.device)
        signs = gradient_signs(model, images, y, batch_size)
        clean, attacked = [images], []
        for number, strength in enumerate(self.strengths):
            if self.noise:
                clean.append(random_signs(images, strength, seed=self.seed + number))
            if "fgsm" in self.attacks:
                attacked.append(step_along(images, signs, strength))
            if "pgd" in self.attacks:
                attacked.append(pgd(model, images, y, strength, batch_size=batch_size))
        return self._scores(clean, batch_size), self._scores(attacked, batch_size)

    def _scores(self, sets: Iterable[Tensor], batch_size: int) -> dict[str, npt.NDArray[np.float64]]:
        parts = [self._scores_of(x.cpu().numpy(), batch_size) for x in sets]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _scores_of(self, x: npt.ArrayLike, batch_size: int) -> dict[str, npt.NDArray[np.float64]]:
        found = self.classifier.scores(x, _NAMES, batch_size)
        if self.pixels:
            found["roughness"] = roughness(torch.as_tensor(np.asarray(x, np.float32))).numpy()
        return found

    def _columns(self, scores: dict[str, npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
        missing = [name for name in self.names_ if name not in scores]
        if missing:
            raise ValueError(f"the scores {missing} are missing; this detector was fitted with {self.names_}")
        return np.stack([scores[name] for name in self.names_], 1)

    def _check_params(self) -> None:
        super()._check_params()
        if not len(self.strengths) or not all(s > 0 for s in self.strengths):
            raise ValueError(f"strengths must be positive numbers, at least one, got {self.strengths}")
        if not self.attacks or not set(self.attacks) <= {"fgsm", "pgd"}:
            raise ValueError(f"attacks must be 'fgsm', 'pgd' or both, got {self.attacks}")
        combination(self.kind)
