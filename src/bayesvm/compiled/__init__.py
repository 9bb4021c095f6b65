"""Fitted models compiled for serving."""

from bayesvm.compiled.predictor import CompiledPredictor

__all__ = ["CompiledPredictor"]
