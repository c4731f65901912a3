"""Makes the reference values here with PyTorch: python make.py, with torch and numpy installed.

Parameters and inputs follow from formulas that the test repeats, so that only results are stored: the loss, and of
every gradient its norm and some of its values. Figures are computed in double precision."""
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def scatter(n, start=0):
    """n values in -0.5 ... 0.5, a multiplicative hash of their numbers."""
    i = np.arange(start, start + n, dtype=np.uint64)
    return ((i * np.uint64(2654435761)) % np.uint64(1 << 32)).astype(np.float64) / (1 << 32) - 0.5


def lenet():
    pool = nn.AvgPool2d(2)
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), pool, nn.Conv2d(6, 16, 5), nn.ReLU(), pool, nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)), (1, 28, 28), 10, 8


def lenet_tanh():
    model, shape, classes, n = lenet()
    return nn.Sequential(*[nn.Tanh() if isinstance(m, nn.ReLU) else m for m in model]), shape, classes, n


def normal():
    """What normal.toml says; batch normalisation in training."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Tanh(), nn.LocalResponseNorm(3, 0.5, 0.75, 1.5), nn.AvgPool2d(2),
        nn.Conv2d(8, 12, 3, padding=1), nn.BatchNorm2d(12), nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(12, 5)), (3, 13, 11), 5, 7


def alexnet():
    pool = nn.MaxPool2d(3, 2)
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), pool, nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), pool,
        nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), pool, nn.Flatten(),
        nn.Linear(9216, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)), (3, 224, 224), 1000, 2


for make in (lenet, lenet_tanh, normal, alexnet):
    model, shape, classes, n = make()
    model = model.double()
    start = 0
    with torch.no_grad():
        for p in model.parameters():
            # Weights of a variance that keeps activations alive; biases up to 0.05.
            width = math.sqrt(24 / np.prod(p.shape[1:])) if p.dim() > 1 else 0.1
            values = (scatter(p.numel(), start) * width).astype(np.float32).astype(np.float64)
            p.copy_(torch.from_numpy(values).reshape(p.shape))
            start += p.numel()
    x = (scatter(n * int(np.prod(shape)), 12345) + 0.5).astype(np.float32).astype(np.float64)
    y = torch.tensor([(3 * i + 1) % classes for i in range(n)])
    loss = F.cross_entropy(model(torch.from_numpy(x).reshape(n, *shape)), y)
    loss.backward()
    with open(make.__name__ + ".csv", "w") as out:
        out.write("tensor,index,value\n")
        out.write("loss,0,%.9e\n" % loss.item())
        for t, p in enumerate(model.parameters()):
            g = p.grad.reshape(-1)
            out.write("%d,norm,%.9e\n" % (t, g.norm().item()))
            for i in sorted({k * (g.numel() - 1) // 9 for k in range(10)}):
                out.write("%d,%d,%.9e\n" % (t, i, g[i].item()))
        # Running estimates follow, each as if it were one more tensor.
        running = [b for name, b in model.named_buffers() if "running" in name]
        for t, b in enumerate(running, 1 + t):
            out.write("".join("%d,%d,%.9e\n" % (t, i, b[i].item()) for i in range(b.numel())))
    print(make.__name__, "torch", torch.__version__, "loss", loss.item())
