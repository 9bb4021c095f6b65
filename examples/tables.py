"""A table with text, dates, categories and gaps: fit, judge, save, load, ask.

What `bayesvm fit`, `evaluate` and `predict` do, from Python.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import bayesvm
from bayesvm.report import find_pitfalls, write_report
from bayesvm.tables import column_relevance, example_table, fit_table, predict_table


def main() -> None:
    table, target = example_table(), "Sex"  # of 344 penguins
    for pitfall in find_pitfalls(table, target):
        print(f"{pitfall.severity}: {pitfall.title}")

    # Codes of single birds are no use for birds to come.
    fit = fit_table(table, target, ignore=["Individual ID", "Sample Number"])
    for evaluation in (fit.heldout, fit.leave_one_out):
        accuracy, log_loss = evaluation.accuracy, evaluation.log_loss
        print(
            f"{evaluation.origin}, {len(evaluation.rows)} rows: accuracy {accuracy.value:.3f} "
            f"({accuracy.low:.3f} to {accuracy.high:.3f}), log-loss {log_loss.value:.3f}"
        )
    print(column_relevance(fit.pipeline).head(3).round(2).to_dict())

    with tempfile.TemporaryDirectory() as folder:
        model_file = bayesvm.save(fit.pipeline, Path(folder) / "penguins.skops")
        report = write_report(fit, Path(folder) / "penguins.html", model_path=model_file)
        print(f"report: {report.stat().st_size // 1000} kB")
        model = bayesvm.load(model_file)

    answers = predict_table(model, fit.table, max_error=0.1)
    print(f"{answers['ask_a_person'].sum()} of {len(answers)} rows for a person; the least sure:")
    least_sure = answers.nsmallest(3, "probability")
    print(least_sure[["prediction", "probability", "epistemic"]].round(3).to_string())


if __name__ == "__main__":
    main()
