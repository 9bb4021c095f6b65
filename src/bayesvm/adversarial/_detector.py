"""A tripwire: images whose score exceeds a threshold set on clean ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from art.defences.detector.evasion import EvasionDetector
from torch import Tensor

from bayesvm.adversarial._attack import class_numbers, gradient_signs, pgd, roughness, step_along
from bayesvm.adversarial._estimator import ArtClassifier
from bayesvm.adversarial._evaluate import conformal_threshold, random_signs
from bayesvm.adversarial._scores import SCORES, SQUEEZING


class ThresholdDetector(EvasionDetector):
    """Base of detectors: suspicion of images, and a threshold for a stated false-positive rate.

    Parameters
    ----------
    classifier : ArtClassifier
    false_positive_rate : float
        Largest share of clean images that may be flagged.

    Attributes
    ----------
    threshold_ : float
        Images with more suspicion are flagged.
    """

    defence_params: ClassVar[list[str]] = ["classifier", "false_positive_rate"]
    threshold_: float

    def __init__(self, classifier: ArtClassifier, *, false_positive_rate: float = 0.05) -> None:
        super().__init__()
        self.classifier = classifier
        self.false_positive_rate = false_positive_rate
        self._check_params()

    def suspicion(self, x: npt.ArrayLike, batch_size: int = 1000) -> npt.NDArray[np.float64]:
        """How suspicious images are, (N,); the larger the more."""
        raise NotImplementedError

    def calibrate(self, x: npt.ArrayLike, batch_size: int = 1000) -> None:
        """Set the threshold on clean images that nothing was fitted to.

        Of new clean images at most the stated share is flagged on average,
        if they come from where these came from.

        Parameters
        ----------
        x : array-like of shape (N, channels, height, width)
        batch_size : int
        """
        self.threshold_ = conformal_threshold(self.suspicion(x, batch_size), self.false_positive_rate)

    def detect(
        self, x: npt.ArrayLike, batch_size: int = 128, **kwargs: Any
    ) -> tuple[dict[str, Any], npt.NDArray[np.bool_]]:
        """Which images look attacked.

        Parameters
        ----------
        x : array-like of shape (N, channels, height, width)
            Pixels in [0, 1].
        batch_size : int

        Returns
        -------
        report : dict
            ``scores`` of the images, the ``threshold``, and the
            ``false_positive_rate`` it was set for.
        is_adversarial : ndarray of bool, shape (N,)
        """
        if not hasattr(self, "threshold_"):
            raise ValueError(f"this {type(self).__name__} has no threshold yet; call fit first")
        scores = self.suspicion(x, batch_size)
        report = {
            "scores": scores,
            "threshold": self.threshold_,
            "false_positive_rate": self.false_positive_rate,
        }
        return report, scores > self.threshold_

    def _check_params(self) -> None:
        if not isinstance(self.classifier, ArtClassifier):
            raise TypeError(f"classifier must be an ArtClassifier, got {type(self.classifier).__name__}")
        if not 0.0 < self.false_positive_rate < 1.0:
            raise ValueError(f"false_positive_rate must be between 0 and 1, got {self.false_positive_rate}")


class ScoreDetector(ThresholdDetector):
    """Flags images by one score; it needs clean images only.

    Parameters
    ----------
    classifier : ArtClassifier
    score : str
        A key of ``SCORES``.
    false_positive_rate : float
        Largest share of clean images that may be flagged.

    Attributes
    ----------
    threshold_ : float

    Examples
    --------
    >>> import numpy as np, torch
    >>> from bayesvm.adversarial import ArtClassifier, ScoreDetector
    >>> network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
    >>> classifier = ArtClassifier(network, input_shape=(1, 2, 2), n_classes=3)
    >>> clean = np.random.default_rng(0).random((40, 1, 2, 2), np.float32)
    >>> detector = ScoreDetector(classifier, false_positive_rate=0.1)
    >>> detector.fit(clean)
    >>> report, is_adversarial = detector.detect(clean)
    >>> int(is_adversarial.sum())
    3
    """

    defence_params: ClassVar[list[str]] = [*ThresholdDetector.defence_params, "score"]

    def __init__(
        self,
        classifier: ArtClassifier,
        score: str = "log_variation_ratio",
        *,
        false_positive_rate: float = 0.05,
    ) -> None:
        self.score = score
        super().__init__(classifier, false_positive_rate=false_positive_rate)

    def fit(
        self,
        x: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        batch_size: int = 128,
        nb_epochs: int = 20,
        **kwargs: Any,
    ) -> None:
        """Set the threshold on clean images; labels and epochs are not used.

        Parameters
        ----------
        x : array-like of shape (N, channels, height, width)
            Clean images that the network was not trained on: it is more certain of those.
        y : ignored
        batch_size : int
        nb_epochs : ignored
        """
        self.calibrate(x, batch_size)

    def suspicion(self, x: npt.ArrayLike, batch_size: int = 1000) -> npt.NDArray[np.float64]:
        """The score of images, (N,)."""
        found = self.classifier.scores(x, [self.score], batch_size)
        if self.score not in found:
            raise ValueError(f"this classifier has no score {self.score!r}; choose another one")
        return found[self.score]

    def _check_params(self) -> None:
        super()._check_params()
        if self.score not in SCORES:
            raise ValueError(f"score must be one of {list(SCORES)}, got {self.score!r}")


# --- A small classifier that tells attacked images from clean ones by all their scores at once.


Scores = dict[str, npt.NDArray[np.float64]]
KINDS = ("boosting", "logistic")
# Twice the same order: only the logarithm is used.
_UNUSED = "variation_ratio"


class Combination:
    """Log odds of an attack from scores; boosted trees or a regression of scikit-learn.

    Parameters
    ----------
    kind : {"boosting", "logistic"}
        Boosted trees find attacks in both tails of a score; the logistic
        regression has squares and products of the scores for that.
    seed : int

    Attributes
    ----------
    names : list of str
        Scores in the order of its columns, once it is fitted.
    """

    names: list[str]

    def __init__(self, kind: str = "boosting", seed: int = 0) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind must be 'boosting' or 'logistic', got {kind!r}")
        self._kind, self._seed = kind, seed

    def fit(self, clean: Scores, attacked: Scores, names: Iterable[str] | None = None) -> Combination:
        """Learn to separate the two kinds, with equal total weight whatever their numbers of rows.

        Parameters
        ----------
        clean, attacked : dict of str to ndarray of shape (n,) and (m,)
        names : iterable of str or None
            Scores to use; None: all that both have.
        """
        both = [name for name in clean if name in attacked and name != _UNUSED]
        self.names = both if names is None else list(names)
        X = np.concatenate([self._table(clean), self._table(attacked)])
        sizes = [len(next(iter(part.values()))) for part in (clean, attacked)]
        weight = np.repeat([0.5 * sum(sizes) / size for size in sizes], sizes)
        step = "logisticregression__sample_weight" if self._kind == "logistic" else "sample_weight"
        self._fitted = self._made().fit(X, np.repeat([0, 1], sizes), **{step: weight})
        return self

    def log_odds(self, scores: Scores) -> npt.NDArray[np.float64]:
        """Log odds of an attack, (N,)."""
        found: npt.NDArray[np.float64] = self._fitted.decision_function(self._table(scores))
        return found

    def _table(self, scores: Scores) -> npt.NDArray[np.float64]:
        missing = [name for name in self.names if name not in scores]
        if missing:
            raise ValueError(f"the scores {missing} are missing; this detector was fitted with {self.names}")
        return np.stack([scores[name] for name in self.names], 1)

    def _made(self) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import PolynomialFeatures, QuantileTransformer

        if self._kind == "boosting":
            return HistGradientBoostingClassifier(
                max_iter=150,
                learning_rate=0.08,
                max_leaf_nodes=16,
                min_samples_leaf=40,
                random_state=self._seed,
            )
        # Ranks as normal quantiles: scores have tails of very different lengths.
        ranks = QuantileTransformer(n_quantiles=200, output_distribution="normal", random_state=self._seed)
        return make_pipeline(ranks, PolynomialFeatures(2), LogisticRegression(C=1.0, max_iter=2000))


# --- A detector that learns what attacks look like in all scores at once.


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
        Whether it also uses how the model's answer changes when the image
        gets fewer grey levels or is smoothed (Xu et al., 2018): three more
        passes, and the best detector of the study.
    pixels : bool
        Whether it also uses the ``roughness`` of the pixels. That tells
        weak attacks from clean images where no score of the model does; but
        it is a detector of added noise, whatever the model predicts.
    false_positive_rate : float
        Largest share of clean images that may be flagged.
    seed : int

    Attributes
    ----------
    threshold_ : float
    combination_ : Combination
        Its ``names`` are the scores that it uses.
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
