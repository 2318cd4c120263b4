"""Layers, what they are called with, and weights, all by formula.

`make_outputs.py` computes the outputs with the TensorFlow Model Garden, `test_reference_outputs.py`
with ours. Weights are named as the Model Garden names them.
"""

import zlib

import numpy as np


def draw(name, *shape):
    """Returns numbers in [-0.5, 0.5], float32, that follow from a name."""
    places = np.arange(int(np.prod(shape)))
    return (0.5 * np.sin(1.7 * places + zlib.crc32(name.encode()) % 97)).reshape(shape).astype("f4")


def mask(name, *shape):
    """Returns a mask of which each row has a 1."""
    allowed = (draw(name, *shape) > -0.2).astype("f4")
    allowed[..., 0] = 1.0
    return allowed


def fingerprint(tensor):
    """Returns a few numbers that follow from all of a tensor."""
    flat = np.asarray(tensor, "f8").reshape(-1)
    places = np.arange(flat.size)
    return [flat[0], flat @ np.cos(places), flat @ np.sin(0.3 * places)]


X, MEMORY, GRID = draw("x", 2, 5, 8), draw("memory", 2, 7, 8), draw("grid", 2, 3, 4, 8)
MASK, MEMORY_MASK = mask("mask", 2, 5, 5), mask("memory_mask", 2, 5, 7)
EARLIER = np.tril(np.ones((2, 5, 5), "f4"))
TOKENS = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], "f4")
IDS = np.array([[1, 2, 0], [3, 4, 0]], "i4")
SCORES = np.abs(draw("scores", 2, 2, 5, 5))
SOURCES, SOURCES_MASK = draw("sources", 2, 3, 7, 8), mask("sources_mask", 2, 3, 5, 7)
RELATIVE = {
    "content_attention_bias": draw("content", 2, 4),
    "positional_attention_bias": draw("positional", 2, 4),
    "relative_position_encoding": draw("distances", 2, 13, 8),
}
SEGMENTS = {
    "segment_matrix": draw("segments", 2, 5, 5) > 0,
    "segment_encoding": draw("segment_encoding", 2, 2, 4),
    "segment_attention_bias": draw("segment_bias", 2, 4),
}
BLOCK = {"num_attention_heads": 2, "inner_dim": 16, "inner_activation": "relu"}
HEADS = {"num_heads": 2, "key_dim": 4}
ATTEND = {"query": X, "value": MEMORY, "attention_mask": MEMORY_MASK}
SELF = {"query": X, "value": X, "attention_mask": MASK, "return_attention_scores": True}
DECODER = {"num_attention_heads": 2, "intermediate_size": 16, "intermediate_activation": "gelu"}


def list_blocks(layers):
    """Yields name, class, arguments, and inputs of the blocks."""
    for first in (False, True):
        block = {**BLOCK, "norm_first": first}
        norms = {"diff_q_kv_att_layer_norm": first}
        sizes = {"key_dim": 3, "value_dim": 5, "output_last_dim": 6, "use_query_residual": False}
        encoder = "TransformerEncoderBlock"
        yield f"encoder-{first}", encoder, {**block, "inner_activation": "gelu"}, [X, MASK], {}
        yield f"range-{first}", encoder, block, [X, MASK], {"output_range": 2}
        yield f"memory-{first}", encoder, {**block, **norms}, [X, MEMORY, MEMORY_MASK], {}
        yield f"sizes-{first}", encoder, {**block, **sizes}, [X, MASK], {}
        rms = {"use_rms_norm": True, "return_attention_scores": True}
        yield f"rms-{first}", encoder, {**block, **rms}, [X, MASK], {}
        low = {"linformer_dim": 3, "linformer_shared_kv_projection": first}
        yield f"linformer-{first}", encoder, {**block, **low}, [X, MASK], {}
        decoder = {**DECODER, "norm_first": first}
        inputs = [X, MEMORY, MEMORY_MASK, EARLIER]
        yield f"decoder-{first}", "TransformerDecoderBlock", decoder, inputs, {}
        yield f"scaffold-{first}", "TransformerScaffold", block, [X, MASK], {}
        parts = {
            "attention_cls": layers.TalkingHeadsAttention,
            "feedforward_cls": layers.GatedFeedforward,
        }
        yield f"parts-{first}", "TransformerScaffold", {**block, **parts}, [X, MASK], {}
        reuse = {"reuse_attention": 1, "use_relative_pe": True, "pe_max_seq_length": 4}
        yield f"reuse-{first}", "ReuseTransformer", {**block, **reuse}, [X, MASK, SCORES], {}
        rezero = {"use_layer_norm": first, "share_rezero": first}
        yield f"rezero-{first}", "ReZeroTransformer", {**BLOCK, **rezero}, [X, MASK], {}
    yield "all masked", encoder, BLOCK, [X, 0 * MASK], {}
    yield "axes", encoder, {**BLOCK, "attention_axes": (2,)}, GRID, {}
    yield "shared heads", encoder, {**BLOCK, "num_kv_heads": 1}, [X, MASK], {}
    regularized = {**DECODER, "kernel_regularizer": "l2"}
    yield "regularized decoder", "TransformerDecoderBlock", regularized, inputs, {}
    channels = {**DECODER, "multi_channel_cross_attention": True}
    weights = np.abs(draw("channels", 2, 2, 5, 3))
    inputs = [X, SOURCES, SOURCES_MASK, EARLIER, weights]
    yield "channels", "TransformerDecoderBlock", channels, inputs, {}
    for kind in ("TransformerEncoderBlock", "ReZeroTransformer", "TransformerScaffold"):
        yield f"strided {kind}", f"Strided{kind}", BLOCK, [X, MASK], {"stride": 2}


