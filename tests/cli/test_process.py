"""The command as users meet it: a process with its streams, terminals, pipes and signals."""

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import bayesvm as library
from bayesvm.tables import write_table

from .processes import COMMAND, SECONDS, Terminal, environment, plain, python, run

HEAVY = ["torch", "numpy", "scipy", "sklearn", "pandas", "skrub", "skops", "matplotlib", "jinja2", "rich"]
HEAVY += ["bayesvm_studies"]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["fit", "--help"], ["--version"], [], ["fit", "--nonsense"]]
)
def test_help_imports_nothing_heavy(arguments):
    answer = python(
        f"import sys; from bayesvm._cli import run; status = run({arguments!r})\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    assert answer.stderr.splitlines()[-1] == "[]"
    if arguments != ["fit", "--nonsense"]:
        assert "bayesvm" in answer.stdout


def test_help_names_every_command():
    answer = run("--help")
    assert (answer.returncode, answer.stderr) == (0, "")
    for name in ("fit", "predict", "evaluate", "label", "info", "reproduce", "report", "--version"):
        assert name in answer.stdout
    assert run("--version").stdout == f"bayesvm {library.__version__}\n"


def without_distributions(*arguments):
    """Run a command where no entry point is registered; whether the studies were imported goes last."""
    return python(
        "import importlib.metadata, sys\n"
        "importlib.metadata.entry_points = lambda **_: ()\n"
        f"from bayesvm._cli import run; status = run({list(arguments)!r})\n"
        "print('bayesvm_studies' in sys.modules); sys.exit(status)"
    )


@pytest.mark.parametrize("name", ["reproduce", "report"])
def test_commands_of_the_studies(name):
    answer = run(name, "--help")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith(f"Usage: bayesvm {name} [OPTIONS] COMMAND [ARGS]...\n")
    for study in ("structured", "images", "active", "adversarial"):
        assert f"\n  {study} " in answer.stdout
    assert run(name).stdout == answer.stdout
    inner = run(name, "structured", "--help")
    assert inner.stdout.startswith(f"Usage: bayesvm {name} structured [OPTIONS]")
    refused = run(name, "structured", "--nonsense")
    assert refused.returncode == 2
    assert refused.stderr.endswith(f"See 'bayesvm {name} structured --help'.\n")


@pytest.mark.parametrize("arguments", [["reproduce", "images", "-j", "2"], ["report", "--help"], ["report"]])
def test_without_the_studies_their_commands_say_how_to_get_them(arguments):
    answer = without_distributions(*arguments)
    assert (answer.returncode, answer.stdout) == (2, "False\n")
    assert answer.stderr == (
        f"bayesvm: 'bayesvm {arguments[0]}' is part of the studies, a separate distribution: "
        "pip install ./studies in a checkout of bayesvm\n"
    )
    help_text = without_distributions("--help")
    assert help_text.returncode == 0
    assert "\n  report     Show what the experiments found.\n" in help_text.stdout


def test_the_script_is_installed():
    script = os.path.join(os.path.dirname(sys.executable), "bayesvm")
    if not os.path.exists(script):
        pytest.skip("the library is not installed here, only importable")
    answer = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=SECONDS)
    assert answer.stdout == f"bayesvm {library.__version__}\n"


def test_usage_errors():
    answer = run("predict")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "bayesvm: Missing argument 'MODEL'. See 'bayesvm predict --help'.\n"


@pytest.mark.parametrize(
    ("package", "command"), [("typer", "fit"), ("skrub", "fit"), ("pandas", "fit"), ("pandas", "predict")]
)
def test_missing_packages_are_named(package, command, tmp_path):
    answer = python(
        f"import os, sys; sys.modules[{package!r}] = None; os.chdir({str(tmp_path)!r})\n"
        f"sys.argv = ['bayesvm', {command!r}, *{['m.skops'] * (command == 'predict')}]\n"
        "from bayesvm._cli import main; main()"
    )
    assert (answer.returncode, answer.stdout) == (2, "")
    assert re.fullmatch(rf"bayesvm: .*need.* {package}: pip install 'bayesvm\[cli\]'\n", answer.stderr)
    assert list(tmp_path.iterdir()) == []


