"""What the sections of a report say, from evaluations made to order."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bayesvm import LeftOut
from bayesvm.report import Pitfall
from bayesvm.report._overview import headline, training_section, usage_section
from bayesvm.report._quality import (
    abstention_section,
    confusion_section,
    quality_section,
    reliability_section,
)
from bayesvm.report._table import data_section, relevance_section, rows_section
from bayesvm.tables import Evaluation
from bayesvm.tables._predictions import abstention_threshold


def plain(text):
    return text.replace("\u00a0", " ").replace("\u202f", " ").replace("\u2011", "-")


def judged(labels, answers, sure=0.9, classes=None, origin="held out", majority=None):
    """An evaluation in which every answer was given with the same probability."""
    classes = np.unique(labels) if classes is None else np.asarray(classes)
    labels, answers = np.asarray(labels), np.asarray(answers)
    proba = np.full((len(labels), len(classes)), (1 - sure) / (len(classes) - 1))
    proba[np.arange(len(labels)), np.searchsorted(classes, answers)] = sure
    counts = np.where(classes == (classes[0] if majority is None else majority), 101, 100)
    return Evaluation(classes, labels, proba, np.arange(len(labels)), origin, counts)


def right_and_wrong(right, wrong, **options):
    labels = ["FEMALE", "MALE"] * ((right + wrong) // 2)
    other = {"FEMALE": "MALE", "MALE": "FEMALE"}
    answers = [label if i < right else other[label] for i, label in enumerate(labels)]
    return judged(labels, answers, **options)


def top(fit, heldout, pitfalls=()):
    return headline(replace(fit, heldout=heldout), list(pitfalls), "x.csv", 0.01)


def test_headline_counts_and_gives_a_range(penguins):
    sentence = plain(top(penguins, right_and_wrong(60, 6)).sentence)
    assert sentence == (
        "Of 66 rows it had not seen, it got 60 right (91 %; between 82 % and 96 % would not surprise us)."
    )


@pytest.mark.parametrize(
    ("right", "wrong", "sure", "verdict", "words"),
    [
        (95, 5, 0.9, "good", "far better"),
        (80, 20, 0.8, "good", "clearly better"),
        (132, 68, 0.66, "fair", "still often wrong"),
        (80, 20, 0.999, "fair", "not to be relied on"),
        (54, 46, 0.9, "poor", "may be no better"),
        (30, 70, 0.9, "poor", "worse than"),
    ],
)
def test_verdict_compares_with_one_answer_for_all(penguins, right, wrong, sure, verdict, words):
    found = top(penguins, right_and_wrong(right, wrong, sure=sure))
    assert found.verdict == verdict
    assert words in found.comparison
    assert "always answering “FEMALE”, which is right for 50 %" in plain(found.comparison)


def test_an_alarm_dampens_the_headline(penguins):
    alarm = Pitfall("copy", "alarm", "“x” is the answer under another name", "Why.", "Remove it.", ("x",))
    found = top(penguins, right_and_wrong(95, 5), [alarm])
    assert found.verdict == "fair"
    assert "“x” is the answer under another name" in found.warnings[0]
    assert top(penguins, right_and_wrong(95, 5), [replace(alarm, severity="note")]).warnings == ()


def test_probabilities_no_better_than_the_class_frequencies_are_said_so_at_the_top(penguins):
    found = top(penguins, right_and_wrong(80, 20, sure=0.999))
    assert found.verdict == "fair"
    assert "no better than the class frequencies" in found.warnings[0]
    assert "that of the frequencies 0.693" in found.warnings[0]
    assert "By leave-one-out of the 333 rows" in plain(found.warnings[0])


@pytest.fixture
def right_from(penguins, monkeypatch):
    """The penguins with a model that answers rightly from some confidence on."""

    def fit(limit):
        sure, one = np.minimum(np.linspace(0.5, 1.1, 1200), 1.0), np.ones(1200)
        rows = LeftOut(sure, (sure >= limit).astype(float), sure, one, one)
        monkeypatch.setattr(penguins.pipeline["columns"], "calibration_", tuple(rows))
        threshold = abstention_threshold(penguins.pipeline, 0.05)
        assert threshold == pytest.approx(limit, abs=0.05)
        return penguins, threshold

    return fit


def test_figures_of_the_top_come_from_the_same_rows(right_from):
    held = right_and_wrong(60, 6, sure=0.9)
    penguins, limit = right_from(0.8)
    for threshold, share in ((limit - 1e-9, "0 %"), (limit + 1e-9, "100 %")):
        proba = np.where(held.proba > 0.5, threshold, 1 - threshold)
        fit = replace(penguins, heldout=replace(held, proba=proba))
        figures = {plain(what): plain(value) for value, what in headline(fit, [], None, 0.05).figures}
        assert figures["of held-out rows right"] == "91 %"
        assert figures["of held-out rows answered, if at most 5 % may be wrong"] == share


def test_an_interruption_is_said_at_the_top(penguins, monkeypatch):
    fit = replace(penguins, interrupted=True)
    assert "learned from 333 rows and" in plain(headline(fit, [], None, 0.01).warnings[0])
    monkeypatch.setattr(fit.pipeline["columns"], "n_rows_", 266)
    found = headline(fit, [], None, 0.01)
    assert "learned from 266 of 333 rows" in plain(found.warnings[0])
    assert found.figures[-1][0] == "266"
    section = data_section(fit, [])
    assert plain(section.lead).startswith("The model learned from 266 rows")
    assert dict(section.facts)["Rows"].endswith("; 266 were learned from")


def test_headline_without_held_out_rows(nothing_held_out):
    found = headline(nothing_held_out, [], None, 0.05)
    assert "each predicted as if it had not been seen" in plain(found.sentence)
    assert found.figures[0][1] == "of rows, each left out in turn, right"


def test_a_handful_of_held_out_rows_is_no_headline(penguins):
    found = top(penguins, right_and_wrong(4, 0))
    assert plain(found.sentence).startswith("Of 333 rows, each predicted as if it had not been seen")


def test_quality_explains_log_loss_as_a_typical_probability(penguins):
    section = quality_section(replace(penguins, heldout=right_and_wrong(200, 0, sure=0.8)))
    assert plain(section.typical) == "80 %"
    assert section.log_loss == f"{-np.log(0.8):.3f}"
    without_model = {name: plain(cells[-1][0]) for name, _, cells in section.measures}
    assert without_model["Typical probability of the true class"] == "50 %"
    assert [plain(name) for name, _ in section.heads] == ["held out", "leave-one-out", "without a model"]


def test_quality_says_whether_held_out_and_leave_one_out_agree(penguins):
    def said(left_right, left_wrong):
        left = right_and_wrong(left_right, left_wrong, origin="leave-one-out")
        fit = replace(penguins, heldout=right_and_wrong(160, 40), leave_one_out=left)
        return quality_section(fit).agreement

    assert "agree within chance" in said(330, 70)
    assert "Believe the held-out figures" in said(392, 8)
    assert "They are the judgement" in said(240, 160)


def test_quality_without_held_out_rows_says_so(nothing_held_out, penguins):
    unjudged = replace(penguins, heldout=None, interrupted=True)
    assert "The held-out rows were not judged" in quality_section(unjudged).agreement
    section = quality_section(nothing_held_out)
    assert "No rows were held out" in section.agreement
    assert len(section.heads) == 2
    assert all(len(cells) == 2 for _, _, cells in section.measures)


@pytest.mark.parametrize(
    ("right", "wrong", "sure", "words"),
    [
        (360, 40, 0.9, "at their word"),
        (360, 40, 0.99, "surer than it should be"),
        (360, 40, 0.6, "more modest"),
        (17_800, 2_200, 0.9, "at their word"),  # a point apart, however certainly
        (18_200, 1_800, 0.9, "at their word"),
        (24, 4, 0.8, "too few rows"),
        (360, 40, 0.9999999, "do not rely on them"),
    ],
)
def test_reliability_in_words(penguins, right, wrong, sure, words):
    held = right_and_wrong(right, wrong, sure=sure)
    left = right_and_wrong(right, wrong, sure=sure, origin="leave-one-out")
    section = reliability_section(replace(penguins, heldout=held, leave_one_out=left))
    assert words in section.lead
    assert words in section.svg


def test_few_held_out_rows_leave_the_details_to_leave_one_out(penguins):
    assert reliability_section(penguins).rows.startswith("leave-one-out of the")
    many = replace(penguins, heldout=right_and_wrong(200, 20))
    assert reliability_section(many).rows.endswith("held out")


def test_confusion_matrix_is_counted(nothing_held_out):
    labels = [0, 0, 0, 1, 1, 2] * 5
    answers = [0, 1, 1, 1, 1, 2] * 5
    fit = replace(nothing_held_out, leave_one_out=judged(labels, answers, origin="leave-one-out"))
    section = confusion_section(fit)
    counts = [[n for n, _ in line.cells] for line in section.matrix]
    assert counts == [["5", "10", "0"], ["0", "10", "0"], ["0", "0", "5"]]
    assert [plain(line.right) for line in section.matrix] == ["33 %", "100 %", "100 %"]
    assert [share for _, share in section.matrix[0].cells] == pytest.approx([1 / 3, 2 / 3, 0])
    assert "take “0” for “1”: 10 of 15 such rows (67 %)" in plain(section.lead)


def test_a_mistake_is_named_only_if_it_stands_out(nothing_held_out):
    def said(labels, answers):
        left = judged(labels, answers, origin="leave-one-out")
        return plain(confusion_section(replace(nothing_held_out, leave_one_out=left)).lead)

    names = np.array([f"c{i:02d}" for i in range(30)])
    few = np.arange(300) < 3
    assert "too few mistakes" in said(np.tile(names, 10), np.where(few, "c07", np.tile(names, 10)))
    spread = said(np.tile(names, 10), np.tile(np.roll(names, 1), 10))  # 30 kinds of ten rows
    assert "spread over 30 kinds of mistakes" in spread
    rare = said(np.tile(names, 4), np.tile(np.where(names < "c08", np.roll(names, 1), names), 4))
    assert "spread over 8 kinds of mistakes" in rare
    assert "most frequent" not in spread + rare


def test_many_classes_become_a_list_of_mistakes(nothing_held_out):
    names = [f"c{i:02d}" for i in range(30)]
    labels = names * 10
    answers = list(labels)
    answers[:2] = ["c07", "c07"]  # c00 and c01 are taken for c07
    answers[30] = "c07"
    fit = replace(nothing_held_out, leave_one_out=judged(labels, answers, origin="leave-one-out"))
    section = confusion_section(fit)
    assert section.matrix == ()
    assert section.mixups == (("c00", "c07", "2 of 10"), ("c01", "c07", "1 of 10"))
    assert [bar.name for bar in section.classes[:2]] == ["c00", "c01"]
    assert section.classes[0].width == pytest.approx(0.8)
    assert len(section.classes) == 30


def test_hundreds_of_classes_are_cut(nothing_held_out):
    labels = [f"c{i:03d}" for i in range(150)] * 2
    fit = replace(nothing_held_out, leave_one_out=judged(labels, labels, origin="leave-one-out"))
    section = confusion_section(fit)
    assert len(section.classes) == 100
    assert "50 classes" in section.note
    assert "mixed up nothing" in section.lead


def test_abstention_tells_what_the_model_would_do(right_from):
    penguins, threshold = right_from(0.8)
    section = abstention_section(penguins, 0.05)
    kept = penguins.leave_one_out.proba.max(1) >= threshold
    assert 0 < kept.sum() < len(kept)
    assert section.offers[2].outcome.endswith(f" of {kept.sum()}")
    assert [offer.chosen for offer in section.offers] == [False, False, True, False, False]
    lead = plain(section.lead)
    assert lead.startswith("Asked for at most 5 % errors it answers")
    assert lead.endswith(
        "The rate is an aim, from rows that models like this one had not seen: new rows may have more errors."
    )


def test_without_held_out_rows_training_rows_decide(nothing_held_out):
    section = abstention_section(nothing_held_out, 0.05)
    threshold = nothing_held_out.pipeline["model"].abstention_threshold(0.05)
    assert threshold < 1
    kept = nothing_held_out.leave_one_out.proba.max(1) >= threshold
    assert section.offers[2].outcome.endswith(f" of {kept.sum()}")
    assert "The rate is an aim, from rows that models like this one had not seen" in section.lead


def test_a_rate_that_too_few_rows_support_is_not_offered(penguins):
    offers = abstention_section(penguins, 0.002).offers[:2]  # 1151 and 230 rows without an error, of 333
    assert {(offer.sure, offer.answered, offer.outcome) for offer in offers} == {("–", "0\u00a0%", "–")}


@pytest.mark.parametrize("answers", [True, False])
def test_held_out_rows_are_answered_by_the_threshold_of_the_model(right_from, answers):
    penguins, _ = right_from(0.7 if answers else 0.9)
    between = 0.8

    def section(n_rows):
        held = right_and_wrong(n_rows, 0)
        proba = np.where(held.proba > 0.5, between, 1 - between)
        return abstention_section(replace(penguins, heldout=replace(held, proba=proba)), 0.05)

    many = section(220)
    assert ("it answers every row" if answers else "it answers no row at all") in many.lead
    assert ("the dot" in many.marks) == answers
    (chosen,) = [offer for offer in many.offers if offer.chosen]
    assert chosen.outcome == ("0 of 220" if answers else "–")
    few = section(66)  # the figure is leave-one-out's then, one sentence is not
    assert f"rows answered {'66 of 66' if answers else 'none of them'}" in few.lead


def test_abstention_that_cannot_keep_a_promise_says_so(penguins):
    section = abstention_section(penguins, 1e-6)
    assert "it answers no row at all" in section.lead
    assert "the dot" not in section.marks
    assert section.offers[0].outcome == "–"


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
    assert (plain(first.first[1]), plain(first.label_probability)) == ("98 %", "2 %")
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
