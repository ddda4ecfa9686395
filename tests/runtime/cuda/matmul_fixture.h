// SPDX-License-Identifier: Apache-2.0
// Matrix products as plans for the executor on a GPU: inputs, and what a plain loop gives.
#pragma once

#include <cmath>
#include <optional>
#include <random>
#include <vector>

#include "tests/runtime/cuda/cuda_fixture.h"

namespace sinter::testing {

struct MatrixLayout {
  std::int64_t row = 0, col = 0;
  std::vector<std::int64_t> batch;
  std::int64_t offset = 0;
};

struct ProductCase {
  const char* name;
  std::int64_t m, n, k;
  std::vector<std::int64_t> batch;
  MatrixLayout a, b, d;
  std::optional<MatrixLayout> residual;
  bool bias = false;
  fb::Activation activation = fb::Activation::None;
  float alpha = 1;
  int calls = 1;  // of the library
};

inline std::int64_t extent(const MatrixLayout& l, std::int64_t rows, std::int64_t cols,
                           const std::vector<std::int64_t>& batch) {
  std::int64_t last = l.offset + (rows - 1) * l.row + (cols - 1) * l.col;
  for (std::size_t i = 0; i < batch.size(); ++i) last += (batch[i] - 1) * l.batch[i];
  return last + 1;
}

class MatmulTest : public CudaTest {
 protected:
  /// The product of `test` as a plan: inputs a, b, bias and residual where it has them.
  std::shared_ptr<const plan::PlanData> plan_of(const ProductCase& test) {
    CudaPlanBuilder builder;
    const auto constant = [&](std::int64_t value) { return builder.constant(value); };
    const auto matrix = [&](Id buffer, const MatrixLayout& layout) {
      std::vector<Id> strides;
      for (const std::int64_t stride : layout.batch) strides.push_back(constant(stride));
      return builder.matrix(buffer, constant(layout.row), constant(layout.col), strides,
                            constant(layout.offset));
    };
    const auto size = [&](const MatrixLayout& layout, std::int64_t rows, std::int64_t cols) {
      return std::vector<Id>{constant(extent(layout, rows, cols, test.batch))};
    };
    fb::MatmulStepT step;
    step.m = constant(test.m);
    step.n = constant(test.n);
    step.k = constant(test.k);
    for (const std::int64_t b : test.batch) step.batch.push_back(constant(b));
    step.a = matrix(builder.input("a", DType::kFloat32, size(test.a, test.m, test.k)), test.a);
    step.b = matrix(builder.input("b", DType::kFloat32, size(test.b, test.k, test.n)), test.b);
    if (test.bias)
      step.bias =
          static_cast<std::int32_t>(builder.input("bias", DType::kFloat32, {constant(test.n)}));
    if (test.residual)
      step.residual =
          matrix(builder.input("residual", DType::kFloat32, size(*test.residual, test.m, test.n)),
                 *test.residual);
    step.d = matrix(builder.output("d", DType::kFloat32, size(test.d, test.m, test.n)), test.d);
    step.alpha = test.alpha;
    step.activation = test.activation;
    builder.matmul("product", std::move(step));
    return builder.data();
  }

  static std::vector<float> random_values(std::int64_t count, int seed) {
    std::mt19937 generator(static_cast<unsigned>(seed));
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = static_cast<float>(generator() % 2000) / 1000.0f - 1;
    return values;
  }

  void set_inputs(const ProductCase& test) {
    a = random_values(extent(test.a, test.m, test.k, test.batch), 1);
    b = random_values(extent(test.b, test.k, test.n, test.batch), 2);
    bias = random_values(test.n, 3);
    std::size_t index = 0;
    const auto set = [&](const std::vector<float>& values) {
      set_input(index++, values, {static_cast<std::int64_t>(values.size())});
    };
    set(a);
    set(b);
    if (test.bias) set(bias);
    if (test.residual) {
      residual = random_values(extent(*test.residual, test.m, test.n, test.batch), 4);
      set(residual);
    }
  }

  void check(const ProductCase& test) const {
    const std::vector<float> got = output();
    std::int64_t count = 1;
    for (const std::int64_t b_extent : test.batch) count *= b_extent;
    for (std::int64_t flat = 0; flat < count; ++flat) {
      const auto base = [&](const MatrixLayout& layout) {
        std::int64_t rest = flat;
        std::int64_t at = layout.offset;
        for (std::size_t i = test.batch.size(); i-- > 0; rest /= test.batch[i])
          at += rest % test.batch[i] * layout.batch[i];
        return at;
      };
      for (std::int64_t i = 0; i < test.m; ++i)
        for (std::int64_t j = 0; j < test.n; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < test.k; ++l)
            sum += static_cast<double>(a[base(test.a) + i * test.a.row + l * test.a.col]) *
                   b[base(test.b) + l * test.b.row + j * test.b.col];
          double value = test.alpha * sum;
          if (test.bias) value += bias[j];
          if (test.residual)
            value +=
                residual[base(*test.residual) + i * test.residual->row + j * test.residual->col];
          if (test.activation == fb::Activation::Relu) value = std::max(value, 0.0);
          if (test.activation == fb::Activation::GeluTanh)
            value = 0.5 * value *
                    (1 + std::tanh(0.7978845608 * (value + 0.044715 * value * value * value)));
          ASSERT_NEAR(got[base(test.d) + i * test.d.row + j * test.d.col], value, 1e-4)
              << "batch " << flat << " row " << i << " column " << j;
        }
    }
  }

  std::vector<float> a, b, bias, residual;
};

inline ProductCase plain_case() { return {"plain", 3, 5, 4, {}, {4, 1}, {5, 1}, {5, 1}}; }

}  // namespace sinter::testing