# Slow; one process of each kind runs fast.
@pytest.mark.slow
def test_a_reader_that_has_enough_is_no_error(workshop):
    command = " ".join([*COMMAND, "predict", str(workshop / "animals.skops"), str(workshop / "new.csv")])
    answer = subprocess.run(
        ["sh", "-c", f"({command}; echo status $? >&2) | true"],  # a reader that reads nothing
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment(),
    )
    assert answer.stderr == "status 141\n"


def test_on_a_terminal(workshop, tmp_path):
    terminal = Terminal(["fit", workshop / "animals.csv", "--target", "species"], tmp_path)
    assert terminal.finish() == 0
    text = plain(terminal.text)
    assert "\x1b[1;36mHow good" in terminal.text
    assert "Trial fit" in text
    assert "Final fit" in text
    assert "finding what matters" in text
    assert re.search(r"\d:\d\d:\d\d", text)  # the time left
    summary = text[text.rindex("Data\n") :]
    assert "Written" in summary
    assert "fit   " not in summary
    assert max(map(len, summary.splitlines())) <= 70
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["animals.html", "animals.skops"]


@pytest.mark.parametrize("columns", [60, *(pytest.param(n, marks=pytest.mark.slow) for n in (80, 40))])
def test_the_time_left_is_never_cut(workshop, tmp_path, columns):
    arguments = ["fit", workshop / "animals.csv", "--target", "species", "--no-report"]
    terminal = Terminal(arguments, tmp_path, COLUMNS=str(columns))
    assert terminal.finish() == 0
    lines = re.split(r"[\r\n]+|\x1b\[2K", terminal.text)
    steps = [plain(line) for line in lines if re.search(r"(Trial|Final) fit", line)]
    under_way = [line for line in steps if ":" in line or "find" in line or "sett" in line]
    assert under_way
    for line in under_way:
        assert len(line) <= columns
        assert re.search(r"fit .*[━ ][-\d]:[-\d]{2}:[-\d]{2}( |$)", line), line
        assert columns < 60 or re.search(r"finding what matters|settling decisions", line), line


# Slow; a terminal of usual width runs fast.
@pytest.mark.slow
def test_on_a_narrow_terminal_without_colours(workshop, tmp_path):
    arguments = ["predict", workshop / "animals.skops", workshop / "new.csv", "--abstain", "0.05"]
    terminal = Terminal(arguments, tmp_path, NO_COLOR="1", COLUMNS="44")
    assert terminal.finish() == 0
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", terminal.text)  # no foreground colour
    text = plain(terminal.text)
    shown = text[text.rindex("row  prediction  probability") :].splitlines()
    assert max(map(len, shown)) <= 44
    assert "40 rows: " in shown[11]
    assert "variation_ratio" not in shown[0]  # it does not fit


@pytest.fixture(scope="module")
def slow_table(tmp_path_factory):
    """A table whose fit takes long enough to be interrupted."""
    import pandas as pd

    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 40))
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(40)])
    table["y"] = np.digitize(X[:, 0] * X[:, 1] + X[:, 2], [-1.5, -0.5, 0.0, 0.5, 1.5])
    return write_table(table, tmp_path_factory.mktemp("slow") / "slow.csv")


def test_first_ctrl_c_keeps_the_best_model_so_far(slow_table, tmp_path):
    terminal = Terminal(["fit", slow_table, "--target", "y"], tmp_path)
    terminal.read_until("finding what matters")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.finish() == 130
    text = plain(terminal.text)
    assert "ended by Ctrl-C" in text
    assert "bayesvm: interrupted; the best model so far is saved in slow.skops" in text
    assert "Traceback" not in text
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["slow.html", "slow.skops"]
    assert library.load(tmp_path / "slow.skops")["model"].interrupted_


def test_ctrl_c_while_importing():
    answer = python(
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv = ['bayesvm', 'fit']; from bayesvm._cli import main; main()"
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (130, "", "bayesvm: interrupted\n")


def test_ctrl_c_elsewhere_leaves_nothing(slow_table, tmp_path):
    terminal = Terminal(["fit", slow_table, "--target", "y"], tmp_path)
    terminal.read_until("Starting")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.finish() == 130
    assert plain(terminal.text).splitlines()[-1] == "bayesvm: interrupted"
    assert "Traceback" not in terminal.text
    assert list(tmp_path.iterdir()) == []
