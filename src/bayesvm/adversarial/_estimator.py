"""A network with its head as an estimator of adversarial-robustness-toolbox."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from art.estimators.classification import PyTorchClassifier
from torch import Tensor, nn

from bayesvm.adversarial._attack import check_pixels
from bayesvm.adversarial._model import ImageModel, log_odds_against
from bayesvm.adversarial._scores import score_images


class LogOddsLoss(nn.CrossEntropyLoss):
    r"""Log odds against the true class, from log probabilities.

    Its gradient is that of the cross-entropy divided by :math:`1 - p_y`, so
    every attack that uses the direction of the gradient in a row does what it
    would do with the cross-entropy; but that one's gradient vanishes where
    the model is certain. Labels that are distributions over classes are
    compared by cross-entropy.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss, reduced as ``reduction`` says."""
        if target.is_floating_point():
            return super().forward(input, target.to(input.dtype))
        loss = log_odds_against(input, target)
        return {"none": loss, "mean": loss.mean(), "sum": loss.sum()}[self.reduction]


class ArtClassifier(PyTorchClassifier):
    """A network with a Bayesian SVM, a softmax layer or any other output, for attacks of the toolbox.

    Images have pixels in [0, 1] and the shape (N, channels, height, width).
    ``predict`` gives log probabilities, of the Bayesian head in closed form
    (eq. 6.5): predictions, loss and gradients then belong to one function,
    which does not saturate. The loss is the log odds against the true class.

    Parameters
    ----------
    network, head, scale, precision, passes, seed : as for ``ImageModel``
    input_shape : tuple of int
        Of one image, (channels, height, width).
    n_classes : int

    Attributes
    ----------
    image_model : ImageModel
        The same classifier for tensors, for ``fgsm``, ``pgd`` and ``score_images``.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from art.attacks.evasion import FastGradientMethod
    >>> from bayesvm.adversarial import ArtClassifier
    >>> network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
    >>> classifier = ArtClassifier(network, input_shape=(1, 2, 2), n_classes=3)
    >>> x = np.full((2, 1, 2, 2), 0.5, np.float32)
    >>> np.abs(FastGradientMethod(classifier, eps=0.25).generate(x, np.array([0, 1])) - x).max()
    np.float32(0.25)
    """

    def __init__(
        self,
        network: Any,
        head: Any = None,
        *,
        input_shape: tuple[int, ...],
        n_classes: int,
        scale: float = 1.0,
        precision: str = "float32",
        passes: int = 1,
        seed: int = 0,
    ) -> None:
        if n_classes < 2:
            raise ValueError(f"n_classes must be at least 2, got {n_classes}")
        if isinstance(network, ImageModel):
            model = network
        else:
            model = ImageModel(network, head, scale=scale, precision=precision, passes=passes, seed=seed)
        super().__init__(
            model=model,
            loss=LogOddsLoss(),
            input_shape=tuple(input_shape),
            nb_classes=n_classes,
            clip_values=(0.0, 1.0),
            device_type="gpu" if model.device.type == "cuda" else "cpu",
        )
        self.image_model = model

    @classmethod
    def from_hybrid(cls, classifier: Any, input_shape: tuple[int, ...], **arguments: Any) -> Self:
        """From a fitted ``HybridClassifier``; classes are numbered as in ``classes_``.

        Parameters
        ----------
        classifier : HybridClassifier
        input_shape : tuple of int
        **arguments
            ``scale`` and others of this class.
        """
        parts = (classifier.network_, classifier.head_)
        return cls(*parts, input_shape=input_shape, n_classes=len(classifier.classes_), **arguments)

    def scores(
        self, x: npt.ArrayLike, names: Iterable[str] | None = None, batch_size: int = 1000
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Scores of images by name, the larger the more suspicious; see ``score_rows``."""
        found = score_images(self.image_model.eval(), self._images(x), names, batch_size)
        return {name: value.cpu().numpy() for name, value in found.items()}

    def classes(self, x: npt.ArrayLike, batch_size: int = 1000) -> npt.NDArray[np.int64]:
        """The class that the model itself predicts, from its own probabilities (eq. 6.4)."""
        images, model = self._images(x), self.image_model.eval()
        with torch.no_grad():
            parts = [model.rows(b.to(model.device)).output.predict() for b in images.split(batch_size)]
        found: npt.NDArray[np.int64] = torch.cat(parts).cpu().numpy()
        return found

    def _images(self, x: npt.ArrayLike) -> Tensor:
        """Images as a tensor, of the shape and with the pixels that the network is for."""
        images = torch.as_tensor(np.asarray(x, np.float32))
        check_pixels(images)
        if tuple(images.shape[1:]) != self.input_shape:
            raise ValueError(
                f"images have shape {tuple(images.shape[1:])}, but this classifier is for {self.input_shape}"
            )
        return images
