# SPDX-License-Identifier: Apache-2.0
"""A Llama-style decoder in NumPy: the reference of the graphs that llama_onnx.py writes, and independent of them."""
import numpy as np


def turned_halves(x, cos, sin):
    """Hugging Face's order: a number turns with the one half a head further."""
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def turned_pairs(x, cos, sin):
    """GGUF's order: neighbours turn together."""
    a, b = x[..., 0::2], x[..., 1::2]
    return np.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(x.shape)


class Llama:
    """`weights` by Hugging Face's names; `turned` is the order of the rows of queries and keys.

    Keeps keys and values [kv_heads, capacity, head_size] of each layer in `caches`, zeros at first.
    """

    def __init__(self, config, weights, capacity, turned=turned_halves, dtype=np.float32):
        self.c, self.turned, self.dtype = config, turned, dtype
        self.w = {name: value.astype(dtype) for name, value in weights.items()}
        shape = (config.kv_heads, capacity, config.head_size)
        self.caches = [(np.zeros(shape, dtype), np.zeros(shape, dtype)) for _ in range(config.layers)]

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.dtype(self.c.epsilon)) * self.w[name + ".weight"]

    def attention(self, x, i, at):
        c, n, p = self.c, len(x), f"model.layers.{i}.self_attn."
        half = c.head_size // 2
        angles = at[:, None] / c.theta ** (np.arange(half) / half)
        cos, sin = np.cos(angles).astype(self.dtype), np.sin(angles).astype(self.dtype)
        heads = lambda name, count: (x @ self.w[p + name + ".weight"].T + self.w.get(p + name + ".bias", self.dtype(0))
                                     ).reshape(n, count, -1).swapaxes(0, 1)
        q = self.turned(heads("q_proj", c.heads), cos, sin)
        keys, values = self.caches[i]
        keys[:, at] = self.turned(heads("k_proj", c.kv_heads), cos, sin)
        values[:, at] = heads("v_proj", c.kv_heads)
        seen, group = at[-1] + 1, c.heads // c.kv_heads
        k, v = (np.repeat(cache[:, :seen], group, axis=0) for cache in (keys, values))
        scores = q @ k.swapaxes(1, 2) / self.dtype(np.sqrt(c.head_size))
        scores = np.where(np.arange(seen) <= at[:, None], scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        y = scores / scores.sum(-1, keepdims=True) @ v
        return y.swapaxes(0, 1).reshape(n, -1) @ self.w[p + "o_proj.weight"].T

    def mlp(self, x, i):
        of = lambda y, name: y @ self.w[f"model.layers.{i}.mlp.{name}.weight"].T
        gate = of(x, "gate_proj")
        return of(gate / (1 + np.exp(-gate)) * of(x, "up_proj"), "down_proj")

    def run(self, ids, position):
        """Logits [tokens, vocabulary] of `ids` at `position` and the positions behind it."""
        at = np.arange(position, position + len(ids))
        table = self.w["model.embed_tokens.weight"]
        x = table[np.asarray(ids)]
        for i in range(self.c.layers):
            p = f"model.layers.{i}."
            x = x + self.attention(self.norm(x, p + "input_layernorm"), i, at)
            x = x + self.mlp(self.norm(x, p + "post_attention_layernorm"), i)
        return self.norm(x, "model.norm") @ self.w.get("lm_head.weight", table).T

    def greedy(self, prompt, count):
        """The `count` most likely tokens after `prompt`, and the lead that each had over the next best."""
        tokens, leads, new, position = [], [], list(prompt), 0
        while len(tokens) < count:
            logits = self.run(new, position)[-1]
            position += len(new)
            second, best = np.sort(logits)[-2:]
            leads.append(float(best - second))
            new = [int(logits.argmax())]
            tokens += new
        return tokens, leads
