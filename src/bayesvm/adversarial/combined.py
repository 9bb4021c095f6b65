"""A detector that learns what attacks look like in all scores at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesvm.adversarial.attack import class_numbers, gradient_signs, pgd, step_along
from bayesvm.adversarial.combination import Combination, Scores
from bayesvm.adversarial.detector import ThresholdDetector
from bayesvm.adversarial.estimator import ArtClassifier
from bayesvm.adversarial.evaluate import random_signs
from bayesvm.adversarial.pixels import roughness
from bayesvm.adversarial.scores import SCORES
from bayesvm.adversarial.squeezing import SQUEEZING

__all__ = ["CombinedDetector"]


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
    squeezing : bool
        Whether it also looks at how the model's answer changes when the image
        gets fewer grey levels or is smoothed (Xu et al., 2018): three more
        passes, and the best detector of the study.
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
    combination_ : Combination
        Its ``names`` are the scores that it looks at.
    """

    defence_params: ClassVar[list[str]] = [
        *ThresholdDetector.defence_params,
        "strengths",
        "attacks",
        "kind",
        "noise",
        "squeezing",
        "pixels",
        "seed",
    ]
    combination_: Combination

    def __init__(
        self,
        classifier: ArtClassifier,
        strengths: Sequence[float] = (0.02, 0.05, 0.1, 0.2, 0.4),
        *,
        attacks: Sequence[str] = ("fgsm", "pgd"),
        kind: str = "boosting",
        noise: bool = False,
        false_positive_rate: float = 0.05,
        squeezing: bool = True,
        pixels: bool = False,
        seed: int = 0,
    ) -> None:
        self.strengths, self.attacks, self.kind, self.noise, self.seed = strengths, attacks, kind, noise, seed
        self.squeezing, self.pixels = squeezing, pixels
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
        clean: Scores,
        attacked: Scores,
    ) -> None:
        """Learn from scores that are already there; ``calibrate`` then sets the threshold.

        Both kinds count alike, however many rows they have. Of scores that
        both have all are used, those of your own too.

        Parameters
        ----------
        clean, attacked : dict of str to ndarray of shape (n,) and (m,)
            As ``ArtClassifier.scores`` gives them.
        """
        self.combination_ = Combination(self.kind, self.seed).fit(clean, attacked)

    def suspicion_of_scores(self, scores: Scores) -> npt.NDArray[np.float64]:
        """Log odds of an attack from scores that are already there, (N,)."""
        if not hasattr(self, "combination_"):
            raise ValueError("this CombinedDetector is not fitted yet; call fit first")
        return self.combination_.log_odds(scores)

    def suspicion(self, x: npt.ArrayLike, batch_size: int = 1000) -> npt.NDArray[np.float64]:
        """Log odds of an attack, (N,)."""
        return self.suspicion_of_scores(self._scores_of(x, batch_size))

    def _examples(self, images: Tensor, y: Tensor, batch_size: int) -> tuple[Scores, Scores]:
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

    def _scores(self, sets: Iterable[Tensor], batch_size: int) -> Scores:
        parts = [self._scores_of(x.cpu().numpy(), batch_size) for x in sets]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _scores_of(self, x: npt.ArrayLike, batch_size: int) -> Scores:
        names = [*SCORES, *SQUEEZING] if self.squeezing else list(SCORES)
        found = self.classifier.scores(x, names, batch_size)
        if self.pixels:
            found["roughness"] = roughness(torch.as_tensor(np.asarray(x, np.float32))).numpy()
        return found

    def _check_params(self) -> None:
        super()._check_params()
        if not np.ndim(self.strengths) or not len(self.strengths) or not all(s > 0 for s in self.strengths):
            raise ValueError(f"strengths must be a list of positive numbers, got {self.strengths}")
        if not self.attacks or not set(self.attacks) <= {"fgsm", "pgd"}:
            raise ValueError(f"attacks must be 'fgsm', 'pgd' or both, got {self.attacks}")
        Combination(self.kind)
