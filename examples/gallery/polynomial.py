"""Fit a polynomial to noisy measurements.

The loss of one measurement is a Slang function; `bwds` calls its derivative for all of them. The coefficients serve
every call, so their gradient is the sum over the calls.
"""

from pathlib import Path

import numpy as np
import show

import slangrad as spy

FOLDER = Path(__file__).parent
DEGREE = 9
QUICK = {"points": 100, "steps": 60, "rate": 0.05}


def true_curve(x):
    return np.exp(-2 * x * x) * np.sin(6 * x) + 0.3 * x


def main(points=400, steps=300, rate=0.02, out="polynomial.png"):
    device = spy.create_device()
    module = spy.Module.load_from_file(device, str(FOLDER / "polynomial.slang"))

    random = np.random.default_rng(1)
    xs = np.sort(random.uniform(-1, 1, points)).astype(np.float32)
    ys = (true_curve(xs) + random.normal(0, 0.12, points)).astype(np.float32)
    x, y = spy.Tensor.from_numpy(device, xs), spy.Tensor.from_numpy(device, ys)

    coefficients = spy.Tensor.zeros(device, (DEGREE + 1,), "float").with_grads()
    optimizer = spy.optim.Adam([coefficients], lr=rate)

    progress, curves = show.Progress(steps), {}
    line = np.linspace(-1, 1, 300, dtype=np.float32)
    for step in range(1, steps + 1):
        progress.add(module.loss(coefficients, x, y, _result="numpy").mean())
        optimizer.zero_grad()
        module.loss.bwds(coefficients, x, y)
        optimizer.step()
        if step in (steps // 60, steps // 20, steps // 10, steps):
            curves[step] = module.polynomial(coefficients, line, _result="numpy")

    best = np.polynomial.Chebyshev.fit(xs, ys, DEGREE, domain=[-1, 1])
    least = np.mean((best(xs) - ys) ** 2)
    print(f"least squares: {least:.3e}")
    draw(out, (xs, ys), line, curves, progress.losses, least)
    return progress.losses


def draw(out, measured, line, curves, losses, least):
    dashed = {"color": show.INK, "lw": 1, "ls": (0, (4, 3))}
    with show.picture(out, (10, 3.6)) as figure:
        fit, loss = figure.subplots(1, 2, width_ratios=(1.7, 1))
        fit.scatter(*measured, s=7, color=show.FAINT, linewidths=0, label="measured")
        fit.plot(line, true_curve(line), **dashed, label="true curve")
        *early, (steps, last) = curves.items()
        for alpha, (step, values) in zip((0.3, 0.6, 0.9), early):
            fit.plot(line, values, color=show.BLUE, alpha=alpha, lw=1.2, label=f"after {step} steps")
        fit.plot(line, last, color=show.RED, lw=2, label=f"after {steps} steps")
        fit.set(title=f"A polynomial of degree {DEGREE}", xlabel="x", ylabel="y")
        fit.legend(fontsize=8, loc="upper left")
        show.draw_losses(loss, losses, "mean squared error")
        loss.axhline(least, **dashed, label="least squares")
        loss.set_title("Gradient descent reaches the best fit there is")
        loss.legend(fontsize=8)


if __name__ == "__main__":
    options = show.options(__doc__, "polynomial.png")
    main(**(QUICK if options.quick else {}), out=options.out)
