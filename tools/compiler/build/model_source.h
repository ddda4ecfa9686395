// SPDX-License-Identifier: Apache-2.0
// Reads models: ONNX or Graph text, from files or memory.
#pragma once

#include <sinter/compiler.h>

#include "frontend/import.h"
#include "tools/compiler/options/reporter.h"

namespace sinter::tools {

/// True if the model, after comments, starts like a printed graph. Throws Error(kUsage) if its file
/// cannot be opened.
bool is_graph_text(const Model& model);

/// The model's name in the plan: the file name.
std::string name_of(const Model& model);

/// Accepted models: only those of one graph, or also those of two bodies (ImportedModel::Flag).
enum class Bodies { kOne, kAll };

/// Imports the model with the shapes, ranges, constants and sampler in `options`; its dimensions
/// cover all entry points. Progress is stage "import". Constants of Graph text must be written out.
/// Throws Error(kUsage) for options that do not fit the model, or a model of two bodies if not
/// accepted, and the frontend's errors.
frontend::ImportedModel import_model(const Model& model, const CompileOptions& options,
                                     const Reporter& reporter, Bodies bodies = Bodies::kOne);

/// True if `graph` is the output of the last pass. It is compiled unchanged.
bool is_fused(const ir::Graph& graph);

}  // namespace sinter::tools
