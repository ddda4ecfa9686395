// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/gemm_dnnl.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"

namespace sinter::runtime::cpu {
namespace {

using dims = dnnl::memory::dims;

std::int64_t divided(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

/// Sizes of the parts. The first `prefix` batch dimensions are split into single indices and the
/// next one into `chunk`s; later ones stay whole. Then rows and columns.
struct Division {
  std::size_t prefix = 0;
  std::int64_t chunk = 1, rows = 0, columns = 0;
};

/// Weights are packed for the parts' columns, with one copy for each width. If m varies from run to
/// run, few widths should occur, so m is rounded to one of 4 values.
std::int64_t typical_rows(std::int64_t rows) {
  return rows <= 8 ? 4 : rows <= 64 ? 64 : rows < 256 ? 160 : 512;
}

/// Few rows: splits columns, so that each thread reads its own weights. Many rows: keeps whole rows
/// if the weights fit a core's private cache, because oneDNN is fastest then. Otherwise parts are
/// about square, which minimizes reads.
///
/// Splits the first `single` batch dimensions into single matrices at any cost.
Division divide(const Product& p, std::size_t single) {
  // Column and row multiples of oneDNN's vectors and blocks.
  constexpr std::int64_t kColumnStep = 64, kRowStep = 8, kLeastRows = 64, kManyRows = 256;
  constexpr double kCached = 1 << 20;  // bytes
  double matrices = 1;
  for (const std::int64_t size : p.batch) matrices *= static_cast<double>(size);
  const auto n = static_cast<double>(p.n);
  const double bytes = static_cast<double>(bytes_of(p.k, p.b.type)) * n;
  const double rate = narrow_rate(p.b.type);
  const auto parts_of = [&](std::int64_t rows) {
    return parts_for(matrices * static_cast<double>(rows) * n * static_cast<double>(p.k) / rate,
                     matrices * bytes);
  };
  const std::int64_t wanted = parts_of(p.m);
  Division result{0, 1, p.m, p.n};
  std::int64_t parts = 1;
  while (result.prefix < p.batch.size() &&
         (result.prefix < single || parts * p.batch[result.prefix] <= wanted))
    parts *= p.batch[result.prefix++];
  if (result.prefix < p.batch.size()) {
    result.chunk = std::max<std::int64_t>(1, p.batch[result.prefix] * parts / wanted);
    parts *= divided(p.batch[result.prefix], result.chunk);
  }
  const std::int64_t typical = p.b_weight ? typical_rows(p.m) : p.m;
  if (const std::int64_t left = parts_of(typical) / parts; left >= 2) {
    double columns = std::sqrt(static_cast<double>(typical) * n / static_cast<double>(left));
    if (typical <= kLeastRows) columns = n / static_cast<double>(left);
    const std::int64_t steps = std::max<std::int64_t>(1, std::llround(columns / kColumnStep));
    if (typical < kManyRows || bytes > kCached) result.columns = std::min(p.n, steps * kColumnStep);
  }
  if (const std::int64_t left = wanted / parts; left >= 2) {
    const std::int64_t row_parts = std::max<std::int64_t>(1, left / divided(p.n, result.columns));
    const std::int64_t rows = divided(divided(p.m, row_parts), kRowStep) * kRowStep;
    result.rows = std::min(p.m, std::max(rows, kLeastRows));
  }
  return result;
}

/// oneDNN broadcasts one operand over the other's batch, but not both. Moves dimensions along which
/// both repeat to the front and returns their number.
std::size_t put_repeated_first(Product& p) {
  std::vector<std::size_t> order(p.batch.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto rest = std::stable_partition(order.begin(), order.end(), [&](std::size_t i) {
    return p.batch[i] > 1 && p.a.batch_strides[i] == 0 && p.b.batch_strides[i] == 0;
  });
  const auto sort = [&](std::vector<std::int64_t>& values) {
    const std::vector<std::int64_t> old = values;
    for (std::size_t i = 0; i < order.size(); ++i) values[i] = old[order[i]];
  };
  sort(p.batch);
  for (GemmOperand* operand : {&p.a, &p.b, &p.d, p.residual ? &*p.residual : nullptr})
    if (operand != nullptr) sort(operand->batch_strides);
  return static_cast<std::size_t>(rest - order.begin());
}

/// Sizes of a part; parts of equal sizes share a primitive.
struct Sizes {
  std::vector<std::int64_t> batch;
  std::int64_t rows = 0, columns = 0;
  auto operator<=>(const Sizes&) const = default;
};

struct Position {
  std::vector<std::int64_t> batch;
  std::int64_t row = 0, column = 0;
};

/// Offset of a part. `at` holds the leading batch indices.
std::int64_t offset_of(const GemmOperand& operand, const Position& at, std::int64_t row,
                       std::int64_t column) {
  std::int64_t offset = operand.offset + row * operand.row_stride + column * operand.column_stride;
  for (std::size_t i = 0; i < at.batch.size(); ++i)
    offset += at.batch[i] * operand.batch_strides[i];
  return offset;
}

/// Sizes and strides of an operand's last batch dimensions `batch`, then rows and columns.
struct Steps {
  dims sizes, strides;
};

Steps steps_of(const GemmOperand& operand, const std::vector<std::int64_t>& batch,
               std::int64_t rows, std::int64_t columns) {
  dims sizes, strides;
  const std::size_t skipped = operand.batch_strides.size() - batch.size();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::int64_t stride = operand.batch_strides[skipped + i];
    sizes.push_back(stride == 0 ? 1 : batch[i]);
    strides.push_back(stride);
  }
  sizes.insert(sizes.end(), {rows, columns});
  strides.insert(strides.end(), {operand.row_stride, operand.column_stride});
  // oneDNN requires positive strides. Strides of dimensions of size 1 are unused, but must not fall
  // inside another dimension.
  std::int64_t extent = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) strides[i] = std::max<std::int64_t>(strides[i], extent);
    extent = std::max(extent, strides[i] * sizes[i]);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i)
    for (std::size_t d = 0; d < sizes.size() && sizes[i] == 1; ++d)
      if (strides[d] < strides[i] && strides[i] < strides[d] * sizes[d]) strides[i] = extent;
  return {std::move(sizes), std::move(strides)};
}

dnnl::memory::desc layout_of(const GemmOperand& operand, const std::vector<std::int64_t>& batch,
                             std::int64_t rows, std::int64_t columns) {
  const Steps steps = steps_of(operand, batch, rows, columns);
  return {steps.sizes, dnnl_type(operand.type), steps.strides};
}

class Divider {
 public:
  Divider(const Product& product, PackedWeights& weights) : p_(product), weights_(weights) {}

