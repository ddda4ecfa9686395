// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <functional>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/gemm/library_lowering.h"
#include "codegen/program/describe.h"
#include "codegen/program/index_space.h"
#include "ir/affine.h"
#include "ir/dim/matrix_access.h"
#include "ir/ops/product_types.h"
#include "ir/scale_format.h"

namespace sinter::codegen {
namespace {

using ir::Walk;
using plan::fb::Activation;

constexpr const char* kSumSymbol = "$k";

enum class Role { kBatch, kRow, kColumn };
enum Operand { kA, kB, kResult, kResidual, kBias, kOperandCount };

/// A loop over the result's elements, with every operand's stride along it.
struct Axis {
  Dim extent;
  Role role = Role::kBatch;
  std::array<Dim, kOperandCount> strides;
};

/// The epilogue, read from the body.
struct Epilogue {
  double alpha = 1;
  ValueId residual, bias;
  std::vector<Dim> residual_index, bias_index;
  Activation activation = Activation::None;
  std::vector<Dim> output_index;
};

class MatmulLowering {
 public:
  MatmulLowering(const Graph& body, Buffers inputs, std::uint32_t output, ExprTable& exprs)
      : body_(body), inputs_(inputs), output_(output), exprs_(exprs), product_(find_product()) {}

  plan::fb::MatmulStepT lower(bool tf32) {
    const Shape& shape = body_.type(product_.outputs[0]).shape;
    LoopSpace space(shape, std::vector<bool>(shape.size(), false), exprs_.ranges());
    // A result stored by head becomes linear when its columns are split into heads.
    constexpr int kMostSplits = 16;
    for (int attempt = 0;; ++attempt) {
      wanted_split_.reset();
      plan::fb::MatmulStepT step = lower_over(space, attempt < kMostSplits, tf32);
      if (!wanted_split_) return step;
      space.split(*wanted_split_);
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::kUnsupported, fmt::format("{}: {}", describe(product_), why));
  }

  const Node& find_product() const {
    const Node* found = nullptr;
    for (const Node& node : body_.nodes()) {
      if (node.op->kind != OpKind::kLibrary) continue;
      if (found || node.op->name != "MatMul")
        throw Error(ErrorCode::kUnsupported,
                    describe(node) +
                        ": a matrix product's region holds one product and no other "
                        "library operator");
      found = &node;
    }
    if (!found) throw Error(ErrorCode::kInternal, "a matmul region without a product");
    return *found;
  }

