// SPDX-License-Identifier: Apache-2.0
// Products on the CPU against their definition.
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/runtime/library_check.h"
#include "tests/runtime/plan/plan_builder.h"
#include "tests/support/elements.h"

namespace sinter::testing {
namespace {

/// Batched products over dense [batch.., rows, cols] tensors, transposed on request.
struct ProductCase {
  std::string name;
  std::int64_t m = 5, n = 7, k = 3;
  std::vector<std::int64_t> batch;
  std::vector<bool> a_has_batch, b_has_batch;  // empty: all
  bool a_transposed = false, b_transposed = false, d_transposed = false;
  bool b_is_weight = true, bias = false, residual = false;
  float alpha = 1;
  fb::Activation activation = fb::Activation::None;
  DType type = DType::kFloat32;
  bool special = false;  // NaN and infinities among the elements of a and of the residual
};

void PrintTo(const ProductCase& product, std::ostream* out) { *out << product.name; }

class CpuGemm : public ::testing::TestWithParam<ProductCase> {};

TEST_P(CpuGemm, AgreesWithTheDefinition) {
  const ProductCase& c = GetParam();
  PlanBuilder p;
  const auto has_batch_a = [&](std::size_t i) { return c.a_has_batch.empty() || c.a_has_batch[i]; };
  const auto has_batch_b = [&](std::size_t i) { return c.b_has_batch.empty() || c.b_has_batch[i]; };
  std::int64_t batches = 1;
  std::vector<Id> a_shape, b_shape, d_shape, batch_ids;
  std::vector<std::int64_t> a_strides(c.batch.size()), b_strides(c.batch.size()),
      d_strides(c.batch.size());
  std::int64_t a_stride = c.m * c.k, b_stride = c.k * c.n, d_stride = c.m * c.n;
  for (std::size_t i = c.batch.size(); i-- > 0;) {
    a_strides[i] = has_batch_a(i) ? a_stride : 0;
    d_strides[i] = d_stride;
    b_strides[i] = has_batch_b(i) ? b_stride : 0;
    if (has_batch_a(i)) a_stride *= c.batch[i];
    d_stride *= c.batch[i];
    if (has_batch_b(i)) b_stride *= c.batch[i];
    batches *= c.batch[i];
  }
  Bytes a = random_bytes(c.type, a_stride, 1), residual = random_bytes(c.type, d_stride, 4);
  const Bytes b = random_bytes(c.type, b_stride, 2), bias = random_bytes(c.type, c.n, 3);
  if (c.special) {
    add_special(c.type, a, c.activation);
    add_special(c.type, residual, c.activation);
  }
  const Id a_id = p.input("a", c.type, {p.constant(a_stride)});
  const Id b_id = c.b_is_weight ? p.weight_bytes(c.type, b.data(), b.size())
                                : p.input("b", c.type, {p.constant(b_stride)});
  const Id d_id = p.output("d", c.type, {p.constant(d_stride)});
  const auto matrix = [&](Id buffer, std::int64_t rows, std::int64_t cols, bool transposed,
                          const std::vector<std::int64_t>& strides) {
    std::vector<Id> batch_strides;
    for (const std::int64_t s : strides) batch_strides.push_back(p.constant(s));
    return p.matrix(buffer, p.constant(transposed ? 1 : cols), p.constant(transposed ? rows : 1),
                    batch_strides);
  };
  fb::MatmulStepT work;
  work.m = p.constant(c.m);
  work.n = p.constant(c.n);
  work.k = p.constant(c.k);
  for (const std::int64_t size : c.batch) work.batch.push_back(p.constant(size));
  work.a = matrix(a_id, c.m, c.k, c.a_transposed, a_strides);
  work.b = matrix(b_id, c.k, c.n, c.b_transposed, b_strides);
  work.d = matrix(d_id, c.m, c.n, c.d_transposed, d_strides);
  work.alpha = c.alpha;
  work.activation = c.activation;
  if (c.bias) work.bias = static_cast<int>(p.weight_bytes(c.type, bias.data(), bias.size()));
  if (c.residual)
    work.residual =
        matrix(p.input("r", c.type, {p.constant(d_stride)}), c.m, c.n, false, d_strides);
  p.matmul("product", std::move(work));

  Bytes expected(static_cast<std::size_t>(d_stride) * size_of(c.type));
  const auto at = [](std::int64_t r, std::int64_t col, std::int64_t rows, std::int64_t cols,
                     bool transposed) { return transposed ? col * rows + r : r * cols + col; };
  for (std::int64_t index = 0; index < batches; ++index) {
    std::int64_t rest = index, a0 = 0, b0 = 0, d0 = 0;
    for (std::size_t i = c.batch.size(); i-- > 0;) {
      a0 += rest % c.batch[i] * a_strides[i];
      b0 += rest % c.batch[i] * b_strides[i];
      d0 += rest % c.batch[i] * d_strides[i];
      rest /= c.batch[i];
    }
    for (std::int64_t r = 0; r < c.m; ++r)
      for (std::int64_t col = 0; col < c.n; ++col) {
        double sum = 0;
        for (std::int64_t k = 0; k < c.k; ++k)
          sum += element(c.type, a, a0 + at(r, k, c.m, c.k, c.a_transposed)) *
                 element(c.type, b, b0 + at(k, col, c.k, c.n, c.b_transposed));
        sum *= c.alpha;
        if (c.bias) sum += element(c.type, bias, col);
        if (c.residual) sum += element(c.type, residual, d0 + r * c.n + col);
        set_element(c.type, expected, d0 + at(r, col, c.m, c.n, c.d_transposed),
                    activate(c.activation, sum));
      }
  }

  const Plan plan = p.build();
  Bytes first;
  for (const int threads : {1, 2, 4}) {
    SessionOptions options;
    options.threads = threads;
    Session session(plan, options);
    session.set_input("a", {c.type, {a_stride}, a.data()});
    if (!c.b_is_weight) session.set_input("b", {c.type, {b_stride}, b.data()});
    if (c.residual) session.set_input("r", {c.type, {d_stride}, residual.data()});
    session.run();
    expect_close(c.type, expected, session.output("d"));
    session.run();
    const TensorView d = session.output("d");
    expect_close(c.type, expected, d);
    const auto* data = static_cast<const std::byte*>(d.data);
    const Bytes bytes(data, data + d.byte_count());
    if (threads == 1) first = bytes;
    EXPECT_EQ(bytes, first) << threads << " threads give another result than one";
  }
}

std::vector<ProductCase> product_cases() {
  std::vector<ProductCase> cases;
  const auto add = [&](ProductCase c, std::string name) {
    c.name = std::move(name);
    cases.push_back(std::move(c));
  };
  const ProductCase large{"", 64, 96, 128};
  add({}, "small");
  add(large, "large");
  // Few rows: tiles of six, panels of 64 columns, more parts than one.
  for (const std::int64_t m : {1, 6, 7, 13, 32, 33}) {
    ProductCase c{"", m, 1000, 300};
    add(c, "rows_" + std::to_string(m));
    c = {"", m, 201, 70};
    c.b_transposed = c.bias = c.residual = true;
    c.alpha = 0.5F;
    c.activation = fb::Activation::GeluErf;
    add(c, "rows_" + std::to_string(m) + "_with_everything");
  }
  for (const DType type : {DType::kFloat16, DType::kBFloat16, DType::kFloat64}) {
    ProductCase c{"", 17, 33, 40};
    c.type = type;
    c.bias = c.residual = true;
    c.activation = fb::Activation::GeluErf;
    add(c, std::string(to_string(type)));
  }
  // Whole panels and blocks of float64, and parts of them.
  for (const std::int64_t m : {1, 48, 130})
    for (const bool transposed : {false, true}) {
      ProductCase c{"", m, 101, 200};
      c.type = DType::kFloat64;
      c.a_transposed = c.b_transposed = c.d_transposed = transposed;
      add(c, fmt::format("f64_rows_{}{}", m, transposed ? "_transposed" : ""));
      c.batch = {2, 3};
      c.b_is_weight = false;
      c.b_has_batch = {false, true};
      c.alpha = 0.5F;
      add(c, fmt::format("f64_batch_of_{}{}", m, transposed ? "_transposed" : ""));
    }
  // Divided by columns, by rows, and in a batch of which one operand repeats.
  for (const std::int64_t m : {1, 40, 300}) {
    ProductCase c{"", m, 700, 260};
    c.type = DType::kBFloat16;
    c.bias = c.residual = true;
    c.activation = fb::Activation::Relu;
    add(c, "bf16_rows_" + std::to_string(m));
    c.alpha = 0.5F;
    add(c, "bf16_rows_" + std::to_string(m) + "_scaled");
  }
  {
    ProductCase c{"", 31, 48, 24};
    c.type = DType::kBFloat16;
    c.batch = {4, 3};
    c.b_is_weight = false;
    c.b_has_batch = {true, false};
    c.b_transposed = true;
    add(c, "bf16_batched");
  }
  // Widened: lines along either dimension, repeated matrices, weights of one and of many.
  for (int bits = 0; bits < 8; ++bits)
    for (const bool is_weight : {false, true}) {
      ProductCase c{"", 31, 130, 90};
      c.type = DType::kFloat16;
      c.a_transposed = bits & 1;
      c.b_transposed = bits & 2;
      c.d_transposed = bits & 4;
      c.bias = c.residual = true;
      c.alpha = 0.5F;
      if (!is_weight) {
        c.batch = {2, 3};
        c.b_has_batch = {false, true};
        c.a_has_batch = {true, false};
      }
      c.b_is_weight = is_weight;
      add(c, "f16_transposed_" + std::to_string(bits) + (is_weight ? "_weight" : ""));
    }
  for (int bits = 0; bits < 8; ++bits) {
    ProductCase c{"", 12, 20, 9};
    c.a_transposed = bits & 1;
    c.b_transposed = bits & 2;
    c.d_transposed = bits & 4;
    c.batch = {3};
    c.b_is_weight = false;
    add(c, "transposed_" + std::to_string(bits));
  }
  for (int number = 0; number < 4; ++number)
    for (const float alpha : {1.0F, 0.25F}) {
      ProductCase c{"", 31, 48, 24};
      c.activation = static_cast<fb::Activation>(number);
      c.bias = c.residual = true;
      c.alpha = alpha;
      add(c, "epilogue_" + std::to_string(number) + (alpha == 1 ? "" : "_scaled"));
    }
  {
    ProductCase c{"", 10, 11, 12};
    c.batch = {2, 3};
    c.b_is_weight = false;
    add(c, "batched");
    c.b_has_batch = {false, true};
    add(c, "broadcast_outer");
    c.b_has_batch = {true, false};
    add(c, "broadcast_inner");
    c.b_has_batch = {false, false};
    c.b_is_weight = true;
    add(c, "weight_for_all");
    c.bias = c.residual = true;
    c.alpha = 0.125F;
    add(c, "weight_for_all_epilogue");
    c.a_has_batch = {true, false};
    add(c, "both_repeat_inner");
    c.a_has_batch = {false, true};
    add(c, "both_repeat_outer");
    c.a_has_batch = {false, false};
    add(c, "both_repeat");
    c.b_is_weight = false;
    c.b_has_batch = {true, false};
    c.a_has_batch = {false, false};
    add(c, "both_repeat_no_weight");
    c.a_has_batch = {};
    c.b_is_weight = true;
    c.batch = {2, 3, 2, 2, 2};
    c.b_has_batch = {};
    add(c, "five_batch_dimensions");
  }
  {
    // Of sizes that are divided among threads.
    ProductCase c{"", 150, 333, 140};
    c.bias = c.residual = true;
    c.activation = fb::Activation::Relu;
    add(c, "divided");
    c.b_is_weight = false;
    add(c, "divided_no_weight");
    c.a_transposed = c.b_transposed = true;
    c.alpha = 0.5F;
    add(c, "divided_transposed");
    c.d_transposed = true;
    add(c, "divided_result_transposed");
    add({"", 3, 700, 120}, "divided_columns");
    c = {"", 21, 70, 33};
    c.batch = {3, 25};
    c.b_is_weight = false;
    c.residual = true;
    add(c, "divided_batch");
    c.b_has_batch = {true, false};
    c.bias = true;
    add(c, "divided_batch_broadcast");
    c.a_has_batch = {true, false};
    add(c, "divided_batch_both_repeat");
  }
  // Of our own, of oneDNN's, in parts, in a copy, transposed, widened.
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64})
    for (const auto activation :
         {fb::Activation::Relu, fb::Activation::GeluErf, fb::Activation::GeluTanh}) {
      const std::string name =
          fmt::format("special_{}_{}_", to_string(type), fb::EnumNameActivation(activation));
      ProductCase c{"", 7, 201, 70};
      c.type = type;
      c.activation = activation;
      c.special = true;
      add(c, name + "few_rows");
      c.m = 60;
      add(c, name + "rows");
      c.bias = c.residual = true;
      add(c, name + "everything");
      c.alpha = 0.5F;
      c.a_transposed = c.b_transposed = true;
      add(c, name + "transposed");
      if (type == DType::kFloat64) continue;
      c = {"", 150, 333, 140};
      c.type = type;
      c.activation = activation;
      c.residual = c.special = true;
      add(c, name + "divided");
      c = {"", 21, 70, 33};
      c.type = type;
      c.activation = activation;
      c.special = true;
      c.batch = {3, 2};
      c.b_has_batch = {true, false};
      c.b_is_weight = false;
      add(c, name + "batch");
    }
  add({"", 1, 64, 64}, "one_row");
  add({"", 64, 1, 64}, "one_column");
  add({"", 8, 8, 1}, "one_product");
  {
    ProductCase c{"", 4, 5, 0};
    c.bias = true;
    c.activation = fb::Activation::Relu;
    add(c, "no_products");
    ProductCase none{"", 0, 5, 3};
    add(none, "no_rows");
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, CpuGemm, ::testing::ValuesIn(product_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sinter::testing
