// Attention regions that tests of its kernels go through.
#pragma once

#include <vector>

#include "codegen/plan/expr_table.h"
#include "ir/dim/dim.h"

namespace sinter::test {

struct AttentionCase {
  const char* name;
  const char* text;  // inputs named none.. are zero: a mask that lets nothing through
  std::vector<ir::Bindings> sizes = {{}};
  const char* schedule = "";  // empty: as chosen
};

/// What a step's expressions are for these sizes.
inline std::vector<std::int64_t> expressions_of(const codegen::ExprTable& exprs,
                                                const ir::Bindings& sizes) {
  plan::fb::PlanT plan;
  exprs.write(plan);
  std::vector<std::int64_t> symbols;
  for (const auto& symbol : plan.symbols) symbols.push_back(sizes.at(symbol->name));
  return plan::evaluate_expressions(plan, symbols);
}

inline const AttentionCase kAttentionCases[] = {
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
