"""
A GPT on bytes of Wikipedia, one GPU, 5 minutes. This is the file to improve.

    python prepare.py && python train.py

Rotary positions, RMSNorm, squared ReLU, AdamW with a warm-up and a long way down. Data, budget and
metric are in prepare.py, which is frozen. Not run on a GPU yet: the sizes below are calculated.
"""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from prepare import SEED, TOY, TOY_SIZE, VOCAB, batches, evaluate_bpb, print_summary

# -----------------------------------------------------------------------------
# Hyperparameters

# Model
DEPTH        = 12      # blocks
DIM          = 768     # channels, a multiple of HEADS
HEADS        = 6       # attention heads
MLP_RATIO    = 4       # hidden channels of the MLP per channel
SEQ          = 1024    # bytes of context, at most 4096
ROPE_BASE    = 10_000.0  # slowest rotation
SOFTCAP      = 15.0    # logits stay within +- this

# Optimization
TOTAL_BATCH  = 2**17   # bytes an optimizer step
DEVICE_BATCH = 32      # windows a forward pass: lower it when memory runs out
LR           = 1e-3    # peak learning rate of the matrices
EMBED_LR     = 3e-3    # of the embedding
WEIGHT_DECAY = 0.1     # decoupled, matrices only
BETA1        = 0.9
BETA2        = 0.95
GRAD_CLIP    = 1.0
WARMUP       = 0.02    # share of the budget in which the rate rises
WARMDOWN     = 0.6     # share of the budget in which it falls
FINAL_LR     = 0.05    # where it falls to, as a share of the peak
COMPILE      = False   # torch.compile: faster steps, but its minute counts

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZE = TOY_SIZE if TOY else {"depth": DEPTH, "dim": DIM, "heads": HEADS, "seq": SEQ,
                             "batch": DEVICE_BATCH, "tokens": TOTAL_BATCH}

# -----------------------------------------------------------------------------
# Model


def norm(x):
    return F.rms_norm(x, (x.shape[-1],))


def rotary(seq, head_dim, device):
    """(T, D / 2) cosines and sines: each pair of channels turns at a speed of its own."""
    speed = ROPE_BASE ** -torch.linspace(0, 1, head_dim // 2, device=device)
    angle = torch.outer(torch.arange(seq, device=device), speed)
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):                                            # (B, H, T, D)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1).type_as(x)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.up = nn.Linear(dim, MLP_RATIO * dim, bias=False)
        self.down = nn.Linear(MLP_RATIO * dim, dim, bias=False)

    def forward(self, x, cos, sin):                                 # (B, T, C)
        B, T, C = x.shape
        q, k, v = self.qkv(norm(x)).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(norm(q), cos, sin), rotate(norm(k), cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, D)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.relu(self.up(norm(x))).square())


class GPT(nn.Module):
    def __init__(self, depth, dim, heads, seq, **_):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, VOCAB, bias=False)
        self.seq, self.head_dim = seq, dim // heads
        for p in self.blocks.parameters():
            nn.init.normal_(p, std=p.shape[1] ** -0.5)
        for block in self.blocks:                                   # every block begins as nothing
            nn.init.zeros_(block.proj.weight)
            nn.init.zeros_(block.down.weight)
        nn.init.normal_(self.embed.weight, std=1.0)
        nn.init.zeros_(self.head.weight)

    def forward(self, x):                                           # (B, T) -> (B, T, 256)
        cos, sin = rotary(x.shape[1], self.head_dim, x.device)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.device.type == "cuda"):
            x = norm(self.embed(x))
            for block in self.blocks:
                x = block(x, cos, sin)
            logits = self.head(norm(x))
        return SOFTCAP * torch.tanh(logits.float() / SOFTCAP)


def build_model():
    return GPT(**SIZE)


# -----------------------------------------------------------------------------
# Optimizer


def build_optimizer(model):
    matrices = [p for p in model.blocks.parameters() if p.dim() == 2]
    groups = [
        {"params": matrices, "peak": LR, "weight_decay": WEIGHT_DECAY},
        {"params": [model.head.weight], "peak": LR, "weight_decay": 0.0},
        {"params": [model.embed.weight], "peak": EMBED_LR, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=LR, betas=(BETA1, BETA2), eps=1e-8,
                             fused=DEVICE == "cuda")


def rate(progress):
    """Share of the peak when this share of the budget is used."""
    if progress < WARMUP:
        return max(progress, 1e-3) / WARMUP
    if progress > 1 - WARMDOWN:
        return FINAL_LR + (1 - FINAL_LR) * (1 - progress) / WARMDOWN
    return 1.0


# -----------------------------------------------------------------------------
# Training


def main():
    torch.manual_seed(SEED)
    torch.set_float32_matmul_precision("high")
    model = build_model().to(DEVICE)
    optimizer = build_optimizer(model)
    num_params = sum(p.numel() for p in model.parameters())
    forward = torch.compile(model) if COMPILE else model
    micro_steps = max(1, SIZE["tokens"] // (SIZE["batch"] * SIZE["seq"]))

    steps = batches(SIZE["batch"], SIZE["seq"], micro_steps, DEVICE)
    for step, (micro_batches, progress) in enumerate(steps):
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * rate(progress)
        for x, y in micro_batches:
            loss = F.cross_entropy(forward(x).flatten(0, 1), y.flatten())
            (loss / micro_steps).backward()
        nn.utils.clip_grad_norm_(model.parameters(), GRAD_CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 20 == 0:
            last = loss.item()
            if not math.isfinite(last):
                print("FAIL: the loss is not finite")
                sys.exit(1)
            print(f"step {step:5d}  {100 * progress:3.0f} %  loss {last:.4f}", flush=True)

    val_bpb = evaluate_bpb(model, SIZE["seq"], DEVICE)
    print_summary(val_bpb, num_params, depth=SIZE["depth"], dim=SIZE["dim"])


if __name__ == "__main__":
    main()
