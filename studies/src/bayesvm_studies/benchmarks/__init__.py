"""Benchmarks: what is measured rather than asserted. studies/README.md maps every figure to a command.

Each module but ``common``, ``comparison``, ``sweep``, ``cost_model`` and
``race_models`` is a command: ``python -m bayesvm_studies.benchmarks.limits``.
"""
