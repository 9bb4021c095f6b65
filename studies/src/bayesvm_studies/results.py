"""Tasks, their results, and the file of results to which lines are only ever added.

A line is written by one call, under a lock, and forced to the disk. Whatever
kills the process, the file holds every result reported before, and at most
one torn line at its end, which readers ignore and the next writer removes.

A finished file may be kept compressed: where ``X.jsonl`` does not exist,
``X.jsonl.xz`` is read in its place, and unpacked before a line is added.
"""

from __future__ import annotations

import csv
import datetime
import hashlib
import io
import json
import lzma
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any


def digest(content: Any) -> str:
    """Sixteen hexadecimal digits that stand for anything JSON can hold."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# Keys are made of the names that modules had when results were first recorded, so that results and
# kept models stay valid when code moves. By module, or by "module:name" where several became one.
RECORDED_AS = {
    "bayesvm_studies.competitors.svgp:GPflowSVGP": "bayesvm.experiments.gpflow_svgp",
    "bayesvm_studies.competitors.svgp:GPyTorchSVGP": "bayesvm.experiments.gpytorch_svgp",
    "bayesvm_studies.competitors.classifiers:ScaledLogisticRegression": "bayesvm.experiments.scaled_logistic",
    "bayesvm_studies.competitors.classifiers:TunedSVC": "bayesvm.experiments.tuned_svc",
    "bayesvm_studies.competitors.classifiers:CalibratedSVC": "bayesvm.experiments.active.calibrated_svc",
    "bayesvm_studies.structured.one_vs_rest": "bayesvm.experiments.independent",
    "bayesvm_studies.images.training": "bayesvm.experiments.images.measure",
    "bayesvm_studies.images.heads": "bayesvm.experiments.images.heads",
    "bayesvm_studies.active.play": "bayesvm.experiments.active.measure",
    "bayesvm_studies.active.play:PaperRecipe": "bayesvm.experiments.active.paper_recipe",
    "bayesvm_studies.adversarial.attack": "bayesvm.experiments.adversarial.measure",
}


def as_recorded(value: Any) -> Any:
    """A configuration, or a name in it, with the names that code had when results were first recorded.

    Examples
    --------
    >>> as_recorded({"estimator": "bayesvm_studies.images.training:measure"})
    {'estimator': 'bayesvm.experiments.images.measure:measure'}
    """
    if isinstance(value, dict):
        return {key: as_recorded(v) for key, v in value.items()}
    if not isinstance(value, str):
        return value
    module, colon, name = value.partition(":")
    return (RECORDED_AS.get(value) or RECORDED_AS.get(module, module)) + colon + name


@dataclass(frozen=True)
class Task:
    """A model on one split of one set.

    Attributes
    ----------
    data : str
        Name of the set.
    data_digest : str
        Of its rows and labels, so that other rows are another task.
    protocol : str
        Part of the study; says how the set is split.
    split : int
        Number of the fold, or the seed.
    model : str
        Name of the contestant.
    config : dict
        What is built: ``estimator`` ("module:name") and ``arguments``; and in
        ``measured_by`` the module whose ``measure`` makes the fit.
    versions : dict
        Versions of what the model is made of.
    timeout : float or None
        Seconds that fitting and predicting may take; not part of the key.
    """

    data: str
    data_digest: str
    protocol: str
    split: int
    model: str
    config: dict[str, Any]
    versions: dict[str, str]
    timeout: float | None = None

    @cached_property
    def place(self) -> str:
        """Key without the versions: what is measured, whatever with."""
        config = as_recorded(self.config)
        return digest([self.data, self.data_digest, self.protocol, self.split, self.model, config])

    @cached_property
    def key(self) -> str:
        """Key of the result."""
        return digest([self.place, self.versions])


def measured_config(module: str, arguments: dict[str, Any], shortened: bool) -> dict[str, Any]:
    """The configuration of a task that a module's own ``measure`` does."""
    named = {"estimator": f"{module}:measure", "measured_by": module}
    return {**named, "arguments": arguments, "shortened": shortened}


