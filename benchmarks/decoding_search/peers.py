"""Decodes with a peer: python peers.py NAME FOLDER BEAM BATCH; one round for each line of input.

FOLDER holds `weights.npz`, `sources.json` (lists of ids) and `config.json`. Prints a line when the
peer is ready, and after each round one of JSON with seconds and outputs.
"""

import json
import os
import pathlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

Decode = Callable[[list[Any]], list[Any]]


def cut_batches(sources: list[Any], size: int) -> Iterator[list[int]]:
    """Yields the places of sources, the longest together first."""
    order = sorted(range(len(sources)), key=lambda place: -len(sources[place]))
    for start in range(0, len(order), size):
        yield order[start : start + size]


def strip(ids: list[Any]) -> list[int]:
    """Returns ids up to the first end, without padding."""
    ids = [int(i) for i in ids]
    ids = ids[: ids.index(1)] if 1 in ids else ids
    return [i for i in ids if i]


def pad(rows: list[Any]) -> Any:
    """Returns rows of ids as an array, padded with 0."""
    import numpy as np

    padded = np.zeros([len(rows), max(map(len, rows))], "int64")
    for place, row in enumerate(rows):
        padded[place, : len(row)] = row
    return padded


def build_hugging_face(weights: dict[str, Any], config: dict[str, Any], precision: str) -> Any:
    """Returns a MarianMT model with the weights."""
    import torch
    import transformers

    torch.set_num_threads(int(os.environ["NUM_THREADS"]))
    sides = {}
    for side in ("encoder", "decoder"):
        sides |= {
            f"{side}_layers": config["num_layers"],
            f"{side}_ffn_dim": config["intermediate_size"],
            f"{side}_attention_heads": config["num_heads"],
        }
    settings = transformers.MarianConfig(
        vocab_size=config["vocab_size"], d_model=config["width"], activation_function="relu",
        scale_embedding=True, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
        forced_eos_token_id=None, max_position_embeddings=len(weights["positions"]), dropout=0.0,
        tie_word_embeddings=False, share_encoder_decoder_embeddings=True, **sides,
    )  # fmt: skip
    model = transformers.MarianMTModel(settings).eval()
    state = model.state_dict()
    table = weights["embedding"].copy()
    state["lm_head.weight"] = torch.tensor(table.copy())
    table[0] = 0.0
    for name in state:
        if name.endswith(("embed_tokens.weight", "shared.weight")):
            state[name] = torch.tensor(table)
        elif name.endswith("embed_positions.weight"):
            state[name] = torch.tensor(weights["positions"])
    for side in ("encoder", "decoder"):
        for number in range(config["num_layers"]):
            ours, theirs = f"{side}.{number}.", f"model.{side}.layers.{number}."
            _copy_layer(weights, state, ours, theirs, is_decoder=side == "decoder")
    model.load_state_dict(state)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-6
    return model.to(getattr(torch, precision))


def _copy_layer(
    weights: dict[str, Any], state: dict[str, Any], ours: str, theirs: str, *, is_decoder: bool
) -> None:
    import numpy as np
    import torch

    def put(name: str, kernel: Any, bias: Any) -> None:
        state[f"{theirs}{name}.weight"] = torch.tensor(np.ascontiguousarray(kernel.T))
        state[f"{theirs}{name}.bias"] = torch.tensor(bias)

    def put_parts(names: list[Any], source: str) -> None:
        kernels = np.split(weights[f"{ours}{source}.kernel"], len(names), axis=1)
        biases = np.split(weights[f"{ours}{source}.bias"], len(names))
        for name, kernel, bias in zip(names, kernels, biases, strict=True):
            put(name, kernel, bias)

    def put_norm(name: str, source: str) -> None:
        state[f"{theirs}{name}.weight"] = torch.tensor(weights[f"{ours}{source}.gamma"])
        state[f"{theirs}{name}.bias"] = torch.tensor(weights[f"{ours}{source}.beta"])

    put_parts([f"self_attn.{part}_proj" for part in "qkv"], "query_key_value")
    put_parts(["self_attn.out_proj"], "output")
    put_norm("self_attn_layer_norm", "self_attention_norm")
    if is_decoder:
        put_parts(["encoder_attn.q_proj"], "source_query")
        put_parts([f"encoder_attn.{part}_proj" for part in "kv"], "source_key_value")
        put_parts(["encoder_attn.out_proj"], "source_output")
        put_norm("encoder_attn_layer_norm", "cross_attention_norm")
    put_parts(["fc1"], "expand")
    put_parts(["fc2"], "contract")
    put_norm("final_layer_norm", "feed_forward_norm")


