"""The pipeline from columns of any kind to the model, which is also what a model file holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from bayesvm._svc import BayesianSVC
from bayesvm.tables._columns import TableColumns
from bayesvm.tables._exceptions import TableError, closest
from bayesvm.tables._kinds import has_many_values

FloatArray = npt.NDArray[np.float64]


class Vectoriser(TransformerMixin, BaseEstimator):
    """Encode the output of :class:`bayesvm.tables.TableColumns`.

    Numbers stay as they are; dates become year, month, day, weekday, hours
    and seconds; words with few different values a column of categories; other
    words the main directions of their character n-grams. What is missing stays so:
    the model knows what to do with it, and with categories.

    This is what skrub's TableVectorizer does, with the same encoders. Fitted,
    that one holds functions, which a model file should not, and so many
    copies of every encoder that 450 columns made 250 megabytes of text in the
    file and predicting one row took seconds.

    Parameters
    ----------
    random_state : int, default=0
        Seed of the directions of text.

    Attributes
    ----------
    numbers_ : list of str
        Columns that stay as they are.
    date_encoders_ : dict of str to DatetimeEncoder
    categories_ : list of str
        Columns of words with few different values.
    text_encoders_ : dict of str to TextEncoder
    origins_ : list of str
        The column that each feature comes from.
    """

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        """Fit an encoder to each column that needs one."""
        numbers = [name for name in X.columns if types.is_numeric_dtype(X[name].dtype)]
        dates = [name for name in X.columns if types.is_datetime64_any_dtype(X[name].dtype)]
        words = X.columns.difference([*numbers, *dates], sort=False)
        texts = [name for name in words if has_many_values(X[name])]
        self.numbers_ = numbers
        self.date_encoders_ = {name: _date_encoder().fit(X[name]) for name in dates}
        self.categories_ = words.difference(texts, sort=False).tolist()
        self.text_encoders_ = {name: _text_encoder(self.random_state).fit(_filled(X[name])) for name in texts}
        self.origins_ = [name for name, block in self._blocks(X.head(1)) for _ in range(block.shape[1])]
        self.origins_ += self.categories_
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        """Features of each row, NaN where a number or a date is missing; categories last."""
        check_is_fitted(self, "origins_")
        blocks = [pd.DataFrame(block, X.index) for _, block in self._blocks(X)]
        blocks += [X[[name]].astype("category") for name in self.categories_]
        return pd.concat(blocks, axis=1).set_axis(self._names(), axis=1)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Refuse files of versions that encoded categories here."""
        if "category_encoder_" in state:
            raise ValueError("a table model of an earlier version; fit the table again")
        super().__setstate__(state)

    def _names(self) -> list[str]:
        """A name for every feature: that of its column, numbered where there are several."""
        number = dict.fromkeys(self.origins_, 0)
        names = []
        for name in self.origins_:
            number[name] += 1
            names.append(name if self.origins_.count(name) == 1 else f"{name} ({number[name]})")
        return names

    def _blocks(self, X: pd.DataFrame) -> list[tuple[str, FloatArray]]:
        """Features of each column of numbers, dates or text, in the order they have in the result."""
        numbers = X[self.numbers_].to_numpy(np.float64)
        blocks = [(name, numbers[:, [i]]) for i, name in enumerate(self.numbers_)]
        for name, encoder in self.date_encoders_.items():
            blocks.append((name, encoder.transform(X[name]).to_numpy(np.float64)))
        for name, encoder in self.text_encoders_.items():
            blocks.append((name, encoder.transform(_filled(X[name])).to_numpy(np.float64)))
        return blocks


def _date_encoder() -> Any:
    # Where it is needed: importing skrub takes a second, as long as many fits.
    try:
        from skrub import DatetimeEncoder
    except ModuleNotFoundError as error:
        raise ImportError("tables with dates need skrub: pip install 'bayesvm[cli]'") from error
    return DatetimeEncoder(add_weekday=True)


def _text_encoder(seed: int) -> Any:
    try:
        from bayesvm.tables._text import TextEncoder
    except ModuleNotFoundError as error:
        raise ImportError("tables with text need skrub: pip install 'bayesvm[cli]'") from error
    return TextEncoder(random_state=seed)


def _filled(text: pd.Series) -> pd.Series:
    """Text as plain strings, which skrub recognises even if all of it is missing."""
    return text.fillna("").astype(object)


def table_classifier(target: str, *, ignore: Sequence[str] = (), **model_options: Any) -> Pipeline:
    """An unfitted classifier of the rows of a table.

    Its steps are "columns" (names and kinds), "vectoriser" (text by its character
    n-grams, parts of dates, categories and gaps as they are) and "model".

    Parameters
    ----------
    target : str
        Name of the column to predict; it need not be in the table.
    ignore : sequence of str, default=()
        Columns not to use.
    **model_options
        Arguments of :class:`bayesvm.BayesianSVC`.

    Returns
    -------
    Pipeline
    """
    model = BayesianSVC(**{"random_state": 0, **model_options})
    return Pipeline(
        [
            ("columns", TableColumns(target, list(ignore))),
            ("vectoriser", Vectoriser()),
            ("model", model),
        ]
    )


def as_numbers(features: pd.DataFrame) -> FloatArray:
    """Features of a vectoriser for models that take numbers only.

    One column for each category, medians for what is missing, and whether it was.
    """
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    categories = [types.is_string_dtype(kind) or kind == "category" for kind in features.dtypes]
    filled = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    encoded = make_column_transformer(
        (OneHotEncoder(sparse_output=False), np.asarray(categories)), remainder=filled
    )
    numbers: FloatArray = encoded.fit_transform(features)
    return numbers


# --- Models fitted to a table in another way: estimators and pipelines that know nothing of tables.


def as_pipeline(model: Any) -> Pipeline:
    """A model as a pipeline, of one step if it is an estimator by itself."""
    return model if isinstance(model, Pipeline) else Pipeline([("model", model)])


def table_columns(model: Any) -> TableColumns | None:
    """The first step of a pipeline of :func:`table_classifier`; None for any other model."""
    first = as_pipeline(model)[0]
    return first if isinstance(first, TableColumns) else None


def columns_for(model: Any, table: pd.DataFrame, numbers_only: bool) -> pd.DataFrame:
    """The columns of a table that a model was fitted to, in their order.

    Parameters
    ----------
    model : estimator
        One that knows nothing of tables.
    table : DataFrame
    numbers_only : bool
        Refuse columns with other or missing values.

    Raises
    ------
    TableError
        If the table does not have them.
    """
    names, n_features = (getattr(model, name, None) for name in ("feature_names_in_", "n_features_in_"))
    if names is not None:
        for name in names:
            if name not in table:
                raise TableError(
                    f"the table has no column {name!r}, which the model needs{closest(name, table.columns)}"
                )
        table = table[list(names)]
    elif n_features is not None and table.shape[1] != n_features:
        raise TableError(
            f"the model was fitted to {n_features} columns without names, the table has "
            f"{table.shape[1]}; give just those columns, in their order"
        )
    # A model of categories and gaps checks them itself; another has learned nothing from gaps.
    numbers_only = numbers_only and getattr(as_pipeline(model)[-1], "_columns", None) is None
    for name in table.columns if numbers_only else ():
        if table[name].dtype.kind not in "biuf" or table[name].isna().any():
            raise TableError(
                "this model was not made by 'bayesvm fit' and takes numbers only; column "
                f"{name!r} has other or missing values"
            )
    if names is not None or n_features is None:
        return table
    return table.set_axis(range(n_features), axis=1)
