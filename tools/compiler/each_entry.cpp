// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/each_entry.h"

#include <fmt/ranges.h>

#include "fusion/narrow_dims.h"
#include "runtime/format_error.h"
#include "tools/compiler/build/model_source.h"
#include "tools/compiler/options/entries.h"
#include "tools/compiler/options/shapes.h"
#include "tools/compiler/run/inputs.h"

namespace sinter::tools {
namespace {

/// The entry points that accept `shapes` of some inputs.
std::vector<EntryLimits> that_take(std::vector<EntryLimits> entries, const BuildOptions& options,
                                   const Shapes& shapes, const Reporter& reporter) {
  if (shapes.empty()) return entries;
  const ir::Graph model = import_model(options.model, options, reporter).graph;
  std::string why;
  std::erase_if(entries, [&](const EntryLimits& entry) {
    try {
      (void)typical_sizes(fusion::narrow_dims(model, entry.limits), shapes);
      return false;
    } catch (const Error& error) {
      why += fmt::format("; {}: {}", entry.name, error.what());
      return true;
    }
  });
  if (entries.empty()) throw usage_error("no entry point takes these shapes" + why);
  return entries;
}

}  // namespace

std::vector<OneEntry> entries_one_by_one(const BuildOptions& options, const RunInputs& inputs,
                                         const Reporter& reporter) {
  if (options.entries.empty()) return {{"", "", options}};
  Shapes shapes = inputs.shapes;
  for (const auto& [name, tensor] : read_tensor_files(inputs.files))
    shapes.insert_or_assign(name, tensor.shape());
  for (const auto& [name, tensor] : inputs.tensors) shapes.insert_or_assign(name, tensor.shape);
  std::vector<OneEntry> all;
  for (const EntryLimits& entry :
       that_take(limits_of(options.entries), options, shapes, reporter)) {
    OneEntry& one = all.emplace_back(
        OneEntry{entry.name, fmt::format("{}", fmt::join(dim_texts(entry), ", ")), options});
    one.options.entries.clear();
    for (const auto& [symbol, range] : entry.limits) {
      DimRange& dim = one.options.dims[symbol];
      dim.min = range.min;
      dim.max = range.max;
      dim.same_as.clear();
    }
  }
  return all;
}

}  // namespace sinter::tools
