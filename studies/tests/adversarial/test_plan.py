"""Which attacks there are, which models they need, and what makes one another run."""

import os

import pytest

from bayesvm_studies.adversarial import AdversarialSettings
from bayesvm_studies.adversarial.plan import (
    VICTIMS,
    make_plan,
)
from bayesvm_studies.images.models import model_file
from studies.tests.images.folders import cifar_folder, mnist_folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return cifar_folder(mnist_folder(tmp_path_factory.mktemp("images"), 40, 20))


def made(data, folder, **settings):
    return make_plan(AdversarialSettings(models_from=str(folder), **settings), data)


def names(tasks):
    return [(t.protocol, t.model, t.split) for t in tasks]


def put(folder, group, head, seed, place="0" * 16, content=b"weights"):
    path = model_file(folder, group, head, seed, place)
    path.write_bytes(content)
    return path


def test_everything(data, tmp_path):
    plan = made(data, tmp_path)
    attacked = names(plan.stages[1].tasks)
    for group in ("mnist", "cifar10", "cifar10_residual"):
        for name, victim in VICTIMS.items():
            few = group == "cifar10_residual" and name in ("bayesvm_adam", "mc_dropout")
            seeds = range(1 if victim.together or few else 3)
            found = [t for t in attacked if t[1] == f"{group}.{name}"]
            # One step for all seeds, many for the first.
            assert found == [
                (a, f"{group}.{name}", s) for s in seeds for a in victim.attacks if s == 0 or a == "fgsm"
            ]
    assert len(set(attacked)) == len(attacked)
    assert len({t.key for t in plan.tasks}) == len(plan.tasks)
    # Four heads of three seeds, two of which have one seed on the residual network.
    assert len(plan.stages[0].tasks) == 12 + 12 + 8


def test_kept_models_are_not_trained_again(data, tmp_path):
    for seed in range(3):
        put(tmp_path, "mnist", "softmax", seed)
    plan = made(data, tmp_path, group="mnist", models="softmax,softmax_tempered,ensemble")
    assert plan.stages[0].tasks == []
    found = {(t.protocol, t.model, t.split): t.config["arguments"] for t in plan.stages[1].tasks}
    assert found["fgsm", "mnist.softmax", 2]["members"] == [f"mnist-softmax-seed2-{'0' * 16}.pt"]
    assert len(found["pgd", "mnist.ensemble", 0]["members"]) == 3
    assert found["fgsm", "mnist.softmax_tempered", 1]["tempered"]
    assert not found["fgsm", "mnist.softmax", 1]["tempered"]


def test_what_is_missing_is_trained(data, tmp_path):
    put(tmp_path, "mnist", "bayesvm", 1)
    plan = made(data, tmp_path, group="mnist", models="bayesvm", attacks="fgsm")
    assert names(plan.stages[0].tasks) == [("mnist", "bayesvm", 0), ("mnist", "bayesvm", 2)]
    for task in plan.stages[0].tasks:
        put(tmp_path, task.protocol, task.model, task.split, task.place)
    again = made(data, tmp_path, group="mnist", models="bayesvm", attacks="fgsm")
    assert again.stages[0].tasks == []
    # The file's name was known before: only the content was not.
    assert [t.place for t in again.stages[1].tasks] == [t.place for t in plan.stages[1].tasks]
    assert [a.key == b.key for a, b in zip(again.stages[1].tasks, plan.stages[1].tasks, strict=True)] == [
        False,
        True,
        False,
    ]


def test_of_several_files_the_own_one_then_the_newest(data, tmp_path):
    one = {"group": "mnist", "models": "bayesvm", "attacks": "fgsm", "seeds": 1}
    own = made(data, tmp_path, **one).stages[0].tasks[0].place
    new, old = (put(tmp_path, "mnist", "bayesvm", 0, c * 16, c.encode()) for c in "ab")
    os.utime(old, (1.0, 1.0))
    assert made(data, tmp_path, **one).stages[1].tasks[0].config["arguments"]["members"] == [new.name]
    mine = put(tmp_path, "mnist", "bayesvm", 0, own)
    os.utime(mine, (0.0, 0.0))
    assert made(data, tmp_path, **one).stages[1].tasks[0].config["arguments"]["members"] == [mine.name]


def test_other_weights_are_another_run(data, tmp_path):
    one = {"group": "mnist", "models": "bayesvm", "attacks": "fgsm", "seeds": 1}
    put(tmp_path, "mnist", "bayesvm", 0, content=b"1")
    before = made(data, tmp_path, **one).stages[1].tasks[0]
    put(tmp_path, "mnist", "bayesvm", 0, content=b"2")
    after = made(data, tmp_path, **one).stages[1].tasks[0]
    assert (before.place, before.versions) != (after.place, after.versions)
    assert before.key != after.key


def test_an_ensemble_has_more_than_one_member(data, tmp_path):
    plan = made(data, tmp_path, group="mnist", models="ensemble", seeds=1)
    assert plan.stages[1].tasks == []


def test_fewer_rows_are_marked(data, tmp_path):
    plan = made(data, tmp_path, group="mnist", models="bayesvm", limit_rows=30)
    assert all(t.config["shortened"] for t in plan.tasks)
