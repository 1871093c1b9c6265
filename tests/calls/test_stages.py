"""What the pipeline made of a call can be read at any time, also after others were compiled."""

import numpy as np

import slangrad as spy

TEXT = """
float twice(float x) { return 2 * x; }
float thrice(float x) { return 3 * x; }
"""


def test_stages_of_a_kernel_that_is_not_the_newest(tmp_path, monkeypatch):
    monkeypatch.setenv("SLANGRAD_CACHE", str(tmp_path))
    module = spy.Module.load_from_source(spy.create_device(), "stages", TEXT)
    x = np.ones(4, np.float32)
    first, second = module.twice.compile(x), module.thrice.compile(x)
    again = module.twice.compile(x)
    assert again.text("clean") == first.text("clean") != second.text("clean")
    assert "const 2.0" in again.text("clean") and "const 3.0" in second.text("clean")
    assert module.twice(x, _result="numpy").tolist() == [2, 2, 2, 2]
