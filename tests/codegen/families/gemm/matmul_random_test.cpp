// SPDX-License-Identifier: Apache-2.0
// Random products: views around the operands and the result, every epilogue. A body may be refused,
// but what is accepted must be right.
#include <array>
#include <numeric>
#include <random>

#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/families/gemm/library_lowering.h"
#include "codegen/targets/registry.h"
#include "fusion/passes/passes.h"
#include "ir/text/text.h"
#include "runtime/plan/expressions.h"
#include "runtime/plan/matmul_problem.h"
#include "tests/codegen/emulation/region_check.h"

namespace sinter::test {
namespace {

using ir::Dim;
using ir::ValueId;

class RandomProduct {
 public:
  explicit RandomProduct(std::uint64_t seed) : random_(seed) {
    builder_.range("batch", {1, 8, nullptr});
    builder_.range("seq", {1, 8, nullptr});
  }

  ir::Graph body() {
    const Dim rows = pick(2) ? Dim::symbol("seq") : extent(), sum = extent(), columns = extent();
    ir::Shape batch;
    for (std::int64_t d = pick(3); d > 0; --d)
      batch.push_back(pick(3) ? Dim(2 + pick(2)) : Dim::symbol("batch"));
    ir::Shape a = batch, b = pick(2) ? batch : ir::Shape{};
    for (ir::Shape* shape : {&a, &b})
      for (Dim& dim : *shape)
        if (pick(5) == 0) dim = 1;
    a.insert(a.end(), {rows, sum});
    b.insert(b.end(), {sum, columns});
    ValueId value = builder_.add("MatMul", {operand(a), operand(b)});
    if (pick(3) == 0) value = builder_.add("Mul", {value, builder_.scalar(DType::kFloat32, 0.25)});
    if (pick(3) == 0) value = add(value, {columns});
    if (pick(3) == 0) value = add(value, builder_.type(value).shape);
    if (pick(3) == 0) value = builder_.add(pick(2) ? "Relu" : "GeluTanh", {value});
    for (std::int64_t i = pick(3); i > 0; --i) value = view(value);
    builder_.output("y", value);
    return builder_.finish();
  }

 private:
  std::int64_t pick(std::int64_t below) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
  }
  Dim extent() { return std::vector<int>{1, 2, 3, 4, 6, 12}[static_cast<std::size_t>(pick(6))]; }

  ValueId input(const ir::Shape& shape) {
    return builder_.input("x" + std::to_string(inputs_++), {DType::kFloat32, shape});
  }

  ValueId add(ValueId value, const ir::Shape& shape) {
    const ValueId other = input(shape);
    return builder_.add("Add", pick(2) ? std::vector{value, other} : std::vector{other, value});
  }

