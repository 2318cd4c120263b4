"""Finds the texts of a file that are nearest to others, by the vectors of a dual encoder.

Shapes:
    N  candidates
    D  width of the vectors
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from quintain import errors
from quintain.input import line_files
from quintain.serving import signature_model

_OUTPUT = "vectors"


@dataclasses.dataclass(frozen=True)
class Neighbour:
    """A text that is near to another."""

    text: str
    """The text; several fields have a tab between."""

    score: float
    """Product of the two vectors: the cosine, if they are normalised."""


class Retriever:
    """Finds the nearest of some texts, all of whose vectors are in memory.

    Example:
        retriever = Retriever.load("runs/pairs", "answers.txt")
        retriever.find([["Where is the station?"]], top=3)[0][0].text
    """

    def __init__(
        self, model: signature_model.SignatureModel, num_fields: int, texts: Sequence[str]
    ) -> None:
        """Encodes the candidates, each of `num_fields` texts with tabs between."""
        self._model = model
        self._texts = list(texts)
        self.num_fields = num_fields
        rows = [text.split("\t") for text in texts] if num_fields > 1 else [[one] for one in texts]
        self._vectors = self._encode(rows, signature_model.BATCH_SIZE)  # [N, D]

    @classmethod
    def load(cls, model_dir: str, path: str, *, checkpoint: str | None = None) -> "Retriever":
        """Returns the retriever of a run or an export, and of the lines of a file.

        Raises:
            CheckpointError: If there is no checkpoint, or it does not fit.
            ConfigError: If the model does not give vectors of texts.
            DataError: If the file can't be read, holds nothing, or a line has another number of
                fields than the model.
        """
        lines = [(number, text) for number, text in line_files.read(path) if text.strip()]
        if not lines:
            raise errors.DataError(f"{path}: no texts, the file is empty. Check the path.")
        model = signature_model.SignatureModel.load(model_dir, checkpoint=checkpoint)
        if set(model.outputs) != {_OUTPUT}:
            raise errors.ConfigError(
                f"--candidates: {model_dir!r} gives {', '.join(model.outputs)}, expected vectors "
                "of texts. Give a run of dual_encoder/text, or an export of one."
            )
        (spec,) = model.inputs.values()
        num_fields = 1 if spec.shape.rank == 1 else spec.shape[1]
        for number, text in lines:
            if num_fields > 1 and (count := text.count("\t") + 1) != num_fields:
                raise errors.DataError(
                    f"{path}:{number}: has {count} fields, expected {num_fields} with tabs "
                    "between. Fix or remove the line."
                )
        return cls(model, num_fields, [text for _, text in lines])

    def find(
        self,
        rows: Sequence[Sequence[str]],
        *,
        top: int,
        batch_size: int = signature_model.BATCH_SIZE,
    ) -> list[list[Neighbour]]:
        """Returns the `top` nearest candidates of each row of text fields, the nearest first."""
        scores = self._encode(rows, batch_size) @ self._vectors.T  # [rows, N]
        places = np.argsort(-scores, axis=1, kind="stable")[:, :top]
        return [
            [Neighbour(self._texts[place], float(row[place])) for place in chosen]
            for row, chosen in zip(scores, places, strict=True)
        ]

    def _encode(self, rows: Sequence[Sequence[str]], batch_size: int) -> np.ndarray:
        given = [row[0] for row in rows] if self.num_fields == 1 else [list(row) for row in rows]
        outputs = self._model.predict(given, batch_size)
        return np.array([one[_OUTPUT] for one in outputs], np.float32)
