// Random products: views around the operands and the result, every epilogue. A body may be refused,
// but what is accepted must be right.
#include <random>

#include <gtest/gtest.h>
#include <sinter/error.h>

#include "ir/text/text.h"
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

}  // namespace
}  // namespace sinter::test
