"""What import-linter does not check: the size of files, and imports inside functions."""

import ast
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import slangrad

PACKAGE = Path(slangrad.__file__).parent
ROOT = PACKAGE.parent
FILES = sorted(PACKAGE.rglob("*.py"))

# What a warm start does not need is loaded when it is first used: `LazyModule("slangrad.pipeline")`.
LATE_MODULES = {
    ("marshal", "slangrad.marshal.containers.handles"),
    ("marshal", "slangrad.tensors.descriptors"),
    ("tensors", "slangrad.tensors.descriptors"),
    ("call", "slangrad.call.gradient_check"),  # check mode
    ("backends.py", "slangrad.llvm.machine.native"),  # machine code that our own loader does not take
    ("backends.py", "slangrad.runtime.cuda.device"),  # the first CUDA device
    ("backends.py", "slangrad.runtime.cuda.image"),
    ("backends.py", "slangrad.runtime.cuda.machine_code"),
    ("runtime", "cuda.bindings.driver"),
    ("call", "slangrad.pipeline"),  # a kernel that is not in the cache
    ("call", "slangrad.call.front"),  # the derivative of a gradient that PyTorch asks for
    ("call", "slangrad.call.pytorch.torch_calls"),  # torch tensors among the arguments
    ("call", "slangrad.call.compiling.workers"),  # kernels that are compiled together, on several processors
    ("runtime", "slangrad.base.prints.formats"),  # kernels that print
    ("tensors", "torch"),
    ("tensors", "ml_dtypes"),  # elements of small floats
    ("graph", "scipy.optimize"),  # partitions that are found
    ("graph", "scipy.sparse"),
    ("graph", "safetensors"),  # weights on disk
    ("graph", "safetensors.numpy"),
    ("graph", "slangrad.torch_jobs"),  # whether torch follows a tensor that a graph captures
    ("graph", "slangrad.graph.torch_bridge"),  # torch tensors among the arguments of a graph
    ("graph", "slangrad.graph.workers.connections.links"),  # several workers
    ("graph", "slangrad.graph.workers.checkpoints.storage"),  # checkpoints
    ("graph", "slangrad.graph.train"),  # links are measured by a step, too
    ("graph", "torch.distributed"),
    ("api", "slangrad.call.front"),  # a module or call that is not in the cache
    ("api", "slangrad.api.kernels.commands"),  # kernels of users
    ("api", "slangrad.api.kernels.fences"),
    ("api", "slangrad.api.kernels.kernel"),
    ("api", "slangrad.api.kernels.pipeline"),
    ("api", "slangrad.api.functional.dispatch"),
    ("api", "slangrad.api.reflection.program_layout"),
    ("api", "slangrad.api.kernels.shader"),
    ("api", "slangrad.api.kernels.shader_block"),
    ("api", "slangrad.api.kernels.shader_cursor"),
    ("api", "slangrad.api.devices.capture"),
    ("api", "slangrad.call.pytorch.torch_op"),
    ("api", "slangrad.api.devices.features"),  # what a device can do
    ("api", "slangrad.api.devices.reports"),  # what it tells about memory and compiling
    ("api", "slangrad.api.functional.describe"),  # for editors and help()
    ("api", "slangrad.api.functional.call_data"),  # what a call is made of
    ("api", "slangrad.api.functional.together"),  # kernels that are compiled together
    ("api", "slangrad.api.reflection.slang_layout"),  # reflection
    ("api", "slangrad.tensors.textures.formats"),
    ("api", "slangrad.tensors.textures.texture_desc"),  # textures
    ("api", "slangrad.tensors.textures.texture"),
    ("api", "slangrad.marshal.containers.textures"),
    ("api", "slangrad.marshal.simple.samplers"),
    ("marshal", "slangrad.marshal.containers.textures"),
    ("marshal", "slangrad.tensors.textures.texture_desc"),
    ("marshal", "slangrad.tensors.textures.texture"),
    ("base", "slangrad.cli.progress"),  # a compilation that takes longer than a second
    ("cli", "rich.console"),  # what only some commands need
    ("cli", "slangrad.check.diagnose"),
    ("cli", "slangrad.cli.compile"),
    ("cli", "slangrad.cli.doctor"),
    ("cli", "slangrad.cli.kernels"),
    ("cli", "slangrad.cli.graph"),
    ("cli", "slangrad.cli.stages"),
    ("cli", "slangrad.cli.train_mlp"),
    ("cli", "slangrad.cli.train_mlp_show"),
    ("base", "difflib"),  # names in errors that were perhaps meant
    ("marshal", "slangrad.marshal.reflection.type_kinds"),  # kinds of types, by their names
    ("tensors", "slangrad.marshal.reflection.buffer_cursor"),  # elements by the names of their fields
    ("tensors", "slangrad.marshal.host.vectors"),  # elements as host vectors
    ("tensors", "slangrad.tensors.textures.formats"),
    ("tensors", "slangrad.tensors.gpu_exchange"),
    ("tensors", "slangrad.images.pixels"),
    ("tensors", "slangrad.images.bitmap"),
    ("images", "PIL.Image"),
    ("images", "OpenImageIO"),
    ("tensors", "slangrad.api.devices.current"),  # the device of what is unpickled
}


