# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts in the export zoo, in the spellings that libraries have: a loop over experts, as transformers 4
writes it; batched matmuls of matrices gathered for each choice, as transformers 5 does; einsum over gathered matrices;
all experts for all tokens, times shares that are zero for most. With routers that are even, and with one expert that
all tokens take and others that none takes."""
import torch
from torch import nn
from torch.nn import functional

from zoo_rows import Row, normal

EXPERTS, CHOSEN, SIZE, INNER = 4, 2, 32, 24


class Mixture(nn.Module):
    def __init__(self, skewed=False, sigmoid=False):
        super().__init__()
        self.router, self.sigmoid = nn.Linear(SIZE, EXPERTS, bias=False), sigmoid
        self.gate_up = nn.Parameter(torch.randn(EXPERTS, SIZE, 2 * INNER) * SIZE ** -0.5)
        self.up_bias = nn.Parameter(torch.randn(EXPERTS, 2 * INNER) * 0.1)
        self.down = nn.Parameter(torch.randn(EXPERTS, INNER, SIZE) * INNER ** -0.5)
        self.shared = nn.Linear(SIZE, SIZE)
        # Expert 2 is everybody's, the last two are nobody's.
        self.lead = (20., 0., 40., 0.) if skewed else (0.,) * EXPERTS

    def route(self, x):
        logits = self.router(x) + torch.tensor(self.lead)
        scores = logits.sigmoid() if self.sigmoid else logits.softmax(-1)
        shares, chosen = torch.topk(scores, CHOSEN, dim=-1)
        return shares / shares.sum(-1, keepdim=True), chosen

    def activate(self, h):
        gate, up = h[..., ::2], h[..., 1::2]
        return functional.silu(gate.clamp(max=7.)) * up.clamp(-7., 7.)

    def forward(self, tokens):
        x = tokens.reshape(-1, SIZE)
        y = self.experts(x, *self.route(x)) + self.shared(x)
        return y.reshape(tokens.shape)


class Loop(Mixture):
    def experts(self, x, shares, chosen):
        result = torch.zeros_like(x)
        mask = functional.one_hot(chosen, EXPERTS).permute(2, 1, 0)
        for i in range(EXPERTS):
            slot, token = torch.where(mask[i])
            h = self.activate(x[token] @ self.gate_up[i] + self.up_bias[i]) @ self.down[i]
            result = result.index_add(0, token, h * shares[token, slot, None])
        return result


class Batched(Mixture):
    def experts(self, x, shares, chosen):
        rows, ids = x.repeat_interleave(CHOSEN, dim=0), chosen.reshape(-1)
        h = torch.bmm(rows.unsqueeze(1), self.gate_up[ids]).squeeze(1) + self.up_bias[ids]
        h = torch.bmm(self.activate(h).unsqueeze(1), self.down[ids]).squeeze(1) * shares.reshape(-1, 1)
        return h.reshape(-1, CHOSEN, SIZE).sum(1)


class Gathered(Mixture):
    def experts(self, x, shares, chosen):
        h = torch.einsum("th,tchf->tcf", x, self.gate_up[chosen]) + self.up_bias[chosen]
        return torch.einsum("tcf,tcfh,tc->th", self.activate(h), self.down[chosen], shares)


class Dense(Mixture):
    def experts(self, x, shares, chosen):
        padded = torch.zeros(x.shape[0], EXPERTS).scatter(1, chosen, shares)
        rows = x.unsqueeze(0).expand(EXPERTS, -1, -1)
        h = torch.bmm(rows, self.gate_up) + self.up_bias[:, None]
        h = torch.bmm(self.activate(h), self.down)
        return (h * padded.t()[..., None]).sum(0)


class OneHot(Dense):
    def experts(self, x, shares, chosen):
        padded = (functional.one_hot(chosen, EXPERTS) * shares[..., None]).sum(1)
        h = torch.einsum("th,ehf->etf", x, self.gate_up) + self.up_bias[:, None]
        h = torch.einsum("etf,efh->eth", self.activate(h), self.down)
        return (h * padded.t()[..., None]).sum(0)


def rows():
    tokens = {"tokens": normal("batch", "seq", SIZE)}
    result = {}
    for name, kind in (("loop", Loop), ("batched", Batched), ("gathered", Gathered), ("dense", Dense), ("one_hot", OneHot)):
        for suffix, options in (("", {}), ("_skewed", dict(skewed=True)), ("_sigmoid", dict(sigmoid=True))):
            result[f"mixture_{name}{suffix}"] = Row(lambda kind=kind, options=options: kind(**options), tokens, positional=True)
    return result
