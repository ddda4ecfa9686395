// SPDX-License-Identifier: Apache-2.0
// Reads models: ONNX or Graph text, from files or memory.
#pragma once

#include <sinter/compiler.h>

#include "frontend/import.h"
#include "tools/compiler/options/reporter.h"

namespace sinter::tools {

/// True for weights without a graph: a Hugging Face folder, or a GGUF file. Throws Error(kUsage) if
/// the file cannot be opened.
bool is_decoder(const Model& model);

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

/// Of a model of two bodies (a decoder that Optimum merged) the one that is given caches; else the
/// model's own.
const ir::Graph& of_later_steps(const frontend::ImportedModel& model);

/// True if the passes have been over `graph`: a text taken behind the last one. It is compiled as
/// it stands.
bool is_fused(const ir::Graph& graph);

}  // namespace sinter::tools
