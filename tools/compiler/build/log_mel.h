// SPDX-License-Identifier: Apache-2.0
// An encoder of spectra as one of sound: Whisper's log-mel front end in the graph.
#pragma once

#include <string>

#include <sinter/compile_options.h>

#include "ir/graph.h"

namespace sinter::tools {

/// The shape of the input that with_log_mel() replaces. Throws Error(kUsage) for a file that is no
/// preprocessor_config.json of a WhisperFeatureExtractor.
Shapes shapes_of_features(const std::string& file);

/// `encoder`, whose only input is input_features f32 [1, bands, frames], with the input `audio` f32
/// [1, samples] in its place. `file`: preprocessor_config.json of a WhisperFeatureExtractor. Power
/// spectra under a Hann window, of sound that is reflected at its ends; Slaney's mel bands; log10,
/// at least 8 below the largest; (x + 4) / 4. Empty: what Whisper's papers say.
/// Throws Error(kUsage) for other files and encoders.
ir::Graph with_log_mel(const ir::Graph& encoder, const std::string& file);

}  // namespace sinter::tools
