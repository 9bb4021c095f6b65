"""A pandas frame with numbers, categories and gaps, through a scikit-learn pipeline.

Simulated penguins: string labels, missing values, a categorical column. The
model is an ordinary last step, so grid search and cross-validation work as
with any classifier, and its leave-one-out estimates come for free.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from bayesvm import BayesianSVC

# Mean bill length and depth (mm), flipper length (mm), mass (g); and where each lives.
SPECIES = {
    "Adelie": ([38.8, 18.3, 190, 3700], ["Torgersen", "Biscoe", "Dream"]),
    "Chinstrap": ([48.8, 18.4, 196, 3730], ["Dream"]),
    "Gentoo": ([47.5, 15.0, 217, 5080], ["Biscoe"]),
}
MEASURES = ["bill_length", "bill_depth", "flipper_length", "mass"]


def penguins(n_per_species: int = 60, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Penguins drawn around the mean of their species; one measure in twenty is missing."""
    rng = np.random.default_rng(seed)
    frames = []
    for species, (mean, islands) in SPECIES.items():
        values = rng.normal(mean, [3.0, 1.1, 6.5, 430.0], (n_per_species, 4))
        values[rng.uniform(size=values.shape) < 0.05] = np.nan
        frame = pd.DataFrame(values, columns=MEASURES)
        frames.append(frame.assign(island=rng.choice(islands, n_per_species), species=species))
    data = pd.concat(frames, ignore_index=True)
    return data.drop(columns="species"), data["species"]


def main() -> None:
    X, y = penguins()
    prepare = make_column_transformer(
        (SimpleImputer(strategy="median"), make_column_selector(dtype_include="number")),
        (OneHotEncoder(sparse_output=False), ["island"]),
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipeline = make_pipeline(prepare, BayesianSVC(random_state=0))

    search = GridSearchCV(
        pipeline, {"bayesiansvc__kernel": ["linear", "rbf", "0.1*rbf + anova"]}, scoring="neg_log_loss", cv=3
    )
    search.fit(X, y)
    print("cross-validated log-loss by kernel:")
    for kernel, score in zip(
        search.cv_results_["param_bayesiansvc__kernel"], search.cv_results_["mean_test_score"], strict=True
    ):
        print(f"  {kernel:<14}{-score:.4f}")

    best = search.best_estimator_
    proba = cross_val_predict(best, X, y, cv=5, method="predict_proba")
    model = best[-1]
    print(f"\n{'':<24}{'accuracy':>9}{'log-loss':>10}")
    print(f"{'leave-one-out, no refit':<24}{model.loo_score_:>9.3f}{model.loo_log_loss_:>10.4f}")
    accuracy = np.mean(model.classes_[proba.argmax(1)] == y)
    print(f"{'5-fold, five refits':<24}{accuracy:>9.3f}{log_loss(y, proba):>10.4f}")

    print("\nmost relevant features:")
    for i in np.argsort(-model.feature_relevance_)[:3]:
        print(f"  {model.feature_names_in_[i]:<16}{model.feature_relevance_[i]:.2f}")


if __name__ == "__main__":
    main()
