"""scikit-learn's callback protocol, where the installed version has it (1.9 on)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from bayesvm._progress import PrintedProgress, Progress, Step

__all__ = ["CallbackSupportMixin", "FitReporter", "with_callbacks"]

_Method = TypeVar("_Method", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """No-op: this scikit-learn has no callbacks."""

    def with_callbacks(method: _Method) -> _Method:
        """Return the method unchanged: this scikit-learn has no callbacks."""
        return method


class FitReporter:
    """Progress to the terminal if asked for, and to scikit-learn's callbacks if there are any.

    Parameters
    ----------
    estimator, X, y, sample_weight : the estimator and the arguments of its fit
    max_steps : int
    fitted_attributes : callable
        The attributes of an estimator whose training ended in a given state;
        called only if a callback needs a fitted estimator.

    Attributes
    ----------
    progress : Progress
        To be handed to the training.
    stopped : bool
        Whether a callback requested an early end.
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        sample_weight: Any,
        max_steps: int,
        fitted_attributes: Callable[[Any], dict[str, Any]],
    ) -> None:
        self._printed = PrintedProgress() if estimator.verbose else None
        self._estimator = estimator
        self._fitted_attributes = fitted_attributes
        self._data = {
            "X": X,
            "y": y,
            "metadata": {} if sample_weight is None else {"sample_weight": sample_weight},
        }
        self._context = None
        if hasattr(estimator, "_init_callback_context"):
            self._context = estimator._init_callback_context(max_subtasks=max_steps)
            self._context.call_on_fit_task_begin(estimator=estimator, **self._data)
        self.progress: Progress = self._report
        self.stopped = False

    def _report(self, step: Step) -> bool:
        if self._printed is not None:
            self._printed(step)
        if self._context is None or not getattr(self._estimator, "_skl_callbacks", ()):
            return False
        task = self._context.subcontext(task_name=step.stage)
        task.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        stop = bool(
            task.call_on_fit_task_end(
                estimator=self._estimator,
                reconstruction_attributes=lambda: self._fitted_attributes(step.state()),
                **self._data,
            )
        )
        self.stopped |= stop
        return stop

    def close(self) -> None:
        """End the progress line and the callbacks, once the estimator is fitted."""
        if self._printed is not None:
            self._printed.close()
        if self._context is not None:
            self._context.call_on_fit_task_end(
                estimator=self._estimator, reconstruction_attributes={}, **self._data
            )
