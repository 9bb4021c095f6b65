"""A tripwire: images whose score exceeds a threshold set on clean ones."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayesvm.adversarial.estimator import ArtClassifier  # says which extra is missing
from bayesvm.adversarial.evaluate import conformal_threshold
from bayesvm.adversarial.scores import SCORES

# The estimator's import, one line up, has asked for the toolbox.
try:
    from art.defences.detector.evasion import EvasionDetector
except ImportError as error:
    raise ImportError(
        "detectors need adversarial-robustness-toolbox: pip install 'bayesvm[adversarial]'"
    ) from error

__all__ = ["ScoreDetector", "ThresholdDetector"]


class ThresholdDetector(EvasionDetector):
    """What detectors share: suspicion of images, and a threshold for a stated false-positive rate.

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
