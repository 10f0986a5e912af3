"""What a training script asks of the kernel, with torch."""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.utils.data import DataLoader, TensorDataset


def rank(number, place):
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=number, world_size=2)
    there = torch.full((4,), float(number))
    dist.all_reduce(there)
    assert there[0] == 1
    dist.destroy_process_group()


def main():
    data = TensorDataset(torch.randn(256, 8), torch.randn(256, 1))
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    model.share_memory()
    optimizer = torch.optim.AdamW(model.parameters())
    torch.set_num_threads(2)
    for inputs, targets in DataLoader(data, batch_size=16, num_workers=2, shuffle=True):
        loss = (model(inputs) - targets).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    loader = DataLoader(data, batch_size=64, num_workers=2, multiprocessing_context="spawn")
    assert sum(len(inputs) for inputs, _ in loader) == 256
    processes.spawn(rank, (tempfile.mktemp(),), nprocs=2)
    torch.save(model.state_dict(), "/tmp/model.pt")
    torch.load("/tmp/model.pt")
    print("all of it trains")


if __name__ == "__main__":
    main()
