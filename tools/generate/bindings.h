// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs of a plan by their names.
#pragma once

#include <string>
#include <vector>

#include <sinter/sinter.h>

namespace sinter::tools {

/// Null if there is none of that name.
const BindingInfo* find_binding(const std::vector<BindingInfo>& bindings, const std::string& name);

/// Throws Error(kUsage) if there is none: that the plan has no `what` of that name, which it has,
/// and the option that names it.
const BindingInfo& require_binding(const std::vector<BindingInfo>& bindings,
                                   const std::string& name, const char* what, const char* option);

/// Whether it is what a decoder exported by Optimum computes of an encoder's output in its first
/// run.
bool is_of_encoder(const BindingInfo& cache);

/// Throws Error(kUsage) if it is, where nothing makes it: another model is to.
void refuse_later_step(const BindingInfo& cache);

inline bool is_fixed(const DimInfo& dim) { return dim.min == dim.max; }

}  // namespace sinter::tools