  /// A value of `shape`: an input, or a view of one.
  ValueId operand(const ir::Shape& shape) {
    switch (pick(4)) {
      case 0: {
        std::vector<std::int64_t> perm(shape.size()), inverse(shape.size());
        for (std::size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<std::int64_t>(d);
        std::shuffle(perm.begin(), perm.end(), random_);
        ir::Shape from(shape.size());
        for (std::size_t d = 0; d < perm.size(); ++d)
          from[static_cast<std::size_t>(perm[d])] = shape[d];
        return builder_.add("Transpose", {input(from)}, {{"perm", perm}});
      }
      case 1: {
        ir::Shape from = shape;
        std::vector<Dim> starts(shape.size(), Dim(0));
        const auto d = static_cast<std::size_t>(pick(static_cast<std::int64_t>(shape.size())));
        if (from[d].is_constant()) {
          from[d] = from[d] + Dim(3);
          starts[d] = Dim(2);
        }
        return builder_.add("Slice", {input(from)},
                            {{"starts", starts},
                             {"steps", std::vector<std::int64_t>(shape.size(), 1)},
                             {"shape", shape}});
      }
      case 2: {
        // An input's dimensions are symbols or numbers: only the latter can be folded.
        ir::Shape from = shape;
        if (from[from.size() - 2].is_constant()) {
          from[from.size() - 2] = from[from.size() - 2] * from.back();
          from.pop_back();
        }
        return builder_.add("Reshape", {input(from)}, {{"shape", shape}});
      }
      default: return input(shape);
    }
  }

  ValueId view(ValueId value) {
    const ir::Shape shape = builder_.type(value).shape;
    if (pick(2)) {
      std::vector<std::int64_t> perm(shape.size());
      for (std::size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<std::int64_t>(d);
      std::shuffle(perm.begin(), perm.end(), random_);
      return builder_.add("Transpose", {value}, {{"perm", perm}});
    }
    ir::Shape to = shape;
    const auto d = static_cast<std::size_t>(pick(static_cast<std::int64_t>(to.size())));
    if (const auto half = ir::divide_exactly(to[d], Dim(2)); half && pick(2)) {
      to[d] = *half;
      to.insert(to.begin() + static_cast<std::ptrdiff_t>(d) + 1, Dim(2));
    } else if (d + 1 < to.size()) {
      to[d] = to[d] * to[d + 1];
      to.erase(to.begin() + static_cast<std::ptrdiff_t>(d) + 1);
    }
    return builder_.add("Reshape", {value}, {{"shape", to}});
  }

  std::mt19937_64 random_;
  ir::GraphBuilder builder_{"random"};
  int inputs_ = 0;
};

TEST(RandomProducts, AreRightOrRefused) {
  int accepted = 0;
  constexpr int kProducts = 600;
  for (int seed = 0; seed < kProducts; ++seed) {
    const ir::Graph body = RandomProduct(static_cast<std::uint64_t>(seed)).body();
    std::string difference;
    try {
      difference = check_matmul(body, {{"batch", 2}, {"seq", 3}});
      ++accepted;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) difference = error.what();
    } catch (const std::exception& error) {
      difference = error.what();
    }
    ASSERT_EQ(difference, "") << "seed " << seed << "\n" << ir::print(body);
  }
  EXPECT_GT(accepted, kProducts / 2);
}

/// A product whose operands are views of inputs: steps, transposes, what is repeated, what is split
/// or joined.
class RandomViews {
 public:
  explicit RandomViews(std::uint64_t seed) : random_(seed) {
    for (const char* symbol : {"batch", "seq"}) builder_.range(symbol, {1, 8, nullptr});
  }

  ir::Graph graph() {
    const bool is_left = pick(2);
    const ValueId drawn = operand(3 + pick(2), 4);
    const ir::Shape shape = builder_.type(drawn).shape;
    const Dim sum = shape[shape.size() - (is_left ? 1 : 2)], free = 1 + pick(6);
    ir::Shape other;
    for (std::size_t d = static_cast<std::size_t>(pick(3)); d + 2 < shape.size(); ++d)
      other.push_back(pick(3) ? Dim(1) : shape[d]);
    other.insert(other.end(), {is_left ? sum : free, is_left ? free : sum});
    const ValueId plain = builder_.input("other", {DType::kFloat32, other});
    builder_.output("y", builder_.add("MatMul", is_left ? std::vector{drawn, plain}
                                                        : std::vector{plain, drawn}));
    return builder_.finish();
  }

 private:
  std::int64_t pick(std::int64_t below) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
  }

  ValueId operand(std::int64_t rank, int views) {
    ir::Shape shape;
    for (std::int64_t d = 0; d < rank; ++d)
      shape.push_back(pick(4)
                          ? Dim(std::vector<int>{1, 1, 2, 4, 6}[static_cast<std::size_t>(pick(5))])
                      : pick(2) ? Dim::symbol("seq")
                                : Dim::symbol("batch"));
    ValueId value = builder_.input("x", {DType::kFloat32, shape});
    for (int i = 0; i < views; ++i) value = view(value);
    while (builder_.type(value).shape.size() < 2) value = split(value, 0);
    return value;
  }

  ValueId reshape(ValueId value, ir::Shape shape) {
    return builder_.add("Reshape", {value}, {{"shape", std::move(shape)}});
  }

  /// Dimension `d` becomes two, one of which has one element unless it can be halved.
  ValueId split(ValueId value, std::size_t d) {
    ir::Shape to = builder_.type(value).shape;
    const auto half = ir::divide_exactly(to[d], Dim(2));
    to.insert(to.begin() + static_cast<std::ptrdiff_t>(d), half ? Dim(2) : Dim(1));
    if (half) to[d + 1] = *half;
    return reshape(value, to);
  }

