"""The shape of the house: sizes, names and arguments, held by tables that only shrink.

A row of a table that no longer applies is an error, too, so that what was mended stays mended.
"""

import ast
import collections
import functools
import pathlib
import tomllib
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "quintain"

MAX_LINES = 151_950  # What is there; it may only fall.
MAX_GARDEN_LINES = 10_000
MAX_FILES_OF_A_FOLDER = 20
MAX_TOP_LEVEL_MODULES = 6
MAX_LAYERS = 8
MAX_ARGUMENTS = 8
SMALL_LINES = 60

PLATFORM = {"cli", "client", "cluster", "master", "records", "search", "server", "storage", "store"}
PLATFORM |= {"trials", "web"}
GARDEN = "the signature of the Model Garden"
GROUND = {"files", "process", "reference", "terminal", "testing"}

SMALL_FILES = {
    "garden/nlp/serving/export_savedmodel_util.py": "a path of the Model Garden",
    "input/dataset_fn.py": "a path of the Model Garden",
    "modeling/activations/gelu.py": "a path of the Model Garden",
    "modeling/activations/mish.py": "a path of the Model Garden",
    "modeling/activations/relu.py": "a path of the Model Garden",
    "modeling/activations/sigmoid.py": "a path of the Model Garden",
    "modeling/activations/swish.py": "a path of the Model Garden",
    "nlp/experiments/multitask_translation.py": "the name of an experiment",
    "nlp/experiments/progressive_translation.py": "the name of an experiment",
    "orbit/actions/conditional_action.py": "a path of Orbit",
    "orbit/actions/save_checkpoint_if_preempted.py": "a path of Orbit",
    "trials/estimator.py": "a path of PEDL",
}
"""Files under 60 lines with one importer, and why they stay."""

SAME_NAMES = {
    "training": {
        "adam.py",
        "base_trainer.py",
        "configs.py",
        "dropout.py",
        "feed_forward.py",
        "sentence_prediction.py",
        "translation.py",
    },
    "platform": {
        "checkpoint.py",
        "columns.py",
        "importance.py",
        "master.py",
        "node.py",
        "provenance.py",
        "schema.py",
        "store.py",
        "trial.py",
    },
}
"""Basenames that several files of a half have."""

PRIVATE_CLASSES = {
    "checkpoints/task_state.py: class TaskVariables(tf.__internal__.tracking.Trackable)",
    "core/steps/keras2_code.py: model._compiled_metrics_update_state",
    "distribute/distribution.py: extended._communication_options",
    "trials/graphs/estimator_trial.py: rebuilt._call_input_fn",
    "trials/graphs/estimator_trial.py: rebuilt._call_model_fn",
    "trials/older/keras2_optimizers.py: keras.optimizers.Optimizer._backend_update_step",
    "trials/older/tf1_optimizers.py: _Optimizer._apply_dense",
    "trials/older/tf1_optimizers.py: _Optimizer._apply_sparse",
    "trials/warm_up.py: eager_context._context",
    "trials/warm_up.py: graphs._global_default_graph",
}
"""Private base classes of libraries, and private attributes of their objects that are set."""

