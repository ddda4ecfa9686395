// SPDX-License-Identifier: Apache-2.0
// Verifies bound sizes: no step may access memory outside its buffers.
#include <algorithm>

#include "runtime/plan/entries.h"
#include "runtime/plan/extents.h"
#include "runtime/plan/operators/operator_def.h"
#include "runtime/plan/panels/quant_panels.h"
#include "runtime/plan/verify/checker.h"
#include "runtime/plan/verify/verify_plan.h"

namespace sinter::plan {
namespace {

using Wide = __int128;
using Values = std::span<const std::int64_t>;

/// Larger extents cannot be addressed; below it the product of two fits a Wide.
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 48;
/// Sums of addresses within it fit in 64 bits.
constexpr Wide kMaxReach = Wide{1} << 60;

/// Range of addresses, in elements, relative to an offset.
struct Reach {
  Wide low = 0, high = 0;

  explicit Reach(std::int64_t offset) : low(offset), high(offset) {}
  void add(std::int64_t stride, std::int64_t extent) {
    const Wide last = Wide{stride} * (extent - 1);
    (stride < 0 ? low : high) += last;
  }
};

class BoundChecker : public Checker {
 public:
  BoundChecker(const fb::PlanT& plan, Values values)
      : Checker(plan), values(values), from_data(expressions_from_data(plan)) {}
  Values values;
  std::vector<bool> from_data;

