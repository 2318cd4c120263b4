"""Trains the Transformer of `training_step_peers` with PyTorch Lightning from its last checkpoint.

python lightning_last.py DIR [--steps-per-save=20]
"""

import pathlib
import sys
from typing import Any

import run_files

sys.path.append(str(pathlib.Path(__file__).parents[1] / "training_step_peers"))

import batches
import lightning
import torch
import torch_run
from torch.utils import data


class Batches(data.Dataset):
    """The batches, again and again."""

    def __init__(self) -> None:
        """Builds them."""
        self._pairs = [[torch.from_numpy(one).long() for one in pair] for pair in batches.build()]

    def __len__(self) -> int:
        """Returns more than are used."""
        return 10**9

    def __getitem__(self, index: int) -> list[torch.Tensor]:
        """Returns one."""
        return self._pairs[index % len(self._pairs)]


class Module(lightning.LightningModule):
    """The translator with Adam, which writes a line after each step."""

    def __init__(self, record: run_files.Record) -> None:
        """Builds the model."""
        super().__init__()
        self.model = torch_run.Translator()
        self._record = record

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        """Returns the loss."""
        return torch_run.compute_loss(self.model, *batch, batches.spread_smoothing())

    def on_train_batch_end(self, *arguments: Any) -> None:
        """Writes the step, which a restart goes on from."""
        del arguments
        self._record.write(self.global_step)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Returns Adam."""
        rate = batches.SIZES.learning_rate
        return torch.optim.Adam(self.parameters(), rate, (0.9, 0.98), fused=True)


class Order(data.Sampler):
    """Indices in their order, which need no memory."""

    def __iter__(self) -> Any:
        """Yields them."""
        yield from range(10**9)


def main() -> None:
    """Trains, from the last checkpoint if there is one."""
    directory, steps = run_files.parse_arguments()
    lightning.seed_everything(0)
    keep = lightning.pytorch.callbacks.ModelCheckpoint(
        directory / "kept", every_n_train_steps=steps, save_last=True
    )
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_progress_bar=False, callbacks=[keep]
    )
    loader = data.DataLoader(Batches(), batch_size=None, sampler=Order())
    last = directory / "kept" / "last.ckpt"
    trainer.fit(
        Module(run_files.Record(directory)), loader, ckpt_path=last if last.exists() else None
    )


if __name__ == "__main__":
    main()
