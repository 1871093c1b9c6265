"""The launch record as machine code sees it is the one that the run time fills in."""

import pytest

from slangrad.llvm.launch import launch
from slangrad.runtime import launch_record, reports


def test_fields_are_where_the_run_time_puts_them() -> None:
    launch_fields = {name: offset for name, (offset, _) in launch.LAUNCH_FIELDS.items()}
    shared_fields = {name: offset for name, (offset, _) in launch.SHARED_FIELDS.items()}
    assert launch_fields == launch_record.LAUNCH_OFFSETS
    assert shared_fields == launch_record.SHARED_OFFSETS


@pytest.mark.parametrize(
    "record, fields",
    [(launch_record.Launch, launch.LAUNCH_FIELDS), (launch_record.Shared, launch.SHARED_FIELDS)],
)
def test_fields_have_the_run_times_sizes(record: type, fields: dict[str, tuple[int, str]]) -> None:
    sizes = {"i64": 8, "i32": 4, "ptr": 8, "[64 x ptr]": 512}
    for name, (_, type_name) in fields.items():
        assert getattr(record, name).size == sizes[type_name]


def test_error_codes() -> None:
    assert launch.BOUNDS_ERROR == reports.BOUNDS
