import json

import numpy as np
import pytest

from quintain import errors
from quintain.hub import bundled, configs, conversations

TURNS = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "yo"},
    {"role": "user", "content": "and"},
    {"role": "assistant", "content": "so"},
]


class Letters:
    """A tokenizer of characters."""

    end_token_id = 0

    def __call__(self, text):
        return [ord(sign) for sign in text]

    def detokenize(self, ids):
        return "".join(map(chr, ids))


def build_template(**fields):
    return conversations.Template(configs.TemplateConfig(**fields), Letters())


def test_only_answers_and_their_ends_are_learnt():
    template = build_template(name="plain")

    tokens = template.encode(TURNS)

    assert template.join(tokens.ids[:-1]) == "user: hi\nassistant: yo\nuser: and\nassistant: so\n"
    learnt = [one for one, counts in zip(tokens.ids, tokens.counts, strict=True) if counts]
    assert template.join(learnt) == "yo\nso\n\0"


def test_a_question_ends_where_its_answer_begins():
    template = build_template()

    ids = template.encode_question(TURNS[:3])

    whole = template.encode(TURNS).ids
    assert ids == whole[: len(ids)]
    assert template.join(ids).endswith("<|im_start|>user\nand<|im_end|>\n<|im_start|>assistant\n")


def test_an_own_template_needs_role_and_end():
    fine = configs.TemplateConfig(name="own", before="[{role}]", after="]")
    assert not list(fine.check())
    assert [field for field, _ in fine.replace(before="[").check()] == ["before"]


def test_conversations_share_rows_as_wholes():
    tokens = [
        conversations.Tokens(list(range(10, 10 + size)), [False] + [True] * (size - 1))
        for size in (5, 4, 3, 9)
    ]

    packed = conversations.pack(tokens, 8, 0, is_packed=True)

    assert packed["documents"].tolist() == [
        [1, 1, 1, 1, 2, 2, 2, 0],
        [1, 1, 0, 0, 0, 0, 0, 0],
        [1] * 8,
    ]
    assert packed["token_ids"][0].tolist() == [10, 11, 12, 13, 10, 11, 12, 0]
    assert packed["label"][0].tolist() == [11, 12, 13, 14, 11, 12, 13, 0]
    assert packed["weight"].sum() == 4 + 3 + 2 + 8
    alone = conversations.pack(tokens, 8, 0, is_packed=False)
    assert alone["documents"].max(axis=1).tolist() == [1, 1, 1, 1]
    assert np.array_equal(
        np.sort(alone["label"].ravel())[-9:], np.sort(packed["label"].ravel())[-9:]
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"messages": TURNS[:1]}, ":2: messages: no turn of 'assistant'"),
        ({"messages": []}, ":2: messages: got [], expected a list"),
        (
            {"messages": [{"role": "usr", "content": ""}]},
            "messages[0].role: got 'usr', expected one",
        ),
        ({"messages": [{"role": "user", "content": 1}]}, "messages[0].content: got 1, expected a"),
        ({"text": ""}, ":2: messages: got None, expected a list"),
    ],
)
def test_what_is_no_conversation_is_named_with_its_line(row, message, tmp_path):
    path = tmp_path / "talks.jsonl"
    path.write_text(json.dumps({"messages": TURNS}) + "\n" + json.dumps(row) + "\n")

    with pytest.raises(errors.DataError) as found:
        list(conversations.read(configs.HubDataConfig(input_path=str(path))))

    assert message in str(found.value)


def test_bundled_conversations_are_the_same_each_time():
    params = configs.HubDataConfig(input_path="bundled:conversations/validation")
    rows = list(conversations.read(params))

    assert rows == list(conversations.read(params))
    assert len(rows) == 200
    with pytest.raises(errors.DataError, match="expected one of bundled:conversations/train"):
        list(bundled.make_conversations("bundled:conversations/test"))
