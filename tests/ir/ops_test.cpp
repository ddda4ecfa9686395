// SPDX-License-Identifier: Apache-2.0
// The operator table: schema, inference, index maps, decompositions.
#include <algorithm>
#include <functional>
#include <initializer_list>
#include <set>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "ir/affine.h"
#include "ir/graph.h"
#include "ir/reference/evaluate.h"

namespace sinter::ir {
namespace {

const Dim kBatch = Dim::symbol("batch"), kSeq = Dim::symbol("seq");

TensorType f32(Shape shape) { return {DType::kFloat32, std::move(shape)}; }
TensorType i64(Shape shape) { return {DType::kInt64, std::move(shape)}; }
TensorType boolean(Shape shape) { return {DType::kBool, std::move(shape)}; }
std::vector<std::int64_t> ints(std::initializer_list<std::int64_t> values) { return values; }
std::vector<Dim> dims(std::initializer_list<Dim> values) { return values; }

/// The type of one added node, as text; inputs are graph inputs.
std::string infer(std::string_view op, const std::vector<TensorType>& inputs, Attrs attrs = {}) {
  GraphBuilder builder;
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    ids.push_back(builder.input("x" + std::to_string(i), inputs[i]));
  return to_string(builder.type(builder.add(op, ids, std::move(attrs))));
}

/// A failure at `line` unless `call` is refused with a message that has every part in it. One
/// function: a matcher at each of the many calls takes the compiler seconds.
void expect_invalid(int line, const std::function<void()>& call,
                    std::initializer_list<std::string_view> parts) {
  try {
    call();
    ADD_FAILURE_AT(__FILE__, line) << "nothing was thrown";
  } catch (const Error& error) {
    const std::string_view message = error.what();
    for (const std::string_view part : parts)
      if (message.find(part) == std::string_view::npos)
        ADD_FAILURE_AT(__FILE__, line) << "'" << part << "' is not in: " << message;
  }
}
#define EXPECT_INVALID(expression, ...) \
  expect_invalid(__LINE__, [&] { (void)(expression); }, {__VA_ARGS__})

TEST(Registry, FindsEveryOperatorOnce) {
  std::set<std::string> names;
  for (const OpDef* op : all_ops()) {
    EXPECT_TRUE(names.insert(op->name).second) << op->name;
    EXPECT_EQ(find_op(op->name), op);
    EXPECT_TRUE(op->infer) << op->name;
    const bool own_evaluation =
        !op->has_body && (op->kind == OpKind::kIndexed || op->kind == OpKind::kLibrary ||
                          op->kind == OpKind::kComposite || op->kind == OpKind::kExtent);
    EXPECT_EQ(static_cast<bool>(op->evaluate), own_evaluation) << op->name;
  }
  EXPECT_TRUE(std::is_sorted(all_ops().begin(), all_ops().end(),
                             [](auto* a, auto* b) { return a->name < b->name; }));
  EXPECT_EQ(find_op("NoSuch"), nullptr);
  EXPECT_INVALID(get_op("NoSuch"), "there is no operator 'NoSuch'");
}

TEST(Registry, CommutativeOperatorsCommute) {
  const Tensor a = Tensor::from_doubles(DType::kInt32, {2}, std::vector<double>{7, -3});
  const Tensor b = Tensor::from_doubles(DType::kInt32, {2}, std::vector<double>{2, 5});
  for (const OpDef* op : all_ops()) {
    if (op->kind != OpKind::kPointwise || op->max_inputs != 2 ||
        op->pointwise().rule == TypeRule::kLogical || op->name == "Quotient")  // of floats
      continue;
    const Tensor ab[] = {a, b}, ba[] = {b, a};
    const bool commutes = evaluate_op(*op, {}, ab) == evaluate_op(*op, {}, ba);
    EXPECT_EQ(commutes, op->commutative) << op->name;
  }
}

TEST(Infer, PointwiseBroadcasts) {
  EXPECT_EQ(infer("Add", {f32({kBatch, kSeq, 384}), f32({384})}), "f32[batch, seq, 384]");
  EXPECT_EQ(infer("Less", {i64({kBatch, 1}), i64({1, kSeq})}), "bool[batch, seq]");
  EXPECT_EQ(infer("Where", {boolean({kSeq}), f32({}), f32({kBatch, 1})}), "f32[batch, seq]");
  EXPECT_EQ(infer("Cast", {i64({kSeq})}, {{"to", Attr(DType::kFloat16)}}), "f16[seq]");
  EXPECT_INVALID(infer("Add", {f32({2, 3}), f32({4})}), "Add", "[2, 3]", "[4]");
}

TEST(Infer, AttentionBroadcastsBatches) {
  const Attrs plain = {{"scale", Attr(0.5)}};
  EXPECT_EQ(infer("Attention",
                  {f32({kBatch, 4, kSeq, 16}), f32({kBatch, 1, 9, 16}), f32({4, 9, 8}),
                   boolean({kBatch, 1, 1, 9})},
                  plain),
            "f32[batch, 4, seq, 8]");
  EXPECT_INVALID(infer("Attention", {f32({3, 16}), f32({9, 8}), f32({9, 8})}, plain),
                 "q and k differ", "f32[9, 8]");
  EXPECT_INVALID(infer("Attention", {f32({3, 16}), f32({9, 16}), f32({8, 8})}, plain), "k and v");
  EXPECT_INVALID(infer("Attention", {f32({16}), f32({9, 16}), f32({9, 8})}, plain), "q [.., m, d]");
  EXPECT_INVALID(
      infer("Attention", {f32({3, 16}), f32({9, 16}), f32({9, 8}), f32({2, 3, 9})}, plain),
      "the mask cannot be broadcast to [3, 9]");
  const Attrs limited = {{"scale", Attr(0.5)}, {"limited", Attr(std::int64_t{1})}};
  EXPECT_EQ(
      infer("Attention",
            {f32({2, 3, 16}), f32({2, 9, 16}), f32({2, 9, 8}), boolean({3, 9}), i64({2, 1, 1})},
            limited),
      "f32[2, 3, 8]");
  EXPECT_INVALID(infer("Attention", {f32({3, 16}), f32({9, 16}), f32({9, 8})}, limited),
                 "no input for the limits");
  EXPECT_INVALID(
      infer("Attention", {f32({3, 16}), f32({9, 16}), f32({9, 8}), i64({3, 9})}, limited),
      "the limits cannot be broadcast to [3, 1]");
  EXPECT_INVALID(
      infer("Attention", {f32({3, 16}), f32({9, 16}), f32({9, 8}), f32({3, 1})}, limited),
      "the limits are numbers of keys");
  EXPECT_INVALID(infer("Attention", {f32({3, 16}), f32({9, 16}), f32({9, 8}), i64({3, 9})}, plain),
                 "the mask is bool");
  EXPECT_INVALID(infer("Attention", {f32({3, 16}), f32({9, 16}), f32({9, 8})},
                       {{"scale", Attr(0.5)}, {"causal", Attr(std::int64_t{3})}}),
                 "causal is 0");
  for (const std::int64_t operands : {-1, 4})
    EXPECT_INVALID(infer("Attention", {f32({3, 16}), f32({9, 16}), f32({9, 8})},
                         {{"scale", Attr(0.5)}, {"score_operands", Attr(operands)}}),
                   "score_operands is a number of inputs behind q, k and v");
  EXPECT_INVALID(infer("Attention",
                       {f32({3, 16}), f32({9, 16}), f32({9, 8}), f32({3, 9}), f32({3, 9})}, plain),
                 "takes q, k, v, a mask, limits, scales and operands of scores");
}

TEST(Infer, PointwiseChecksTypes) {
  EXPECT_INVALID(infer("Mul", {f32({2}), i64({2})}),
                 "Mul: inputs must share one element type, found f32[2], i64[2]");
  EXPECT_INVALID(infer("Erf", {i64({2})}), "Erf: needs float elements, found i64[2]");
  EXPECT_INVALID(infer("Gelu", {i64({2})}), "needs float elements");
  EXPECT_INVALID(infer("Add", {boolean({2}), boolean({2})}), "needs numbers");
  EXPECT_INVALID(infer("Less", {boolean({2}), boolean({2})}), "needs numbers");
  EXPECT_EQ(infer("Equal", {boolean({2}), boolean({2})}), "bool[2]");
  EXPECT_INVALID(infer("And", {boolean({2}), i64({2})}), "input 1 must be bool");
  EXPECT_INVALID(infer("Where", {f32({2}), f32({2}), f32({2})}), "input 0 must be bool");
  EXPECT_INVALID(infer("Add", {f32({2})}), "Add", "1 inputs");
  EXPECT_INVALID(infer("Cast", {f32({2})}), "'to' is missing");
}

TEST(Infer, Reductions) {
  const TensorType x = f32({kBatch, kSeq, 8});
  const auto attrs = [](std::vector<std::int64_t> axes, std::int64_t keep) {
    return Attrs{{"axes", Attr(std::move(axes))}, {"keepdims", Attr(keep)}};
  };
  EXPECT_EQ(infer("ReduceSum", {x}, attrs({2}, 1)), "f32[batch, seq, 1]");
  EXPECT_EQ(infer("ReduceMean", {x}, attrs({0, 2}, 0)), "f32[seq]");
  EXPECT_EQ(infer("ReduceMax", {x}, {{"axes", Attr(ints({1}))}}), "f32[batch, 1, 8]");
  EXPECT_INVALID(infer("ReduceSum", {x}, attrs({3}, 1)), "axes [3]", "f32[batch, seq, 8]");
  EXPECT_INVALID(infer("ReduceSum", {x}, attrs({2, 0}, 1)), "must be sorted");
  EXPECT_INVALID(infer("ReduceSum", {x}, attrs({-1}, 1)), "axes [-1]");
  EXPECT_INVALID(infer("ReduceSum", {x}, attrs({1}, 2)), "keepdims is 2");
  EXPECT_INVALID(infer("ReduceSum", {boolean({3})}, attrs({0}, 1)), "needs numbers");
}

TEST(Infer, ReshapeComparesElementCounts) {
  const TensorType x = f32({kBatch, kSeq, 384});
  const auto to = [](Shape shape) { return Attrs{{"shape", Attr(std::move(shape))}}; };
  EXPECT_EQ(infer("Reshape", {x}, to({kBatch, kSeq, 12, 32})), "f32[batch, seq, 12, 32]");
  EXPECT_EQ(infer("Reshape", {x}, to({kSeq * kBatch * Dim(384)})), "f32[384*batch*seq]");
  EXPECT_INVALID(infer("Reshape", {x}, to({kBatch, kSeq, 12, 33})), "f32[batch, seq, 384]",
                 "[batch, seq, 12, 33]", "elements");
  EXPECT_INVALID(infer("Reshape", {x}, to({kBatch, kBatch, 384})), "Reshape");
}

TEST(Infer, Views) {
  EXPECT_EQ(infer("Transpose", {f32({kBatch, kSeq, 4})}, {{"perm", Attr(ints({2, 0, 1}))}}),
            "f32[4, batch, seq]");
  EXPECT_INVALID(infer("Transpose", {f32({2, 3})}, {{"perm", Attr(ints({0, 0}))}}),
                 "perm [0, 0] is not a permutation of the dimensions of f32[2, 3]");
  EXPECT_EQ(infer("Expand", {f32({kBatch, 1})}, {{"shape", Attr(dims({kBatch, kSeq}))}}),
            "f32[batch, seq]");
  EXPECT_INVALID(infer("Expand", {f32({3, 4})}, {{"shape", Attr(dims({3, 1}))}}),
                 "f32[3, 4] does not broadcast to [3, 1]");
  EXPECT_EQ(
      infer("Concat", {f32({kBatch, 2}), f32({kBatch, kSeq})}, {{"axis", Attr(ints({1})[0])}}),
      "f32[batch, seq + 2]");
  EXPECT_INVALID(infer("Concat", {f32({2, 2}), f32({3, 2})}, {{"axis", Attr(ints({1})[0])}}),
                 "may differ in dimension 1 only", "f32[3, 2]");
  EXPECT_INVALID(infer("Concat", {f32({2, 2}), f32({2})}, {{"axis", Attr(ints({0})[0])}}),
                 "one rank");
  EXPECT_INVALID(infer("Concat", {f32({2, 2})}, {{"axis", Attr(ints({2})[0])}}),
                 "axis 2 is not a dimension of [2, 2]: expected 0 to 1");
  const auto pads = [](std::vector<Dim> begins, std::vector<Dim> ends) {
    return Attrs{{"begins", Attr(std::move(begins))}, {"ends", Attr(std::move(ends))}};
  };
  EXPECT_EQ(infer("Pad", {f32({kSeq, 4})}, pads({1, 0}, {kSeq, 2})), "f32[2*seq + 1, 6]");
  EXPECT_INVALID(infer("Pad", {f32({2, 4})}, pads({0, -3}, {0, -2})),
                 "leave nothing of dimension 1");
  EXPECT_INVALID(infer("Pad", {f32({2, 4})}, pads({0}, {0})), "found 1 and 1");
}

Attrs slice(std::vector<Dim> starts, std::vector<std::int64_t> steps, std::vector<Dim> shape) {
  return {{"starts", Attr(std::move(starts))},
          {"steps", Attr(std::move(steps))},
          {"shape", Attr(std::move(shape))}};
}

TEST(Infer, SliceChecksKnownEnds) {
  EXPECT_EQ(infer("Slice", {f32({10, kSeq})}, slice({9, 0}, {-3, 1}, {4, kSeq - Dim(1)})),
            "f32[4, seq - 1]");
  EXPECT_INVALID(infer("Slice", {f32({10})}, slice({0}, {3}, {5})),
                 "elements 0 to 12 of dimension 0 lie outside f32[10]");
  EXPECT_INVALID(infer("Slice", {f32({10})}, slice({2}, {-1}, {4})), "elements 2 to -1");
  EXPECT_INVALID(infer("Slice", {f32({10})}, slice({0}, {0}, {1})), "step");
  EXPECT_INVALID(infer("Slice", {f32({10, 2})}, slice({0}, {1}, {1})), "found 1, 1 and 1");
}

TEST(Infer, Windows) {
  const auto attrs = [](std::int64_t stride, std::int64_t pad) {
    return Attrs{{"strides", Attr(ints({stride}))},
                 {"dilations", Attr(ints({1}))},
                 {"pads_begin", Attr(ints({pad}))},
                 {"pads_end", Attr(ints({pad}))}};
  };
  const TensorType x = f32({kBatch, 6, kSeq});
  EXPECT_EQ(infer("Conv", {x, f32({8, 6, 3})}, attrs(1, 1)), "f32[batch, 8, seq]");
  EXPECT_EQ(infer("Conv", {x, f32({8, 6, 3}), f32({8})}, attrs(1, 0)), "f32[batch, 8, seq - 2]");
  EXPECT_INVALID(infer("Conv", {x, f32({8, 5, 3})}, attrs(1, 1)),
                 "group 1 does not divide the channels", "f32[8, 5, 3]");
  EXPECT_INVALID(infer("Conv", {x, f32({8, 6, 3}), f32({6})}, attrs(1, 1)), "bias");
  EXPECT_INVALID(infer("Conv", {x, f32({8, 6, 3, 3})}, attrs(1, 1)), "of one rank");
  EXPECT_INVALID(infer("Conv", {f32({1, 6, 2}), f32({8, 6, 3})}, attrs(1, 0)),
                 "window of 3 does not fit");
  EXPECT_INVALID(infer("Conv", {x, f32({8, 6, 3})}, attrs(0, 0)),
                 "strides [0] has a value below 1");
  Attrs last = attrs(2, 1);
  last.set("channels_last", Attr(std::int64_t{1}));
  EXPECT_EQ(infer("Conv", {f32({kBatch, 9, 6}), f32({8, 3, 6}), f32({8})}, last),
            "f32[batch, 5, 8]");
  EXPECT_INVALID(infer("Conv", {f32({kBatch, 9, 6}), f32({8, 3, 5})}, last),
                 "group 1 does not divide the channels", "f32[8, 3, 5]");
  last.set("channels_last", Attr(std::int64_t{2}));
  EXPECT_INVALID(infer("Conv", {f32({kBatch, 9, 6}), f32({8, 3, 6})}, last), "channels_last is 2");
  Attrs unfold = attrs(2, 1);
  unfold.set("kernel", Attr(ints({3})));
  EXPECT_EQ(infer("Unfold", {f32({kBatch, 6, 9})}, unfold), "f32[batch, 6, 3, 5]");
  EXPECT_INVALID(infer("Unfold", {f32({6, 9})}, unfold), "spatial dimensions");
  unfold.set("channels_last", Attr(std::int64_t{1}));
  EXPECT_EQ(infer("Unfold", {f32({kBatch, 9, 6})}, unfold), "f32[batch, 3, 5, 6]");
}

TEST(Infer, Products) {
  EXPECT_EQ(infer("MatMul", {f32({kBatch, kSeq, 4}), f32({4, 8})}), "f32[batch, seq, 8]");
  EXPECT_EQ(infer("MatMul", {f32({kBatch, 1, 2, 4}), f32({12, 4, kSeq})}),
            "f32[batch, 12, 2, seq]");
  EXPECT_INVALID(infer("MatMul", {f32({2, 3}), f32({4, 5})}), "f32[2, 3], f32[4, 5]");
  EXPECT_INVALID(infer("MatMul", {f32({3}), f32({3, 5})}), "rank 2 or more");
  EXPECT_INVALID(infer("MatMul", {f32({2, 2, 3}), f32({3, 3, 5})}), "MatMul", "f32[3, 3, 5]");
}

TEST(Infer, ProductsOfEightBitsAreTheSums) {
  const TensorType i8{DType::kInt8, {2, 3}}, u8{DType::kUInt8, {3, 5}}, i32{DType::kInt32, {3, 5}};
  EXPECT_EQ(infer("MatMul", {i8, u8}), "i32[2, 5]");
  EXPECT_EQ(infer("MatMul", {i8, {DType::kInt8, {3, 5}}}), "i32[2, 5]");
  EXPECT_INVALID(infer("MatMul", {i8, i32}), "share one element type", "i8[2, 3], i32[3, 5]");
  const Attrs attrs{{"strides", Attr(ints({1}))},
                    {"dilations", Attr(ints({1}))},
                    {"pads_begin", Attr(ints({0}))},
                    {"pads_end", Attr(ints({0}))}};
  const TensorType x{DType::kUInt8, {1, 6, 9}}, w{DType::kInt8, {8, 6, 3}};
  EXPECT_EQ(infer("Conv", {x, w, {DType::kInt32, {8}}}, attrs), "i32[1, 8, 7]");
  EXPECT_INVALID(infer("Conv", {x, w, {DType::kInt8, {8}}}, attrs), "bias", "result's type");
}

TEST(Infer, GatherAndComposites) {
  const Attrs axis1{{"axis", Attr(ints({1})[0])}};
  EXPECT_EQ(infer("Gather", {f32({30, 384, 2}), i64({kBatch, kSeq})}, axis1),
            "f32[30, batch, seq, 2]");
  EXPECT_INVALID(infer("Gather", {f32({30, 384}), f32({2})}, axis1), "indices must be integers");
  EXPECT_EQ(infer("Softmax", {f32({kBatch, kSeq})}, axis1), "f32[batch, seq]");
  EXPECT_INVALID(infer("Softmax", {i64({2, 2})}, axis1), "needs float");
  const TensorType x = f32({kBatch, kSeq, 8});
  EXPECT_EQ(infer("LayerNorm", {x, f32({8}), f32({1, 1, 8})}, {{"axis", Attr(ints({2})[0])}}),
            "f32[batch, seq, 8]");
  EXPECT_EQ(infer("RmsNorm", {x, f32({kSeq, 1})}, axis1), "f32[batch, seq, 8]");
  EXPECT_INVALID(infer("LayerNorm", {x, f32({kSeq, 8})}, {{"axis", Attr(ints({2})[0])}}),
                 "must broadcast to the normalised dimensions [8]");
  EXPECT_INVALID(infer("RmsNorm", {x, f32({7})}, axis1), "f32[7]");
}

/// The index map of one view over symbolic shapes, as text: "in0[$0, $1] if 0 <= v < e".
std::string map_text(std::string_view name, const std::vector<TensorType>& inputs, Attrs attrs) {
  const OpDef& op = get_op(name);
  GraphBuilder builder;
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    ids.push_back(builder.input("x" + std::to_string(i), inputs[i]));
  const ValueId value = builder.add(name, ids, attrs);
  attrs = builder.producer(value)->attrs;  // with the defaults
  const TensorType output = builder.type(value);
  Ranges ranges;
  const std::vector<Dim> index = index_symbols(output.shape, ranges);
  std::string text;
  for (const ViewSource& source : op.view().map(attrs, inputs, output, index, ranges)) {
    text += (text.empty() ? "in" : "; in") + std::to_string(source.input);
    text += to_string(source.index);
    for (const auto& guard : source.guards)
      text += " if 0 <= " + guard.value.to_string() + " < " + guard.extent.to_string();
  }
  return text;
}

std::string reshape_map(Shape from, Shape to) {
  return map_text("Reshape", {f32(std::move(from))}, {{"shape", Attr(std::move(to))}});
}

TEST(IndexMap, ReshapeSplitsAndMergesWithoutTouchingOtherDimensions) {
  EXPECT_EQ(reshape_map({kBatch, kSeq, 384}, {kBatch, kSeq, 12, 32}), "in0[$0, $1, 32*$2 + $3]");
  EXPECT_EQ(reshape_map({kBatch, kSeq, 12, 32}, {kBatch, kSeq, 384}),
            "in0[$0, $1, floordiv($2, 32), $2 - 32*floordiv($2, 32)]");
  EXPECT_EQ(reshape_map({kBatch, kSeq, 8}, {kBatch * kSeq, 8}),
            "in0[floordiv($0, seq), -seq*floordiv($0, seq) + $0, $1]");
  EXPECT_EQ(reshape_map({kBatch * kSeq, 8}, {kBatch, kSeq, 8}), "in0[$0*seq + $1, $2]");
}

TEST(IndexMap, ReshapeOfSizeOneDimensions) {
  EXPECT_EQ(reshape_map({kBatch, 1, kSeq}, {kBatch, kSeq}), "in0[$0, 0, $1]");
  EXPECT_EQ(reshape_map({kBatch, kSeq}, {1, kBatch, 1, kSeq, 1}), "in0[$1, $3]");
  EXPECT_EQ(reshape_map({}, {1, 1}), "in0[]");
  EXPECT_EQ(reshape_map({1, 1}, {}), "in0[0, 0]");
}

TEST(IndexMap, Views) {
  EXPECT_EQ(map_text("Transpose", {f32({kBatch, kSeq, 4})}, {{"perm", Attr(ints({2, 0, 1}))}}),
            "in0[$1, $2, $0]");
  EXPECT_EQ(map_text("Expand", {f32({kBatch, 1})}, {{"shape", Attr(dims({3, kBatch, kSeq}))}}),
            "in0[$1, 0]");
  EXPECT_EQ(map_text("Slice", {f32({kSeq, 9})}, slice({kSeq - Dim(1), 2}, {-1, 3}, {kSeq, 2})),
            "in0[-$0 + seq - 1, 3*$1 + 2]");
  EXPECT_EQ(map_text("Concat", {f32({kSeq, 2}), f32({1, 2})}, {{"axis", Attr(ints({0})[0])}}),
            "in0[$0, $1] if 0 <= $0 < seq; in1[0, $1] if 0 <= $0 - seq < 1");
  EXPECT_EQ(map_text("Pad", {f32({kSeq, 2})},
                     {{"begins", Attr(dims({2, 0}))}, {"ends", Attr(dims({0, 0}))}}),
            "in0[$0 - 2, $1] if 0 <= $0 - 2 < seq");
  EXPECT_EQ(map_text("Unfold", {f32({kBatch, 3, kSeq})},
                     {{"kernel", Attr(ints({3}))},
                      {"strides", Attr(ints({2}))},
                      {"dilations", Attr(ints({1}))},
                      {"pads_begin", Attr(ints({1}))},
                      {"pads_end", Attr(ints({1}))}}),
            "in0[$0, $1, $2 + 2*$3 - 1] if 0 <= $2 + 2*$3 - 1 < seq");
  EXPECT_EQ(map_text("Unfold", {f32({kBatch, kSeq, 3})},
                     {{"kernel", Attr(ints({3}))},
                      {"strides", Attr(ints({2}))},
                      {"dilations", Attr(ints({1}))},
                      {"pads_begin", Attr(ints({1}))},
                      {"pads_end", Attr(ints({1}))},
                      {"channels_last", Attr(std::int64_t{1})}}),
            "in0[$0, $1 + 2*$2 - 1, $3] if 0 <= $1 + 2*$2 - 1 < seq");
}

/// Maps over symbols must be the maps of every size that the symbols can take.
TEST(IndexMap, SymbolicReshapeHoldsForConcreteSizes) {
  const struct {
    Shape from, to;
  } cases[] = {
      {{kBatch, kSeq, 12}, {kBatch, kSeq, 3, 4}}, {{kBatch, kSeq, 3, 4}, {kBatch, kSeq, 12}},
      {{kBatch, kSeq, 6}, {kBatch * kSeq, 6}},    {{kBatch, kSeq, 6}, {kBatch * kSeq * Dim(6)}},
      {{kBatch * kSeq, 6}, {kBatch, kSeq, 6}},    {{kBatch, kSeq, 6}, {kSeq, kBatch, 6}},
      {{6, kBatch, 4}, {4, kBatch, 6}},           {{kBatch, 1, 4, kSeq}, {2, 2 * kBatch, kSeq}},
  };
  for (const auto& [from, to] : cases) {
    Ranges ranges;
    const TensorType in = f32(from), out = f32(to);
    const std::vector<Dim> index = index_symbols(to, ranges);
    const auto source = get_op("Reshape").view().map({{"shape", Attr(to)}}, std::span(&in, 1), out,
                                                     index, ranges)[0];
    for (const auto& [batch, seq] : {std::pair{1, 1}, {1, 5}, {3, 1}, {2, 7}}) {
      Bindings sizes{{"batch", batch}, {"seq", seq}};
      const std::int64_t count = element_count(from).evaluate(sizes);
      const Shape in_strides = contiguous_strides(from), out_strides = contiguous_strides(to);
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::size_t d = 0; d < to.size(); ++d)
          sizes[index_symbol(static_cast<int>(d))] =
              i / out_strides[d].evaluate(sizes) % to[d].evaluate(sizes);
        std::int64_t linear = 0;
        for (std::size_t d = 0; d < from.size(); ++d)
          linear += source.index[d].evaluate(sizes) * in_strides[d].evaluate(sizes);
        ASSERT_EQ(linear, i) << to_string(from) << " -> " << to_string(to);
      }
    }
  }
}

