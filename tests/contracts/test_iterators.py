import ast
import pathlib

import pytest

_PACKAGE = pathlib.Path(__file__).parents[2] / "quintain"
_MAKER = "orbit/iterators.py"
_OVER_OTHER_THINGS = {
    "certify/graph_model.py",
    "core/model_export.py",
    "core/privacy/private_gradients.py",
    "distribute/elastic_steps.py",
    "modeling/rematerialization.py",
    "nlp/data/tokenizers.py",
    "run/fitting/keras_data.py",
    "serving/instance_files.py",
    "serving/instances.py",
    "serving/signature_model.py",
    "serving/translator.py",
    "trials/graphs/repeatable_candidates.py",
}


def _finds_iterator_made_here(source: str) -> bool:
    """Whether a module of TensorFlow code calls `iter`, or passes it on, or `as_numpy_iterator`."""
    nodes = list(ast.walk(ast.parse(source)))
    return any(
        (isinstance(node, ast.Name) and node.id == "iter")
        or (isinstance(node, ast.Attribute) and node.attr == "as_numpy_iterator")
        for node in nodes
        if not _is_of_two_arguments(node, nodes)
    )


def _is_of_two_arguments(name, nodes):
    """Whether a name is that of a call such as `iter(read, "")`, which takes no dataset."""
    return any(
        isinstance(node, ast.Call) and node.func is name and len(node.args) == 2 for node in nodes
    )


@pytest.mark.slow
def test_iterators_over_datasets_are_made_by_the_function_that_makes_them_safe_to_drop():
    modules = {
        path.relative_to(_PACKAGE).as_posix(): path.read_text(encoding="utf-8")
        for path in _PACKAGE.rglob("*.py")
    }
    makers = {
        name
        for name, source in modules.items()
        if "import tensorflow as" in source
        and ("iter(" in source or "iter," in source or "as_numpy_iterator" in source)
        and _finds_iterator_made_here(source)
    }

    assert makers == {_MAKER} | _OVER_OTHER_THINGS
