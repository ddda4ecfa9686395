// SPDX-License-Identifier: Apache-2.0
// Items in turns, tiles under way, rows that see nothing, packed sequences.
#pragma once

#include "tests/codegen/families/attention/attention_case.h"

namespace sinter::test {

inline const AttentionCase kScheduledAttention[] = {
    // Few blocks take many items: places in pipeline and phases of barriers go on.
    {"items_in_turns",
     R"(graph @g(%q: f16[5, 150, 64], %k: f16[5, 140, 64], %v: f16[5, 140, 64]) {
      %y = Attention(%q, %k, %v) {scale = 0.125, causal = 1}
      return y = %y
    })",
     {{}},
     "attention rows=4x16 key_groups=1 keys=64 vector=8 stages=2 blocks=3"},
    {"long_and_short_items_in_pairs",
     R"(graph @g(%q: f16[2, 300, 64], %k: f16[2, 300, 64], %v: f16[2, 300, 64]) {
      %y = Attention(%q, %k, %v) {scale = 0.125, causal = 1}
      return y = %y
    })",
     {{}},
     "attention rows=4x16 key_groups=1 keys=64 vector=8 stages=2 blocks=6"},
    {"items_of_wide_blocks_in_turns",
     R"(graph @g(%q: f16[5, 150, 64], %k: f16[5, 240, 64], %v: f16[5, 240, 64]) {
      %y = Attention(%q, %k, %v) {scale = 0.125}
      return y = %y
    })",
     {{}},
     "attention rows=12x16 key_groups=1 keys=96 vector=8 stages=3 blocks=2"},
    {"queries_that_stay_in_turns",
     R"(graph @g(%q: bf16[5, 210, 64], %k: bf16[5, 270, 64], %v: bf16[5, 270, 64]) {
      %y = Attention(%q, %k, %v) {scale = 0.125}
      return y = %y
    })",
     {{}},
     "attention rows=12x16 key_groups=1 keys=128 vector=8 stages=2 queries=2 blocks=3"},
    {"wide_queries_that_stay",
     R"(graph @g(%q: f16[3, 150, 128], %k: f16[3, 150, 128], %v: f16[3, 150, 128]) {
      %y = Attention(%q, %k, %v) {scale = 0.0883, causal = 1}
      return y = %y
    })",
     {{}},
     "attention rows=8x16 key_groups=1 keys=96 vector=8 stages=2 queries=2 blocks=2"},
    // Rows that see no key lie between others, and a block goes on behind them.
    {"items_that_see_nothing_in_turns",
     R"(graph @g(%q: f16[3, 200, 64], %k: f16[3, 64, 64], %v: f16[3, 64, 64]) {
      %y = Attention(%q, %k, %v) {scale = 0.125, causal = 2}
      return y = %y
    })",
     {{}},
     "attention rows=4x16 key_groups=1 keys=64 vector=8 stages=2 blocks=2"},
    {"tiles_ahead",
     R"(graph @g(%q: f16[3, 2, 40], %k: f16[3, keys, 40], %v: f16[3, keys, 40])
          ranges {keys: 1..65536} {
      %y = Attention(%q, %k, %v) {scale = 0.125, causal = 2}
      return y = %y
    })",
     {{{"keys", 40}}, {{"keys", 333}}, {{"keys", 1000}}},
     "attention rows=1x16 key_groups=2 keys=32 vector=8 ahead=3 split_kv=4"},
    {"tiles_ahead_of_many_rows",
     R"(graph @g(%q: bf16[2, 20, 64], %k: bf16[2, 300, 64], %v: bf16[2, 300, 64],
                 %mask: bool[20, 300]) {
      %y = Attention(%q, %k, %v, %mask) {scale = 0.125, fill = -10000}
      return y = %y
    })",
     {{}},
     "attention rows=1x16 key_groups=4 keys=16 vector=8 ahead=2"},
    {"no_stage_to_spare",
     R"(graph @g(%q: f16[3, 70, 128], %k: f16[3, 260, 128], %v: f16[3, 260, 128]) {
      %y = Attention(%q, %k, %v) {scale = 0.0883}
      return y = %y
    })",
     {{}},
     "attention rows=8x16 key_groups=1 keys=128 vector=8 stages=1 blocks=2"},
    {"fully_masked_rows_are_hidden",
     R"(graph @g(%q: f16[18, 16], %k: f16[200, 16], %v: f16[200, 16], %none: bool[18, 200]) {
      %y = Attention(%q, %k, %v, %none) {scale = 0.2, guard = 2}
      return y = %y
    })"},
    {"random_rows_masked_or_hidden",
     R"(graph @g(%q: f16[70, 16], %k: f16[3, 16], %v: f16[3, 16], %mask: bool[70, 3]) {
      %y = Attention(%q, %k, %v, %mask) {scale = 0.2, guard = 2}
      return y = %y
    })"},
    {"packed_sequences",
     R"(graph @g(%qkv: f16[tokens, 96], %bounds: i64[bounds])
          ranges {tokens: 1..65536, bounds: 2..1024} {
      %q0 = Slice(%qkv) {starts = [0, 0], steps = [1, 1], shape = [tokens, 32]}
      %k0 = Slice(%qkv) {starts = [0, 32], steps = [1, 1], shape = [tokens, 32]}
      %v0 = Slice(%qkv) {starts = [0, 64], steps = [1, 1], shape = [tokens, 32]}
      %q1 = Reshape(%q0) {shape = [tokens, 2, 16]}
      %k1 = Reshape(%k0) {shape = [tokens, 2, 16]}
      %v1 = Reshape(%v0) {shape = [tokens, 2, 16]}
      %q = Transpose(%q1) {perm = [1, 0, 2]}
      %k = Transpose(%k1) {perm = [1, 0, 2]}
      %v = Transpose(%v1) {perm = [1, 0, 2]}
      %y = Attention(%q, %k, %v, %bounds) {scale = 0.25, packed = [512]}
      %t = Transpose(%y) {perm = [1, 0, 2]}
      %z = Reshape(%t) {shape = [tokens, 32]}
      return z = %z
    })",
     {{{"tokens", 1}, {"bounds", 2}},
      {{"tokens", 40}, {"bounds", 5}},
      {{"tokens", 300}, {"bounds", 8}},
      {{"tokens", 350}, {"bounds", 71}}}},
    {"packed_sequences_by_warpgroups",
     R"(graph @g(%q: f16[tokens, 3, 64], %k: f16[tokens, 3, 64], %v: f16[tokens, 3, 64],
                 %bounds: i64[bounds]) ranges {tokens: 1..65536, bounds: 2..1024} {
      %q1 = Transpose(%q) {perm = [1, 0, 2]}
      %k1 = Transpose(%k) {perm = [1, 0, 2]}
      %v1 = Transpose(%v) {perm = [1, 0, 2]}
      %y = Attention(%q1, %k1, %v1, %bounds) {scale = 0.125, packed = [512]}
      return y = %y
    })",
     {{{"tokens", 300}, {"bounds", 5}}, {{"tokens", 200}, {"bounds", 41}}},
     "attention rows=4x16 key_groups=1 keys=128 vector=8 stages=2 blocks=4"},
};

}  // namespace sinter::test
