"""OpenCV's remap: values of W9 alone. Its fractions of a texel are multiples of 1/32."""

import cv2
import numpy as np

INFO = {"version": cv2.__version__}


def W9(d):
    rows, result = int(np.sqrt(d["n"])), {}

    def values(uv):
        x, y = (np.ascontiguousarray(part.reshape(rows, -1)) for part in (uv * d["side"] - 0.5).T)

        def run():
            result["color"] = cv2.remap(d["texels"], x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)

        return run, lambda: result

    return {order: values(d["uv" + order]) for order in ("random", "coherent")}
