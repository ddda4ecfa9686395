// SPDX-License-Identifier: Apache-2.0
// Strings at the border of a plan, for which integers stand in it: a fact of the manifest.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <sinter/sinter.h>

#include "frontend/model/imported_model.h"
#include "tools/compiler/run/npy.h"

namespace sinter::tools {

/// What numbers of a plan's inputs and outputs stand for, by name.
struct BindingTexts {
  std::map<std::string, frontend::BindingText> inputs, outputs;
};

/// Key of the manifest option that stores them, as JSON: {"inputs": {NAME: {"code": "labels",
/// "labels": [..]}}, "outputs": ..}. The code is "labels" (an integer i for the string labels[i],
/// -1 for one that is not there), "murmur3" (MurmurHash3, x86, 32 bits, "seed", of the string's
/// UTF-8) or "columns" (column i of the last dimension is about labels[i]).
inline constexpr std::string_view kTextsKey = "texts";
std::string to_text(const BindingTexts& texts);
/// Those of `plan`; none if it has none. Throws Error(kInvalidPlan) for malformed ones.
BindingTexts texts_of(const Plan& plan);

/// How arrays of strings become the integers of the inputs of `plan`; see npy.h.
TextTargets text_targets(const Plan& plan);

/// `element` of output `tensor` as people read it: its label, or its number; behind the class's
/// name where columns are classes. `text`: null for numbers.
std::string shown_element(const ir::Tensor& tensor, std::int64_t element,
                          const frontend::BindingText* text);

}  // namespace sinter::tools
