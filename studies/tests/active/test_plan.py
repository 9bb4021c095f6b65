"""Which runs there are."""

from collections import Counter

from bayesvm_studies.active import ActiveSettings
from bayesvm_studies.active.plan import MODELS, PAIR, POLICIES, make_plan, title_of


def plan(sets, **settings):
    return make_plan(ActiveSettings(**{"subset": "iris", **settings}), sets)


def test_everything_on_one_set(sets):
    tasks = plan(sets).tasks
    counts = Counter(t.model for t in tasks)
    assert counts == {
        **{f"default/{p}": 5 for p in POLICIES},
        "random_forest/margin": 5,
        "svc/margin": 5,
        "dense/variation_ratio": 5,
        "dense/margin": 5,
        "dense/random": 5,
        **{f"paper/{p}": 1 for p in PAIR},
    }
    assert len({t.key for t in tasks}) == len(tasks)
    assert [t.split for t in tasks] == sorted(t.split for t in tasks)  # a seed of all sets before the next


def test_settings_choose(sets):
    tasks = plan(sets, models="default,svc", policies="margin,random", seeds=2, queries=7).tasks
    assert [(t.split, t.model) for t in tasks] == [
        (seed, model) for seed in range(2) for model in ("default/margin", "default/random", "svc/margin")
    ]
    arguments = tasks[0].config["arguments"]
    assert arguments["n_queries"] == 7
    assert arguments["model_arguments"]["n_inducing"] == 4
    assert tasks[0].config["shortened"]
    assert not plan(sets, seeds=1).tasks[0].config["shortened"]


def test_all_policies_share_what_makes_the_rows(sets):
    tasks = [t for t in plan(sets, seeds=1, group="sets").tasks if t.model.startswith("default/")]
    shared = [{k: v for k, v in t.config["arguments"].items() if k != "policy"} for t in tasks]
    assert all(s == shared[0] for s in shared)
    assert len(tasks) == len(POLICIES)


def test_versions_tell_models_and_loop(sets):
    versions = {t.model: t.versions for t in plan(sets, seeds=1).tasks}
    assert set(versions["default/margin"]) == {"bayesvm", "numpy", "scikit-learn", "torch", "bayesvm.active"}
    assert set(versions["svc/margin"]) == {"numpy", "scikit-learn", "bayesvm.active"}
    assert versions["svc/margin"]["bayesvm.active"] != versions["random_forest/margin"]["bayesvm.active"]


def test_poker_and_the_clock_need_poker(sets):
    assert plan(sets, group="poker,clock").tasks == []


def test_titles():
    assert title_of("default/bald") == "Mutual information"
    assert all(title_of(f"{m}/{p}") for m, learner in MODELS.items() for p in learner.policies)
