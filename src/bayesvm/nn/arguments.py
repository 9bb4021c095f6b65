"""Whether the arguments of a head make sense."""

from __future__ import annotations

__all__ = ["check_arguments"]


def check_arguments(
    in_features: int,
    n_classes: int,
    n_inducing: int,
    posterior: str,
    rivals: str,
    damping: float,
    kl_warmup: int,
) -> None:
    """Refuse what makes no head."""
    if n_classes < 2:
        raise ValueError(f"n_classes must be at least 2, got {n_classes}")
    if in_features < 1 or n_inducing < 1:
        raise ValueError(f"in_features and n_inducing must be positive, got {in_features} and {n_inducing}")
    if posterior not in ("natural", "gradient"):
        raise ValueError(f'posterior must be "natural" or "gradient", got {posterior!r}')
    if rivals not in ("sampled", "mean"):
        raise ValueError(f'rivals must be "sampled" or "mean", got {rivals!r}')
    if not 0.0 < damping <= 1.0:
        raise ValueError(f"damping must be above 0 and at most 1, got {damping}")
    if kl_warmup < 0:
        raise ValueError(f"kl_warmup must not be negative, got {kl_warmup}")
