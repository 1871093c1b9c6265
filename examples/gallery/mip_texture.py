"""Learn an image at all levels of detail: features in a texture with mip levels, and a small network.

The levels of the texture are parameters of their own. Samples between two levels give gradients to both.
"""

from pathlib import Path

import numpy as np
import show

import slangrad as spy

FOLDER = Path(__file__).parent
HIDDEN, FEATURES = 16, 4  # as in the Slang file
QUICK = {"size": 64, "texels": 32, "points": 1 << 11, "steps": 60}


def first_weights(random, inputs, outputs):
    """Rows of a layer, each with a bias of zero at its end."""
    weights = random.normal(0, np.sqrt(1 / inputs), (outputs, inputs))
    return np.hstack([weights, np.zeros((outputs, 1))]).astype(np.float32)


def main(size=256, texels=128, points=1 << 14, steps=400, rate=0.02, out="mip_texture.png"):
    device = spy.create_device()
    module = spy.Module.load_from_file(device, str(FOLDER / "mip_texture.slang"))
    clamped = spy.TextureAddressingMode.clamp_to_edge
    trilinear = device.create_sampler(address_u=clamped, address_v=clamped)

    pixels = module.drawn(spy.grid((size, size)), size, _result="numpy")
    image = device.create_texture(
        format=spy.Format.rgba32_float, width=size, height=size, mip_count=spy.ALL_MIPS, data=pixels
    )
    image.generate_mips()

    random = np.random.default_rng(1)
    features = device.create_texture(
        format=spy.Format.rgba32_float, width=texels, height=texels, mip_count=spy.ALL_MIPS
    ).with_grads()
    for mip, level in enumerate(features.levels):
        features.copy_from_numpy(random.normal(0, 0.1, (*level.shape, FEATURES)).astype(np.float32), mip=mip)
    layers = {"hidden": first_weights(random, FEATURES, HIDDEN), "colors": first_weights(random, HIDDEN, 3)}
    network = {name: spy.Tensor.from_numpy(device, layer).with_grads() for name, layer in layers.items()}
    optimizer = spy.optim.Adam([*features.levels, *network.values()])

    result = spy.Tensor.empty(device, (points,), "float").with_grads(
        spy.Tensor.from_numpy(device, np.full(points, 1 / points, np.float32))
    )
    # Of the image: its level with as many texels as the first one of features.
    finest = np.float32(np.log2(size / texels))
    progress = show.Progress(steps)
    for step in range(1, steps + 1):
        at = random.random((points, 2), np.float32)
        level = random.random(points, np.float32) * np.float32(features.mip_count - 1)
        level[::2] = 0
        wanted = module.imageAt(image, trilinear, at, level + finest, _result="numpy")
        difference = module.colorOf(features, trilinear, network, at, level, _result="numpy") - wanted
        progress.add((difference**2).mean())
        targets = spy.Tensor.from_numpy(device, wanted, dtype="float3")
        module.loss.bwds(features, trilinear, network, at, level, targets, _result=result)
        optimizer.lr = rate * 0.1 ** (step / steps)
        optimizer.step()
        features.grad.clear()
        for layer in network.values():
            layer.grad.clear()

    shown = {}
    rows = (np.arange(size, dtype=np.float32) + 0.5) / size
    at = np.stack(np.meshgrid(rows, rows), -1).reshape(-1, 2)
    for mip in (0, 2):
        level = np.full(len(at), mip, np.float32)
        original = module.imageAt(image, trilinear, at, level + finest, _result="numpy")
        painted = module.colorOf(features, trilinear, network, at, level, _result="numpy")
        shown[f"the image: level {mip}"] = original.reshape(size, size, 3)
        shown[f"neural texture: level {mip}"] = painted.reshape(size, size, 3)
    draw(out, shown, progress.losses)
    return progress.losses


def draw(out, shown, losses):
    text = (
        f"{FEATURES} features in each texel of all levels, and a network of {HIDDEN} hidden units: mean squared "
        f"error {losses[0]:.2f} before, {losses[-1]:.5f} after {len(losses)} steps"
    )
    show.draw_images(out, shown, text)


if __name__ == "__main__":
    options = show.options(__doc__, "mip_texture.png")
    main(**(QUICK if options.quick else {}), out=options.out)
