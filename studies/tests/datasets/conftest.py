import pytest

from bayesvm_studies.datasets import IMAGE_SETS


@pytest.fixture(autouse=True)
def no_settings(monkeypatch, tmp_path):
    """Nothing of this machine."""
    monkeypatch.delenv("BAYESVM_DATA", raising=False)
    monkeypatch.delenv("BAYESVM_IMAGES", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, info in IMAGE_SETS.items():
        monkeypatch.setitem(IMAGE_SETS, name, info._replace(system=""))