def run_hugging_face(
    weights: dict[str, Any],
    config: dict[str, Any],
    folder: str,
    beam_size: int,
    batch_size: int,
    precision: str = "float32",
    is_early: bool = False,
) -> Decode:
    """Returns what decodes all sources; early: it stops when as many as there are beams ended."""
    import torch

    model = build_hugging_face(weights, config, precision)

    def decode(sources: list[Any]) -> list[Any]:
        outputs: list[Any] = [None] * len(sources)
        for places in cut_batches(sources, batch_size):
            ids = torch.tensor(pad([sources[place] for place in places]))
            with torch.inference_mode():
                found = model.generate(
                    input_ids=ids, attention_mask=(ids != 0).long(), num_beams=beam_size,
                    do_sample=False, length_penalty=0.0, early_stopping=is_early,
                    max_new_tokens=ids.shape[1] + config["extra_length"],
                )  # fmt: skip
            for place, row in zip(places, found[:, 1:].tolist(), strict=True):
                outputs[place] = strip(row)
        return outputs

    return decode


def run_ctranslate2(
    weights: dict[str, Any],
    config: dict[str, Any],
    folder: str,
    beam_size: int,
    batch_size: int,
    precision: str = "float32",
) -> Decode:
    """Returns what decodes all sources."""
    import ctranslate2
    import numpy as np
    from ctranslate2.specs import common_spec, transformer_spec

    layers, heads = config["num_layers"], config["num_heads"]
    spec = transformer_spec.TransformerSpec.from_config(
        (layers, layers), heads, pre_norm=True, activation=common_spec.Activation.RELU
    )

    def put(linear: Any, name: str) -> None:
        linear.weight = np.ascontiguousarray(weights[f"{name}.kernel"].T)
        linear.bias = weights[f"{name}.bias"]

    def put_norm(norm: Any, name: str) -> None:
        norm.gamma, norm.beta = weights[f"{name}.gamma"], weights[f"{name}.beta"]

    table = weights["embedding"].copy()
    table[0] = 0.0
    spec.encoder.embeddings[0].weight = table
    spec.decoder.embeddings.weight = table
    spec.decoder.projection.weight = weights["embedding"]
    for side in (spec.encoder, spec.decoder):
        side.position_encodings.encodings = weights["positions"]
        side.pre_norm = False  # Made with it, the sides have a last normalisation, as ours do.
    put_norm(spec.encoder.layer_norm, "encoder.last_norm")
    put_norm(spec.decoder.layer_norm, "decoder.last_norm")
    for kind, side in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        for number, layer in enumerate(side.layer):
            name = f"{kind}.{number}."
            put(layer.self_attention.linear[0], f"{name}query_key_value")
            put(layer.self_attention.linear[1], f"{name}output")
            put_norm(layer.self_attention.layer_norm, f"{name}self_attention_norm")
            if kind == "decoder":
                put(layer.attention.linear[0], f"{name}source_query")
                put(layer.attention.linear[1], f"{name}source_key_value")
                put(layer.attention.linear[2], f"{name}source_output")
                put_norm(layer.attention.layer_norm, f"{name}cross_attention_norm")
            put(layer.ffn.linear_0, f"{name}expand")
            put(layer.ffn.linear_1, f"{name}contract")
            put_norm(layer.ffn.layer_norm, f"{name}feed_forward_norm")
    tokens = ["<pad>", "</s>", "<unk>", *map(str, range(3, config["vocab_size"]))]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.bos_token = spec.config.decoder_start_token = "<pad>"
    spec.config.eos_token, spec.config.unk_token = "</s>", "<unk>"
    spec.validate()
    target = pathlib.Path(folder) / "ctranslate2"
    target.mkdir(exist_ok=True)
    spec.save(str(target))
    translator = ctranslate2.Translator(
        str(target), compute_type=precision, intra_threads=int(os.environ["NUM_THREADS"])
    )
    numbers = {token: number for number, token in enumerate(tokens)}

    def decode(sources: list[Any]) -> list[Any]:
        limit = max(map(len, sources)) + config["extra_length"]
        results = translator.translate_batch(
            [[tokens[i] for i in source] for source in sources], beam_size=beam_size,
            length_penalty=0.0, max_batch_size=batch_size, max_decoding_length=limit,
        )  # fmt: skip
        return [[numbers[token] for token in result.hypotheses[0]] for result in results]

    return decode


