// SPDX-License-Identifier: Apache-2.0
// Reads a decoder's configuration.
#pragma once

#include "frontend/decoders/architectures.h"
#include "frontend/decoders/config_keys.h"
#include "frontend/decoders/decoder_config.h"
#include "frontend/decoders/tensor_file.h"

namespace sinter::frontend {

/// The row of the architecture that `keys` name. Throws Error(kUnsupported) that names it if there
/// is none.
const Architecture& architecture_of(const ConfigKeys& keys);

/// `weights`: the file's tensors; GGUF's decide what its keys do not say. Throws
/// Error(kInvalidModel) for keys that are missing or contradict each other, Error(kUnsupported)
/// naming a key that changes results and that is not understood.
DecoderConfig read_config(const Architecture& architecture, const ConfigKeys& keys,
                          const TensorFile& weights);

}  // namespace sinter::frontend
