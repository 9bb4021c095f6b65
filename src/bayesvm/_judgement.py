"""Whether a model knows more than how frequent the classes are: one formula and one wording.

Fits, tables, the command line and the report all say it with :meth:`Gain.doubt`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayesvm._formatting import number, plain

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int64]

_STANDARD_ERRORS = 2.0
# Numbers that were fitted to leave-one-out, which flatters it by about a nat each: temperature and spread.
# Class offsets are a third kind, but the class frequencies were read off the same rows too.
_FITTED = 2


class NothingLearnedWarning(UserWarning):
    """The class probabilities are no better than the frequencies of the classes."""


class Gain(NamedTuple):
    """What probabilities gain in log-loss over the class frequencies.

    Attributes
    ----------
    log_loss, of_frequencies : float
        Of the model and of the frequencies, on the same rows.
    error : float
        Standard error of the difference, paired over rows; infinite for a single row.
    charge : float
        For what was fitted to these rows.
    """

    log_loss: float
    of_frequencies: float
    error: float
    charge: float = 0.0

    @property
    def value(self) -> float:
        """The difference less the charge; positive if the model is better."""
        return self.of_frequencies - self.log_loss - self.charge

    @property
    def is_certain(self) -> bool:
        """Whether it is more than two standard errors (eq. 6.20); not so where nothing is known."""
        return self.value > _STANDARD_ERRORS * self.error

    def doubt(self, rows: str) -> str:
        """What a user should be told where it is not certain; ``rows`` says on which rows."""
        charge = f", less {number(self.charge)} for what was fitted to these rows" if self.charge else ""
        return plain(
            f"the probabilities are no better than the class frequencies, as far as {rows} can tell: their "
            f"log-loss is {number(self.log_loss)} and that of the frequencies {number(self.of_frequencies)}"
            f"{charge}; the standard error of the difference is {number(self.error)}. The columns may say "
            "nothing about the classes, or the rows are too few"
        )


def gain_over_frequencies(
    label_proba: FloatArray,
    label: IntArray,
    mass: FloatArray,
    weight: FloatArray | None = None,
    part: FloatArray | None = None,
    left_out: bool = False,
) -> Gain:
    """Mean gain in log-probability of the labels, with its standard error (eqs. 6.19, 6.20).

    Parameters
    ----------
    label_proba : ndarray of shape (N,)
        Probability that the model gives to the label of each row.
    label : ndarray of shape (N,)
        Positions of the labels among the classes.
    mass : ndarray of shape (C,)
        Weight that each class has in the training rows.
    weight, part : ndarray of shape (N,) or None
        Weight of the row, and of one copy of it: so many copies are so many rows. None: ones.
    left_out : bool
        Whether these are training rows, left out one at a time.
    """
    weight = np.ones(len(label)) if weight is None else weight
    unit = weight if part is None else part * weight
    loss = -np.log(np.maximum(label_proba, np.finfo(np.float64).tiny))
    base = -np.log((mass[label] + 1.0) / (mass.sum() + len(mass)))
    total = float(weight.sum())
    log_loss, of_frequencies = float(weight @ loss) / total, float(weight @ base) / total
    one_row = float(unit.sum()) / total**2  # as a share of all
    deviation = base - loss - (of_frequencies - log_loss)
    variance = float(unit @ np.square(deviation)) / total**2
    error = math.sqrt(variance / (1.0 - one_row)) if one_row < 1.0 else math.inf
    return Gain(log_loss, of_frequencies, error, _FITTED * one_row if left_out else 0.0)
