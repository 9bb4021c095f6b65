"""Constructor and fitting of the estimators built on the binary hinge."""

from __future__ import annotations

from typing import Any

from bayesvm import defaults
from bayesvm.core.kernels import resolve_kernel
from bayesvm.estimators.adds_rows import AddsRows
from bayesvm.estimators.options import auto_inducing, chosen_inference, resolve_options
from bayesvm.inference.task import Member
from bayesvm.training import Options

__all__ = ["FitsHinge"]


class FitsHinge(AddsRows):
    """Arguments and fitting that one binary function and one for every class share.

    Estimators say in ``_member`` what they fit; :class:`BinaryBayesianSVC`
    documents the arguments.
    """

    def __init__(
        self,
        n_inducing: int | str = "auto",
        *,
        learn_inducing: bool = False,
        kernel: Any = defaults.DEFAULT_KERNEL,
        ard: bool = True,
        inference: str = "auto",
        approximation: str = "auto",
        expectation: str = "exact",
        hyperparameters: str = "blend",
        learning_rate: float | str = "auto",
        batch_size: int | None = None,
        max_iter: int | str = "auto",
        tol: float = defaults.TOLERANCE,
        n_chains: int = 4,
        n_draws: int = 500,
        class_weight: dict[Any, float] | str | None = None,
        device: str = "cpu",
        dtype: str = "float64",
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
    ) -> None:
        self.n_inducing = n_inducing
        self.learn_inducing = learn_inducing
        self.kernel = kernel
        self.ard = ard
        self.inference = inference
        self.approximation = approximation
        self.expectation = expectation
        self.hyperparameters = hyperparameters
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.n_chains = n_chains
        self.n_draws = n_draws
        self.class_weight = class_weight
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start

    def _member(self, n_classes: int, single: bool) -> Member:
        raise NotImplementedError

    def _options(self, n_rows: int, n_classes: int, seed: int) -> Options:
        kernel = resolve_kernel(self.kernel, bool(self.ard))
        n_inducing = auto_inducing(self, n_rows, n_classes, all_latents=True)
        member = self._member(n_classes, defaults.worth_single(n_rows, min(n_inducing, n_rows)))
        return resolve_options(self, member, kernel, n_inducing, chosen_inference(self), seed)
