import json

import numpy as np
import pytest
from starlette import testclient

from quintain import errors
from quintain.cli import main
from quintain.hub import adapters, configs, packing
from quintain.hub import presets as presets_lib
from quintain.serving import app, servable, served_model
from tests.hub import tiny_presets

PACKED = ["gpt2", "llama3", "qwen", "mistral"]


@pytest.mark.long("Layers differ little", but=["gpt2", "qwen"])
@pytest.mark.slow
@pytest.mark.parametrize("family", PACKED)
def test_texts_that_share_a_row_have_the_logits_that_they_have_alone(family, tmp_path):
    preset = tiny_presets.make(family, tmp_path)
    model = presets_lib.load_model(configs.ModelConfig(preset=preset), "CausalLM", 0)
    packed = packing.pack_model(model)
    size = model.backbone.vocabulary_size
    ids = np.random.default_rng(1).integers(5, size, [1, 12]).astype(np.int32)
    documents = np.array([[1] * 5 + [2] * 4 + [3] * 2 + [0]], np.int32)

    together = packed({"token_ids": ids, "padding_mask": documents})

    for start, end in [(0, 5), (5, 9), (9, 11)]:
        alone = model(
            {"token_ids": ids[:, start:end], "padding_mask": np.ones([1, end - start], np.int32)}
        )
        np.testing.assert_allclose(together[:, start:end], alone, atol=1e-5)
    assert packing.find_plain(packed) is model


@pytest.mark.slow
def test_a_family_without_place_for_masks_is_named(bert_preset):
    model = presets_lib.load_model(configs.ModelConfig(preset=bert_preset), "MaskedLM", 0)

    with pytest.raises(errors.ConfigError, match="layers of Bert take no mask of attention"):
        packing.pack_model(model)


@pytest.fixture(scope="module")
def talk_run(tmp_path_factory):
    """Returns a run that learnt one conversation by heart, by adapters in packed rows."""
    directory = tmp_path_factory.mktemp("talks")
    talks = directory / "talks.jsonl"
    turns = [{"role": "user", "content": "good?"}, {"role": "assistant", "content": "a b"}]
    talks.write_text((json.dumps({"messages": turns}) + "\n") * 4)
    preset = tiny_presets.make("gpt2", directory)
    settings = {
        "task.model.preset": preset,
        "task.model.sequence_length": 64,
        "task.model.lora.rank": 4,
        "task.model.lora.layers": "['query','value','*dense']",
        "task.template.name": "plain",
        "task.generation.max_new_tokens": 8,
        "task.generation.num_examples": 1,
        "task.train_data.input_path": talks,
        "task.train_data.global_batch_size": 2,
        "task.validation_data.input_path": talks,
        "task.validation_data.global_batch_size": 2,
        "trainer.train_steps": 60,
        "trainer.checkpoint_interval": 60,
        "trainer.validation_interval": 60,
        "trainer.optimizer_config.learning_rate.polynomial.initial_learning_rate": 0.03,
        "trainer.optimizer_config.learning_rate.polynomial.decay_steps": 60,
        "trainer.optimizer_config.warmup.linear.warmup_steps": 6,
        "runtime.seed": 7,
    }
    code = main.run(
        ["train", "--experiment=hub/sft", f"--model-dir={directory / 'run'}", "--quiet"]
        + [f"--set={name}={value}" for name, value in settings.items()]
    )
    assert code == 0
    return str(directory / "run")


@pytest.mark.slow
def test_a_run_answers_as_it_was_taught(talk_run, capsys):
    assert main.run(["predict", f"--model-dir={talk_run}", "good?"]) == 0
    assert capsys.readouterr().out == "a b\n"


@pytest.mark.slow
def test_a_server_speaks_the_shape_of_openai(talk_run):
    model = served_model.load(talk_run)
    body = {"messages": [{"role": "user", "content": "good?"}]}
    with testclient.TestClient(app.build_app(model), base_url="http://localhost") as client:
        whole = client.post("/v1/chat/completions", json=body).json()
        streamed = client.post("/v1/chat/completions", json={**body, "stream": True})
        bad = client.post("/v1/chat/completions", json={"messages": [{"role": "me"}]})
        unknown = client.post("/v1/chat/completions", json={**body, "tools": [1]})
        short = client.post("/predict", json={"texts": ["good?"]}).json()

    choice = whole["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": "a b"}
    assert (choice["finish_reason"], whole["object"]) == ("stop", "chat.completion")
    assert whole["usage"]["completion_tokens"] > 0
    lines = [line for line in streamed.text.split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    deltas = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]
    assert "".join(deltas) == "a b"
    assert len([text for text in deltas if text]) > 1
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert bad.status_code == 400
    assert "messages[0].role: got 'me', expected one of" in bad.json()["error"]["message"]
    assert "tools: got" in unknown.json()["error"]["message"]
    assert short["predictions"][0]["text"] == "a b"


@pytest.mark.slow
def test_adapters_of_packed_rows_are_merged_at_export(talk_run, tmp_path):
    module = servable.load(talk_run).module

    assert not any(adapters.list_adapted(module.model))
    assert module.chat.answer([{"role": "user", "content": "good?"}]).text == "a b"
    target = tmp_path / "gpt2"
    code = main.run(
        ["export", f"--model-dir={talk_run}", f"--output={target}", "--format=transformers"]
    )
    assert code == 0
    assert {"config.json", "model.safetensors"} <= {file.name for file in target.iterdir()}


@pytest.mark.slow
@pytest.mark.long("It learns for minutes")
def test_the_bundled_model_learns_to_answer(tmp_path, capsys):
    run = tmp_path / "run"

    assert main.run(["train", "--experiment=sft/local", f"--model-dir={run}", "--quiet"]) == 0

    assert main.run(["predict", f"--model-dir={run}", "What comes after Friday?"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "Saturday."
