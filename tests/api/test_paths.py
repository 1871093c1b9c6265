"""Names under the paths of SlangPy's package."""

import subprocess
import sys

import numpy as np
import pytest

import slangrad as spy
from slangrad.compat.paths import PATHS, find_name

CODE = """
from slangrad.types.wanghasharg import WangHashArg, calc_wang_hash_numpy
from slangrad.types import Tensor, diffPair
import slangrad.experimental.gridarg as gridarg
from slangrad.core.function import Function
from slangrad.core.utils import parse_generic_signature
from slangrad.slangpy import Shape
print(Tensor.__module__, gridarg.grid(2), parse_generic_signature("Tensor<vector<float, 4>, 2>"), Shape((2,)))
"""


def test_programs_import_names_by_these_paths():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    grid = "grid((-1, -1), offset=(0, 0), stride=(1, 1))"
    expected = f"slangrad.tensors.tensor {grid} ('Tensor', ['vector<float, 4>', '2']) [2]\n"
    assert done.stdout == expected


@pytest.mark.parametrize("path", PATHS)
def test_every_name_of_the_table_is_there(path):
    assert all(find_name(name) is not None for name in PATHS[path].split())


def test_paths_are_attributes_too():
    assert spy.types.Tensor is spy.Tensor
    assert spy.types.diffpair.DiffPair is spy.DiffPair
    with pytest.raises(AttributeError, match=r"module 'slangrad\.types' has no attribute 'nothing'"):
        _ = spy.types.nothing
    with pytest.raises(ModuleNotFoundError):
        __import__("slangrad.types.nothing")


def test_hashes_of_arrays():
    hashes = spy.types.wanghasharg
    words = np.arange(4, dtype=np.uint32)
    assert hashes.calc_wang_hash_numpy(words).tolist() == [hashes.calc_wang_hash(each) for each in range(4)]
    assert words.tolist() == [0, 1, 2, 3]
