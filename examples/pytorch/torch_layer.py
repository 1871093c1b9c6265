"""A layer written in Slang in a PyTorch model: soft blobs learn a picture.

    python examples/pytorch/torch_layer.py [--size 64] [--blobs 150] [--steps 300] [--out torch_layer.png]

Each pixel is the sum of all blobs, in Slang (torch_layer.slang). The model around it is PyTorch's: parameters, a
loss, an optimizer; backward() runs the kernel that Slang's autodiff makes of the layer. The picture at the end needs
matplotlib.
"""

import argparse
import time
from pathlib import Path

import torch

import slangrad as spy

try:
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle
except ImportError:
    Figure = None


class Blobs(torch.nn.Module):
    """A picture of `size` pixels each way, as a sum of blobs: center, log of width, color."""

    def __init__(self, module: spy.Module, size: int, count: int) -> None:
        super().__init__()
        self.layer = module.picture
        self.centers = torch.nn.Parameter(torch.rand(count, 2))
        self.widths = torch.nn.Parameter(torch.full((count,), -2.5))
        self.colors = torch.nn.Parameter(0.2 * torch.rand(count, 3))
        at = (torch.arange(size) + 0.5) / size
        self.register_buffer("pixels", torch.stack(torch.meshgrid(at, at, indexing="xy"), -1))

    def forward(self) -> torch.Tensor:
        return self.layer(self.pixels, self.centers, self.widths.exp(), self.colors)


def target(size: int) -> torch.Tensor:
    """Rings and stripes with smooth edges."""
    at = (torch.arange(size) + 0.5) / size - 0.5
    y, x = torch.meshgrid(at, at, indexing="ij")
    ring = torch.sigmoid(60 * (0.1 - ((x * x + y * y).sqrt() - 0.28).abs()))
    stripes = 0.5 + 0.5 * torch.sin(14 * (x + y))
    return torch.stack([ring, 0.7 * ring * stripes, 0.6 * stripes * (1 - ring)], -1)


def draw(path: Path, wanted: torch.Tensor, found: torch.Tensor, losses: list[float], model: Blobs) -> None:
    figure = Figure(figsize=(10, 2.75), dpi=100, layout="constrained")
    axes = figure.subplots(1, 4, width_ratios=(1, 1, 1, 1.25))
    titles = ("the picture", f"{len(model.widths)} blobs after {len(losses)} steps", "where the blobs are")
    for panel, picture, title in zip(axes, (wanted, found, 0 * wanted + 1), titles):
        panel.imshow(picture.clamp(0, 1).numpy(), extent=(0, 1, 1, 0))
        panel.set_title(title, fontsize=9)
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set_visible(False)
    colors = model.colors.detach().clamp(0, 1)
    for center, width, color in zip(model.centers.tolist(), model.widths.exp().tolist(), colors.tolist()):
        axes[2].add_patch(Circle(center, 0.8 * width, facecolor=(*color, 0.6), edgecolor="#23262b", lw=0.5))
    axes[2].set(xlim=(0, 1), ylim=(1, 0))
    axes[3].semilogy(range(1, len(losses) + 1), losses, color="#2b4c9b", lw=1.2)
    axes[3].set_title("mean squared error", fontsize=9)
    axes[3].set_xlabel("step", fontsize=8)
    axes[3].tick_params(labelsize=8)
    axes[3].spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=64, help="pixels each way")
    parser.add_argument("--blobs", type=int, default=150)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path("torch_layer.png"))
    options = parser.parse_args()

    torch.manual_seed(1)
    device = spy.create_device(include_paths=[Path(__file__).parent])
    module = spy.Module.load_from_file(device, "torch_layer.slang")
    model = Blobs(module, options.size, options.blobs)
    wanted = target(options.size)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    losses: list[float] = []
    start = time.perf_counter()
    for step in range(1, options.steps + 1):
        optimizer.zero_grad()
        loss = (model() - wanted).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step == 1 or step % max(options.steps // 10, 1) == 0:
            print(f"step {step:4}/{options.steps}  loss {losses[-1]:.5f}", flush=True)
    print(f"{options.steps} steps in {time.perf_counter() - start:.1f} s")

    with torch.no_grad():
        found = model()
    if Figure is None:
        print("no picture: it needs matplotlib")
        return
    draw(options.out, wanted, found, losses, model)
    print(f"picture: {options.out}")


if __name__ == "__main__":
    main()
