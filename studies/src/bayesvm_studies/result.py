"""What is known after a fit: one line of the results file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from bayesvm_studies.task import Task

# More digits than a clock or a score has.
_DIGITS = 7


@dataclass(frozen=True)
class Result:
    """A fit that was made, failed or took too long.

    Sums over the test rows, not means, so that folds can be pooled.

    Attributes
    ----------
    key, place : str
        Keys of the task, with and without versions.
    data, data_digest, protocol, split, model, config, versions
        As in :class:`Task`.
    status : str
        "ok", "error" or "timeout".
    error : str
        What went wrong.
    n_train, n_test, n_features, n_classes : int
    correct : int
        Test rows whose most probable class is their label.
    log_loss_sum, brier_sum : float
        Sums over the test rows.
    bins : list of [bin, rows, correct, sum of confidences]
        The filled ones of 15 bins of the confidence in the top class.
    fit_s, predict_s, total_s : float
        Seconds of fitting, of predicting the test rows, and of everything.
    peak_mb : float or None
        Highest memory of the process while fitting and predicting, above what
        it held before, in 10^6 bytes.
    extra : dict
        What the model says about itself, such as the number of inducing points.
    started : float
        Seconds since 1970.
    jobs : int
        Processes that ran side by side.
    machine, commit, note : str
    environment : dict
        Versions of everything else.
    """

    key: str
    place: str
    data: str
    data_digest: str
    protocol: str
    split: int
    model: str
    config: dict[str, Any]
    versions: dict[str, str]
    status: str
    error: str = ""
    n_train: int = 0
    n_test: int = 0
    n_features: int = 0
    n_classes: int = 0
    correct: int = 0
    log_loss_sum: float = 0.0
    brier_sum: float = 0.0
    bins: list[list[float]] = field(default_factory=list)
    fit_s: float = 0.0
    predict_s: float = 0.0
    total_s: float = 0.0
    peak_mb: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    started: float = 0.0
    jobs: int = 1
    machine: str = ""
    commit: str = ""
    note: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether there are scores."""
        return self.status == "ok"

    @classmethod
    def of(cls, task: Task, status: str, **known: Any) -> Result:
        """The result of a task."""
        described = {
            name: getattr(task, name)
            for name in ("data", "data_digest", "protocol", "split", "model", "config", "versions")
        }
        return cls(key=task.key, place=task.place, status=status, **described, **known)

    def to_line(self) -> str:
        """One line of JSON, with its end; what is empty is left out."""
        content = {
            name: _rounded(value)
            for name, value in asdict(self).items()
            if value is not None and (value or not isinstance(value, (str, dict, list)))
        }
        return json.dumps(content, separators=(",", ":")) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Result:
        """Read what ``to_line`` wrote; what a later version added is ignored."""
        content = json.loads(line)
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in content.items() if name in known})


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    if isinstance(value, float) and value < 1e9:  # the date keeps its digits
        return float(f"{value:.{_DIGITS}g}")
    return value
