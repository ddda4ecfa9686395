// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/matmul_problem.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "runtime/format_error.h"

namespace sinter::plan {
namespace {

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw invalid_plan_error(fmt::format(format, std::forward<Args>(args)...));
}

// The four matrices of a GEMM, in this order everywhere below.
enum Role { kA = 0, kB = 1, kC = 2, kD = 3 };
constexpr std::array kRoleNames{"a", "b", "residual", "d"};

struct Strided {
  bool present = false;
  DType dtype = DType::kFloat32;
  std::int64_t offset = 0, row_stride = 0, col_stride = 0;
};

struct BatchDim {
  std::int64_t extent = 1;
  std::array<std::int64_t, 4> strides{};
};

struct Shape {
  std::int64_t rows = 0, cols = 0;
};

struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  std::array<Strided, 4> matrices;
  std::vector<BatchDim> batch;  // outermost first

  bool is_empty() const {
    return m == 0 || n == 0 ||
           std::ranges::any_of(batch, [](const BatchDim& d) { return d.extent == 0; });
  }
  Shape shape(Role role) const {
    if (role == kA) return {m, k};
    if (role == kB) return {k, n};
    return {m, n};
  }
};

// Checks that the matrix's last element is in its buffer.
void check_bounds(const Product& product, Role role, std::uint64_t buffer_bytes) {
  const Strided& matrix = product.matrices[role];
  const Shape shape = product.shape(role);
  using Wide = __int128;  // for products of two 64-bit sizes
  Wide first = matrix.offset;
  Wide last = matrix.offset;
  const auto walk = [&](std::int64_t extent, std::int64_t stride) {
    const Wide reach = static_cast<Wide>(extent - 1) * stride;
    (reach < 0 ? first : last) += reach;
  };
  walk(shape.rows, matrix.row_stride);
  walk(shape.cols, matrix.col_stride);
  for (const BatchDim& dim : product.batch) walk(dim.extent, dim.strides[role]);
  if (first < 0 || (last + 1) * static_cast<Wide>(size_of(matrix.dtype)) > buffer_bytes)
    refuse("matrix {} ({}x{}, strides {} and {}, offset {}) reaches beyond its buffer of {} bytes",
           kRoleNames[role], shape.rows, shape.cols, matrix.row_stride, matrix.col_stride,
           matrix.offset, buffer_bytes);
}

Product read_product(const fb::PlanT& plan, const fb::MatmulStepT& step,
                     std::span<const std::int64_t> values) {
  const auto size = [&](std::uint32_t expression, const char* what) {
    const std::int64_t value = values[expression];
    if (value < 0) refuse("{} of a matrix product is {}", what, value);
    return value;
  };
  Product product;
  product.m = size(step.m, "m");
  product.n = size(step.n, "n");
  product.k = size(step.k, "k");
  for (std::uint32_t extent : step.batch) {
    BatchDim dim;
    dim.extent = size(extent, "a batch dimension");
    product.batch.push_back(dim);
  }
  const std::array<const fb::MatrixT*, 4> matrices{step.a.get(), step.b.get(), step.residual.get(),
                                                   step.d.get()};
  for (int role = 0; role < 4; ++role) {
    const fb::MatrixT* matrix = matrices[role];
    if (!matrix) continue;
    product.matrices[role] = {true, static_cast<DType>(matrix->dtype), values[matrix->offset],
                              values[matrix->row_stride], values[matrix->col_stride]};
    if (matrix->batch_strides.size() != product.batch.size())
      refuse("matrix {} has {} batch strides, the product {} batch dimensions", kRoleNames[role],
             matrix->batch_strides.size(), product.batch.size());
    for (std::size_t i = 0; i < product.batch.size(); ++i)
      product.batch[i].strides[role] = values[matrix->batch_strides[i]];
  }
  for (int role = 0; role < 4 && !product.is_empty(); ++role) {
    if (!matrices[role] || (product.k == 0 && role <= kB)) continue;
    const std::int64_t bytes = values[plan.buffers[matrices[role]->buffer]->bytes];
    check_bounds(product, static_cast<Role>(role),
                 static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0)));
  }
  return product;
}