  plan::fb::MatmulStepT lower_over(const LoopSpace& space, bool may_split, bool tf32) {
    const ValueId a = product_.inputs[0], b = product_.inputs[1];
    const Shape& a_shape = body_.type(a).shape;
    const Shape& shape = body_.type(product_.outputs[0]).shape;
    const Dim k = a_shape.back();
    ranges_ = space.ranges();
    ranges_.insert_or_assign(kSumSymbol, ir::index_range(k, ranges_));
    symbols_ = ir::index_symbol_names(space.loops().size());
    symbols_.emplace_back(kSumSymbol);
    space_ = &space;
    may_split_ = may_split;

    const Dim sum_index = k == Dim(1) ? Dim(0) : Dim::symbol(kSumSymbol);
    const std::size_t rank = shape.size();
    std::vector<Dim> a_index = batch_index(a_shape);
    a_index.insert(a_index.end(), {space.index()[rank - 2], sum_index});
    const Source a_source = trace(a, a_index, "the left operand");
    const Source b_source = is_quantized() ? quantized_source(sum_index)
                                           : right_source(b, sum_index, space.index()[rank - 1]);
    const Epilogue epilogue = read_epilogue();
    const ValueId out = body_.outputs()[0];
    const TensorType& out_type = body_.type(out);
    const AddressParts result =
        linear(linearize(epilogue.output_index, out_type.shape), "the result");

    std::optional<Source> residual, bias;
    if (epilogue.residual.valid())
      residual = trace(epilogue.residual, epilogue.residual_index, "the residual");
    if (epilogue.bias.valid()) bias = trace(epilogue.bias, epilogue.bias_index, "the bias");
    if (wanted_split_) return {};

    std::vector<Axis> axes;
    for (std::size_t loop = 0; loop < space.loops().size(); ++loop) {
      Axis axis;
      axis.extent = space.loops()[loop].extent;
      const std::size_t d = space.dimension_of(loop);
      axis.role = d + 2 < rank ? Role::kBatch : d + 2 == rank ? Role::kRow : Role::kColumn;
      axis.strides = {a_source.parts.strides[loop], b_source.parts.strides[loop],
                      result.strides[loop], residual ? residual->parts.strides[loop] : Dim(0),
                      bias ? bias->parts.strides[loop] : Dim(0)};
      axes.push_back(std::move(axis));
    }
    const Walk a_depth{k, a_source.parts.strides.back()}, b_depth{k, b_source.parts.strides.back()};
    merge(axes, a_depth, b_depth);
    const Axis row = take_rows(axes, a_depth);
    const Axis column = take_columns(axes, b_depth, row);

    plan::fb::MatmulStepT step;
    step.m = exprs_.intern(row.extent);
    step.n = exprs_.intern(column.extent);
    step.k = exprs_.intern(k);
    for (const Axis& axis : axes) step.batch.push_back(exprs_.intern(axis.extent));
    step.a = matrix(a_source.buffer, body_.type(a_source.value).dtype, a_source.parts.offset,
                    walk(row, kA), a_depth, axes, kA, "the left operand");
    step.b = matrix(b_source.buffer, body_.type(b_source.value).dtype, b_source.parts.offset,
                    b_depth, walk(column, kB), axes, kB, "the right operand");
    step.d = matrix(output_, out_type.dtype, result.offset, walk(row, kResult),
                    walk(column, kResult), axes, kResult, "the result");
    if (residual)
      step.residual =
          matrix(residual->buffer, body_.type(residual->value).dtype, residual->parts.offset,
                 walk(row, kResidual), walk(column, kResidual), axes, kResidual, "the residual");
    if (bias) set_bias(step, *bias, row, column, axes, out_type.dtype);
    step.alpha = static_cast<float>(epilogue.alpha);
    step.activation = epilogue.activation;

    const DType type = body_.type(a_source.value).dtype;
    if (is_quantized()) {
      step.quantization = quantization(k);
      for (const Axis& axis : axes)
        if (axis.strides[kB] != Dim(0)) refuse("its columns are not stored as one row");
      return step;
    }
    const DType b_type = body_.type(b_source.value).dtype;
    const auto sums = ir::product_type(type, b_type);
    const bool exact = is_integer(type) && sums == out_type.dtype && epilogue.alpha == 1 &&
                       epilogue.activation == Activation::None;
    const bool mixes = type != b_type && sums != body_.type(product_.outputs[0]).dtype;
    if (mixes || !(exact || (is_float(type) && is_float(out_type.dtype))))
      refuse(
          fmt::format("a product of {} and {} into {}: both operands must have one type or 8 bits, "
                      "and all types "
                      "must be floating-point, or integers with nothing but sums behind",
                      to_string(type), to_string(b_type), to_string(out_type.dtype)));
    if (tf32 && type == DType::kFloat32) step.math = plan::fb::MathMode::Tf32;
    return step;
  }

  struct Source {
    ValueId value;
    std::uint32_t buffer = 0;
    AddressParts parts;
  };

  bool is_quantized() const { return ir::has_scaled_weights(product_); }

  Source right_source(ValueId b, const Dim& sum_index, const Dim& column) {
    std::vector<Dim> index = batch_index(body_.type(b).shape);
    if (ir::has_scaled_operands(product_))
      index.insert(index.end(), {column, sum_index});
    else
      index.insert(index.end(), {sum_index, column});
    return trace(b, index, "the right operand");
  }

  ir::ScaleFormat format() const { return *ir::ProductFormats(product_.attrs).w; }

  /// Quantized weights have the layout [n, k], packed at their bit width.
  Source quantized_source(const Dim& sum_index) {
    const ValueId weight = product_.inputs[1];
    const std::int64_t stored = body_.type(weight).shape[1].value();
    const Dim pitch = format().codes->bits == 4 ? 2 * stored : stored;
    const Dim column = body_.type(weight).shape[0] == Dim(1) ? Dim(0) : space_->index().back();
    return {weight, buffer_of(weight, "the quantized weight"),
            linear(column * pitch + sum_index, "the quantized weight")};
  }

  std::unique_ptr<plan::fb::QuantizationT> quantization(const Dim& k) {
    auto result = std::make_unique<plan::fb::QuantizationT>();
    result->bits = static_cast<std::uint8_t>(format().codes->bits);
    result->numbers = ir::numbers_in_units(*format().codes);
    if (!result->numbers.empty()) result->unit = static_cast<float>(format().codes->unit);
    const std::int64_t group = format().depth, whole = std::max<std::int64_t>(k.value(), 1);
    result->group = static_cast<std::uint64_t>(group == 0 ? whole : std::min(group, whole));
    result->scales = buffer_of(product_.inputs[2], "the scales");
    std::size_t next = 3;
    const auto read = [&](bool is_there, std::int32_t& to, const char* what) {
      if (is_there) to = static_cast<std::int32_t>(buffer_of(product_.inputs[next++], what));
    };
    read(format().zero.has_value(), result->zero_points, "the zero points");
    read(format().has_factors, result->factors, "the factors");
    read(format().offset.has_value(), result->offsets, "the offsets");
    return result;
  }

