# SPDX-License-Identifier: Apache-2.0
"""Cases of com.microsoft GroupQueryAttention: caches that are empty, longer than the text, windowed, or of samples of
different lengths."""
import numpy as np
from onnx import helper, numpy_helper

MS = "com.microsoft"
HEADS, KV_HEADS, SIZE = 4, 2, 32


class Case:
    """The inputs of one node: those of `constants` are initializers."""

    def __init__(self):
        self.names, self.feeds, self.infos, self.initializers = [], {}, [], []

    def add(self, value, is_constant=False):
        name = "" if value is None else f"in{len(self.names)}"
        self.names.append(name)
        if value is None:
            return
        if is_constant:
            self.initializers.append(numpy_helper.from_array(value, name))
            return
        self.feeds[name] = value
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        self.infos.append(helper.make_tensor_value_info(name, kind, value.shape))


def group_query_cases(save):
    rng = np.random.default_rng(18)
    f32 = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]

    def group_query(name, rows, totals, past, caches=True, constants=(), more=(), packed=False, **attributes):
        """`totals`: tokens of each sample, these rows with them; `past`: rows of the cache. Rows behind a sample's
        tokens mean nothing: where there are some, `caches` says that they are no outputs of the model. `constants`
        and `more` are the inputs behind total_sequence_length."""
        batch, case = len(totals), Case()
        x = f32(batch, rows, (HEADS + 2 * KV_HEADS) * SIZE)
        queries = [x, None, None] if packed else np.split(x, [HEADS * SIZE, (HEADS + KV_HEADS) * SIZE], axis=2)
        for value in (*queries, *(f32(batch, KV_HEADS, past, SIZE) for _ in range(2)), np.array(totals, np.int32) - 1):
            case.add(value)
        for value in (np.array(max(totals), np.int32), *constants):
            case.add(value, is_constant=True)
        for value in more:
            case.add(value)
        # ONNX Runtime does not look at past where present has no name.
        results = ["out0", "out1", "out2"]
        node = helper.make_node("GroupQueryAttention", case.names, results, name="the_GroupQueryAttention", domain=MS,
                                num_heads=HEADS, kv_num_heads=KV_HEADS, **attributes)
        save(f"group_query_{name}", [node], case.initializers, case.feeds, case.infos, results if caches else results[:1],
             imports)

    turned = dict(constants=[f32(16, SIZE // 2), f32(16, SIZE // 2)], do_rotary=1)
    group_query("empty_past", 3, [3, 3], 0, **turned)
    group_query("second_part", 3, [7], 4, packed=True, **turned)
    group_query("lengths", 1, [6, 4, 1], 5, caches=False, **turned)
    group_query("lengths_window", 1, [9, 5], 8, caches=False, local_window_size=4)
    group_query("buffer", 1, [5, 3], 8, caches=False, softcap=3.0, **turned)
    group_query("buffer_full", 2, [8], 8, **turned)
    group_query("positions", 1, [5, 5], 4, more=[np.array([[9], [2]])], **turned)
    group_query("bias", 2, [6], 4, more=[None, None, None, f32(1, HEADS, 2, 6)])
    group_query("sink", 3, [3, 3], 0, constants=[None] * 4 + [f32(HEADS)])
    group_query("partly_turned", 2, [5], 3, constants=[f32(16, 8), f32(16, 8)], do_rotary=1)
    windowed = dict(local_window_size=4, sliding_window_cache=1, **turned)
    group_query("windowed_prompt", 9, [9, 9], 4, **windowed)
    group_query("windowed_decode", 1, [9, 7], 4, packed=True, **windowed)
    # Of six rows three are dropped at once: those kept fill the cache at 9 and 12 tokens.
    group_query("windowed_slack", 1, [9, 6], 6, **windowed)
    group_query("windowed_slack_drops", 4, [12], 6, **windowed)
