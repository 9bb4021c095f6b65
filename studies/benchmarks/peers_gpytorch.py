"""Worker of peers.py: GPyTorch's SVGP with the softmax likelihood, trained by Adam.

A batch of independent functions, one per class, with one RBF kernel with ARD
shared by all, length scales from sqrt(D) as in BayesianSVC, zero mean,
whitened q with full covariances, inducing points learned too, no mixing
weights, single precision and 10 draws per step (GPyTorch's defaults).
"""

from __future__ import annotations

import gpytorch
import numpy as np
import torch
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    IndependentMultitaskVariationalStrategy,
    VariationalStrategy,
)
from peers_worker import Options, Problem, Result, batches, run_worker, train

__all__ = ["fit"]

torch.set_num_threads(1)
_TEST_DRAWS = 256


class _SVGP(gpytorch.models.ApproximateGP):
    """Sparse functions, one per class, with one kernel."""

    def __init__(self, Z: torch.Tensor, n_classes: int) -> None:
        q = CholeskyVariationalDistribution(len(Z), batch_shape=torch.Size([n_classes]))
        functions = VariationalStrategy(self, Z, q, learn_inducing_locations=True)
        super().__init__(IndependentMultitaskVariationalStrategy(functions, num_tasks=n_classes))
        n_features = Z.shape[1]
        self.mean_module = gpytorch.means.ZeroMean()
        rbf = gpytorch.kernels.RBFKernel(ard_num_dims=n_features)
        rbf.lengthscale = n_features**0.5
        self.covar_module = gpytorch.kernels.ScaleKernel(rbf)
        self.covar_module.outputscale = 1.0

    def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        """The prior at X."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def fit(problem: Problem, options: Options) -> Result:
    """A curve of test log-loss against seconds."""
    torch.manual_seed(0)
    X, X_test, Z = (torch.as_tensor(a, dtype=torch.float32) for a in (problem.S, problem.S_test, problem.Z))
    y = torch.as_tensor(problem.y)
    model = _SVGP(Z, problem.n_classes)
    likelihood = gpytorch.likelihoods.SoftmaxLikelihood(num_classes=problem.n_classes, mixing_weights=False)
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    adam = torch.optim.Adam(model.parameters(), lr=options["learning_rate"])
    rows = batches(problem, options.get("batch_size"))

    def draw() -> tuple[torch.Tensor, torch.Tensor]:
        chosen = rows()
        return (X, y) if chosen is None else (X[chosen], y[chosen])

    def step(batch: tuple[torch.Tensor, torch.Tensor]) -> None:
        adam.zero_grad()
        loss = -objective(model(batch[0]), batch[1])
        loss.backward()
        adam.step()

    def predict() -> np.ndarray:
        model.eval()
        # The same draws at every step, none of them taken from those of the training.
        with torch.no_grad(), torch.random.fork_rng(), gpytorch.settings.num_likelihood_samples(_TEST_DRAWS):
            torch.manual_seed(1)
            proba = likelihood(model(X_test)).probs.double().mean(0)
        model.train()
        return proba.numpy()

    return train(problem, options["steps"], draw, step, predict)


if __name__ == "__main__":
    run_worker(fit)
