// SPDX-License-Identifier: Apache-2.0
#include "tools/generate/bindings.h"

#include <fmt/ranges.h>

#include "runtime/format_error.h"

namespace sinter::tools {

const BindingInfo* find_binding(const std::vector<BindingInfo>& bindings, const std::string& name) {
  for (const auto& binding : bindings)
    if (binding.name == name) return &binding;
  return nullptr;
}

const BindingInfo& require_binding(const std::vector<BindingInfo>& bindings,
                                   const std::string& name, const char* what, const char* option) {
  if (const auto* binding = find_binding(bindings, name)) return *binding;
  constexpr std::size_t kShown = 8;
  std::vector<std::string> names;
  for (const auto& binding : bindings)
    if (names.size() < kShown) names.push_back("'" + binding.name + "'");
  if (bindings.size() > kShown) names.push_back(fmt::format("{} more", bindings.size() - kShown));
  throw usage_error("the plan has no {} '{}'; it has {}. Name it with {}", what, name,
                    fmt::join(names, ", "), option);
}

bool is_of_encoder(const BindingInfo& cache) {
  return cache.name.find(".encoder.") != std::string::npos;
}

void refuse_later_step(const BindingInfo& cache) {
  if (is_of_encoder(cache))
    throw usage_error(
        "input '{}' is computed of the encoder's output by the decoder's first step: compile the "
        "encoder with --decoder=decoder_model_merged.onnx (Optimum's)",
        cache.name);
}

}  // namespace sinter::tools
