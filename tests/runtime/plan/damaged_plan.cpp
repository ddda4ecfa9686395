// SPDX-License-Identifier: Apache-2.0
#include "damaged_plan.h"

#include <memory>
#include <utility>

#include "runtime/plan/verify/verify_plan.h"

namespace sinter::testing {

PlanBuilder steps_of_all_kinds() {
  PlanBuilder b;
  const Id batch = b.symbol("batch", 1, 64);
  const Id four = b.constant(4), one = b.constant(1), zero = b.constant(0), two = b.constant(2);
  const Id x = b.input("x", DType::kFloat32, {batch, four});
  const Id index = b.input("index", DType::kInt64, {batch});
  const Id y = b.output("y", DType::kFloat32, {batch, four});
  const Id z = b.output("z", DType::kFloat32, {batch, one, two});
  const Id u = b.output("u", DType::kFloat32, {batch, one, two});
  const Id w = b.weight(DType::kFloat32, std::vector<float>(16, 0.5f));
  const Id kernel = b.weight(DType::kFloat32, std::vector<float>(3, 1.0f));
  const Id t = b.arena(DType::kFloat32, {batch, four});
  fb::MatmulStepT matmul;
  matmul.m = batch;
  matmul.n = matmul.k = four;
  matmul.a = b.matrix(x, four, one);
  matmul.b = b.matrix(w, four, one);
  matmul.d = b.matrix(t, four, one);
  b.matmul("product", std::move(matmul));

  LoopBuilder loop({batch, four}, 1);
  const Id value = loop.load(loop.access(t, zero, {four, one}));
  const Id row = loop.load(loop.access(index, zero, {one, zero}), DType::kInt64);
  const Id table = loop.access(w, zero, {zero, one});
  loop.access_at(table).gathers.emplace_back(row, four, four);
  const Id guarded = loop.access(x, zero, {four, one});
  loop.access_at(guarded).guards.emplace_back(loop.index_node(fb::ExprOp::Symbol, 1), two);
  const Id sum = loop.op(ScalarOp::kAdd, {loop.load(table), loop.load(guarded)});
  const Id total = loop.reduce(Combine::kSum, loop.op(ScalarOp::kMul, {value, sum}));
  loop.store(loop.access(y, zero, {four, one}), loop.op(ScalarOp::kSub, {value, total}));
  b.loop("loop", std::move(loop));

  fb::ConvStepT conv;
  conv.input = x;
  conv.weight = kernel;
  conv.output = z;
  conv.input_shape = {batch, one, four};
  conv.weight_shape = {one, one, b.constant(3)};
  conv.output_shape = {batch, one, two};
  conv.strides = conv.dilations = {1};
  conv.pads_begin = conv.pads_end = {0};
  b.conv("conv", std::move(conv));

  b.call("sort", {{x, {batch, four, one}}},
         {{b.output("places", DType::kInt64, {batch, two}), {batch, two, one}}},
         {{"descending", std::int64_t{0}}});
  b.copy("copy", z, u, b.mul(batch, b.constant(8)));
  const Id kept = b.state("kept", DType::kFloat32, {batch});
  LoopBuilder change({batch}, 0);
  const Id before = change.load(change.access(kept, zero, {one}));
  change.store(change.access(kept, zero, {one}), change.op(ScalarOp::kNeg, {before}));
  b.loop("change", std::move(change));
  return b;
}

void add_entry(fb::PlanT& plan, const char* name, Id first, Id count) {
  auto entry = std::make_unique<fb::EntryT>();
  entry->name = name;
  entry->limits.emplace_back(0, 1, 8);
  entry->first_step = first;
  entry->step_count = count;
  plan.entries.push_back(std::move(entry));
}

Bytes sample_as_entry() {
  PlanBuilder builder = steps_of_all_kinds();
  plan::PlanParts parts = builder.parts();
  add_entry(parts.meta, "few", 0, static_cast<Id>(parts.meta.steps.size()));
  return plan::serialize_plan(parts);
}

std::string refusal_of(const Bytes& bytes) {
  try {
    plan::parse_plan(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
    return error.what();
  }
  return "accepted";
}

std::string bound_refusal_of(const fb::PlanT& meta, std::int64_t batch) {
  try {
    const std::vector<std::int64_t> symbols = {batch};
    plan::verify_bound(meta, plan::evaluate_expressions(meta, symbols));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
    return error.what();
  }
  return "accepted";
}

}  // namespace sinter::testing
