// SPDX-License-Identifier: Apache-2.0
// Attention of exact float32.
#pragma once

#include "../attention_case.h"

namespace sinter::test {

inline const std::vector<AttentionCase> kFloat32Attention = {
    {"float32_causal",
     R"(graph @g(%q: f32[2, 150, 64], %k: f32[2, 150, 64], %v: f32[2, 150, 64]) {
      %y = Attention(%q, %k, %v) {scale = 0.125, causal = 1}
      return y = %y
    })"},
    {"float32_causal_from_the_end",
     R"(graph @g(%q: f32[2, rows, 32], %k: f32[2, keys, 32], %v: f32[2, keys, 64])
      ranges {rows: 1..65536, keys: 1..65536} {
      %y = Attention(%q, %k, %v) {scale = 0.2, causal = 2, guard = 2}
      return y = %y
    })",
     {{{"rows", 140}, {"keys", 301}}, {{"rows", 130}, {"keys", 64}}, {{"rows", 1}, {"keys", 1}}}},
    {"float32_all_keys",
     R"(graph @g(%q: f32[3, 70, 40], %k: f32[3, 90, 40], %v: f32[3, 90, 32]) {
      %y = Attention(%q, %k, %v) {scale = 0.3}
      return y = %y
    })"},
    {"float32_long_heads",
     R"(graph @g(%q: f32[2, 70, 128], %k: f32[2, 100, 128], %v: f32[2, 100, 128]) {
      %y = Attention(%q, %k, %v) {scale = 0.1, causal = 1, guard = 1}
      return y = %y
    })"},
    {"float32_few_keys_of_a_tile",
     R"(graph @g(%q: f32[2, 70, 128], %k: f32[2, 100, 128], %v: f32[2, 100, 96]) {
      %y = Attention(%q, %k, %v) {scale = 0.1}
      return y = %y
    })",
     {{}},
     "attention rows=4x16 key_groups=1 keys=32 vector=4"},
    {"float32_heads_in_columns",
     R"(graph @g(%q: f32[90, 195], %k: f32[100, 192], %v: f32[100, 192]) {
      %qs = Slice(%q) {starts = [0, 1], shape = [90, 192], steps = [1, 1]}
      %qr = Reshape(%qs) {shape = [90, 3, 64]}
      %kr = Reshape(%k) {shape = [100, 3, 64]}
      %vr = Reshape(%v) {shape = [100, 3, 64]}
      %qt = Transpose(%qr) {perm = [1, 0, 2]}
      %kt = Transpose(%kr) {perm = [1, 0, 2]}
      %vt = Transpose(%vr) {perm = [1, 0, 2]}
      %y = Attention(%qt, %kt, %vt) {scale = -0.125}
      return y = %y
    })"},
    {"float32_capped_scores",
     R"(graph @g(%q: f32[2, 70, 64], %k: f32[2, 90, 64], %v: f32[2, 90, 64]) {
      %y = Attention(%q, %k, %v) {scale = 0.3, causal = 1} body(%s) {
        %cap = const f32[] {2}
        %t = Tanh(%s)
        %c = Mul(%t, %cap)
        return %c
      }
      return y = %y
    })"},
};

}  // namespace sinter::test
