// SPDX-License-Identifier: Apache-2.0
// New weights: of files, and of the caller's memory.
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "frontend/decoders/files/safetensors.h"
#include "frontend/import.h"
#include "ir/text/shown.h"
#include "runtime/format_error.h"
#include "runtime/plan/hash.h"
#include "tools/compiler/refit/refit.h"
#include "tools/compiler/run/inputs.h"

namespace sinter::tools {

NewWeights read_new_weights(const std::string& path) {
  NewWeights result;
  result.name = std::filesystem::path(path).filename().string();
  if (frontend::is_safetensors(path)) {
    result.tensors = frontend::read_safetensors(path);
    std::uint64_t hash = 0;
    for (const auto& [name, tensor] : result.tensors)
      hash = plan::hash64(fmt::format("{:016x} {} {:016x}", hash, name, tensor.hash()));
    result.hash = hash;
    return result;
  }
  frontend::ModelWeights model = frontend::read_weights(path);
  for (auto& [name, tensor] : model.tensors) result.tensors.emplace(name, std::move(tensor));
  result.hash = model.hash;
  result.structure = model.structure;
  return result;
}

NewWeights new_weights(std::span<const NamedTensor> tensors) {
  NewWeights result;
  std::uint64_t hash = 0;
  for (const NamedTensor& each : tensors) {
    const ir::Tensor tensor = tensor_of(each.tensor);
    if (!result.tensors.emplace(each.name, tensor).second)
      throw usage_error("tensor '{}' is given twice", ir::shown(each.name));
    hash = plan::hash64(fmt::format("{:016x} {} {:016x}", hash, each.name, tensor.hash()));
  }
  result.hash = hash;
  return result;
}

}  // namespace sinter::tools
