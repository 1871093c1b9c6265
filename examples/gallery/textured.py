"""Fit a textured disk to an image: texels of the texture, and place, size and turn of the disk.

Gradients of texels go to a texture beside the texture, those of the pose to a struct. Both come from one `bwds`.
"""

from functools import partial
from pathlib import Path

import numpy as np
import show

import slangrad as spy

FOLDER = Path(__file__).parent
QUICK = {"size": 48, "texels": 24, "steps": 60}
TRUE = {"center": spy.float2(0.52, 0.47), "radius": 0.36, "turn": 0.5}
FIRST = np.array([0.42, 0.56, 0.28, 0.2])  # center, radius, turn


def pose_of(numbers):
    return {
        "center": spy.float2(*numbers[:2].tolist()),
        "radius": float(numbers[2]),
        "turn": float(numbers[3]),
    }


class Adam:
    """Adam for a NumPy array."""

    def __init__(self, rate):
        self.rate, self.step, self.mean, self.square = rate, 0, 0.0, 0.0

    def __call__(self, values, gradient):
        self.step += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient**2
        mean, square = self.mean / (1 - 0.9**self.step), self.square / (1 - 0.999**self.step)
        return values - self.rate * mean / (np.sqrt(square) + 1e-8)


def main(size=160, texels=64, steps=300, out="textured.png"):
    device = spy.create_device()
    module = spy.Module.load_from_file(device, str(FOLDER / "textured.slang"))
    smooth = device.create_sampler(address_u=spy.TextureAddressingMode.clamp_to_edge,
                                   address_v=spy.TextureAddressingMode.clamp_to_edge)  # fmt: skip

    original = module.drawn(spy.grid((texels, texels)), texels, _result="texture")
    pixels = spy.grid((size, size))
    wanted = module.look(original, smooth, TRUE, pixels, size, _result="numpy")
    targets = spy.Tensor.from_numpy(device, wanted, dtype="float3")

    values, numbers = np.full((texels, texels, 4), 0.5, np.float32), FIRST.copy()
    texture = device.create_texture(
        format=spy.Format.rgba32_float, width=texels, height=texels, data=values
    ).with_grads()
    seed = spy.Tensor.from_numpy(device, np.full((size, size), 1 / size**2, np.float32))
    result = spy.Tensor.empty(device, (size, size), "float").with_grads(seed)
    look = partial(module.look, texture, smooth, pixel=pixels, size=size, _result="numpy")
    drawings = {"the image": wanted, "before": look(pose=pose_of(numbers))}

    progress, learn_texels, learn_pose = show.Progress(steps), Adam(0.05), Adam(0.01)
    for _ in range(steps):
        difference = look(pose=pose_of(numbers)) - wanted
        progress.add((difference**2).sum(-1).mean())
        pose = spy.diffPair(pose_of(numbers), {"center": spy.float2(0), "radius": 0.0, "turn": 0.0})
        module.loss.bwds(texture, smooth, pose, pixels, size, targets, _result=result)
        slope = [*pose.grad["center"], pose.grad["radius"], pose.grad["turn"]]
        values = learn_texels(values, texture.grad.to_numpy()).astype(np.float32)
        numbers = learn_pose(numbers, np.array(slope, dtype=float))
        texture.copy_from_numpy(values)
        texture.grad.clear()

    drawings |= {"fitted": look(pose=pose_of(numbers)), "its texels": values[..., :3]}
    draw(out, drawings, progress.losses)
    return progress.losses


def draw(out, shown, losses):
    text = (
        f"texels and pose of a disk: mean squared error {losses[0]:.3f} before, {losses[-1]:.5f} after "
        f"{len(losses)} steps"
    )
    show.draw_images(out, shown, text)


if __name__ == "__main__":
    options = show.options(__doc__, "textured.png")
    main(**(QUICK if options.quick else {}), out=options.out)
