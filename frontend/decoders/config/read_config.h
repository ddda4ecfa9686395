// SPDX-License-Identifier: Apache-2.0
// Reads a decoder's configuration.
#pragma once

#include "frontend/decoders/config/architectures.h"
#include "frontend/decoders/config/config_keys.h"
#include "frontend/decoders/config/decoder_config.h"
#include "frontend/decoders/files/tensor_file.h"

namespace sinter::frontend {

/// `weights`: the file's tensors; GGUF's decide what its keys do not say. `text`: what the graph is
/// for (text_use()). Throws
/// Error(kInvalidModel) for keys that are missing or contradict each other, Error(kUnsupported)
/// naming a key that changes results and that is not understood.
DecoderConfig read_config(const Architecture& architecture, const ConfigKeys& keys,
                          const TensorFile& weights, const TextConfig& text = {});

/// The sizes of layers without attention, which `row` has. Throws as read_config() does.
void read_mixer(const Architecture& row, const ConfigKeys& keys, DecoderConfig& config);

/// The activation that `key` of a config.json calls `name`. Throws Error(kUnsupported) for others.
Activation activation_of(std::string_view key, std::string_view name);

/// Throws Error(kUnsupported) that names a key which nobody has read and which changes results;
/// other unknown keys go to `notes`.
void check_unread(const ConfigKeys& keys, std::string_view architecture,
                  std::vector<std::string>& notes);

}  // namespace sinter::frontend
