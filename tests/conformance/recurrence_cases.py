# SPDX-License-Identifier: Apache-2.0
"""Peer cases of layers with states: linear attention, causal convolutions and their gates."""
import numpy as np

from peer_support import MS, case

rng = np.random.default_rng(59)


def normal(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def uniform(*shape):
    return rng.uniform(0.05, 0.95, shape).astype(np.float32)


def units(batch, length, heads, size):
    """Rows of length 1."""
    rows = normal(batch, length, heads, size)
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).reshape(batch, length, heads * size)


def windowed(inputs, heads, window):
    """What comes out with the states of the last tokens, which the peer's CPU does not keep: the gated delta rule."""
    query, key, value, past, decay, beta = inputs
    batch, length, _ = query.shape
    split = [x.astype(np.float64).reshape(batch, length, heads, -1) for x in (query, key, value)]
    state, out, states = past[-1].astype(np.float64), [], []
    for t in range(length):
        q, k, v = (x[:, t] for x in split)
        state = state * np.exp(decay[:, t].astype(np.float64))[..., None, None]
        held = np.einsum("bhk,bhkv->bhv", k, state)
        state = state + np.einsum("bhk,bhv->bhkv", k, beta[:, t, :, None] * (v - held))
        states.append(state)
        out.append(np.einsum("bhk,bhkv->bhv", q, state) / np.sqrt(q.shape[-1]))
    slots = [states[i] if i >= 0 else np.zeros_like(state) for i in range(length - window, length)]
    return [np.stack(out, 1).reshape(batch, length, -1).astype(np.float32), np.stack(slots).astype(np.float32)]


def linear_attention(name, rule, heads, sizes, length=5, by_channel=False, state=False, window=0, one_beta=False,
                     key_heads=None, **attributes):
    """`heads`: of queries and of states."""
    batch, (queries, states), (keys, values) = 2, heads, sizes
    inputs = [normal(batch, length, queries * keys), units(batch, length, key_heads or states, keys),
              normal(batch, length, states * values), None, None, None]
    if state:
        shape = (batch, states, keys, values)
        inputs[3] = normal(*((window, *shape) if window else shape))
    if rule.startswith("gated"):
        inputs[4] = -uniform(batch, length, states * (keys if by_channel else 1))
    if rule.endswith("delta"):
        inputs[5] = uniform(batch, length, 1 if one_beta else states)
    if window:
        attributes |= {"state_window": window, "answers": windowed(inputs, states, window)}
    case(f"linear_attention_{name}", "LinearAttention", inputs, 2, MS, update_rule=rule, q_num_heads=queries,
         kv_num_heads=states, **attributes)


def ragged_conv(x, weight, ends, bias, state, capture=None, dilation=1, activation="none", state_update_capacity=0):
    """What comes out of VarlenCausalConvWithState, which the peer has on the CPU since 1.32."""
    kept, outs, states, captured = state.shape[2], [], [], np.zeros((len(state), state_update_capacity, x.shape[1]), np.float32)
    for i, past in enumerate(state):
        rows = x[ends[i]:ends[i + 1]]
        whole = np.concatenate([past.T, rows])
        y = sum(whole[j * dilation:j * dilation + len(rows)] * weight[:, 0, j] for j in range(weight.shape[2]))
        y = y + (0 if bias is None else bias)
        outs.append(y / (1 + np.exp(-y)) if activation == "silu" else y)
        states.append(whole[len(whole) - kept:].T)
        if capture is not None:
            count = min(capture[i], state_update_capacity, len(rows))
            captured[i, :count] = rows[:count]
    return [np.concatenate(outs), np.stack(states), *([captured] if state_update_capacity else [])]


def ragged(name, inputs, **attributes):
    answers = [np.asarray(a, np.float32) for a in ragged_conv(*inputs, **attributes)]
    case(f"varlen_causal_conv{name}", "VarlenCausalConvWithState", inputs, len(answers), MS, answers=answers, **attributes)