  /// Index of an operand's batch dimensions, aligned with the result's from the right.
  std::vector<Dim> batch_index(const Shape& shape) const {
    const std::size_t rank = space_->shape().size();
    std::vector<Dim> index;
    for (std::size_t d = 0; d + 2 < shape.size(); ++d)
      index.push_back(shape[d] == Dim(1) ? Dim(0) : space_->index()[rank - shape.size() + d]);
    return index;
  }

  /// Traces `value` at `index` through views to an input of the region.
  Source trace(ValueId value, std::span<const Dim> index, const char* what) {
    const ir::TracedView traced = ir::trace_view(body_, value, index, ranges_);
    if (traced.sources.size() != 1 || !traced.sources[0].guards.empty())
      refuse(fmt::format("{} is padded or concatenated", what));
    const ir::TracedSource& source = traced.sources[0];
    const std::uint32_t buffer = buffer_of(source.source, what);
    std::vector<Dim> position = source.index;
    const Shape& shape = body_.type(source.source).shape;
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (shape[d] == Dim(1)) position[d] = Dim(0);
    return {source.source, buffer, linear(linearize(position, shape), what)};
  }

  /// The buffer of an input of the region.
  std::uint32_t buffer_of(ValueId value, const char* what) const {
    if (const auto at = body_.input_number(value)) return inputs_[*at];
    const Node* node = body_.producer(value);
    refuse(fmt::format("{} is {}, not a view of an input of the region", what,
                       node ? "made by " + describe(*node) : "a constant"));
  }

  AddressParts linear(const Dim& address, const char* what) {
    AddressParts parts = split_address(ir::simplify(address, ranges_), symbols_, ranges_);
    if (parts.rest == Dim(0) || wanted_split_) return parts;
    if (may_split_) wanted_split_ = space_->find_split(parts.rest);
    if (!wanted_split_)
      refuse(fmt::format("{} is not a strided access of a dense tensor ({})", what,
                         address.to_string()));
    return parts;
  }

  /// Follows the nodes from the GEMM to the region's output.
  Epilogue read_epilogue() const {
    Epilogue result;
    result.output_index = space_->index();
    ValueId current = product_.outputs[0];
    if (body_.outputs().size() != 1) refuse("a matrix product's region has one output");
    while (current != body_.outputs()[0]) {
      const auto& users = body_.users(current);
      if (users.size() != 1 || body_.is_output(current))
        refuse("the product has another reader within its region");
      const Node& node = body_.node(users[0]);
      apply(node, current, result);
      current = node.outputs[0];
    }
    if (!body_.users(current).empty()) refuse("the region's output is read within it");
    return result;
  }

  void apply(const Node& node, ValueId current, Epilogue& result) const {
    const std::string& op = node.op->name;
    const Shape& from = body_.type(current).shape;
    const Shape& to = body_.type(node.outputs[0]).shape;
    std::vector<Dim>& index = result.output_index;
    if (op == "Transpose") {
      std::vector<Dim> next;
      for (const std::int64_t d : node.attrs.get_ints("perm"))
        next.push_back(index[static_cast<std::size_t>(d)]);
      index = std::move(next);
      return;
    }
    if (op == "Reshape") {
      index = delinearize(linearize(index, from), to, ranges_);
      return;
    }
    if (op == "Cast" && is_arithmetic_float(body_.type(current).dtype) &&
        is_arithmetic_float(body_.type(node.outputs[0]).dtype))
      return;
    if (result.activation != Activation::None) refuse(describe(node) + " follows the activation");
    if (op == "Relu" || op == "Gelu" || op == "GeluTanh") {
      result.activation = op == "Relu"   ? Activation::Relu
                          : op == "Gelu" ? Activation::GeluErf
                                         : Activation::GeluTanh;
      return;
    }
    if (op != "Add" && op != "Mul" && op != "Div")
      refuse(describe(node) + " cannot follow the product within one library call");
    const bool left = node.inputs[0] == current;
    const ValueId other = node.inputs[left ? 1 : 0];
    if (other == current || (op == "Div" && !left) ||
        ir::element_count(from) != ir::element_count(to))
      refuse(describe(node) + " cannot follow the product within one library call");
    index.insert(index.begin(), to.size() - from.size(), Dim(0));
    if (op == "Add") {
      add(node, other, result);
      return;
    }
    const Tensor* factor = body_.value(other).constant.get();
    if (!factor || factor->element_count() != 1)
      refuse(describe(node) + ": only a constant scalar factor can follow the product");
    if (result.bias.valid() || result.residual.valid())
      refuse(describe(node) + " scales the sum of the product and what was added to it");
    result.alpha = op == "Mul" ? result.alpha * factor->at(0) : result.alpha / factor->at(0);
  }

