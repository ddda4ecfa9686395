// SPDX-License-Identifier: Apache-2.0
// Attention whose scores are made by a program.
#pragma once

#include "tests/codegen/families/attention/attention_case.h"

namespace sinter::test {

inline const AttentionCase kScoredAttention[] = {
    // Soft caps, which most scores are beyond.
    {"capped",
     R"(graph @g(%q: f16[2, rows, 64], %k: f16[2, keys, 64], %v: f16[2, keys, 64])
          ranges {rows: 1..65536, keys: 1..65536} {
      %y = Attention(%q, %k, %v) {scale = 0.3333333333333333, causal = 2} body(%s) {
        %cap = const f32[] {1.5}
        %t = Tanh(%s)
        %c = Mul(%t, %cap)
        return %c
      }
      return y = %y
    })",
     {{{"rows", 1}, {"keys", 600}}, {{"rows", 17}, {"keys", 40}}, {{"rows", 130}, {"keys", 270}}}},
    {"capped_under_an_added_mask",
     R"(graph @g(%q: bf16[2, 40, 256], %k: bf16[2, 70, 256], %v: bf16[2, 70, 256], %bias: f32[40, 70]) {
      %y = Attention(%q, %k, %v, %bias) {scale = 0.00125} body(%s) {
        %cap = const f32[] {50}
        %t = Tanh(%s)
        %c = Mul(%t, %cap)
        return %c
      }
      return y = %y
    })"},
    {"capped_under_a_mask_of_a_number",
     R"(graph @g(%q: f16[2, 90, 64], %k: f16[2, 140, 64], %v: f16[2, 140, 64], %mask: bool[2, 90, 140]) {
      %y = Attention(%q, %k, %v, %mask) {scale = -0.25, fill = -3} body(%s) {
        %cap = const f32[] {2}
        %t = Tanh(%s)
        %c = Mul(%t, %cap)
        return %c
      }
      return y = %y
    })"},
    {"capped_and_all_hidden",
     R"(graph @g(%q: f16[18, 16], %k: f16[50, 16], %v: f16[50, 16], %none: bool[18, 50]) {
      %y = Attention(%q, %k, %v, %none) {scale = 0.1, guard = 2} body(%s) {
        %cap = const f32[] {2}
        %t = Tanh(%s)
        %c = Mul(%t, %cap)
        return %c
      }
      return y = %y
    })"},
    {"capped_by_groups",
     R"(graph @g(%q: bf16[3, 150, 128], %k: bf16[3, 240, 128], %v: bf16[3, 240, 128], %limits: i64[150, 1]) {
      %y = Attention(%q, %k, %v, %limits) {scale = 0.125, limited = 1} body(%s) {
        %cap = const f32[] {2}
        %t = Tanh(%s)
        %c = Mul(%t, %cap)
        return %c
      }
      return y = %y
    })",
     {{}},
     "attention rows=8x16 key_groups=1 keys=96 vector=8 stages=2 queries=2 blocks=2"},
    {"capped_heads_of_256_by_groups",
     R"(graph @g(%q: f16[2, 2, 150, 256], %k: f16[2, 1, 200, 256], %v: f16[2, 1, 200, 256]) {
      %y = Attention(%q, %k, %v) {scale = 0.02, causal = 2} body(%s) {
        %cap = const f32[] {50}
        %t = Tanh(%s)
        %c = Mul(%t, %cap)
        return %c
      }
      return y = %y
    })",
     {{}},
     "attention rows=8x16 key_groups=1 keys=64 vector=8 stages=2 blocks=2"},
    {"capped_as_columns_in_clusters",
     R"(graph @g(%q: f16[2, 8, 64], %k: f16[2, 500, 64], %v: f16[2, 500, 64]) {
      %y = Attention(%q, %k, %v) {scale = 0.3333333333333333} body(%s) {
        %cap = const f32[] {1.5}
        %t = Tanh(%s)
        %c = Mul(%t, %cap)
        return %c
      }
      return y = %y
    })",
     {{}},
     "attention rows=1x8 key_groups=2 keys=16 vector=8 split_kv=2"},
    {"capped_rows_of_a_cache_of_bytes",
     R"(graph @g(%q: f16[2, 5, 48], %k: i8[2, 300, 48], %v: i8[2, 300, 80],
                 %limits: i64[2, 5, 1], %key_scales: f32[2, 300, 1],
                 %value_scales: f32[2, 300, 1]) {
      %y = Attention(%q, %k, %v, %limits, %key_scales, %value_scales) {scale = 0.3333333333333333, limited = 1} body(%s) {
        %cap = const f32[] {1.5}
        %t = Tanh(%s)
        %c = Mul(%t, %cap)
        return %c
      }
      return y = %y
    })"},
    {"capped_cache_of_floats_by_groups",
     R"(graph @g(%q: f16[2, 2, 150, 64], %k: f8e4m3fn[2, 1, 300, 64], %v: f8e4m3fn[2, 1, 300, 64],
                 %key_scales: f32[2, 1, 300, 1], %value_scales: f32[2, 1, 300, 1]) {
      %y = Attention(%q, %k, %v, %key_scales, %value_scales) {scale = 0.25, causal = 2} body(%s) {
        %cap = const f32[] {2}
        %t = Tanh(%s)
        %c = Mul(%t, %cap)
        return %c
      }
      return y = %y
    })",
     {{}},
     "attention rows=8x16 key_groups=1 keys=96 vector=16 stages=2 blocks=3"},
    {"capped_packed_sequences",
     R"(graph @g(%q: f16[tokens, 3, 64], %k: f16[tokens, 3, 64], %v: f16[tokens, 3, 64],
                 %bounds: i64[bounds]) ranges {tokens: 1..65536, bounds: 2..1024} {
      %q1 = Transpose(%q) {perm = [1, 0, 2]}
      %k1 = Transpose(%k) {perm = [1, 0, 2]}
      %v1 = Transpose(%v) {perm = [1, 0, 2]}
      %y = Attention(%q1, %k1, %v1, %bounds) {scale = 0.3333333333333333, packed = [512]} body(%s) {
        %cap = const f32[] {1.5}
        %t = Tanh(%s)
        %c = Mul(%t, %cap)
        return %c
      }
      %s = const f16[] {0.01}
      %d = Quotient(%y, %s)
      %r = Round(%d)
      %z = Cast(%r) {to = i8}
      return z = %z
    })",
     {{{"tokens", 300}, {"bounds", 5}}}},
    // What no file of the compiler knows: a bounded penalty by the distance of the key, with a
    // slope
    // for each head.
    {"distance_penalty",
     R"(graph @g(%q: f16[2, 3, rows, 64], %k: f16[2, 3, keys, 64], %v: f16[2, 3, keys, 64], %slopes: f16[3, 1, 1])
          ranges {rows: 1..65536, keys: 1..65536} {
      %y = Attention(%q, %k, %v, %slopes) {scale = 0.25, score_operands = 1} body(%s, %slope) {
        %row = Iota() {axis = 2, dtype = i64, shape = [1, 1, rows, 1]}
        %key = Iota() {axis = 3, dtype = i64, shape = [1, 1, 1, keys]}
        %far = Sub(%key, %row)
        %f = Cast(%far) {to = f32}
        %unit = const f32[] {0.05}
        %g = Mul(%f, %unit)
        %t = Tanh(%g)
        %a = Abs(%t)
        %w = Cast(%slope) {to = f32}
        %p = Mul(%a, %w)
        %r = Sub(%s, %p)
        return %r
      }
      return y = %y
    })",
     {{{"rows", 1}, {"keys", 600}}, {{"rows", 17}, {"keys", 40}}, {{"rows", 130}, {"keys", 270}}}},
    {"slopes_of_heads_that_share_keys",
     R"(graph @g(%q: f16[2, 2, 3, 1, 64], %k: f16[2, 2, 1, 300, 64], %v: f16[2, 2, 1, 300, 64], %slopes: f32[2, 3, 1, 1]) {
      %y = Attention(%q, %k, %v, %slopes) {scale = 0.25, score_operands = 1} body(%s, %slope) {
        %key = Iota() {axis = 0, dtype = f32, shape = [300]}
        %head = Iota() {axis = 2, dtype = f32, shape = [1, 1, 3, 1, 1]}
        %w = Mul(%slope, %key)
        %low = const f32[] {-0.01}
        %d = Mul(%w, %low)
        %b = Mul(%head, %low)
        %x = Add(%d, %b)
        %r = Add(%s, %x)
        return %r
      }
      return y = %y
    })"},
    {"two_masks_and_a_bias_by_groups",
     R"(graph @g(%q: bf16[2, 3, 150, 128], %k: bf16[2, 3, 240, 128], %v: bf16[2, 3, 240, 128], %mask: bool[2, 1, 1, 240],
                 %near: bool[150, 240], %bias: bf16[3, 150, 240]) {
      %y = Attention(%q, %k, %v, %mask, %near, %bias) {scale = 0.25, score_operands = 2} body(%s, %n, %b) {
        %w = Cast(%b) {to = f32}
        %a = Add(%s, %w)
        %low = const f32[] {-3.4e38}
        %r = Where(%n, %a, %low)
        return %r
      }
      return y = %y
    })",
     {{}},
     "attention rows=8x16 key_groups=1 keys=64 vector=8 stages=2 blocks=2"},
    // The second output is a sink: the score of one more key, whose value is zero.
    {"sinks",
     R"(graph @g(%q: f16[2, 3, rows, 64], %k: f16[2, 3, keys, 64], %v: f16[2, 3, keys, 64], %sinks: f16[3, 1, 1])
          ranges {rows: 1..65536, keys: 1..65536} {
      %y = Attention(%q, %k, %v, %sinks) {scale = 0.25, causal = 2, score_operands = 1} body(%s, %sink) {
        %w = Cast(%sink) {to = f32}
        return %s, %w
      }
      return y = %y
    })",
     {{{"rows", 1}, {"keys", 600}}, {{"rows", 17}, {"keys", 40}}, {{"rows", 130}, {"keys", 270}}}},
    {"sinks_of_rows_of_bytes",
     R"(graph @g(%q: f16[2, 5, 48], %k: i8[2, 300, 48], %v: i8[2, 300, 80],
                 %limits: i64[2, 5, 1], %key_scales: f32[2, 300, 1],
                 %value_scales: f32[2, 300, 1], %sinks: f32[5, 1]) {
      %y = Attention(%q, %k, %v, %limits, %key_scales, %value_scales, %sinks) {scale = 0.3, limited = 1, score_operands = 1} body(%s, %sink) {
        %t = Tanh(%s)
        return %t, %sink
      }
      return y = %y
    })"},
    {"heads_of_30",
     R"(graph @g(%q: f16[2, rows, 90], %k: f16[2, rows, 90], %v: f16[2, rows, 90]) ranges {rows: 1..4096} {
      %q1 = Reshape(%q) {shape = [2, rows, 3, 30]}
      %q2 = Transpose(%q1) {perm = [0, 2, 1, 3]}
      %k1 = Reshape(%k) {shape = [2, rows, 3, 30]}
      %k2 = Transpose(%k1) {perm = [0, 2, 1, 3]}
      %v1 = Reshape(%v) {shape = [2, rows, 3, 30]}
      %v2 = Transpose(%v1) {perm = [0, 2, 1, 3]}
      %y = Attention(%q2, %k2, %v2) {scale = 0.2, causal = 1}
      %t = Transpose(%y) {perm = [0, 2, 1, 3]}
      %z = Reshape(%t) {shape = [2, rows, 90]}
      return z = %z
    })",
     {{{"rows", 1}}, {{"rows", 33}}, {{"rows", 200}}}},
    {"heads_of_36_and_52",
     R"(graph @g(%q: bf16[3, 40, 36], %k: bf16[3, 70, 36], %v: bf16[3, 70, 52]) {
      %y = Attention(%q, %k, %v) {scale = 0.2}
      return y = %y
    })"},
    {"heads_of_13_and_7",
     R"(graph @g(%q: f16[3, 20, 13], %k: f16[3, 70, 13], %v: f16[3, 70, 7]) {
      %y = Attention(%q, %k, %v) {scale = 0.2}
      return y = %y
    })",
     {{}},
     "attention rows=1x16 key_groups=2 keys=16 vector=8"},
};

}  // namespace sinter::test