  ValueId view(ValueId value) {
    const ir::Shape shape = builder_.type(value).shape;
    const auto rank = static_cast<std::int64_t>(shape.size());
    const auto d = static_cast<std::size_t>(pick(rank));
    switch (pick(6)) {
      case 0: {
        std::vector<std::int64_t> perm(shape.size());
        std::iota(perm.begin(), perm.end(), 0);
        std::shuffle(perm.begin(), perm.end(), random_);
        return builder_.add("Transpose", {value}, {{"perm", perm}});
      }
      case 1: {
        const bool is_backward = pick(4) == 0;
        const std::int64_t step = 1 + pick(3);
        ir::Shape to = shape;
        to[d] = ir::ceil_div(shape[d], Dim(step));
        std::vector<Dim> starts(shape.size(), Dim(0));
        std::vector<std::int64_t> steps(shape.size(), 1);
        steps[d] = is_backward ? -step : step;
        if (is_backward) starts[d] = shape[d] - Dim(1);
        return builder_.add("Slice", {value},
                            {{"starts", starts}, {"steps", steps}, {"shape", to}});
      }
      case 2: {
        ir::Shape to = shape;
        to[d] = 1;
        const std::vector<Dim> starts(shape.size(), Dim(0));
        return builder_.add("Slice", {value},
                            {{"starts", starts},
                             {"steps", std::vector<std::int64_t>(shape.size(), 1)},
                             {"shape", to}});
      }
      case 3: {
        if (shape[d] != Dim(1)) return value;
        ir::Shape to = shape;
        to[d] = pick(2) ? Dim(3) : Dim::symbol("batch");
        return builder_.add("Expand", {value}, {{"shape", to}});
      }
      case 4: return rank < 5 ? split(value, d) : value;
      default: {
        if (d + 1 == shape.size() || rank < 3) return value;
        ir::Shape to = shape;
        to[d] = shape[d] * shape[d + 1];
        to.erase(to.begin() + static_cast<std::ptrdiff_t>(d) + 1);
        return reshape(value, to);
      }
    }
  }

  std::mt19937_64 random_;
  ir::GraphBuilder builder_{"random"};
};

/// Why lowering refuses the body of a product, or a library the step at some sizes; empty if none
/// does.
std::string refusal_of_library(const ir::Graph& body) {
  std::vector<std::uint32_t> inputs(body.inputs().size());
  std::iota(inputs.begin(), inputs.end(), 1U);
  try {
    codegen::ExprTable exprs(body.ranges());
    const auto step = codegen::lower_matmul(body, inputs, std::array{0U}, exprs, false);
    const std::uint32_t enough = exprs.intern(Dim(1 << 30));
    plan::fb::PlanT plan;
    exprs.write(plan);
    for (std::size_t i = 0; i <= inputs.size(); ++i)
      plan.buffers.emplace_back(std::make_unique<plan::fb::BufferT>())->bytes = enough;
    for (const std::int64_t size : {1, 2, 3, 7, 8}) {
      std::vector<std::int64_t> symbols(plan.symbols.size(), size);
      if (size > 1 && !symbols.empty()) --symbols.front();
      plan::make_matmul_problem(plan, step, plan::evaluate_expressions(plan, symbols));
    }
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(RandomProducts, LoweringTakesTheViewsThatFusionTakes) {
  int taken = 0;
  for (const codegen::Target* target : codegen::targets())
    for (std::uint64_t seed = 0; seed < 1500; ++seed) {
      const ir::Graph graph = RandomViews(seed).graph();
      fusion::Context context;
      context.target = target->traits();
      const ir::Graph fused = fusion::fuse_matmul(graph, context);
      for (const ir::Node& node : fused.nodes()) {
        if (node.op->name != "Fused") continue;
        taken += node.body->nodes().size() > 1;
        ASSERT_EQ(refusal_of_library(*node.body), "") << "seed " << seed << "\n"
                                                      << ir::print(graph);
      }
    }
  EXPECT_GT(taken, 1000);
}

}  // namespace
}  // namespace sinter::test
