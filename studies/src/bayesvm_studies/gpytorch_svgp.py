"""GPyTorch's sparse variational Gaussian process as a classifier, set up as in the race."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin

from bayesvm_studies.peer_inputs import peer_inputs

_TEST_DRAWS = 256


class GPyTorchSVGP(ClassifierMixin, BaseEstimator):
    """Independent functions with one ARD kernel, softmax likelihood, Adam on all rows.

    Parameters
    ----------
    n_inducing : int
    learning_rate : float
    steps : int
    random_state : int
    """

    def __init__(
        self, n_inducing: int = 64, learning_rate: float = 0.4, steps: int = 500, random_state: int = 0
    ) -> None:
        self.n_inducing = n_inducing
        self.learning_rate = learning_rate
        self.steps = steps
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train."""
        import torch

        gpytorch: Any = import_module("gpytorch")
        given = peer_inputs(X, y, self.n_inducing, self.random_state)
        torch.manual_seed(self.random_state)
        self.scaler_, self.classes_ = given.scaler, given.classes
        S, labels = torch.as_tensor(given.S, dtype=torch.float32), torch.as_tensor(given.labels)
        self.model_ = _model(gpytorch, torch.as_tensor(given.Z, dtype=torch.float32), len(self.classes_))
        self.likelihood_ = gpytorch.likelihoods.SoftmaxLikelihood(
            num_classes=len(self.classes_), mixing_weights=False
        )
        objective = gpytorch.mlls.VariationalELBO(self.likelihood_, self.model_, num_data=len(labels))
        adam = torch.optim.Adam(self.model_.parameters(), lr=self.learning_rate)
        for _ in range(self.steps):
            adam.zero_grad()
            loss = -objective(self.model_(S), labels)
            loss.backward()
            adam.step()
        self.details_ = {"n_inducing": len(given.Z)}
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.floating]:
        """Probabilities of the classes, from 256 draws."""
        import torch

        gpytorch: Any = import_module("gpytorch")
        S = torch.as_tensor(self.scaler_.transform(X), dtype=torch.float32)
        self.model_.eval()
        with torch.no_grad(), gpytorch.settings.num_likelihood_samples(_TEST_DRAWS):
            torch.manual_seed(self.random_state)
            proba: npt.NDArray[np.floating] = self.likelihood_(self.model_(S)).probs.double().mean(0).numpy()
        return proba


def _model(gpytorch: Any, Z: Any, n_classes: int) -> Any:
    """The process; its class can only be made once gpytorch is there."""
    import torch

    class Process(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            q = gpytorch.variational.CholeskyVariationalDistribution(
                len(Z), batch_shape=torch.Size([n_classes])
            )
            functions = gpytorch.variational.VariationalStrategy(self, Z, q, learn_inducing_locations=True)
            together = gpytorch.variational.IndependentMultitaskVariationalStrategy
            super().__init__(together(functions, num_tasks=n_classes))
            self.mean_module = gpytorch.means.ZeroMean()
            rbf = gpytorch.kernels.RBFKernel(ard_num_dims=Z.shape[1])
            rbf.lengthscale = Z.shape[1] ** 0.5
            self.covar_module = gpytorch.kernels.ScaleKernel(rbf)
            self.covar_module.outputscale = 1.0

        def forward(self, S: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(S), self.covar_module(S))

    return Process()