  void add(const Node& node, ValueId other, Epilogue& result) const {
    const Shape& to = body_.type(node.outputs[0]).shape;
    const Shape& shape = body_.type(other).shape;
    std::vector<Dim> index(result.output_index.end() - static_cast<std::ptrdiff_t>(shape.size()),
                           result.output_index.end());
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (shape[d] == Dim(1)) index[d] = Dim(0);
    // A bias is the same for all rows and batches; with one row both readings are right.
    const Dim columns = space_->shape().back();
    // It also begins where its buffer does, unlike a row of a larger tensor.
    const bool along_columns = ir::element_count(shape) == columns && is_column_index(index) &&
                               body_.producer(other) == nullptr;
    if (along_columns && !result.bias.valid()) {
      result.bias = other;
      result.bias_index = std::move(index);
      return;
    }
    if (result.residual.valid())
      refuse(describe(node) + ": the library call takes one bias and one residual");
    if (ir::element_count(shape) != ir::element_count(to))
      refuse(fmt::format(
          "{}: {} is added, which is neither a bias of {} elements nor of the "
          "result's shape {}",
          describe(node), ir::to_string(shape), columns.to_string(), ir::to_string(to)));
    result.residual = other;
    result.residual_index = std::move(index);
  }

  /// True if no index depends on a row or batch loop.
  bool is_column_index(std::span<const Dim> index) const {
    for (const Dim& dim : index) {
      for (const std::string& name : index_symbols_of(dim)) {
        const auto loop =
            static_cast<std::size_t>(std::ranges::find(symbols_, name) - symbols_.begin());
        if (space_->dimension_of(loop) + 1 != space_->shape().size()) return false;
      }
    }
    return true;
  }

  static Walk walk(const Axis& axis, Operand operand) {
    return {axis.extent, axis.strides[operand]};
  }

  /// Merges axes that every operand strides alike, until none are left.
  void merge(std::vector<Axis>& axes, const Walk& a_depth, const Walk& b_depth) const {
    const auto joined = [&](const Axis& outer, const Axis& inner) -> std::optional<Axis> {
      if (outer.role != inner.role && outer.role != Role::kBatch && inner.role != Role::kBatch)
        return std::nullopt;
      for (std::size_t o = 0; o < kOperandCount; ++o)
        if (outer.strides[o] != inner.strides[o] * inner.extent) return std::nullopt;
      Axis axis = inner;
      axis.extent = outer.extent * inner.extent;
      if (axis.role == Role::kBatch) axis.role = outer.role;
      const bool fits =
          axis.role == Role::kBatch ||
          (axis.role == Role::kRow ? ir::is_addressable(walk(axis, kA), a_depth, ranges_)
                                   : ir::is_addressable(b_depth, walk(axis, kB), ranges_));
      return fits ? std::optional(std::move(axis)) : std::nullopt;
    };
    for (std::size_t i = 0; i < axes.size(); ++i) {
      for (std::size_t j = 0; j < axes.size(); ++j) {
        if (i == j) continue;
        std::optional<Axis> axis = joined(axes[i], axes[j]);
        if (!axis) continue;
        axes[j] = *std::move(axis);
        axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
        merge(axes, a_depth, b_depth);
        return;
      }
    }
  }

  /// Removes and returns the innermost axis of `role`; for a single row (or column) the innermost
  /// batch axis that `fits`.
  static Axis take(std::vector<Axis>& axes, Role role,
                   const std::function<bool(const Axis&)>& fits) {
    auto found = std::find_if(axes.rbegin(), axes.rend(),
                              [&](const Axis& axis) { return axis.role == role; });
    if (found == axes.rend())
      found = std::find_if(axes.rbegin(), axes.rend(), [&](const Axis& axis) {
        return axis.role == Role::kBatch && fits(axis);
      });
    if (found == axes.rend()) return Axis{Dim(1), role, {}};
    Axis result = *found;
    axes.erase(std::next(found).base());
    return result;
  }

