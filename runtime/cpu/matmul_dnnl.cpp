#include "runtime/cpu/matmul_dnnl.h"

#include <algorithm>
#include <optional>

#include <sinter/error.h>

#include "runtime/cpu/dnnl_support.h"
#include "runtime/cpu/matmul_generic.h"
#include "runtime/cpu/parallel.h"

namespace sinter::runtime::cpu {
namespace {

using plan::fb::BufferKind;
using plan::fb::MatmulStepT;
using plan::fb::MatrixT;
using dims = dnnl::memory::dims;

/// An operand for one bound shape: sizes and strides, batch first.
struct Operand {
  dims sizes, strides;
  std::int64_t offset = 0;
};

Operand operand_of(const MatrixT& matrix, std::int64_t rows, std::int64_t cols,
                   std::span<const std::int64_t> batch, std::span<const std::int64_t> values) {
  Operand operand;
  operand.offset = values[matrix.offset];
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::int64_t stride = values[matrix.batch_strides[i]];
    operand.sizes.push_back(stride == 0 ? 1 : batch[i]);  // a stride of zero repeats the matrix
    operand.strides.push_back(stride);
  }
  operand.sizes.insert(operand.sizes.end(), {rows, cols});
  operand.strides.insert(operand.strides.end(),
                         {values[matrix.row_stride], values[matrix.col_stride]});
  // oneDNN wants positive strides; those of dimensions of one element are never used.
  std::int64_t extent = 1;
  for (std::size_t i = operand.sizes.size(); i-- > 0;) {
    if (operand.sizes[i] == 1)
      operand.strides[i] = std::max<std::int64_t>(operand.strides[i], extent);
    extent = std::max(extent, operand.strides[i] * operand.sizes[i]);
  }
  return operand;
}

dnnl::memory::desc f32_desc(const Operand& operand) {
  return {operand.sizes, dnnl::memory::data_type::f32, operand.strides};
}

}  // namespace

struct MatmulDnnl::Impl {
  std::optional<BoundPrimitive> bound;
  std::optional<MatmulGeneric> generic;
};

MatmulDnnl::MatmulDnnl(const plan::PlanData& plan, const MatmulStepT& step, const BoundShape& shape,
                       PackedWeights& weights)
    : impl_(std::make_unique<Impl>()) {
  const auto is_f32 = [](const MatrixT& matrix) {
    return static_cast<DType>(matrix.dtype) == DType::kFloat32;
  };
  const auto& values = shape.expressions;
  std::vector<std::int64_t> batch;
  for (const auto size : step.batch) batch.push_back(values[size]);
  const std::int64_t m = values[step.m], n = values[step.n], k = values[step.k];
  const bool empty = m == 0 || n == 0 || k == 0 || std::count(batch.begin(), batch.end(), 0) > 0;
  constexpr std::size_t kMaxBatchDims = 4;
  if (!is_f32(*step.a) || !is_f32(*step.b) || !is_f32(*step.d) || empty ||
      batch.size() > kMaxBatchDims) {
    impl_->generic.emplace(plan, step, shape);
    return;
  }
  with_dnnl_errors("matrix product", [&] {
    const auto a = operand_of(*step.a, m, k, batch, values);
    const auto b = operand_of(*step.b, k, n, batch, values);
    const auto d = operand_of(*step.d, m, n, batch, values);
    const auto& b_buffer = *plan.meta.buffers[step.b->buffer];
    const bool b_is_weight = b_buffer.kind == BufferKind::Weight;
    const auto b_plain = f32_desc(b);
    const auto b_desc = b_is_weight ? dnnl::memory::desc(b.sizes, dnnl::memory::data_type::f32,
                                                         dnnl::memory::format_tag::any)
                                    : b_plain;
    dims bias_sizes(batch.size() + 1, 1), bias_strides(batch.size() + 1, n);
    bias_sizes.push_back(n);
    bias_strides.push_back(1);
    const dnnl::memory::desc bias_desc(bias_sizes, dnnl::memory::data_type::f32, bias_strides);

    // The primitive computes post_ops(scale * (a b + bias)): with a factor the bias is added after.
    const bool scaled = step.alpha != 1.0F;
    dnnl::primitive_attr attributes;
    dnnl::post_ops ops;
    if (scaled) attributes.set_output_scales(0, {step.alpha});
    int bias_op = -1, residual_op = -1;
    if (scaled && step.bias >= 0) {
      bias_op = ops.len();
      ops.append_binary(dnnl::algorithm::binary_add, bias_desc);
    }
    std::optional<Operand> residual;
    if (step.residual) {
      residual = operand_of(*step.residual, m, n, batch, values);
      residual_op = ops.len();
      ops.append_binary(dnnl::algorithm::binary_add, f32_desc(*residual));
    }
    append_activation(ops, step.activation);
    attributes.set_post_ops(ops);

    double multiplications = static_cast<double>(m) * static_cast<double>(n * k);
    for (const std::int64_t size : batch) multiplications *= static_cast<double>(size);
    const int threads = threads_for(multiplications);
    const ThreadCount count(threads);
    const auto describe = [&](const dnnl::memory::desc& b_layout) {
      const bool native_bias = step.bias >= 0 && !scaled;
      const auto description =
          native_bias ? dnnl::matmul::desc(f32_desc(a), b_layout, bias_desc, f32_desc(d))
                      : dnnl::matmul::desc(f32_desc(a), b_layout, f32_desc(d));
      return dnnl::matmul::primitive_desc(description, attributes, dnnl_engine());
    };
    const auto chosen = describe(b_desc);
    auto& bound = impl_->bound.emplace(dnnl::matmul(chosen), threads);
    const auto bytes = [](std::int64_t elements) {
      return static_cast<std::uint64_t>(elements) * sizeof(float);
    };
    bound.bind(DNNL_ARG_SRC, f32_desc(a), step.a->buffer, bytes(a.offset));
    bound.bind(DNNL_ARG_DST, f32_desc(d), step.d->buffer, bytes(d.offset));
    if (b_is_weight && chosen.weights_desc() != b_plain) {
      const auto data = plan.weight(b_buffer, shape.bytes_of(b_buffer));
      const auto entry = pack(weights, step.b->buffer, data.data() + bytes(b.offset), b_plain,
                              chosen.weights_desc());
      bound.bind(DNNL_ARG_WEIGHTS, entry->memory);
    } else {
      bound.bind(DNNL_ARG_WEIGHTS, b_plain, step.b->buffer, bytes(b.offset));
    }
    if (step.bias >= 0) {
      const int argument =
          scaled ? DNNL_ARG_ATTR_MULTIPLE_POST_OP(bias_op) | DNNL_ARG_SRC_1 : DNNL_ARG_BIAS;
      bound.bind(argument, bias_desc, static_cast<std::uint32_t>(step.bias));
    }
    if (residual)
      bound.bind(DNNL_ARG_ATTR_MULTIPLE_POST_OP(residual_op) | DNNL_ARG_SRC_1, f32_desc(*residual),
                 step.residual->buffer, bytes(residual->offset));
  });
}

MatmulDnnl::~MatmulDnnl() = default;
MatmulDnnl::MatmulDnnl(MatmulDnnl&&) noexcept = default;

void MatmulDnnl::execute(std::span<std::byte* const> buffers) {
  if (impl_->generic) {
    impl_->generic->execute(buffers);
    return;
  }
  with_dnnl_errors("matrix product", [&] { impl_->bound->execute(buffers); });
}

}  // namespace sinter::runtime::cpu
