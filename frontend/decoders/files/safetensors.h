// SPDX-License-Identifier: Apache-2.0
// Files of safetensors: a header of JSON, then tensors as they lie in memory.
// https://huggingface.co/docs/safetensors
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "frontend/model/model_file.h"
#include "ir/tensor.h"

namespace sinter::frontend {

/// The tensors by name. Their bytes are borrowed from `bytes`, which lie in `file` unless it is
/// null, or computed from them if they are misaligned. Errors call the file `what`. Throws
/// Error(kUsage) for invalid safetensors: a header longer than the file or 32 MB, invalid JSON,
/// duplicate tensors, tensors that overlap, leave gaps, exceed the file or have wrong sizes; and
/// for types that Sinter lacks.
std::map<std::string, ir::Tensor> parse_safetensors(std::span<const std::byte> bytes,
                                                    const std::shared_ptr<const MappedFile>& file,
                                                    const std::string& what);

/// The elements in `part` of `file`, if that is not null: where they lie, unless they are
/// misaligned or may be no valid bool.
std::shared_ptr<const ir::Buffer> bytes_in_file(DType type, std::span<const std::byte> part,
                                                const std::shared_ptr<const MappedFile>& file);

/// The same for a file, which is mapped.
std::map<std::string, ir::Tensor> read_safetensors(const std::string& path);

/// True if the file starts with a plausible header size and a brace. In a protobuf model, the first
/// byte makes that size larger than any file. Throws Error(kUsage) if the file cannot be opened.
bool is_safetensors(const std::string& path);

}  // namespace sinter::frontend
