"""The experiments of the paper and the competitors behind bayesvm's figures.

Four studies, ``structured``, ``images``, ``active`` and ``adversarial``, each
a package with a :class:`~bayesvm_studies.study.Study` record from which
``bayesvm reproduce`` and ``bayesvm report`` are built.
"""
