"""BERT (Devlin et al., 2018): an encoder of text, with two scores per token for questions about it, as for SQuAD."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_LAYERS, _HEADS, _HIDDEN, _WORDS, _POSITIONS = 24, 16, 1024, 30522, 512


class Bert(nn.Module):
    """BERT-large: int64 [n, tokens] to float32 [n, 2]; 334 million weights.

    narrower: the divisor of the hidden size and of the vocabulary.
    """

    def __init__(self, narrower: int = 1) -> None:
        super().__init__()
        hidden = _HIDDEN // narrower
        self.words = nn.Embedding(_WORDS // narrower, hidden)
        self.positions = nn.Embedding(_POSITIONS, hidden)
        self.norm = nn.LayerNorm(hidden)
        layer = nn.TransformerEncoderLayer(hidden, _HEADS, 4 * hidden, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, _LAYERS)
        self.scores = nn.Linear(hidden, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return two scores for each text, those of its first token."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        found: Tensor = self.scores(self.encoder(self.norm(self.words(tokens) + self.positions(places)))[:, 0])
        return found
