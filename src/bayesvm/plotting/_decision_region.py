"""Decision regions of two features, fading where the model does not know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from bayesvm.plotting._style import (
    INK,
    best_estimator,
    class_colors,
    final_model,
    open_axes,
    prepared,
    pyplot,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


FloatArray = npt.NDArray[np.floating]
# What is left of a region's colour where the model knows nothing and
# everything: points must stand out from the second.
_FAINTEST, _STRONGEST = 0.02, 0.62


class DecisionRegionDisplay:
    """The most probable class as colour, fading to white with epistemic uncertainty.

    Create it with :meth:`from_estimator`.

    Parameters
    ----------
    x, y : ndarray of shape (n_x,), (n_y,)
        Coordinates of the grid.
    proba : ndarray of shape (n_y, n_x, n_classes)
        Class probabilities.
    epistemic : ndarray of shape (n_y, n_x)
        Epistemic uncertainty in nats.
    classes : ndarray of shape (n_classes,)
    feature_names : pair of str
    points : ndarray of shape (n_rows, 2) or None
        Rows to draw, with ``point_labels`` of shape (n_rows,) or None.
    point_labels : ndarray of shape (n_rows,) or None
    inducing : ndarray of shape (n_inducing, 2) or None

    Attributes
    ----------
    region : ndarray of shape (n_y, n_x)
        Index of the most probable class.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    image_ : matplotlib AxesImage
    boundaries_ : list of matplotlib ContourSet
    points_ : list of matplotlib PathCollection
        One per class.
    inducing_ : matplotlib PathCollection or None
    """

    def __init__(
        self,
        *,
        x: FloatArray,
        y: FloatArray,
        proba: FloatArray,
        epistemic: FloatArray,
        classes: npt.NDArray[Any],
        feature_names: tuple[str, str] = ("feature 0", "feature 1"),
        points: FloatArray | None = None,
        point_labels: npt.NDArray[Any] | None = None,
        inducing: FloatArray | None = None,
    ) -> None:
        self.x = x
        self.y = y
        self.proba = proba
        self.region = proba.argmax(2)
        self.epistemic = epistemic
        self.classes = classes
        self.feature_names = feature_names
        self.points = points
        self.point_labels = point_labels
        self.inducing = inducing

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        features: tuple[int | str, int | str] = (0, 1),
        grid_resolution: int = 200,
        margin: float = 0.3,
        show_points: bool = True,
        show_inducing: bool = False,
        colors: Any = None,
        vmax: float | None = None,
        legend: bool = True,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the regions of a fitted model over the range of X.

        Parameters
        ----------
        estimator : fitted BayesianSVC, or a pipeline or search that ends in one
        X : array-like of shape (n_rows, n_features)
            Sets the range, and where the points are.
        y : array-like of shape (n_rows,) or None
            Labels, which colour the points.
        features : pair of int or str
            The features on the axes. All others are held at their median
            (at the most frequent value if they are not numbers).
        grid_resolution : int
            Points per axis.
        margin : float
            What is shown beyond the data, as a share of their range.
        show_points, show_inducing : bool
            Draw the rows of X; draw the inducing points (only without
            preprocessing before the model).
        colors : sequence of colours or None
            One per class.
        vmax : float or None
            Epistemic uncertainty in nats at which colours have faded; None:
            the largest in the picture.
        legend : bool
        ax : matplotlib Axes or None
        """
        model = final_model(estimator, "uncertainty", "predict_proba", "classes_")
        grid = feature_grid(X, features, grid_resolution, margin)
        rows = prepared(estimator, grid.rows)
        shape = (grid.y.size, grid.x.size)
        display = cls(
            x=grid.x,
            y=grid.y,
            proba=model.predict_proba(rows).reshape(*shape, -1),
            epistemic=model.uncertainty(rows).epistemic.reshape(shape),
            classes=model.classes_,
            feature_names=grid.names,
            points=grid.points if show_points else None,
            point_labels=None if y is None else np.asarray(y),
            inducing=_inducing(estimator, model, grid) if show_inducing else None,
        )
        return display.plot(ax, colors=colors, vmax=vmax, legend=legend)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        colors: Any = None,
        vmax: float | None = None,
        legend: bool = True,
    ) -> Self:
        """Draw into the axes given, or into a new figure.

        Parameters
        ----------
        ax : matplotlib Axes or None
        colors, vmax, legend
            As in :meth:`from_estimator`.

        Returns
        -------
        self
        """
        ax = open_axes(ax, (5.6, 4.4))
        palette = class_colors(len(self.classes)) if colors is None else list(colors)
        half_x, half_y = 0.5 * (self.x[1] - self.x[0]), 0.5 * (self.y[1] - self.y[0])
        self.image_ = ax.imshow(
            self.faded(palette, vmax),
            extent=(self.x[0] - half_x, self.x[-1] + half_x, self.y[0] - half_y, self.y[-1] + half_y),
            origin="lower",
            aspect="auto",
            interpolation="bilinear",
            zorder=0,
        )
        self.boundaries_ = [
            ax.contour(self.x, self.y, self._lead(c), [0.0], colors="white", linewidths=1.4, zorder=1)
            for c in np.unique(self.region)[1:]
        ]
        self._plot_points(ax, palette)
        self.inducing_ = None
        if self.inducing is not None:
            self.inducing_ = ax.scatter(
                self.inducing[:, 0],
                self.inducing[:, 1],
                s=26,
                marker="x",
                color=INK,
                linewidths=1.0,
                zorder=4,
                label="inducing",
            )
        ax.set(xlim=(self.x[0], self.x[-1]), ylim=(self.y[0], self.y[-1]))
        ax.set(xlabel=self.feature_names[0], ylabel=self.feature_names[1])
        if legend:
            self._plot_legend(ax, palette)
        tidy(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def faded(self, colors: Any, vmax: float | None = None) -> FloatArray:
        """Colour of each grid point, shape (n_y, n_x, 3): white where uncertainty reaches ``vmax``."""
        pyplot()
        from matplotlib.colors import to_rgb

        rgb = np.array([to_rgb(color) for color in colors])
        top = float(self.epistemic.max()) if vmax is None else float(vmax)
        doubt = np.clip(self.epistemic / max(top, np.finfo(np.float64).tiny), 0.0, 1.0)
        strength = _FAINTEST + (_STRONGEST - _FAINTEST) * (1.0 - doubt)[..., None]
        return 1.0 - strength * (1.0 - rgb[self.region])

    def _lead(self, c: int) -> FloatArray:
        """How far class c leads the best of the others, in probability."""
        lead: FloatArray = self.proba[..., c] - np.delete(self.proba, c, axis=2).max(2)
        return lead

    def _plot_points(self, ax: Axes, palette: list[Any]) -> None:
        """Rows in the colour of their class; grey if they have no label."""
        self.points_ = []
        if self.points is None:
            return
        groups: list[tuple[Any, Any]]
        if self.point_labels is None:
            groups = [(slice(None), "0.35")]
        else:
            groups = [(self.point_labels == c, palette[i]) for i, c in enumerate(self.classes)]
        for inside, color in groups:
            self.points_.append(
                ax.scatter(
                    self.points[inside, 0],
                    self.points[inside, 1],
                    s=20,
                    color=color,
                    edgecolor="white",
                    linewidth=0.6,
                    zorder=3,
                )
            )

    def _plot_legend(self, ax: Axes, palette: list[Any]) -> None:
        """Class names beside the picture."""
        from matplotlib.lines import Line2D

        def key(label: str, marker: str, color: Any) -> Line2D:
            return Line2D([], [], linestyle="", marker=marker, color=color, label=label)

        keys = [key(str(c), "o", palette[i]) for i, c in enumerate(self.classes)]
        if self.inducing is not None:
            keys.append(key("inducing point", "x", INK))
        ax.legend(
            handles=keys,
            loc="upper left",
            bbox_to_anchor=(1.0, 1.0),
            frameon=False,
            handletextpad=0.2,
            title="Pale: the model\ndoes not know",
            title_fontsize="small",
            alignment="left",
        )


def _inducing(estimator: Any, model: Any, grid: FeatureGrid) -> FloatArray:
    """Inducing points along the two features, in the units of X."""
    if model is not best_estimator(estimator):
        raise ValueError(
            "show_inducing needs a model without preprocessing: its inducing points are transformed"
        )
    points: FloatArray = model.inducing_points_[:, list(grid.columns)].astype(np.float64)
    return points


# --- The grid of rows, which any estimator fitted to X accepts.


@dataclass(frozen=True)
class FeatureGrid:
    """Grid points, first feature fastest.

    Attributes
    ----------
    x, y : ndarray of shape (n,)
        Coordinates along the two features.
    rows : array or frame of shape (n * n, n_features)
        Of the type of X.
    points : ndarray of shape (n_rows, 2)
        The two features of X.
    names : pair of str
    columns : pair of int
    """

    x: FloatArray
    y: FloatArray
    rows: Any
    points: FloatArray
    names: tuple[str, str]
    columns: tuple[int, int]


def feature_grid(
    X: Any, features: tuple[int | str, int | str], resolution: int, margin: float
) -> FeatureGrid:
    """Grid over the range of two features; the others at a typical value.

    Parameters
    ----------
    X : array-like or frame of shape (n_rows, n_features)
    features : pair of int or str
        Columns by number, or by name if X is a frame.
    resolution : int
        Points per axis.
    margin : float
        What to add on each side, as a share of the range.
    """
    if resolution < 2:
        raise ValueError(f"grid_resolution={resolution!r} is not valid; it must be a whole number >= 2")
    if len(features) != 2:
        raise ValueError(f"features={features!r} must name two features")
    names = list(X.columns) if hasattr(X, "columns") else None
    values = [np.asarray(X[name]) for name in names] if names is not None else list(np.asarray(X).T)
    first, second = (_position(feature, names, len(values)) for feature in features)
    try:
        points = np.stack([values[first], values[second]], 1).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"features={features!r} must name two columns of numbers: {error}") from error
    axes = []
    for low, high in zip(np.nanmin(points, 0), np.nanmax(points, 0), strict=True):
        extra = margin * (high - low) if high > low else 1.0
        axes.append(np.linspace(low - extra, high + extra, resolution))
    x, y = axes
    columns = [np.full(x.size * y.size, _typical(v)) for v in values]
    columns[first], columns[second] = np.tile(x, y.size), np.repeat(y, x.size)
    if names is None:
        return FeatureGrid(
            x, y, np.stack(columns, 1), points, (f"feature {first}", f"feature {second}"), (first, second)
        )
    rows = type(X)(dict(zip(names, columns, strict=True)))
    return FeatureGrid(x, y, rows, points, (str(names[first]), str(names[second])), (first, second))


def _position(feature: int | str, names: list[Any] | None, n_features: int) -> int:
    """Index of a column given by name or number."""
    if names is not None and feature in names:
        return names.index(feature)
    if isinstance(feature, (int, np.integer)) and 0 <= feature < n_features:
        return int(feature)
    known = f"the columns are {names[:10]}" if names else f"X has {n_features} features"
    raise ValueError(f"feature {feature!r} is unknown; {known}")


def _typical(values: npt.NDArray[Any]) -> Any:
    """Median of numbers, most frequent value of anything else; missing values aside."""
    if np.issubdtype(values.dtype, np.number):
        return np.nanmedian(values)
    present = values[[v is not None and v == v for v in values]]
    distinct, count = np.unique(present, return_counts=True)
    return distinct[count.argmax()]
