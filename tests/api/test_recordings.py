"""Recordings of commands: their numbers, what devices tell about them, and commands that call Python or ask a buffer."""

import gc

import numpy as np
import pytest

import slangrad as spy
from slangrad.marshal.errors import CallError


def test_callbacks_hear_of_recordings(device):
    heard = []
    submitted = device.register_command_recording_submitted_callback(heard.append)
    discarded = device.register_command_recording_discarded_callback(heard.append)
    encoder = device.create_command_encoder(spy.CommandQueueType.graphics)
    commands = encoder.finish()
    assert commands.recording_id == encoder.recording_id != device.create_command_encoder().recording_id
    gc.collect()
    assert [type(each) for each in heard] == [spy.CommandRecordingDiscardedEvent]
    heard.clear()
    number = device.submit_command_buffer(commands)
    device.submit_command_buffer(commands)
    (event,) = heard
    assert (event.device, event.id, event.submit_id) == (device, encoder.recording_id, number)
    assert event.command_buffer is commands and commands.queue is encoder.queue
    heard.clear()
    del event, commands, encoder
    unfinished, unsubmitted = device.create_command_encoder(), device.create_command_encoder().finish()
    numbers = [unfinished.recording_id, unsubmitted.recording_id]
    del unfinished, unsubmitted
    gc.collect()
    assert sorted(each.id for each in heard) == numbers
    device.unregister_command_recording_submitted_callback(submitted)
    device.unregister_command_recording_discarded_callback(discarded)
    device.submit_command_buffer(device.create_command_encoder().finish())
    assert len(heard) == 2


def test_a_callback_may_unregister_itself(device):
    heard = []

    def once(event):
        heard.append(event.id)
        device.unregister_command_recording_submitted_callback(number)

    number = device.register_command_recording_submitted_callback(once)
    for _ in range(2):
        device.submit_command_buffer(device.create_command_encoder().finish())
    assert len(heard) == 1


def test_groups_from_a_buffer_and_python_between_commands(device, kernel):
    count = kernel("""
        RWStructuredBuffer<uint> seen;

        [shader("compute")] [numthreads(2, 1, 1)]
        void main(uint3 id : SV_DispatchThreadID) { InterlockedAdd(seen[id.y], 1); }
    """)
    seen = device.create_buffer(data=np.zeros(4, np.uint32))
    groups = device.create_buffer(data=np.array([9, 3, 2, 1], np.uint32))
    between = []
    encoder = device.create_command_encoder()
    with encoder.begin_compute_pass() as compute:
        spy.ShaderCursor(compute.bind_pipeline(count.pipeline)).seen = seen
        compute.dispatch_compute_indirect(spy.BufferOffsetPair(groups, 4))
        compute.dispatch_compute_indirect((groups, 4))
    encoder.execute_callback(
        lambda handle: between.append((handle, seen.to_numpy().view(np.uint32).tolist()))
    )
    encoder.clear_buffer(seen)
    commands = encoder.finish()
    groups.copy_from_numpy(np.array([9, 2, 3, 1], np.uint32))
    device.submit_command_buffer(commands)
    assert between == [(None, [8, 8, 8, 0])]
    assert not seen.to_numpy().any()
    with pytest.raises(CallError, match="arg_buffer: bytes 8 to 20 are not in a buffer of 16"):
        compute.dispatch_compute_indirect((groups, 8))
    with pytest.raises(CallError, match="execute_callback: int cannot be called"):
        device.create_command_encoder().execute_callback(3)
