"""How far a tensor argument walks until it is in the argument block."""

import numpy as np

import slangrad as spy
from tools.count_walk import Walk, walk_of, walks


def test_a_tensor_argument_takes_a_short_way():
    each, new = walks()
    assert len(each.stays) <= 6 and each.returns == 0, each
    assert len(new.stays) <= 12 and new.returns <= 3, new
    assert each.stays[0] == ("api/functional/function.py", "Function.__call__")


def test_a_file_that_is_entered_again_is_a_return():
    assert Walk([("a", "f"), ("a", "g"), ("b", "h"), ("a", "i"), ("b", "j"), ("c", "k")]).returns == 2


def test_functions_without_the_value_do_not_count():
    device = spy.create_device()
    x = spy.Tensor.from_numpy(device, np.ones(4, np.float32))
    assert walk_of(object(), lambda: x.to_numpy()).stays == []
    assert walk_of(x, lambda: x.to_numpy()).stays[0] == ("tensors/strided.py", "StridedView.to_numpy")
