// --sample: how a plan chooses tokens itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sinter/sinter.h>

#include "fusion/append_sampler.h"

namespace sinter::tools {

/// Key of the manifest's options under which a plan says it.
inline constexpr std::string_view kSampleKey = "sample";

/// "greedy", or "top_k=40,top_p=0.9,temperature=0.7", each of which may be missing (the temperature
/// is 1 then); and ids=, position=, logits=NAME, keep_logits. Throws Error(kUsage) quoting what it
/// does not know.
fusion::SamplerOptions parse_sampler(std::string_view text);

/// What the options choose, without names of bindings: parse_sampler reads it.
std::string to_text(const fusion::SamplerOptions& options);

/// The sampler that `plan` was compiled with, or nothing.
std::optional<fusion::SamplerOptions> sampler_of(const Plan& plan);

}  // namespace sinter::tools
