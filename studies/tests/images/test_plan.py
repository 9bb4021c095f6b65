"""Which runs there are, and what makes one another run."""

import pytest

from bayesvm_studies.images import ImageSettings
from bayesvm_studies.images.models import model_file
from bayesvm_studies.images.plan import GROUPS, PARTS, make_plan, title_of
from studies.tests.images.folders import cifar_folder, mnist_folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return cifar_folder(mnist_folder(tmp_path_factory.mktemp("images"), 40, 20))


def made(data, **settings):
    return make_plan(ImageSettings(**settings), data)


def names(tasks):
    return [(t.protocol, t.data, t.model, t.split) for t in tasks]


def test_everything(data):
    plan = made(data)
    trained = names(plan.stages[0].tasks)
    for group in ("mnist", "cifar10"):
        for model in ("softmax", "bayesvm", "bayesvm_adam", "mc_dropout"):
            assert [t for t in trained if t[0] == group and t[2] == model] == [
                (group, group, model, seed) for seed in range(3)
            ]
    residual = [t[2] for t in trained if t[0] == "cifar10_residual"]
    assert {m: residual.count(m) for m in residual} == {
        "softmax": 3,
        "bayesvm": 3,
        "bayesvm_adam": 1,
        "mc_dropout": 1,
    }
    study = {"bayesvm", "bayesvm_warmup", "bayesvm_adam", "bayesvm_adam_warmup"}
    for data_set in ("mnist", "cifar10"):
        assert {t[2] for t in trained if t[:2] == ("warmup", data_set)} == study
    derived = names(plan.stages[1].tasks)
    for group in GROUPS:
        assert [t[3] for t in derived if t[0] == group and t[2] == "laplace"] == [0, 1, 2]
        assert [t[3] for t in derived if t[0] == group and t[2] == "ensemble"] == [0]
    clocks = [f"{name}{way}" for name in GROUPS for way in ("", "_plain")]
    assert [t[2] for t in names(plan.stages[2].tasks)] == [*clocks, "cifar10_residual_pace", "1000_classes"]
    assert len({task.key for task in plan.tasks}) == len(plan.tasks)
    assert trained[0][0] == "cifar10_residual"  # the longest


def test_parts_subsets_models_and_seeds(data):
    tasks = made(data, group="mnist,warmup", models="softmax,ensemble,bayesvm", seeds=2).tasks
    assert {(t[0], t[1], t[2]) for t in names(tasks)} == {
        ("mnist", "mnist", "softmax"),
        ("mnist", "mnist", "ensemble"),
        ("mnist", "mnist", "bayesvm"),
        *(
            ("warmup", name, model)
            for name in ("mnist", "cifar10")
            for model in ("bayesvm", "bayesvm_warmup")
        ),
    }
    assert {t.data for t in made(data, subset="mnist").tasks} == {"mnist"}
    one = made(data, group="mnist", seeds=1)
    assert "ensemble" not in [t.model for t in one.tasks]  # of one there is none


def test_only_what_is_needed_must_be_there(tmp_path):
    folder = mnist_folder(tmp_path, 40, 20)
    assert made(folder, subset="mnist").tasks


def test_what_makes_another_run(data):
    def keys(**settings):
        return {t.key for t in made(data, group="mnist", models="softmax", **settings).tasks}

    plain = keys()
    assert plain == keys()
    for other in ({"epochs": 2}, {"limit_rows": 64}, {"device": "cuda"}, {"compile": "default"}):
        assert not plain & keys(**other)
    assert keys(seeds=1) < plain


def test_shortened_runs_are_marked(data):
    assert not any(t.config["shortened"] for t in made(data).tasks)
    for short in ({"epochs": 1}, {"limit_rows": 64}):
        assert all(t.config["shortened"] for t in made(data, **short).tasks)
    epochs = {t.config["arguments"]["recipe"]["epochs"] for t in made(data, epochs=1).tasks}
    assert epochs == {1}


def test_members_of_an_ensemble_are_the_softmax_runs(data):
    for settings in ({}, {"epochs": 3}, {"seeds": 2}):
        plan = made(data, group="cifar10", **settings)
        softmax = {t.split: t.place for t in plan.stages[0].tasks if t.model == "softmax"}
        ensemble = next(t for t in plan.stages[1].tasks if t.model == "ensemble")
        assert dict(ensemble.config["arguments"]["members"]) == softmax
        for t in plan.stages[1].tasks:
            if t.model == "laplace":
                assert t.config["arguments"]["members"] == [[t.split, softmax[t.split]]]


def test_a_change_of_the_head_leaves_competitors_alone(data, monkeypatch):
    before = {(t.model, t.split): t.key for t in made(data, group="mnist").tasks}
    original = __import__("bayesvm_studies.images.plan", fromlist=["code_version"]).code_version

    def changed(*modules, without=()):
        return original(*modules, without=without) + ("" if "_head" in without else "x")

    monkeypatch.setattr("bayesvm_studies.images.plan.code_version", changed)
    after = {(t.model, t.split): t.key for t in made(data, group="mnist").tasks}
    again = {model for (model, split), key in after.items() if key != before[model, split]}
    assert again == {"bayesvm", "bayesvm_adam"}


def test_every_part_has_a_name_and_every_model_a_title():
    assert PARTS == ("mnist", "cifar10", "cifar10_residual", "warmup", "timing")
    assert title_of("bayesvm_tempered") == "Bayesian SVM + T"
    assert str(model_file("kept", "mnist", "softmax", 2, "abc")) == "kept/mnist-softmax-seed2-abc.pt"
