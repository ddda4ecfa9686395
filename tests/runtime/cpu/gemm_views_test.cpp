// SPDX-License-Identifier: Apache-2.0
// Products on the CPU of operands that views leave: steps over rows, diagonals, results by rows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/runtime/library_check.h"
#include "tests/runtime/plan/plan_builder.h"
#include "tests/support/elements.h"

namespace sinter::testing {
namespace {

/// An operand as a view may leave it.
struct ViewSteps {
  std::vector<std::int64_t> batch_strides;
  std::int64_t row_stride, column_stride;
};

struct ViewedProduct {
  std::string name;
  std::vector<std::int64_t> batch;
  std::int64_t m, n, k;
  ViewSteps a, b, d;
  bool scaled = false;  // and a bias behind the factor
  DType type = DType::kFloat32;
  bool b_is_weight = false;

  std::int64_t matrices() const {
    std::int64_t count = 1;
    for (const std::int64_t size : batch) count *= size;
    return count;
  }
  std::int64_t start(const ViewSteps& view, std::int64_t matrix) const {
    std::int64_t place = 0;
    for (std::size_t i = batch.size(); i-- > 0; matrix /= batch[i])
      place += matrix % batch[i] * view.batch_strides[i];
    return place;
  }
  std::int64_t elements(const ViewSteps& view, std::int64_t rows, std::int64_t columns) const {
    std::int64_t last = (rows - 1) * view.row_stride + (columns - 1) * view.column_stride;
    for (std::size_t i = 0; i < batch.size(); ++i) last += (batch[i] - 1) * view.batch_strides[i];
    return last + 1;
  }
};

void PrintTo(const ViewedProduct& product, std::ostream* out) { *out << product.name; }

class CpuGemmOfViews : public ::testing::TestWithParam<ViewedProduct> {};

TEST_P(CpuGemmOfViews, AgreesWithTheDefinition) {
  const ViewedProduct& c = GetParam();
  const DType result = c.type == DType::kInt8 ? DType::kInt32 : c.type;
  const std::int64_t a_size = c.elements(c.a, c.m, c.k), b_size = c.elements(c.b, c.k, c.n),
                     d_size = c.elements(c.d, c.m, c.n);
  Bytes a = random_bytes(c.type, a_size, 1), b = random_bytes(c.type, b_size, 2);
  if (c.type == DType::kInt8)
    for (std::int64_t i = 0; i < std::max(a_size, b_size); ++i) {
      if (i < a_size) set_element(c.type, a, i, static_cast<double>(i * 7 % 255 - 127));
      if (i < b_size) set_element(c.type, b, i, static_cast<double>(i * 11 % 255 - 127));
    }
  const Bytes bias = random_bytes(c.type, c.n, 3);
  PlanBuilder p;
  const auto matrix = [&](Id buffer, const ViewSteps& view) {
    std::vector<Id> strides;
    for (const std::int64_t stride : view.batch_strides) strides.push_back(p.constant(stride));
    return p.matrix(buffer, p.constant(view.row_stride), p.constant(view.column_stride), strides);
  };
  fb::MatmulStepT work;
  work.m = p.constant(c.m);
  work.n = p.constant(c.n);
  work.k = p.constant(c.k);
  for (const std::int64_t size : c.batch) work.batch.push_back(p.constant(size));
  work.a = matrix(p.input("a", c.type, {p.constant(a_size)}), c.a);
  work.b = matrix(c.b_is_weight ? p.weight_bytes(c.type, b.data(), b.size())
                                : p.input("b", c.type, {p.constant(b_size)}),
                  c.b);
  work.d = matrix(p.output("d", result, {p.constant(d_size)}), c.d);
  if (c.scaled) {
    work.alpha = 0.5F;
    work.bias = static_cast<int>(p.weight_bytes(c.type, bias.data(), bias.size()));
  }
  p.matmul("product", std::move(work));

  Bytes expected(static_cast<std::size_t>(d_size) * size_of(result));
  for (std::int64_t i = 0; i < c.matrices(); ++i)
    for (std::int64_t r = 0; r < c.m; ++r)
      for (std::int64_t n = 0; n < c.n; ++n) {
        double sum = 0;
        for (std::int64_t k = 0; k < c.k; ++k)
          sum += element(c.type, a, c.start(c.a, i) + r * c.a.row_stride + k * c.a.column_stride) *
                 element(c.type, b, c.start(c.b, i) + k * c.b.row_stride + n * c.b.column_stride);
        if (c.scaled) sum = 0.5 * sum + element(c.type, bias, n);
        set_element(result, expected, c.start(c.d, i) + r * c.d.row_stride + n * c.d.column_stride,
                    sum);
      }
  const Plan plan = p.build();
  for (const int threads : {1, 2}) {
    SessionOptions options;
    options.threads = threads;
    Session session(plan, options);
    session.set_input("a", {c.type, {a_size}, a.data()});
    if (!c.b_is_weight) session.set_input("b", {c.type, {b_size}, b.data()});
    for (int run = 0; run < 2; ++run) {
      session.run();
      expect_close(result, expected, session.output("d"));
    }
  }
}

std::vector<ViewedProduct> viewed_products() {
  const ViewedProduct shapes[] = {
      // Every second of five rows: the last one is not followed by another.
      {"rows", {3}, 3, 7, 6, {{30}, 12, 1}, {{0}, 7, 1}, {{21}, 7, 1}},
      {"rows_of_each", {3}, 3, 7, 6, {{30}, 12, 1}, {{42}, 7, 1}, {{21}, 7, 1}},
      {"rows_of_more", {2, 3}, 3, 7, 6, {{90, 30}, 12, 1}, {{0, 42}, 7, 1}, {{63, 21}, 7, 1}},
      {"many_rows", {5}, 40, 70, 64, {{79 * 64}, 128, 1}, {{0}, 70, 1}, {{2800}, 70, 1}},
      {"columns", {3}, 3, 7, 6, {{30}, 1, 5}, {{42}, 1, 6}, {{21}, 7, 1}},
      {"right", {3}, 5, 7, 3, {{15}, 3, 1}, {{35}, 14, 1}, {{35}, 7, 1}},
      {"diagonal", {3}, 1, 2, 4, {{16}, 1, 5}, {{8}, 2, 1}, {{2}, 2, 1}},
      {"both", {3}, 3, 4, 3, {{15}, 6, 1}, {{20}, 8, 1}, {{12}, 4, 1}},
      // One matrix, whose stride lies within the other dimension of the batch.
      {"one_of_a_batch", {4, 1}, 2, 3, 4, {{10, 15}, 4, 1}, {{12, 12}, 3, 1}, {{6, 6}, 3, 1}},
      // Factor and bias, and a result by rows, then by matrices.
      {"stored_by_rows", {3}, 8, 3, 4, {{32}, 4, 1}, {{12}, 3, 1}, {{3}, 9, 1}, true},
      {"stored_by_rows_of_more",
       {2, 3},
       8,
       3,
       4,
       {{0, 32}, 4, 1},
       {{12, 0}, 3, 1},
       {{72, 3}, 9, 1},
       true},
  };
  std::vector<ViewedProduct> cases;
  for (const ViewedProduct& shape : shapes)
    for (const DType type :
         {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64, DType::kInt8})
      for (const bool is_weight : {false, true}) {
        if (type == DType::kInt8 && shape.scaled) continue;
        ViewedProduct c = shape;
        c.type = type;
        c.b_is_weight = is_weight;
        c.name += fmt::format("_{}{}", to_string(type), is_weight ? "_weight" : "");
        cases.push_back(c);
      }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, CpuGemmOfViews, ::testing::ValuesIn(viewed_products()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sinter::testing
