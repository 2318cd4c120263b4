"""Programs as people write them, and what a comparison with their ports says."""

import contextlib
import pathlib

import pytest

from quintain import errors
from quintain.certify import certify, lanes

pytestmark = pytest.mark.slow

PROGRAMS = pathlib.Path(__file__).parent / "programs"
OPTIONS = certify.Options(seeds=3, steps=20)
CERTIFIED = {
    "autoencoder": "autoencoder",
    "char_rnn": "build",
    "custom_estimator": "build_estimator",
    "custom_step": "make_model",
    "deepfm": "build",
    "dnn_regressor": "build_estimator",
    "dynamic_lstm": "build",
    "gru_tf1": "intent_model",
    "linear_classifier": "build_estimator",
    "lstm_sentiment": "build_model",
    "matrix_factorisation": "build",
    "mlp_smoothing": "build",
    "mnist_cnn": "build",
    "mobilenet": "build_model",
    "multi_output": "build_model",
    "ncf": "get_model",
    "resnet": "create_model",
    "seq2seq": "build_model",
    "siamese": "build_model",
    "text_cnn": "text_cnn",
    "transformer": "build_model",
    "unet": "build_model",
    "wide_deep": "build_estimator",
}
"""Programs that have a certificate, and the functions of the older ones."""


@pytest.fixture(scope="module")
def compare():
    """Compares a program with its port, in processes that are started once."""
    with contextlib.ExitStack() as stack:
        opened = {}

        def get(role, text):
            source = lanes.parse_source(str(PROGRAMS / text), role)
            kind = (role, source.is_graph)
            if kind not in opened:
                opened[kind] = stack.enter_context(lanes.open_lane(source))
            opened[kind].load(source)
            return opened[kind]

        def run(name, function, options=OPTIONS):
            old, new = get("OLD", f"{name}/old.py:{function}"), get("NEW", f"{name}/new.py")
            return certify.compare(old, new, None, options)

        yield run


@pytest.mark.long("fifteen minutes of all programs", but=["linear_classifier"])
@pytest.mark.parametrize(("name", "function"), CERTIFIED.items(), ids=list(CERTIFIED))
def test_programs_get_certificates(compare, name, function):
    found = compare(name, function)

    assert found.is_equivalent, found.verdict


@pytest.mark.long("the same message as of another layer with random numbers", but=[])
@pytest.mark.parametrize(
    ("name", "function", "where"),
    [
        ("vae", "build_model", "sampling"),
        ("word2vec", "build", "nce_loss/LogUniformCandidateSampler"),
    ],
)
def test_random_numbers_of_their_own_are_one_message(compare, name, function, where):
    with pytest.raises(errors.ConfigError, match=f"{where} is not the same in two passes"):
        compare(name, function)
