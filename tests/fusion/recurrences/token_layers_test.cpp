// SPDX-License-Identifier: Apache-2.0
// Recurrences that are spelled token by token: unrolled, one step alone, and as a loop.
#include "tests/fusion/recurrences/torch_graphs.h"

namespace sinter::fusion {
namespace {

/// Ways in which the text is not the recurrence.
struct StepChange {
  bool other_keys = false, undecayed = false, unread = false;
};

/// One step of the delta rule: q, k, [.., keys], v [.., values], g [..] or [.., keys], rate [..].
struct Delta {
  Torch& t;
  bool by_channel = false;
  StepChange change = {};

  std::pair<ValueId, ValueId> step(ValueId state, ValueId q, ValueId k, ValueId v, ValueId g,
                                   ValueId rate) const {
    const ValueId before = state;
    const ValueId power = t.exp(g);
    state =
        t.mul(state, by_channel ? t.unsqueeze(power, 3) : t.unsqueeze(t.unsqueeze(power, 2), 3));
    const ValueId held = t.sum(
        t.mul(change.undecayed ? before : state, t.unsqueeze(change.other_keys ? q : k, 3)), 2);
    const ValueId written = t.mul(t.op("Sub", v, held), t.unsqueeze(rate, 2));
    state = t.op("Add", state, t.mul(t.unsqueeze(k, 3), t.unsqueeze(written, 2)));
    return {state, t.sum(t.mul(state, t.unsqueeze(q, 3)), 2)};
  }
};

ir::Graph unrolled_delta(std::int64_t tokens, bool by_channel, bool has_state,
                         const StepChange& change = {}) {
  Torch t;
  const ValueId q = t.input("q", {kBatch, kHeads, tokens, kKeys}),
                k = t.input("k", {kBatch, kHeads, tokens, kKeys}),
                v = t.input("v", {kBatch, kHeads, tokens, kValues}),
                g = by_channel ? t.input("g", {kBatch, kHeads, tokens, kKeys})
                               : t.input("g", {kBatch, kHeads, tokens}),
                rate = t.input("r", {kBatch, kHeads, tokens});
  ValueId state = has_state ? t.input("s", {kBatch, kHeads, kKeys, kValues})
                            : t.zeros({kBatch, kHeads, kKeys, kValues});
  const Delta delta{t, by_channel, change};
  std::vector<ValueId> outs;
  for (std::int64_t i = 0; i < tokens; ++i) {
    const auto [next, out] = delta.step(state, t.pick(q, 2, i), t.pick(k, 2, i), t.pick(v, 2, i),
                                        t.pick(g, 2, i), t.pick(rate, 2, i));
    state = next;
    outs.push_back(t.unsqueeze(out, 2));
  }
  if (!change.unread)
    t.b.output("y",
               outs.size() == 1 ? outs[0] : t.b.add("Concat", outs, {{"axis", std::int64_t{2}}}));
  t.b.output("state", state);
  return t.b.finish();
}

TEST(TokenLayers, DeltaRules) {
  for (const std::int64_t tokens : {1, 4})
    for (const bool by_channel : {false, true})
      for (const bool has_state : {false, true}) {
        SCOPED_TRACE(testing::Message() << tokens << by_channel << has_state);
        expect_found(unrolled_delta(tokens, by_channel, has_state), "delta");
      }
}

TEST(TokenLayers, DeltaRulesThatAreNone) {
  for (const StepChange& change : {StepChange{.other_keys = true}, StepChange{.undecayed = true},
                                   StepChange{.unread = true}}) {
    Context context = context_of_target();
    const ir::Graph found = recognise_recurrences(unrolled_delta(3, false, true, change), context);
    EXPECT_EQ(count_of(found, "LinearAttention"), 0);
  }
}

/// Mamba-1: states [batch, channels, keys], decays exp(A dt), keys for all channels.
ir::Graph mamba1(std::int64_t tokens) {
  Torch t;
  const ValueId x = t.input("x", {kBatch, kHeads, tokens}),
                dt = t.input("dt", {kBatch, kHeads, tokens}), a = t.input("a", {kHeads, kKeys}),
                b = t.input("b", {kBatch, tokens, kKeys}),
                c = t.input("c", {kBatch, tokens, kKeys});
  const ValueId wide = t.unsqueeze(dt, 3);
  const ValueId decay = t.exp(t.mul(t.view(a, {1, kHeads, 1, kKeys}), wide));
  const ValueId written = t.mul(t.mul(wide, t.unsqueeze(b, 1)), t.unsqueeze(x, 3));
  ValueId state = t.zeros({kBatch, kHeads, kKeys});
  std::vector<ValueId> outs;
  for (std::int64_t i = 0; i < tokens; ++i) {
    state = t.op("Add", t.mul(t.pick(decay, 2, i), state), t.pick(written, 2, i));
    const ValueId out = t.op("MatMul", state, t.unsqueeze(t.pick(c, 1, i), 2));
    outs.push_back(t.unsqueeze(t.pick(out, 2, 0), 2));
  }
  t.b.output("y", t.b.add("Concat", outs, {{"axis", std::int64_t{2}}}));
  t.b.output("state", state);
  return t.b.finish();
}

TEST(TokenLayers, Mamba1) { expect_found(mamba1(4), "linear"); }

/// Mamba-2's step for one token: states [batch, heads, values, keys], groups of heads share keys.
TEST(TokenLayers, Mamba2OfOneToken) {
  Torch t;
  const ValueId state = t.input("s", {kBatch, kHeads, kValues, kKeys}),
                x = t.input("x", {kBatch, kHeads, kValues}), dt = t.input("dt", {kBatch, kHeads}),
                a = t.input("a", {kHeads}), b = t.input("b", {kBatch, 2, kKeys}),
                c = t.input("c", {kBatch, 2, kKeys});
  const ValueId bias = t.expand(t.input("bias", {kHeads, 1}), {kHeads, kValues});
  const ValueId step = t.op("Add", t.expand(t.unsqueeze(dt, 2), {kBatch, kHeads, kValues}), bias);
  const ValueId wide = t.view(t.b.add("Softplus", {step}), {kBatch, kHeads, kValues, 1});
  const ValueId decay =
      t.exp(t.mul(wide, t.expand(t.view(a, {kHeads, 1, 1}), {kHeads, kValues, kKeys})));
  const auto of_heads = [&](ValueId value) {
    return t.view(t.expand(t.unsqueeze(value, 2), {kBatch, 2, kHeads / 2, kKeys}),
                  {kBatch, kHeads, kKeys});
  };
  const ValueId written = t.mul(t.mul(wide, t.unsqueeze(of_heads(b), 2)), t.unsqueeze(x, 3));
  const ValueId next = t.op("Add", t.mul(state, decay), written);
  const ValueId out = t.op("MatMul", t.view(next, {kBatch * kHeads, kValues, kKeys}),
                           t.view(of_heads(c), {kBatch * kHeads, kKeys, 1}));
  t.b.output("y", t.view(out, {kBatch, kHeads, kValues}));
  t.b.output("state", next);
  const ir::Graph found = expect_found(t.b.finish(), "linear");
  for (const ir::Node& node : found.nodes())
    if (node.op->name == "LinearAttention") {
      EXPECT_EQ(found.type(node.inputs[3]).shape.size(), 3U) << "decays by head";
    }
}

/// RWKV-7: states [batch, heads, values, keys]; what is removed has other keys than what is added.
TEST(TokenLayers, Rwkv7) {
  Torch t;
  constexpr std::int64_t kTokens = 3;
  const auto given = [&](const char* name, std::int64_t size) {
    return t.input(name, {kBatch, kTokens, kHeads, size});
  };
  const ValueId r = given("r", kKeys), w = given("w", kKeys), k = given("k", kKeys),
                v = given("v", kValues), a = given("a", kKeys), b = given("b", kKeys);
  ValueId state = t.input("s", {kBatch, kHeads, kValues, kKeys});
  const ValueId decays = t.exp(t.b.add("Neg", {t.exp(w)}));
  std::vector<ValueId> outs;
  for (std::int64_t i = 0; i < kTokens; ++i) {
    const auto row = [&](ValueId x) { return t.unsqueeze(t.pick(x, 1, i), 2); };
    const auto column = [&](ValueId x) { return t.unsqueeze(t.pick(x, 1, i), 3); };
    const ValueId removed = t.op("MatMul", state, t.op("MatMul", column(a), row(b)));
    state = t.op("Add", t.op("Add", t.mul(state, row(decays)), removed),
                 t.op("MatMul", column(v), row(k)));
    outs.push_back(t.unsqueeze(t.op("MatMul", state, column(r)), 1));
  }
  t.b.output("y", t.b.add("Concat", outs, {{"axis", std::int64_t{1}}}));
  t.b.output("state", state);
  Context context = context_of_target();
  const ir::Graph graph = t.b.finish();
  const ir::Graph found = recognise_recurrences(graph, context);
  EXPECT_EQ(count_of(found, "LinearAttention"), 1);
  EXPECT_EQ(count_of(found, "MatMul"), 0);
  expect_equal(graph, found);
}

/// The delta rule as a loop over tokens, with values that the body computes from a token's.
ir::Graph looped_delta(std::int64_t tokens, const StepChange& change = {}) {
  Torch body;
  const auto scalar = body.b.input("i", {DType::kInt64, {}});
  const ValueId state = body.input("state", {kBatch, kHeads, kKeys, kValues}),
                all = body.input("all", {tokens, kBatch, kHeads, kValues});
  const auto of_token = [&](const char* name, const Ints& shape, std::int64_t axis) {
    return body.b.add("Gather", {body.input(name, shape), scalar}, {{"axis", axis}});
  };
  const ValueId q = of_token("q", {kBatch, tokens, kHeads, kKeys}, 1),
                k = of_token("k", {kBatch, kHeads, tokens, kKeys}, 2),
                v = of_token("v", {tokens, kBatch, kHeads, kValues}, 0),
                g = of_token("g", {kBatch, tokens, kHeads}, 1),
                rate = of_token("r", {kBatch, tokens, kHeads}, 1);
  const ValueId skip = body.input("skip", {kHeads, 1});
  const Delta delta{body, false, change};
  const auto [next, out] =
      delta.step(state, q, k, v, body.b.add("Neg", {body.exp(g)}), body.b.add("Sigmoid", {rate}));
  const ValueId y = body.op("Add", out, body.mul(v, skip));
  std::vector<ValueId> operands{all, y, scalar};
  const Ints sizes{kBatch, kHeads, kValues};
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    Shape along(sizes.size() - d, ir::Dim(1));
    along.front() = sizes[d];
    operands.push_back(body.b.add("Iota", {}, {{"shape", along}}));
  }
  body.b.output("state", next);
  body.b.output("all", body.b.add("Scatter", operands));
  Torch t;
  std::vector<ValueId> inputs{t.b.constant(Tensor::from_ints(DType::kInt64, {}, {{0}})),
                              t.input("s", {kBatch, kHeads, kKeys, kValues}),
                              t.zeros({tokens, kBatch, kHeads, kValues}),
                              t.input("q", {kBatch, tokens, kHeads, kKeys}),
                              t.input("k", {kBatch, kHeads, tokens, kKeys}),
                              t.input("v", {tokens, kBatch, kHeads, kValues}),
                              t.input("g", {kBatch, tokens, kHeads}),
                              t.input("r", {kBatch, tokens, kHeads}),
                              t.input("skip", {kHeads, 1})};
  const auto results = t.b.add_multi(
      "While", inputs, {{"trips", std::vector<ir::Dim>{tokens}}, {"states", std::int64_t{2}}},
      std::make_shared<const ir::Graph>(body.b.finish()));
  t.b.output("state", results[0]);
  t.b.output("y", results[1]);
  return t.b.finish();
}

TEST(LoopLayers, DeltaRule) {
  for (const std::int64_t tokens : {1, 5}) {
    const ir::Graph graph = looped_delta(tokens);
    Context context = context_of_target();
    const ir::Graph found = recognise_recurrences(graph, context);
    EXPECT_EQ(count_of(found, "While"), 0);
    EXPECT_EQ(count_of(found, "LinearAttention"), 1);
    expect_equal(graph, found);
  }
}

TEST(LoopLayers, OtherLoopsStay) {
  Context context = context_of_target();
  const ir::Graph found = recognise_recurrences(looped_delta(5, {.other_keys = true}), context);
  EXPECT_EQ(count_of(found, "While"), 1);
}

}  // namespace
}  // namespace sinter::fusion
