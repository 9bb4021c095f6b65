"""Evaluations made to order, and the texts of a section without special spaces."""

import numpy as np

from bayesvm.tables import Evaluation


def plain(text):
    return text.replace("\u00a0", " ").replace("\u202f", " ").replace("\u2011", "-")


def judged(labels, answers, sure=0.9, classes=None, origin="held out", majority=None):
    """An evaluation in which every answer was given with the same probability."""
    classes = np.unique(labels) if classes is None else np.asarray(classes)
    labels, answers = np.asarray(labels), np.asarray(answers)
    proba = np.full((len(labels), len(classes)), (1 - sure) / (len(classes) - 1))
    proba[np.arange(len(labels)), np.searchsorted(classes, answers)] = sure
    majority = classes[0] if majority is None else majority
    return Evaluation(classes, labels, proba, np.arange(len(labels)), origin, majority)


def right_and_wrong(right, wrong, **options):
    labels = ["FEMALE", "MALE"] * ((right + wrong) // 2)
    other = {"FEMALE": "MALE", "MALE": "FEMALE"}
    answers = [label if i < right else other[label] for i, label in enumerate(labels)]
    return judged(labels, answers, **options)