  std::int64_t extent(std::uint32_t expression, const char* what) const {
    const std::int64_t value = values[expression];
    // What is left of a size where each part is the most that it may be: the run's is checked
    // again.
    if (value < 0 && value >= -kMaxExtent && from_data[expression]) return 0;
    if (value < 0 || value > kMaxExtent) fail("{} is {} for these dimensions", what, value);
    return value;
  }
  std::int64_t stride(std::uint32_t expression, const char* what) const {
    const std::int64_t value = values[expression];
    if (value < -kMaxExtent || value > kMaxExtent)
      fail("{} is {} for these dimensions", what, value);
    return value;
  }
  bool hold(const std::vector<fb::Condition>& conditions) const {
    return std::ranges::all_of(conditions, [&](const fb::Condition& condition) {
      const std::int64_t value = values[condition.expression()];
      return value <= condition.max() &&
             value % static_cast<std::int64_t>(condition.divisor()) == 0;
    });
  }
  void inside(const Reach& reach, std::uint32_t buffer, const char* what) const {
    const fb::BufferT& target = *plan.buffers[buffer];
    const Wide count =
        values[target.bytes] / static_cast<std::int64_t>(size_of(static_cast<DType>(target.dtype)));
    if (reach.low < 0 || reach.high >= count)
      fail("{} reaches element {} of buffer {}, which has {} for these dimensions", what,
           static_cast<std::int64_t>(reach.low < 0 ? reach.low : reach.high), buffer,
           static_cast<std::int64_t>(count));
  }
};

void check_loop(const BoundChecker& check, const fb::LoopProgramT& program) {
  std::vector<std::int64_t> extents;
  for (const std::uint32_t expression : program.extents)
    extents.push_back(check.extent(expression, "an extent"));
  // Without rows nothing is stored; an empty row still yields the reduction's identity.
  const std::size_t rows = extents.size() - program.inner_dims;
  if (std::find(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(rows), 0) !=
      extents.begin() + static_cast<std::ptrdiff_t>(rows))
    return;
  Wide row_count = 1, total = 1;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    total = std::min(total * std::max<std::int64_t>(extents[d], 1), Wide{kMaxExtent} + 1);
    if (d < rows) row_count = total;
  }
  if (total > kMaxExtent) check.fail("it has more than {} elements", kMaxExtent);
  std::vector<bool> stores(program.accesses.size());
  for (const auto& instr : program.instrs)
    if (instr->kind == fb::InstrKind::Store) stores[instr->access] = true;
  for (std::size_t a = 0; a < program.accesses.size(); ++a) {
    const auto& access = program.accesses[a];
    if (is_of_scores(program.buffers[access->buffer])) continue;
    for (const std::uint32_t stride : access->strides) check.stride(stride, "a stride");
    check.stride(access->offset, "an offset");
    for (const fb::Gather& gather : access->gathers) {
      check.extent(gather.extent(), "a gather's extent");
      check.stride(gather.stride(), "a gather's stride");
    }
    for (const fb::Guard& guard : access->guards) check.extent(guard.extent(), "a guard's extent");
    Reach reach(check.values[access->offset]);
    bool unreached = false;
    for (std::size_t d = 0; d < extents.size(); ++d) {
      const std::int64_t stride = check.values[access->strides[d]];
      if (extents[d] == 0)
        unreached |= stride != 0;
      else
        reach.add(stride, extents[d]);
    }
    for (const fb::Gather& gather : access->gathers) {
      const std::int64_t extent = check.values[gather.extent()];
      // Any index into an empty dimension fails at run time, when it is read.
      if (extent == 0)
        unreached = true;
      else
        reach.add(check.values[gather.stride()], extent);
    }
    // Bounds depend on the index and are checked at run time; sums must not overflow here.
    if (!access->guards.empty() || !access->nonaffine.empty()) {
      if (reach.low < -kMaxReach || reach.high > kMaxReach)
        check.fail("an access spans too much for these dimensions");
      continue;
    }
    if (unreached) continue;
    check.inside(reach, program.buffers[access->buffer], "an access");
    // Limits the number of rows to the elements stored, even if rows are empty.
    if (stores[a] && access->gathers.empty() && reach.high - reach.low + 1 < row_count)
      check.fail("a store writes {} rows to {} elements", static_cast<std::int64_t>(row_count),
                 static_cast<std::int64_t>(reach.high - reach.low + 1));
  }
}

struct Sizes {
  std::vector<std::int64_t> batch;
  bool empty = false;
};

void check_matrix(const BoundChecker& check, const fb::MatrixT& matrix, const Sizes& sizes,
                  std::int64_t rows, std::int64_t cols, const char* what) {
  Reach reach(check.stride(matrix.offset, "an offset"));
  bool empty = rows == 0 || cols == 0;
  const auto add = [&](std::uint32_t stride, std::int64_t extent) {
    const std::int64_t value = check.stride(stride, "a stride");
    if (extent == 0)
      empty = true;
    else
      reach.add(value, extent);
  };
  add(matrix.row_stride, rows);
  add(matrix.col_stride, cols);
  for (std::size_t i = 0; i < sizes.batch.size(); ++i) add(matrix.batch_strides[i], sizes.batch[i]);
  if (!empty) check.inside(reach, matrix.buffer, what);
}

/// Quantized weights are whole matrices; 4-bit values are counted in bytes here.
void check_quantization(const BoundChecker& check, const fb::MatmulStepT& work, std::int64_t n,
                        std::int64_t k) {
  if (n == 0) return;
  const auto holds = [&](std::uint32_t buffer, std::int64_t columns, const char* what) {
    if (columns == 0) return;
    Reach reach(0);
    reach.high = Wide{n} * columns - 1;
    check.inside(reach, buffer, what);
  };
  const auto group = static_cast<std::int64_t>(work.quantization->group);
  const std::int64_t groups = k / group + (k % group != 0 ? 1 : 0);
  if (work.quantization->panels) {
    const QuantPanelShape panels{work.quantization->bits, n, k, group};
    const auto whole = [&](std::int64_t buffer, Wide columns, const char* what) {
      if (buffer < 0 || columns == 0) return;
      Reach reach(0);
      reach.high = Wide{panels.panels()} * kQuantPanelRows * columns - 1;
      check.inside(reach, static_cast<std::uint32_t>(buffer), what);
    };
    whole(work.b->buffer, Wide{panels.units()} * 4, "the quantized weight");
    whole(work.quantization->scales, groups, "the scales");
    whole(work.quantization->zero_points, groups, "the zero points");
    whole(work.quantization->offsets, groups, "the offsets");
    return;
  }
  holds(work.b->buffer, work.quantization->bits == 8 ? k : k / 2 + k % 2, "the quantized weight");
  holds(work.quantization->scales, groups, "the scales");
  if (work.quantization->zero_points >= 0)
    holds(static_cast<std::uint32_t>(work.quantization->zero_points), groups, "the zero points");
  if (work.quantization->factors >= 0)
    holds(static_cast<std::uint32_t>(work.quantization->factors), 1, "the factors");
  if (work.quantization->offsets >= 0)
    holds(static_cast<std::uint32_t>(work.quantization->offsets), groups, "the offsets");
}

void check_matmul(const BoundChecker& check, const fb::MatmulStepT& work) {
  const std::int64_t m = check.extent(work.m, "m");
  const std::int64_t n = check.extent(work.n, "n");
  const std::int64_t k = check.extent(work.k, "k");
  Sizes sizes;
  for (const std::uint32_t expression : work.batch)
    sizes.batch.push_back(check.extent(expression, "a batch dimension"));
  check_matrix(check, *work.a, sizes, m, k, "operand a");
  if (work.quantization)
    check_quantization(check, work, n, k);
  else
    check_matrix(check, *work.b, sizes, k, n, "operand b");
  check_matrix(check, *work.d, sizes, m, n, "result d");
  if (work.residual) check_matrix(check, *work.residual, sizes, m, n, "the residual");
  if (work.bias >= 0 && n > 0) {
    Reach reach(0);
    reach.add(1, n);
    check.inside(reach, static_cast<std::uint32_t>(work.bias), "the bias");
  }
}

void check_maps(const BoundChecker& check, const fb::KernelStepT& work) {
  for (const auto& variant : work.variants)
    for (const auto& map : variant->maps) {
      Reach reach(check.stride(map->offset, "a tensor map's offset"));
      bool empty = false;
      for (std::size_t d = 0; d < map->extents.size(); ++d) {
        const std::int64_t extent = check.extent(map->extents[d], "a tensor map's extent");
        empty = empty || extent == 0;
        reach.add(d == 0 ? 1 : check.stride(map->strides[d - 1], "a tensor map's stride"), extent);
      }
      if (!empty) check.inside(reach, map->buffer, "a tensor map");
    }
}

void check_dense(const BoundChecker& check, std::uint32_t buffer,
                 const std::vector<std::int64_t>& shape, const char* what) {
  Wide count = 1;
  for (const std::int64_t dim : shape) count = std::min(count * dim, Wide{kMaxExtent} + 1);
  Reach reach(0);
  if (count == 0) return;
  reach.high = count - 1;
  check.inside(reach, buffer, what);
}

void check_conv(const BoundChecker& check, const fb::ConvStepT& work) {
  const auto shape_of = [&](const std::vector<std::uint32_t>& expressions) {
    std::vector<std::int64_t> shape;
    for (const std::uint32_t expression : expressions)
      shape.push_back(check.extent(expression, "a dimension"));
    return shape;
  };
  const auto input = shape_of(work.input_shape);
  const auto weight = shape_of(work.weight_shape);
  const auto output = shape_of(work.output_shape);
  const auto group = static_cast<std::int64_t>(work.group);
  const std::size_t channel = work.channels_last ? input.size() - 1 : 1;
  const std::size_t spatial = work.channels_last ? 1 : 2;
  if (output[0] != input[0] || output[channel] != weight[0] || weight[0] % group != 0 ||
      Wide{weight[channel]} * group != input[channel])
    check.fail("input [{}], weight [{}] and output [{}] do not belong together in {} groups",
               fmt::join(input, ", "), fmt::join(weight, ", "), fmt::join(output, ", "), group);
  for (std::size_t d = 0; d + 2 < input.size(); ++d) {
    const std::int64_t from = input[d + spatial], taps = weight[d + spatial],
                       to = output[d + spatial];
    const Wide window = Wide{static_cast<std::int64_t>(work.dilations[d])} * (taps - 1) + 1;
    const Wide room = Wide{from} + static_cast<std::int64_t>(work.pads_begin[d]) +
                      static_cast<std::int64_t>(work.pads_end[d]) - window;
    const auto stride = static_cast<std::int64_t>(work.strides[d]);
    if (taps < 1 || room < 0 || room / stride + 1 != to)
      check.fail(
          "its output has {} elements along spatial dimension {}, which does not follow from "
          "the input's {} and the weight's {}",
          to, d, from, taps);
  }
  check_dense(check, work.input, input, "its input");
  check_dense(check, work.weight, weight, "its weight");
  check_dense(check, work.output, output, "its output");
  if (work.bias >= 0)
    check_dense(check, static_cast<std::uint32_t>(work.bias), {weight[0]}, "the bias");
  if (work.residual >= 0)
    check_dense(check, static_cast<std::uint32_t>(work.residual), output, "the residual");
}

/// Checks the sizes of a tensor against its buffer.
void check_tensor(const BoundChecker& check, const fb::HostTensorT& tensor,
                  const std::string& what) {
  std::vector<std::int64_t> shape;
  for (const std::uint32_t size : tensor.shape) shape.push_back(check.extent(size, "a size"));
  check_dense(check, tensor.buffer, shape, what.c_str());
}

void check_host(const BoundChecker& check, const fb::HostStepT& work) {
  for (const auto* list : {&work.inputs, &work.outputs})
    for (const auto& tensor : *list) check_tensor(check, *tensor, "its tensor");
}

void check_operator(const BoundChecker& check, const fb::OperatorStepT& work) {
  const OperatorDef& def = *find_operator(work.operator_name);
  for (std::size_t i = 0; i < work.inputs.size(); ++i)
    check_tensor(check, *work.inputs[i], fmt::format("its {}", def.inputs[i].name));
  for (std::size_t i = 0; i < work.outputs.size(); ++i)
    check_tensor(check, *work.outputs[i], fmt::format("its {}", def.outputs[i].name));
  if (const std::string wrong = bind_sizes(def, work, check.values).second; !wrong.empty())
    check.fail("{}", wrong);
}

void check_attention(const BoundChecker& check, const fb::AttentionStepT& work) {
  const std::int64_t rows = check.extent(work.rows, "the number of rows");
  const std::int64_t keys = check.extent(work.keys, "the number of keys");
  const auto head = static_cast<std::int64_t>(work.head),
             value_head = static_cast<std::int64_t>(work.value_head);
  Sizes sizes;
  for (const std::uint32_t expression : work.batch)
    sizes.batch.push_back(check.extent(expression, "a batch dimension"));
  check_matrix(check, *work.q, sizes, rows, head, "its queries");
  check_matrix(check, *work.k, sizes, keys, head, "its keys");
  check_matrix(check, *work.v, sizes, keys, value_head, "its values");
  check_matrix(check, *work.y, sizes, rows, value_head, "its result");
  if (work.mask) check_matrix(check, *work.mask, sizes, rows, keys, "its mask");
  if (work.limits) check_matrix(check, *work.limits, sizes, rows, 1, "its limits");
  if (work.key_scales) {
    check_matrix(check, *work.key_scales, sizes, keys, 1, "the scales of its keys");
    check_matrix(check, *work.value_scales, sizes, keys, 1, "the scales of its values");
  }
  if (work.scores) check_loop(check, *work.scores);
  if (!work.bounds) return;
  const std::int64_t sequences = check.extent(work.sequences, "the number of sequences");
  check.extent(work.longest, "the most rows of a sequence");
  if (sequences == INT64_MAX) check.fail("it has too many sequences");
  check_matrix(check, *work.bounds, sizes, 1, sequences + 1, "its bounds");
  if (work.tables)
    return check_matrix(check, *work.tables, sizes, sequences,
                        check.extent(work.table_blocks, "the blocks of a table"),
                        "its block tables");
  if (rows != keys) check.fail("its packed sequences have {} queries and {} keys", rows, keys);
}

void check_copy(const BoundChecker& check, const fb::CopyStepT& work) {
  const std::int64_t bytes = check.values[work.bytes];
  for (const std::uint32_t buffer : {work.source, work.target})
    if (bytes < 0 || bytes > check.values[check.plan.buffers[buffer]->bytes])
      check.fail("it copies {} bytes, but buffer {} has {}", bytes, buffer,
                 check.values[check.plan.buffers[buffer]->bytes]);
}

void check_while(const BoundChecker& check, const fb::WhileStepT& work) {
  // No size to check here: the buffer of what the loop collects is checked.
  if (work.trips >= 0 && check.values[static_cast<std::size_t>(work.trips)] < 0)
    check.fail("the number of its iterations is {} for these dimensions",
               check.values[static_cast<std::size_t>(work.trips)]);
  check_dense(check, work.counter, {1}, "the number of the iteration");
  if (work.condition >= 0)
    check_dense(check, static_cast<std::uint32_t>(work.condition), {1}, "its condition");
}

void check_work(const BoundChecker& check, const fb::WorkUnion& work) {
  switch (work.type) {
    case fb::Work::LoopStep: check_loop(check, *work.AsLoopStep()->program); break;
    case fb::Work::KernelStep: check_maps(check, *work.AsKernelStep()); break;
    case fb::Work::MatmulStep: check_matmul(check, *work.AsMatmulStep()); break;
    case fb::Work::ConvStep: check_conv(check, *work.AsConvStep()); break;
    case fb::Work::CopyStep: check_copy(check, *work.AsCopyStep()); break;
    case fb::Work::AttentionStep: check_attention(check, *work.AsAttentionStep()); break;
    case fb::Work::HostStep: check_host(check, *work.AsHostStep()); break;
    case fb::Work::OperatorStep: check_operator(check, *work.AsOperatorStep()); break;
    case fb::Work::WhileStep: check_while(check, *work.AsWhileStep()); break;
    case fb::Work::IfStep:
      check_dense(check, work.AsIfStep()->condition, {1}, "its condition");
      break;
    default: break;
  }
}

void check_bindings(BoundChecker& check, const char* what,
                    const std::vector<std::unique_ptr<fb::BindingT>>& bindings) {
  for (const auto& binding : bindings) {
    check.where = fmt::format("{} '{}'", what, binding->name);
    const std::int64_t bytes = check.values[check.plan.buffers[binding->buffer]->bytes];
    Wide expected = static_cast<std::int64_t>(size_of(static_cast<DType>(binding->dtype)));
    for (const std::uint32_t dim : binding->shape)
      expected = std::min(expected * check.extent(dim, "a dimension"), Wide{kMaxExtent} * 8);
    const bool from_data = std::ranges::any_of(
        binding->shape, [&](std::uint32_t dim) { return check.from_data[dim]; });
    if (from_data ? expected > bytes : expected != bytes)
      check.fail("its shape takes {} bytes, its buffer has {}", static_cast<std::int64_t>(expected),
                 bytes);
  }
}

}  // namespace

void verify_bound(const fb::PlanT& plan, std::span<const std::int64_t> expressions, StepRange steps,
                  std::string dimensions) {
  BoundChecker check(plan, expressions);
  check.dimensions = std::move(dimensions);
  for (std::size_t i = 0; i < plan.buffers.size(); ++i)
    if (is_used(*plan.buffers[i], steps) && expressions[plan.buffers[i]->bytes] < 0)
      check.fail("buffer {} has {} bytes for these dimensions", i,
                 expressions[plan.buffers[i]->bytes]);
  check_bindings(check, "input", plan.inputs);
  check_bindings(check, "output", plan.outputs);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (!steps.contains(i)) continue;
    const fb::StepT& step = *plan.steps[i];
    check.where = fmt::format("step {} '{}'", i, step.name);
    const fb::TacticStepT* choice = step.work.AsTacticStep();
    if (!choice) {
      check_work(check, step.work);
      continue;
    }
    // Tactics whose conditions fail may lack memory for these dimensions.
    for (const auto& tactic : choice->tactics)
      if (check.hold(tactic->conditions))
        for (const auto& part : tactic->parts) check_work(check, part->work);
  }
}

}  // namespace sinter::plan