  /// True if a part has only oneDNN's reference implementation.
  bool uses_reference() const { return uses_reference_; }

  void add(const Position& at, const Sizes& sizes, PrimitiveParts& parts) {
    const auto [found, is_new] = kinds_.try_emplace(sizes);
    Kind& kind = found->second;
    if (is_new) kind = make(sizes);
    BoundPrimitive part(kind.primitive, kind.scratchpad);
    part.bind(DNNL_ARG_SRC, kind.a, p_.a.buffer,
              bytes_of(offset_of(p_.a, at, at.row, 0), p_.a.type));
    const auto bind_result = [&](int argument, const GemmOperand& operand,
                                 const dnnl::memory::desc& layout, bool is_result) {
      const std::uint64_t offset =
          bytes_of(offset_of(operand, at, at.row, at.column), operand.type);
      if (!kind.dense) return part.bind(argument, layout, operand.buffer, offset);
      part.bind_copy(
          argument, layout,
          {operand.buffer, nullptr, offset, static_cast<std::size_t>(sizes.rows),
           bytes_of(sizes.columns, operand.type), bytes_of(operand.row_stride, operand.type)},
          is_result);
    };
    bind_result(DNNL_ARG_DST, p_.d, kind.d, true);
    const std::uint64_t b = bytes_of(offset_of(p_.b, at, 0, at.column), p_.b.type);
    if (p_.b_weight && kind.b != kind.b_plain)
      part.bind(DNNL_ARG_WEIGHTS,
                pack(weights_, p_.b.buffer, p_.b_weight + b, kind.b_plain, kind.b)->memory);
    else
      part.bind(DNNL_ARG_WEIGHTS, kind.b_plain, p_.b.buffer, b);
    if (p_.bias) part.bind(kind.bias_argument, kind.bias, *p_.bias, bytes_of(at.column, p_.d.type));
    if (p_.residual) bind_result(kind.residual_argument, *p_.residual, kind.residual, false);
    part.keep_nan(kind.bare);
    parts.add(std::move(part));
  }

 private:
  struct Kind {
    dnnl::matmul primitive;
    dnnl::memory::desc a, b_plain, b, d, bias, residual, scratchpad;
    int bias_argument = DNNL_ARG_BIAS, residual_argument = 0;
    bool dense = false;                   // a column range, computed in dense memory
    std::shared_ptr<BarePrimitive> bare;  // without the activation, if that loses NaN
  };