def gated_delta_net(name, inputs, unpacked=None, **attributes):
    """Computed apart: the peer of these cases has it on GPUs alone. `inputs`: without cu_seqlens."""
    inputs = [*inputs[:3], None, *inputs[3:]]
    q, k, v = unpacked or inputs[:3]
    g, beta, past, *rest = (x.astype(np.float64) for x in inputs[4:])
    batch, heads, values, keys = past.shape
    q, k, v = (x.astype(np.float64).reshape(batch, -1, x.shape[-2], x.shape[-1]) for x in (q, k, v))
    g = g.reshape(batch, -1, heads, g.shape[-1] if g.shape[-1] == keys else 1)
    beta = beta.reshape(batch, -1, heads)
    if rest:
        rate, raw = np.exp(rest[0])[:, None], g + rest[1].reshape(heads, -1)
        g = (-rate * np.log1p(np.exp(raw)) if attributes["gate_activation"] == "softplus"
             else attributes["gate_lower_bound"] / (1 + np.exp(-rate * raw)))
    if attributes.get("beta_activation"):
        beta = 1 / (1 + np.exp(-beta))
    if attributes.get("qk_l2_norm"):
        q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-12) for x in (q, k))
    q, k = (np.repeat(x, heads // x.shape[2], axis=2) for x in (q, k))
    scale = attributes.get("scale", 1 / np.sqrt(keys))
    state, out = past.swapaxes(2, 3), []
    for t in range(q.shape[1]):
        state = state * np.exp(g[:, t])[..., None]
        held = np.einsum("bhk,bhkv->bhv", k[:, t], state)
        state = state + np.einsum("bhk,bhv->bhkv", k[:, t], beta[:, t, :, None] * (v[:, t] - held))
        out.append(scale * np.einsum("bhk,bhkv->bhv", q[:, t], state))
    shape = (*inputs[0].shape[:-2 if unpacked is None else -1], heads, values)
    answers = [np.stack(out, 1).reshape(shape).astype(np.float32), state.swapaxes(2, 3).astype(np.float32)]
    case(f"gated_delta_net{name}", "GatedDeltaNet", inputs, 2, MS, answers=answers, **attributes)


def recurrence_cases():
    for rule in ("linear", "gated", "delta", "gated_delta"):
        linear_attention(rule, rule, (2, 2), (4, 4))
        linear_attention(f"{rule}_state", rule, (4, 2), (4, 8), state=True, scale=0.7)
    linear_attention("by_channel", "gated_delta", (2, 2), (8, 4), by_channel=True, state=True)
    linear_attention("one_beta", "gated_delta", (2, 2), (8, 4), one_beta=True)
    linear_attention("more_states", "gated_delta", (2, 4), (8, 4), state=True)
    linear_attention("shared_keys", "gated_delta", (2, 4), (8, 4), key_heads=2)
    linear_attention("one_token", "gated_delta", (2, 2), (8, 4), length=1, state=True)
    linear_attention("long", "gated_delta", (2, 2), (8, 4), length=150, state=True)
    linear_attention("window", "gated_delta", (2, 2), (8, 4), state=True, window=3)
    linear_attention("window_of_more", "gated_delta", (2, 2), (8, 4), length=2, state=True, window=4)

    x, weight, bias = normal(2, 6, 9), normal(6, 1, 4), normal(6)
    case("causal_conv", "CausalConvWithState", [x, weight], 2, MS)
    case("causal_conv_state", "CausalConvWithState", [x, weight, bias, normal(2, 6, 3)], 2, MS, activation="silu")
    case("causal_conv_dilated", "CausalConvWithState", [x, weight, bias, normal(2, 6, 6)], 2, MS, dilation=2)
    past = normal(4, 2, 6, 3)
    whole = np.concatenate([past[-1], x[:, :, :2]], axis=2)  # the last state, and two tokens
    y = np.stack([(whole[:, :, t:t + 4] * weight[:, 0]).sum(2) + bias for t in range(2)], axis=2)
    slots = [np.zeros_like(past[0])] * 2 + [whole[:, :, t:t + 3] for t in (1, 2)]
    case("causal_conv_window", "CausalConvWithState", [x[:, :, :2], weight, bias, past], 2, MS, state_window=4,
         answers=[y, np.stack(slots)])
    case("causal_conv_channels_last", "CausalConvWithState",
         [normal(2, 9, 6), weight, bias, normal(2, 3, 6)], 2, MS, channels_last=1, activation="swish")

    case("linear_attention_gate", "LinearAttentionGate", [normal(2, 5, 3), normal(3), -uniform(3), normal(2, 5, 3)], 2,
         MS)
    for activation in ("silu", "sigmoid"):
        case(f"gated_rms_norm_{activation}", "GatedRMSNorm", [normal(2, 5, 12), normal(4), normal(2, 5, 12)], 1, MS,
             activation=activation, epsilon=1e-5)
    case("gated_add", "GatedAdd", [normal(2, 5, 12), normal(2, 5, 12), normal(2, 5, 1)], 1, MS)

    q, k, v = normal(10, 2, 8), units(1, 10, 2, 8).reshape(10, 2, 8), normal(10, 4, 4)
    gates = -uniform(10, 4), uniform(10, 4)
    state = normal(2, 4, 4, 8)
    gated_delta_net("", [q, k, v, *gates, state])
    gated_delta_net("_activations", [q, 1e-6 * k, v, normal(10, 4), normal(10, 4), state, normal(4), normal(4)],
                    gate_activation="softplus", beta_activation="sigmoid", qk_l2_norm=1)
    gated_delta_net("_kimi", [q, k, v, normal(10, 4, 8), uniform(10, 4), state, normal(4), normal(4, 8)],
                    gate_activation="sigmoid", gate_lower_bound=-3.0)
    packed = np.concatenate([q.reshape(10, 16), k.reshape(10, 16), v.reshape(10, 16)], axis=1)
    gated_delta_net("_packed", [packed, None, None, *gates, state], unpacked=(q, k, v))
    gated_delta_net("_by_sequence", [q.reshape(2, 5, 2, 8), k.reshape(2, 5, 2, 8), v.reshape(2, 5, 4, 4),
                                     *(gate.reshape(2, 5, 4) for gate in gates), state], scale=0.3)

    rows, ends = normal(11, 6), np.array([0, 2, 3, 11], np.int32)
    ragged("", [rows, weight, ends, bias, normal(3, 6, 3)])
    ragged("_dilated", [rows, normal(6, 1, 3), ends, bias, normal(3, 6, 4)], dilation=2, activation="silu")
    ragged("_one_tap", [rows, normal(6, 1, 1), ends, bias, normal(3, 6, 0)])
    ragged("_captured", [rows, weight, ends, None, normal(3, 6, 3), np.array([1, 5, 3], np.int32)], state_update_capacity=4)