def list_attention():
    """Yields name, class, arguments, and inputs of kinds of attention."""
    for kind in ("TalkingHeadsAttention", "PerDimScaleAttention", "CachedAttention"):
        yield kind, kind, HEADS, None, SELF
    for count in (1, 2):
        heads = {"num_heads": 4, "key_dim": 3, "num_kv_heads": count}
        yield f"queries-{count}", "MultiQueryAttention", heads, None, ATTEND
    grid = {"query": draw("a", 2, 6, 8), "value": draw("b", 2, 6, 8)}
    allowed = {"attention_mask": mask("blocks", 2, 6, 6)}
    for name, options in (
        ("blocks", {"src_block_size": 2, "tgt_block_size": 2}),
        ("blocks and one", {"src_block_size": 2, "tgt_block_size": 6, "num_kv_heads": 1}),
        ("blocks, one head", {"src_block_size": 2, "tgt_block_size": 2, "num_kv_heads": 1}),
        ("sigmoids", {"src_block_size": 6, "tgt_block_size": 6, "use_sigmoid_attn": True}),
    ):
        options = {**HEADS, "sigmoid_attn_bias": -2.0, **options}
        yield name, "BlockSparseAttention", options, None, {**grid, **allowed}
    yield (
        "votes",
        "VotingAttention",
        {"num_heads": 2, "head_size": 4},
        SOURCES,
        {"doc_attention_mask": np.array([[1, 1, 0], [1, 1, 1]], "f4")},
    )
    relative = {**RELATIVE, **SEGMENTS}
    state = {**RELATIVE, "state": draw("state", 2, 3, 8)}
    both = {"query": X, "value": X}
    yield (
        "relative",
        "MultiHeadRelativeAttention",
        HEADS,
        None,
        {
            **both,
            **relative,
            "attention_mask": MASK,
        },
    )
    yield "relative state", "MultiHeadRelativeAttention", HEADS, None, {**both, **state}
    yield (
        "two streams",
        "TwoStreamRelativeAttention",
        HEADS,
        None,
        {
            "content_stream": X,
            "query_stream": X[:, :2],
            "target_mapping": np.abs(draw("mapping", 2, 2, 5)),
            "content_attention_mask": MASK,
            "query_attention_mask": MASK,
            **relative,
        },
    )
    for count in (0, 1, -1):
        options = {"reuse_attention": count, "value_dim": 3, "output_shape": 7}
        more = {} if count == 0 else {"reuse_attention_scores": SCORES}
        yield f"reused-{count}", "ReuseMultiHeadAttention", {**HEADS, **options}, None, SELF | more
    kernel = {"query": X, "value": X, "attention_mask": TOKENS}
    for name in ("elu", "relu", "square", "exp", "expmod", "identity", "expplus"):
        options = {"feature_transform": name, "num_random_features": 7, "seed": 3}
        yield f"kernel-{name}", "KernelAttention", {**HEADS, **options}, None, kernel
    short = {"feature_transform": "square", "num_random_features": 0, "begin_kernel": 2}
    options = {**HEADS, **short, "is_short_seq": True}
    yield "kernel-short", "KernelAttention", options, None, kernel
    for padding, decay in (("left", 0.5), ("right", None)):
        window = {
            "use_causal_windowed": True,
            "causal_chunk_length": 2,
            "causal_window_length": 2,
            "causal_window_decay": decay,
            "causal_padding": padding,
            "scale_by_length": True,
        }
        yield f"kernel-{padding}", "KernelAttention", {**HEADS, **window}, None, kernel


