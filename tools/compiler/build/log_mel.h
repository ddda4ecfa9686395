// SPDX-License-Identifier: Apache-2.0
// Spectra of sound as operators; an encoder of spectra as one of sound: Whisper's log-mel front
// end.
#pragma once

#include <cstdint>
#include <string>

#include <sinter/compile_options.h>

#include "ir/graph.h"

namespace sinter::tools {

/// Numbers of samples; `rate` a second.
struct MelSizes {
  std::int64_t bands = 0, window = 0;
  std::int64_t transform = 0;  // of the Fourier transform: the window and zeros
  std::int64_t hop = 0;
  double rate = 0;
  bool periodic = false;  // the Hann window's end is its next begin
  std::int64_t bins() const { return transform / 2 + 1; }
  /// That a window lies in.
  std::int64_t hops() const { return (window + hop - 1) / hop; }
};

/// Power spectra under a Hann window in Slaney's mel bands, [1, frames, bands]. `rows` f32 [1,
/// frames + hops - 1, hop]: the sound; frame i begins with row i.
ir::ValueId mel_powers(ir::GraphBuilder& b, ir::ValueId rows, const ir::Dim& frames,
                       const MelSizes& sizes);

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
