// SPDX-License-Identifier: Apache-2.0
// Caches of 8 bits, and results of 8 bits.
#pragma once

#include "tests/codegen/families/attention/attention_case.h"

namespace sinter::test {

inline const AttentionCase kEightBitAttention[] = {
    {"cache_of_floats_of_8_bits",
     R"(graph @g(%q: f16[1, 3, rows, 64], %k: f8e4m3fn[1, 1, keys, 64],
                 %v: f8e4m3fn[1, 1, keys, 64], %key_scales: f32[1, 1, keys, 1],
                 %value_scales: f32[1, 1, keys, 1]) ranges {rows: 1..64, keys: 1..4096} {
      %y = Attention(%q, %k, %v, %key_scales, %value_scales) {scale = 0.05}
      return y = %y
    })",
     {{{"rows", 1}, {"keys", 1}}, {{"rows", 20}, {"keys", 150}}}},
    {"cache_of_integers_with_limits",
     R"(graph @g(%q: bf16[2, 2, 4, 1, 48], %k: i8[2, 2, 1, 300, 48], %v: i8[2, 2, 1, 300, 80],
                 %limits: i64[2, 1, 1, 1, 1], %key_scales: f32[2, 2, 1, 300, 1],
                 %value_scales: f32[2, 2, 1, 300, 1]) {
      %y = Attention(%q, %k, %v, %limits, %key_scales, %value_scales) {scale = 0.05, limited = 1}
      return y = %y
    })"},
    {"cache_of_integers_in_clusters",
     R"(graph @g(%q: f16[2, 4, 128], %k: i8[2, 500, 128], %v: i8[2, 500, 128],
                 %limits: i64[1], %key_scales: f32[2, 500, 1], %value_scales: f32[2, 500, 1]) {
      %y = Attention(%q, %k, %v, %limits, %key_scales, %value_scales) {scale = 0.03, limited = 1}
      return y = %y
    })",
     {{}},
     "attention rows=1x16 key_groups=4 keys=32 vector=16 split_kv=4"},
    {"few_rows_of_bytes_as_columns",
     R"(graph @g(%q: f16[2, 5, 48], %k: f8e4m3fn[2, 300, 48], %v: f8e4m3fn[2, 300, 80],
                 %limits: i64[2, 5, 1], %key_scales: f32[2, 300, 1],
                 %value_scales: f32[2, 300, 1]) {
      %y = Attention(%q, %k, %v, %limits, %key_scales, %value_scales) {scale = 0.05, limited = 1}
      return y = %y
    })",
     {{}},
     "attention rows=1x8 key_groups=4 keys=48 vector=16 ahead=2"},
    {"few_rows_as_columns_of_several_warps",
     R"(graph @g(%q: bf16[2, 19, 64], %k: bf16[2, 200, 64], %v: bf16[2, 200, 32]) {
      %y = Attention(%q, %k, %v) {scale = 0.2, causal = 2}
      return y = %y
    })",
     {{}},
     "attention rows=2x8 key_groups=2 keys=32 vector=8"},
    {"few_rows_as_columns_in_clusters",
     R"(graph @g(%q: f16[2, 8, 32], %k: f16[2, 500, 32], %v: f16[2, 500, 32]) {
      %y = Attention(%q, %k, %v) {scale = -0.2}
      return y = %y
    })",
     {{}},
     "attention rows=1x8 key_groups=2 keys=16 vector=8 split_kv=2"},
    {"cache_of_floats_under_a_mask",
     R"(graph @g(%q: f16[2, 70, 32], %k: f8e4m3fn[2, 100, 32], %v: f8e4m3fn[2, 100, 16],
                 %mask: bool[2, 70, 100], %key_scales: f32[2, 100, 1],
                 %value_scales: f32[2, 100, 1]) {
      %y = Attention(%q, %k, %v, %mask, %key_scales, %value_scales) {scale = 0.1, causal = 2}
      return y = %y
    })"},
    {"cache_of_floats_by_groups",
     R"(graph @g(%q: f16[2, 2, 150, 64], %k: f8e4m3fn[2, 1, 300, 64], %v: f8e4m3fn[2, 1, 300, 128],
                 %limits: i64[1, 1, 150, 1], %key_scales: f32[2, 1, 300, 1],
                 %value_scales: f32[2, 1, 300, 1]) {
      %y = Attention(%q, %k, %v, %limits, %key_scales, %value_scales) {scale = 0.05, limited = 1}
      return y = %y
    })",
     {{}},
     "attention rows=8x16 key_groups=1 keys=96 vector=16 stages=2 blocks=3"},
    {"cache_of_integers_by_groups",
     R"(graph @g(%q: bf16[2, 70, 80], %k: i8[2, 100, 80], %v: i8[2, 100, 48],
                 %mask: bool[2, 70, 100], %key_scales: f32[2, 100, 1],
                 %value_scales: f32[2, 100, 1]) {
      %y = Attention(%q, %k, %v, %mask, %key_scales, %value_scales) {scale = 0.1, causal = 2}
      return y = %y
    })",
     {{}},
     "attention rows=4x16 key_groups=1 keys=64 vector=16 stages=3 blocks=2"},
    {"prompt_over_a_cache_of_floats",
     R"(graph @g(%q: f16[1, 3, rows, 128], %k: f8e4m3fn[1, 1, rows, 128],
                 %v: f8e4m3fn[1, 1, rows, 128], %key_scales: f32[1, 1, rows, 1],
                 %value_scales: f32[1, 1, rows, 1]) ranges {rows: 1..4096} {
      %y = Attention(%q, %k, %v, %key_scales, %value_scales) {scale = 0.03, causal = 1}
      return y = %y
    })",
     {{{"rows", 40}}, {{"rows", 200}}},
     "attention rows=8x16 key_groups=1 keys=128 vector=16 stages=2 blocks=2"},
    {"cache_of_bfloats_ahead",
     R"(graph @g(%q: bf16[3, 30, 64], %k: f8e4m3fn[3, 200, 64], %v: f8e4m3fn[3, 200, 64],
                 %bias: f32[30, 200], %key_scales: f32[3, 200, 1], %value_scales: f32[3, 200, 1]) {
      %y = Attention(%q, %k, %v, %bias, %key_scales, %value_scales) {scale = 0.1}
      return y = %y
    })",
     {{}},
     "attention rows=1x32 key_groups=2 keys=32 vector=16 ahead=2"},
    {"result_of_float8",
     R"(graph @g(%q: f16[1, seq, 4, 64], %k: f16[1, seq, 4, 64], %v: f16[1, seq, 4, 64])
          ranges {seq: 1..4096} {
      %q1 = Transpose(%q) {perm = [0, 2, 1, 3]}
      %k1 = Transpose(%k) {perm = [0, 2, 1, 3]}
      %v1 = Transpose(%v) {perm = [0, 2, 1, 3]}
      %y = Attention(%q1, %k1, %v1) {scale = 0.125}
      %t = Transpose(%y) {perm = [0, 2, 1, 3]}
      %s = const f16[] {0.005}
      %d = Quotient(%t, %s)
      %z = Cast(%d) {to = f8e4m3fn}
      return z = %z
    })",
     {{{"seq", 100}}, {{"seq", 390}}}},
    {"result_of_bytes_by_groups",
     R"(graph @g(%q: bf16[2, rows, 40], %k: bf16[2, keys, 40], %v: bf16[2, keys, 40])
          ranges {rows: 65..8192, keys: 1..8192} {
      %y = Attention(%q, %k, %v) {scale = 0.2}
      %w = Cast(%y) {to = f32}
      %s = const f32[] {0.01}
      %d = Quotient(%w, %s)
      %r = Round(%d)
      %zero = const f32[] {131}
      %a = Add(%r, %zero)
      %z = Cast(%a) {to = u8}
      return z = %z
    })",
     {{{"rows", 100}, {"keys", 77}}, {{"rows", 210}, {"keys", 390}}},
     "attention rows=4x16 key_groups=1 keys=64 vector=8 stages=2 blocks=4"},
    {"result_of_bytes_in_unaligned_rows", R"(graph @g(%x: f16[2, 21, 51]) {
      %q = Slice(%x) {starts = [0, 0, 0], steps = [1, 1, 1], shape = [2, 21, 16]}
      %k = Slice(%x) {starts = [0, 0, 17], steps = [1, 1, 1], shape = [2, 21, 16]}
      %v = Slice(%x) {starts = [0, 0, 35], steps = [1, 1, 1], shape = [2, 21, 16]}
      %y = Attention(%q, %k, %v) {scale = 0.25}
      %s = const f16[] {0.01}
      %d = Quotient(%y, %s)
      %r = Round(%d)
      %z = Cast(%r) {to = i8}
      return z = %z
    })"},
    {"result_of_float8_behind_a_long_cache",
     R"(graph @g(%q: f16[2, 2, 4, 1, 64], %k: f16[2, 2, 1, keys, 64], %v: f16[2, 2, 1, keys, 64])
          ranges {keys: 1..8192} {
      %y = Attention(%q, %k, %v) {scale = 0.125}
      %s = const f16[] {0.001}
      %d = Quotient(%y, %s)
      %z = Cast(%d) {to = f8e5m2}
      return z = %z
    })",
     {{{"keys", 30}}, {{"keys", 2100}}}},
    {"packed_sequences_of_bytes",
     R"(graph @g(%q: f16[tokens, 3, 64], %k: f16[tokens, 3, 64], %v: f16[tokens, 3, 64],
                 %bounds: i64[bounds]) ranges {tokens: 1..65536, bounds: 2..1024} {
      %q1 = Transpose(%q) {perm = [1, 0, 2]}
      %k1 = Transpose(%k) {perm = [1, 0, 2]}
      %v1 = Transpose(%v) {perm = [1, 0, 2]}
      %y = Attention(%q1, %k1, %v1, %bounds) {scale = 0.125, packed = [512]}
      %t = Transpose(%y) {perm = [1, 0, 2]}
      %s = const f16[] {0.01}
      %d = Quotient(%t, %s)
      %r = Round(%d)
      %zero = const f16[] {-3}
      %a = Add(%r, %zero)
      %z = Cast(%a) {to = i8}
      return z = %z
    })",
     {{{"tokens", 300}, {"bounds", 5}}, {{"tokens", 40}, {"bounds", 5}}}},
};

}  // namespace sinter::test