  /// True if result and residual are matrices with the rows of `row` and the columns of `column`.
  bool stores(const Axis& row, const Axis& column) const {
    return std::ranges::all_of(std::array{kResult, kResidual}, [&](Operand o) {
      return (o == kResidual && row.strides[o] == Dim(0) && column.strides[o] == Dim(0)) ||
             ir::is_addressable(walk(row, o), walk(column, o), ranges_);
    });
  }

  /// A batch axis along which the right side is constant becomes rows, if the left side's stride
  /// fits.
  Axis take_rows(std::vector<Axis>& axes, const Walk& depth) const {
    const auto columns = std::find_if(axes.rbegin(), axes.rend(),
                                      [](const Axis& axis) { return axis.role == Role::kColumn; });
    const Axis column = columns == axes.rend() ? Axis{Dim(1), Role::kColumn, {}} : *columns;
    return take(axes, Role::kRow, [&](const Axis& axis) {
      return axis.strides[kB] == Dim(0) && stores(axis, column) &&
             ir::is_addressable(walk(axis, kA), depth, ranges_);
    });
  }

  Axis take_columns(std::vector<Axis>& axes, const Walk& depth, const Axis& row) const {
    return take(axes, Role::kColumn, [&](const Axis& axis) {
      return axis.strides[kA] == Dim(0) && axis.strides[kBias] == Dim(0) && stores(row, axis) &&
             ir::is_addressable(depth, walk(axis, kB), ranges_);
    });
  }

  std::unique_ptr<plan::fb::MatrixT> matrix(std::uint32_t buffer, DType type, const Dim& offset,
                                            Walk rows, Walk columns, std::span<const Axis> batch,
                                            Operand operand, const char* what) {
    const Dim one = 1;
    // Along a dimension of one element, and in an empty matrix, any stride works: use that of a
    // dense matrix.
    if (rows.extent == Dim(0) || columns.extent == Dim(0) ||
        (rows.extent == one && columns.extent == one)) {
      rows.stride = columns.stride = one;
    } else if (rows.extent == one) {
      rows.stride = columns.stride == one ? columns.extent : one;
    } else if (columns.extent == one) {
      columns.stride = one;
    }
    const bool one_is_dense = rows.stride == one || columns.stride == one;
    if (!one_is_dense || rows.stride == Dim(0) || columns.stride == Dim(0))
      refuse(fmt::format("{} has strides {} and {}: one of them must be one, and neither zero",
                         what, rows.stride.to_string(), columns.stride.to_string()));
    auto result = std::make_unique<plan::fb::MatrixT>();
    result->buffer = buffer;
    result->dtype = static_cast<std::uint8_t>(type);
    result->offset = exprs_.intern(offset);
    result->row_stride = exprs_.intern(rows.stride);
    result->col_stride = exprs_.intern(columns.stride);
    for (const Axis& axis : batch)
      result->batch_strides.push_back(exprs_.intern(axis.strides[operand]));
    return result;
  }

  void set_bias(plan::fb::MatmulStepT& step, const Source& bias, const Axis& row,
                const Axis& column, std::span<const Axis> batch, DType type) const {
    bool plain = bias.parts.offset == Dim(0) && row.strides[kBias] == Dim(0) &&
                 (column.extent == Dim(1) || column.strides[kBias] == Dim(1));
    for (const Axis& axis : batch) plain = plain && axis.strides[kBias] == Dim(0);
    if (!plain) refuse("the bias is not one dense vector along the result's columns");
    if (body_.type(bias.value).dtype != type)
      refuse(fmt::format("the bias is {}, but the result {}",
                         to_string(body_.type(bias.value).dtype), to_string(type)));
    step.bias = static_cast<std::int32_t>(bias.buffer);
  }

  const Graph& body_;
  Buffers inputs_;
  std::uint32_t output_;
  ExprTable& exprs_;
  const Node& product_;
  const LoopSpace* space_ = nullptr;
  Ranges ranges_;
  std::vector<std::string> symbols_;  // symbols of the loops, then of k
  bool may_split_ = true;
  std::optional<SplitRequest> wanted_split_;
};

}  // namespace

plan::fb::MatmulStepT lower_matmul(const Graph& body, Buffers inputs, Buffers outputs,
                                   ExprTable& exprs, bool tf32) {
  if (inputs.size() != body.inputs().size() || outputs.size() != 1)
    throw Error(ErrorCode::kInternal, "buffers do not match the body of a matmul region");
  return MatmulLowering(body, inputs, outputs[0], exprs).lower(tf32);
}

}  // namespace sinter::codegen
