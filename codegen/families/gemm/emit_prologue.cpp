// SPDX-License-Identifier: Apache-2.0
// Prologue of a GEMM: each block computes the rows of the left operand that it needs. A function
// that all threads of the block call, written like a row kernel.
#include <fmt/format.h>

#include "codegen/emit/kernel_text.h"
#include "codegen/families/gemm/gemm_text.h"
#include "codegen/families/loops/body/body_writer.h"
#include "codegen/families/loops/held_values.h"
#include "codegen/families/loops/row/row_schedule.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {
namespace {

// Registers of a thread for its elements: the accumulators are not live yet.
constexpr double kMostHeldWords = 64;
constexpr int kWarp = 32;

/// One warp for each row if its registers hold it and there are several rows; otherwise all threads
/// compute one row after the other.
Schedule prologue_schedule(const ProgramAnalysis& analysis, std::int64_t rows, int threads) {
  VectorPlan vectors = plan_vectors(analysis, analysis.last_dim(analysis.inner_dims()));
  if (!vectors.conditions.empty()) vectors = no_vectors(analysis);
  const std::int64_t length = analysis.row_length().value() / vectors.vector;
  Schedule schedule = with_vectors(vectors, RowParameters{});
  const auto holds = [&](int lanes) {
    schedule.threads_x = lanes;
    schedule.threads_y = threads / lanes;
    schedule.unroll = std::max(1, ceil_div(length, lanes));
    return held_words(analysis, schedule) <= kMostHeldWords;
  };
  if ((rows > 1 && holds(kWarp)) || holds(threads)) return schedule;
  return choose_shared_row(analysis, threads);
}

/// Whether the access reads `length` elements from the start of the buffer, the same for all rows.
bool is_shared_row(const ProgramAnalysis& analysis, const AccessT& access, std::int64_t length) {
  if (!access.gathers.empty() || !access.nonaffine.empty() || !access.guards.empty()) return false;
  const ExprTable& exprs = analysis.exprs();
  if (exprs.dim(access.offset) != ir::Dim(0)) return false;
  Dim dense = 1;
  for (std::size_t d = analysis.rank(); d-- > 0;) {
    if (analysis.extent(d) == ir::Dim(1)) continue;
    const bool inner = (analysis.inner_dims() & dim_bit(d)) != 0;
    if (exprs.dim(access.strides[d]) != (inner ? dense : ir::Dim(0))) return false;
    dense *= analysis.extent(d);
  }
  return analysis.row_length() == ir::Dim(length);
}

}  // namespace

PrologueFunction prologue_function(const KernelRequest& request, ExprTable& exprs, int threads) {
  const GemmPrologue& prologue = *request.product->prologue;
  KernelRequest own{&prologue.program, fmt::format("{}_rows{}", request.name, threads), {}, {}};
  for (std::size_t b = 0; b + 1 < prologue.program.buffers.size(); ++b)
    own.buffer_types.push_back(request.buffer_types[prologue.first + b]);
  own.buffer_types.push_back(request.product->type);
  own.block = "block";
  own.precise = request.precise;
  own.device = request.device;
  const ProgramAnalysis analysis(own, exprs);
  const Schedule schedule = prologue_schedule(analysis, prologue.most, threads);
  Arguments args(analysis);
  const ThreadMapping mapping = map_row(analysis, schedule, args);
  const std::string body = write_body(analysis, mapping, args);
  PrologueFunction function;
  function.name = own.name;
  function.blocks = mapping.blocks;
  for (const auto& arg : args.kernel_args())
    if (arg.kind() != plan::fb::ArgKind::Buffer) function.sizes.push_back(arg.index());
  const std::int64_t length = analysis.row_length().value();
  for (const auto& access : prologue.program.accesses)
    if (access->buffer < prologue.weights.size() && prologue.weights[access->buffer] &&
        is_shared_row(analysis, *access, length))
      function.weights.emplace_back(
          access->buffer,
          length * static_cast<std::int64_t>(size_of(own.buffer_types[access->buffer])));
  std::vector<std::string> parameters = args.parameters();
  parameters.push_back("u32 block");
  function.text =
      fmt::format("\n// schedule: {}\nSINTER_DEVICE void\n{} {{\n{}}}\n", schedule.to_string(),
                  signature_text(function.name, parameters), body);
  return function;
}

}  // namespace sinter::codegen
