"""The mathematics: functions from tensors to tensors, with the equation numbers of docs/theory.md."""

from __future__ import annotations
