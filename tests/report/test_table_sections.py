"""What the report says of the table, its rows and the use of the model."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bayesvm.report._overview import usage_section
from bayesvm.report._pitfalls import Pitfall
from bayesvm.report._reliability import training_section
from bayesvm.report._table import data_section, relevance_section, rows_section

from .evaluations import plain, right_and_wrong


def test_relevance_has_all_columns_and_shows_the_first(nasty, penguins):
    section = relevance_section(penguins)
    assert set(section.names) == set(penguins.features)
    assert section.bars[0].width == 1.0
    assert section.bars[-1].rest
    assert len(relevance_section(nasty).bars) == len(nasty.features)


def test_rows_are_the_least_sure_and_the_surest_mistakes(penguins):
    labels = penguins.leave_one_out.labels
    n = len(labels)
    male = np.where(labels == "MALE", 0.95, 0.05)
    male[7] = 0.52
    male[[20, 30]] = np.where(labels[[20, 30]] == "MALE", [0.02, 0.08], [0.98, 0.92])
    male[40] = 0.2 if labels[40] == "MALE" else 0.8  # wrong, but not surely
    proba = np.stack([1 - male, male], 1)
    fit = replace(penguins, leave_one_out=replace(penguins.leave_one_out, proba=proba))
    section = rows_section(fit, ["Body Mass (g)", "Comments"])
    assert section.unsure[0].number == str(fit.source_rows[7])
    assert [row.number for row in section.suspect] == [str(fit.source_rows[i]) for i in (20, 30)]
    first = section.suspect[0]
    assert first.wrong
    assert (plain(first.first.probability), plain(first.label_probability)) == ("98 %", "2 %")
    assert first.values[0] == f"{fit.table['Body Mass (g)'][20]:.0f}"
    chance = f"about {round(0.05 * (n - 4) + 0.02 + 0.08)}"
    assert plain(section.lead).startswith(
        "2 labels contradict what the model is at least 90 % sure of, as chance would have it "
        f"({chance} expected), and 1 row is a close call"
    )
    assert f"{chance} would be expected by chance" in plain(section.suspect_lead)
    assert section.suspect_title == "Rows it gets wrong with confidence"


def test_labels_that_chance_does_not_explain_may_be_mistakes(penguins):
    labels = penguins.leave_one_out.labels
    wrong = np.arange(len(labels)) < 30
    male = np.where((labels == "MALE") ^ wrong, 0.999, 0.001)
    proba = np.stack([1 - male, male], 1)
    fit = replace(penguins, leave_one_out=replace(penguins.leave_one_out, proba=proba))
    section = rows_section(fit, [])
    assert "may well be mistakes" in section.suspect_lead
    assert section.suspect_title.endswith("likely label errors")
    assert "30 labels contradict" in plain(section.lead)
    assert "90 % sure of, clearly more than chance explains (fewer than one expected)" in plain(section.lead)
    assert len(section.suspect) == 10


def test_no_suspicion_without_confidence(penguins):
    labels = penguins.leave_one_out.labels
    male = np.where(labels == "MALE", 0.45, 0.55)  # all wrong, none of it surely
    fit = replace(
        penguins, leave_one_out=replace(penguins.leave_one_out, proba=np.stack([1 - male, male], 1))
    )
    section = rows_section(fit, [])
    assert section.suspect == ()
    assert section.lead.startswith("No label contradicts")
    assert "it is about 55 % sure of them" in plain(section.unsure_lead)


def test_a_small_excess_of_confident_mistakes_is_no_sign_of_wrong_labels(penguins):
    """Of many rows, a tenth more than expected is certain to be an excess, but no label error."""
    left = right_and_wrong(89_000, 11_000, sure=0.9, origin="leave-one-out")
    table = pd.DataFrame({"x": np.zeros(100_000)})
    fit = replace(penguins, leave_one_out=left, table=table, source_rows=np.arange(1, 100_001))
    section = rows_section(fit, ["x"])
    assert "as chance would have it" in section.lead
    assert "label errors" not in section.suspect_title


def test_data_section_counts_rows_columns_and_gaps(penguins):
    section = data_section(penguins, [])
    facts = {name: plain(fact) for name, fact in section.facts}
    assert facts["Rows"] == "333 (11 rows without a value of “Sex” left out)"
    assert facts["Columns used"].startswith("14 (")
    assert "“Region” (always the same value)" in facts["Columns not used"]
    assert [(bar.name, plain(bar.value)) for bar in section.classes] == [
        ("MALE", "168 (50 %)"),
        ("FEMALE", "165 (50 %)"),
    ]
    assert section.gaps[0].name == "Comments"
    assert "None of the usual pitfalls" in section.lead


def test_gaps_are_what_the_model_takes_for_missing(penguins):
    table = penguins.table.copy()
    island = table["Island"].astype(object)
    island[:4] = ["", "NA", "?", None]
    fit = replace(penguins, table=table.assign(Island=island))
    assert ("Island", "4 (1 %)") in [(bar.name, plain(bar.value)) for bar in data_section(fit, []).gaps]


def test_pitfalls_name_rows_as_the_file_counts_them(penguins):
    pitfall = Pitfall("duplicates", "caution", "2 rows", "Why.", "What.", rows=(0, 3))
    section = data_section(penguins, [pitfall])
    numbers = penguins.source_rows[[0, 3]]
    assert section.findings[0].rows == f"{numbers[0]}, {numbers[1]}"
    assert "1 caution" in plain(section.lead)


def test_many_classes_are_summed_up(nasty):
    bars = data_section(nasty, []).classes
    assert len(bars) == 11
    assert bars[-1].name == "30 other classes"


def test_training_says_how_it_ended(penguins, nasty):
    assert "came to rest" in training_section(penguins).lead
    assert "interrupted" in training_section(replace(penguins, interrupted=True)).lead
    assert "had not come to rest after 2 sweeps" in plain(training_section(nasty).lead)


def test_usage_has_the_names_of_this_fit(penguins):
    section = usage_section(penguins, "out folder/my model.skops", "penguins.parquet", 0.02)
    assert section.command.startswith("bayesvm predict 'my model.skops' new.parquet --abstain 0.02")
    assert "bayesvm.load('my model.skops')" in section.python
    compile(section.python, "usage", "exec")
    bundled = usage_section(penguins, "penguins.skops", "penguins.csv (bundled example)", 0.01)
    assert bundled.command.startswith("bayesvm predict penguins.skops new.csv --abstain")
    assert "read_table('new.csv', model=model)" in bundled.python
    assert "was not saved" in usage_section(penguins, None, None, 0.02).lead


@pytest.mark.parametrize(
    ("source", "new"),
    [
        ("my table.tsv.gz", "new.tsv.gz"),
        ("TABLE.CSV", "new.csv"),
        ("a.pq", "new.pq"),
        ("a.csv.2024.parquet", "new.parquet"),
        ("a.parquet.csv.zst (first half)", "new.csv.zst"),
        ("a.csvx", "new.csv"),
        ("database", "new.csv"),
    ],
)
def test_usage_reads_files_like_the_one_fitted(penguins, source, new):
    assert f" {new} --abstain" in usage_section(penguins, "m.skops", source, 0.01).command


def test_values_of_every_type_are_shown(penguins):
    table = penguins.table.assign(
        flag=True, when=pd.Timestamp("2024-02-03"), number=1234567.0, small=0.000012345, note="word " * 50
    )
    fit = replace(penguins, table=table)
    section = rows_section(fit, ["flag", "when", "number", "small"])
    assert [plain(value) for value in section.unsure[0].values] == [
        "yes",
        "2024-02-03 00:00:00",
        "1 234 567",
        "1.234e-05",
    ]
    (note,) = rows_section(fit, ["note"]).unsure[0].values
    assert note.endswith("…")
    assert len(note) <= 36
