"""A language model like GPT-2 (Radford et al., 2019), whose output layer's weights are its embedding's."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int, tokens: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.feed = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.register_buffer("mask", torch.ones(tokens, tokens, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        x = x + self.attention(y, y, y, attn_mask=self.mask, need_weights=False)[0]
        found: Tensor = x + self.feed(x)
        return found


class Decoder(nn.Module):
    """Int64 [n, tokens] to float32 [n, tokens, words]: scores of each next token."""

    def __init__(self, layers: int = 6, width: int = 256, heads: int = 4, tokens: int = 128, words: int = 8192) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.randn(tokens, width) * 0.02)
        self.layers = nn.ModuleList(_Layer(width, heads, tokens) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.scores = nn.Linear(width, words, bias=False)
        nn.init.normal_(self.words.weight, std=0.02)
        self.scores.weight = self.words.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores."""
        x = self.words(tokens) + self.places
        for layer in self.layers:
            x = layer(x)
        found: Tensor = self.scores(self.norm(x))
        return found
