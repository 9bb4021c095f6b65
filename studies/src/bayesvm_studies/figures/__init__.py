"""The figures of the experiments: each function draws one and gives back matplotlib's Figure."""

from __future__ import annotations
