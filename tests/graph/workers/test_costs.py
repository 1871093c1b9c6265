"""The costs of links: exact by hand, the same after saving, and found again where a clock follows them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slangrad import graph
from slangrad.graph.ir.cost import MachineRates
from slangrad.graph.workers.connections import costs
from slangrad.graph.workers.connections.costs import PATTERNS, Cost, Links
from slangrad.graph.workers.meshes.mesh import Mesh
from tests.graph.workers.threads import run

# A round on a host takes 1 second and 10 bytes one; between hosts 100 seconds, and 1 byte one.
SLOW = Links(dict.fromkeys(PATTERNS, Cost(1.0, 10.0)), dict.fromkeys(PATTERNS, Cost(100.0, 1.0)), 4)


@pytest.mark.parametrize(
    ("collective", "workers", "apart", "seconds"),
    [
        ("all_reduce", 1, 1, 0),
        ("all_reduce", 2, 1, 2 + 64 / 10),
        ("all_reduce", 4, 1, 4 + 1.5 * 64 / 10),
        ("all_reduce", 8, 1, (4 + 1.5 * 64 / 10) + (200 + 64 / 4)),  # 16 bytes of each between 2 hosts
        ("all_reduce", 2, 4, 200 + 64),
        ("all_reduce", 4, 2, (2 + 64 / 10) + (200 + 64 / 2)),
        ("all_gather", 2, 1, 1 + 0.5 * 64 / 10),
        ("all_gather", 4, 4, 200 + 0.75 * 64),
        ("all_gather", 16, 1, (2 + 0.75 * 64 / 10) + (200 + 0.75 * 16)),
        ("all_to_all", 4, 1, 3 + 0.75 * 64 / 10),
        ("all_to_all", 8, 1, (3 + 0.75 * 32 / 10) + (100 + 0.5 * 64)),
    ],
)
def test_seconds_of_collectives(collective: str, workers: int, apart: int, seconds: float) -> None:
    assert SLOW.seconds(collective, workers, 64, apart) == pytest.approx(seconds)


def test_links_are_the_same_from_a_file(tmp_path: Path) -> None:
    links = Links(SLOW.host, SLOW.network, 16, 0.25, MachineRates(1e12, 1e11, 1e-6, 1e-4, 1e-5))
    links.save(tmp_path / "links.json")
    assert Links.load(tmp_path / "links.json") == links


def test_a_file_without_the_time_of_a_call_is_read(tmp_path: Path) -> None:
    file = tmp_path / "links.json"
    Links().save(file)
    data = json.loads(file.read_text())
    del data["machine"]["call"], data["machine"]["argument"]
    file.write_text(json.dumps(data))
    assert Links.load(file) == Links()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"host": 3}', '{"host": {"all_reduce": {"alpha": 1}}}'])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(ValueError, match=r"other\.json: not a file of links"):
        Links.load(tmp_path / "other.json")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("host", "send", "alpha"), -1.0), (("host", "send", "rate"), 0), (("network", "all_reduce", "rate"), "1"),
        (("network", "send", "alpha"), float("nan")), (("workers_per_host",), 0), (("workers_per_host",), 1.5),
        (("overlap",), 2), (("overlap",), None), (("machine", "rate"), float("inf")), (("machine", "launch"), -1),
        (("machine", "bandwidth"), True), (("machine", "call"), -1), (("machine", "argument"), "1"),
    ],
)  # fmt: skip
def test_numbers_that_cannot_be_are_refused(tmp_path: Path, path: tuple[str, ...], value: object) -> None:
    """A number of workers of 0 had an endless loop."""
    file = tmp_path / "links.json"
    Links().save(file)
    made = json.loads(file.read_text())
    place = made
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    file.write_text(json.dumps(made))
    with pytest.raises(ValueError, match=r"links\.json: not a file of links.*links: "):
        Links.load(file)


@pytest.mark.parametrize(("collective", "workers"), [("reduce", 2), ("all_reduce", 0)])
def test_seconds_of_nothing(collective: str, workers: int) -> None:
    with pytest.raises(ValueError, match="one of all_reduce"):
        Links().seconds(collective, workers, 64)


def test_the_distance_of_neighbors() -> None:
    mesh = Mesh({"nodes": 4, "data": 2, "model": 8})
    assert [costs.apart_on(mesh, axis) for axis in mesh.sizes] == [16, 8, 1]


@dataclass
class Clock:
    """A link whose collectives move it on."""

    alpha: float
    rate: float
    now: float = 0.0

    def start(self, collective: Any, given: Any, result: Any) -> Clock:
        self.now += PATTERNS[collective.name].seconds(
            Cost(self.alpha, self.rate), collective.count, result.nbytes
        )
        return self

    def send(self, array: Any, to: int, tag: int) -> Clock:
        self.now += PATTERNS["send"].seconds(Cost(self.alpha, self.rate), 2, array.nbytes)
        return self

    def receive(self, array: Any, source: int, tag: int) -> Clock:
        return self

    def wait(self) -> None:
        pass


@pytest.mark.parametrize("collective", PATTERNS)
def test_measurement_finds_the_costs(collective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(3e-4, 2e8)
    mesh = Mesh({"data": 3}, links={"data": clock})
    monkeypatch.setattr(costs, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(costs, "SIZES", (3 << 10, 3 << 16, 3 << 20))
    found = costs._cost(mesh, collective, "data")
    assert (found.alpha, found.rate) == (pytest.approx(3e-4), pytest.approx(2e8))


def test_all_workers_measure_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "SIZES", (1 << 10, 1 << 16))
    monkeypatch.setattr(costs, "TURNS", 3)
    first, second = run({"data": 2}, graph.measure_links)
    assert first == second
    assert first.workers_per_host == 2
    assert first.network == costs.NETWORK
    assert 0 <= first.overlap <= 1
    assert min(first.machine.rate, first.machine.bandwidth, first.machine.launch) > 0


def test_one_worker_measures_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "TURNS", 3)
    links = graph.measure_links()
    assert (links.host, links.network) == (costs.HOST, costs.NETWORK)
    assert links.machine != MachineRates()
    assert links.machine.call > 0