def run_reference(
    weights: dict[str, Any], config: dict[str, Any], folder: str, beam_size: int, batch_size: int
) -> Decode:
    """Returns what decodes all sources.

    The reference normalises the last block's output once more than the others, so that its outputs
    differ from theirs; their lengths are much the same.
    """
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow as tf
    from official.nlp.modeling.models import seq2seq_transformer

    layers = {
        "num_layers": config["num_layers"], "num_attention_heads": config["num_heads"],
        "intermediate_size": config["intermediate_size"], "activation": "relu",
        "dropout_rate": 0.0, "attention_dropout_rate": 0.0, "use_bias": True, "norm_first": False,
        "norm_epsilon": 1e-6, "intermediate_dropout": 0.0,
    }  # fmt: skip
    model = seq2seq_transformer.Seq2SeqTransformer(
        vocab_size=config["vocab_size"], embedding_width=config["width"], dropout_rate=0.0,
        beam_size=beam_size, alpha=0.0, extra_decode_length=config["extra_length"], eos_id=1,
        encoder_layer=seq2seq_transformer.TransformerEncoder(**layers),
        decoder_layer=seq2seq_transformer.TransformerDecoder(**layers),
    )  # fmt: skip
    model({"inputs": tf.constant([[3, 1]]), "targets": tf.constant([[3, 1]])})
    for variable in model.trainable_variables:
        _put_reference(variable, weights)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int64)])
    def search(ids: Any) -> Any:
        return model({"inputs": ids}, training=False)["outputs"]

    def decode(sources: list[Any]) -> list[Any]:
        outputs: list[Any] = [None] * len(sources)
        for places in cut_batches(sources, batch_size):
            found = search(tf.constant(pad([sources[place] for place in places]))).numpy()
            for place, row in zip(places, found, strict=True):
                outputs[place] = strip(row)
        return outputs

    return decode


# Ours, which of its parts, and how many it has.
_REFERENCE_PARTS = {
    "self_attention/query": ("query_key_value", 0, 3),
    "self_attention/key": ("query_key_value", 1, 3),
    "self_attention/value": ("query_key_value", 2, 3),
    "self_attention/attention_output": ("output", 0, 1),
    "self_attention_layer_norm": ("self_attention_norm", 0, 1),
    "attention/encdec/query": ("source_query", 0, 1),
    "attention/encdec/key": ("source_key_value", 0, 2),
    "attention/encdec/value": ("source_key_value", 1, 2),
    "attention/encdec/attention_output": ("source_output", 0, 1),
    "attention/encdec_output_layer_norm": ("cross_attention_norm", 0, 1),
    "intermediate": ("expand", 0, 1),
    "output": ("contract", 0, 1),
    "output_layer_norm": ("feed_forward_norm", 0, 1),
}


def _put_reference(variable: Any, weights: dict[str, Any]) -> None:
    """Gives a variable of the reference its value."""
    import numpy as np

    if "embedding" in variable.name:
        variable.assign(weights["embedding"])
        return
    path = re.search(r"transformer_(\w+?)/layer_(\d+)/(.+)/(\w+):0$", variable.name)
    if path is None:  # The normalisation that the others don't have.
        return
    side, number, name, kind = path.groups()
    ours, part, num_parts = _REFERENCE_PARTS[name]
    value = weights[f"{side}.{number}.{ours}.{kind}"]
    variable.assign(np.split(value, num_parts, axis=-1)[part].reshape(variable.shape))


def main() -> None:
    """Decodes once for each line of standard input."""
    import numpy as np

    name, folder, beam_size, batch_size = sys.argv[1:5]
    weights = dict(np.load(pathlib.Path(folder) / "weights.npz"))
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    sources = json.loads((pathlib.Path(folder) / "sources.json").read_text())
    build = {
        "hugging_face": run_hugging_face,
        "hugging_face_bfloat16": lambda *args: run_hugging_face(*args, precision="bfloat16"),
        "hugging_face_early": lambda *args: run_hugging_face(*args, is_early=True),
        "ctranslate2": run_ctranslate2,
        "ctranslate2_int8": lambda *args: run_ctranslate2(*args, precision="int8"),
        "reference": run_reference,
    }[name]
    decode = build(weights, config, folder, int(beam_size), int(batch_size))
    decode(sources[:8])
    print("ready", flush=True)
    for _ in sys.stdin:
        start, cpu_start = time.perf_counter(), time.process_time()
        outputs = decode(sources)
        secs, cpu_secs = time.perf_counter() - start, time.process_time() - cpu_start
        print(json.dumps({"secs": secs, "cpu_secs": cpu_secs, "outputs": outputs}), flush=True)


if __name__ == "__main__":
    main()
