"""A table with every kind of column, and settings that make fits quick."""

from __future__ import annotations

import numpy as np
import pandas as pd

# Learning the kernel takes most of the time and is irrelevant to most of these tests.
FAST = {"kernel": "rbf+linear", "hyperparameters": "fixed", "random_state": 0}


def mixed_table(n: int = 120, seed: int = 0) -> pd.DataFrame:
    """Numbers, truth values, dates, categories and text, with gaps; ``species`` is the target."""
    rng = np.random.default_rng(seed)
    species = rng.choice(["ant", "bee", "cow"], n)
    size = pd.Series(species).map({"ant": 1.0, "bee": 2.0, "cow": 9.0}) + rng.normal(0, 0.5, n)
    notes = [f"{kind} number {rng.integers(1000)} seen" for kind in species]
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 400, n), unit="D")
    table = pd.DataFrame(
        {
            "size (cm)": size,
            "legs": np.where(species == "cow", 4, 6),
            "flies": species == "bee",
            "seen": days,
            "found": days.strftime("%d.%m.%Y"),
            "zoned": days.tz_localize("Europe/Paris"),
            "colour": rng.choice(["red", "green", "blue"], n),
            "grade": pd.Categorical(rng.choice(["low", "high"], n)),
            "note": notes,
            "id": np.arange(n) + 10_000_000_000,
            "species": species,
        }
    )
    gaps = rng.random(n) < 0.1
    table.loc[gaps, ["size (cm)", "seen", "found", "colour", "note"]] = None
    return table