MANY_ARGUMENTS = {
    "cli/training/local_cluster.py: LocalCluster.__init__": "settings of a program",
    "core/base_trainer.py: Trainer.__init__": "the seeds' signature",
    "core/multitask/evaluator.py: MultiTaskEvaluator.__init__": GARDEN,
    "input/input_reader.py: InputReader.__init__": GARDEN,
    "nlp/modeling/layers/projection.py: Projection.__init__": GARDEN,
    "nlp/modeling/models/electra_pretrainer.py: ElectraPretrainer.__init__": GARDEN,
    "nlp/modeling/models/seq2seq_transformer.py: Seq2SeqTransformer.__init__": GARDEN,
    "nlp/modeling/models/transformer_stacks.py: TransformerDecoder.__init__": GARDEN,
    "nlp/modeling/models/transformer_stacks.py: TransformerDecoder.call": GARDEN,
    "nlp/modeling/models/transformer_stacks.py: TransformerEncoder.__init__": GARDEN,
    "nlp/modeling/networks/text_encoder.py: TextEncoder.__init__": GARDEN,
    "orbit/controller.py: Controller.__init__": "the seeds' signature",
    "run/fitting/fit.py: fit": "the signature of Keras",
    "run/multitask_runner.py: MultiEvalRunner.__init__": "what the garden hands on",
    "run/orbit_experiment_runner.py: OrbitExperimentRunner.__init__": GARDEN,
    "run/train_lib.py: run_experiment": "the seeds' signature",
    "search/adaptive.py: build_adaptive": "the fields of a config",
    "search/adaptive.py: build_adaptive_asha": "the fields of a config",
    "search/bayesian.py: BayesianSearch.__init__": "the fields of a config",
}
"""Functions of more than 8 arguments outside of the garden, and why they have them."""


class Module(NamedTuple):
    """A file of the package."""

    path: str
    lines: int
    tree: ast.Module


@functools.cache
def read_modules():
    """Returns the files of the package by the names of their modules."""
    modules = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        relative = path.relative_to(PACKAGE).as_posix()
        modules[name] = Module(relative, source.count("\n"), ast.parse(source))
    return modules


@functools.cache
def read_nodes():
    """Returns all nodes of each file."""
    return {module.path: list(ast.walk(module.tree)) for module in read_modules().values()}


def test_the_package_does_not_grow():
    lines = sum(module.lines for module in read_modules().values())

    assert lines <= MAX_LINES, f"{lines} lines. Delete something, or say in the table why not."


def test_the_garden_stays_small():
    lines = sum(m.lines for m in read_modules().values() if m.path.startswith("garden/"))

    assert lines <= MAX_GARDEN_LINES


def test_folders_are_not_halls():
    sizes = collections.Counter(
        pathlib.PurePosixPath(module.path).parent.as_posix() for module in read_modules().values()
    )

    large = {name: size for name, size in sizes.items() if size > MAX_FILES_OF_A_FOLDER}
    assert not large
    assert sizes["."] - 1 <= MAX_TOP_LEVEL_MODULES


def test_small_files_are_in_their_importers():
    modules = read_modules()
    importers = collections.defaultdict(set)
    for module in modules.values():
        for name in find_imports(module):
            importers[name].add(module.path)

    small = {
        module.path
        for name, module in modules.items()
        if module.lines < SMALL_LINES
        and len(importers[name]) == 1
        and not module.path.endswith("__init__.py")
    }
    assert_only(small, SMALL_FILES)


def test_names_of_files_are_unique_in_their_half():
    counts = {"training": collections.Counter(), "platform": collections.Counter()}
    for module in read_modules().values():
        path = pathlib.PurePosixPath(module.path)
        room = path.parts[0]
        if room == "garden":
            continue  # It has the names of the Model Garden.
        halves = ["platform"] if room in PLATFORM else ["training"]
        for half in counts if room in GROUND or len(path.parts) == 1 else halves:
            counts[half][path.name] += path.name != "__init__.py"

    same = {
        half: {n for n, number in names.items() if number > 1} for half, names in counts.items()
    }
    assert same == SAME_NAMES


def test_a_module_that_runs_has_defined_everything_before():
    early = [
        module.path
        for module in read_modules().values()
        for statement in module.tree.body[:-1]
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)
    ]

    assert not early, f"`if __name__ == '__main__'` is not the end of {early}"


def test_private_classes_of_libraries_are_left_alone():
    own = find_own_attributes()
    found = {
        f"{module.path}: {text}"
        for module in read_modules().values()
        for text in find_private_uses(read_nodes()[module.path], own)
    }

    assert_only(found, PRIVATE_CLASSES)


