"""
A tiny GPT on the King James text, one CPU thread. This is the file to improve.

    python train.py

Plain on purpose: learned positions, LayerNorm, AdamW at a constant rate. The data, the budget and
the metric are in prepare.py, which is frozen.
"""

import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from prepare import SEED, batches, evaluate_bpb, hand_off, print_summary

# -----------------------------------------------------------------------------
# Hyperparameters

# Model
VOCAB         = 1024    # tokens: 256, 512, 1024, 2048 or 4096
SEQ           = 128     # tokens of context, at most 512
DEPTH         = 2       # blocks
DIM           = 64      # channels, a multiple of HEADS
HEADS         = 4       # attention heads
MLP_RATIO     = 4       # hidden channels of the MLP per channel
ACTIVATION    = "gelu"  # gelu, relu, relu2 or silu

# Optimization
BATCH         = 8       # windows a step
LR            = 1e-3    # peak learning rate
WEIGHT_DECAY  = 0.0     # decoupled, matrices only
BETA1         = 0.9     # decay of the mean of gradients
BETA2         = 0.99    # decay of the mean of their squares
GRAD_CLIP     = 1.0     # largest norm of all gradients together
WARMUP        = 0.0     # share of the budget in which the rate rises from 0
WARMDOWN      = 0.0     # share of the budget in which the rate falls
FINAL_LR      = 0.0     # where it falls to, as a share of LR

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # cuda: not run on a GPU yet

# -----------------------------------------------------------------------------
# Model

ACTIVATIONS = {
    "gelu": F.gelu,
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),
    "silu": F.silu,
}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(DIM, bias=False)
        self.norm2 = nn.LayerNorm(DIM, bias=False)
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.proj = nn.Linear(DIM, DIM, bias=False)
        self.up = nn.Linear(DIM, MLP_RATIO * DIM, bias=False)
        self.down = nn.Linear(MLP_RATIO * DIM, DIM, bias=False)

    def forward(self, x):                                           # (B, T, DIM)
        B, T, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3 * HEADS, -1).transpose(1, 2).chunk(3, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, HEADS, T, DIM / HEADS)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, DIM))
        return x + self.down(ACTIVATIONS[ACTIVATION](self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCAB, DIM)
        self.position = nn.Embedding(SEQ, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(DIM, bias=False)
        self.head = nn.Linear(DIM, VOCAB, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, x):                                           # (B, T) -> (B, T, VOCAB)
        x = self.token(x) + self.position.weight[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def build_model():
    """The untrained model; the scorer loads the handed-off weights into it."""
    return GPT()


# -----------------------------------------------------------------------------
# Optimizer


class AdamW:
    """
    AdamW (Loshchilov and Hutter, arXiv:1711.05101), written out: constructing the one of
    torch.optim imports the compiler, which takes more than a CPU-second of every run.
    """

    def __init__(self, params):
        self.params = list(params)
        self.mean = [torch.zeros_like(p) for p in self.params]
        self.square = [torch.zeros_like(p) for p in self.params]
        self.steps = 0

    @torch.no_grad()
    def step(self, lr):
        self.steps += 1
        lr_hat = lr / (1 - BETA1**self.steps)
        bias2 = math.sqrt(1 - BETA2**self.steps)
        for p, mean, square in zip(self.params, self.mean, self.square, strict=True):
            mean.lerp_(p.grad, 1 - BETA1)
            square.mul_(BETA2).addcmul_(p.grad, p.grad, value=1 - BETA2)
            if p.dim() == 2:
                p.mul_(1 - lr * WEIGHT_DECAY)
            p.addcdiv_(mean, square.sqrt().div_(bias2).add_(1e-8), value=-lr_hat)
            p.grad = None


def lr_at(progress):
    """Learning rate when this share of the budget is used."""
    if progress < WARMUP:
        return LR * progress / WARMUP
    if progress > 1 - WARMDOWN:
        return LR * (FINAL_LR + (1 - FINAL_LR) * (1 - progress) / WARMDOWN)
    return LR


# -----------------------------------------------------------------------------
# Training


def main():
    torch.manual_seed(SEED)
    model = build_model().to(DEVICE)
    optimizer = AdamW(model.parameters())
    num_params = sum(p.numel() for p in model.parameters())

    for step, (x, y, progress) in enumerate(batches(VOCAB, BATCH, SEQ, DEVICE)):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), GRAD_CLIP)
        optimizer.step(lr_at(progress))
        if not math.isfinite(loss.item()):
            print("FAIL: the loss is not finite")
            sys.exit(1)
        if step % 50 == 0:
            print(f"step {step:4d}  {100 * progress:3.0f} %  loss {loss.item():.4f}", flush=True)

    val_bpb = evaluate_bpb(model, VOCAB, SEQ, DEVICE)
    hand_off(model, VOCAB, SEQ)
    print_summary(val_bpb, num_params, depth=DEPTH, dim=DIM, vocab=VOCAB)


if __name__ == "__main__":
    main()
