// SPDX-License-Identifier: Apache-2.0
// The argument of verbs that run plans: a plan, or a model, which is compiled on first use.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <sinter/plan.h>

#include "tools/cli/build_options.h"
#include "tools/source/model_files.h"
#include "tools/source/plan_cache.h"

namespace sinter::tools {

/// What the command line says of the models that a verb runs.
struct ModelTexts {
  BuildTexts build;  // how a model is compiled
  PlanCacheOptions cache;
  std::string cache_size;
  HubOptions hub;
  std::string keep;  // --plan: the compiled plan is also written here
};

/// The options of compiling and of the cache. `is_one`: --plan, too.
void add_model_options(Command& verb, ModelTexts& texts, bool is_one = true);

/// A loaded model.
struct OpenModel {
  std::string name;
  Plan plan;
  std::optional<Plan> encoder;         // of a model of two
  std::string tokenizer;               // path of tokenizer.json; empty: the model brings none
  std::string folder;                  // of a Hugging Face model
  std::shared_ptr<const void> in_use;  // the cache keeps its files while this lives
};

/// Loads a plan; compiles another model, unless the cache has its plan. Notes on `console` say so.
/// Throws Error(kUsage) for compile options with a plan, for a required signature with a model, and
/// as find_model() and the compiler do.
OpenModel open_model(const std::string& text, const ModelTexts& texts, const LoadOptions& load,
                     const Console& console, ModelUse use = ModelUse::kAny);

}  // namespace sinter::tools