def test_a_private_class_and_a_patch_are_found():
    tree = ast.parse(
        "import keras\nfrom uvicorn import server\nfrom quintain import files\n"
        "class A(server._Base): pass\nclass B(files._Base): pass\n"
        "keras.Model._step = 1\nfiles._own = 2\nmodel._step = 3\n"
    )

    found = set(find_private_uses(list(ast.walk(tree)), {"_own"}))
    assert found == {"class A(server._Base)", "keras.Model._step", "model._step"}


def test_functions_take_few_arguments():
    found = {
        f"{module.path}: {name}": count
        for module in read_modules().values()
        if not module.path.startswith("garden/")
        for name, count in find_functions(module.tree)
        if count > MAX_ARGUMENTS
    }

    assert_only(found, MANY_ARGUMENTS)


def test_contracts_are_rooms_and_not_lists():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    contracts = config["tool"]["importlinter"]["contracts"]
    long = [one["name"] for one in contracts if len(one.get("layers", [])) > MAX_LAYERS]
    assert long == []


def assert_only(found, table):
    """Compares what is there with a table of exceptions."""
    new, mended = sorted(set(found) - set(table)), sorted(set(table) - set(found))
    assert not new, f"New, and not allowed: {new}"
    assert not mended, f"Mended; delete the rows: {mended}"


def find_imports(module):
    """Returns the modules of the package that a file imports."""
    names = set()
    for node in read_nodes()[module.path]:
        match node:
            case ast.Import(names=aliases):
                names |= {alias.name for alias in aliases}
            case ast.ImportFrom(module=str(source), names=aliases):
                for alias in aliases:
                    full = f"{source}.{alias.name}"
                    names.add(full if full in read_modules() else source)
    return names


def find_own_attributes():
    """Returns the private attributes that classes of the package set on themselves, or declare."""
    own = set()
    for nodes in read_nodes().values():
        for node in nodes:
            match node:
                case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=attr, ctx=ast.Store()):
                    own.add(attr)
                case ast.ClassDef(body=body):
                    own |= {one.name for one in body if isinstance(one, ast.FunctionDef)}
                    own |= {name.id for one in body for name in find_names(one)}
    return own


def find_names(statement):
    """Returns the names that a statement of a class's body assigns."""
    match statement:
        case ast.Assign(targets=targets):
            return [target for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name() as target):
            return [target]
    return []


def find_private_uses(nodes, own):
    """Yields what a file derives from, or sets of, what is private to a library."""
    libraries = {}
    for node in nodes:
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    top = alias.name.partition(".")[0]
                    libraries[alias.asname or top] = alias.name if alias.asname else top
            case ast.ImportFrom(module=str(source), names=aliases):
                for alias in aliases:
                    libraries[alias.asname or alias.name] = f"{source}.{alias.name}"
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                first, _, rest = ast.unparse(base).partition(".")
                full = f"{libraries.get(first, 'quintain')}.{rest}"
                if not full.startswith("quintain") and "._" in full:
                    yield f"class {node.name}({ast.unparse(base)})"
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            owner = ast.unparse(node.value)
            library = libraries.get(owner.partition(".")[0], "quintain")
            is_own = library.startswith("quintain") and (node.attr in own or owner == "self")
            if node.attr.startswith("_") and not node.attr.endswith("__") and not is_own:
                yield ast.unparse(node)


def find_functions(tree, prefix=""):
    """Yields the functions of a file, but for commands, and their numbers of arguments."""
    for node in ast.iter_child_nodes(tree):
        name = prefix
        if isinstance(node, ast.ClassDef):
            name = f"{prefix}{node.name}."
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}{node.name}."
            arguments = node.args
            names = [a.arg for a in arguments.posonlyargs + arguments.args + arguments.kwonlyargs]
            is_method = bool(names) and names[0] in {"self", "cls"}
            decorators = " ".join(ast.unparse(one) for one in node.decorator_list)
            if "click." not in decorators and ".command(" not in decorators:
                yield name.removesuffix("."), len(names) - is_method
        yield from find_functions(node, name)
