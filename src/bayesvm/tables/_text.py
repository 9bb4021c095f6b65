"""Free text as a few numbers: the main directions of its character n-grams."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from skrub import StringEncoder


class TextEncoder(StringEncoder):
    """skrub's encoder of strings, whose state is arrays.

    As a dictionary the vocabulary of a column of sentences would fill most of
    a model file, several times over.

    Attributes
    ----------
    ngrams_ : ndarray of str
        The vocabulary.
    idf_ : ndarray of float
        Weight of each n-gram.
    """

    vectorizer_: TfidfVectorizer

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn the vocabulary and its main directions, and encode the column."""
        with warnings.catch_warnings():
            # Fewer n-grams than directions: they are taken as they are.
            warnings.filterwarnings("ignore", "The matrix shape is", UserWarning)
            encoded = super().fit_transform(X, y)
        self.ngrams_ = np.asarray(self.vectorizer_.get_feature_names_out(), dtype=np.str_)
        self.idf_ = np.asarray(self.vectorizer_.idf_)
        return encoded

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("vectorizer_", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "ngrams_" in state:
            self.vectorizer_ = TfidfVectorizer(
                ngram_range=tuple(self.ngram_range), analyzer=self.analyzer, vocabulary=self.ngrams_.tolist()
            )
            self.vectorizer_.idf_ = self.idf_
