# SPDX-License-Identifier: Apache-2.0
"""Graph networks as PyTorch modules: messages along edges, summed at the nodes that they reach."""
import torch
import torch.nn.functional as F
from torch import nn

from workload import Workload

NODES, EDGES = 20_000, 200_000


class GraphLayer(nn.Module):
    """As GraphSAGE: a node's own features and the mean of those that edges bring."""

    def __init__(self, width, out):
        super().__init__()
        self.own, self.brought = nn.Linear(width, out), nn.Linear(width, out, bias=False)

    def forward(self, x, source, target, degree):
        sums = torch.zeros_like(x).index_add(0, target, x[source])
        return self.own(x) + self.brought(sums / degree)


class GraphNetwork(nn.Module):
    def __init__(self, widths=(128, 256, 256, 128)):
        super().__init__()
        self.layers = nn.ModuleList(GraphLayer(*pair) for pair in zip(widths, widths[1:]))

    def forward(self, x, source, target, degree):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x, source, target, degree))
        return self.layers[-1](x, source, target, degree)


def graph():
    source, target = torch.randint(NODES, (EDGES,)), torch.randint(NODES, (EDGES,))
    degree = torch.bincount(target, minlength=NODES).clamp(min=1).float()[:, None]
    return {"x": torch.randn(NODES, 128), "source": source, "target": target, "degree": degree}


WORKLOADS = {"graph_network": Workload(GraphNetwork, graph)}
