// SPDX-License-Identifier: Apache-2.0
// Models as they come: ONNX or the graph's own text form, in files or in memory.
#pragma once

#include <sinter/compiler.h>

#include "frontend/import.h"
#include "tools/compiler/options/reporter.h"

namespace sinter::tools {

/// True if the model begins as a printed graph does, behind comments. Throws Error(kUsage) if its
/// file cannot be opened.
bool is_graph_text(const Model& model);

/// What a plan says that its model is called: the file's name.
std::string name_of(const Model& model);

/// Which models are taken: those of one graph, or also those of two bodies (ImportedModel::Flag).
enum class Bodies { kOne, kAll };

/// Imports the model with the shapes, ranges, constants and the sampler that `options` ask for; its
/// dimensions hold all entry points. Progress is stage "import". Constants of Graph text must all
/// be written out. Throws Error(kUsage) for options that do not fit the model or a model of two
/// bodies that is not taken, and what the frontend throws.
frontend::ImportedModel import_model(const Model& model, const CompileOptions& options,
                                     const Reporter& reporter, Bodies bodies = Bodies::kOne);

/// Of a model of two bodies (a decoder that Optimum merged) the one that is given caches; else the
/// model's own.
const ir::Graph& of_later_steps(const frontend::ImportedModel& model);

/// True if the passes have been over `graph`: a text taken behind the last one. It is compiled as
/// it stands.
bool is_fused(const ir::Graph& graph);

}  // namespace sinter::tools
