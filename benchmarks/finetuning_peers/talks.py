"""A causal model and conversations: the same for both peers of fine-tuning with adapters."""

import json
import pathlib
import random
import string
import tempfile

NUM_LAYERS, WIDTH, NUM_HEADS, INTERMEDIATE = 6, 512, 8, 2048
VOCAB_SIZE, SEQ_LENGTH = 8_192, 256
RANK, LEARNING_RATE = 8, 2e-4
CONVERSATIONS_PER_STEP = 16
MEDIAN_LENGTH, SPREAD = 72, 0.5


def write_preset() -> str:
    """Writes a GPT-2 with random weights, whose tokens are characters, and returns its directory.

    Its table of tokens has the size of that of byte pairs.
    """
    import keras
    import keras_hub

    keras.utils.set_random_seed(0)
    signs = [*string.ascii_letters, *string.digits, *string.punctuation, "Ġ", "Ċ", "ĠĠ"]
    vocabulary = {sign: number for number, sign in enumerate(["<|endoftext|>", *signs])}
    directory = tempfile.mkdtemp()
    keras_hub.models.GPT2Backbone(
        vocabulary_size=VOCAB_SIZE,
        num_layers=NUM_LAYERS,
        num_heads=NUM_HEADS,
        hidden_dim=WIDTH,
        intermediate_dim=INTERMEDIATE,
        max_sequence_length=SEQ_LENGTH,
    ).save_to_preset(directory)
    keras_hub.models.GPT2Tokenizer(vocabulary=vocabulary, merges=["Ġ Ġ"]).save_to_preset(directory)
    return directory


def write_conversations(count: int) -> tuple[str, list[str]]:
    """Writes conversations as JSON Lines, and returns the file and them as texts by a template.

    Their lengths are log-normal, and no text is cut.
    """
    generator = random.Random(0)
    path = pathlib.Path(tempfile.mkdtemp()) / "conversations.jsonl"
    texts = []
    with path.open("w") as file:
        for _ in range(count):
            length = min(160, int(generator.lognormvariate(0, SPREAD) * MEDIAN_LENGTH))
            words = "".join(generator.choices(string.ascii_lowercase + "   ", k=max(8, length)))
            question, answer = f"q{words[: length // 2]}", f"a{words[length // 2 :]}"
            turns = [("user", question), ("assistant", answer)]
            texts.append("".join(f"{role}: {content}\n" for role, content in turns))
            messages = [{"role": role, "content": content} for role, content in turns]
            file.write(json.dumps({"messages": messages}) + "\n")
    return str(path), texts
