// SPDX-License-Identifier: Apache-2.0
// Whisper's weights in a folder of CTranslate2: model.bin, of its versions 4 to 6.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "frontend/decoders/files/tensor_file.h"
#include "frontend/model/model_file.h"

namespace sinter::frontend {

/// True for a folder with model.bin and without safetensors.
bool is_ct2(const std::filesystem::path& folder);

struct Ct2Model {
  std::shared_ptr<const TensorFile> file;  // tensors by Hugging Face's names
  std::string config;                      // as Hugging Face's config.json
};

/// Throws Error(kInvalidModel) for damaged files, Error(kUnsupported) for other models, versions,
/// and weights of integers.
Ct2Model open_ct2(const std::filesystem::path& folder);
/// The same of a file's bytes, which live as long as `owner` (null: longer than the result); `path`
/// names it.
Ct2Model parse_ct2(std::span<const std::byte> bytes, std::shared_ptr<const MappedFile> owner,
                   const std::filesystem::path& path);

}  // namespace sinter::frontend
