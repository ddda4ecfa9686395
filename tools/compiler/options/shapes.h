// Shapes on the command line, in trtexec's grammar: "ids:1x64,mask:1x64".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/import.h"

namespace sinter::tools {

using ShapeMap = std::map<std::string, std::vector<std::int64_t>>;

/// Parses "name:1x64,other:8"; a scalar is "name:". Names may contain colons: the last one counts.
/// Throws Error(kUsage) quoting the part that is wrong.
ShapeMap parse_shapes(std::string_view text);

/// The --shapes, --minShapes, --maxShapes and --dim options of a verb that compiles.
struct ShapeOptions {
  std::string min_shapes, max_shapes;
  std::vector<std::string> dims;  // "seq=1..512" or "batch=8"
};

/// Import options with the ranges that `options` asks for. `model` has been imported without them:
/// it tells which symbol stands where. Throws Error(kUsage) for an unknown input or symbol.
frontend::ImportOptions import_options(const ShapeOptions& options, const ir::Graph& model);

/// Symbol values that give each input its shape in `shapes`; symbols of other inputs follow or take
/// `fallback`, or what is the `least` that they may be. Throws Error(kUsage) on contradiction.
ShapeMap complete_shapes(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& inputs,
    const ShapeMap& shapes, std::int64_t fallback, const ir::Bindings& least = {});

/// Values of the graph's symbols for typical inputs: what `shapes` say, else the greatest value
/// that its range allows, at most 512, or one where it is unbounded. Throws Error(kUsage) for a
/// name, a rank or a dimension that `model` has not.
ir::Bindings typical_sizes(const ir::Graph& model, const ShapeMap& shapes);

}  // namespace sinter::tools
