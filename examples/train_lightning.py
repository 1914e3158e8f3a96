"""Lightning's Trainer over Paceline, all of it on the CPU: paceline run -n 2 examples/train_lightning.py"""

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset


class Regression(lightning.LightningModule):
    """A small model; every rank makes the same data, and Lightning gives each its part of them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        inputs, targets = batch
        loss = torch.nn.functional.mse_loss(self.layers(inputs), targets)
        self.log("loss", loss, on_epoch=True, on_step=False, sync_dist=True)
        return loss

    def on_train_epoch_end(self) -> None:
        if self.trainer.is_global_zero:
            print(f"epoch {self.current_epoch}: loss {self.trainer.callback_metrics['loss'].item():.4f}")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-2)


lightning.seed_everything(0, verbose=False)
inputs = torch.randn(2048, 16)
data = TensorDataset(inputs, inputs @ torch.randn(16, 1))

trainer = lightning.Trainer(
    strategy=DDPStrategy(process_group_backend="paceline"),
    accelerator="cpu",
    devices=2,
    max_epochs=4,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Regression(), DataLoader(data, batch_size=32, shuffle=True))
if trainer.is_global_zero:
    print(f"{torch.distributed.get_world_size()} ranks over {torch.distributed.get_backend()}")
