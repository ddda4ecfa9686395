"""Layers with a state that each token updates: the recurrence, a matrix a token, by einsum."""

import numpy as np

from golden_cases import NAMES, case, wide


def recurrence(query, key, value, decay=None, beta=None, erase=None, state=None, scale=1.0):
    """Outputs and the last state, in float64. Shapes as in ir/ops/recurrent/linear_attention.cpp."""
    query, key, value = (wide(x) for x in (query, key, value))
    heads = max(key.shape[2], value.shape[2])
    read = max(query.shape[2], heads)
    key, value = (np.repeat(x, heads // x.shape[2], axis=2) for x in (key, value))
    query = np.repeat(query, read // query.shape[2], axis=2)
    batch, length, _, size = key.shape
    s = np.zeros((batch, heads, size, value.shape[3])) if state is None else wide(state).copy()
    out = np.zeros((batch, length, read, value.shape[3]))
    for t in range(length):
        k, v = key[:, t], value[:, t]
        change = 0
        if erase is not None:
            a, b = np.split(wide(erase)[:, t], 2, axis=-1)
            change = np.einsum("bhk,bhj,bhjv->bhkv", b, a, s)
        if decay is not None:
            factor = np.exp(wide(decay)[:, t])
            s = s * (factor[..., None, None] if factor.ndim == 2 else factor[..., None])
        if beta is not None:
            v = wide(beta)[:, t, :, None] * (v - np.einsum("bhk,bhkv->bhv", k, s))
        s = s + change + np.einsum("bhk,bhv->bhkv", k, v)
        states = np.repeat(s, read // heads, axis=1)
        out[:, t] = scale * np.einsum("bhk,bhkv->bhv", query[:, t], states)
    return out, s


def linear_attention():
    draw = np.random.default_rng(59)

    def add(rule, batch, length, heads, sizes, decay="", state="", dtype="f32", gates="f32",
            scale=0.5, note=""):
        """`heads`: of queries, keys and values."""
        count = max(heads[1:])
        given = dict(zip(("query", "key", "value"), (
            draw.standard_normal((batch, length, h, size)).astype(NAMES[dtype])
            for h, size in zip(heads, (sizes[0], sizes[0], sizes[1])))))
        unit = np.linalg.norm(wide(given["key"]), axis=-1, keepdims=True)
        given["key"] = (given["key"] / np.maximum(unit, 1e-3)).astype(NAMES[dtype])
        lead = (batch, length, count)
        if decay:
            shape = lead + (sizes[0],) * (decay == "channel")
            given["decay"] = -draw.exponential(0.3, shape).astype(NAMES[gates])
        if rule == "delta":
            given["beta"] = draw.uniform(0, 1, lead).astype(NAMES[gates])
        if rule == "general_delta":
            given["erase"] = (draw.standard_normal(lead + (2 * sizes[0],)) * 0.2).astype(NAMES[gates])
        if state:
            given["state"] = draw.standard_normal((batch, count, *sizes)).astype(NAMES[state])
        given = {name: np.asarray(x) for name, x in given.items()}
        out, _ = recurrence(**given, scale=scale)
        case("LinearAttention", list(given.values()), out,
             {"rule": rule, "scale": scale, "decay": int(bool(decay)), "state": int(bool(state))},
             note=note or rule)

    for rule in ("linear", "delta", "general_delta"):
        for decay in ("", "head", "channel"):
            for state in ("", "f32"):
                add(rule, 2, 5, (2, 2, 2), (4, 3), decay, state)
        for dtype, gates, state in (("f16", "f32", "f32"), ("bf16", "bf16", "f32"),
                                    ("f64", "f64", "f64"), ("f16", "f16", "bf16")):
            add(rule, 1, 4, (2, 2, 2), (4, 4), "head", state, dtype, gates)
        for heads in ((4, 2, 2), (1, 2, 2), (2, 1, 4), (6, 3, 1), (1, 1, 6), (2, 4, 2)):
            add(rule, 1, 3, heads, (3, 2), "head", note=f"{rule}, grouped")
        add(rule, 2, 0, (2, 2, 2), (3, 2), "head", "f32", note=f"{rule}, no tokens")
        add(rule, 1, 70, (1, 1, 1), (2, 2), "channel", note=f"{rule}, long")
    add("linear", 1, 6, (1, 1, 5), (4, 1), "channel", "f32", note="channels as heads")
