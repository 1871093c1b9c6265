"""SlangPy features that a CPU device does not support: their names, and what to use in their place.

    spy.Bitmap   ->   AttributeError: slangrad has no 'Bitmap': there are no images as objects; use ...

The errors are AttributeErrors, so `hasattr` and `getattr` with a default work as ever.
"""

from __future__ import annotations

from collections.abc import Iterable

from slangrad.base.suggestions import near

_TEXTURES = "memory of another library becomes a texture by create_texture(data=...)"
_WINDOWS = "there are no windows; draw what tensor.to_numpy() gives, with matplotlib for example"
_RAYS = "there is no ray tracing hardware; trace in Slang, over tensors or buffers"
_GRAPHICS = "there are no graphics stages; only compute kernels and functions run here"
_CUDA = "there is no CUDA; arrays and tensors of PyTorch on the CPU are used as they lie"
_TIMES = "a call has finished when it returns: time.perf_counter() times it, encoder.write_timestamp() times commands"

# fmt: off
_ROWS = {
    _TEXTURES: "create_texture_from_resource",
    _WINDOWS:  "App AppDesc AppWindow CursorMode FileDialogFilter KeyCode MouseButton Surface SurfaceConfig "
               "Window choose_folder_dialog create_surface open_file_dialog save_file_dialog ui",
    _RAYS:     "AccelerationStructure AccelerationStructureInstanceList RayTracingPipeline ShaderTable "
               "create_acceleration_structure create_acceleration_structure_instance_list "
               "create_ray_tracing_pipeline create_shader_table ray_tracing",
    _GRAPHICS: "InputLayout RenderPipeline create_input_layout create_render_pipeline",
    _CUDA:     "NativeHandle NativeHandleType cuda_context_scope cuda_stream "
               "get_cuda_current_context_native_handles",
    _TIMES:    "Profiler ProfilerDesc current_profiler profile_frame profile_function profile_zone",
}
# fmt: on
_INSTEAD = {name: instead for instead, names in _ROWS.items() for name in names.split()}


def missing(owner: str, name: str, names: Iterable[str] = ()) -> AttributeError:
    """The error for a name that `owner` does not have, with the most similar one of `names`."""
    instead = _INSTEAD.get(name)
    if instead is None:
        meant = None if name.startswith("_") else near(name, names)
        return AttributeError(f"{owner} has no attribute '{name}'{'' if meant is None else f': {meant}'}")
    return AttributeError(f"{owner} has no '{name}': {instead}")
