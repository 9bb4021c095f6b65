"""The figure of the race is drawn from results alone, whoever is missing in them."""

import importlib.util
import json
from pathlib import Path

import pytest
from peers_contestants import CONTESTANTS, PEERS
from peers_race import Curve, summarise

SCRIPT = Path(__file__).parents[3] / "docs" / "figures" / "peers.py"


@pytest.fixture
def figure():
    spec = importlib.util.spec_from_file_location("peers_figure", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_contestant_has_a_place(figure):
    assert {*figure.LINES, *figure.POINTS} == set(CONTESTANTS)


@pytest.mark.parametrize("best", [0.05, 0.5], ids=["we arrive", "we never arrive"])
def test_figure_is_written(figure, tmp_path, monkeypatch, best):
    curves = {
        (data, model): Curve([0.1, 0.2], [0.9, best]) if model == "bayesvm" else Curve([1.0, 9.0], [0.8, 0.1])
        for data in ("digits", "vehicle")
        for model in CONTESTANTS
        if model != "gpc"
    }
    lines = [json.dumps({"data": d, "model": m, **c._asdict()}) for (d, m), c in curves.items()]
    lines.append(json.dumps({"data": "digits", "model": "gpc", "note": "stopped after 600 s"}))
    (tmp_path / "peers.jsonl").write_text("\n".join(lines))
    (tmp_path / "peers.json").write_text(json.dumps(summarise(curves, PEERS)))
    monkeypatch.setattr(figure, "RESULTS", tmp_path)
    assert 10_000 < figure.main(tmp_path).stat().st_size < 300_000
