// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/assemble.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/emit/kernel_text.h"

namespace sinter::codegen {
namespace {

/// The function of a task. What waits for nothing itself does so first.
std::string task_text(const VariantText& variant, const std::string& name,
                      std::vector<std::string> parameters, const std::string& sizes) {
  parameters.insert(parameters.end(), {"u32 task", "TaskWait ready"});
  return fmt::format("SINTER_TASK\n{} {{\n{}{}{}}}\n", signature_text(name, parameters), sizes,
                     variant.programmatic_launch ? "" : "  ready();\n", variant.body);
}

/// The function of a variant; guarded by architecture if it is for one GPU only.
std::string function_text(const VariantText& variant, const std::string& name,
                          const std::vector<std::string>& parameters, const std::string& sizes) {
  const std::string text = fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}{})\n{} {{\n{}{}}}\n", variant.threads,
      variant.blocks_at_once > 0 ? fmt::format(", {}", variant.blocks_at_once) : "",
      signature_text(name, parameters), sizes, variant.body);
  return variant.maps.empty() ? text : fmt::format("#ifdef SINTER_WARPGROUPS\n{}#endif\n", text);
}

}  // namespace

void assemble(const KernelRequest& request, ExprTable& exprs, Arguments& args,
              const std::vector<VariantText>& variants, const std::vector<std::string>& headers,
              const std::string& functions, EmittedKernel& kernel) {
  std::string text = kernel_heading(request.name, request.origins);
  if (std::ranges::any_of(variants,
                          [](const VariantText& variant) { return !variant.maps.empty(); }))
    text += fmt::format("{}\n", kExactTarget);
  for (const std::string& header : headers) text += fmt::format("#include \"{}\"\n", header);
  text += functions;
  std::vector<std::string> sizes;
  sizes.reserve(variants.size());
  for (const VariantText& variant : variants) sizes.push_back(args.sizes_from_data(variant.blocks));
  // All variants share the parameters, which are complete only now.
  const std::vector<std::string> parameters = args.parameters();
  for (std::size_t v = 0; v < variants.size(); ++v) {
    const VariantText& variant = variants[v];
    auto result = std::make_unique<KernelVariantT>();
    result->conditions = variant.conditions;
    result->function = v == 0 ? request.name : fmt::format("{}_v{}", request.name, v);
    result->grid = {exprs.intern(variant.blocks), exprs.intern(1), exprs.intern(1)};
    result->block = variant.block;
    result->schedule = variant.schedule;
    result->chosen_by = variant.chosen_by;
    result->shared_bytes = variant.shared_bytes;
    result->cluster = static_cast<std::uint32_t>(variant.cluster);
    result->programmatic_launch = variant.programmatic_launch;
    text += fmt::format("\n// schedule: {}\n", variant.schedule);
    if (!variant.conditions.empty())
      text += fmt::format("// where {}\n", conditions_text(variant.conditions, exprs));
    std::vector<std::string> own = parameters;
    for (const MapParameter& map : variant.maps) {
      own.push_back(map.declaration());
      result->maps.push_back(std::make_unique<plan::fb::TensorMapT>(map.map));
    }
    text += request.task ? task_text(variant, result->function, own, sizes[v])
                         : function_text(variant, result->function, own, sizes[v]);
    kernel.step.variants.push_back(std::move(result));
  }
  kernel.source = std::move(text);
  kernel.step.args = args.kernel_args();
}

}  // namespace sinter::codegen
