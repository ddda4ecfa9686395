// SPDX-License-Identifier: Apache-2.0
// Files of safetensors: a header of JSON, then tensors as they lie in memory.
// https://huggingface.co/docs/safetensors
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "ir/tensor.h"

namespace sinter::tools {

/// The tensors by name. Their bytes are borrowed from `bytes`, which `owner` keeps alive, or copied
/// if they are misaligned. Errors call the file `what`. Throws Error(kUsage) for invalid
/// safetensors: a header longer than the file or 100 MB, invalid JSON, duplicate tensors, tensors
/// that overlap, leave gaps, exceed the file or have wrong sizes; and for types that Sinter lacks.
std::map<std::string, ir::Tensor> parse_safetensors(std::span<const std::byte> bytes,
                                                    const std::shared_ptr<const void>& owner,
                                                    const std::string& what);

/// The same for a file, which is mapped.
std::map<std::string, ir::Tensor> read_safetensors(const std::string& path);

/// True if the file starts with a plausible header size and a brace. In a protobuf model, the first
/// byte makes that size larger than any file. Throws Error(kUsage) if the file cannot be opened.
bool is_safetensors(const std::string& path);

}  // namespace sinter::tools