def list_others():
    """Yields name, class, arguments, and inputs of all other layers."""
    for gate, place in ((True, "before_residual"), (False, "after_residual")):
        options = {
            "inner_dim": 16,
            "inner_activation": "relu",
            "use_gate": gate,
            "dropout_position": place,
            "num_blocks": 2,
            "apply_output_layer_norm": gate,
        }
        yield f"gated-{gate}", "GatedFeedforward", options, X, {}
    blocks = {"intermediate_size": 16, "intermediate_activation": "relu", "dropout": 0.0}
    yield "diagonal", "BlockDiagFeedforward", {**blocks, "num_blocks": 2}, X, {}
    for kind in ("Fourier", "Hartley", "Linear"):
        yield kind, f"{kind}TransformLayer", {}, None, {"query": X, "value": X}
    head = {"inner_dim": 6, "num_classes": 3, "cls_token_idx": 1}
    yield "head", "ClassificationHead", head, X, {}
    yield "flat head", "ClassificationHead", {**head, "inner_dim": 0}, X[:, 0], {}
    heads = {"inner_dim": 6, "cls_list": [("a", 2), ("b", 3)]}
    yield "heads", "MultiClsHeads", heads, X, {}
    queries = {"num_queries": 5, "features": 3, "use_bias": True}
    yield "query head", "PerQueryDenseHead", queries, X, {}
    table = {"vocab_size": 5, "embedding_width": 4}
    yield "embedding", "OnDeviceEmbedding", {**table, "scale_factor": 3.0}, IDS, {}
    yield "one hot", "OnDeviceEmbedding", {**table, "use_one_hot": True}, IDS, {}
    yield "factors", "FactorizedEmbedding", {**table, "output_dim": 6}, IDS, {}
    yield "positions", "PositionEmbedding", {"max_length": 9, "seq_axis": 2}, GRID, {}
    yield "sinusoids", "RelativePositionEmbedding", {"hidden_size": 6}, X, {}
    for both in (True, False):
        buckets = {
            "num_heads": 2,
            "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 6,
            "bidirectional": both,
        }
        lengths = {"query": draw("q", 1, 20, 3), "key": draw("k", 1, 25, 3)}
        yield f"buckets-{both}", "RelativePositionBias", buckets, None, lengths
    yield "attention mask", "SelfAttentionMask", {}, [X, TOKENS], {}
    axes = {"mask_expansion_axes": 1, "normalization_axes": (-1, -2)}
    yield "softmax", "MaskedSoftmax", axes, SCORES, {"mask": MASK}
    margin = {"logit_scale": 2.0, "logit_margin": 0.3}
    yield "margin", "MatMulWithMargin", margin, X[:, 0], {"right_encoded": X[:, 1]}
    yield "packed", "PackBertEmbeddings", {"pack_sequences": 2}, X, {"input_mask": TOKENS}
    yield "chosen", "SelectTopK", {"top_k": 2}, X[:, :, 0], {}


def list_cases(layers):
    """Returns all cases by name."""
    cases = [*list_blocks(layers), *list_attention(), *list_others()]
    return {name: case for name, *case in cases}


def run(layers, case, load):
    """Makes a layer, loads its weights, and returns it with a function that calls it."""
    kind, options, inputs, call = case

    def compute(layer):
        return layer(**call) if inputs is None else layer(inputs, **call)

    layer = getattr(layers, kind)(**options)
    compute(layer)
    load(layer)
    return layer, compute
