// Loop programs as CUDA translation units: schedules, then text.
#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/cuda/body_writer.h"
#include "codegen/cuda/cuda_kernels.h"
#include "codegen/cuda/early_fetch.h"
#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/layout_product.h"
#include "codegen/cuda/schedule_candidates.h"

namespace sinter::codegen {

namespace {

Layout make_layout(const ProgramAnalysis& analysis, const Schedule& schedule, Arguments& args) {
  switch (schedule.family) {
    case Family::kPointwise: return layout_pointwise(analysis, schedule, args);
    case Family::kRow: return layout_row(analysis, schedule, args);
    case Family::kColumn: return layout_column(analysis, schedule, args);
    case Family::kWindow: return layout_window(analysis, schedule, args);
    case Family::kScan: return layout_scan(analysis, schedule, args);
    case Family::kTranspose: return layout_transpose(analysis, schedule, args);
  }
  throw Error(ErrorCode::kInternal, "unknown schedule family");
}

/// One compiled form before its text is put together.
struct Variant {
  std::vector<plan::fb::Condition> conditions;
  std::string schedule, chosen_by, body;
  ir::Dim blocks;
  std::vector<std::uint32_t> block;
  int threads = 0, blocks_at_once = 0, cluster = 1;
  std::uint32_t shared_bytes = 0;
  bool has_vectors = false, turns = false, overlaps = false;
  std::optional<RowsFunction> rows;
  std::vector<MapParameter> maps;  // not empty: code for one GPU alone
};

std::string write_body(const ProgramAnalysis& analysis, const Layout& layout, Arguments& args) {
  CodeText body(1);
  BodyWriter(analysis, args, layout, body).write();
  return body.text();
}

/// What every family's variants have.
template <typename AnySchedule>
Variant variant_of(const ProgramAnalysis& analysis, const AnySchedule& schedule,
                   const Layout& layout, Arguments& args) {
  Variant variant;
  variant.conditions = schedule.conditions;
  variant.schedule = schedule.to_string();
  variant.body = write_body(analysis, layout, args);
  variant.blocks = layout.blocks;
  variant.block = layout.block;
  variant.threads = schedule.threads();
  variant.overlaps = analysis.request().early;
  return variant;
}

/// Who chose each schedule, once the request's wish is applied; nothing can be chosen where one is
/// forced.
template <typename AnySchedule, typename CandidatesOf>
std::vector<std::string> choose_variants(const KernelRequest& request,
                                         std::vector<AnySchedule>& schedules,
                                         std::vector<VariantChoice>& choices,
                                         const CandidatesOf& candidates_of,
                                         int (*blocks_together)(const AnySchedule&)) {
  if (!request.schedule.empty()) return std::vector<std::string>(schedules.size(), kChosenByUser);
  return apply_wish(request.wish, schedules, choices, candidates_of,
                    [&](const AnySchedule& schedule) { return blocks_together(schedule) == 1; });
}

std::vector<Variant> loop_variants(const ProgramAnalysis& analysis, Arguments& args,
                                   std::vector<VariantChoice>& choices) {
  std::vector<Variant> variants;
  std::vector<Schedule> schedules = choose_schedules(analysis);
  const std::vector<std::string> chosen_by = choose_variants<Schedule>(
      analysis.request(), schedules, choices,
      [&](const Schedule& rule) {
        return schedule_candidates(analysis, rule, analysis.request().wish.clusters);
      },
      [](const Schedule& schedule) { return schedule.cluster; });
  for (const Schedule& schedule : schedules) {
    const Layout layout = make_layout(analysis, schedule, args);
    Variant variant = variant_of(analysis, schedule, layout, args);
    // Guarded loads are those of a vector, if of one element.
    variant.has_vectors = schedule.vector > 1 || schedule.family == Family::kWindow ||
                          variant.body.find("load_if<") != std::string::npos;
    variant.turns = schedule.family == Family::kTranspose;
    variant.cluster = schedule.cluster;
    variant.blocks_at_once = schedule.blocks;
    variant.shared_bytes = row_shared_bytes(analysis, layout);
    variant.chosen_by = chosen_by[variants.size()];
    if (variant.overlaps)
      variant.body = fmt::format(
          "  allow_next_kernel();\n{}  wait_for_previous_kernel();\n  {}\n{}",
          early_fetches(analysis, args, layout.blocks, static_cast<int>(schedule.threads())),
          fmt::join(args.behind_wait(), "\n  "), variant.body);
    variants.push_back(std::move(variant));
  }
  return variants;
}

/// The headers of the tiles that the variants of a product use.
std::string product_headers(const ProductProgram& product, const std::vector<Variant>& variants) {
  const auto uses = [&](const char* tile) {
    return std::any_of(variants.begin(), variants.end(), [&](const Variant& variant) {
      return variant.body.find(tile) != std::string::npos;
    });
  };
  std::string text;
  if (product.windows)
    text += "#include \"windows.cuh\"\n";
  else if (uses("WithSums<ProductTile<"))
    text += "#include \"product.cuh\"\n";
  if (uses("WithSums<SkinnyTile<")) text += "#include \"skinny.cuh\"\n";
  if (uses("WithSums<DigitTile<")) text += "#include \"skinny_digits.cuh\"\n";
  if (uses("WithSums<PackedGroupTile<")) text += "#include \"packed_groups.cuh\"\n";
  if (uses("WithSums<GroupTile<")) text += "#include \"product_groups.cuh\"\n";
  if (uses("typedef TurnTile<")) text += "#include \"product_turns.cuh\"\n";
  if (product.rows) text += "#include \"reduce.cuh\"\n#include \"vector.cuh\"\n";
  return text;
}

std::vector<Variant> product_variants(const ProgramAnalysis& analysis, Arguments& args,
                                      std::vector<VariantChoice>& choices) {
  const KernelRequest& request = analysis.request();
  std::vector<Variant> variants;
  std::vector<ProductSchedule> schedules =
      choose_products(analysis, *request.product, request.schedule);
  for (ProductSchedule& schedule : schedules) schedule.early = request.early;
  const std::vector<std::string> chosen_by = choose_variants<ProductSchedule>(
      request, schedules, choices,
      [&](const ProductSchedule& rule) {
        return product_candidates(analysis, *request.product, rule, request.wish.clusters);
      },
      [](const ProductSchedule& schedule) { return schedule.cluster(); });
  for (const ProductSchedule& schedule : schedules) {
    const Layout layout = layout_product(analysis, schedule, args);
    Variant variant = variant_of(analysis, schedule, layout, args);
    variant.maps = layout.maps;
    variant.rows = layout.rows;
    variant.blocks_at_once = schedule.blocks_at_once();
    variant.cluster = schedule.cluster();
    variant.shared_bytes = product_shared_bytes(analysis, schedule);
    variant.chosen_by = chosen_by[variants.size()];
    variants.push_back(std::move(variant));
  }
  return variants;
}

}  // namespace

bool can_emit_product(const KernelRequest& request, ExprTable& exprs, std::string& reason) {
  const ProgramAnalysis analysis(request, exprs);
  return can_schedule_product(analysis, *request.product, reason);
}

EmittedKernel emit_cuda(const KernelRequest& request, ExprTable& exprs) {
  const ProgramAnalysis analysis(request, exprs);
  Arguments args(analysis);
  EmittedKernel kernel;
  const std::vector<Variant> variants = request.product
                                            ? product_variants(analysis, args, kernel.choices)
                                            : loop_variants(analysis, args, kernel.choices);
  // Parameters are the same for all variants, so they are known only now.
  std::string text = kernel_heading(request.name, request.origins);
  if (std::any_of(variants.begin(), variants.end(),
                  [](const Variant& variant) { return !variant.maps.empty(); }))
    text += fmt::format("{}\n", kExactTarget);
  if (request.product) text += product_headers(*request.product, variants);
  const bool clusters = std::any_of(variants.begin(), variants.end(),
                                    [](const Variant& variant) { return variant.cluster > 1; });
  if (!request.product && (request.early || clusters)) text += "#include \"cluster.cuh\"\n";
  const bool reduces = analysis.stages() > 0 || analysis.combines();
  text += fmt::format("#include \"{}.cuh\"\n", analysis.scans() ? "scan"
                                               : reduces        ? "reduce"
                                                                : "math");
  if (std::any_of(variants.begin(), variants.end(),
                  [](const Variant& variant) { return variant.has_vectors; }))
    text += "#include \"vector.cuh\"\n";
  if (std::any_of(variants.begin(), variants.end(),
                  [](const Variant& variant) { return variant.turns; }))
    text += "#include \"turn.cuh\"\n";
  std::set<std::string> functions;
  for (const Variant& variant : variants)
    if (variant.rows && functions.insert(variant.rows->name).second) text += variant.rows->text;
  const std::vector<std::string> parameters = args.parameters();
  for (std::size_t v = 0; v < variants.size(); ++v) {
    const Variant& variant = variants[v];
    auto result = std::make_unique<plan::fb::KernelVariantT>();
    result->conditions = variant.conditions;
    result->function = v == 0 ? request.name : fmt::format("{}_v{}", request.name, v);
    result->grid = {exprs.intern(variant.blocks), exprs.intern(1), exprs.intern(1)};
    result->block = variant.block;
    result->schedule = variant.schedule;
    result->chosen_by = variant.chosen_by;
    result->shared_bytes = variant.shared_bytes;
    result->cluster = static_cast<std::uint32_t>(variant.cluster);
    result->overlaps = variant.overlaps;
    text += fmt::format("\n// schedule: {}\n", variant.schedule);
    if (!variant.conditions.empty())
      text += fmt::format("// where {}\n", conditions_text(variant.conditions, exprs));
    std::vector<std::string> own = parameters;
    for (const MapParameter& map : variant.maps) {
      own.push_back("const __grid_constant__ TensorMap " + map.name);
      result->maps.push_back(std::make_unique<plan::fb::TensorMapT>(map.map));
    }
    const std::string function = fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}{})\n{} {{\n{}}}\n", variant.threads,
        variant.blocks_at_once > 0 ? fmt::format(", {}", variant.blocks_at_once) : "",
        signature_text(result->function, own), variant.body);
    text += variant.maps.empty() ? function
                                 : fmt::format("#ifdef SINTER_WARPGROUPS\n{}#endif\n", function);
    kernel.step.variants.push_back(std::move(result));
  }
  kernel.source = std::move(text);
  kernel.step.args = args.kernel_args();
  return kernel;
}

}  // namespace sinter::codegen
