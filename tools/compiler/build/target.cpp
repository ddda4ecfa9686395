// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/build/target.h"

#include <algorithm>

#include <sinter/devices.h>

#include "codegen/targets/registry.h"
#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (start <= text.size()) {
    const auto end = std::min(text.find(separator, start), text.size());
    if (end > start) parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

}  // namespace

ir::TargetTraits Target::traits() const {
  ir::TargetTraits traits = kind->traits();
  // A layer's weights are distributed over a cluster of 16 multiprocessors.
  constexpr int kRecurrentBlocks = 16;
  for (const std::string& architecture : architectures)
    if (kind->device(architecture).cluster_blocks < kRecurrentBlocks)
      traits.recurrent_units.clear();
  for (const std::string& architecture : architectures)
    if (!kind->device(architecture).has_wgmma)
      std::erase_if(traits.formats, [](const ir::OperandFormats& row) {
        return row.op == "Attention" && !row.scaled;
      });
  return traits;
}

std::string Target::to_string() const {
  std::string text(kind->name());
  for (std::size_t i = 0; i < architectures.size(); ++i)
    text += (i == 0 ? ":" : ",") + architectures[i];
  return text;
}

Target resolve_target(const std::string& text) {
  const std::string name = text.substr(0, text.find(':'));
  if (name == "auto") {
    const GpuList list = list_gpus();
    if (list.gpus.empty()) return {};
    return {&codegen::target_named("cuda"), {list.gpus.front().architecture}};
  }
  Target target;
  for (const codegen::Target* known : codegen::targets())
    if (known->name() == name) target.kind = known;
  const bool has_architectures = target.traits().generates_kernels;
  if (target.kind->name() != name || (name != text && !has_architectures))
    throw usage_error("'{}' is no target: write auto, {} or cuda:sm_90", text,
                      codegen::target_names());
  if (!has_architectures) return target;
  if (name != text) {
    target.architectures = split(text.substr(name.size() + 1), ',');
    for (const auto& architecture : target.architectures) target.kind->device(architecture);
    if (target.architectures.empty())
      throw usage_error("--target={} names no architecture, for example cuda:sm_90", text);
    return target;
  }
  const GpuList list = list_gpus();
  if (list.gpus.empty())
    throw device_error(
        "no GPU was found to compile for: name the architecture, for example "
        "--target=cuda:sm_90, or see `sinter doctor`");
  target.architectures = {list.gpus.front().architecture};
  return target;
}

}  // namespace sinter::tools
