"""Which labels to pay for: a loop of active learning, stopped and taken up again.

Handwritten digits, of which ten are labelled at first. The learner asks for
the row where the posterior disagrees most with itself (the variation ratio).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from sklearn.datasets import load_digits

from bayesvm import BayesianSVC
from bayesvm.active import ActiveLearner


def main() -> None:
    X, y = load_digits(return_X_y=True)
    pool, test = slice(0, 1200), slice(1200, None)
    first = {int((y == digit).argmax()): digit for digit in range(10)}
    model = BayesianSVC(n_inducing=64, local=False, committee=False, random_state=0)

    print("labels  variation ratio  random   test accuracy")
    learners = {
        policy: ActiveLearner(model, policy, batch_size=5).start(X[pool], first)
        for policy in ("variation_ratio", "random")
    }
    for _ in range(4):
        shares = []
        for learner in learners.values():
            learner.run(y[pool], n_queries=15)
            shares.append((learner.estimator_.predict(X[test]) == y[test]).mean())
        n = len(learner.labelled_rows_)
        print(f"{n:6}  {shares[0]:15.3f}  {shares[1]:6.3f}")

    # A person changes her mind, goes home, and goes on tomorrow.
    learner = learners["variation_ratio"]
    rows = learner.query()
    learner.tell(rows, y[rows])
    print("taken back:", learner.undo().tolist())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "labels.json"
        learner.save(file)
        again = ActiveLearner.load(file, X[pool], model)
    print("asks for the same rows:", again.query().tolist() == rows.tolist())
    print(f"leave-one-out accuracy on the labelled rows: {again.loo_accuracy_:.2f}")
    print("(lower than on the test rows: the labelled ones are the doubtful ones)")


if __name__ == "__main__":
    main()
