import warnings

import numpy as np
import pandas as pd
import pytest

from bayesvm.report import write_report
from bayesvm.tables import EXAMPLE_TARGET, example_table, fit_table

# Small models: reports are tested here, not fits.
QUICK = {"n_inducing": 32}
NASTY_TARGET = "$target$ <i>{{ 7 * 7 }}</i>"


def quietly_fitted(table, target, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_table(table, target, **{"model_options": QUICK, **options})


def nasty_table(n_rows=250, n_classes=40):
    """Markup in every name, many classes, long texts, gaps, and rows without a label."""
    rng = np.random.default_rng(0)
    k = rng.permutation(np.arange(n_rows) % n_classes)
    names = [f"<b>class {c}</b> & {'x' * 70 if c % 2 else 'ünïcödé 日本語 ' * 5}" for c in range(n_classes)]
    table = pd.DataFrame(
        {
            "<script>alert(1)</script>": k + 0.4 * rng.normal(size=n_rows),
            "a very long column name that goes on and on, " * 4: k % 7 + rng.normal(size=n_rows),
            "\"'><img src=x onerror=alert(2)>": [f"{'lorem ipsum ' * (c + 3)}word{c % 5}" for c in k],
            "gaps": np.where(rng.random(n_rows) < 0.6, np.nan, k % 3),
            "constant": 1,
            "день": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n_rows), "D"),
            "price in $_x^2$": rng.choice(["$\\alpha$", "{% raw %}", "y" * 300, "\u202eleft"], n_rows),
        }
    )
    table[NASTY_TARGET] = [names[c] for c in k]
    table.loc[3:6, NASTY_TARGET] = None
    return table


@pytest.fixture(scope="session")
def penguins():
    return quietly_fitted(example_table(), EXAMPLE_TARGET)


@pytest.fixture(scope="session")
def nasty():
    return quietly_fitted(nasty_table(), NASTY_TARGET, model_options={"n_inducing": 40, "max_iter": 2})


@pytest.fixture(scope="session")
def nothing_held_out():
    """Three classes as whole numbers, and no held-out rows."""
    table = example_table()
    table["Species"] = table["Species"].astype("category").cat.codes
    return quietly_fitted(table, "Species", holdout=0)


@pytest.fixture(scope="session")
def reports(penguins, nasty, nothing_held_out, tmp_path_factory):
    """Paths of written reports by name."""
    folder = tmp_path_factory.mktemp("reports")
    return {
        "penguins": write_report(
            penguins, folder / "penguins.html", model_path=folder / "penguins.skops", source="penguins.csv"
        ),
        "nasty": write_report(nasty, folder / "nasty.html", source="<img src=x onerror=alert(3)>.csv"),
        "nothing held out": write_report(nothing_held_out, folder / "loo.html", max_error=0.05),
    }