  Kind make(const Sizes& sizes) {
    // oneDNN's fastest kernels need dense results. For large k the extra copy is cheap.
    constexpr std::int64_t kLeastDepth = 128;
    const auto has_rows = [](const GemmOperand& operand) { return operand.column_stride == 1; };
    const bool may_be_dense =
        sizes.batch.empty() && has_rows(p_.d) && (!p_.residual || has_rows(*p_.residual));
    Kind kind = make(sizes, may_be_dense && sizes.columns < p_.n && p_.k >= kLeastDepth);
    if (is_reference_ && may_be_dense && !kind.dense) kind = make(sizes, true);
    uses_reference_ = uses_reference_ || is_reference_;
    return kind;
  }

  Kind make(const Sizes& sizes, bool dense) {
    Kind kind;
    kind.dense = dense;
    kind.a = layout_of(p_.a, sizes.batch, sizes.rows, p_.k);
    kind.b_plain = layout_of(p_.b, sizes.batch, p_.k, sizes.columns);
    const auto result_of = [&](GemmOperand operand) {
      if (kind.dense) operand.row_stride = sizes.columns;
      return layout_of(operand, sizes.batch, sizes.rows, sizes.columns);
    };
    kind.d = result_of(p_.d);
    dims bias_sizes(sizes.batch.size() + 1, 1), bias_strides(sizes.batch.size() + 1, sizes.columns);
    bias_sizes.push_back(sizes.columns);
    bias_strides.push_back(1);
    kind.bias = {bias_sizes, dnnl_type(p_.d.type), bias_strides};

    if (p_.residual) kind.residual = result_of(*p_.residual);

    // alpha applies before the bias, but a primitive adds its bias first; so both become post-ops.
    const bool scaled = p_.alpha != 1.0F;
    const auto attributes_of = [&](plan::fb::Activation activation, bool in_cpp) {
      dnnl::post_ops ops;
      const auto append_binary = [&](const dnnl::memory::desc& layout) {
        ops.append_binary(dnnl::algorithm::binary_add, layout);
        return DNNL_ARG_ATTR_MULTIPLE_POST_OP(ops.len() - 1) | DNNL_ARG_SRC_1;
      };
      if (scaled) ops.append_eltwise(dnnl::algorithm::eltwise_linear, p_.alpha, 0);
      if (scaled && p_.bias) kind.bias_argument = append_binary(kind.bias);
      if (p_.residual) kind.residual_argument = append_binary(kind.residual);
      append_activation(ops, activation, p_.activation_a, p_.activation_b, in_cpp);
      dnnl::primitive_attr attributes = dnnl_attributes();
      attributes.set_post_ops(ops);
      return attributes;
    };
    const auto describe = [a = kind.a, d = kind.d,
                           bias = p_.bias && !scaled ? kind.bias : dnnl::memory::desc()](
                              const dnnl::memory::desc& b, const dnnl::primitive_attr& attributes,
                              bool may_fail) {
      return bias.is_zero()
                 ? dnnl::matmul::primitive_desc(dnnl_engine(), a, b, d, attributes, may_fail)
                 : dnnl::matmul::primitive_desc(dnnl_engine(), a, b, bias, d, attributes, may_fail);
    };
    const auto choose = [&](const dnnl::primitive_attr& attributes) {
      if (!p_.b_weight) return describe(kind.b_plain, attributes, false);
      // Parts of equal width share packed weights if oneDNN accepts the layout.
      dnnl::matmul::primitive_desc chosen;
      const auto same = std::ranges::find_if(kinds_, [&](const auto& other) {
        return other.second.primitive && other.second.b_plain == kind.b_plain;
      });
      if (same != kinds_.end()) chosen = describe(same->second.b, attributes, true);
      if (chosen && !is_reference(chosen)) return chosen;
      const dnnl::memory::desc any(kind.b_plain.get_dims(), dnnl_type(p_.b.type),
                                   dnnl::memory::format_tag::any);
      return describe(any, attributes, false);
    };
    auto chosen = choose(attributes_of(p_.activation, false));
    if (is_reference(chosen) && must_be_spelled_out(p_.activation))
      chosen = choose(attributes_of(p_.activation, true));
    is_reference_ = is_reference(chosen);
    kind.b = chosen.weights_desc();
    kind.scratchpad = chosen.scratchpad_desc();
    kind.primitive = dnnl::matmul(chosen);
    if (loses_nan(p_.activation, p_.activation_a))
      kind.bare = std::make_shared<BarePrimitive>(
          [describe, attributes = attributes_of(plan::fb::Activation::None, false), b = kind.b] {
            const auto how = describe(b, attributes, false);
            return BarePrimitive::Made{dnnl::matmul(how), how.scratchpad_desc()};
          });
    return kind;
  }