enum class Order { kRowMajor, kColumnMajor };

bool has_order(const Strided& matrix, Shape shape, Order order) {
  if (order == Order::kRowMajor)
    return (shape.cols <= 1 || matrix.col_stride == 1) &&
           (shape.rows <= 1 || matrix.row_stride >= std::max<std::int64_t>(shape.cols, 1));
  return has_order({true, matrix.dtype, 0, matrix.col_stride, matrix.row_stride},
                   {shape.cols, shape.rows}, Order::kRowMajor);
}

bool is_present_and_not(const Product& product, Role role, Order order) {
  return product.matrices[role].present &&
         !has_order(product.matrices[role], product.shape(role), order);
}

// Drops dimensions of extent 1 and merges neighbours that have one common stride in every matrix.
void merge_batch(Product& product) {
  std::vector<BatchDim> merged;
  for (const BatchDim& dim : product.batch) {
    if (dim.extent == 1) continue;
    bool joins = !merged.empty();
    for (int role = 0; role < 4 && joins; ++role)
      joins = merged.back().strides[role] == dim.strides[role] * dim.extent;
    if (joins) {
      merged.back().extent *= dim.extent;
      merged.back().strides = dim.strides;
    } else {
      merged.push_back(dim);
    }
  }
  product.batch = std::move(merged);
}

// Turns a batch dimension that b lacks into rows, if a, the residual and d have matching strides:
// fewer and larger GEMMs.
bool fold_into_rows(Product& product) {
  for (std::size_t i = product.batch.size(); i-- > 0;) {
    const BatchDim dim = product.batch[i];
    if (dim.strides[kB] != 0) continue;
    Product folded = product;
    folded.batch.erase(folded.batch.begin() + static_cast<std::ptrdiff_t>(i));
    folded.m = product.m * dim.extent;
    bool fits = true;
    for (Role role : {kA, kC, kD}) {
      Strided& matrix = folded.matrices[role];
      if (!matrix.present) continue;
      if (product.m == 1)
        matrix.row_stride = dim.strides[role];
      else
        fits = fits && dim.strides[role] == product.m * matrix.row_stride;
      fits = fits && has_order(matrix, folded.shape(role), Order::kRowMajor);
    }
    if (!fits) continue;
    product = std::move(folded);
    return true;
  }
  return false;
}

// Describes the stored matrix as column-major; a row-major matrix is its transpose.
LibraryMatrix to_library(const Strided& matrix, Shape shape, Order order) {
  LibraryMatrix result;
  result.dtype = matrix.dtype;
  if (order == Order::kRowMajor) {
    result.rows = shape.cols;
    result.cols = shape.rows;
    result.leading = shape.rows <= 1 ? shape.cols : matrix.row_stride;
  } else {
    result.rows = shape.rows;
    result.cols = shape.cols;
    result.leading = shape.cols <= 1 ? shape.rows : matrix.col_stride;
  }
  return result;
}

std::string describe(const Product& product, Role role) {
  const Shape shape = product.shape(role);
  const Strided& matrix = product.matrices[role];
  return fmt::format("{} ({}x{}, strides {} and {})", kRoleNames[role], shape.rows, shape.cols,
                     matrix.row_stride, matrix.col_stride);
}

Order result_order(const Product& product) {
  for (Order order : {Order::kRowMajor, Order::kColumnMajor})
    if (!is_present_and_not(product, kD, order) && !is_present_and_not(product, kC, order))
      return order;
  refuse("the matrix product's result {} and residual {} are not stored alike",
         describe(product, kD), describe(product, kC));
}

Order operand_order(const Product& product, Role role) {
  for (Order order : {Order::kRowMajor, Order::kColumnMajor})
    if (!is_present_and_not(product, role, order)) return order;
  refuse("matrix {} is neither row-major nor column-major", describe(product, role));
}

