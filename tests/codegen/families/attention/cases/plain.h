// SPDX-License-Identifier: Apache-2.0
// Attention of 16 bits: masks, limits and sizes.
#pragma once

#include "tests/codegen/families/attention/attention_case.h"

namespace sinter::test {

inline const AttentionCase kPlainAttention[] = {
    {"packed_heads_and_key_mask",
     R"(graph @g(%qkv: f16[batch, seq, 96], %keep: bool[batch, seq])
          ranges {batch: 1..64, seq: 1..4096} {
      %q0 = Slice(%qkv) {starts = [0, 0, 0], steps = [1, 1, 1], shape = [batch, seq, 32]}
      %k0 = Slice(%qkv) {starts = [0, 0, 32], steps = [1, 1, 1], shape = [batch, seq, 32]}
      %v0 = Slice(%qkv) {starts = [0, 0, 64], steps = [1, 1, 1], shape = [batch, seq, 32]}
      %q1 = Reshape(%q0) {shape = [batch, seq, 2, 16]}
      %k1 = Reshape(%k0) {shape = [batch, seq, 2, 16]}
      %v1 = Reshape(%v0) {shape = [batch, seq, 2, 16]}
      %q = Transpose(%q1) {perm = [0, 2, 1, 3]}
      %k = Transpose(%k1) {perm = [0, 2, 1, 3]}
      %v = Transpose(%v1) {perm = [0, 2, 1, 3]}
      %mask = Reshape(%keep) {shape = [batch, 1, 1, seq]}
      %y = Attention(%q, %k, %v, %mask) {scale = 0.25, fill = -10000}
      %t = Transpose(%y) {perm = [0, 2, 1, 3]}
      %z = Reshape(%t) {shape = [batch, seq, 32]}
      return z = %z
    })",
     {{{"batch", 1}, {"seq", 1}},
      {{"batch", 2}, {"seq", 17}},
      {{"batch", 1}, {"seq", 64}},
      {{"batch", 2}, {"seq", 150}}}},
    {"heads_of_odd_sizes", R"(graph @g(%q: f16[2, 3, 19, 40], %k: f16[2, 3, 37, 40],
                                       %v: f16[2, 3, 37, 24]) {
      %y = Attention(%q, %k, %v) {scale = 0.3}
      return y = %y
    })"},
    {"added_mask_by_row",
     R"(graph @g(%q: bf16[1, 2, 20, 64], %k: bf16[1, 2, 70, 64], %v: bf16[1, 2, 70, 72],
                 %bias: f32[2, 20, 70]) {
      %y = Attention(%q, %k, %v, %bias) {scale = 0.125}
      return y = %y
    })"},
    {"added_mask_of_the_lowest_value",
     R"(graph @g(%q: f16[2, 4, 16], %k: f16[2, 9, 16], %v: f16[2, 9, 16], %low: f32[9]) {
      %y = Attention(%q, %k, %v, %low) {scale = 0.125}
      return y = %y
    })"},
    {"causal_long",
     R"(graph @g(%q: f16[1, 1, seq, 128], %k: f16[1, 1, seq, 128],
                               %v: f16[1, 1, seq, 128]) ranges {seq: 1..8192} {
      %y = Attention(%q, %k, %v) {scale = 0.0883, causal = 1}
      return y = %y
    })",
     {{{"seq", 33}}, {{"seq", 140}}}},
    {"causal_behind_a_cache", R"(graph @g(%q: bf16[2, 5, 32], %k: bf16[2, 100, 32],
                                         %v: bf16[2, 100, 32]) {
      %y = Attention(%q, %k, %v) {scale = 0.2, causal = 2}
      return y = %y
    })"},
    {"fully_masked_rows_are_uniform",
     R"(graph @g(%q: f16[3, 40, 32], %k: f16[3, 50, 32], %v: f16[3, 50, 32],
                 %none: bool[1, 40, 1]) {
      %y = Attention(%q, %k, %v, %none) {scale = 0.2, fill = -10000}
      return y = %y
    })"},
    {"fully_masked_rows_are_nan",
     R"(graph @g(%q: f16[18, 8], %k: f16[5, 8], %v: f16[5, 8], %none: bool[18, 5]) {
      %y = Attention(%q, %k, %v, %none) {scale = 0.2}
      return y = %y
    })"},
    {"fully_masked_rows_are_guarded",
     R"(graph @g(%q: f16[18, 16], %k: f16[200, 16], %v: f16[200, 16], %none: bool[18, 200]) {
      %y = Attention(%q, %k, %v, %none) {scale = 0.2, guard = 1}
      return y = %y
    })"},
    {"random_rows_masked_or_guarded",
     R"(graph @g(%q: f16[70, 16], %k: f16[3, 16], %v: f16[3, 16], %mask: bool[70, 3]) {
      %y = Attention(%q, %k, %v, %mask) {scale = 0.2, guard = 1}
      return y = %y
    })"},
    {"one_query_shares_its_keys",
     R"(graph @g(%q: f16[2, 2, 4, 1, 64], %k: f16[2, 2, 1, 300, 64], %v: f16[2, 2, 1, 300, 64],
                 %mask: bool[2, 1, 1, 1, 300]) {
      %y = Attention(%q, %k, %v, %mask) {scale = 0.125}
      return y = %y
    })"},
    {"grouped_queries",
     R"(graph @g(%q: f16[2, 6, 20, 16], %k: f16[2, 2, 25, 16], %v: f16[2, 2, 25, 16]) {
      %k1 = Reshape(%k) {shape = [2, 2, 1, 25, 16]}
      %k2 = Expand(%k1) {shape = [2, 2, 3, 25, 16]}
      %k3 = Reshape(%k2) {shape = [2, 6, 25, 16]}
      %v1 = Reshape(%v) {shape = [2, 2, 1, 25, 16]}
      %v2 = Expand(%v1) {shape = [2, 2, 3, 25, 16]}
      %v3 = Reshape(%v2) {shape = [2, 6, 25, 16]}
      %y = Attention(%q, %k3, %v3) {scale = 0.25}
      return y = %y
    })"},
    {"heads_merged_with_the_batch",
     R"(graph @g(%q: f16[2, 20, 3, 16], %k: f16[2, 25, 3, 16], %v: f16[2, 25, 3, 16]) {
      %q1 = Transpose(%q) {perm = [0, 2, 1, 3]}
      %k1 = Transpose(%k) {perm = [0, 2, 1, 3]}
      %v1 = Transpose(%v) {perm = [0, 2, 1, 3]}
      %q2 = Reshape(%q1) {shape = [6, 20, 16]}
      %k2 = Reshape(%k1) {shape = [6, 25, 16]}
      %v2 = Reshape(%v1) {shape = [6, 25, 16]}
      %y = Attention(%q2, %k2, %v2) {scale = 0.25}
      %y1 = Reshape(%y) {shape = [2, 3, 20, 16]}
      %y2 = Transpose(%y1) {perm = [0, 2, 1, 3]}
      return y = %y2
    })"},
    {"unaligned_rows", R"(graph @g(%x: f16[2, 21, 51]) {
      %q = Slice(%x) {starts = [0, 0, 0], steps = [1, 1, 1], shape = [2, 21, 16]}
      %k = Slice(%x) {starts = [0, 0, 17], steps = [1, 1, 1], shape = [2, 21, 16]}
      %v = Slice(%x) {starts = [0, 0, 34], steps = [1, 1, 1], shape = [2, 21, 16]}
      %y = Attention(%q, %k, %v) {scale = -0.5}
      return y = %y
    })"},
    {"rows_of_pairs", R"(graph @g(%x: bf16[2, 21, 54]) {
      %q = Slice(%x) {starts = [0, 0, 0], steps = [1, 1, 1], shape = [2, 21, 16]}
      %k = Slice(%x) {starts = [0, 0, 18], steps = [1, 1, 1], shape = [2, 21, 16]}
      %v = Slice(%x) {starts = [0, 0, 36], steps = [1, 1, 1], shape = [2, 21, 16]}
      %y = Attention(%q, %k, %v) {scale = 2}
      return y = %y
    })"},
    {"longest_heads", R"(graph @g(%q: f16[1, 18, 256], %k: f16[1, 40, 256], %v: f16[1, 40, 256]) {
      %y = Attention(%q, %k, %v) {scale = 0.0625}
      return y = %y
    })"},
    {"one_query_behind_a_long_cache",
     R"(graph @g(%q: f16[3, 1, 64], %k: f16[3, keys, 64], %v: f16[3, keys, 64])
          ranges {keys: 1..65536} {
      %y = Attention(%q, %k, %v) {scale = 0.125, causal = 2}
      return y = %y
    })",
     {{{"keys", 30}}, {{"keys", 600}}, {{"keys", 2100}}}},
    {"heads_of_64",
     R"(graph @g(%q: f16[2, seq, 64], %k: f16[2, seq, 64], %v: f16[2, seq, 64])
          ranges {seq: 1..65536} {
      %y = Attention(%q, %k, %v) {scale = 0.125}
      return y = %y
    })",
     {{{"seq", 100}}, {{"seq", 390}}}},
    {"heads_of_40_by_groups",
     R"(graph @g(%q: f16[3, rows, 40], %k: f16[3, keys, 40], %v: f16[3, keys, 40])
          ranges {rows: 1..65536, keys: 1..65536} {
      %y = Attention(%q, %k, %v) {scale = 0.158}
      return y = %y
    })",
     {{{"rows", 100}, {"keys", 77}}, {{"rows", 210}, {"keys", 390}}}},
    {"heads_of_72_masked_by_groups",
     R"(graph @g(%q: bf16[2, seq, 72], %k: bf16[2, seq, 72], %v: bf16[2, seq, 104], %mask: bool[2, seq, seq])
          ranges {seq: 1..65536} {
      %y = Attention(%q, %k, %v, %mask) {scale = 0.118, fill = -inf}
      return y = %y
    })",
     {{{"seq", 150}}}},
    {"heads_of_160_by_groups",
     R"(graph @g(%q: f16[2, 2, seq, 160], %k: f16[2, 2, seq, 160], %v: f16[2, 2, seq, 160])
          ranges {seq: 1..65536} {
      %y = Attention(%q, %k, %v) {scale = 0.079}
      return y = %y
    })",
     {{{"seq", 140}}}},
    {"scores_that_grow",
     R"(graph @g(%q: f16[2, seq, 64], %k: f16[2, seq, 64], %v: f16[2, seq, 64])
          ranges {seq: 1..65536} {
      %y = Attention(%q, %k, %v) {scale = 3}
      return y = %y
    })",
     {{{"seq", 390}}}},
    {"causal_heads_of_128",
     R"(graph @g(%q: bf16[2, rows, 128], %k: bf16[2, keys, 128], %v: bf16[2, keys, 128])
          ranges {rows: 1..65536, keys: 1..65536} {
      %y = Attention(%q, %k, %v) {scale = 0.0883, causal = 2}
      return y = %y
    })",
     {{{"rows", 130}, {"keys", 270}}, {{"rows", 200}, {"keys", 64}}}},
    {"keys_wider_than_values_masked",
     R"(graph @g(%q: f16[2, 90, 128], %k: f16[2, 150, 128], %v: f16[2, 150, 64],
                 %mask: bool[90, 150]) {
      %y = Attention(%q, %k, %v, %mask) {scale = 0.0883, fill = -10000}
      return y = %y
    })"},
    {"added_mask_of_keys_by_groups",
     R"(graph @g(%q: f16[2, 2, 70, 64], %k: f16[2, 2, 2*pairs, 64], %v: f16[2, 2, 2*pairs, 64],
                 %bias: f16[2, 1, 1, 2*pairs]) ranges {pairs: 1..32768} {
      %y = Attention(%q, %k, %v, %bias) {scale = 0.125}
      return y = %y
    })",
     {{{"pairs", 65}}, {{"pairs", 128}}}},
    {"added_mask_by_groups",
     R"(graph @g(%q: bf16[2, rows, 64], %k: bf16[2, keys, 64], %v: bf16[2, keys, 64],
                 %bias: f32[2, rows, keys]) ranges {rows: 1..65536, keys: 1..65536} {
      %y = Attention(%q, %k, %v, %bias) {scale = 0.125}
      return y = %y
    })",
     {{{"rows", 70}, {"keys", 201}}}},
    {"added_mask_of_wide_heads_by_groups",
     R"(graph @g(%q: f16[2, 90, 128], %k: f16[2, 200, 128], %v: f16[2, 200, 128],
                 %bias: f16[90, 200]) {
      %y = Attention(%q, %k, %v, %bias) {scale = 0.0883, causal = 1}
      return y = %y
    })"},
    {"added_lowest_by_groups",
     R"(graph @g(%q: f16[2, 90, 64], %k: f16[2, 140, 64], %v: f16[2, 140, 64], %low: f32[140]) {
      %y = Attention(%q, %k, %v, %low) {scale = 0.125}
      return y = %y
    })"},
    {"hidden_keys_by_groups",
     R"(graph @g(%q: f16[2, 2, 70, 64], %k: f16[2, 2, 300, 64], %v: f16[2, 2, 300, 64],
                 %mask: bool[2, 1, 1, 300]) {
      %y = Attention(%q, %k, %v, %mask) {scale = 0.125, fill = -3.4028235e38, guard = 1}
      return y = %y
    })"},
    {"all_keys_hidden_by_groups",
     R"(graph @g(%q: f16[2, 70, 64], %k: f16[2, 300, 64], %v: f16[2, 300, 64],
                 %none: bool[2, 1, 300]) {
      %y = Attention(%q, %k, %v, %none) {scale = 0.13, fill = -3.4028235e38}
      return y = %y
    })"},
    // Of a cache the keys are seen that are in it.
    {"one_query_sees_what_is_there",
     R"(graph @g(%q: f16[2, 2, 4, 1, 64], %k: f16[2, 2, 1, 1300, 64], %v: f16[2, 2, 1, 1300, 64],
                 %limits: i64[2, 1, 1, 1, 1]) {
      %y = Attention(%q, %k, %v, %limits) {scale = 0.125, limited = 1}
      return y = %y
    })"},
    {"rows_see_what_is_there",
     R"(graph @g(%q: bf16[2, rows, 64], %k: bf16[2, keys, 64], %v: bf16[2, keys, 64],
                 %limits: i32[2, 1, 1]) ranges {rows: 1..65536, keys: 1..65536} {
      %y = Attention(%q, %k, %v, %limits) {scale = 0.125, limited = 1}
      return y = %y
    })",
     {{{"rows", 70}, {"keys", 301}}, {{"rows", 200}, {"keys", 64}}}},
    {"every_row_has_a_limit",
     R"(graph @g(%q: f16[2, rows, 32], %k: f16[2, 150, 32], %v: f16[2, 150, 32],
                 %limits: i64[rows, 1]) ranges {rows: 1..65536} {
      %y = Attention(%q, %k, %v, %limits) {scale = 0.2, limited = 1}
      return y = %y
    })",
     {{{"rows", 3}}, {{"rows", 90}}}},
    {"limits_masks_and_causal_rows",
     R"(graph @g(%q: f16[2, 90, 64], %k: f16[2, 140, 64], %v: f16[2, 140, 64],
                 %mask: f16[2, 1, 140], %limits: i64[2, 90, 1]) {
      %y = Attention(%q, %k, %v, %mask, %limits) {scale = 0.2, causal = 2, limited = 1}
      return y = %y
    })"},
    {"limits_of_samples_and_causal_rows",
     R"(graph @g(%q: f16[2, 3, 90, 64], %k: f16[2, 3, 140, 64], %v: f16[2, 3, 140, 64],
                 %limits: i64[2, 1, 1, 1]) {
      %y = Attention(%q, %k, %v, %limits) {scale = 0.2, causal = 2, limited = 1}
      return y = %y
    })"},
};

}  // namespace sinter::test
