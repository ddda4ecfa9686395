// SPDX-License-Identifier: Apache-2.0
// Spectra of sound in mel bands, as operators.
#pragma once

#include <cstdint>

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

}  // namespace sinter::tools
