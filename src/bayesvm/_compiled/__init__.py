"""Fitted models compiled for serving."""

from __future__ import annotations

from bayesvm._compiled.predictor import CompiledPredictor

__all__ = ["CompiledPredictor"]
