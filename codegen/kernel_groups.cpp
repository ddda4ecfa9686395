#include "codegen/kernel_groups.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/targets/cuda/kernel_cache.h"
#include "codegen/targets/cuda/nvrtc.h"

namespace sinter::codegen {

plan::fb::KernelStepT on_buffers_of(const KernelGroup& group, plan::fb::KernelStepT step,
                                    std::size_t place) {
  const std::vector<std::uint32_t>& first = group.buffers[0];
  const auto own_buffer = [&](std::uint32_t buffer) {
    const auto position = std::find(first.begin(), first.end(), buffer) - first.begin();
    return group.buffers[place][static_cast<std::size_t>(position)];
  };
  for (auto& arg : step.args)
    if (arg.kind() == plan::fb::ArgKind::Buffer)
      arg = plan::fb::KernelArg(arg.kind(), own_buffer(arg.index()));
  for (const auto& variant : step.variants)
    for (const auto& map : variant->maps) map->buffer = own_buffer(map->buffer);
  return step;
}

std::string kernel_key(const KernelGroup& group, const ir::Ranges& ranges,
                       const CompileOptions& options) {
  std::string bounds;
  for (const auto& [symbol, range] : ranges)
    bounds += fmt::format("{}={}..{} ", symbol, range.min, range.max);
  // The hash of contents that the kernel cache has.
  return KernelCache::key(group.signature, bounds,
                          fmt::format("{} {}", options.early_launch, options.precise_math), 0, "");
}

std::optional<KernelInfo> kernel_info(const KernelGroup& group, const plan::fb::StepT& step,
                                      std::vector<VariantChoice>& choices, const ExprTable& exprs) {
  if (choices.empty()) return std::nullopt;
  KernelInfo info;
  info.name = group.name;
  info.entry = group.nodes.front().entry;
  info.node = group.nodes.front().node;
  info.uses = group.places.size();
  info.bytes = exprs.dim(step.bytes_read) + exprs.dim(step.bytes_written);
  info.flops = exprs.dim(step.flops);
  const Place& place = group.places[0];
  if (const auto* choice = step.work.AsChoiceStep();
      place.part && choice && choice->alternatives.size() > 1) {
    const auto& [alternative, part] = *place.part;
    const std::string& name = choice->alternatives[alternative]->name;
    if (name.find("unpacked, warpgroups") != name.npos) return std::nullopt;
    if (part > 0)
      info.way = "library";
    else if (name.starts_with("product, then"))
      info.way = "alone";
    else if (name.starts_with("warpgroups, then"))
      info.way = "groups alone";
    else if (name.starts_with("product") || name.starts_with("warpgroups"))
      info.way = "product";
    else
      return std::nullopt;
  }
  for (VariantChoice& choice : choices) {
    VariantInfo variant{{}, std::move(choice.candidates), std::move(choice.refused)};
    for (const plan::fb::Condition& condition : choice.conditions)
      variant.conditions.push_back({exprs.dim(condition.expression()),
                                    static_cast<std::int64_t>(condition.divisor()),
                                    condition.max()});
    info.variants.push_back(std::move(variant));
  }
  return info;
}

void add_modules(plan::PlanParts& parts, const std::vector<KernelGroup>& groups,
                 std::vector<std::string> sources,
                 std::vector<std::vector<CompiledKernel>> compiled,
                 const std::vector<std::string>& architectures) {
  std::uint64_t code_end = 0, source_end = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto source = std::make_shared<const std::string>(std::move(sources[g]));
    parts.sources.push_back(
        {source_end, std::as_bytes(std::span(source->data(), source->size())), source});
    for (std::size_t a = 0; a < architectures.size(); ++a) {
      const auto code =
          std::make_shared<const std::vector<std::byte>>(std::move(compiled[g][a].cubin));
      constexpr std::uint64_t kCodeAlignment = 64;
      code_end = (code_end + kCodeAlignment - 1) / kCodeAlignment * kCodeAlignment;
      auto module = std::make_unique<plan::fb::ModuleT>();
      module->target = architectures[a];
      module->offset = code_end;
      module->size = code->size();
      module->source_offset = source_end;
      module->source_size = source->size();
      module->name = groups[g].name;
      parts.modules.push_back({code_end, *code, code});
      parts.meta.modules.push_back(std::move(module));
      code_end += code->size();
    }
    source_end += source->size();
  }
}

}  // namespace sinter::codegen
