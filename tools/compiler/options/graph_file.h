// Models in the graph's own text form.
#pragma once

#include <string>

#include "frontend/import.h"

namespace sinter::tools {

/// True if the file begins as a printed graph does, behind comments. Throws Error(kUsage) if it
/// cannot be opened.
bool is_graph_file(const std::string& path);

/// The graph of such a file. All constants must be written out. Throws Error(kInvalidModel) with
/// line and column.
frontend::ImportedModel read_graph_file(const std::string& path);

/// True if the passes have been over `graph`: a text taken behind the last one. It is compiled as
/// it stands.
bool is_fused(const ir::Graph& graph);

}  // namespace sinter::tools
