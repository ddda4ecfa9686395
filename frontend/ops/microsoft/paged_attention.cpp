// SPDX-License-Identifier: Apache-2.0
// PagedAttention of com.microsoft: sequences end to end, whose keys and values lie in blocks that
// tables name. Source: ContribOperators.md of ONNX Runtime 1.32.
#include <fmt/format.h>

#include "frontend/ops/control/unroll.h"
#include "frontend/ops/microsoft/group_query.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"
#include "ir/attention_inputs.h"
#include "ir/op_def.h"

namespace sinter::frontend {
namespace {

/// Inputs by index.
struct Paged {
  static constexpr std::size_t kKeyCache = 3, kValueCache = 4, kBounds = 5, kPast = 6, kTable = 7,
                               kCos = 8, kSlots = 10, kSink = 11, kQueryNorm = 12, kKeyScale = 14;
};

void refuse_paged_forms(NodeContext& node) {
  if (node.attr_string("kv_cache_layout", "SEPARATE") != "SEPARATE")
    node.unsupported("its cache is latent (kv_cache_layout): export without absorbed heads");
  for (const char* name : {"k_quant_type", "v_quant_type"})
    if (node.attr_string(name, "NONE") != "NONE")
      node.unsupported("attribute '{}' is set; export with a cache of floats", name);
  for (const std::size_t i : {Paged::kKeyScale, Paged::kKeyScale + 1})
    if (node.has_input(i)) node.unsupported("it has scales of its cache; export with floats");
}

/// The tokens of a step: [tokens] each.
struct Tokens {
  Term sequence;  // of each token
  Term place;     // its position in that
  Term end;       // tokens of the sequence, with this step's
  Term starts;    // of sequences in the tokens, int64 [sequences + 1]
  Term table;     // blocks of sequences, int64 [sequences, blocks of one]; not mapped: negative
  Dim count, sequences;
};

Tokens read_tokens(NodeContext& node, const Dim& count) {
  const ValueId bounds = node.input(Paged::kBounds, "cumulative_sequence_length"),
                past = node.input(Paged::kPast, "past_seqlens"),
                table = node.input(Paged::kTable, "block_table");
  if (node.rank(table) != 2) node.invalid("block_table is {}, not a matrix", node.type(table));
  const Dim sequences = node.shape(table)[0];
  check_shape(node, bounds, "cumulative_sequence_length", {sequences + Dim(1)});
  check_shape(node, past, "past_seqlens", {sequences});
  const Term starts = Term(node, bounds).cast(DType::kInt64);
  // A token's sequence: how many end at it or before.
  const Term ends(node, part(node, starts.value(), 0, Dim(1), sequences));
  const Term token = iota(node, count, 0, 1);
  const Term ended =
      ends.reshape({Dim(1), sequences}).with("LessOrEqual", token.reshape({count, Dim(1)}));
  const Term sequence = reduce("ReduceSum", ended.cast(DType::kInt64), 1)
                            .with("Min", size_of_dim(node, sequences) - 1);
  const Term before = take(Term(node, past).cast(DType::kInt64), {sequence});
  const Term start = take(starts, {sequence}), end = take(ends, {sequence});
  return {sequence,
          before + token - start,
          before + end - start,
          starts,
          Term(node, table).cast(DType::kInt64),
          count,
          sequences};
}

/// A cache [blocks, block, heads, size] as rows [slots, heads, size].
ValueId as_rows(NodeContext& node, std::size_t i, const char* name, ValueId heads) {
  const ValueId cache = node.input(i, name);
  const Shape shape = node.shape(cache), own = node.shape(heads);
  if (shape.size() != 4 || shape[2] != own[1] || shape[3] != own[3])
    node.invalid("{} is {}, which does not hold heads of {}", name, node.type(cache),
                 node.type(heads));
  return node.reshape(cache, {shape[0] * shape[1], shape[2], shape[3]});
}

/// Writes the heads `x` [1, heads, tokens, size] to their slots [tokens] of a cache's rows. Tokens
/// whose `kept` is true leave the row that is there.
ValueId written(NodeContext& node, ValueId rows, ValueId x, const Term& slots,
                const std::optional<Term>& kept) {
  const Shape shape = node.shape(x);
  const Shape wanted{shape[2], shape[1], shape[3]};
  Term update(node, node.reshape(node.transpose(x, {0, 2, 1, 3}), wanted));
  if (kept)
    update = select(
        kept->reshape({shape[2], Dim(1), Dim(1)}),
        Term(node, node.add("Gather", {rows, slots.value()}, {{"axis", std::int64_t{0}}})), update);
  return node.add("Scatter",
                  {rows, update.value(), slots.reshape({shape[2], Dim(1), Dim(1)}).value(),
                   iota(node, shape[1], 1, 3).value(), iota(node, shape[3], 2, 3).value()},
                  {{"combine", std::string("none")}, {"distinct", std::int64_t{1}}});
}

/// What becomes of scores in front of the softmax: their cap, and the sinks' score as the body's
/// second result.
std::shared_ptr<const ir::Graph> score_body(NodeContext& node, const ir::Attrs& attrs,
                                            const std::vector<ValueId>& inputs, bool has_sink) {
  const double cap = node.attr_float("softcap", 0);
  if (cap <= 0 && !has_sink) return nullptr;
  std::vector<ir::TensorType> types;
  for (const ValueId input : inputs) types.push_back(node.type(input));
  const std::vector<ir::TensorType> own = ir::find_op("Attention")->body_inputs(attrs, types);
  ir::GraphBuilder body("scores");
  for (const auto& [symbol, range] : node.builder().ranges()) body.range(symbol, range);
  ValueId scores = body.input("scores", own[0]);
  if (cap > 0) {
    const ValueId limit = body.scalar(own[0].dtype, cap);
    scores = body.add("Mul", {body.add("Tanh", {body.add("Div", {scores, limit})}), limit});
  }
  body.output("", scores);
  if (has_sink) {
    const ValueId sink = body.input("sink", own[1]);
    body.output("", own[1].dtype == own[0].dtype
                        ? sink
                        : body.add("Cast", {sink}, {{"to", ir::Attr(own[0].dtype)}}));
  }
  return std::make_shared<const ir::Graph>(body.finish());
}

/// ignores 'attention_metadata' (bounds that help ONNX Runtime to choose kernels)
void paged_attention(NodeContext& node) {
  refuse_paged_forms(node);
  AttentionForm form;
  read_grouped_heads(node, form, [&](ValueId x) {
    const Shape shape = node.shape(x);
    if (shape.size() != 2) node.invalid("{} is not [tokens, heads * size]", node.type(x));
    return node.reshape(x, {Dim(1), shape[0], shape[1]});
  });
  normalise_heads(node, form, Paged::kQueryNorm);
  const Shape queries = node.shape(form.q), keys = node.shape(form.k);
  const Tokens tokens = read_tokens(node, queries[2]);
  if (node.attr_int("rotary_offset", 0) != 0)
    node.unsupported("attribute 'rotary_offset' is set, which latent caches need");
  turn_heads(node, form, Paged::kCos, tokens.place.reshape({Dim(1), tokens.count}).value());

  const Shape cache = node.shape(node.input(Paged::kKeyCache, "key_cache"));
  ValueId key_rows = as_rows(node, Paged::kKeyCache, "key_cache", form.k),
          value_rows = as_rows(node, Paged::kValueCache, "value_cache", form.v);
  // A scheduler maps the blocks of all tokens that it gives, and of those that they see.
  const Dim &block = cache[1], blocks = tokens.table.shape()[1];
  const Term size = size_of_dim(node, block);
  const Term own = take(tokens.table, {tokens.sequence, tokens.place / size}).with("Max", 0);
  const Term derived = own * size + tokens.place.with("Mod", size);
  std::optional<Term> kept;
  Term slots = derived;
  if (node.has_input(Paged::kSlots)) {
    const Term given = Term(node, node.input(Paged::kSlots, "slot_mapping")).cast(DType::kInt64);
    check_shape(node, given.value(), "slot_mapping", {tokens.count});
    kept = given.with("Less", 0);
    slots = select(*kept, derived, given);
  }
  key_rows = written(node, key_rows, form.k, slots, kept);
  value_rows = written(node, value_rows, form.v, slots, kept);
  node.output(1, node.reshape(key_rows, cache));
  node.output(2,
              node.reshape(value_rows, node.shape(node.input(Paged::kValueCache, "value_cache"))));

  const bool is_causal = node.attr_int("is_causal", 1) != 0;
  const std::int64_t window = std::max<std::int64_t>(node.attr_int("local_window_size", -1), 0);
  if (window > 0 && !is_causal) node.unsupported("it has a window, but is not causal");
  const auto group = ir::divide_exactly(queries[1], keys[1]);
  if (!group) node.invalid("{} heads of keys do not divide those of queries", keys[1]);
  const auto heads_first = [&](ValueId rows) {
    const Shape shape = node.shape(rows);
    return node.reshape(node.transpose(rows, {1, 0, 2}), {shape[1], Dim(1), shape[0], shape[2]});
  };
  // The IR's block is a number; a table of one's slots stands for blocks of another size.
  Term table = tokens.table.with("Max", 0);
  std::int64_t block_size = 1;
  if (block.is_constant() && block.value() <= 256 && (block.value() & (block.value() - 1)) == 0) {
    block_size = block.value();
  } else {
    const Shape wide{tokens.sequences, blocks * block};
    const Term key = iota(node, blocks * block, 0, 1);
    table = Term(node, node.add("Gather", {table.value(), (key / size).value()},
                                {{"axis", std::int64_t{1}}})) *
                size +
            key.with("Mod", size);
  }
  const Term limits = is_causal ? tokens.place + 1 : tokens.end;
  std::vector<ValueId> inputs = {node.reshape(form.q, {keys[1], *group, tokens.count, queries[3]}),
                                 heads_first(key_rows),
                                 heads_first(value_rows),
                                 limits.reshape({tokens.count, Dim(1)}).value(),
                                 tokens.starts.cast(DType::kInt32).value(),
                                 table.cast(DType::kInt32).value()};
  const bool has_sink = node.has_input(Paged::kSink);
  if (has_sink) {
    const ValueId sink = node.input(Paged::kSink, "head_sink");
    check_shape(node, sink, "head_sink", {queries[1]});
    inputs.push_back(node.reshape(sink, {keys[1], *group, Dim(1), Dim(1)}));
  }
  const ir::Attrs attrs = {{"scale", read_scale(node, form.q)},
                           {"causal", std::int64_t{0}},
                           {"fill", -kInfinity},
                           {"limited", std::int64_t{1}},
                           {"guard", ir::kGuardHidden},
                           {"packed", std::vector<Dim>{}},
                           {"paged", block_size},
                           {"window", window},
                           {"score_operands", std::int64_t{has_sink}}};
  const std::vector<ValueId> y = node.builder().add_multi(
      "Attention", inputs, attrs, score_body(node, attrs, inputs, has_sink));
  const Dim value_size = node.shape(form.v)[3];
  const ValueId by_token =
      node.transpose(node.reshape(y[0], {queries[1], tokens.count, value_size}), {1, 0, 2});
  node.output(0, node.reshape(by_token, {tokens.count, queries[1] * value_size}));
}

}  // namespace

const OpRows kMicrosoftPagedAttentionOps = {
    {"PagedAttention", 1, paged_attention,
     "do_rotary is_causal k_cache_dtype k_quant_type kv_cache_layout kv_num_heads "
     "local_window_size num_heads qk_norm_epsilon rotary_interleaved rotary_offset scale softcap "
     "v_cache_dtype v_head_size v_quant_type",
     kMicrosoft},
};

}  // namespace sinter::frontend
