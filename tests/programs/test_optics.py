"""A lens whose surfaces are values of an interface, and a camera that finds its place."""

import numpy as np

import slangrad as spy
from tests.programs import assert_slopes, load


def refracted(lens: np.ndarray, ratios: np.ndarray, opening: float, from_: np.ndarray, film: float) -> tuple:
    """Where a ray along the axis meets the film, and whether it gets there."""
    at, towards = np.array([*from_, -1.0]), np.array([0.0, 0, 1])
    for i, (curvature, z, ratio) in enumerate(zip(*lens, ratios)):
        if i == 2:
            crossing = at + (0.5 * (lens[1, 1] + lens[1, 2]) - at[2]) / towards[2] * towards
            if np.hypot(*crossing[:2]) > opening:
                return np.zeros(2), 0
        center, radius = np.array([0, 0, z + 1 / curvature]), 1 / curvature
        p = at - center
        under = (p @ towards) ** 2 - p @ p + radius**2
        if under < 0:
            return np.zeros(2), 0
        at = at + (-(p @ towards) - np.sign(radius) * np.sqrt(under)) * towards
        normal = (at - center) / radius
        c = -normal @ towards
        towards = ratio * towards + (ratio * c - np.sqrt(1 - ratio**2 * (1 - c**2))) * normal
    return (at + (film - at[2]) / towards[2] * towards)[:2], 1


def test_a_lens() -> None:
    module = load("lens")
    ratios = np.array([1 / 1.5, 1.5, 1 / 1.6, 1.6])
    opening, film = 0.45, 4.0
    lens = np.array([[0.3, -0.25, 0.2, -0.1], [0.0, 0.3, 0.6, 0.9]])
    beams = np.random.default_rng(1).uniform(-0.5, 0.5, (40, 2))

    def value(lens: np.ndarray) -> dict:
        curvatures, places = ([float(x) for x in row] for row in lens)
        return {"curvatures": curvatures, "places": places, "ratios": list(ratios), "opening": opening}

    results = module.onFilm(value(lens), beams, 0.0, film, _result="numpy")
    expected = [np.append(*refracted(lens, ratios, opening, beam, film)) for beam in beams]
    np.testing.assert_allclose(results, expected, atol=1e-12)
    assert 0 < results[:, 2].sum() < len(beams)  # the stop holds some of them

    def blur(lens: np.ndarray) -> float:
        return float(module.blur(value(lens), beams, 0.02, film, _result="numpy").sum())

    def slopes(lens: np.ndarray) -> np.ndarray:
        numbers = [spy.Tensor.from_numpy(module.device, row).with_grads(zero=True) for row in lens]
        inputs = {"curvatures": numbers[0], "places": numbers[1], "ratios": list(ratios), "opening": opening}
        result = module.blur(inputs, beams, 0.02, film, _result="tensor").with_grads(zero=True)
        result.grad.copy_from_numpy(np.ones(len(beams)))
        module.blur.bwds(inputs, beams, 0.02, film, result)
        return np.stack([tensor.grad.to_numpy() for tensor in numbers])

    before = blur(lens)
    assert_slopes(blur, lens, slopes(lens), 1e-6, 1e-6)
    for _ in range(60):
        lens = lens - 0.01 * slopes(lens) * [[1], [0]]
    assert blur(lens) < 0.1 * before


def turned(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    t = 2 * np.cross(q[:3], v)
    return v + q[3] * t + np.cross(q[:3], t)


def test_the_place_of_a_camera() -> None:
    module = load("pose")
    random = np.random.default_rng(2)
    points = random.uniform(-1, 1, (12, 3))
    turn, place = np.array([0.2, -0.1, 0.3, 0.9]), np.array([0.3, -0.2, -4.0])
    turn /= np.linalg.norm(turn)
    views = np.array([turned(turn, point - place) for point in points])
    places = views[:, :2] / views[:, 2:]
    camera = {"turn": spy.double4(*turn), "place": spy.double3(*place)}
    np.testing.assert_allclose(module.seen(camera, points, _result="numpy"), places, rtol=1e-12)

    away = np.array([0.1, 0.2, -0.1, 0.05, 0.3, -0.2, 0.5])
    numbers = away + np.array([*turn, *place])

    def value(numbers: np.ndarray) -> dict:
        return {"turn": spy.double4(*numbers[:4]), "place": spy.double3(*numbers[4:])}

    def error(numbers: np.ndarray) -> float:
        return float(module.error(value(numbers), points, places, _result="numpy").sum())

    slopes = np.zeros(7)
    gradient = spy.grad(module.error, argnames="camera")
    for point, where in zip(points, places):
        part = gradient(value(numbers), spy.double3(*point), spy.double2(*where))
        slopes += [*part["turn"], *part["place"]]
    assert_slopes(error, numbers, slopes, 1e-6, 1e-7)

    improve = module[f"improved<{len(points)}>"]
    camera = value(numbers)
    for _ in range(8):
        step = improve(camera, [spy.double3(*p) for p in points], [spy.double2(*p) for p in places])
        camera = {"turn": step["turn"], "place": step["place"]}
    np.testing.assert_allclose(list(camera["place"]), place, atol=1e-9)
    np.testing.assert_allclose(list(camera["turn"]), turn, atol=1e-9)
