// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/emit_loops.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/emit/assemble.h"
#include "codegen/emit/prefetch.h"
#include "codegen/families/loops/body/body_writer.h"
#include "codegen/families/loops/body/row_reductions.h"
#include "codegen/families/loops/loop_schedules.h"

namespace sinter::codegen {
namespace {

VariantText variant_of(const ProgramAnalysis& analysis, const Schedule& schedule, Arguments& args) {
  const ThreadMapping mapping = loop_schedule(schedule).mapping(analysis, schedule, args);
  VariantText variant;
  variant.conditions = schedule.conditions;
  variant.schedule = schedule.to_string();
  variant.body = args.summands() + write_body(analysis, mapping, args);
  variant.blocks = mapping.blocks;
  variant.block = mapping.block;
  variant.threads = schedule.threads();
  variant.blocks_at_once = schedule.reduction().blocks;
  variant.cluster = schedule.reduction().cluster;
  variant.shared_bytes = reduction_shared_bytes(analysis, mapping);
  variant.programmatic_launch = analysis.request().programmatic_launch;
  if (variant.programmatic_launch)
    variant.body = fmt::format("  launch_dependents();\n{}  grid_dependency_wait();\n  {}\n{}",
                               prefetches(analysis, args, mapping.blocks, schedule.threads()),
                               fmt::join(args.after_grid_wait(), "\n  "), variant.body);
  return variant;
}

/// Guarded loads use the vector functions even for one element.
bool uses_vectors(const Schedule& schedule, const VariantText& variant) {
  return schedule.vector > 1 || schedule.is<WindowParameters>() ||
         variant.body.find("load_if<") != std::string::npos;
}

}  // namespace

EmittedKernel emit_loops(const KernelRequest& request, ExprTable& exprs) {
  const ProgramAnalysis analysis(request, exprs);
  Arguments args(analysis);
  EmittedKernel kernel;
  std::vector<Schedule> schedules = choose_schedules(analysis);
  const std::vector<std::string> chosen_by = choose_variants(
      request, exprs, schedules, kernel.choices,
      [&](const Schedule& rule) {
        return schedule_candidates(analysis, rule, request.requested.clusters);
      },
      [](const Schedule& schedule) { return schedule.reduction().cluster; });
  std::vector<VariantText> variants;
  bool clusters = false, vectors = false, transposes = false, runs = false, stencils = false;
  for (const Schedule& schedule : schedules) {
    variants.push_back(variant_of(analysis, schedule, args));
    variants.back().chosen_by = chosen_by[variants.size() - 1];
    clusters = clusters || schedule.reduction().cluster > 1;
    vectors = vectors || uses_vectors(schedule, variants.back());
    transposes = transposes || schedule.is<TileTranspose>();
    runs = runs || schedule.is<StridedParameters>();
    stencils = stencils || schedule.is<StencilParameters>();
  }
  std::vector<std::string> headers;
  if (request.programmatic_launch || clusters) headers.emplace_back("cluster.cuh");
  headers.push_back(request.scan_tiles ? "scan_tiles.cuh" : body_header(analysis));
  if (vectors) headers.emplace_back("vector.cuh");
  if (request.summands) headers.emplace_back("summands.cuh");
  if (transposes) headers.emplace_back("transpose.cuh");
  if (runs) headers.emplace_back("strided.cuh");
  if (stencils) headers.emplace_back("stencil.cuh");
  assemble(request, exprs, args, variants, headers, "", kernel);
  return kernel;
}

}  // namespace sinter::codegen
