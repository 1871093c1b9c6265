"""A layer written in Slang in a PyTorch model: soft blobs learn a picture.

    python examples/pytorch/torch_layer.py [--size 64] [--blobs 40] [--steps 300] [--out torch_layer.png]

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


def draw(path: Path, wanted: torch.Tensor, found: torch.Tensor, losses: list[float]) -> None:
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    axes = figure.subplots(1, 3)
    for panel, picture, title in zip(axes, (wanted, found), ("the picture", "what the blobs make of it")):
        panel.imshow(picture.clamp(0, 1).numpy())
        panel.set_title(title)
        panel.axis("off")
    axes[2].semilogy(losses)
    axes[2].set_title("loss")
    axes[2].set_xlabel("step")
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=64, help="pixels each way")
    parser.add_argument("--blobs", type=int, default=40)
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
    draw(options.out, wanted, found, losses)
    print(f"picture: {options.out}")


if __name__ == "__main__":
    main()