// The longest dimension becomes the library's strided batch; separate calls cover the others.
void place_batch(const Product& product, MatmulProblem& problem) {
  constexpr std::size_t kMaxCalls = 1 << 16;
  std::vector<BatchDim> walked = product.batch;
  std::array<std::int64_t, 4> strides{};
  if (!walked.empty()) {
    const auto longest = std::ranges::max_element(
        walked, [](const BatchDim& x, const BatchDim& y) { return x.extent < y.extent; });
    problem.batch = longest->extent;
    strides = longest->strides;
    walked.erase(longest);
  }
  if (problem.batch > std::numeric_limits<std::int32_t>::max())
    refuse("a matrix product has a batch of {}", problem.batch);
  const Role first = problem.swapped ? kB : kA;
  const Role second = problem.swapped ? kA : kB;
  problem.a.batch_stride = strides[first];
  problem.b.batch_stride = strides[second];
  problem.c.batch_stride = strides[kC];
  problem.d.batch_stride = strides[kD];

  problem.calls.push_back({product.matrices[first].offset, product.matrices[second].offset,
                           product.matrices[kC].offset, product.matrices[kD].offset});
  for (const BatchDim& dim : walked) {
    if (static_cast<std::size_t>(dim.extent) > kMaxCalls / problem.calls.size())
      refuse("a matrix product needs more than {} library calls: its batch dimensions do not merge",
             kMaxCalls);
    std::vector<MatmulProblem::Call> calls;
    for (const auto& call : problem.calls)
      for (std::int64_t i = 0; i < dim.extent; ++i)
        calls.push_back({call.a + i * dim.strides[first], call.b + i * dim.strides[second],
                         call.c + i * dim.strides[kC], call.d + i * dim.strides[kD]});
    problem.calls = std::move(calls);
  }
}

}  // namespace

std::string MatmulProblem::key() const {
  const auto matrix = [](const LibraryMatrix& m) {
    return fmt::format("{}{}:{}x{}:{}:{}", to_string(m.dtype), m.transposed ? "t" : "n", m.rows,
                       m.cols, m.leading, m.batch_stride);
  };
  return fmt::format("m{} n{} k{} batch{} a={} b={} d={} c={} bias{} act{} math{}", m, n, k, batch,
                     matrix(a), matrix(b), matrix(d), has_residual ? matrix(c) : "none",
                     has_bias ? 1 : 0, static_cast<int>(activation), static_cast<int>(math));
}

MatmulProblem make_matmul_problem(const fb::PlanT& plan, const fb::MatmulStepT& step,
                                  std::span<const std::int64_t> expressions) {
  Product product = read_product(plan, step, expressions);
  MatmulProblem problem;
  problem.has_residual = product.matrices[kC].present;
  problem.has_bias = step.bias >= 0;
  problem.activation = step.activation;
  problem.math = step.math;
  problem.alpha = step.alpha;
  problem.d.dtype = product.matrices[kD].dtype;

  if (problem.has_bias) {
    const std::int64_t bytes = expressions[plan.buffers[step.bias]->bytes];
    if (bytes / static_cast<std::int64_t>(size_of(problem.d.dtype)) < product.n)
      refuse("the bias of a matrix product has {} bytes, n is {}", bytes, product.n);
  }
  if (product.is_empty()) return problem;

  merge_batch(product);
  while (fold_into_rows(product)) merge_batch(product);

  const Order order = result_order(product);
  problem.swapped = order == Order::kRowMajor;
  if (problem.has_bias && !problem.swapped && product.n > 1)
    refuse("a matrix product with a bias has a column-major result, which no library offers");
  const Role first = problem.swapped ? kB : kA;
  const Role second = problem.swapped ? kA : kB;
  const auto operand = [&](Role role) {
    const Order stored = operand_order(product, role);
    LibraryMatrix matrix = to_library(product.matrices[role], product.shape(role), stored);
    // A row-major result needs both operands transposed; row-major operands already are.
    matrix.transposed = stored != order;
    return matrix;
  };
  if (product.k > 0) {  // else the operands are empty and have no order
    problem.a = operand(first);
    problem.b = operand(second);
  }
  problem.d = to_library(product.matrices[kD], product.shape(kD), order);
  if (problem.has_residual) problem.c = to_library(product.matrices[kC], product.shape(kC), order);
  problem.m = problem.d.rows;
  problem.n = problem.d.cols;
  problem.k = product.k;
  place_batch(product, problem);
  return problem;
}

}  // namespace sinter::plan
