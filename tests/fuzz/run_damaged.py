"""A child of test_damaged_text.py: texts with damage, checked and lowered; anything but a CompileError is a failure.

python -m tests.fuzz.run_damaged FIRST COUNT
"""

import random
import resource
import sys
from pathlib import Path

import slangrad as spy
from slangrad.base.diagnostics import CompileError
from tests.fuzz.programs import generate

MEMORY = 4 << 30
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.slang"))
PIECES = [
    "{",
    "}",
    "(",
    ")",
    "<",
    ">",
    ";",
    ",",
    "float",
    "struct",
    "0x",
    "'",
    '"',
    "#define X X",
    "T",
    "->",
    "bwd_diff(f)",
    "\\",
    "\0",
]


def damaged(seed: int) -> str:
    """A valid text with a few pieces taken out, doubled, swapped or replaced."""
    r = random.Random(seed)
    text = generate(seed) if r.random() < 0.5 else r.choice(EXAMPLES).read_text()
    for _ in range(r.randint(1, 6)):
        i, j = sorted((r.randrange(len(text) + 1), r.randrange(len(text) + 1)))
        j = min(j, i + r.choice((1, 3, 20, 200)))
        change = r.randrange(4)
        if change == 0:
            text = text[:i] + text[j:]
        elif change == 1:
            text = text[:j] + text[i:j] + text[j:]
        elif change == 2:
            text = text[:i] + r.choice(PIECES) + text[j:]
        else:
            text = text[:i] + " " + r.choice(PIECES) + " " + text[i:]
    return text


def main(first: int, count: int) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    device = spy.create_device(backend="interpreter")
    for seed in range(first, first + count):
        text = damaged(seed)
        try:
            module = spy.Module.load_from_source(device, f"damaged{seed}", text)
            function = module.find_function("f")
            if function is not None:
                function(1.0, 2.0, 3)
        except (CompileError, ValueError, IndexError):
            continue
        except BaseException as error:
            print(f"seed {seed}: {type(error).__name__}: {error}\n{text}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
