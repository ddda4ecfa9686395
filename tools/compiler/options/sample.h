// SPDX-License-Identifier: Apache-2.0
// How a plan chooses tokens itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sinter/compiler.h>

#include "fusion/append_sampler.h"

namespace sinter::tools {

/// Key of the manifest's options under which a plan says it.
inline constexpr std::string_view kSampleKey = "sample";

fusion::SamplerOptions to_fusion(const SampleOptions& sample);

/// What the options choose, without names of bindings: parse_sample reads it.
std::string to_text(const SampleOptions& options);

/// The sampler that `plan` was compiled with, or nothing.
std::optional<SampleOptions> sampler_of(const Plan& plan);

}  // namespace sinter::tools
