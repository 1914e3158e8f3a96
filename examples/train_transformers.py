"""Hugging Face's Trainer over Paceline, all of it on the CPU: paceline run -n 2 examples/train_transformers.py"""

import tempfile

import torch
import torch.distributed as dist
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Counting(Dataset):
    """Texts of eight tokens that count upwards from one of the first ten numbers."""

    def __len__(self) -> int:
        return 640

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = torch.arange(8) + index % 10
        return {"input_ids": tokens, "labels": tokens}


# On the CPU the trainer takes the process group that is there, and asks for Gloo if there is none. On GPUs, leave this
# line out and write TrainingArguments(ddp_backend="paceline").
dist.init_process_group("paceline")

with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        use_cpu=True,
        per_device_train_batch_size=16,
        num_train_epochs=4,
        learning_rate=1e-2,
        seed=0,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_strategy="epoch",
    )
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=20, n_positions=8, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    )
    trainer = Trainer(model, arguments, train_dataset=Counting())
    trainer.train()

if trainer.is_world_process_zero():
    for entry in trainer.state.log_history:
        if "loss" in entry:
            print(f"epoch {entry['epoch']:g}: loss {float(entry['loss']):.4f}")
    print(f"{dist.get_world_size()} ranks over {dist.get_backend()}")

dist.destroy_process_group()
