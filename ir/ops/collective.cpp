// SPDX-License-Identifier: Apache-2.0
// Collectives: where the ranks of a graph (ir/ranks/ranks.h) meet. The group is all "ranks".
//
// AllReduce(x) {ranks, combine}            -> the combination of all ranks' x
// AllGather(x) {ranks, axis}               -> all ranks' x, one behind the other along the axis
// ReduceScatter(x) {ranks, axis, combine}  -> of the combination, the rank's part of the axis
// AllToAll(x) {ranks, split, concat}       -> each rank's x is cut along "split", and part r goes
//                                             to rank r, which joins its parts along "concat"
//
// Combinations are computed in the order of ranks and rounded once, so that all ranks have the same
// bits. The evaluation differs from other operators': its inputs are the values of all ranks, in
// order, and its results are those of all ranks.
#include <cstring>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/dim/dim_mismatch.h"
#include "ir/ops/ops.h"
#include "ir/ranks/ranks.h"

namespace sinter::ir::ops {
namespace {

std::int64_t ranks_attr(const Attrs& attrs) {
  const std::int64_t ranks = attrs.get_int("ranks");
  if (ranks < 1) invalid(fmt::format("ranks is {}, but must be at least 1", ranks));
  return ranks;
}

/// `shape` with dimension `axis` divided by the ranks.
Shape divided(const Attrs& attrs, Shape shape, std::size_t axis, Types inputs) {
  const auto part = divide_exactly(shape[axis], Dim(ranks_attr(attrs)));
  if (!part)
    invalid(fmt::format("dimension {} is not divided by {} ranks: {}", axis, ranks_attr(attrs),
                        list_types(inputs)));
  shape[axis] = *part;
  return shape;
}

void require_combined(const Attrs& attrs, Types inputs) {
  require_numbers(inputs);
  combine_attr(attrs, false);
}

std::size_t axis_of(const Attrs& attrs, std::string_view name, Types inputs) {
  return static_cast<std::size_t>(axis_attr(attrs, name, inputs[0].shape));
}

std::vector<TensorType> infer_all_reduce(const Attrs& attrs, Types inputs) {
  ranks_attr(attrs);
  require_combined(attrs, inputs);
  return {inputs[0]};
}

std::vector<TensorType> infer_all_gather(const Attrs& attrs, Types inputs) {
  TensorType result = inputs[0];
  result.shape[axis_of(attrs, "axis", inputs)] *= Dim(ranks_attr(attrs));
  return {result};
}

std::vector<TensorType> infer_reduce_scatter(const Attrs& attrs, Types inputs) {
  require_combined(attrs, inputs);
  return {
      {inputs[0].dtype, divided(attrs, inputs[0].shape, axis_of(attrs, "axis", inputs), inputs)}};
}

std::vector<TensorType> infer_all_to_all(const Attrs& attrs, Types inputs) {
  const std::size_t split = axis_of(attrs, "split", inputs),
                    concat = axis_of(attrs, "concat", inputs);
  TensorType result{inputs[0].dtype, divided(attrs, inputs[0].shape, split, inputs)};
  result.shape[concat] *= Dim(ranks_attr(attrs));
  return {result};
}

/// Throws unless there is a value of each rank.
void require_all(const Attrs& attrs, Tensors inputs) {
  const std::int64_t ranks = ranks_attr(attrs);
  if (std::ssize(inputs) != ranks)
    throw Error(ErrorCode::kUsage,
                fmt::format("a collective of {} ranks is evaluated by all of them at once "
                            "(evaluate_ranks), here by {}",
                            ranks, inputs.size()));
}

Tensor combined(const Attrs& attrs, Tensors inputs) {
  const Combine combine = *combine_attr(attrs, false);
  const Tensor& first = inputs[0];
  const std::int64_t count = first.element_count();
  if (!is_float(first.dtype())) {
    std::vector<std::int64_t> sums = first.to_ints();
    for (const Tensor& input : inputs.subspan(1))
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t& sum = sums[static_cast<std::size_t>(i)];
        const std::int64_t other = input.at_int(i);
        const auto wrap = [](std::uint64_t bits) { return static_cast<std::int64_t>(bits); };
        const auto a = static_cast<std::uint64_t>(sum), b = static_cast<std::uint64_t>(other);
        switch (combine) {
          case Combine::kSum: sum = wrap(a + b); break;
          case Combine::kProd: sum = wrap(a * b); break;
          case Combine::kMax: sum = std::max(sum, other); break;
          case Combine::kMin: sum = std::min(sum, other); break;
        }
      }
    return Tensor::from_ints(first.dtype(), first.shape(), sums);
  }
  std::vector<double> sums = first.to_doubles();
  for (const Tensor& input : inputs.subspan(1))
    for (std::int64_t i = 0; i < count; ++i) {
      double& sum = sums[static_cast<std::size_t>(i)];
      const double other = input.at(i);
      switch (combine) {
        case Combine::kSum: sum += other; break;
        case Combine::kProd: sum *= other; break;
        // NaN stays, as in reductions.
        case Combine::kMax: sum = sum != sum || other < sum ? sum : other; break;
        case Combine::kMin: sum = sum != sum || other > sum ? sum : other; break;
      }
    }
  return Tensor::from_doubles(first.dtype(), first.shape(), sums);
}

/// Bytes of one index of `axis`, and of the dimensions in front of it the number of indices.
struct Rows {
  std::size_t outer = 1, inner = 1;
  Rows(const Tensor& tensor, std::size_t axis) : inner(size_of(tensor.dtype())) {
    for (std::size_t d = 0; d < axis; ++d) outer *= static_cast<std::size_t>(tensor.shape()[d]);
    for (std::size_t d = axis; d < tensor.shape().size(); ++d)
      inner *= static_cast<std::size_t>(tensor.shape()[d]);
  }
};

/// Part `part` of `parts` along `axis`.
Tensor part_of(const Tensor& tensor, std::size_t axis, std::int64_t part, std::int64_t parts) {
  Ints shape = tensor.shape();
  if (shape[axis] % parts != 0)
    invalid(fmt::format("dimension {} of {} is not divided by {} ranks", axis,
                        to_string(tensor.type()), parts));
  shape[axis] /= parts;
  const Rows rows(tensor, axis);
  const std::size_t size = rows.inner / static_cast<std::size_t>(parts);
  std::vector<std::byte> bytes(rows.outer * size);
  const HeldBytes from = tensor.hold();
  if (size > 0)
    for (std::size_t i = 0; i < rows.outer; ++i)
      std::memcpy(bytes.data() + i * size,
                  from.bytes.data() + i * rows.inner + static_cast<std::size_t>(part) * size, size);
  return Tensor(tensor.dtype(), shape, Buffer::take(std::move(bytes)));
}

Tensor joined(Tensors parts, std::size_t axis) {
  Ints shape = parts[0].shape();
  shape[axis] *= std::ssize(parts);
  const Rows rows(parts[0], axis);
  std::vector<std::byte> bytes(rows.outer * rows.inner * parts.size());
  for (std::size_t p = 0; p < parts.size() && rows.inner > 0; ++p) {
    const HeldBytes from = parts[p].hold();
    for (std::size_t i = 0; i < rows.outer; ++i)
      std::memcpy(bytes.data() + (i * parts.size() + p) * rows.inner,
                  from.bytes.data() + i * rows.inner, rows.inner);
  }
  return Tensor(parts[0].dtype(), shape, Buffer::take(std::move(bytes)));
}

std::vector<Tensor> evaluate_all_reduce(const Attrs& attrs, Tensors inputs, Types) {
  require_all(attrs, inputs);
  return std::vector<Tensor>(inputs.size(), combined(attrs, inputs));
}

std::vector<Tensor> evaluate_all_gather(const Attrs& attrs, Tensors inputs, Types) {
  require_all(attrs, inputs);
  const auto axis = static_cast<std::size_t>(attrs.get_int("axis"));
  return std::vector<Tensor>(inputs.size(), joined(inputs, axis));
}

std::vector<Tensor> evaluate_reduce_scatter(const Attrs& attrs, Tensors inputs, Types) {
  require_all(attrs, inputs);
  const Tensor sum = combined(attrs, inputs);
  const auto axis = static_cast<std::size_t>(attrs.get_int("axis"));
  std::vector<Tensor> results;
  for (std::int64_t r = 0; r < std::ssize(inputs); ++r)
    results.push_back(part_of(sum, axis, r, std::ssize(inputs)));
  return results;
}

std::vector<Tensor> evaluate_all_to_all(const Attrs& attrs, Tensors inputs, Types) {
  require_all(attrs, inputs);
  const auto split = static_cast<std::size_t>(attrs.get_int("split")),
             concat = static_cast<std::size_t>(attrs.get_int("concat"));
  std::vector<Tensor> results;
  for (std::int64_t r = 0; r < std::ssize(inputs); ++r) {
    std::vector<Tensor> parts;
    for (const Tensor& input : inputs)
      parts.push_back(part_of(input, split, r, std::ssize(inputs)));
    results.push_back(joined(parts, concat));
  }
  return results;
}

OpDef collective(std::string name, Infer infer, Evaluate evaluate) {
  return {.name = std::move(name),
          .kind = OpKind::kLibrary,
          .kernel = kCollectiveKernel,
          .attrs = {{"ranks", AttrKind::kInt, std::nullopt}},
          .infer = std::move(infer),
          .evaluate = std::move(evaluate)};
}

}  // namespace

std::vector<OpDef> collective_ops() {
  const AttrSpec combine{"combine", AttrKind::kString, Attr(std::string("sum"))};
  const AttrSpec axis{"axis", AttrKind::kInt, std::nullopt};
  OpDef all_reduce = collective("AllReduce", infer_all_reduce, evaluate_all_reduce);
  all_reduce.attrs.push_back(combine);
  OpDef all_gather = collective("AllGather", infer_all_gather, evaluate_all_gather);
  all_gather.attrs.push_back(axis);
  OpDef reduce_scatter = collective("ReduceScatter", infer_reduce_scatter, evaluate_reduce_scatter);
  reduce_scatter.attrs.push_back(axis);
  reduce_scatter.attrs.push_back(combine);
  OpDef all_to_all = collective("AllToAll", infer_all_to_all, evaluate_all_to_all);
  all_to_all.attrs.push_back({"split", AttrKind::kInt, std::nullopt});
  all_to_all.attrs.push_back({"concat", AttrKind::kInt, std::nullopt});
  return {all_reduce, all_gather, reduce_scatter, all_to_all};
}

}  // namespace sinter::ir::ops