std::vector<std::string> decomposed(std::string_view name, std::vector<TensorType> inputs,
                                    Attrs attrs) {
  GraphBuilder builder;
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    ids.push_back(builder.input("x" + std::to_string(i), inputs[i]));
  Node node;
  node.op = &get_op(name);
  node.attrs = std::move(attrs);
  const auto outputs = node.op->composite().decompose(builder, node, ids);
  EXPECT_EQ(builder.type(outputs[0]), inputs[0]);
  builder.output("y", outputs[0]);
  std::vector<std::string> ops;
  const Graph graph = builder.finish();
  for (const Node& made : graph.nodes()) ops.push_back(made.op->name);
  return ops;
}

TEST(Decompose, LayerNormTakesTwoPasses) {
  const Attrs attrs{{"axis", Attr(ints({1})[0])}, {"epsilon", Attr(1e-5)}};
  const TensorType x = f32({kBatch, 8});
  EXPECT_THAT(decomposed("LayerNorm", {x, f32({8}), f32({8})}, attrs),
              testing::ElementsAre("ReduceMean", "Sub", "Square", "ReduceMean", "Add", "Rsqrt",
                                   "Mul", "Mul", "Add"));
  EXPECT_THAT(decomposed("RmsNorm", {x, f32({8})}, attrs),
              testing::ElementsAre("Square", "ReduceMean", "Add", "Rsqrt", "Mul", "Mul"));
  EXPECT_THAT(decomposed("Softmax", {x}, {{"axis", Attr(ints({1})[0])}}),
              testing::ElementsAre("ReduceMax", "Sub", "Exp", "ReduceSum", "Div"));
}

TEST(Decompose, StatisticsOfHalfPrecisionAreFloat32) {
  const TensorType x{DType::kFloat16, {2, 8}}, scale{DType::kFloat16, {8}};
  EXPECT_THAT(
      decomposed("RmsNorm", {x, scale}, {{"axis", Attr(ints({1})[0])}, {"epsilon", Attr(1e-12)}}),
      testing::ElementsAre("Cast", "Square", "ReduceMean", "Add", "Rsqrt", "Mul", "Cast", "Mul",
                           "Cast"));
}

}  // namespace
}  // namespace sinter::ir