# More digits than a clock or a score has.
_DIGITS = 7


@dataclass(frozen=True)
class Result(Task):
    """A task that was done, failed or took too long.

    Sums over the test rows, not means, so that folds can be pooled.

    Attributes
    ----------
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
    auc : float or None
        Area under the ROC curve, if the set has two classes and both are among the test rows.
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

    status: str = field(kw_only=True)
    error: str = ""
    n_train: int = 0
    n_test: int = 0
    n_features: int = 0
    n_classes: int = 0
    correct: int = 0
    log_loss_sum: float = 0.0
    brier_sum: float = 0.0
    bins: list[list[float]] = field(default_factory=list)
    auc: float | None = None
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
        described = {f.name: getattr(task, f.name) for f in fields(Task)}
        return cls(status=status, **described, **known)

    def to_line(self) -> str:
        """One line of JSON, with its end; what is empty is left out."""
        content = {
            name: _rounded(value)
            for name, value in {"key": self.key, "place": self.place, **asdict(self)}.items()
            if name != "timeout" and value is not None and (value or not isinstance(value, (str, dict, list)))
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


def plain_path(path: str | os.PathLike[str]) -> Path:
    """The name of a file of lines without the ``.xz`` of its compressed form."""
    path = Path(path)
    return path.with_suffix("") if path.suffix == ".xz" else path


def compressed_path(path: str | os.PathLike[str]) -> Path:
    """The name of the compressed form of a file of lines."""
    path = plain_path(path)
    return path.with_name(path.name + ".xz")


def lines_exist(path: str | os.PathLike[str]) -> bool:
    """Whether a file of lines is there, compressed or not."""
    return plain_path(path).is_file() or compressed_path(path).is_file()


def read_lines(path: str | os.PathLike[str], start: int = 0) -> bytes:
    """The content of a file of lines, compressed or not, from a byte on; empty if there is none.

    Where both forms exist the plain one counts: it is the compressed one and what was added since.
    """
    try:
        with plain_path(path).open("rb") as file:
            file.seek(start)
            return file.read()
    except FileNotFoundError:
        pass
    try:
        return lzma.decompress(compressed_path(path).read_bytes())[start:]
    except FileNotFoundError:
        # Another process may have unpacked it between the two attempts.
        return read_lines(path, start) if plain_path(path).is_file() else b""


def unpack_lines(path: str | os.PathLike[str]) -> None:
    """Replace the compressed form of a file of lines by the plain one; nothing to do if there is none."""
    plain, packed = plain_path(path), compressed_path(path)
    if not plain.exists():
        try:
            content = lzma.decompress(packed.read_bytes())
        except FileNotFoundError:
            return
        descriptor, whole = tempfile.mkstemp(dir=plain.parent, prefix=plain.name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                os.fsync(file.fileno())
            Path(whole).chmod(0o644)
            os.link(whole, plain)  # never replaces what another process has unpacked and added to
        except FileExistsError:
            pass
        finally:
            Path(whole).unlink()
    packed.unlink(missing_ok=True)


class Store:
    """A file of results.

    Several processes may add to it at the same time: a result that another
    one has added meanwhile is not added again.

    Parameters
    ----------
    path : path-like
        Made, with its folder, when the first result is added; its compressed
        form has ``.xz`` at its end, and is found under either name.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = plain_path(path)
        self._seen = 0  # bytes read so far
        self._results: list[Result] = []
        self._scored: set[str] = set()  # keys of results that no other can replace

    def results(self) -> list[Result]:
        """All results in the order they came; of equal keys the last counts for readers."""
        self._catch_up()
        return list(self._results)

    def add(self, result: Result) -> bool:
        """Add a line; False if the same fit is there already and has scores."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unpack_lines(self.path)
        with self._locked() as descriptor:
            self._repair(descriptor)
            self._catch_up()
            if result.key in self._scored:
                return False
            line = result.to_line().encode()
            written = os.write(descriptor, line)
            if written != len(line):  # the disk is full: take the part back
                os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
                raise OSError(f"{self.path}: could not write a whole line; is the disk full?")
            os.fsync(descriptor)
        self._catch_up()
        return True

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The open file, which no other process writes to meanwhile."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            with suppress(ImportError):  # Windows: writers must be alone
                import fcntl

                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)  # which unlocks it

    def _repair(self, descriptor: int) -> None:
        """Cut off a line without an end: a process was killed while it wrote it."""
        size = os.fstat(descriptor).st_size
        if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
            return
        end = size
        while end > 0:
            start = max(0, end - 65536)
            cut = os.pread(descriptor, end - start, start).rfind(b"\n")
            if cut >= 0:
                os.ftruncate(descriptor, start + cut + 1)
                return
            end = start
        os.ftruncate(descriptor, 0)

    def _catch_up(self) -> None:
        """Read whole lines added since the last time."""
        new = read_lines(self.path, self._seen)
        whole = new[: new.rfind(b"\n") + 1]
        self._seen += len(whole)
        for number, line in enumerate(whole.decode().splitlines(), 1):
            try:
                result = Result.from_line(line)
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f"{self.path}: a line is not a result ({error}); it ends at byte {self._seen} or before, "
                    f"line {number} of what was new"
                ) from error
            self._results.append(result)
            if result.ok:
                self._scored.add(result.key)


def read_results(path: str | os.PathLike[str], made_by: str = "structured") -> list[Result]:
    """The results of a file: of equal keys the last of every machine.

    Parameters
    ----------
    path : path-like
        Must exist.
    made_by : str
        The experiment whose results they are, for the error message.
    """
    if not lines_exist(path):
        raise FileNotFoundError(f"no results in {path}; 'bayesvm reproduce {made_by}' makes some")
    return list({(result.key, result.machine): result for result in Store(path).results()}.values())


def tidy_csv(results: Iterable[Result]) -> str:
    """All results as one table of comma-separated values: a row per fit, a column per fact."""
    return csv_of([_row(r) for r in results])


def csv_of(rows: Sequence[dict[str, Any]]) -> str:
    """Rows with the same keys as comma-separated values."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _row(r: Result) -> dict[str, Any]:
    from bayesvm_studies.statistics import pool

    scores = pool([r]) if r.ok and r.n_test else None
    began = datetime.datetime.fromtimestamp(r.started, datetime.UTC)
    arguments = r.config["arguments"]
    known = {f.name: getattr(r, f.name) for f in fields(r)}
    where = ("protocol", "data", "split", "model", "status", "error")
    sizes = ("n_train", "n_test", "n_features", "n_classes")
    measured = ("accuracy", "log_loss", "brier", "ece")
    return {
        **{name: known[name] for name in (*where, *sizes)},
        **{name: "" if scores is None else f"{getattr(scores, name):.6g}" for name in measured},
        "auc": "" if r.auc is None else r.auc,
        "fit_s": r.fit_s if r.ok else "",
        "predict_s": r.predict_s if r.ok else "",
        "peak_mb": "" if r.peak_mb is None else r.peak_mb,
        "estimator": r.config["estimator"],
        "arguments": json.dumps(arguments, sort_keys=True),
        "seed": arguments.get("random_state", ""),
        "shortened": bool(r.config.get("shortened", False)),
        "versions": " ".join(f"{k}={v}" for k, v in sorted({**r.environment, **r.versions}.items())),
        **{name: known[name] for name in ("commit", "machine", "jobs")},
        "started": began.isoformat(timespec="seconds"),
        "note": r.note,
    }


def rounded(value: Any, null: bool = True) -> Any:
    """Six significant digits; with ``null`` what is not finite becomes None, as JSON needs it."""
    if isinstance(value, dict):
        return {key: rounded(v, null) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(v, null) for v in value]
    if isinstance(value, float):
        return None if null and not math.isfinite(value) else float(f"{value:.6g}")
    return value
