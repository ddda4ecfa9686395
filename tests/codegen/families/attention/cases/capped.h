// SPDX-License-Identifier: Apache-2.0
// Attention whose scores are capped.
#pragma once

#include "tests/codegen/families/attention/attention_case.h"

namespace sinter::test {

inline const AttentionCase kCappedAttention[] = {
    // Soft caps, which most scores are beyond.
    {"capped",
     R"(graph @g(%q: f16[2, rows, 64], %k: f16[2, keys, 64], %v: f16[2, keys, 64])
          ranges {rows: 1..65536, keys: 1..65536} {
      %y = Attention(%q, %k, %v) {scale = 0.5, softcap = 1.5, causal = 2}
      return y = %y
    })",
     {{{"rows", 1}, {"keys", 600}}, {{"rows", 17}, {"keys", 40}}, {{"rows", 130}, {"keys", 270}}}},
    {"capped_under_an_added_mask",
     R"(graph @g(%q: bf16[2, 40, 256], %k: bf16[2, 70, 256], %v: bf16[2, 70, 256], %bias: f32[40, 70]) {
      %y = Attention(%q, %k, %v, %bias) {scale = 0.0625, softcap = 50}
      return y = %y
    })"},
    {"capped_under_a_mask_of_a_number",
     R"(graph @g(%q: f16[2, 90, 64], %k: f16[2, 140, 64], %v: f16[2, 140, 64], %mask: bool[2, 90, 140]) {
      %y = Attention(%q, %k, %v, %mask) {scale = -0.5, softcap = 2, fill = -3}
      return y = %y
    })"},
    {"capped_and_all_hidden",
     R"(graph @g(%q: f16[18, 16], %k: f16[50, 16], %v: f16[50, 16], %none: bool[18, 50]) {
      %y = Attention(%q, %k, %v, %none) {scale = 0.2, softcap = 2, guard = 2}
      return y = %y
    })"},
    {"capped_by_groups",
     R"(graph @g(%q: bf16[3, 150, 128], %k: bf16[3, 240, 128], %v: bf16[3, 240, 128], %limits: i64[150, 1]) {
      %y = Attention(%q, %k, %v, %limits) {scale = 0.25, softcap = 2, limited = 1}
      return y = %y
    })",
     {{}},
     "attention rows=8x16 key_groups=1 keys=96 vector=8 stages=2 queries=2 blocks=2"},
    {"capped_as_columns_in_clusters",
     R"(graph @g(%q: f16[2, 8, 64], %k: f16[2, 500, 64], %v: f16[2, 500, 64]) {
      %y = Attention(%q, %k, %v) {scale = 0.5, softcap = 1.5}
      return y = %y
    })",
     {{}},
     "attention rows=1x8 key_groups=2 keys=16 vector=8 split_kv=2"},
    {"capped_rows_of_a_cache_of_bytes",
     R"(graph @g(%q: f16[2, 5, 48], %k: i8[2, 300, 48], %v: i8[2, 300, 80],
                 %limits: i64[2, 5, 1], %key_scales: f32[2, 300, 1],
                 %value_scales: f32[2, 300, 1]) {
      %y = Attention(%q, %k, %v, %limits, %key_scales, %value_scales) {scale = 0.5, softcap = 1.5, limited = 1}
      return y = %y
    })"},
    {"capped_cache_of_floats_by_groups",
     R"(graph @g(%q: f16[2, 2, 150, 64], %k: f8e4m3fn[2, 1, 300, 64], %v: f8e4m3fn[2, 1, 300, 64],
                 %key_scales: f32[2, 1, 300, 1], %value_scales: f32[2, 1, 300, 1]) {
      %y = Attention(%q, %k, %v, %key_scales, %value_scales) {scale = 0.5, softcap = 2, causal = 2}
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
      %y = Attention(%q1, %k1, %v1, %bounds) {scale = 0.5, softcap = 1.5, packed = [512]}
      %s = const f16[] {0.01}
      %d = Quotient(%y, %s)
      %r = Round(%d)
      %z = Cast(%r) {to = i8}
      return z = %z
    })",
     {{{"tokens", 300}, {"bounds", 5}}}},
};

}  // namespace sinter::test
