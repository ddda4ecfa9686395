// Regions of one Suppress.
#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_text.h"
#include "codegen/emit/sizes_from_data.h"
#include "codegen/families/family.h"

namespace sinter::codegen {
namespace {

/// Boxes of a tile, and threads of a block.
constexpr int kTile = 512;
/// Rows that are no longer have one block, whose barriers are quicker.
constexpr std::int64_t kShort = 1024;

/// Rows of boxes in buffers of the plan.
struct SuppressionProblem {
  std::uint32_t boxes = 0, valid = 0, kept = 0;
  Dim rows = 1, length;
  double iou = 0;
};

SuppressionProblem problem_of(const Region& region) {
  const Graph& body = *region.node.body;
  const Node* suppress =
      region.outputs.size() == 1 ? body.producer(body.outputs()[0]) : nullptr;
  if (suppress == nullptr || suppress->op->name != "Suppress" || region.inputs.size() != 2)
    throw Error(ErrorCode::kUnsupported,
                "a region of kind 'suppression' must be one Suppress of values in memory");
  SuppressionProblem problem;
  const auto buffer = [&](ValueId value) { return region.inputs[*body.input_number(value)]; };
  problem.boxes = buffer(suppress->inputs[0]);
  problem.valid = buffer(suppress->inputs[1]);
  problem.kept = region.outputs[0];
  const Shape& shape = body.type(suppress->inputs[1]).shape;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) problem.rows *= shape[d];
  problem.length = shape.back();
  problem.iou = suppress->attrs.get_float("iou");
  return problem;
}

class SuppressionKernel final : public KernelProgram {
 public:
  explicit SuppressionKernel(SuppressionProblem problem) : p_(std::move(problem)) {}

  std::string signature(const ExprTable&) const override {
    return fmt::format("suppression {} {} {}", p_.rows.to_string(), p_.length.to_string(), p_.iou);
  }
  std::vector<std::uint32_t> buffers() const override { return {p_.boxes, p_.valid, p_.kept}; }

  EmittedKernel emit(KernelRequest request, ExprTable& exprs) const override {
    std::vector<std::string> parameters{"const float* __restrict__ boxes",
                                        "const b8* __restrict__ valid", "b8* kept"};
    EmittedKernel kernel;
    for (const std::uint32_t buffer : buffers())
      kernel.step.args.emplace_back(ArgKind::Buffer, buffer);
    std::map<std::uint32_t, std::string> names;
    const auto known = [&](const Dim& dim) {
      if (dim.is_constant()) return int_literal(dim.value());
      const std::uint32_t expression = exprs.intern(dim);
      const auto [at, is_new] = names.try_emplace(expression, fmt::format("n{}", names.size()));
      if (is_new) {
        parameters.push_back("i64 " + at->second);
        kernel.step.args.emplace_back(ArgKind::Int64, expression);
      }
      return at->second;
    };
    SizesFromData data(exprs, known);
    const auto size = [&](const Dim& dim) {
      if (!ir::is_from_data({&dim, 1}, exprs.ranges())) return known(dim);
      data.add(dim);
      return data.text(dim);
    };
    const std::string length = size(p_.length);
    const auto most = ir::upper_bound(p_.length, exprs.ranges());
    const int cluster =
        most && *most <= kShort ? 1 : std::min(8, request.device->cluster_blocks);
    const Dim blocks = p_.rows * Dim(cluster);
    const std::string end = data.end_of_blocks(blocks, "blockIdx.x");
    for (std::string& extent : data.parameters()) parameters.push_back(std::move(extent));
    for (const KernelArg& extent : data.args()) kernel.step.args.push_back(extent);

    const std::string schedule = fmt::format("suppression tile={} cluster={}", kTile, cluster);
    kernel.source = fmt::format(
        "{}#include \"suppression.cuh\"\n\n// schedule: {}\n"
        "extern \"C\" __global__ void __launch_bounds__({})\n{} {{\n{}{}"
        "  suppress_row<{}, {}>(boxes, valid, kept, i64(blockIdx.x / {}), int(blockIdx.x % {}), {}, "
        "{:.9g}f);\n}}\n",
        kernel_heading(request.name, request.origins), schedule, kTile,
        signature_text(request.name, parameters), data.lines(), end, kTile, cluster,
        cluster, cluster, length, static_cast<float>(p_.iou));
    auto variant = std::make_unique<KernelVariantT>();
    variant->function = request.name;
    variant->grid = {exprs.intern(blocks), exprs.intern(1), exprs.intern(1)};
    variant->cluster = static_cast<std::uint32_t>(cluster);
    variant->block = {kTile, 1, 1};
    variant->schedule = schedule;
    kernel.step.variants.push_back(std::move(variant));
    return kernel;
  }

 private:
  SuppressionProblem p_;
};

class SuppressionFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "suppression"; }

  std::string takes(const Region& region, const ir::TargetTraits&) const override {
    return region.kind() == "suppression" ? "" : "it suppresses no boxes";
  }

  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    const SuppressionProblem problem = problem_of(region);
    StepTactics result{step_of(region), {}};
    const Dim boxes = problem.rows * problem.length;
    // Each box beside those before it, as if all were kept.
    set_cost(result.step, {boxes * Dim(17), boxes, boxes * problem.length * Dim(7)}, plan.exprs);
    if (plan.generates_kernels()) {
      result.tactics.push_back(only(region.name, std::make_shared<SuppressionKernel>(problem)));
    } else {
      plan::fb::SuppressionStepT step;
      step.boxes = problem.boxes;
      step.valid = problem.valid;
      step.kept = problem.kept;
      step.rows = plan.exprs.intern(problem.rows);
      step.length = plan.exprs.intern(problem.length);
      step.iou = static_cast<float>(problem.iou);
      result.tactics.push_back(only(std::move(step)));
    }
    std::vector<StepTactics> steps;
    steps.push_back(std::move(result));
    return steps;
  }
};

}  // namespace

const KernelFamily& suppression_family() {
  static const SuppressionFamily family;
  return family;
}

}  // namespace sinter::codegen
