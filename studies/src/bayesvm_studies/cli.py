"""Commands that this distribution adds to ``bayesvm``: its entry points name them."""

from bayesvm_studies import (  # they add their commands to those of cli_experiments
    cli_experiments_active,  # noqa: F401
    cli_experiments_adversarial,  # noqa: F401
)
from bayesvm_studies.cli_experiments import report, reproduce

__all__ = ["report", "reproduce"]