  const Product& p_;
  PackedWeights& weights_;
  std::map<Sizes, Kind> kinds_;
  bool is_reference_ = false;  // of the last primitive made
  bool uses_reference_ = false;
};

/// Turns batch dimensions into rows where b repeats and the other operands' strides allow it: fewer
/// and larger GEMMs.
void join_rows(Product& p) {
  const auto is_matrix = [](std::int64_t rows, std::int64_t row_stride, std::int64_t columns,
                            std::int64_t column_stride) {
    return (column_stride == 1 && row_stride >= columns) ||
           (row_stride == 1 && (columns == 1 || column_stride >= rows));
  };
  for (std::size_t i = p.batch.size(); i-- > 0;) {
    if (p.b.batch_strides[i] != 0) continue;
    const std::int64_t rows = p.m * p.batch[i];
    const auto joins = [&](const GemmOperand& operand, std::int64_t columns) {
      const std::int64_t step = operand.batch_strides[i];
      return (p.m == 1 || step == p.m * operand.row_stride) &&
             is_matrix(rows, p.m == 1 ? step : operand.row_stride, columns, operand.column_stride);
    };
    if (!joins(p.a, p.k) || !joins(p.d, p.n) || (p.residual && !joins(*p.residual, p.n))) continue;
    for (GemmOperand* operand : {&p.a, &p.b, &p.d, p.residual ? &*p.residual : nullptr}) {
      if (operand == nullptr) continue;
      if (p.m == 1 && operand != &p.b) operand->row_stride = operand->batch_strides[i];
      operand->batch_strides.erase(operand->batch_strides.begin() + static_cast<std::ptrdiff_t>(i));
    }
    p.batch.erase(p.batch.begin() + static_cast<std::ptrdiff_t>(i));
    p.m = rows;
  }
}

/// The parts, with the first `single` batch dimensions split into single matrices. Nullopt if no
/// optimized kernel of oneDNN takes them.
std::optional<PrimitiveParts> divide_product(const Product& p, std::size_t single,
                                             PackedWeights& weights, int threads) {
  const Division division = divide(p, single);
  double macs = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  for (const std::int64_t size : p.batch) macs *= static_cast<double>(size);
  PrimitiveParts parts(threads_for(macs / narrow_rate(p.b.type), threads));
  Divider divider(p, weights);
  Position at;
  const bool has_chunks = division.prefix < p.batch.size();
  at.batch.assign(division.prefix + (has_chunks ? 1 : 0), 0);
  const auto step_of = [&](std::size_t i) { return i < division.prefix ? 1 : division.chunk; };
  for (bool more = true; more;) {
    Sizes sizes;
    if (has_chunks) {
      sizes.batch.assign(p.batch.begin() + static_cast<std::ptrdiff_t>(division.prefix),
                         p.batch.end());
      sizes.batch[0] = std::min(division.chunk, p.batch[division.prefix] - at.batch.back());
      if (sizes.batch[0] == 1) sizes.batch.erase(sizes.batch.begin());
    }
    // Rows of the same columns are adjacent, because they read the same weights.
    for (at.column = 0; at.column < p.n; at.column += division.columns) {
      sizes.columns = std::min(division.columns, p.n - at.column);
      for (at.row = 0; at.row < p.m; at.row += division.rows) {
        sizes.rows = std::min(division.rows, p.m - at.row);
        divider.add(at, sizes, parts);
      }
    }
    more = false;
    for (std::size_t i = at.batch.size(); i-- > 0;) {
      if ((at.batch[i] += step_of(i)) < p.batch[i]) {
        more = true;
        break;
      }
      at.batch[i] = 0;
    }
  }
  if (divider.uses_reference() && single < p.batch.size()) return std::nullopt;
  return parts;
}

}  // namespace

bool is_taken(const GemmOperand& operand, const std::vector<std::int64_t>& batch, std::int64_t rows,
              std::int64_t columns) {
  const Steps steps = steps_of(operand, batch, rows, columns);
  std::vector<std::size_t> order(steps.sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {},
                    [&](std::size_t d) { return std::pair(steps.strides[d], steps.sizes[d]); });
  std::int64_t end = 1;
  for (const std::size_t d : order) {
    if (steps.strides[d] < end) return false;
    end = steps.strides[d] * steps.sizes[d];
  }
  return true;
}

PrimitiveParts divide_product(Product p, PackedWeights& weights, int threads) {
  join_rows(p);
  std::size_t single = put_repeated_first(p);
  // oneDNN bug: a binary post-op over columns of a batch reads wrong addresses if the result is not
  // dense.
  if (p.bias && p.alpha != 1) single = p.batch.size();
  auto parts = divide_product(p, single, weights, threads);
  // Kernels accept matrices with interleaved rows only one by one.
  if (!parts) parts = divide_product(p, p.batch.size(), weights, threads);
  return std::move(*parts);
}

}  // namespace sinter::runtime::cpu
