"""`slangrad train-mlp`: short trainings, their pictures, and what ends them."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from slangrad.cli import train_mlp, train_mlp_show
from slangrad.cli.mlp import train as mlp_train
from slangrad.cli.mlp.train import NetworkKernels, Training, goals_at
from slangrad.cli.train_mlp import grid_points
from tests.network.model import losses_and_gradients

SHORT = ("--steps", "150")


@pytest.fixture(autouse=True, scope="module")
def kernels_on_disk(tmp_path_factory):
    """Compiled once for all of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLANGRAD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def unpictured(slangrad, monkeypatch):
    """The command without the seconds that a picture takes."""
    monkeypatch.setattr(train_mlp_show, "draw", lambda result, out: f"no {out}")
    return slangrad


def numbers_of(printed):
    """Mean error and largest error of each of the four functions."""
    rows = printed.partition("largest error")[2].strip().splitlines()[:4]
    return np.array([[float(word) for word in row.split()[-2:]] for row in rows])


@pytest.mark.parametrize("precision", ["half", "float"])
@pytest.mark.parametrize("optimizer", ["adam", "gd"])
def test_training(slangrad, tmp_path, precision, optimizer):
    pytest.importorskip("matplotlib")
    code, printed, errors = slangrad("train-mlp", *SHORT, "--precision", precision, "--optimizer", optimizer)
    assert (code, errors) == (0, "")
    points = {"adam": 1024, "gd": 8}[optimizer]
    assert f"150 steps of {points} points in" in printed and f", {precision}, {optimizer}, loss" in printed
    means, largest = numbers_of(printed).T
    assert (means < 0.15).all() and (means < largest).all()
    assert printed.splitlines()[-1] == "picture: mlp.png"
    assert (tmp_path / "mlp.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_lines_where_there_is_no_terminal(unpictured):
    printed = unpictured("train-mlp", "--steps", "40", "--points", "16")[1].splitlines()
    steps = [line.split()[1] for line in printed if line.startswith("step")]
    assert steps == ["1/40", *(f"{n}/40" for n in range(4, 41, 4))]
    assert printed[0].startswith("kernels ready after ")


def test_a_bar_on_a_terminal(unpictured):
    printed = unpictured("train-mlp", "--steps", "20", FORCE_COLOR="1")[1]
    assert "20/20" in printed and "points/s" in printed and "\x1b[" in printed


def test_a_seed_gives_the_same_training_again(unpictured):
    words = ("train-mlp", "--steps", "25", "--points", "1", "--precision", "float")
    first, again, other = (unpictured(*words, "--seed", seed)[1] for seed in ("5", "5", "6"))
    assert (numbers_of(first) == numbers_of(again)).all()
    assert (numbers_of(first) != numbers_of(other)).any()


@pytest.mark.parametrize("kind", [".png", ".svg", ".pdf"])
def test_pictures(slangrad, tmp_path, kind):
    pytest.importorskip("matplotlib")
    code, printed, _ = slangrad("train-mlp", "--steps", "3", "--out", f"picture{kind}")
    assert (code, printed.splitlines()[-1]) == (0, f"picture: picture{kind}")
    assert 20_000 < (tmp_path / f"picture{kind}").stat().st_size < 600_000


def test_a_picture_shows_all_maps_on_shared_scales(monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure  # noqa: PLC0415

    from slangrad.cli import train_mlp_picture  # noqa: PLC0415

    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: drawn.append(figure))
    points = grid_points(20)
    targets = goals_at(points).T.reshape(4, 20, 20)
    progress = train_mlp.TrainingProgress(
        train_mlp.TrainingSettings(steps=2), [4.0, 2.0], [(1, 1.0), (2, 0.5)], 0.1
    )
    learned = targets + np.linspace(-0.2, 0.1, 20)
    train_mlp_picture.draw(train_mlp.TrainingResult(progress, targets, learned), tmp_path / "a.png")
    axes = [each for part in drawn[0].subfigs for each in part.axes]
    assert axes[0].get_yscale() == "log"
    images = [each.images[0] for each in axes if each.images]
    assert len(images) == 12
    for column in range(4):
        assert images[column].get_clim() == images[4 + column].get_clim()
        assert images[column].get_clim() == (targets[column].min(), targets[column].max())
        assert images[8 + column].get_clim() == pytest.approx((-0.2, 0.2))
    assert len(axes) == 1 + 12 + 4 + 1


def test_without_matplotlib(slangrad, tmp_path, monkeypatch):
    monkeypatch.setattr(train_mlp_show, "find_spec", lambda name: None)
    code, printed, errors = slangrad("train-mlp", "--steps", "3")
    assert (code, errors) == (0, "")
    assert printed.splitlines()[-1] == (
        "note: there is no picture without matplotlib: pip install matplotlib"
    )
    assert numbers_of(printed).shape == (4, 2)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_with_what_was_learned(unpictured, monkeypatch):
    def step(network, points):
        if len(steps) == 30:
            signal.raise_signal(signal.SIGINT)
        steps.append(len(points))
        return original(network, points)

    steps, original = [], Training.step
    monkeypatch.setattr(Training, "step", step)
    code, printed, errors = unpictured("train-mlp", "--steps", "100000")
    assert (code, errors, len(steps)) == (0, "", 31)
    assert "interrupted: 31 steps of 1024 points in" in printed
    assert numbers_of(printed).shape == (4, 2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_is_as_always():
    with pytest.raises(KeyboardInterrupt), train_mlp.interruption() as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
        signal.raise_signal(signal.SIGINT)


def test_interrupting_the_process(tmp_path):
    command = [sys.executable, "-u", "-m", "slangrad", "train-mlp", "--steps", "100000000", "--points", "4"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not process.stdout.readline().startswith(b"step"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, b"")
    assert b"interrupted: " in printed and b"largest error" in printed


def test_a_loss_that_is_no_number(slangrad):
    words = ("--optimizer", "gd", "--points", "2000", "--precision", "float")
    code, _, errors = slangrad("train-mlp", *words)
    assert code == 1
    assert errors.startswith("error: the loss is not a number after step ")
    assert errors.endswith(
        "note: try fewer --points than 2000, whose gradients are added up, or --optimizer adam\n"
    )


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("--steps", "0"), 2, "Invalid value for '--steps'"),
        (("--points", "-3"), 2, "Invalid value for '--points'"),
        (("--seed", "x"), 2, "Invalid value for '--seed'"),
        (("--precision", "double"), 2, "'double' is not one of"),
        (("--optimizer", "sgd"), 2, "'sgd' is not one of"),
        (("--out", "a.bmp"), 1, "error: --out 'a.bmp' must end in .png, .svg or .pdf\n"),
        (("--out", "no/a.png"), 1, "error: --out 'no/a.png': there is no folder 'no'\n"),
    ],
)
def test_wrong_arguments(slangrad, words, code, error):
    found, printed, errors = slangrad("train-mlp", *words)
    assert (found, printed) == (code, "")
    assert error in errors.replace("│\n│ ", "")
    assert errors.count("Invalid value") + errors.count("error: ") == 1


def test_the_loss_shown_is_that_of_the_model():
    """The mean over the grid after one step, and the largest loss of the step's points before it."""
    settings = train_mlp.TrainingSettings("float", "gd", steps=1, points=50, seed=2)
    progress = train_mlp.train(train_mlp.new_network(settings), settings, lambda progress: None).progress
    trained = Training(NetworkKernels("float"), "Descent", seed=2)
    points = np.random.default_rng(3).random((50, 2), dtype=np.float32)
    losses, gradients = losses_and_gradients(trained.values.to_numpy().view(np.float32), points)
    assert progress.worst == [pytest.approx(losses.max(), rel=1e-5)]
    changed = trained.values.to_numpy().view(np.float32) - np.float32(0.01) * gradients
    assert progress.loss == pytest.approx(losses_and_gradients(changed, grid_points(33))[0].mean(), rel=1e-4)


def test_the_network_of_the_command_is_the_example():
    folder = Path(mlp_train.__file__).parent
    assert not folder.is_symlink()  # wheels hold files
    assert (Path(__file__).parents[2] / "examples" / "mlp").resolve() == folder.resolve()
