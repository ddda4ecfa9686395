// SPDX-License-Identifier: Apache-2.0

#include <set>

#include <fmt/format.h>

#include "codegen/emit/assemble.h"
#include "codegen/families/gemm/gemm_schedule.h"
#include "codegen/families/gemm/gemm_text.h"
#include "codegen/families/loops/body/body_writer.h"

namespace sinter::codegen {
namespace {

VariantText variant_of(const ProgramAnalysis& analysis, const GemmSchedule& schedule,
                       const GemmMapping& mapping, Arguments& args) {
  const GemmProblem problem = gemm_problem(analysis, *analysis.request().product);
  VariantText variant;
  variant.conditions = schedule.conditions;
  variant.schedule = schedule.to_string();
  variant.body = write_body(analysis, mapping.epilogue, args);
  variant.blocks = mapping.epilogue.blocks;
  variant.block = mapping.epilogue.block;
  variant.threads = schedule.threads();
  variant.blocks_at_once = schedule.tile->blocks_at_once(problem, schedule);
  variant.cluster = schedule.cluster();
  variant.shared_bytes = gemm_shared_bytes(analysis, schedule);
  variant.programmatic_launch = analysis.request().programmatic_launch;
  variant.maps = mapping.maps;
  return variant;
}

/// The MMAs of operands that are not of 16 bits; empty for others.
std::string mma_header(const GemmProgram& product) {
  const bool rounds = product.type == DType::kFloat32 && product.tf32;
  if (!rounds && !product.is_eight_bit()) return "";
  return fmt::format("{}_{}.cuh", rounds ? "tf32" : "eight_bit",
                     product.by_warpgroups ? "warpgroup" : "mma");
}

/// The headers of the tiles of `schedules` and of their epilogues.
std::vector<std::string> headers_of(const ProgramAnalysis& analysis, const GemmProgram& product,
                                    const std::vector<GemmSchedule>& schedules) {
  std::set<std::string> used;
  for (const GemmSchedule& schedule : schedules) used.insert(schedule.tile->header(product));
  std::vector<std::string> headers(used.begin(), used.end());
  if (const std::string header = mma_header(product); !header.empty()) headers.push_back(header);
  if (product.groups > 0) headers.emplace_back("group_tiles.cuh");
  if (product.prologue) headers.insert(headers.end(), {"reduce.cuh", "vector.cuh"});
  headers.push_back(body_header(analysis));
  return headers;
}

}  // namespace

void set_gemm(KernelRequest& request, const GemmProgram& product) {
  request.program = &product.program;
  request.product = &product;
  request.hidden = product.product;
  request.operands = {"a", "b"};
  if (product.blocks) request.operands = {"row_scales", "column_scales", "a", "b"};
  const auto put_first = [&](const char* name) {
    request.operands.insert(request.operands.begin(), name);
  };
  if (product.weights && product.weights->is_quantized()) {
    put_first("scales");
    if (product.weights->has_zeros()) put_first("zeros");
    if (product.weights->has_factors()) put_first("factors");
  }
  if (product.groups > 0) put_first("offsets");
  if (product.gathered) put_first("row_index");
  if (product.combined) put_first("shares"), put_first("rows_of");
}

EmittedKernel emit_gemm(const KernelRequest& request, ExprTable& exprs) {
  const GemmProgram& product = *request.product;
  const ProgramAnalysis analysis(request, exprs);
  Arguments args(analysis);
  EmittedKernel kernel;
  std::vector<GemmSchedule> schedules = choose_gemm_schedules(analysis, product, request.schedule);
  for (GemmSchedule& schedule : schedules)
    schedule.programmatic_launch = request.programmatic_launch;
  const std::vector<std::string> chosen_by = choose_variants(
      request, exprs, schedules, kernel.choices,
      [&](const GemmSchedule& rule) {
        return gemm_candidates(analysis, product, rule, request.requested.clusters);
      },
      [](const GemmSchedule& schedule) { return schedule.cluster(); });
  std::vector<VariantText> variants;
  std::set<std::string> names;
  std::string functions;
  for (const GemmSchedule& schedule : schedules) {
    const GemmMapping mapping = map_gemm(analysis, schedule, args);
    variants.push_back(variant_of(analysis, schedule, mapping, args));
    variants.back().chosen_by = chosen_by[variants.size() - 1];
    if (mapping.prologue && names.insert(mapping.prologue->name).second)
      functions += mapping.prologue->text;
  }
  assemble(request, exprs, args, variants, headers_of(analysis, product, schedules), functions,
           kernel);
  return kernel;
}

bool can_emit_gemm(const KernelRequest& request, ExprTable& exprs, std::string& reason) {
  const ProgramAnalysis analysis(request, exprs);
  return can_schedule_gemm(analysis, *request.product, reason);
}

}  // namespace sinter::codegen
