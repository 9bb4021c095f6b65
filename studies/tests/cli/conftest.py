"""The fixtures of the command line's own tests."""

from tests.cli.conftest import bayesvm, here, workshop  # noqa: F401