def test_no_file_is_longer_than_600_lines() -> None:
    sources = [*FILES, *PACKAGE.rglob("*.slang")]
    long = {str(f.relative_to(ROOT)): n for f in sources if (n := len(f.read_text().splitlines())) > 600}
    assert not long


def test_imports_stand_at_the_top_of_files() -> None:
    late = []
    for file in FILES:
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                late += [
                    (str(file.relative_to(ROOT)), node.lineno)
                    for node in ast.walk(function)
                    if isinstance(node, (ast.Import, ast.ImportFrom))
                ]
    assert not late


def test_only_some_modules_are_loaded_late() -> None:
    late = {
        (file.relative_to(PACKAGE).parts[0], str(getattr(node.args[0], "value", "")))
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "LazyModule"
    }
    assert late == LATE_MODULES


def modules_of(name: str) -> list[str]:
    """The modules of the contract whose name begins so."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    modules: list[str] = next(each["modules"] for each in contracts if each["name"].startswith(name))
    return modules


def test_all_passes_are_in_the_contract_that_none_asks_another() -> None:
    tables = [PACKAGE / "pipeline.py", PACKAGE / "stages.py", *(PACKAGE / "targets").glob("*.py")]
    passes = {
        node.module
        for table in tables
        for node in ast.walk(ast.parse(table.read_text()))
        if isinstance(node, ast.ImportFrom)
        and str(node.module).startswith(("slangrad.opt.", "slangrad.flatten."))
    }
    assert passes - {"slangrad.opt.analyses.kernel_facts"} == set(modules_of("No pass asks another"))


def test_all_targets_are_in_the_contract_that_none_knows_another() -> None:
    targets = {f"slangrad.targets.{file.stem}" for file in (PACKAGE / "targets").glob("*.py")}
    assert targets - {"slangrad.targets.__init__", "slangrad.targets.target"} == set(
        modules_of("A target does not know")
    )


def imports_of(text: str, late: bool) -> set[str]:
    """The modules of the package that a file imports when it is loaded; with `late`, those that it loads later, too."""
    imported: set[str] = set()
    nodes: list[ast.AST] = [ast.parse(text)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            nodes += node.orelse
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            imported |= (names & MODULES.keys()) or {str(node.module)}
        elif late and isinstance(node, ast.Call) and ast.unparse(node.func) == "LazyModule":
            imported.add(str(getattr(node.args[0], "value", "")))
    return imported & MODULES.keys()


MODULES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in FILES
}


@pytest.mark.parametrize("folder, late", [("slangrad", False), ("slangrad.api", True)])
def test_no_file_asks_one_that_asks_it(folder: str, late: bool) -> None:
    inside = {name: file for name, file in MODULES.items() if f"{name}.".startswith(f"{folder}.")}
    graph = {name: imports_of(file.read_text(), late) & inside.keys() for name, file in inside.items()}
    TopologicalSorter(graph).prepare()  # CycleError names the files of a circle


@pytest.mark.parametrize("folder", ["marshal", "call", "opt", "llvm", "autodiff", "syntax", "tensors"])
def test_rooms_have_15_files_at_most_and_a_sentence(folder: str) -> None:
    rooms = [PACKAGE / folder, *(path for path in (PACKAGE / folder).iterdir() if list(path.glob("*.py")))]
    page = (ROOT / "ARCHITECTURE.md").read_text()
    assert not [room.name for room in rooms if len(list(room.glob("[!_]*.py"))) > 15]
    assert not [room.name for room in rooms if f"\n| `{room.relative_to(PACKAGE)}` | " not in page]


def test_every_folder_says_what_it_is() -> None:
    silent = [f.relative_to(ROOT) for f in FILES if not ast.get_docstring(ast.parse(f.read_text()))]
    assert not silent


def test_each_pass_has_a_test_of_its_own() -> None:
    """Tests of passes and of analyses are in the folders of their names, and import them."""
    tests = "".join(
        file.read_text()
        for folder in ("opt", "flatten", "spmd", "delayed")
        for file in (ROOT / "tests" / folder).glob("*.py")
    )
    passes = {
        *modules_of("No pass asks another"),
        *(f"slangrad.spmd.{name}" for name in ("coarse", "records", "widen")),
        *(f"slangrad.spmd.analyses.{name}" for name in ("group_values", "shapes", "uniformity", "width")),
    }
    assert not [name for name in passes if f"from {name} import" not in tests]


def test_any_stands_where_a_type_is_open_and_says_why() -> None:
    """With a comment in its line or in one beside it; fewer than 100 in all."""
    count, silent = 0, []
    for file in FILES:
        text = file.read_text()
        lines = ["", *text.splitlines(), ""]
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Name) and node.id == "Any":
                count += 1
                if not any("#" in line for line in lines[node.lineno - 1 : node.lineno + 2]):
                    silent.append((str(file.relative_to(ROOT)), node.lineno))
    assert not silent and count < 100
