// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "codegen/emit/kernel_text.h"
#include "codegen/emit/prefetch.h"
#include "codegen/families/attention/prologue/attention_prologue.h"
#include "codegen/families/loops/body/body_writer.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {
namespace {

/// Vectors that divide an item's rows, without conditions on sizes.
VectorPlan vectors_of(const ProgramAnalysis& analysis, const PrologueOperand& made,
                      std::int64_t width) {
  for (int most = 8; most > 1; most /= 2) {
    VectorPlan plan = plan_vectors(analysis, analysis.last_dim(analysis.outer_dims()), most);
    const auto fits = [&](const Dim& dim) { return ir::is_multiple_of(dim, plan.vector); };
    if (plan.conditions.empty() && fits(ir::Dim(width)) && fits(made.offset) && fits(made.row) &&
        std::ranges::all_of(made.batch, fits))
      return plan;
  }
  return no_vectors(analysis);
}

/// Marks loads that may precede the end of the preceding step: memory that no step writes, at
/// indices from such memory. Empty if other values would have to be loaded first.
std::vector<bool> given_loads(const ProgramAnalysis& analysis) {
  const auto is_given = [&](std::size_t load) {
    const auto& access = analysis.access(analysis.instr(load).access);
    return analysis.request().given.contains(analysis.program().buffers[access.buffer]);
  };
  std::vector<bool> given(analysis.instr_count(), false);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (analysis.instr(i).kind != InstrKind::Load || !analysis.value(i).live) continue;
    const auto& gathers = analysis.access(analysis.instr(i).access).gathers;
    given[i] = is_given(i) && std::ranges::all_of(gathers, [&](const auto& gather) {
                 return given[gather.value()];
               });
    // Values without loop dimensions and gathered addresses are computed first.
    if (!given[i] && (analysis.value(i).dims == 0 || !gathers.empty())) return {};
  }
  return given;
}

}  // namespace

OperandFunction prologue_function(const AttentionProgram& attention, const PrologueOperand& made,
                                  std::int64_t width, const std::string& name,
                                  const KernelRequest& facts, ExprTable& exprs) {
  KernelRequest own{&made.program, name, {}, {}};
  own.precise = facts.precise;
  own.device = facts.device;
  for (const std::uint32_t buffer : made.program.buffers) {
    if (buffer == kPrologueValue) {
      own.buffer_types.push_back(attention.dtype);
      continue;
    }
    own.buffer_types.push_back(facts.buffer_types.at(buffer));
    if (facts.given.contains(attention.buffers[buffer])) own.given.insert(buffer);
  }
  const ProgramAnalysis analysis(own, exprs);
  const Schedule schedule = with_vectors(vectors_of(analysis, made, width), PointwiseParameters{});
  Arguments args(analysis);
  auto [mapping, wide] = map_vector(analysis, schedule, args);
  std::vector<std::string> wait = {"wait();"};
  if (facts.programmatic_launch)
    for (std::string& line : args.after_grid_wait()) wait.push_back(std::move(line));
  mapping.given_loads = given_loads(analysis);
  const bool loads_first = !mapping.given_loads.empty();
  (loads_first ? mapping.behind_preload : mapping.prologue) = std::move(wait);
  const std::string body = write_body(analysis, mapping, args);
  const std::string fetches =
      loads_first ? "" : prefetches(analysis, args, ir::Dim(1), schedule.threads());
  OperandFunction function;
  function.name = name;
  function.buffers = made.program.buffers;
  function.vector = schedule.vector;
  for (const auto& arg : args.kernel_args())
    if (arg.kind() != ArgKind::Buffer) function.sizes.push_back(arg.index());
  std::vector<std::string> parameters = args.parameters();
  if (facts.programmatic_launch && !fetches.empty()) {
    function.fetch = name + "_fetch";
    function.text += fmt::format("\nSINTER_DEVICE void\n{} {{\n{}}}\n",
                                 signature_text(function.fetch, parameters), fetches);
  }
  if (wide) function.number = "u64";
  parameters.push_back(fmt::format("{} flat", function.number));
  parameters.push_back("const Wait& wait");
  function.text +=
      fmt::format("\n// schedule: {}\ntemplate <class Wait>\nSINTER_DEVICE void\n{} {{\n{}}}\n",
                  schedule.to_string(), signature_text(name, parameters), body);
  return function;
}

}  // namespace sinter::codegen
